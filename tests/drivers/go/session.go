// A session by go-sql-driver; prints all that it tells. usage: session NAME=VALUE... (names: ../README.md)
package main

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

var (
	given = map[string]string{}
	ctx   = context.Background()
)

const (
	filled = "CREATE TABLE filled (id INT PRIMARY KEY, big BIGINT UNSIGNED, f DOUBLE, d DECIMAL(20,6), t VARCHAR(300), " +
		"raw BLOB, day DATE, at DATETIME(6), span TIME(6), yes BOOL)"
	numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) " +
		"SELECT a.i, REPEAT('s', a.i) AS s FROM n a, n b WHERE b.i <= 9 ORDER BY a.i"
	procedure = "CREATE PROCEDURE two_results(IN a INT, OUT b INT) BEGIN SELECT a AS first; " +
		"SELECT a + n AS second FROM (SELECT 1 AS n UNION SELECT 2) AS t; SET b = a * 2; END"
)

func title(text string) { fmt.Println("----", text) }

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A statement ends with a semicolon at the end of a line.
func statements() (list []string) {
	text, err := os.ReadFile(given["file"])
	check(err)
	for _, part := range strings.Split(string(text), ";\n") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return
}

func hash(value []byte) string { return fmt.Sprintf("%x", sha256.Sum256(value)) }

// A value's text; of a long one its beginning, its length and a hash.
func short(value interface{}) string {
	text := fmt.Sprintf("%T %v", value, value)
	switch v := value.(type) {
	case []byte:
		text = fmt.Sprintf("bytes %q", v)
	case string:
		text = strconv.Quote(v)
	case time.Time:
		text = v.Format(time.RFC3339Nano)
	}
	if len(text) < 400 {
		return text
	}
	return fmt.Sprintf("%s ... %d %s", text[:80], len(text), hash([]byte(text))[:16])
}

func failure(err error) {
	var own *mysql.MySQLError
	switch {
	case errors.As(err, &own):
		fmt.Printf("  error %d %q\n", own.Number, own.Message)
	default:
		fmt.Printf("  error %T %v\n", err, err)
	}
}

// One connection; `interpolate` puts values into the text, else statements with values are prepared.
func connect(interpolate, parseTime bool, more map[string]string) (*sql.DB, *sql.Conn, error) {
	to := func(name string) string {
		if value, ok := more[name]; ok {
			return value
		}
		return given[name]
	}
	config := mysql.NewConfig()
	config.Net, config.Addr = "tcp", net.JoinHostPort(to("host"), to("port"))
	config.User, config.Passwd, config.DBName = to("user"), to("password"), to("schema")
	config.InterpolateParams, config.ParseTime, config.MultiStatements = interpolate, parseTime, true
	config.Collation, config.MaxAllowedPacket = "utf8mb4_unicode_ci", 128<<20
	config.AllowCleartextPasswords = given["cleartext"] == "on"
	if given["tls"] == "on" {
		config.TLSConfig = "test"
	}
	connector, err := mysql.NewConnector(config)
	check(err)
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	connection, err := db.Conn(ctx)
	return db, connection, err
}

func show(rows *sql.Rows) {
	defer rows.Close()
	for {
		types, err := rows.ColumnTypes()
		check(err)
		for _, c := range types {
			length, hasLength := c.Length()
			precision, scale, hasScale := c.DecimalSize()
			nullable, known := c.Nullable()
			fmt.Println("  column", c.Name(), c.DatabaseTypeName(), c.ScanType(), length, hasLength, precision, scale, hasScale, nullable, known)
		}
		for rows.Next() {
			values := make([]interface{}, len(types))
			places := make([]interface{}, len(types))
			for n := range values {
				places[n] = &values[n]
			}
			if err := rows.Scan(places...); err != nil {
				failure(err)
			}
			texts := make([]string, len(values))
			for n, value := range values {
				texts[n] = short(value)
			}
			fmt.Println("  row", strings.Join(texts, ", "))
		}
		if !rows.NextResultSet() {
			break
		}
	}
	if err := rows.Err(); err != nil {
		failure(err)
	}
}

