#!/usr/bin/env python3
"""Run the statements of session.sql through a driver and print all that it tells about them.

usage: session.py pymysql|mysqlclient HOST PORT USER PASSWORD SCHEMA tls|plain FILE
"""
import sys
import warnings


def connect(driver, host, port, user, password, schema, tls):
    settings = dict(host=host, port=int(port), user=user, charset="utf8mb4", autocommit=True)
    if driver == "pymysql":
        import pymysql
        return pymysql.connect(password=password, database=schema, ssl={"check_hostname": False} if tls else None,
                               ssl_disabled=not tls, **settings), pymysql.MySQLError
    import MySQLdb
    return MySQLdb.connect(passwd=password, db=schema, ssl_mode="REQUIRED" if tls else "DISABLED",
                           **settings), MySQLdb.MySQLError


def statements(path):
    """A statement ends with a semicolon at the end of a line."""
    with open(path, encoding="utf-8") as file:
        return [part.strip() for part in (file.read()).split(";\n") if part.strip()]


def show(cursor):
    print("  rows affected %d, last id %s" % (cursor.rowcount, cursor.lastrowid))
    if cursor.description:
        print("  columns", [tuple(column) for column in cursor.description])
        for row in cursor.fetchall():
            text = repr(row)
            print("  row", text if len(text) < 300 else text[:300] + " ... %d" % len(text))


def run(connection, error_class, sql):
    print(sql)
    with connection.cursor() as cursor:
        try:
            cursor.execute(sql)
            while True:
                show(cursor)
                if not cursor.nextset():
                    break
        except error_class as error:
            print("  %s %r" % (type(error).__name__, error.args))


def main():
    driver, host, port, user, password, schema, tls, path = sys.argv[1:]
    warnings.simplefilter("ignore")
    connection, error_class = connect(driver, host, port, user, password, schema, tls == "tls")
    for sql in statements(path):
        run(connection, error_class, sql)
    # the same with values that the driver puts in, and many rows at once
    connection.select_db(schema)
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE filled (id INT PRIMARY KEY, text VARCHAR(50), raw BLOB)")
        cursor.executemany("INSERT INTO filled VALUES (%s, %s, %s)",
                           [(n, "text é %d" % n, bytes(range(n % 256))) for n in range(300)])
        show(cursor)
        cursor.execute("SELECT id, text, raw FROM filled WHERE id IN (%s, %s)", (7, 299))
        show(cursor)
    connection.close()


main()
