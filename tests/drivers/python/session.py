#!/usr/bin/env python3
"""A session by one of Python's drivers that follow the DB-API; prints all that the driver tells.

usage: session.py pymysql|mysqlclient|connector|asyncmy NAME=VALUE...   (the names are in ../README.md)
"""
import datetime
import decimal
import socket
import ssl
import sys
import warnings

from common import ARGUMENTS, BIG, COMPRESS, TLS, big_value, digest, failure, row, statements, title


class PyMySQL:
    """No compression, no prepared statements."""
    def __init__(self):
        import pymysql
        import pymysql.cursors
        self.errors = pymysql.MySQLError
        self.module = pymysql
        self.streaming = {"cursor": pymysql.cursors.SSCursor}

    def connect(self, **more):
        context = ssl.create_default_context(cafile=ARGUMENTS["ca"])
        context.check_hostname = False
        settings = dict(host=ARGUMENTS["host"], port=int(ARGUMENTS["port"]), user=ARGUMENTS["user"],
                        password=ARGUMENTS["password"], database=ARGUMENTS["schema"], charset="utf8mb4",
                        autocommit=True, local_infile=True, ssl=context if TLS else None, ssl_disabled=not TLS,
                        client_flag=self.module.constants.CLIENT.MULTI_STATEMENTS)
        return self.module.connect(**{**settings, **more})

    def more(self, connection):
        print("  server", connection.get_server_info(), connection.character_set_name())
        connection.ping(reconnect=False)
        connection.select_db("information_schema")


class MySQLClient:
    """On MariaDB's C library."""
    def __init__(self):
        import MySQLdb
        import MySQLdb.cursors
        self.errors = MySQLdb.MySQLError
        self.module = MySQLdb
        self.streaming = {"cursorclass": MySQLdb.cursors.SSCursor}

    def connect(self, **more):
        names = {"password": "passwd", "database": "db"}
        settings = dict(host=ARGUMENTS["host"], port=int(ARGUMENTS["port"]), user=ARGUMENTS["user"],
                        passwd=ARGUMENTS["password"], db=ARGUMENTS["schema"], charset="utf8mb4", autocommit=True,
                        local_infile=1, ssl_mode="REQUIRED" if TLS else "DISABLED", compress=COMPRESS)
        if TLS:
            settings["ssl"] = {"ca": ARGUMENTS["ca"]}
        return self.module.connect(**{**settings, **{names.get(name, name): value for name, value in more.items()}})

    def more(self, connection):
        print("  server", connection.get_server_info(), connection.get_character_set_info())
        connection.ping()
        connection.set_server_option(1)
        connection.set_server_option(0)
        connection.query("SELECT 1/0, 'warned'")
        connection.store_result()
        print("  warnings", connection.warning_count(), connection.show_warnings())
        connection.select_db("information_schema")
        connection.query("SET @kept = 1")
        connection.change_user(ARGUMENTS["user"], ARGUMENTS["password"], ARGUMENTS["schema"])
        run(self, connection, "SELECT @kept, DATABASE()")


class Connector:
    """MySQL's own, the one that is all Python; the statements of its prepared cursors are the server's."""
    def __init__(self):
        import mysql.connector
        self.errors = mysql.connector.Error
        self.module = mysql.connector
        self.streaming = {"buffered": False}

    def connect(self, **more):
        settings = dict(host=ARGUMENTS["host"], port=int(ARGUMENTS["port"]), user=ARGUMENTS["user"],
                        password=ARGUMENTS["password"], database=ARGUMENTS["schema"], charset="utf8mb4",
                        autocommit=True, allow_local_infile=True, use_pure=True, ssl_disabled=not TLS,
                        compress=COMPRESS)
        if TLS:
            settings.update(ssl_ca=ARGUMENTS["ca"], ssl_verify_cert=True)
        connection = self.module.connect(**{**settings, **more})
        # it writes twice before it reads, so that each statement would wait 40 ms for an acknowledgement
        connection._socket.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def more(self, connection):
        print("  server", connection.server_info, connection.charset, connection.collation)
        connection.ping()
        print("  reset", connection.cmd_reset_connection())
        connection.cmd_init_db("information_schema")
        run(self, connection, "SET @kept = 1")
        if not COMPRESS: # the driver refuses both at once
            connection.cmd_change_user(ARGUMENTS["user"], ARGUMENTS["password"], ARGUMENTS["schema"])
        run(self, connection, "SELECT @kept, DATABASE()")
        connection.start_transaction(consistent_snapshot=True, isolation_level="READ COMMITTED",
                                     readonly=ARGUMENTS["vendor"] == "mysql" or None)
        print("  in transaction", connection.in_transaction)
        connection.rollback()
        print("  in transaction", connection.in_transaction)


