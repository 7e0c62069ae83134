//! Text protocol: replies of every shape, byte for byte.

use anyhow::Result;
use e2e::{Cluster, Login, Proxy, transcript::same};
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    replies_of_every_shape,
    old_style_ends_of_results,
    session_state_in_ok_packets,
    several_statements_in_one,
    many_rows,
    pipelined_commands,
    commands_other_than_queries,
    unknown_commands_do_not_end_the_session,
    local_infile,
    an_error_in_mid_result,
);

/// Statements whose replies differ in shape.
const SHAPES: &[&str] = &[
    "SELECT 1",
    "SELECT 1 WHERE 1 = 0",
    "SELECT NULL, '', 'a', REPEAT('b', 300), REPEAT('c', 70000)",
    "SELECT 'ä' AS `name of a column`, x'00FF'",
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, a VARCHAR(20), b BLOB)",
    "INSERT INTO t (a) VALUES ('one'), ('two'), (NULL)",
    "SELECT * FROM t ORDER BY id",
    "SELECT t.a AS alias, s.* FROM t JOIN t s USING (id) ORDER BY id",
    "UPDATE t SET a = 'x' WHERE id < 3",
    "DELETE FROM t WHERE id = 3",
    "INSERT IGNORE INTO t (id) VALUES (1)",
    "SHOW WARNINGS",
    "SELECT CAST('x' AS SIGNED)",
    "SELECT * FROM missing",
    "SELEC",
    "",
    ";",
    "-- nothing but a comment",
    // the text as the server got it
    "/* comment */ SELECT INFO FROM information_schema.PROCESSLIST \
     WHERE DB = DATABASE() AND INFO IS NOT NULL",
    "/*!40101 SET @from_a_comment = 5 */",
    "SELECT @from_a_comment",
    "DO 1",
    "SET @x = 1",
    "SET autocommit = 0",
    "SELECT COUNT(*) FROM t",
    "SET autocommit = 1",
    "BEGIN",
    "INSERT INTO t (a) VALUES ('in a transaction')",
    "COMMIT",
    "SHOW TABLES",
    "DESCRIBE t",
    "CHECKSUM TABLE t",
    "EXPLAIN SELECT 1",
    "USE information_schema",
    "SELECT DATABASE()",
    "SELECT SLEEP(0)",
    "DROP TABLE missing.missing",
];

fn shapes(cluster: &Cluster, login: &Login) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, login, |client, transcript| {
        for sql in SHAPES {
            transcript.add(sql, &client.query(sql)?);
        }
        Ok(())
    })
}

fn replies_of_every_shape(cluster: &Cluster) -> Result<()> {
    shapes(cluster, &cluster.admin())
}

fn old_style_ends_of_results(cluster: &Cluster) -> Result<()> {
    shapes(cluster, &cluster.admin().without(Capabilities::DEPRECATE_EOF))
}

fn session_state_in_ok_packets(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().with(Capabilities::SESSION_TRACK);
    same(cluster, &proxy, &login, |client, transcript| {
        for sql in [
            "SET SESSION session_track_system_variables = 'autocommit,time_zone,sql_mode'",
            "SET SESSION session_track_schema = ON, session_track_state_change = ON",
            "SET SESSION session_track_transaction_info = 'CHARACTERISTICS'",
            "SET time_zone = '+01:00', autocommit = 0",
            "USE mysql",
            "SET sql_mode = ''",
            "START TRANSACTION READ ONLY",
            "SELECT 1",
            "COMMIT",
            "SET @nothing = 'that is tracked'",
        ] {
            transcript.add(sql, &client.query(sql)?);
        }
        Ok(())
    })
}

fn several_statements_in_one(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().with(Capabilities::MULTI_STATEMENTS);
    same(cluster, &proxy, &login, |client, transcript| {
        client.must("CREATE TABLE t (a INT)")?;
        client.must(
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2, 3; INSERT INTO t VALUES (4); END",
        )?;
        for sql in [
            "SELECT 1; SELECT 2",
            "INSERT INTO t VALUES (1); SELECT * FROM t; DELETE FROM t",
            "SELECT 1; SELECT * FROM missing; SELECT 3",
            "SELEC; SELECT 1",
            "DO 1; DO 2;",
            "CALL p()",
            "CALL p(); SELECT 'after'",
            "SELECT 1;;",
            "BEGIN; INSERT INTO t VALUES (9); COMMIT; SELECT a FROM t",
        ] {
            transcript.add(sql, &client.query(sql)?);
        }
        Ok(())
    })
}

