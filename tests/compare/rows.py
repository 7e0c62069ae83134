"""What is measured: each row is a load, with a name that `--rows` knows and a unit that costs are told for."""
import contextlib
import json
import re
import subprocess
import threading
import time
import urllib.request

from loads import PATIENCE, read_report
from proxies import TowpathMultiplex

THREADS = (1, 16, 64)
SCRIPTS = {"point-select": "oltp_point_select", "read-only": "oltp_read_only", "read-write": "oltp_read_write"}
MODES = {"text": "disable", "prepared": "auto"}
CONNECTORS = 8
# All lines are passed over: the server reads the file and keeps nothing. MySQL counts on behind the file's end.
UPLOAD = "LOAD DATA LOCAL INFILE 'compare' INTO TABLE %s.upload IGNORE %d LINES"


class Row:
    """`measure` loads an address and returns count (of units), seconds, and for short events p50_us and p99_us."""

    unit, tls, vendors = "query", False, ("mariadb", "mysql")
    # Each measurement has a process of its own.
    alone = False
    # Names of those that are measured, where it is not about all; and how far the server is away, in µs each way.
    proxies, away = None, 0

    def is_for(self, proxy):
        return proxy.name in self.proxies if self.proxies else not proxy.special

    def measure(self, tools, server, process, address, size):
        raise NotImplementedError


class Sysbench(Row):
    def __init__(self, script, mode, threads, tls=False):
        self.name = "%s%s/%s/%d" % ("tls-" if tls else "", script, mode, threads)
        self.title = "%s, %s, %d thread%s%s" % (script.replace("-", " "), mode, threads, "s"[:threads > 1],
                                                ", TLS" if tls else "")
        self.script, self.mode, self.threads, self.tls = SCRIPTS[script], MODES[mode], threads, tls

    def measure(self, tools, server, process, address, size):
        report = tools.sysbench(server, address, self.script, "run", "--db-ps-mode=" + self.mode,
                                "--threads=%d" % self.threads, "--time=%d" % size.seconds,
                                tls=self.tls, seconds=size.seconds)
        return read_report(report)


class Connects(Row):
    name, unit = "connect", "connection"
    title = "connect, one query, quit; %d at once" % CONNECTORS

    def measure(self, tools, server, process, address, size):
        return tools.load(server, address, "connects", "SELECT 1", "--sessions", CONNECTORS,
                          "--seconds", size.seconds, seconds=size.seconds)


class Begins(Row):
    unit, proxies, away = "beginning", ("direct", "towpath", "towpath-predict"), 1000

    def __init__(self, name, title, sql):
        self.name, self.title, self.sql = name, title, sql

    def measure(self, tools, server, process, address, size):
        return tools.load(server, address, "begins", self.sql % server.schema, "--far", server.address,
                          "--seconds", size.seconds, seconds=size.seconds)


class Prepares(Row):
    name, unit, proxies = "prepare", "PREPARE", ("direct", "towpath-predict")
    title = "PREPARE of a text that all sessions prepare"

    def measure(self, tools, server, process, address, size):
        before = told(process)
        counted = tools.load(server, address, "prepares", "--seconds", size.seconds, seconds=size.seconds)
        if process:
            # from the last byte of a command to the last byte of its reply; the CLOSE behind it included
            counted["inside_us"] = (told(process) - before) * 1e6 / counted["count"]
        return counted


def told(process):
    """Seconds that the proxy says it has taken for all commands."""
    if not process:
        return 0
    with urllib.request.urlopen("http://%s/metrics" % process.admin, timeout=PATIENCE) as answer:
        return float(re.search(r"^towpath_command_duration_seconds_sum (\S+)", answer.read().decode(), re.M).group(1))


class Crowd(Row):
    name, unit, proxies, away = "crowd", "transaction", ("direct", "towpath-multiplex"), 2000
    SESSIONS, CONNECTIONS, THINK = 1000, TowpathMultiplex.connections, 100
    title = "%s sessions over %d connections; beside %d direct ones; the server 2 ms away" % (format(SESSIONS, ","), CONNECTIONS, CONNECTIONS)

    def measure(self, tools, server, process, address, size):
        sessions, think = (self.SESSIONS, self.THINK) if process else (self.CONNECTIONS, 0)
        return tools.load(server, address, "crowd", server.schema, "--sessions", sessions, "--think", think,
                          "--seconds", size.seconds, seconds=size.seconds)


