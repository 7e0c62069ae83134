"""The server that all proxies stand in front of: one of our own without a binary log, or one that is up."""
import contextlib
import os
import shlex
import socket
import subprocess

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
SCRIPTS = {"mariadb": "config/demo/mariadb-cluster.sh", "mysql": "tests/servers/mysql-cluster.sh"}
# Nothing that a disk or a replica would add noise to; room for the idle sessions.
SETTINGS = """skip-log-bin
max-connections=%d
open-files-limit=%d
back-log=4096
max-allowed-packet=64M
max-prepared-stmt-count=1000000
innodb-buffer-pool-size=256M
"""


class Server:
    """Where it is, and with which account one logs in."""

    def __init__(self, file, connections):
        with open(file) as text:
            values = dict(word.split("=", 1) for word in shlex.split(text.read()))
        self.vendor, self.version = values["KIND"], values["VERSION"]
        self.port = int(values["PORT1"])
        self.address = "127.0.0.1:%d" % self.port
        self.user, self.password = next(u for u in values["USERS"].split() if u.startswith("admin:")).split(":")
        self.tls = os.path.dirname(values["TLS_CA"])
        self.connections = connections  # None where nobody knows how many it takes
        self.schema = "compare_%d" % os.getpid()


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.environ.get("TOWPATH_TEST_CACHE") or os.path.join(base, "towpath")


@contextlib.contextmanager
def own(vendor, folder, connections):
    """Starts a server below `folder`, and ends it; as `tests/run` starts its clusters."""
    folder = os.path.join(folder, vendor)
    extra = SETTINGS % (connections, connections + 5000)
    environment = dict(os.environ, NODES="1", BASE_PORT=str(free_port()))
    environment.setdefault("MYSQL_PREFIX", os.path.join(cache(), "mysql-server"))
    environment["MARIADB_EXTRA" if vendor == "mariadb" else "MYSQL_EXTRA"] = extra
    script = os.path.join(TOP, SCRIPTS[vendor])

    def call(command):
        done = subprocess.run([script, command, folder], env=environment, text=True, timeout=300,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise RuntimeError("%s %s: %s" % (script, command, done.stdout[-2000:]))

    try:
        call("up")
        yield Server(os.path.join(folder, "env"), connections)
    finally:
        call("destroy")


@contextlib.contextmanager
def running(file):
    yield Server(file, None)


def free_port():
    """A port of the loopback that nobody has now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