class Asyncmy:
    """No compression; statements of its own kind, which the server prepares."""
    def __init__(self):
        import asyncmy.cursors
        import asyncmy.errors
        self.errors = asyncmy.errors.MySQLError
        self.streaming = {"kind": asyncmy.cursors.SSCursor}

    def connect(self, **more):
        from asyncmy.constants import CLIENT
        import blocking
        settings = dict(host=ARGUMENTS["host"], port=int(ARGUMENTS["port"]), user=ARGUMENTS["user"],
                        password=ARGUMENTS["password"], database=ARGUMENTS["schema"], charset="utf8mb4",
                        autocommit=True, local_infile=True, client_flag=CLIENT.MULTI_STATEMENTS,
                        ssl=blocking.context(ARGUMENTS["ca"]) if TLS else None)
        return blocking.connect(**{**settings, **more})

    def more(self, connection):
        print("  server", connection.get_server_info(), connection.character_set_name())
        connection.ping()
        connection.select_db("information_schema")
        run(self, connection, "SELECT DATABASE()")


def show(cursor):
    print("  rows affected %d, last id %s, warnings %s"
          % (cursor.rowcount, cursor.lastrowid, getattr(cursor, "warning_count", None)))
    if cursor.description:
        print("  columns", [tuple(column) for column in cursor.description])
        for values in cursor.fetchall():
            row(values)


def run(driver, connection, sql, values=None, **options):
    """Runs one statement, or one for each of a list of lists of values; false when the driver cannot read the reply."""
    understood = True
    print(sql if len(sql) < 300 else sql[:300] + "...")
    cursor = connection.cursor(**options)
    try:
        if isinstance(values, list):
            cursor.executemany(sql, values)
        else:
            cursor.execute(sql, values)
        while True:
            show(cursor)
            if not cursor.nextset():
                break
    except driver.errors as error:
        failure(error)
    except (ValueError, TypeError, OverflowError, IndexError) as error:
        print("  %s %s" % (type(error).__name__, error))
        understood = False
    try:
        cursor.close()
    except driver.errors as error:
        failure(error)
    return understood


def script(driver, **options):
    connection = driver.connect()
    for sql in statements():
        if not run(driver, connection, sql, **options):
            connection = driver.connect() # the old one has rows that nobody reads
    connection.close()


def values(driver, connection, **options):
    run(driver, connection, "DROP TABLE IF EXISTS filled")
    run(driver, connection, "CREATE TABLE filled (id INT PRIMARY KEY, big BIGINT UNSIGNED, f DOUBLE, d DECIMAL(20,6), "
        "t VARCHAR(300), raw BLOB, day DATE, at DATETIME(6), span TIME(6), yes BOOL)")
    insert = "INSERT INTO filled VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
    rows = [
        (1, 18446744073709551615, 1.5e300, decimal.Decimal("12345678901234.567891"), "täxt 😀 ' \" \\ \0 %", bytes(range(256)),
         datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 10, 11, 12, 345678),
         datetime.timedelta(hours=-12, minutes=-34, microseconds=-5), True),
        (2, 0, -0.0, decimal.Decimal("-0.000001"), "", b"", datetime.date(1, 1, 1),
         datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), datetime.timedelta(0), False),
        (3,) + (None,) * 9]
    for one in rows:
        run(driver, connection, insert, one, **options)
    run(driver, connection, insert, rows[0], **options)
    run(driver, connection, "SELECT * FROM filled WHERE id >= %s AND (t IS NULL OR t <> %s) ORDER BY id", (1, "nothing"), **options)
    run(driver, connection, "SELECT %s, %s, %s, %s, %s", rows[0][1:5] + (None,), **options)
    run(driver, connection, "UPDATE filled SET f = f + %s WHERE id = %s", (1, 2), **options)
    run(driver, connection, "INSERT INTO filled (id, t, raw) VALUES (%s, %s, %s)",
        [(n, "text é %d" % n, bytes(range(n % 256))) for n in range(100, 110 if options else 400)], **options)
    run(driver, connection, "SELECT COUNT(*), SUM(LENGTH(raw)), MAX(t) FROM filled", **options)


