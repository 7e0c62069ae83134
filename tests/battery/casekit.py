"""Case registry, case context, fixtures and the runner.

A case is a generator function that yields (label, value) pairs.  The pairs,
after masking, are its transcript.  Two endpoints behave alike for a case when
their transcripts are equal.
"""
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass, field

import pymysql

from rawmysql import BASE_CAPS, Closed, Raw, Timeout, show, tls_context

HERE = os.path.dirname(os.path.abspath(__file__))
DB = "qa_battery"

CLASSES = ("framing", "handshake", "commands", "prepared", "cursors", "session", "transactions", "multi",
           "local-infile", "comments", "digests", "charset", "change-user", "kill", "timeouts", "disconnects",
           "status", "warnings", "routing", "fast-forward", "drivers")

REGISTRY = {}


class Skip(Exception):
    """The case does not apply here (missing driver, account or server feature)."""


@dataclass
class Case:
    name: str
    cls: str
    reports: tuple
    func: object
    slow: bool = False             # big data or waiting
    quirk: bool = False            # a proxy may differ here by a documented choice


def case(cls, *reports, slow=False, quirk=False):
    """Register a generator function as a case of a class, citing report ids."""
    assert cls in CLASSES, cls
    assert reports, "a case cites at least one report"

    def wrap(func):
        assert func.__name__ not in REGISTRY, "duplicate case " + func.__name__
        assert func.__doc__ and any(r in func.__doc__ for r in reports), func.__name__ + ": cite in the docstring"
        REGISTRY[func.__name__] = Case(func.__name__, cls, reports, func, slow, quirk)
        return func
    return wrap


# ---------------------------------------------------------------- targets

@dataclass
class Target:
    host: str
    port: int
    user: str
    password: str
    ssl: str = "disabled"          # disabled | preferred | required
    ssl_ca: str = None

    def __str__(self):
        return "%s:%d" % (self.host, self.port)

    def tls(self):
        return None if self.ssl == "disabled" else tls_context(self.ssl_ca)

    def check(self):
        """Stop with a clear message when the endpoint does not let the battery in."""
        try:
            conn = Raw(self.host, self.port, timeout=10)
            view = conn.login(self.user, self.password, tls=self.tls())
            conn.close()
        except (OSError, Closed, Timeout) as exc:
            sys.exit("cannot reach %s: %s" % (self, exc))
        if "ok" not in view:
            sys.exit("cannot log in at %s as '%s': %s" % (self, self.user, view))


# ---------------------------------------------------------------- fixtures

ACCOUNTS = {
    # key: (user, password, options after CREATE USER, grants on the battery's schema)
    "native": ("qa_native", "native#1", "native", True),
    "empty": ("qa_empty", "", "native-empty", True),
    "locked": ("qa_locked", "locked#1", "native-locked", True),
    "limited": ("qa_limited", "limited#1", "native", False),
    "single": ("qa_single", "single#1", "native-single", True),
    "expired": ("qa_expired", "expired#1", "native-expired", True),
    "sha2": ("qa_sha2", "sha2#1 pass", "sha2", True),
}
SCHEMAS = ("qa-1", "qa-1es", "qa 2", "QaUpper", "qa_é_名前", "qa`tick", "shard28", "shard280")
ROLE = "qa_role"


