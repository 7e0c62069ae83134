"""What is compared: how each is configured and started, with its defaults wherever the load allows it."""
import contextlib
import os
import re
import shutil
import subprocess
import time

from collector import collector
from processes import Process
from servers import cache, free_port


class Proxy:
    """One way to the server. `command` writes the configuration into a folder and returns the command line."""

    name = title = program = None
    # Measured where nobody says which proxies.
    default = True
    # HOST:PORT of what tells its metrics, once it is started.
    admin = None
    # Measured only in rows that name it.
    special = False
    # What its version is asked with, and what of the answer is told.
    asks, tells = ["--version"], r"\d+\.\d+[\w.~+-]*"

    def __init__(self, tools):
        self.tools = tools
        self.path = self.find()

    def find(self):
        """The executable; None where there is none."""
        return shutil.which(self.program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")

    def version(self):
        said = subprocess.run([self.path] + self.asks, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
        found = re.search(self.tells, said)
        return found.group(0) if found else "unknown"

    def command(self, folder, port, server, tls):
        raise NotImplementedError

    @contextlib.contextmanager
    def start(self, folder, server, tls):
        """Starts it; yields its process and address once a login through it works."""
        folder = os.path.join(folder, "%s-%s%s" % (server.vendor, self.name, "-tls" if tls else ""))
        os.makedirs(folder, exist_ok=True)
        port = free_port()
        address = "127.0.0.1:%d" % port
        command = self.command(folder, port, server, tls)
        with Process(self.name, command, os.path.join(folder, "log"), cwd=folder) as process:
            self._until_it_answers(process, address, server, tls)
            yield process, address

    def _until_it_answers(self, process, address, server, tls, limit=30):
        end = time.monotonic() + limit
        while True:
            process.must_live()
            try:
                return self.tools.answers(server, address, tls)
            except RuntimeError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)


class Direct(Proxy):
    """No proxy: what all others are compared with."""

    name, title = "direct", "direct"

    def find(self):
        return ""

    def version(self):
        return ""

    @contextlib.contextmanager
    def start(self, folder, server, tls):
        self.tools.answers(server, server.address, tls)
        yield None, server.address


class Copy(Proxy):
    name, title = "copy", "byte copy"

    def find(self):
        return self.tools.built("tcp-copy")

    def version(self):
        return "tokio's copy_bidirectional"

    def command(self, folder, port, server, tls):
        return [self.path, "127.0.0.1:%d" % port, server.address]


class HaProxy(Proxy):
    name, title, program = "haproxy", "HAProxy", "haproxy"
    asks = ["-v"]

    def command(self, folder, port, server, tls):
        return [self.path, "-db", "-f", write(folder, "haproxy.cfg", """
global
  maxconn %d
defaults
  mode tcp
  maxconn %d
  timeout connect 5s
  timeout client 1h
  timeout server 1h
listen compare
  bind 127.0.0.1:%d
  server one %s
""" % (self.tools.sessions, self.tools.sessions, port, server.address))]


class Router(Proxy):
    name, title = "router", "MySQL Router"
    tells = r"\d+\.\d+\.\d+[\w.~+-]*"

    def find(self):
        """On the PATH, or where MySQL was unpacked for the tests."""
        prefix = os.environ.get("MYSQL_PREFIX") or os.path.join(cache(), "mysql-server")
        unpacked = os.path.join(prefix, "bin/mysqlrouter")
        self.plugins = os.path.join(prefix, "root/usr/lib/mysqlrouter/plugin") if os.path.exists(unpacked) else None
        return unpacked if self.plugins else shutil.which("mysqlrouter")

    def command(self, folder, port, server, tls):
        modes = {
            True: "client_ssl_mode=REQUIRED\nclient_ssl_cert=%s/server-cert.pem\nclient_ssl_key=%s/server-key.pem\n"
                  "server_ssl_mode=REQUIRED\n" % (server.tls, server.tls),
            False: "client_ssl_mode=DISABLED\nserver_ssl_mode=DISABLED\n",
        }
        plugins = "plugin_folder=%s\n" % self.plugins if self.plugins else ""
        file = write(folder, "router.conf", """
[DEFAULT]
name=compare
%slogging_folder=%s
runtime_folder=%s
data_folder=%s
max_total_connections=%d
[logger]
level=WARNING
[routing:compare]
bind_address=127.0.0.1
bind_port=%d
destinations=%s
routing_strategy=first-available
protocol=classic
max_connections=%d
%s""" % (plugins, folder, folder, folder, self.tools.sessions, port, server.address, self.tools.sessions, modes[tls]))
        return [self.path, "--config", file] + (["--user", "root"] if os.geteuid() == 0 else [])


class Towpath(Proxy):
    name, title = "towpath", "Towpath"
    session = '{ use = "parse" }, { use = "route" }'
    # More of [admin], and more tables.
    watching, telemetry = "", ""
    backend = ""
    # To the server, where there is a bound below what the load wants.
    connections = None

    def find(self):
        return self.tools.built("towpath")

    def command(self, folder, port, server, tls):
        listener = server_tls = ""
        if tls:
            listener = 'tls = { mode = "require", certificate = "%s/server-cert.pem", key = "%s/server-key.pem" }' % (server.tls, server.tls)
            server_tls = 'tls = { mode = "require" }'
        self.admin = "127.0.0.1:%d" % free_port()
        return [self.path, "run", write(folder, "towpath.toml", """
[admin]
address = "%s"
%s
[log]
level = "warn"
[limits]
max_connections = %d
[[listener]]
address = "127.0.0.1:%d"
chain = "main"
%s
[[user]]
name = "%s"
password = "%s"
hostgroup = 0
[[server]]
hostgroup = 0
address = "%s"
max_connections = %d
%s
[chain.main]
session = [%s]
backend = [%s]
%s
""" % (self.admin, self.watching, self.tools.sessions, port, listener, server.user, server.password, server.address,
       self.connections or self.tools.sessions, server_tls,
       self.session, self.backend, self.telemetry))]


class TowpathTold(Towpath):
    """With something for a collector of OpenTelemetry: what that costs is the difference to `towpath`."""

    default = False
    otlp, trace = "", ""

    @contextlib.contextmanager
    def start(self, folder, server, tls):
        with collector() as url:
            self.telemetry = '[otlp]\nendpoint = "%s"\nprotocol = "http"\n%s\n[trace]\n%s' % (url, self.otlp, self.trace)
            with super().start(folder, server, tls) as started:
                yield started


class TowpathUnsampled(TowpathTold):
    name, title, trace = "towpath-unsampled", "Towpath, no command traced", "ratio = 0.0"


class TowpathSampled(TowpathTold):
    name, title, trace = "towpath-sampled", "Towpath, 1 % traced", "ratio = 0.01"


class TowpathTraced(TowpathTold):
    name, title, trace = "towpath-traced", "Towpath, all traced", "ratio = 1.0"


class TowpathMetrics(TowpathTold):
    """Metrics are counted always; here they are told too, each second."""

    name, title, otlp = "towpath-metrics", "Towpath, metrics sent", 'metrics_interval = "1s"'
    trace = "parent = false"


class TowpathDigests(Towpath):
    name, title, default, watching = "towpath-digests", "Towpath, digests counted", False, "digests = 5000"


class TowpathPredict(Towpath):
    """Session commands are answered from memory."""

    name, title, special = "towpath-predict", "Towpath, predictions", True
    session = '{ use = "parse" }, { use = "session-commands", mode = "predict" }, { use = "route" }'
    backend = '{ use = "catch-up" }'


class TowpathMultiplex(Towpath):
    """Sessions share a few connections."""

    name, title, special, connections = "towpath-multiplex", "Towpath, connections shared", True, 20
    session = '{ use = "parse" }, { use = "session-commands" }, { use = "route" }'
    backend, telemetry = '{ use = "catch-up" }', 'multiplex = true\n[backend]\nconnect_budget = "60s"'


class TowpathFastForward(Towpath):
    """Logins by the proxy, then bytes."""

    name, title = "towpath-fast-forward", "Towpath, fast-forward"
    session = '{ use = "fast-forward", always = true }'


class ProxySql(Proxy):
    name, title, program = "proxysql", "ProxySQL", "proxysql"

    def command(self, folder, port, server, tls):
        return [self.path, "--initial", "-f", "-D", folder, "-c", write(folder, "proxysql.cnf", """
datadir="%s"
admin_variables={ admin_credentials="compare:compare" mysql_ifaces="127.0.0.1:%d" }
mysql_variables={ interfaces="127.0.0.1:%d" max_connections=%d monitor_enabled=false have_ssl=%s }
mysql_servers=({ address="127.0.0.1" port=%d hostgroup=0 max_connections=%d use_ssl=%d })
mysql_users=({ username="%s" password="%s" default_hostgroup=0 max_connections=%d })
""" % (folder, free_port(), port, self.tools.sessions, str(tls).lower(), server.port, self.tools.sessions, tls,
       server.user, server.password, self.tools.sessions))]


class MaxScale(Proxy):
    name, title, program = "maxscale", "MaxScale", "maxscale"

    def command(self, folder, port, server, tls):
        account = "user=%s\npassword=%s" % (server.user, server.password)
        listener = backend = ""
        if tls:
            listener = "ssl=true\nssl_cert=%s/server-cert.pem\nssl_key=%s/server-key.pem" % (server.tls, server.tls)
            backend = "ssl=true"
        file = write(folder, "maxscale.cnf", """
[maxscale]
threads=auto
admin_enabled=false
[one]
type=server
address=127.0.0.1
port=%d
%s
[monitor]
type=monitor
module=mariadbmon
servers=one
%s
[service]
type=service
router=readconnroute
router_options=running
servers=one
%s
[listener]
type=listener
service=service
address=127.0.0.1
port=%d
%s
""" % (server.port, backend, account, account, port, listener))
        folders = ["--%s=%s" % (name, folder) for name in ("logdir", "datadir", "cachedir", "piddir", "persistdir")]
        return [self.path, "--nodaemon", "--config=" + file] + folders + (["--user=root"] if os.geteuid() == 0 else [])


TOLD = [TowpathUnsampled, TowpathSampled, TowpathTraced, TowpathMetrics, TowpathDigests]
ALL = [Direct, Copy, HaProxy, Router, Towpath, TowpathFastForward, TowpathPredict, TowpathMultiplex] + TOLD + [ProxySql, MaxScale]
TITLES = {proxy.name: proxy.title for proxy in ALL}


def write(folder, name, text):
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text.lstrip())
    return path