fn many_rows(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    for login in [cluster.admin(), cluster.admin().without(Capabilities::DEPRECATE_EOF)] {
        same(cluster, &proxy, &login, |client, transcript| {
            client.must("CREATE TABLE n (i INT)")?;
            client.must("INSERT INTO n VALUES (0),(1),(2),(3),(4),(5),(6),(7),(8),(9)")?;
            // sequence ids wrap, packets are cut by the borders of reads, and some rows are empty
            let sql = "SELECT a.i, IF(b.i = 3, NULL, ''), REPEAT('x', 40 * c.i * d.i) \
                       FROM n a, n b, n c, n d ORDER BY a.i, b.i, c.i, d.i";
            transcript.add(sql, &client.query(sql)?);
            transcript.add("after", &client.query("SELECT 'after'")?);
            Ok(())
        })?;
    }
    Ok(())
}

fn pipelined_commands(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        let statements =
            ["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", "SELEC", "SELECT * FROM t"];
        let mut bytes = Vec::new();
        for sql in statements {
            bytes.extend(client.framed(CommandCode::QUERY, sql.as_bytes()));
        }
        client.send(&bytes)?;
        for sql in statements {
            transcript.add(sql, &client.receive(CommandCode::QUERY)?);
        }
        Ok(())
    })
}

fn commands_other_than_queries(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        client.must("CREATE TABLE t (a INT, b VARCHAR(5) DEFAULT 'x')")?;
        let schema = client.rows("SELECT DATABASE()")?[0][0].clone().unwrap_or_default();
        for (code, body) in [
            (CommandCode::PING, &b""[..]),
            (CommandCode::INIT_DB, b"information_schema"),
            (CommandCode::INIT_DB, b"no such schema"),
            (CommandCode::INIT_DB, schema.as_bytes()),
            (CommandCode::SET_OPTION, b"\0\0"),
            (CommandCode::QUERY, b"SELECT 1; SELECT 2"),
            (CommandCode::SET_OPTION, b"\x01\0"),
            (CommandCode::QUERY, b"SELECT 1; SELECT 2"),
            (CommandCode::DEBUG, b""),
            (CommandCode::RESET_CONNECTION, b""),
            (CommandCode::QUERY, b"SELECT DATABASE(), @@autocommit"),
        ] {
            transcript.add(code.name(), &client.command(code, body)?);
        }
        Ok(())
    })
}

fn unknown_commands_do_not_end_the_session(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        for code in [0x50, 0xEF] {
            transcript.add("unknown", &client.command(CommandCode(code), b"body")?);
        }
        transcript.add("lives", &client.query("SELECT 'lives'")?);
        Ok(())
    })
}

fn local_infile(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().with(Capabilities::LOCAL_FILES);
    same(cluster, &proxy, &login, |client, transcript| {
        client.must("CREATE TABLE t (a INT, b VARCHAR(20))")?;
        let sql = "LOAD DATA LOCAL INFILE 'rows' INTO TABLE t FIELDS TERMINATED BY ','";
        let big: String = (0..50_000).map(|n| format!("{n},line {n}\n")).collect();
        for data in ["1,one\n2,two\n", "", &big, "3,three\nno number,four\n5,five\n"] {
            transcript.add(sql, &client.upload(sql, data.as_bytes())?);
            transcript.add("count", &client.query("SELECT COUNT(*), SUM(a) FROM t")?);
        }
        // refused before a file is asked for
        for sql in [
            "LOAD DATA LOCAL INFILE 'rows' INTO TABLE missing",
            "LOAD DATA INFILE '/etc/hostname' INTO TABLE missing",
        ] {
            transcript.add(sql, &client.query(sql)?);
        }
        Ok(())
    })?;
    // nobody has offered to send files
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        client.must("CREATE TABLE t (a INT)")?;
        let refused = client.query("LOAD DATA LOCAL INFILE 'rows' INTO TABLE t")?;
        assert!(refused.error().is_some());
        transcript.add("refused", &refused);
        transcript.add("after", &client.query("SELECT 'after'")?);
        Ok(())
    })
}

fn an_error_in_mid_result(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        client.must("CREATE TABLE t (a INT)")?;
        client.must("INSERT INTO t VALUES (1), (2), (3)")?;
        // the third row needs a subquery that gives two rows
        let sql = "SELECT a, IF(a < 3, 0, (SELECT 1 UNION SELECT 2)) FROM t ORDER BY a LIMIT 5";
        transcript.add(sql, &client.query(sql)?);
        transcript.add("after", &client.query("SELECT 'after'")?);
        Ok(())
    })
}