class Fixtures:
    """Schemas, accounts and the role, made once through the set-up endpoint."""

    def __init__(self, target):
        self.target = target
        self.conn = pymysql.connect(host=target.host, port=target.port, user=target.user, password=target.password,
                                    charset="utf8mb4", autocommit=True, ssl=target.tls())
        self.version = self.one("SELECT VERSION()")
        self.mariadb = "mariadb" in self.version.lower()
        self.accounts = {}
        self.role = False

    def one(self, sql):
        with self.conn.cursor() as cur:
            cur.execute(sql)
            row = cur.fetchone()
        return row[0] if row else None

    def run(self, sql):
        with self.conn.cursor() as cur:
            cur.execute(sql)

    def attempt(self, *statements):
        try:
            for sql in statements:
                self.run(sql)
            return True
        except pymysql.MySQLError:
            return False

    def create_user(self, user, password, kind):
        quoted = "'%s'@'%%'" % user
        self.run("DROP USER IF EXISTS " + quoted)
        if kind == "sha2":
            if self.mariadb:
                return False
            return self.attempt("CREATE USER %s IDENTIFIED WITH caching_sha2_password BY '%s'" % (quoted, password))
        via = " IDENTIFIED VIA mysql_native_password USING PASSWORD('%s')" if self.mariadb \
            else " IDENTIFIED WITH mysql_native_password BY '%s'"
        plain = " IDENTIFIED BY '%s'"
        tail = {"native-locked": " ACCOUNT LOCK", "native-expired": " PASSWORD EXPIRE",
                "native-single": " WITH MAX_USER_CONNECTIONS 1"}.get(kind, "")
        return any(self.attempt("CREATE USER " + quoted + (how % password) + tail) for how in (via, plain))

    def install(self):
        for name in (DB,) + SCHEMAS:
            quoted = name.replace("`", "``")
            self.run("CREATE DATABASE IF NOT EXISTS `%s` CHARACTER SET utf8mb4" % quoted)
            self.run("CREATE TABLE IF NOT EXISTS `%s`.whoami (name VARCHAR(64) CHARACTER SET utf8mb4)" % quoted)
            self.run("DELETE FROM `%s`.whoami" % quoted)
            self.run("INSERT INTO `%s`.whoami VALUES ('%s')" % (quoted, name))
        for key, (user, password, kind, grant) in ACCOUNTS.items():
            if self.create_user(user, password, kind):
                self.accounts[key] = (user, password)
                if grant:
                    self.run("GRANT ALL ON %s.* TO '%s'@'%%'" % (DB, user))
                else:
                    self.run("GRANT SELECT ON %s.whoami TO '%s'@'%%'" % (DB, user))
        self.role = self.attempt("DROP ROLE IF EXISTS %s" % ROLE, "CREATE ROLE %s" % ROLE,
                                 "GRANT SELECT ON %s.* TO %s" % (DB, ROLE),
                                 "GRANT %s TO CURRENT_USER()" % ROLE)
        if not self.role:
            user = self.one("SELECT CURRENT_USER()").split("@")
            self.role = self.attempt("GRANT %s TO '%s'@'%s'" % (ROLE, user[0], user[1]))

    def close(self):
        self.conn.close()


# ---------------------------------------------------------------- context