// Statements without rows tell about rows that changed; the driver has a call for each kind.
func returnsRows(text string) bool {
	for _, verb := range []string{"SELECT", "SHOW", "EXPLAIN", "WITH", "TABLE", "CALL", "EXECUTE"} {
		if strings.HasPrefix(text, verb) {
			return true
		}
	}
	return strings.Contains(text, "RETURNING")
}

func run(db *sql.Conn, text string, values ...interface{}) {
	fmt.Println(text)
	if returnsRows(text) {
		rows, err := db.QueryContext(ctx, text, values...)
		if err != nil {
			failure(err)
			return
		}
		show(rows)
		return
	}
	result, err := db.ExecContext(ctx, text, values...)
	if err != nil {
		failure(err)
		return
	}
	affected, _ := result.RowsAffected()
	id, _ := result.LastInsertId()
	fmt.Println("  affected", affected, "id", id)
}

func prepared(db *sql.Conn, text string) {
	fmt.Println(text)
	statement, err := db.PrepareContext(ctx, text)
	if err != nil {
		failure(err)
		return
	}
	defer statement.Close()
	for n := 0; n < 2; n++ { // twice: the second one is the same statement
		if !returnsRows(text) {
			if _, err := statement.ExecContext(ctx); err != nil {
				failure(err)
			}
			return
		}
		rows, err := statement.QueryContext(ctx)
		if err != nil {
			failure(err)
			return
		}
		show(rows)
	}
}

func script(how func(*sql.Conn, string), parseTime bool) {
	pool, db, err := connect(true, parseTime, nil)
	check(err)
	for _, text := range statements() {
		how(db, text)
	}
	db.Close()
	pool.Close()
}

func fill(interpolate bool) {
	pool, db, err := connect(interpolate, true, nil)
	check(err)
	defer pool.Close()
	defer db.Close()
	run(db, "DROP TABLE IF EXISTS filled")
	run(db, filled)
	all := make([]byte, 256)
	for n := range all {
		all[n] = byte(n)
	}
	insert := "INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	first := []interface{}{1, "18446744073709551615", 1.5e300, "12345678901234.567891", "täxt 😀 ' \" \\ \x00 ?", all,
		time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 10, 11, 12, 345678000, time.UTC), "-12:34:00.000005", true}
	run(db, insert, first...)
	run(db, insert, 2, uint64(1)<<62, -0.5, "-0.000001", "", []byte{}, "0001-01-01", time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC), "00:00:00", false)
	run(db, insert, 3, nil, nil, nil, nil, nil, nil, nil, nil, nil)
	run(db, insert, first...)
	run(db, "SELECT * FROM filled WHERE id >= ? AND (t IS NULL OR t <> ?) ORDER BY id", 1, "nothing")
	run(db, "SELECT ?, ?, ?, ?", int64(-1), 0.1, nil, []byte("bytes"))
	run(db, "UPDATE filled SET f = f + ? WHERE id = ?", 1.5, 2)
}

func transactions(db *sql.Conn) {
	for _, options := range []*sql.TxOptions{nil, {Isolation: sql.LevelSerializable}, {ReadOnly: true}} {
		tx, err := db.BeginTx(ctx, options)
		check(err)
		if _, err = tx.ExecContext(ctx, "DELETE FROM filled"); err != nil {
			failure(err)
		}
		check(tx.Rollback())
	}
	tx, err := db.BeginTx(ctx, nil)
	check(err)
	_, err = tx.ExecContext(ctx, "DELETE FROM filled WHERE id = ?", 3)
	check(err)
	check(tx.Commit())
	run(db, "SELECT COUNT(*), @@autocommit FROM filled")
}

