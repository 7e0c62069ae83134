"""Memory of idle sessions, and the processor time for a large result: bulk.py VENDOR (PORT PID) (PORT PID)."""
import os
import sys

import pymysql
from pymysql.constants import CLIENT

SESSIONS, ROWS, ROW = 800, 1 << 20, 1024
NUMBERS = {
    "mariadb": "(SELECT seq FROM seq_1_to_%d) AS n" % ROWS,
    "mysql": "JSON_TABLE(CONCAT('[', REPEAT('1,', 1023), '1]'), '$[*]' COLUMNS (a INT PATH '$')) AS a,"
             " JSON_TABLE(CONCAT('[', REPEAT('1,', 1023), '1]'), '$[*]' COLUMNS (b INT PATH '$')) AS b",
}


def connect(port):
    return pymysql.connect(host="127.0.0.1", port=port, user="sbtest", password="sbtest",
                           client_flag=CLIENT.SECURE_CONNECTION)


def memory(pid):
    with open("/proc/%s/status" % pid) as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def ticks(pid):
    with open("/proc/%s/stat" % pid) as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def result(port, vendor):
    connection = connect(port)
    connection.select_db("sbtest")
    connection._execute_command(3, "SELECT REPEAT('x', %d) FROM %s" % (ROW, NUMBERS[vendor]))
    got, sock = 0, connection._sock
    while got < ROWS * ROW:
        got += len(sock.recv(1 << 20))
    sock.close()


vendor, pairs = sys.argv[1], list(zip(sys.argv[2::2], sys.argv[3::2]))
port, pid = int(pairs[0][0]), pairs[0][1]
before = memory(pid)
sessions = [connect(port) for _ in range(SESSIONS)]
print("idle session with its connection to a server: %.1f kB (%d of them)" % ((memory(pid) - before) / SESSIONS, SESSIONS))
for session in sessions:
    session.close()
for name, (port, pid) in zip(("towpath", "haproxy"), pairs):
    start = ticks(pid)
    result(int(port), vendor)
    print("result of 1 GiB through %s: %.2f s of processor time" % (name, ticks(pid) - start))