def transactions(driver, connection):
    connection.autocommit = False if isinstance(driver, Connector) else connection.autocommit(False)
    run(driver, connection, "DELETE FROM filled WHERE id < 3")
    connection.rollback()
    run(driver, connection, "SELECT COUNT(*) FROM filled WHERE id < 3")
    run(driver, connection, "DELETE FROM filled WHERE id = 3")
    connection.commit()
    run(driver, connection, "SELECT COUNT(*), @@autocommit FROM filled WHERE id < 4")
    connection.commit()


def several(driver, connection):
    connection = driver.connect()
    run(driver, connection, "DROP PROCEDURE IF EXISTS two_results")
    run(driver, connection, "CREATE PROCEDURE two_results(IN a INT, OUT b INT) BEGIN SELECT a AS first; "
        "SELECT a + n AS second FROM (SELECT 1 AS n UNION SELECT 2) AS t; SET b = a * 2; END")
    cursor = connection.cursor()
    print("  callproc", cursor.callproc("two_results", (20, 0)))
    for results in cursor.stored_results() if isinstance(driver, Connector) else [cursor]:
        show(results)
        while results.nextset():
            show(results)
    cursor.close()
    run(driver, connection, "SELECT @_two_results_1")
    run(driver, connection, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3; SELEC; SELECT 4")
    run(driver, connection, "SELECT 'after'")
    connection.close()


def upload(driver):
    connection = driver.connect() # one of its own: not all drivers survive a file that is missing
    run(driver, connection, "DROP TABLE IF EXISTS uploaded")
    run(driver, connection, "CREATE TABLE uploaded (id INT PRIMARY KEY, t VARCHAR(20)) CHARACTER SET utf8mb4")
    load = "LOAD DATA LOCAL INFILE '%s' INTO TABLE uploaded CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'"
    for _ in range(2):
        run(driver, connection, load % ARGUMENTS["rows"])
        run(driver, connection, "SHOW WARNINGS")
    run(driver, connection, "SELECT * FROM uploaded ORDER BY id")
    run(driver, connection, load % (ARGUMENTS["rows"] + ".missing"))
    if not isinstance(driver, Connector):
        run(driver, connection, "SELECT 'after'")
    connection.close()


def streaming(driver, connection):
    """Rows one by one as they come, and a result that is not read to its end."""
    if isinstance(driver, Connector) and COMPRESS:
        return # it stumbles over a packet's header that two frames share
    numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) SELECT a.i, REPEAT('s', a.i) FROM n a, n b WHERE b.i <= 9 ORDER BY a.i"
    cursor = connection.cursor(**driver.streaming)
    cursor.execute(numbers)
    total = 0
    for values in iter(cursor.fetchone, None):
        total += values[0] + len(values[1])
    print("  streamed", total)
    cursor.execute(numbers)
    print("  first", cursor.fetchmany(2))
    if isinstance(driver, Connector): # it wants the rest to be read
        cursor.fetchall()
    cursor.close()
    run(driver, connection, "SELECT 'after'")


def big(driver, connection, **options):
    value = big_value()
    if options or isinstance(driver, Asyncmy): # what they cannot read in several packets
        value = value[:1 << 23]
    print("  sent", digest(value))
    cursor = connection.cursor(**options)
    cursor.execute("SELECT %s AS v, LENGTH(%s) AS l", (value, "short"))
    back, _ = cursor.fetchall()[0]
    print("  back", digest(back))
    cursor.close()


def refused(driver):
    for more in ({"password": "wrong"}, {"database": "no_such_schema"}):
        try:
            driver.connect(**more).close()
            print("  let in")
        except driver.errors as error:
            failure(error)


def main():
    warnings.simplefilter("ignore")
    driver = {"pymysql": PyMySQL, "mysqlclient": MySQLClient, "connector": Connector, "asyncmy": Asyncmy}[sys.argv[1]]()
    prepares = isinstance(driver, (Connector, Asyncmy))
    ways = [{}, {"prepared": True}] if prepares else [{}]
    if ARGUMENTS["steps"] == "login":
        connection = driver.connect()
        run(driver, connection, "SELECT CURRENT_USER(), DATABASE()")
        connection.close()
        return
    for way in ways:
        title("script %s" % way)
        script(driver, **way)
    connection = driver.connect()
    for way in ways:
        title("values %s" % way)
        values(driver, connection, **way)
    title("transactions")
    transactions(driver, connection)
    title("several results")
    several(driver, connection)
    if not isinstance(driver, Asyncmy): # it fails at every file
        title("upload")
        upload(driver)
    title("streaming")
    streaming(driver, connection)
    if BIG:
        for way in ways:
            title("big value %s" % way)
            big(driver, connection, **way)
    title("more")
    driver.more(connection)
    connection.close()
    title("refused")
    refused(driver)


main()