func several(db *sql.Conn) {
	run(db, "DROP PROCEDURE IF EXISTS two_results")
	run(db, procedure)
	run(db, "CALL two_results(20, @b)")
	run(db, "SELECT @b")
	run(db, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3")
	// an error behind the first result makes this version of the driver wait for ever
	run(db, "SELECT 'after'")
}

func upload(db *sql.Conn) {
	run(db, "DROP TABLE IF EXISTS uploaded")
	run(db, "CREATE TABLE uploaded (id INT PRIMARY KEY, t VARCHAR(20)) CHARACTER SET utf8mb4")
	mysql.RegisterLocalFile(given["rows"])
	mysql.RegisterLocalFile(given["rows"] + ".missing")
	for _, file := range []string{given["rows"], given["rows"], given["rows"] + ".missing"} {
		run(db, "LOAD DATA LOCAL INFILE '"+file+"' INTO TABLE uploaded CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'")
		run(db, "SHOW WARNINGS")
	}
	run(db, "SELECT * FROM uploaded ORDER BY id")
}

func streaming(db *sql.Conn) {
	total := 0
	for n := 0; n < 2; n++ {
		rows, err := db.QueryContext(ctx, numbers)
		check(err)
		for rows.Next() {
			var i int
			var s string
			check(rows.Scan(&i, &s))
			total += i + len(s)
			if n == 1 { // the rest is read by Close
				break
			}
		}
		check(rows.Close())
	}
	fmt.Println("  streamed", total)
	run(db, "SELECT 'after'")
}

// Characters in which no piece repeats soon, so that a lost or doubled packet shows.
func big(size int) {
	var block strings.Builder
	for n := 0; n < 1<<14; n++ {
		block.WriteString(hash([]byte(strconv.Itoa(n))))
	}
	value := strings.Repeat(block.String(), size/block.Len()+1)[:size]
	fmt.Println("  sent", size, hash([]byte(value)))
	for _, interpolate := range []bool{true, false} {
		pool, db, err := connect(interpolate, false, nil)
		check(err)
		var back []byte
		var length int
		if err := db.QueryRowContext(ctx, "SELECT ? AS v, LENGTH(?) AS l", value, "short").Scan(&back, &length); err != nil {
			failure(err)
		}
		fmt.Println("  back", len(back), hash(back), length)
		db.Close()
		pool.Close()
	}
}

func refused() {
	for _, wrong := range []map[string]string{{"password": "wrong"}, {"schema": "no_such_schema"}} {
		if _, _, err := connect(true, false, wrong); err != nil {
			failure(err)
		} else {
			fmt.Println("  let in")
		}
	}
}

func main() {
	for _, argument := range os.Args[1:] {
		name, value, _ := strings.Cut(argument, "=")
		given[name] = value
	}
	if given["tls"] == "on" {
		pem, err := os.ReadFile(given["ca"])
		check(err)
		authorities := x509.NewCertPool()
		authorities.AppendCertsFromPEM(pem)
		// the name is the proxy's or the server's: all of 127.0.0.0/8 is one machine
		check(mysql.RegisterTLSConfig("test", &tls.Config{RootCAs: authorities, ServerName: "localhost"}))
	}
	pool, db, err := connect(true, false, nil)
	check(err)
	if given["steps"] == "login" {
		run(db, "SELECT CURRENT_USER(), DATABASE()")
		db.Close()
		pool.Close()
		return
	}
	title("script")
	script(func(db *sql.Conn, text string) { run(db, text) }, false)
	title("script, prepared")
	script(prepared, true)
	for _, interpolate := range []bool{true, false} {
		title(fmt.Sprint("values, interpolated ", interpolate))
		fill(interpolate)
	}
	title("transactions")
	transactions(db)
	title("several")
	several(db)
	title("upload")
	upload(db)
	title("streaming")
	streaming(db)
	if size, _ := strconv.Atoi(given["big"]); size > 0 {
		title("big")
		big(size)
	}
	check(db.PingContext(ctx))
	db.Close()
	pool.Close()
	title("refused")
	refused()
}
