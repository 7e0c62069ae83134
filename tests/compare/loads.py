"""The programs that make the load: sysbench, and `load` of this folder's crate."""
import contextlib
import copy
import json
import os
import re
import subprocess
import time

from processes import Process
from servers import free_port

TABLES, TABLE_SIZE = 4, 10000
# Beyond what a load takes by itself, before it counts as hung.
PATIENCE = 120


class Tools:
    """Calls them. `folder` is the run's own; `binaries` has what cargo has built; a proxy must take `sessions`."""

    def __init__(self, folder, binaries, towpath, sessions):
        self.folder, self.binaries, self.towpath, self.sessions = folder, binaries, towpath, sessions

    def built(self, name):
        path = self.towpath if name == "towpath" else os.path.join(self.binaries, name)
        return path if os.path.exists(path) else None

    def load(self, server, address, *arguments, seconds=0):
        """Runs `load`; returns what it counted."""
        return json.loads(run(self.load_command(server, address, *arguments), seconds))

    def load_command(self, server, address, *arguments):
        account = ["--address", address, "--user", server.user, "--password", server.password]
        return [os.path.join(self.binaries, "load")] + account + [str(argument) for argument in arguments]

    @contextlib.contextmanager
    def farther(self, server, away):
        """The server, as it is seen from `away` microseconds away."""
        if not away:
            yield server
            return
        far = copy.copy(server)
        far.port = free_port()
        far.address = "127.0.0.1:%d" % far.port
        command = [os.path.join(self.binaries, "delay"), far.address, server.address, str(away)]
        with Process("delay", command, os.path.join(self.folder, "delay.log")) as process:
            end = time.monotonic() + 10
            while True:
                process.must_live()
                try:
                    self.load(far, far.address, "sql", "DO 1")
                    break
                except RuntimeError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.05)
            yield far

    def sql(self, server, *statements):
        self.load(server, server.address, "sql", *statements)

    def answers(self, server, address, tls):
        """Raises unless a login and a statement succeed."""
        if tls:
            # one event of sysbench's: `load` has no TLS
            self.sysbench(server, address, "oltp_point_select", "run", "--events=1", "--time=5", tls=True)
        else:
            self.load(server, address, "sql", "DO 1")

    def prepare(self, server):
        """Makes the schema and its tables, directly. The login is the first of this account: the server's own
        cache of passwords, which a login without TLS may need, knows it from then on."""
        self.sql(server, "DROP DATABASE IF EXISTS " + server.schema, "CREATE DATABASE " + server.schema,
                 "CREATE TABLE %s.upload (line VARCHAR(1100))" % server.schema)
        self.sysbench(server, server.address, "oltp_read_write", "prepare")

    def clean(self, server):
        self.sql(server, "DROP DATABASE IF EXISTS " + server.schema)

    def sysbench(self, server, address, script, action, *arguments, tls=False, seconds=0):
        """Runs sysbench; returns its report."""
        host, port = address.split(":")
        command = ["sysbench", script, "--db-driver=mysql", "--mysql-host=" + host, "--mysql-port=" + port,
                   "--mysql-user=" + server.user, "--mysql-password=" + server.password, "--mysql-db=" + server.schema,
                   "--tables=%d" % TABLES, "--table-size=%d" % TABLE_SIZE, "--histogram=on",
                   "--mysql-ssl=" + ("on" if tls else "off")]
        return run(command + list(arguments) + [action], seconds, cwd=self._certificates(server))

    def _certificates(self, server):
        """sysbench looks for its TLS files in the current folder, under fixed names."""
        folder = os.path.join(self.folder, "sysbench-" + server.vendor)
        if not os.path.isdir(folder):
            os.makedirs(folder)
            names = {"cacert.pem": "ca.pem", "client-cert.pem": "client-cert.pem", "client-key.pem": "client-key.pem"}
            for name, file in names.items():
                os.symlink(os.path.join(server.tls, file), os.path.join(folder, name))
        return folder


def run(command, seconds=0, **options):
    """A program's output; raises with it when the program fails or hangs."""
    options["env"] = dict(os.environ, RUST_BACKTRACE="0")
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=seconds + PATIENCE, **options)
    except subprocess.TimeoutExpired:
        raise RuntimeError("%s hangs" % os.path.basename(command[0])) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[:600]
        raise RuntimeError("%s failed: %s" % (os.path.basename(command[0]), said))
    return done.stdout


def read_report(report):
    """sysbench's report: queries, seconds, and the percentiles of an event's latency in microseconds.

    An event is a query or a transaction, by the script."""
    count = int(re.search(r"queries:\s+(\d+)", report).group(1))
    seconds = float(re.search(r"total time:\s+([\d.]+)s", report).group(1))
    bins = [(float(value) * 1000, int(number))
            for value, number in re.findall(r"^\s*([\d.]+) \|\**\s+(\d+)\s*$", report, re.M)]
    return {"count": count, "seconds": seconds, "p50_us": percentile(bins, 50), "p99_us": percentile(bins, 99)}


def percentile(bins, percent):
    """The value of the bin that holds it."""
    rest = sum(number for _, number in bins) * percent / 100
    for value, number in bins:
        rest -= number
        if rest <= 0:
            return value
    raise RuntimeError("sysbench's histogram is missing")