class Context:
    """What a case gets: connections, masking, conveniences.  Closes all at the end."""

    def __init__(self, target, fixtures):
        self.target, self.fixtures = target, fixtures
        self.mariadb = fixtures.mariadb
        self.db = DB
        self.ids = []                  # connection ids from the greetings, in order
        self.opened = []

    # -- masking

    def clean(self, value):
        if isinstance(value, dict):
            return {str(k): self.clean(v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.clean(v) for v in value]
        if isinstance(value, (bytes, bytearray)):
            value = show(value)
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return self.clean_text(str(value))

    def clean_text(self, text):
        text = re.sub(r"'([^']*)'@'[^']*'", r"'\1'@'<host>'", text)
        text = re.sub(r"(The statement|prepared statement handler) \(\d+\)", r"\1 (<id>)", text)
        return re.sub(r"(thread|thread id:|connection) (\d+)", self.hide_id, text, flags=re.I)

    def hide_id(self, match):
        """Name the id of a connection of this case; leave other numbers alone."""
        number = int(match[2])
        return "%s <id%d>" % (match[1], self.ids.index(number) + 1) if number in self.ids else match[0]

    # -- connections

    def track(self, conn):
        self.opened.append(conn)
        return conn

    def connect(self, timeout=20.0, rcvbuf=None, exact_auth=False):
        """A raw connection before login."""
        conn = self.track(Raw(self.target.host, self.target.port, timeout, rcvbuf))
        conn.exact_auth = exact_auth
        self.ids.append(conn.thread_id)
        return conn

    def raw(self, *extra_caps, db=DB, user=None, password=None, caps=None, timeout=20.0, tls="default", rcvbuf=None,
            exact_auth=False, **options):
        """A logged-in raw connection; conn.login_view holds the reply."""
        conn = self.connect(timeout, rcvbuf, exact_auth)
        if user is None:
            user, password = self.target.user, self.target.password
        context = self.target.tls() if tls == "default" else tls
        wanted = (caps if caps is not None else BASE_CAPS) + extra_caps
        conn.login_view = conn.login(user, password, tls=context, caps=wanted, db=db, **options)
        return conn

    def login_view(self, *extra_caps, **options):
        return self.raw(*extra_caps, **options).login_view

    def ready(self, *extra_caps, **options):
        """Like raw(), but the login has to succeed."""
        conn = self.raw(*extra_caps, **options)
        if "ok" not in conn.login_view:
            raise RuntimeError("login failed: %s" % conn.login_view)
        return conn

    def pymysql(self, **options):
        settings = dict(host=self.target.host, port=self.target.port, user=self.target.user,
                        password=self.target.password, database=DB, charset="utf8mb4", read_timeout=20,
                        connect_timeout=10)
        if self.target.tls():
            settings["ssl"] = self.target.tls()
        settings.update(options)
        return self.track(pymysql.connect(**settings))

    def connector(self, **options):
        try:
            import mysql.connector
        except ImportError:
            raise Skip("mysql-connector-python is not installed")
        settings = dict(host=self.target.host, port=self.target.port, user=self.target.user,
                        password=self.target.password, database=DB, use_pure=True, connection_timeout=10,
                        ssl_disabled=self.target.ssl == "disabled")
        settings.update(options)
        return self.track(mysql.connector.connect(**settings))

    def mysqlclient(self, **options):
        try:
            import MySQLdb
        except ImportError:
            raise Skip("mysqlclient is not installed")
        settings = dict(host=self.target.host, port=self.target.port, user=self.target.user,
                        password=self.target.password, database=DB, charset="utf8mb4", connect_timeout=10)
        settings.update(options)
        return self.track(MySQLdb.connect(**settings))

    def node(self, scenario):
        """Run a scenario of drivers/scenarios.js; returns its printed JSON."""
        folder = os.path.join(HERE, "drivers")
        places = [os.path.join(folder, "node_modules"), *os.environ.get("NODE_PATH", "").split(os.pathsep)]
        if not any(os.path.isdir(os.path.join(place, "mysql2")) for place in places):
            raise Skip("node mysql2 is not installed (npm install in drivers/, or NODE_PATH)")
        config = {"host": self.target.host, "port": self.target.port, "user": self.target.user,
                  "password": self.target.password, "database": DB, "ssl": self.target.ssl != "disabled"}
        done = subprocess.run(["node", "scenarios.js", scenario], cwd=folder, input=json.dumps(config), text=True,
                              capture_output=True, timeout=45)
        try:
            return json.loads(done.stdout)
        except ValueError:
            return {"stdout": done.stdout[-400:], "stderr": done.stderr[-400:]}

    # -- conveniences

    def account(self, key):
        if key not in self.fixtures.accounts:
            raise Skip("account '%s' cannot be made on this server" % key)
        return self.fixtures.accounts[key]

    def skip(self, reason):
        raise Skip(reason)

    def table(self, conn, name, definition, *rows):
        """(Re)create a table through the connection under test and fill it."""
        conn.must("DROP TABLE IF EXISTS %s" % name)
        conn.must("CREATE TABLE %s (%s) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4" % (name, definition))
        if rows:
            conn.must("INSERT INTO %s VALUES %s" % (name, ",".join(rows)))

    def procedure(self, conn, name, definition):
        conn.must("DROP PROCEDURE IF EXISTS %s" % name)
        conn.must("CREATE PROCEDURE %s%s" % (name, definition))

    def background(self, func, *args):
        """Run func in a thread; call the result to wait for and get its value."""
        box = {}

        def body():
            try:
                box["value"] = func(*args)
            except (Closed, Timeout) as exc:
                box["value"] = {type(exc).__name__.lower(): True}
            except Exception as exc:           # the transcript shows it
                box["value"] = "%s: %s" % (type(exc).__name__, exc)
        thread = threading.Thread(target=body, daemon=True)
        thread.start()

        def wait(timeout=20):
            thread.join(timeout)
            return box.get("value", "still running")
        return wait

    def until(self, check, timeout=8.0, pause=0.05):
        """Poll a condition; True as soon as it holds."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            if check():
                return True
            time.sleep(pause)
        return False

    def sql_running(self, text):
        """Wait (through the set-up endpoint) until a statement containing text runs."""
        sql = ("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE %s AND ID <> CONNECTION_ID()"
               % self.fixtures.conn.escape("%" + text + "%"))
        return self.until(lambda: self.fixtures.one(sql) > 0)

    def close(self):
        for conn in self.opened:
            try:
                conn.close()
            except Exception:
                pass


def driver_error(exc):
    """Normalised view of a driver exception."""
    args = getattr(exc, "args", ())
    code = getattr(exc, "errno", None) or (args[0] if args and isinstance(args[0], int) else None)
    text = getattr(exc, "msg", None) or (args[1] if len(args) > 1 else str(exc))
    return {"error": type(exc).__name__, "code": code, "text": str(text)}


# ---------------------------------------------------------------- running

class Deadline(Exception):
    pass


def _alarm(signum, frame):
    raise Deadline()


@dataclass
class Outcome:
    status: str                     # ok | skip | error
    transcript: list = field(default_factory=list)
    detail: str = ""
    seconds: float = 0.0


def run_case(item, target, fixtures, limit=60):
    """Run one case against one endpoint."""
    outcome = Outcome("ok")
    context = Context(target, fixtures)
    started = time.monotonic()
    signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(limit)
    try:
        for label, value in item.func(context):
            outcome.transcript.append([label, context.clean(value)])
    except Skip as exc:
        outcome.status, outcome.detail = "skip", str(exc)
    except Deadline:
        outcome.status, outcome.detail = "error", "no end within %d s" % limit
    except (Closed, Timeout) as exc:
        outcome.status = "error"
        outcome.detail = "connection closed" if isinstance(exc, Closed) else "timed out"
    except Exception as exc:
        frame = traceback.extract_tb(sys.exc_info()[2])[-1]
        outcome.status = "error"
        outcome.detail = context.clean_text("%s: %s" % (type(exc).__name__, exc))
        outcome.transcript.append(["where", "%s:%d" % (os.path.basename(frame.filename), frame.lineno)])
    finally:
        signal.alarm(0)
        context.close()
    if outcome.status == "error":
        outcome.transcript.append(["stopped", outcome.detail])
    outcome.seconds = time.monotonic() - started
    return outcome


def load_cases():
    """Import the case modules that are present."""
    import glob
    import importlib
    for path in sorted(glob.glob(os.path.join(HERE, "*_cases.py"))):
        importlib.import_module(os.path.splitext(os.path.basename(path))[0])
    return REGISTRY


def select(pattern=None, fast=False, quirks=True):
    """Cases whose name, class or a report id matches the pattern."""
    chosen = [c for c in REGISTRY.values()
              if (not pattern or any(re.search(pattern, text) for text in (c.name, c.cls) + c.reports))
              and not (fast and c.slow) and (quirks or not c.quirk)]
    return sorted(chosen, key=lambda c: (CLASSES.index(c.cls), c.name))