class Result(Row):
    """Results; a row of one is a number and so many bytes."""

    unit = "MiB"

    def __init__(self, name, rows, width, times):
        self.name, self.width, self.rows, self.times = name, width, rows, times
        self.title = "result of {rows:,} rows of %d bytes%s" % (width, ", %d times" % times if times > 1 else "")

    def measure(self, tools, server, process, address, size):
        thousands = max(1, round(self.rows * size.part / 1000))
        if server.vendor == "mariadb":
            numbers = "SELECT seq, REPEAT('x', %d) FROM %s.seq_1_to_%d" % (self.width, server.schema, thousands * 1000)
        else:
            table = ("JSON_TABLE(CONCAT('[', REPEAT('1000000,', %d), '1000000]'), '$[*]' COLUMNS (n INT PATH '$')) AS %s")
            numbers = "SELECT a.n, REPEAT('x', %d) FROM %s, %s" % (self.width, table % (999, "a"), table % (thousands - 1, "b"))
        return tools.load(server, address, "result", numbers, "--times", self.times)


class Upload(Row):
    name, unit = "upload", "MiB"
    title = "LOAD DATA LOCAL of {mebibytes:,} MiB"

    def measure(self, tools, server, process, address, size):
        return tools.load(server, address, "upload", UPLOAD % (server.schema, size.mebibytes * 1024), "--mebibytes", size.mebibytes)


class Commands(Row):
    name, unit = "commands", "MiB"
    title = "{mebibytes:,} MiB in statements of 8 MiB"

    def measure(self, tools, server, process, address, size):
        return tools.load(server, address, "commands", "--mebibytes", size.mebibytes)


class Idle(Row):
    """Memory only. The process must be a new one: what an allocator has once had it may keep."""

    unit, vendors, alone = "session", ("mariadb",), True

    def __init__(self, name, title, sql=None, prepared=0, proxies=None):
        self.name, self.title, self.sql, self.prepared, self.proxies = name, title, sql, prepared, proxies

    def measure(self, tools, server, process, address, size):
        sessions = size.sessions_of(server)
        with self._sessions(tools, server, address, max(1, min(20, sessions // 100))):
            pass  # what the first sessions bring with them is not counted
        before = process.settled_memory() if process else 0
        with self._sessions(tools, server, address, sessions) as seconds:
            after = process.settled_memory() if process else 0
        return {"count": sessions, "seconds": seconds, "kb": (after - before) / sessions if process else None}

    @contextlib.contextmanager
    def _sessions(self, tools, server, address, sessions):
        more = ["--prepare", self.prepared] + (["--sql", self.sql] if self.sql else [])
        command = tools.load_command(server, address, "idle", "--sessions", sessions, *more)
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            hung = threading.Timer(3 * PATIENCE, child.kill)
            hung.start()
            try:
                opened = child.stdout.readline()  # comes when all are open
                if opened:
                    yield json.loads(opened)["seconds"]
                    child.stdin.close()
                if child.wait() or not opened:
                    raise RuntimeError("load failed: %s" % child.stderr.read().decode(errors="replace")[:600])
            finally:
                hung.cancel()
                child.kill()


class Scrape(Idle):
    """What it costs to be asked for all metrics while there is much to tell of."""

    unit = "scrape"
    TIMES, DIGESTS = 40, 5000

    def __init__(self):
        super().__init__("scrape", "/metrics, with {sessions:,} sessions and 5,000 digests", proxies=("towpath-digests",))

    def measure(self, tools, server, process, address, size):
        tools.load(server, address, "sql", *("SELECT 1 AS column_%d" % number for number in range(self.DIGESTS)))
        with self._sessions(tools, server, address, size.sessions_of(server)):
            before, start = process.processor(), time.monotonic()
            for _ in range(self.TIMES):
                with urllib.request.urlopen("http://%s/metrics" % process.admin, timeout=PATIENCE) as answer:
                    answer.read()
            seconds = time.monotonic() - start
            after = process.processor()
        user, system = ((b - a) / self.TIMES for a, b in zip(before, after))
        return {"count": self.TIMES, "seconds": seconds, "user_us": user, "system_us": system}


ALL = (
    [Sysbench(script, mode, threads) for script in SCRIPTS for mode in MODES for threads in THREADS]
    + [Sysbench("point-select", "text", 1, tls=True), Sysbench("point-select", "text", 16, tls=True),
       Sysbench("read-write", "prepared", 16, tls=True)]
    + [Begins("begin-read", "connect, 5 SETs, a read; the server 1 ms away", "SELECT c FROM %s.sbtest1 WHERE id = 1"),
       Begins("begin-write", "connect, 5 SETs, a write; the server 1 ms away", "UPDATE %s.sbtest1 SET k = k + 1 WHERE id = 1"),
       Prepares(), Crowd()]
    + [Connects(), Result("result-rows", 1000000, 100, 5), Result("result-bytes", 1 << 20, 1024, 1), Upload(), Commands()]
    + [Idle("idle", "idle session that has run nothing"),
       Idle("idle-used", "idle session that has run a query", "SELECT 1"),
       Idle("idle-prepared", "idle session with 20 prepared statements, the same in each", prepared=20, proxies=("towpath-predict",)),
       Scrape()]
)
