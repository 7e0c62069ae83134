"""Open cases of the battery.

Every case cites the public reports it was drawn from; see the bug log for what
happened there.  A case yields (label, value) pairs; see casekit.
"""

import contextlib
import json
import re
import ssl
import tempfile
import time

from casekit import SCHEMAS, case, driver_error
from rawmysql import (
    BASE_CAPS,
    CAPS,
    COM_PING,
    COM_QUERY,
    COM_QUIT,
    COM_RESET_CONNECTION,
    COM_STATISTICS,
    COM_STMT_EXECUTE,
    COM_STMT_FETCH,
    COM_STMT_PREPARE,
    Closed,
    Column,
    Param,
    Timeout,
    command,
    execute_payload,
    integer,
    lenenc_str,
    packets,
    tls_context,
)

# --------------------------------------------------------------------- framing


@case("framing", "vertx#283", "router#35769702", "proxysql#111", slow=True)
def query_payload_at_the_packet_limit(cx):
    """COM_QUERY payloads of 2^24-2, 2^24-1 and 2^24 bytes; the middle one ends with an empty packet (vertx#283)."""
    db = cx.ready()
    for total in (0xFFFFFE, 0xFFFFFF, 0x1000000):
        head, tail = b"SELECT LENGTH('", b"')"
        fill = total - 1 - len(head) - len(tail)
        yield "payload %d" % total, db.rows(head + b"x" * fill + tail)
    yield "still usable", db.rows("SELECT 1")


@case("framing", "proxysql#845", "router#35769702", slow=True)
def insert_17_mib_literal(cx):
    """A 17 MiB blob as a literal in an INSERT, read back by length and checksum (proxysql#845)."""
    db = cx.ready()
    cx.table(db, "t_blob17", "id INT PRIMARY KEY, b LONGBLOB")
    blob = bytes(range(32, 39)) * (17 * 1024 * 1024 // 7)
    quoted = blob.replace(b"'", b"''")
    yield "insert", db.query(b"INSERT INTO t_blob17 VALUES (1, '" + quoted + b"')")
    yield "stored", db.rows("SELECT LENGTH(b), SHA2(b, 256) FROM t_blob17")
    yield "read back", db.rows("SELECT b FROM t_blob17")
    yield "frames", [size for size, _ in db.frames]
    db.must("DROP TABLE t_blob17")


@case("framing", "proxysql#1350", "proxysql#111", slow=True)
def execute_with_40_mib_parameter(cx):
    """COM_STMT_EXECUTE of 40 MiB split over three packets, then the row comes back split (proxysql#1350)."""
    db = cx.ready()
    cx.table(db, "t_blob40", "id INT PRIMARY KEY, b LONGBLOB")
    blob = b"0123456789abcdef" * (40 * 1024 * 1024 // 16)
    stmt = db.prepare("INSERT INTO t_blob40 VALUES (?, ?)")
    yield "execute", db.execute(stmt, [1, blob])
    back = db.prepare("SELECT b, id FROM t_blob40 WHERE id = ?")
    yield "binary row", db.execute(back, [1])
    yield "frames", [size for size, _ in db.frames]
    db.must("DROP TABLE t_blob40")
    yield "still usable", db.ping()


@case("framing", "proxysql#526", "proxysql#1029", slow=True)
def query_over_max_allowed_packet(cx):
    """A statement above max_allowed_packet gets an error or a closed connection, and only that session (proxysql#526)."""
    db = cx.ready()
    limit = int(db.value("SELECT @@max_allowed_packet"))
    if limit > 80 << 20:
        cx.skip("max_allowed_packet is above 80 MiB")
    other = cx.ready()
    waiter = cx.background(db.read_results)
    try:
        db.send(b"\x03SELECT LENGTH('" + b"x" * limit + b"')")
    except (Closed, Timeout):
        pass
    seen = waiter(30)
    text = json.dumps(seen)
    yield "refused", "1153" in text or "closed" in text
    yield "row returned", "rows" in text
    yield "other session", other.rows("SELECT 1")


@case("framing", "proxysql#845", "proxysql#1029")
def repeat_over_max_allowed_packet(cx):
    """REPEAT() above max_allowed_packet: NULL with warning 1301 or an error, as the server says (proxysql#845)."""
    db = cx.ready()
    yield "limit", db.rows("SELECT @@max_allowed_packet, @@global.max_allowed_packet = @@max_allowed_packet")
    yield "select", db.query("SELECT LENGTH(REPEAT('a', @@max_allowed_packet + 1)) AS n")
    yield "warnings", db.rows("SHOW WARNINGS")


@case("framing", "maxscale-classify-buffer", "MXS-3588", "proxysql#1463")
def pipelined_queries_in_one_segment(cx):
    """Four commands of different kinds written at once are answered one by one, in order (maxscale-classify-buffer)."""
    db = cx.ready()
    cx.table(db, "t_pipe", "id INT PRIMARY KEY", "(1)")
    db.send_bytes(
        command(COM_QUERY, "SELECT 1")
        + command(COM_QUERY, "INSERT INTO t_pipe VALUES (2)")
        + command(COM_PING)
        + command(COM_QUERY, "SELECT COUNT(*) FROM t_pipe")
    )
    yield "first", db.read_results()
    yield "second", db.read_results()
    yield "third", db.read_simple()
    yield "fourth", db.read_results()


@case("framing", "MXS-3588", "maxscale-classify-buffer")
def pipelined_write_error_read(cx):
    """A failing statement in the middle of a pipeline affects only its own reply (MXS-3588)."""
    db = cx.ready()
    sql = (
        "SET @p = 5",
        "SELECT nonsense",
        "SELECT @p",
        "BEGIN",
        "SELECT @@in_transaction",
        "ROLLBACK",
        "SELECT 'end'",
    )
    db.send_bytes(b"".join(command(COM_QUERY, text) for text in sql))
    for text in sql:
        yield text, db.read_results()


@case("framing", "envoy#6696", "proxysql#1180")
def half_packet_then_end(cx):
    """A packet announced as 100 bytes ends after 10; the session closes, others go on (envoy#6696)."""
    db, other = cx.ready(), cx.ready()
    db.send_bytes(b"\x64\x00\x00\x00\x03SELECT 1 ")
    db.half_close()
    after = db.after(10)
    yield "ends", after == "closed" or "err" in after
    yield "other", other.rows("SELECT 1")


@case("framing", "proxysql#2793", "proxysql#3799", "proxysql#892")
def unknown_and_obsolete_commands(cx):
    """Commands the server does not know are refused and the session goes on (proxysql#3799)."""
    for code in (0x00, 0x05, 0x06, 0x0B, 0x0F, 0x10, 0x14, 0x1D, 0x21, 0x7F, 0xC8):
        db = cx.ready()
        yield "command %#04x" % code, db.simple(code, b"qa_none")
        yield "then", db.query("SELECT 1")


@case("framing", "proxysql#2793", quirk=True)
def empty_command_packet(cx):
    """A command packet without even a command byte (proxysql#2793)."""
    db = cx.ready()
    db.send_bytes(b"\x00\x00\x00\x00")
    try:
        yield "reply", db.read_simple()
    except Closed:
        yield "reply", "closed"
    yield "then", db.query("SELECT 1")


@case("framing", "proxysql#3342")
def query_and_quit_in_one_segment(cx):
    """COM_QUERY and COM_QUIT written together: the reply arrives, then the end (proxysql#3342)."""
    db = cx.ready()
    db.send_bytes(command(COM_QUERY, "SELECT 'bye'") + command(COM_QUIT))
    yield "reply", db.read_results()
    yield "after", db.after()


@case("framing", "proxysql#1029", "router#35769702")
def insert_of_five_thousand_rows(cx):
    """One INSERT of 5,000 rows (about 1 MB) with its info text (proxysql#1029)."""
    db = cx.ready()
    cx.table(db, "t_many", "id INT PRIMARY KEY, v VARCHAR(200)")
    values = ",".join("(%d,'%s')" % (i, "row %d " % i * 20) for i in range(5000))
    yield "insert", db.query("INSERT INTO t_many VALUES " + values)
    yield "sum", db.rows("SELECT COUNT(*), SUM(id), SUM(LENGTH(v)) FROM t_many")


@case("framing", "proxysql#3421", "proxysql#1029")
def result_of_900_columns(cx):
    """A result set of 900 columns and one of 900 rows by 30 columns (proxysql#3421)."""
    db = cx.ready()
    wide = db.query("SELECT " + ",".join("%d AS c%d" % (i, i) for i in range(900)))
    yield "columns", [len(wide["cols"]), wide["cols"][0], wide["cols"][-1], wide["seq"], wide["end"]]
    yield "row", str(sum(int(v) for v in wide["rows"][0]))


# ------------------------------------------------------------------- handshake


@case("handshake", "vitess#19627", "vitess#5675", "proxysql#4301", quirk=True)
def greeting_fields(cx):
    """The greeting: version, capabilities, collation, plugin (vitess#19627)."""
    db = cx.connect()
    for key, value in db.greeting.items():
        yield key, value


@case("handshake", "vitess#19627", "proxysql#4301")
def greeting_that_drivers_rely_on(cx):
    """What drivers use of the greeting: AUTOCOMMIT status, collation, common capabilities, salt (vitess#19627)."""
    db = cx.connect()
    yield "status", db.greeting["status"]
    yield "charset", db.greeting["charset"]
    common = (
        "FOUND_ROWS",
        "CONNECT_WITH_DB",
        "LOCAL_FILES",
        "PROTOCOL_41",
        "TRANSACTIONS",
        "SECURE_CONNECTION",
        "MULTI_STATEMENTS",
        "MULTI_RESULTS",
        "PS_MULTI_RESULTS",
        "PLUGIN_AUTH",
        "SESSION_TRACK",
        "DEPRECATE_EOF",
    )
    yield "capabilities", [name for name in common if name in db.greeting["caps"]]
    yield "version family", cx.mariadb == ("MariaDB" in db.greeting["version"])
    yield "protocol", db.greeting["protocol"]
    yield "salt", [len(db.salt), b"\0" in db.salt]
    yield "another salt each time", cx.connect().salt != db.salt


@case("handshake", "router#35195287")
def wrong_password_and_unknown_user(cx):
    """Refused logins: code, SQLSTATE, text with the right 'using password' (router#35195287)."""
    user, _ = cx.account("native")
    yield "wrong password", cx.login_view(user=user, password="no such")
    yield "no password", cx.login_view(user=user, password="")
    yield "unknown user", cx.login_view(user="qa_nobody", password="x")
    yield "unknown user without password", cx.login_view(user="qa_nobody", password="")
    yield "good login after that", cx.login_view(user=user, password=cx.account("native")[1])


@case("handshake", "proxysql#4255", "router#36663727")
def login_with_unknown_or_forbidden_schema(cx):
    """Login naming a schema that does not exist or may not be used (proxysql#4255)."""
    yield "unknown", cx.login_view(db="qa_no_such_schema")
    user, password = cx.account("limited")
    yield "forbidden", cx.login_view(user=user, password=password, db="mysql")
    yield "allowed", cx.login_view(user=user, password=password)


@case("handshake", "router#35463338")
def account_without_password(cx):
    """Login of an account with an empty password: the response length is zero (router#35463338)."""
    user, password = cx.account("empty")
    db = cx.raw(user=user, password=password)
    yield "login", db.login_view
    yield "who", db.rows("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)")
    yield "with a password", cx.login_view(user=user, password="something")


@case("handshake", "router#35239607")
def account_connection_limit(cx):
    """Second login of an account limited to one connection gets one error, once (router#35239607)."""
    user, password = cx.account("single")
    first = cx.raw(user=user, password=password)
    yield "first", first.login_view
    second = cx.raw(user=user, password=password)
    yield "second", second.login_view
    yield "second then", second.after()
    yield "first still works", first.rows("SELECT 1")


@case("handshake", "tiproxy#331", "mysql-otp#197")
def client_without_plugin_auth(cx):
    """A client that does not know authentication plugins (tiproxy#331)."""
    user, password = cx.account("native")
    caps = tuple(c for c in BASE_CAPS if c != "PLUGIN_AUTH")
    db = cx.raw(user=user, password=password, caps=caps, plugin="mysql_native_password", tls=None)
    yield "login", db.login_view
    if "ok" in db.login_view:
        yield "query", db.query("SELECT 1")


@case("handshake", "proxysql#1072", "proxysql#1324")
def found_rows_capability(cx):
    """Affected rows of an update without effect, with and without FOUND_ROWS (proxysql#1072)."""
    for caps in ((), ("FOUND_ROWS",)):
        db = cx.ready(*caps)
        cx.table(db, "t_found", "id INT PRIMARY KEY, v INT", "(1,5),(2,5),(3,6)")
        yield "%s same value" % (caps,), db.query("UPDATE t_found SET v = 5 WHERE id <= 2")
        yield "%s one changes" % (caps,), db.query("UPDATE t_found SET v = 6")
        yield "%s row_count" % (caps,), db.rows("SELECT ROW_COUNT()")
        yield "%s on duplicate key" % (caps,), db.query(
            "INSERT INTO t_found VALUES (1,6),(9,9) ON DUPLICATE KEY UPDATE v = VALUES(v)"
        )


@case("handshake", "proxysql#1072", "tiproxy#331")
def ignore_space_and_interactive_capabilities(cx):
    """IGNORE_SPACE and INTERACTIVE flags of the client act on its session (proxysql#1072)."""
    plain, spacy = cx.ready(), cx.ready("IGNORE_SPACE")
    yield "plain", [
        plain.query("SELECT COUNT (*) FROM whoami"),
        plain.rows("SELECT @@sql_mode LIKE '%IGNORE_SPACE%'"),
    ]
    yield "ignore space", [
        spacy.rows("SELECT COUNT (*) FROM whoami"),
        spacy.rows("SELECT @@sql_mode LIKE '%IGNORE_SPACE%'"),
    ]
    inter = cx.ready("INTERACTIVE")
    yield "interactive", inter.rows("SELECT @@wait_timeout = @@global.interactive_timeout")
    yield "not interactive", plain.rows("SELECT @@wait_timeout = @@global.wait_timeout")


@case("handshake", "proxysql#2359", "proxysql#1072")
def multi_statements_need_the_capability(cx):
    """Two statements in one COM_QUERY without MULTI_STATEMENTS are a syntax error (proxysql#2359)."""
    db = cx.ready()
    yield "without", db.query("SELECT 1; SELECT 2")
    yield "trailing semicolon", db.query("SELECT 1;")
    yield "two semicolons", db.query("SELECT 1;;")
    multi = cx.ready("MULTI_STATEMENTS")
    yield "with", multi.query("SELECT 1; SELECT 2")


@case("handshake", "mysqlclient#422", "proxysql#4841", quirk=True)
def unusable_collation_of_the_login(cx):
    """Collations that cannot be a client charset, or do not exist (mysqlclient#422)."""
    for charset in (35, 54, 60, 0, 250):
        db = cx.raw(charset=charset)
        yield "id %d" % charset, db.login_view
        if "ok" in db.login_view:
            yield "session", db.rows("SELECT @@character_set_client, @@collation_connection")


@case("handshake", "mysql-otp#197", "proxysql#2093")
def connection_attributes(cx):
    """Connection attributes, few and many, do not upset the login (proxysql#2093)."""
    few = {"_client_name": "battery", "program_name": "qa", "empty": ""}
    many = {"key%03d" % i: "v" * 100 for i in range(150)}
    yield "few", cx.login_view("PLUGIN_AUTH_LENENC", attrs=few)
    yield "many", cx.login_view("PLUGIN_AUTH_LENENC", attrs=many)


@case("handshake", "proxysql#988")
def schema_in_login_and_none(cx):
    """DATABASE() is NULL without a schema, and the asked one otherwise, odd names included (proxysql#988)."""
    yield "none", cx.ready(db=None).query("SELECT DATABASE()")
    for name in SCHEMAS:
        db = cx.ready(db=name)
        yield name, db.rows("SELECT DATABASE(), (SELECT name FROM whoami)")


@case("handshake", "envoy#44089")
def tls_login(cx):
    """Login over TLS; the session reports a cipher, the wrong password is still refused (envoy#44089)."""
    db = cx.connect()
    if not db.server_caps & CAPS["SSL"]:
        yield "tls", "not offered"
        return
    user, password = cx.account("native")
    yield "login", db.login(user, password, tls=tls_context(), db=cx.db)
    yield "query", db.query("SELECT 'secret', DATABASE()")
    yield "wrong password", cx.login_view(user=user, password="x", tls=tls_context())
    yield "plain login", cx.login_view(user=user, password=password, tls=None)


@case("handshake", "envoy#18878")
def tls_hello_in_the_same_segment(cx):
    """SSLRequest and ClientHello in a single TCP segment (envoy#18878)."""
    db = cx.connect()
    if not db.server_caps & CAPS["SSL"]:
        yield "tls", "not offered"
        return
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    engine = tls_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        engine.do_handshake()
    db.sock.sendall(packets(db.ssl_request(), 1) + outgoing.read())
    answer = db.sock.recv(65536)
    yield "server hello", "handshake record" if answer[:1] == b"\x16" else answer[:8].hex()


@case("handshake", "proxysql#2793", "proxysql#1444", "sql-tap#2")
def compressed_session(cx):
    """zlib compression: small and large replies, errors, several statements (proxysql#2793)."""
    db = cx.ready("COMPRESS", "MULTI_STATEMENTS")
    yield "active", db.compressed
    yield "small", db.query("SELECT 1")
    yield "large", db.query("SELECT REPEAT('compress me ', 20000)")
    yield "incompressible", db.query("SELECT SHA2('a', 512), SHA2('b', 512), SHA2('c', 512)")
    yield "error", db.query("SELECT * FROM qa_missing")
    yield "several", db.query("SELECT 1; SELECT REPEAT('x', 5000); DO 1")
    yield "ping", db.ping()


@case("handshake", "proxysql#2793", "mysql-otp#197")
def compression_after_auth_switch(cx):
    """Compression starts only after the OK, also when an auth switch came before (proxysql#2793)."""
    user, password = cx.account("native")
    db = cx.raw("COMPRESS", user=user, password=password, plugin="qa_other", auth=b"", tls=None)
    yield "login", db.login_view
    yield "query", db.query("SELECT 'switched', REPEAT('y', 400)")


@case("handshake", "mysqlconnector#146", "rust-mysql#175")
def command_cut_across_compressed_packets(cx):
    """One command cut over several compressed packets; short compressed, long not compressed (mysqlconnector#146)."""
    db = cx.ready("COMPRESS")
    if not db.compressed:
        yield "compression", "not offered"
        return
    data = command(COM_QUERY, "SELECT 'pieces', '%s'" % ("p" * 200))
    for cuts in ((2, 90), (4, 5), (100,)):
        db.frames, db.zseq, last = [], 0, 0
        for cut in cuts + (len(data),):
            db.send_compressed(data[last:cut])
            last = cut
        yield "cut at %s" % (cuts,), db.read_results()
    db.zseq = 0
    db.send_compressed(command(COM_QUERY, "SELECT 1"), force=True)
    yield "short but compressed", db.read_results()
    db.zseq = 0
    db.send_compressed(command(COM_QUERY, "SELECT '%s'" % ("n" * 500)), force=False)
    yield "long but not compressed", db.read_results()


@case("handshake", "haproxy#1915", "proxysql#3342")
def broken_logins(cx):
    """Garbage, a truncated login and a bare disconnect do not disturb the next client (haproxy#1915)."""
    for label, data in (
        ("http", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
        ("short", packets(b"\x85\xa6", 1)),
        ("huge length", b"\xff\xff\xff\x01" + b"x" * 50),
    ):
        db = cx.connect(timeout=8)
        db.send_bytes(data)
        db.half_close()
        after = db.after(8)
        yield label, "closed" if after == "closed" or "err" in after else after
    for _ in range(3):
        cx.connect().close()
    yield "next client", cx.login_view()


@case("handshake", "proxysql#1463", "proxysql#2093")
def first_commands_pipelined_after_login(cx):
    """Session set-up commands sent in one burst right after the login (proxysql#1463)."""
    db = cx.ready()
    burst = (
        "SET NAMES utf8mb4",
        "SET autocommit=1, sql_mode=CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')",
        "SELECT @@max_allowed_packet > 0, @@system_time_zone IS NOT NULL, @@time_zone",
        "SELECT DATABASE()",
    )
    db.send_bytes(b"".join(command(COM_QUERY, sql) for sql in burst))
    for sql in burst:
        yield sql, db.read_results()


# -------------------------------------------------------------------- commands


@case("commands", "proxysql#749", "proxysql#1176", "proxysql#577")
def field_list(cx):
    """COM_FIELD_LIST with and without a wildcard, and for a missing table (proxysql#749)."""
    db = cx.ready()
    cx.table(
        db, "t_fields", "id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20) DEFAULT 'anon', n DECIMAL(8,2) NULL"
    )
    yield "all", db.field_list("t_fields")
    yield "like", db.field_list("t_fields", "n%")
    yield "missing", db.field_list("qa_missing")
    yield "after", db.query("SELECT 1")


@case("commands", "vitess#5570", quirk=True)
def statistics(cx):
    """COM_STATISTICS answers with one text packet (vitess#5570)."""
    db = cx.ready()
    db.cmd(COM_STATISTICS)
    db.frames = []
    text = db.recv().decode("latin-1")
    yield "labels", re.findall(r"([A-Z][A-Za-z ]+): ", text)
    yield "sequence", db.seq_view()
    yield "after", db.query("SELECT 1")


@case("commands", "proxysql#577", "maxscale-stmt-fetch")
def ping_in_several_states(cx):
    """COM_PING carries the status flags of the session (proxysql#577)."""
    db = cx.ready()
    yield "idle", db.ping()
    db.must("BEGIN")
    yield "in transaction", db.ping()
    db.must("ROLLBACK")
    db.must("SET autocommit = 0")
    yield "autocommit off", db.ping()
    db.query("SELECT nonsense")
    yield "after an error", db.ping()


@case("commands", "router#35263986")
def set_option_switches_multi_statements(cx):
    """COM_SET_OPTION turns multi statements on and off for this session only (router#35263986)."""
    db, other = cx.ready(), cx.ready()
    yield "before", db.query("SELECT 1; SELECT 2")
    yield "on", db.set_option(0)
    yield "now allowed", db.query("SELECT 1; SELECT 2")
    yield "other session", other.query("SELECT 1; SELECT 2")
    yield "off", db.set_option(1)
    yield "refused again", db.query("SELECT 1; SELECT 2")


@case("commands", "proxysql#4255", "proxysql#3608", "router#35245250")
def init_db_command(cx):
    """COM_INIT_DB with plain, odd, empty and unknown names (proxysql#3608)."""
    db = cx.ready(db=None)
    for name in SCHEMAS + ("", "qa_no_such_schema", "`qa-1`"):
        yield "init %s" % name, db.init_db(name)
        yield "now", db.rows("SELECT DATABASE()")


# ------------------------------------------------------------------------ kill


@case("kill", "proxysql#860", "proxysql#1790")
def kill_query_with_greeting_id(cx):
    """KILL QUERY with the id of the greeting ends a long SELECT, which is not run again (proxysql#860)."""
    victim, killer = cx.ready(), cx.ready()
    cx.table(killer, "t_kill", "id INT PRIMARY KEY", *["(%d)" % i for i in range(300)])
    wait = cx.background(victim.query, "SELECT /* victim_kq */ SUM(SLEEP(0.1)) FROM t_kill")
    yield "running", cx.sql_running("victim_kq")
    yield "kill", killer.query("KILL QUERY %d" % victim.thread_id)
    yield "victim", wait()
    yield "usable", victim.rows("SELECT 1")
    yield "not restarted", cx.until(
        lambda: not cx.fixtures.one(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%victim_kq%' AND ID <> CONNECTION_ID()"
        ),
        2,
    )


@case("kill", "proxysql#1218")
def kill_connection_of_running_query(cx):
    """KILL CONNECTION during a query: the victim is cut off and the query is not retried (proxysql#1218)."""
    victim, killer = cx.ready(), cx.ready()
    wait = cx.background(victim.query, "SELECT /* victim_kc */ SLEEP(15)")
    yield "running", cx.sql_running("victim_kc")
    yield "kill", killer.query("KILL CONNECTION %d" % victim.thread_id)
    seen = wait()
    yield "victim", "closed" in json.dumps(seen) or "1317" in json.dumps(seen) or "1927" in json.dumps(seen)
    yield "afterwards", victim.query("SELECT 1")
    yield "gone", cx.until(
        lambda: not cx.fixtures.one(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE INFO LIKE '%victim_kc%' AND ID <> CONNECTION_ID()"
        ),
        3,
    )


@case("kill", "proxysql#858", "proxysql#1748")
def process_kill_command(cx):
    """COM_PROCESS_KILL ends an idle session; an unknown id is an error (proxysql#858)."""
    victim, killer = cx.ready(), cx.ready()
    yield "kill", killer.process_kill(victim.thread_id)
    after = victim.after(8)
    yield "victim", "closed" if after == "closed" or "err" in after else after
    yield "unknown id", killer.process_kill(0x7FFFFFF0)
    yield "killer", killer.rows("SELECT 1")


@case("kill", "maxscale-kill-seq", "proxysql#861")
def kill_unknown_and_malformed_ids(cx):
    """KILL of ids that do not exist or make no sense (maxscale-kill-seq)."""
    db = cx.ready()
    for sql in (
        "KILL 4294967000",
        "KILL QUERY 4294967000",
        "KILL CONNECTION 0",
        "KILL",
        "KILL QUERY 'x'",
        "KILL -1",
        "kill /* note */ query 4294967000",
        "KILL SOFT QUERY 4294967000",
    ):
        yield sql, db.query(sql)
    yield "after", db.query("SELECT 1")


@case("kill", "proxysql#1748", "proxysql#1218")
def kill_own_connection(cx):
    """KILL CONNECTION_ID(): the session ends itself (proxysql#1748)."""
    db = cx.ready()
    view = db.query("KILL %d" % db.thread_id)
    yield "reply", view
    yield "after", db.query("SELECT 1")


@case("kill", "proxysql#1748", "proxysql#860")
def kill_without_privilege(cx):
    """An ordinary account may not kill the session of another (proxysql#1748)."""
    user, password = cx.account("native")
    victim, killer = cx.ready(), cx.ready(user=user, password=password)
    yield "kill", killer.query("KILL %d" % victim.thread_id)
    yield "command", killer.process_kill(victim.thread_id)
    yield "victim", victim.rows("SELECT 1")
    mine = cx.ready(user=user, password=password)
    yield "own account", killer.query("KILL %d" % mine.thread_id)


@case("kill", "proxysql#1790", "proxysql#1180")
def kill_query_waiting_for_a_lock(cx):
    """KILL QUERY on a statement that waits for a row lock (proxysql#1790)."""
    holder, victim = cx.ready(), cx.ready()
    cx.table(holder, "t_killwait", "id INT PRIMARY KEY, v INT", "(1,1)")
    holder.must("BEGIN")
    holder.must("UPDATE t_killwait SET v = 2 WHERE id = 1")
    wait = cx.background(victim.query, "UPDATE t_killwait SET v = 3 WHERE id = 1 /* victim_kw */")
    yield "waiting", cx.sql_running("victim_kw")
    yield "kill", holder.query("KILL QUERY %d" % victim.thread_id)
    yield "victim", wait()
    holder.must("COMMIT")
    yield "victim usable", victim.rows("SELECT v FROM t_killwait")


# -------------------------------------------------------------------- timeouts


@case("timeouts", "proxysql#3489", "maxscale-seqno0", slow=True)
def session_wait_timeout(cx):
    """A session that sets wait_timeout = 1 is closed when idle; another one is not (proxysql#3489)."""
    db, other = cx.ready(), cx.ready()
    yield "set", db.query("SET SESSION wait_timeout = 1")
    after = db.after(8)
    yield "idle", after
    yield "other", other.rows("SELECT 1")


@case("timeouts", "proxysql#711", "proxysql#1790")
def statement_time_limit(cx):
    """A statement that runs over the server's time limit ends with the server's error (proxysql#1790)."""
    db = cx.ready()
    limit = "SET SESSION max_statement_time = 0.3" if cx.mariadb else "SET SESSION max_execution_time = 300"
    db.must(limit)
    yield "too long", db.query(
        "SELECT COUNT(*) FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b, "
        "information_schema.COLLATIONS c, information_schema.COLLATIONS d"
    )
    yield "usable", db.rows("SELECT 1")


@case("timeouts", "proxysql#1174", "proxysql#1790")
def lock_wait_timeout(cx):
    """Lock wait timeout: error 1205, the transaction stays open with its other work (proxysql#1174)."""
    first, second = cx.ready(), cx.ready()
    cx.table(first, "t_lw", "id INT PRIMARY KEY, v INT", "(1,1),(2,2)")
    first.must("BEGIN")
    first.must("UPDATE t_lw SET v = 10 WHERE id = 1")
    second.must("SET innodb_lock_wait_timeout = 1")
    second.must("BEGIN")
    yield "other row", second.query("UPDATE t_lw SET v = 20 WHERE id = 2")
    yield "locked row", second.query("UPDATE t_lw SET v = 30 WHERE id = 1")
    yield "status", second.ping()
    yield "own change kept", second.rows("SELECT v FROM t_lw WHERE id = 2")
    first.must("COMMIT")
    yield "retry", second.query("UPDATE t_lw SET v = 30 WHERE id = 1")
    yield "commit", second.query("COMMIT")


# ----------------------------------------------------------------- disconnects


@case("disconnects", "proxysql#3880", "proxysql#1180")
def abrupt_close_rolls_back(cx):
    """A client that vanishes inside a transaction leaves no rows and no locks (proxysql#3880)."""
    gone, other = cx.ready(), cx.ready()
    cx.table(other, "t_gone", "id INT PRIMARY KEY, v INT", "(1,1)")
    gone.must("BEGIN")
    gone.must("INSERT INTO t_gone VALUES (2,2)")
    gone.must("UPDATE t_gone SET v = 5 WHERE id = 1")
    gone.abort()
    other.must("SET innodb_lock_wait_timeout = 10")
    yield "lock is free", other.query("UPDATE t_gone SET v = v + 1 WHERE id = 1")
    yield "rows", other.rows("SELECT id, v FROM t_gone ORDER BY id")


@case("disconnects", "proxysql#1180")
def vanished_client_does_not_block_others(cx):
    """A client that vanishes during a locking statement frees its lock when that ends (proxysql#1180)."""
    gone, other = cx.ready(), cx.ready()
    gone.cmd(COM_QUERY, "SELECT /* gone_sel */ GET_LOCK('qa_gone', 0), SLEEP(2)")
    yield "running", cx.sql_running("gone_sel")
    gone.abort()
    yield "lock acquired", other.rows("SELECT GET_LOCK('qa_gone', 12)")
    other.must("SELECT RELEASE_LOCK('qa_gone')")


@case("disconnects", "MXS-3617", "proxysql#1180")
def close_in_the_middle_of_a_result(cx):
    """A client closes while a 30 MB result is on its way; a new session works (MXS-3617)."""
    gone = cx.ready(rcvbuf=4096)
    gone.cmd(
        COM_QUERY,
        "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "
        "SELECT i, REPEAT('q', 30000) FROM n",
    )
    gone.recv()
    gone.abort()
    fresh = cx.ready()
    yield "new session", fresh.query("SELECT 1")


@case("disconnects", "proxysql#3342")
def quit_command(cx):
    """COM_QUIT closes without an answer; in a transaction it rolls back (proxysql#3342)."""
    db, other = cx.ready(), cx.ready()
    cx.table(other, "t_quit", "id INT PRIMARY KEY")
    db.must("BEGIN")
    db.must("INSERT INTO t_quit VALUES (1)")
    db.quit()
    yield "after", db.after()
    yield "rows", other.rows("SELECT COUNT(*) FROM t_quit")


@case("disconnects", "proxysql#2912", "maxscale-seqno0")
def commit_release_ends_the_session(cx):
    """COMMIT RELEASE and ROLLBACK RELEASE answer and then close (maxscale-seqno0)."""
    other = cx.ready()
    cx.table(other, "t_release", "id INT PRIMARY KEY")
    for number, sql in enumerate(("COMMIT RELEASE", "ROLLBACK RELEASE", "COMMIT AND NO CHAIN RELEASE")):
        db = cx.ready()
        db.must("BEGIN")
        db.must("INSERT INTO t_release VALUES (%d)" % number)
        yield sql, db.query(sql)
        yield "after", db.after()
    yield "rows", other.rows("SELECT id FROM t_release ORDER BY id")


# -------------------------------------------------------------------- prepared


@case("prepared", "dolthub-vitess#278", "vitess#7020", "proxysql#921", "tidb#36732")
def parameter_types(cx):
    """Bound integers of each width and sign, YEAR, floats, dates, times, blobs (dolthub-vitess#278)."""
    db = cx.ready()
    stmt = db.prepare("SELECT ? AS v, HEX(?) AS h")
    yield "prepare", stmt.view
    values = [
        integer("TINY", -1),
        integer("TINY", 255, True),
        integer("SHORT", -32768),
        integer("SHORT", 65535, True),
        integer("LONG", -2147483648),
        integer("LONG", 4294967295, True),
        integer("LONGLONG", -1),
        integer("LONGLONG", 18446744073709551615, True),
        integer("YEAR", 2024),
        1.5,
        "text é",
        b"\x00\xff\\'",
        Param("NEWDECIMAL", lenenc_str(b"-12.3400")),
        Param("VARCHAR", lenenc_str(b"vc")),
        Param("STRING", lenenc_str(b"")),
        Param("JSON", lenenc_str(b'{"a": 1}')),
        None,
    ]
    for number, value in enumerate(values):
        yield "value %d" % number, db.execute(stmt, [value, value])


@case("prepared", "shardingsphere#1199", "shardingsphere#4255")
def binary_rows_of_all_types(cx):
    """A table with most column types read by the binary protocol: values, NULLs, metadata (shardingsphere#1199)."""
    db = cx.ready()
    cx.table(
        db,
        "t_types",
        "id INT PRIMARY KEY, ti TINYINT, tu TINYINT UNSIGNED, si SMALLINT, mi MEDIUMINT, i INT UNSIGNED, "
        "bi BIGINT, bu BIGINT UNSIGNED, f FLOAT, d DOUBLE, de DECIMAL(30,10), b BIT(12), y YEAR, da DATE, "
        "t TIME(3), dt DATETIME(6), ts TIMESTAMP NULL, c CHAR(5), vc VARCHAR(300), vb VARBINARY(10), tx TEXT, "
        "bl BLOB, e ENUM('x','y'), s SET('p','q','r')",
        "(1,-128,255,-32768,-8388608,4294967295,-9223372036854775808,18446744073709551615,1.25,-2.5e100,"
        "12345678901234567890.0123456789,b'101010101010',1999,'2024-02-29','-838:59:58.999',"
        "'9999-12-31 23:59:59.999999','2024-01-01 00:00:00','ab','vc é',x'00ff','text','blob','y','p,r')",
        "(2" + ",NULL" * 23 + ")",
        "(3,0,0,0,0,0,0,0,0,0,0,b'0',2000,'0001-01-01','00:00:00','1000-01-01 00:00:00',NULL,'','','','','',"
        "'x','')",
    )
    stmt = db.prepare("SELECT * FROM t_types WHERE id >= ? ORDER BY id")
    yield "prepare", stmt.view
    yield "binary", db.execute(stmt, [1])
    yield "text", db.query("SELECT * FROM t_types ORDER BY id")


@case("prepared", "shardingsphere#1199")
def null_bitmap_positions(cx):
    """NULLs at every position of a row of 20 columns, as results and as parameters (shardingsphere#1199)."""
    db = cx.ready()
    stmt = db.prepare("SELECT " + ",".join("?" for _ in range(20)))
    for hole in (0, 1, 5, 6, 7, 8, 13, 14, 15, 19):
        view = db.execute(stmt, [None if i == hole or i == (hole + 9) % 20 else i for i in range(20)])
        yield "null at %d" % hole, view["rows"]


@case("prepared", "shardingsphere#3968", "mysqlconnector#267")
def execute_without_parameters_two_forms(cx):
    """A statement without parameters, with and without the spare bytes some clients append (shardingsphere#3968)."""
    db = cx.ready()
    stmt = db.prepare("SELECT 'plain'")
    body = execute_payload(stmt.id)
    for label, data in (("short", body), ("flag 0", body + b"\x00"), ("flag 1", body + b"\x01")):
        db.cmd(COM_STMT_EXECUTE, data)
        yield label, db.read_results(binary=True)


@case("prepared", "shardingsphere#17827", "maxscale-longdata-route")
def long_data_in_pieces(cx):
    """COM_STMT_SEND_LONG_DATA in pieces, empty, twice, and cleared by a reset (shardingsphere#17827)."""
    db = cx.ready()
    stmt = db.prepare("SELECT LENGTH(?), SHA2(?, 256), ?")
    blob = lambda: [Param("BLOB", None), Param("BLOB", None), "inline"]
    for index in (0, 1):
        for piece in (b"a" * 5000, b"", b"b" * 70000, bytes(range(256))):
            db.long_data(stmt, index, piece)
    yield "pieces", db.execute(stmt, blob(), long_data=(0, 1))
    db.long_data(stmt, 0, b"")
    db.long_data(stmt, 1, b"xy")
    yield "empty", db.execute(stmt, blob(), long_data=(0, 1))
    db.long_data(stmt, 0, b"dropped")
    yield "reset", db.stmt_reset(stmt)
    yield "inline after reset", db.execute(stmt, [b"in", b"in", "line"])


@case("prepared", "proxysql#1350", "maxscale-longdata-route", slow=True)
def long_data_of_17_mib(cx):
    """17 MiB sent as long data in 1 MiB pieces and one split piece of 17 MiB (proxysql#1350)."""
    db = cx.ready()
    stmt = db.prepare("SELECT LENGTH(?), SHA2(?, 256)")
    for _ in range(17):
        db.long_data(stmt, 0, b"L" * (1 << 20))
    db.long_data(stmt, 1, b"M" * (17 << 20))
    yield "both", db.execute(stmt, [Param("BLOB", None), Param("BLOB", None)], long_data=(0, 1))["rows"]


@case("prepared", "proxysql#965", "pgbouncer#1038", "proxysql#1574")
def alter_table_between_executes(cx):
    """SELECT * executed before and after ADD, DROP and MODIFY of columns (proxysql#965)."""
    db, ddl = cx.ready(), cx.ready()
    cx.table(ddl, "t_alter", "id INT PRIMARY KEY, a INT", "(1,10)")
    stmt = db.prepare("SELECT * FROM t_alter WHERE id = ?")
    yield "before", db.execute(stmt, [1])
    for sql in (
        "ALTER TABLE t_alter ADD COLUMN b VARCHAR(10) DEFAULT 'new'",
        "ALTER TABLE t_alter MODIFY a VARCHAR(20)",
        "ALTER TABLE t_alter DROP COLUMN a",
    ):
        ddl.must(sql)
        yield sql, db.execute(stmt, [1])
        yield "again without types", db.execute(stmt, [1], send_types=False)


@case("prepared", "proxysql#965", "proxysql#1574")
def table_dropped_and_made_again(cx):
    """A statement on a table that is dropped, then made again with other columns (proxysql#965)."""
    db, ddl = cx.ready(), cx.ready()
    cx.table(ddl, "t_again", "id INT PRIMARY KEY", "(1)")
    stmt = db.prepare("SELECT * FROM t_again")
    yield "first", db.execute(stmt)["rows"]
    ddl.must("DROP TABLE t_again")
    yield "dropped", db.execute(stmt)
    cx.table(ddl, "t_again", "x CHAR(3), y INT", "('abc',5)")
    yield "made again", db.execute(stmt)


@case("prepared", "vitess#5562", "proxysql#1128", "mysql2#805")
def same_text_twice(cx):
    """The same text prepared twice gives two statements; closing one leaves the other (vitess#5562)."""
    db = cx.ready()
    one, two = db.prepare("SELECT ? + 1 AS n"), db.prepare("SELECT ? + 1 AS n")
    yield "two ids", one.id != two.id
    yield "one", db.execute(one, [1])["rows"]
    db.stmt_close(one)
    yield "two", db.execute(two, [2])["rows"]
    yield "closed", db.execute(one, [1])["err"][0]
    three = db.prepare("SELECT ? + 1 AS n")
    yield "three", db.execute(three, [3])["rows"]
    yield "two still", db.execute(two, [4], send_types=False)["rows"]


@case("prepared", "vitess#5734", "maxscale-prepare-prepare")
def prepare_errors(cx):
    """Texts that cannot be prepared give an error and leave the session usable (vitess#5734)."""
    db = cx.ready()
    for sql in (
        "SELEC 1",
        "SELECT FROM",
        "",
        "SELECT * FROM qa_missing WHERE a = ?",
        "SELECT ? FROM",
        "SELECT 1; SELECT 2",
        "PREPARE p FROM 'SELECT 1'",
        "EXECUTE p",
        "LOCK TABLES whoami READ",
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE whoami",
        "HANDLER whoami OPEN",
        "USE qa_battery",
    ):
        stmt = db.prepare(sql)
        yield sql or "empty", stmt.view
        if stmt.id is not None:
            db.stmt_close(stmt)
    yield "after", db.query("SELECT 1")


@case("prepared", "maxscale-unknown-ps", "mysql2#805", "sequelize#12656")
def unknown_statement_ids(cx):
    """Execute, fetch, reset and close of statement ids that were never given (maxscale-unknown-ps)."""
    db = cx.ready()
    yield "execute", db.execute(77)
    db.columns = []
    yield "fetch", db.fetch(77, 10)
    yield "reset", db.stmt_reset(77)
    db.stmt_close(77)
    yield "close has no reply", db.query("SELECT 1")
    yield "short execute", db.simple(COM_STMT_EXECUTE, b"\x01\x00")
    yield "short fetch", db.simple(COM_STMT_FETCH, b"\x01")
    yield "after", db.query("SELECT 2")


@case("prepared", "mysql2#805", "pgdog#295")
def execute_after_close(cx):
    """Executing, resetting and closing again after COM_STMT_CLOSE (mysql2#805)."""
    db = cx.ready()
    stmt = db.prepare("SELECT ?")
    yield "works", db.execute(stmt, [1])["rows"]
    db.stmt_close(stmt)
    db.stmt_close(stmt)
    yield "execute", db.execute(stmt, [1])["err"][:2]
    yield "reset", db.stmt_reset(stmt)["err"][:2]
    yield "after", db.query("SELECT 1")


@case("prepared", "proxysql#4637", "proxysql#1752", "proxysql#2059")
def prepared_call_with_several_results(cx):
    """A prepared CALL returns two result sets and an OK; the next command works (proxysql#4637)."""
    db = cx.ready()
    cx.procedure(db, "p_two", "(IN n INT) BEGIN SELECT n AS a; SELECT n + 1 AS b, 'x' AS c; END")
    stmt = db.prepare("CALL p_two(?)")
    yield "prepare", stmt.view
    yield "first", db.execute(stmt, [5])
    yield "second", db.execute(stmt, [6], send_types=False)
    yield "text call", db.query("CALL p_two(7)")
    yield "after", db.query("SELECT 1")


@case("prepared", "proxysql#1752", "proxysql#4637")
def prepared_call_with_out_parameters(cx):
    """OUT and INOUT parameters of a prepared CALL come as a result marked PS_OUT_PARAMS (proxysql#1752)."""
    db = cx.ready()
    cx.procedure(
        db,
        "p_out",
        "(IN a INT, OUT b INT, INOUT c VARCHAR(20)) " "BEGIN SELECT a; SET b = a * 2; SET c = CONCAT(c, '!'); END",
    )
    stmt = db.prepare("CALL p_out(?, ?, ?)")
    yield "execute", db.execute(stmt, [21, None, "hey"])
    yield "after", db.query("SELECT 1")


@case("prepared", "vitess#12333", slow=True)
def most_parameters(cx):
    """65,535 parameters are accepted, 65,536 and 70,000 are refused with 1390 (vitess#12333)."""
    db = cx.ready()
    for count in (65535, 65536, 70000):
        stmt = db.prepare("SELECT 1 IN (" + ",".join("?" * count) + ")")
        view = stmt.view
        yield "%d" % count, view if "err" in view else [stmt.params, view["prepared"]["cols"]]
        if stmt.id is not None:
            yield "execute", db.execute(stmt, [integer("LONG", i) for i in range(count)])["rows"]
    yield "after", db.query("SELECT 1")


@case("prepared", "MXS-5302", "pgbouncer#1543")
def many_open_statements(cx):
    """600 statements stay open; the first, middle and last still work (MXS-5302)."""
    db = cx.ready()
    stmts = [db.prepare("SELECT ? + %d AS n" % i) for i in range(600)]
    yield "all prepared", len({s.id for s in stmts})
    for i in (0, 1, 299, 598, 599):
        yield "statement %d" % i, db.execute(stmts[i], [1000])["rows"]
    for stmt in stmts[::2]:
        db.stmt_close(stmt)
    yield "odd ones remain", [db.execute(stmts[i], [0], send_types=True)["rows"] for i in (1, 301, 599)]


@case("prepared", "proxysql#1198", "proxysql#1546", "proxysql#4609", "proxysql#3114")
def closed_statements_do_not_pile_up(cx):
    """1,000 different statements prepared, executed and closed: the server is not left with them (proxysql#1198)."""
    db = cx.ready()

    def open_statements():
        with cx.fixtures.conn.cursor() as cursor:
            cursor.execute("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")
            return int(cursor.fetchone()[1])

    before, total = open_statements(), 0
    for i in range(1000):
        stmt = db.prepare("SELECT ? + %d AS pile" % i)
        total += db.execute(stmt, [1])["rows"][0][0]
        db.stmt_close(stmt)
    yield "total", total
    yield "few remain", cx.until(lambda: open_statements() - before < 200, 3)


@case("prepared", "proxysql#1638")
def rows_of_multiples_of_255_bytes(cx):
    """JSON-like values with NUL bytes and lengths around multiples of 255 in binary rows (proxysql#1638)."""
    db = cx.ready()
    cx.table(db, "t_255", "id INT PRIMARY KEY, v BLOB")
    insert = db.prepare("INSERT INTO t_255 VALUES (?, ?)")
    sizes = (253, 254, 255, 256, 508, 509, 510, 511, 765, 1020)
    for i, size in enumerate(sizes):
        db.execute(insert, [i, (b'{"k":"\x00"}' * 110)[:size]])
    stmt = db.prepare("SELECT v, id, LENGTH(v) FROM t_255 ORDER BY id")
    yield "rows", db.execute(stmt)


@case("prepared", "maxscale-direct-exec", "MXS-3588")
def execute_of_the_last_prepared(cx):
    """Execute with statement id 0xffffffff, pipelined after its prepare, as MariaDB clients do (maxscale-direct-exec)."""
    db = cx.ready()
    if not cx.mariadb:
        cx.skip("MariaDB only")
    db.send_bytes(
        command(COM_STMT_PREPARE, "SELECT ? * 2") + command(COM_STMT_EXECUTE, execute_payload(0xFFFFFFFF, [21]))
    )
    stmt = db.read_prepare()
    yield "prepare", stmt.view
    yield "execute", db.read_results(binary=True)
    yield "by its id", db.execute(stmt, [4])["rows"]
    db.send_bytes(command(COM_STMT_PREPARE, "SELEC ?") + command(COM_STMT_EXECUTE, execute_payload(0xFFFFFFFF, [1])))
    yield "failed prepare", db.read_prepare().view
    yield "its execute", db.read_results(binary=True)
    yield "after", db.query("SELECT 1")


@case("prepared", "proxysql#1118", "maxscale-prepare-prepare")
def sql_level_prepare(cx):
    """PREPARE, EXECUTE and DEALLOCATE as text, with variables, renaming and errors (proxysql#1118)."""
    db = cx.ready()
    for sql in (
        "PREPARE p1 FROM 'SELECT ? + ? AS n'",
        "SET @a = 3, @b = 4",
        "EXECUTE p1 USING @a, @b",
        "EXECUTE p1",
        "SET @t = 'SELECT name FROM whoami LIMIT 1'",
        "PREPARE p1 FROM @t",
        "EXECUTE p1",
        "EXECUTE p1 USING @a",
        "DEALLOCATE PREPARE p1",
        "EXECUTE p1",
        "PREPARE p2 FROM 'SELECT 1; SELECT 2'",
        "PREPARE p2 FROM 'SELEC'",
        "PREPARE p2 FROM 'PREPARE p3 FROM ''SELECT 1'''",
        "DROP PREPARE nope",
        "PREPARE p4 FROM 'INSERT INTO whoami SELECT ? FROM DUAL WHERE 0'",
        "EXECUTE p4 USING @a",
        "EXECUTE IMMEDIATE 'SELECT ?' USING @b",
    ):
        yield sql, db.query(sql)


@case("prepared", "proxysql#4621", "proxysql#1828")
def insert_ids_through_binary_protocol(cx):
    """Insert id of a prepared INSERT in its OK packet and by LAST_INSERT_ID(), prepared and text (proxysql#4621)."""
    db = cx.ready()
    cx.table(db, "t_psid", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    stmt, last = db.prepare("INSERT INTO t_psid (v) VALUES (?)"), db.prepare("SELECT LAST_INSERT_ID()")
    for v in (1, 2, 3):
        yield "insert", db.execute(stmt, [v])
        yield "prepared last id", db.execute(last)["rows"]
    yield "text last id", db.rows("SELECT LAST_INSERT_ID()")
    yield "explicit id", db.query("INSERT INTO t_psid VALUES (100, 0)")
    yield "after explicit", db.execute(last)["rows"]


@case("prepared", "tiproxy#33", "shardingsphere#12309")
def statement_reset(cx):
    """COM_STMT_RESET with no open cursor, twice, and after an error (tiproxy#33)."""
    db = cx.ready()
    stmt = db.prepare("SELECT 1 / ?")
    yield "fresh", db.stmt_reset(stmt)
    yield "execute", db.execute(stmt, [4])["rows"]
    yield "again", db.stmt_reset(stmt)
    yield "without types", db.execute(stmt, [5], send_types=False)
    bad = db.prepare("SELECT (SELECT 1 UNION SELECT ?)")
    yield "error", db.execute(bad, [2])
    yield "reset after error", db.stmt_reset(bad)
    yield "good value", db.execute(bad, [1])


@case("prepared", "vitess#12333", "proxysql#1029", quirk=True)
def malformed_execute_packets(cx):
    """Execute packets that are cut short or carry unknown types (proxysql#1029)."""
    for label, cut in (("no bitmap", 9), ("no types", 11), ("half value", 15)):
        db = cx.ready()
        stmt = db.prepare("SELECT ?, ?")
        body = execute_payload(stmt.id, [integer("LONG", 1), integer("LONG", 2)])
        view = db.simple(COM_STMT_EXECUTE, body[:cut])
        yield label, view if "err" in view or "closed" in view else "accepted"
    yield "others", cx.ready().query("SELECT 1")


# --------------------------------------------------------------------- cursors


@case("cursors", "MXS-3801", "tidb#18364", "proxysql#892", "maxscale-stmt-fetch")
def cursor_fetch_in_steps(cx):
    """A read-only cursor fetched in steps up to and past the last row (tidb#18364)."""
    db = cx.ready()
    cx.table(db, "t_cur", "id INT PRIMARY KEY, v CHAR(4)", *["(%d,'v%d')" % (i, i) for i in range(10)])
    stmt = db.prepare("SELECT id, v FROM t_cur WHERE id >= ? ORDER BY id")
    yield "open", db.execute(stmt, [0], flags=1)
    for count in (4, 4, 4, 4):
        yield "fetch %d" % count, db.fetch(stmt, count)
    yield "after", db.query("SELECT 1")


@case("cursors", "MXS-3801", "tidb#36937")
def cursors_on_small_results(cx):
    """Cursors over no row and one row, re-executed without closing (MXS-3801)."""
    db = cx.ready()
    cx.table(db, "t_cur1", "id INT PRIMARY KEY", "(1)")
    stmt = db.prepare("SELECT id FROM t_cur1 WHERE id = ?")
    for value in (99, 1, 1):
        yield "open %d" % value, db.execute(stmt, [value], flags=1)
        yield "fetch", db.fetch(stmt, 10)
    yield "zero rows asked", db.fetch(stmt, 0)


@case("cursors", "proxysql#892", "maxscale-stmt-fetch")
def two_cursors_and_queries_between(cx):
    """Two open cursors fetched in turn with ordinary statements in between (proxysql#892)."""
    db = cx.ready()
    cx.table(db, "t_cur2", "id INT PRIMARY KEY", *["(%d)" % i for i in range(8)])
    up, down = (db.prepare("SELECT id FROM t_cur2 ORDER BY id " + way) for way in ("ASC", "DESC"))
    yield "open", [db.execute(up, flags=1), db.execute(down, flags=1)]
    for _ in range(2):
        yield "up", db.fetch(up, 3)
        yield "query", db.rows("SELECT COUNT(*) FROM t_cur2")
        yield "down", db.fetch(down, 3)
    yield "reset up", db.stmt_reset(up)
    yield "fetch after reset", db.fetch(up, 1)
    yield "down still open", db.fetch(down, 5)
    db.stmt_close(down)
    yield "after", db.query("SELECT 1")


@case("cursors", "dolthub-vitess#228", "tidb#36732")
def cursor_with_deprecate_eof(cx):
    """Opening and fetching a cursor when the client gave up EOF packets (dolthub-vitess#228)."""
    db = cx.ready("DEPRECATE_EOF")
    cx.table(db, "t_cur5", "id INT PRIMARY KEY", "(1),(2),(3)")
    stmt = db.prepare("SELECT id FROM t_cur5 ORDER BY id")
    db.cmd(COM_STMT_EXECUTE, execute_payload(stmt.id, flags=1))
    db.frames = []
    head = db.recv()
    yield "columns", head[0]
    yield "definition", Column(db.recv()).view()
    last = db.recv()
    yield "marker", [last[:1].hex(), db.end_view(last), db.seq_view()]
    yield "fetch", db.fetch(stmt, 2)
    yield "rest", db.fetch(stmt, 2)


@case("cursors", "tidb#18364", "proxysql#4041")
def server_side_cursor_in_procedure(cx):
    """SQL-level cursor in a procedure with a handler for the end (tidb#18364)."""
    db = cx.ready()
    cx.table(db, "t_cur6", "id INT PRIMARY KEY", "(1),(2),(3)")
    cx.procedure(
        db,
        "p_sum",
        "() BEGIN DECLARE done INT DEFAULT 0; DECLARE x INT; DECLARE total INT DEFAULT 0; "
        "DECLARE c CURSOR FOR SELECT id FROM t_cur6; "
        "DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1; OPEN c; "
        "l: LOOP FETCH c INTO x; IF done THEN LEAVE l; END IF; SET total = total + x; END LOOP; "
        "CLOSE c; SELECT total; END",
    )
    yield "call", db.query("CALL p_sum()")
    yield "warnings", db.rows("SHOW WARNINGS")


# --------------------------------------------------------------------- session


@case("session", "proxysql#1452", "proxysql#1048", "proxysql#4493", "proxysql#2016", "proxysql#177")
def last_insert_id_spellings(cx):
    """LAST_INSERT_ID() and @@identity in many spellings after an insert (proxysql#1452)."""
    db = cx.ready()
    cx.table(db, "t_lid", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    db.must("ALTER TABLE t_lid AUTO_INCREMENT = 40996")
    yield "insert", db.query("INSERT INTO t_lid (v) VALUES (1)")
    for sql in (
        "SELECT LAST_INSERT_ID()",
        "select last_insert_id() as ID",
        "SELECT LAST_INSERT_ID();",
        "SELECT LAST_INSERT_ID() FROM DUAL",
        "SELECT LAST_INSERT_ID() LIMIT 1",
        "SELECT @@identity",
        "SELECT @@IDENTITY AS i",
        "SELECT @@last_insert_id",
        "SELECT  last_insert_id ( ) ",
        "SELECT last_insert_id() + 0, 'x'",
        "/* c */ SELECT LAST_INSERT_ID() -- end",
        "SELECT v FROM t_lid WHERE id = LAST_INSERT_ID()",
        "SELECT (SELECT LAST_INSERT_ID())",
        "SELECT LAST_INSERT_ID() UNION ALL SELECT 0",
    ):
        yield sql, db.query(sql)


@case("session", "proxysql#1421", "proxysql#1828")
def last_insert_id_semantics(cx):
    """Multi-row insert, explicit ids, LAST_INSERT_ID(expr), failed insert, update (proxysql#1421)."""
    db = cx.ready()
    cx.table(db, "t_lis", "id INT PRIMARY KEY AUTO_INCREMENT, v INT UNIQUE")
    for sql in (
        "INSERT INTO t_lis (v) VALUES (1),(2),(3)",
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t_lis VALUES (50, 50)",
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t_lis (v) VALUES (1)",
        "SELECT LAST_INSERT_ID()",
        "INSERT IGNORE INTO t_lis (v) VALUES (1)",
        "SELECT LAST_INSERT_ID()",
        "INSERT INTO t_lis (v) VALUES (2) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id), v = 20",
        "SELECT LAST_INSERT_ID()",
        "UPDATE t_lis SET v = LAST_INSERT_ID(v + 100) WHERE id = 50",
        "SELECT LAST_INSERT_ID()",
        "SELECT LAST_INSERT_ID(12345)",
        "SELECT LAST_INSERT_ID()",
        "SET last_insert_id = 9, insert_id = 700",
        "INSERT INTO t_lis (v) VALUES (777)",
        "SELECT LAST_INSERT_ID(), MAX(id) FROM t_lis",
    ):
        yield sql, db.query(sql)


@case("session", "proxysql#732", "proxysql#1072")
def row_count_function(cx):
    """ROW_COUNT() after insert, update, delete, select, DDL and an error (proxysql#732)."""
    db = cx.ready()
    cx.table(db, "t_rc", "id INT PRIMARY KEY, v INT", "(1,1),(2,2),(3,3)")
    for sql in (
        "UPDATE t_rc SET v = v + 1",
        "UPDATE t_rc SET v = v",
        "DELETE FROM t_rc WHERE id = 1",
        "SELECT 1",
        "INSERT INTO t_rc VALUES (7,7),(8,8)",
        "INSERT INTO t_rc VALUES (7,7)",
        "SET @x = 1",
        "REPLACE INTO t_rc VALUES (7,70)",
        "TRUNCATE TABLE t_rc",
    ):
        yield sql, [db.query(sql), db.rows("SELECT ROW_COUNT()")]


@case("session", "proxysql#939", "proxysql#394", "rds-proxy-pinning")
def temporary_tables(cx):
    """Temporary tables: made, filled, read, hiding a base table, dropped, unseen by others (proxysql#939)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_base", "id INT PRIMARY KEY", "(1),(2)")
    for sql in (
        "CREATE TEMPORARY TABLE upd (user_id INT NOT NULL, KEY (user_id)) ENGINE=MyISAM",
        "INSERT INTO upd VALUES (5),(6)",
        "SELECT COUNT(*) FROM upd",
        "CREATE TEMPORARY TABLE t_base (x INT)",
        "SELECT * FROM t_base",
        "DROP TEMPORARY TABLE t_base",
        "SELECT COUNT(*) FROM t_base",
        "/* leading */ create   temporary\n table upd2 AS SELECT * FROM upd",
        "SELECT u.user_id FROM upd u JOIN upd2 v USING (user_id) ORDER BY 1",
        "ALTER TABLE upd ADD COLUMN n INT DEFAULT 3",
        "SELECT * FROM upd",
        "TRUNCATE TABLE upd",
        "SELECT COUNT(*) FROM upd",
        "DROP TABLE upd",
        "SELECT * FROM upd",
    ):
        yield sql, db.query(sql)
    yield "other session", other.query("SELECT * FROM upd2")


@case("session", "proxysql#2106", "proxysql#1020", "proxysql#509")
def sql_mode_values(cx):
    """sql_mode from a variable, emptied, numeric, by REPLACE(), and unknown names (proxysql#2106)."""
    db = cx.ready()
    for sql in (
        "SET SQL_MODE = 'NO_DIR_IN_CREATE'",
        "SET @t = @@SESSION.sql_mode",
        "SET sql_mode = ''",
        "SET SQL_MODE = @t",
        "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
        "SET sql_mode = (SELECT REPLACE(@@sql_mode, 'ANSI_QUOTES', ''))",
        "SET sql_mode = 2",
        "SET sql_mode = 0",
        "SET sql_mode = 'NOT_A_MODE'",
        "SET sql_mode = ' ANSI '",
        'SET sql_mode = "TRADITIONAL"',
        "SET sql_mode = ansi",
        "SET @@sql_mode := @@global.sql_mode",
    ):
        yield sql, [db.query(sql), db.rows("SELECT @@sql_mode")]


@case("session", "proxysql#4446", "proxysql#1342", "proxysql#2943", "vitess#6107")
def assorted_session_variables(cx):
    """Common variables with semicolons, keywords and odd spacing hold for the session (proxysql#4446)."""
    db, other = cx.ready(), cx.ready()
    watch = (
        "SELECT @@foreign_key_checks, @@unique_checks, @@default_storage_engine, @@group_concat_max_len, "
        "@@sql_select_limit, @@sql_safe_updates, @@sql_big_selects, @@max_join_size, @@lock_wait_timeout, "
        "@@div_precision_increment, @@default_week_format, @@lc_time_names"
    )
    before = other.rows(watch)
    for sql in (
        "SET foreign_key_checks = 0;",
        "SET UNIQUE_CHECKS=0",
        "set default_storage_engine = MyISAM",
        "SET\n\tgroup_concat_max_len\n=\n55555",
        "SET SQL_SELECT_LIMIT=2",
        "SET @@session.sql_safe_updates=ON",
        "SET SQL_BIG_SELECTS=1",
        "SET profiling = 1",
        "SET lock_wait_timeout=17",
        "SET div_precision_increment = 9",
        "SET default_week_format = 6",
        "SET lc_time_names = 'de_DE'",
    ):
        yield sql, db.query(sql)
    yield "values", db.rows(watch)
    yield "limit acts", db.rows("SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3")
    yield "precision and names act", db.rows("SELECT 1/3, DAYNAME('2024-01-01'), WEEK('2024-01-01')")
    yield "other session untouched", other.rows(watch) == before


@case("session", "vitess#21150", "proxysql#1503", "seed-deferred")
def invalid_set_fails_at_once(cx):
    """A SET with a bad value fails itself and leaves the session as it was (vitess#21150)."""
    db = cx.ready()
    for sql in (
        "SET @@default_week_format = 'not-a-number'",
        "SET SESSION SQL_MODE='test', NAMES utf7",
        "SET time_zone = '+99:00'",
        "SET NAMES nonsense",
        "SET character_set_client = utf16",
        "SET no_such_variable = 1",
        "SET SESSION max_connections = 5",
        "SET autocommit = 3",
        "SET sql_mode = 'ANSI', time_zone = 'bad'",
        "SET @@global.no_such = 1",
        "SET version = 'x'",
        "SET tx_isolation = 'WHATEVER'",
        "SET foreign_key_checks = maybe",
    ):
        yield sql, db.query(sql)
        yield "then", db.query("SELECT 1")
    yield "state", db.rows(
        "SELECT @@default_week_format, @@time_zone, @@character_set_client, @@autocommit, "
        "@@sql_mode = @@global.sql_mode"
    )


@case("session", "proxysql#1006", "proxysql#3742")
def session_read_only(cx):
    """SET SESSION TRANSACTION READ ONLY refuses writes until READ WRITE; other sessions may write (proxysql#1006)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_ro", "id INT PRIMARY KEY")
    flag = "SELECT @@%s" % ("tx_read_only" if cx.mariadb else "transaction_read_only")
    for sql in (
        "SET SESSION TRANSACTION READ ONLY",
        flag,
        "INSERT INTO t_ro VALUES (1)",
        "SELECT COUNT(*) FROM t_ro",
        "BEGIN",
        "SELECT * FROM t_ro FOR UPDATE",
        "COMMIT",
        "START TRANSACTION READ WRITE",
        "INSERT INTO t_ro VALUES (2)",
        "COMMIT",
        "SET SESSION TRANSACTION READ WRITE",
        flag,
        "INSERT INTO t_ro VALUES (3)",
        "SET TRANSACTION READ ONLY",
        "INSERT INTO t_ro VALUES (4)",
        "INSERT INTO t_ro VALUES (5)",
    ):
        yield sql, db.query(sql)
    yield "other", other.query("INSERT INTO t_ro VALUES (9)")


@case("session", "proxysql#3346", "proxysql#1006")
def isolation_levels(cx):
    """Session and next-transaction isolation levels act on reads (proxysql#3346)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_iso", "id INT PRIMARY KEY, v INT", "(1,1)")
    level = "SELECT @@%s" % ("tx_isolation" if cx.mariadb else "transaction_isolation")
    value = 1
    for sql in (
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
    ):
        yield sql, [db.query(sql), db.rows(level)]
        db.must("BEGIN")
        first = db.rows("SELECT v FROM t_iso")
        other.must("BEGIN")
        other.must("UPDATE t_iso SET v = %d" % (value + 1))
        dirty = db.rows("SELECT v FROM t_iso")
        other.must("COMMIT")
        yield "reads", [first, dirty, db.rows("SELECT v FROM t_iso"), db.query("SET TRANSACTION READ ONLY")]
        db.must("COMMIT")
        value += 1


@case("session", "proxysql#2235", "proxysql#916", "proxysql#3900")
def framework_connect_statements(cx):
    """The connect statements of Rails, Laravel and Django take full effect and do not reach the next client (proxysql#2235)."""
    watch = "SELECT @@sql_mode, @@character_set_client, @@collation_connection, @@wait_timeout, @@sql_auto_is_null"
    cx.table(cx.ready(), "t_fw", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    for sql in (
        "SET NAMES utf8,  @@SESSION.sql_mode = CONCAT(CONCAT(@@sql_mode, ',STRICT_ALL_TABLES'), ',NO_AUTO_VALUE_ON_ZERO'),"
        "  @@SESSION.sql_auto_is_null = 0, @@SESSION.wait_timeout = 20",
        "set names 'utf8mb4' collate 'utf8mb4_unicode_ci', sql_mode='ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES'",
        "set session sql_mode='NO_ENGINE_SUBSTITUTION'",
        "SET SQL_AUTO_IS_NULL = 0",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    ):
        db = cx.ready()
        yield sql, [db.query(sql), db.rows(watch)]
        yield "zero", [db.query("INSERT INTO t_fw VALUES (0, 1)"), db.query("DELETE FROM t_fw WHERE id = 0")]
        db.quit()
        yield "next client", cx.ready().query("INSERT INTO t_fw (id, v) VALUES (DEFAULT, 2)")


@case("session", "proxysql#4197", "proxysql#3346")
def isolation_of_the_next_transaction(cx):
    """SET TRANSACTION applies to the next transaction only, whatever statements come in between (proxysql#4197)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_next", "id INT PRIMARY KEY, v INT", "(1,1)")
    for sql in (
        "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
    ):
        for between in ((), ("SELECT 1", "SET @x = 1")):
            yield sql, [db.query(sql)] + [db.query(text)["seq"] for text in between]
            db.must("BEGIN")
            first = db.rows("SELECT v FROM t_next")
            other.must("BEGIN")
            other.must("SET innodb_lock_wait_timeout = 1")
            change = other.query("UPDATE t_next SET v = v + 1")
            yield "within", [
                first,
                "ok" in change,
                db.rows("SELECT v FROM t_next"),
                db.query("UPDATE t_next SET v = 0 WHERE id = 7"),
            ]
            other.must("ROLLBACK")
            db.must("COMMIT")
            yield "transaction after it", [
                db.query("BEGIN"),
                db.query("DELETE FROM t_next WHERE id = 9"),
                db.query("COMMIT"),
            ]


@case("session", "proxysql#3608", "proxysql#857", "proxysql#1753", "proxysql#1016")
def use_statement_with_odd_names(cx):
    """USE with dashes, digits, spaces, case, Unicode, backquotes, quotes and comments (proxysql#3608)."""
    db = cx.ready(db=None)
    for name in SCHEMAS:
        quoted = name.replace("`", "``")
        for sql in ("USE `%s`" % quoted, "use  /* c */ `%s` ;" % quoted):
            yield sql, [db.query(sql), db.rows("SELECT DATABASE(), (SELECT name FROM whoami)")]
    for sql in (
        "USE shard28",
        "USE shard280;",
        'USE "shard28"',
        "USE 'shard28'",
        "USE qa-1",
        "USE",
        "USE ``",
        "USE shard28 -- trailing",
        "USE /*!50000 shard280 */",
    ):
        yield sql, [db.query(sql), db.rows("SELECT DATABASE()")]
    db.must("SET sql_mode = 'ANSI_QUOTES'")
    yield "ansi quotes", [db.query('USE "qa-1"'), db.rows("SELECT DATABASE()")]


@case("session", "pgdog#1341", "proxysql#3832", "pgdog#3", "proxysql#3742")
def nothing_leaks_to_the_next_client(cx):
    """A session leaves variables, modes, locks and tables behind; the next sees defaults (proxysql#3832)."""
    watch = (
        "SELECT @leak, @@sql_mode = @@global.sql_mode, @@time_zone = @@global.time_zone, @@autocommit, "
        "@@sql_select_limit = @@global.sql_select_limit, @@character_set_client, @@lock_wait_timeout = "
        "@@global.lock_wait_timeout, IS_FREE_LOCK('qa_leak'), DATABASE()"
    )
    for turn in range(3):
        db = cx.ready()
        yield "fresh", db.rows(watch)
        yield "temporary table", db.query("SELECT * FROM tmp_leak")
        for sql in (
            "SET @leak = 'yes', sql_mode = 'ANSI', time_zone = '+03:00', sql_select_limit = 1",
            "SET NAMES latin1",
            "SET SESSION TRANSACTION READ ONLY",
            "CREATE TEMPORARY TABLE tmp_leak (x INT)",
            "SELECT GET_LOCK('qa_leak', 5)",
            "USE shard28",
            "SET lock_wait_timeout = 5",
            "SET autocommit = 0",
            "SET ROLE NONE",
            "BEGIN",
        ):
            db.query(sql)
        db.quit() if turn % 2 else db.abort()
        cx.until(lambda: cx.fixtures.one("SELECT IS_FREE_LOCK('qa_leak')") == 1)


@case("session", "router-sharing-doc", "proxysql#1751")
def get_diagnostics(cx):
    """GET DIAGNOSTICS after an error, a warning and a clean statement (router-sharing-doc)."""
    db = cx.ready()
    db.query("SELECT * FROM qa_missing")
    for sql in (
        "GET DIAGNOSTICS @n = NUMBER, @r = ROW_COUNT",
        "GET DIAGNOSTICS CONDITION 1 @s = RETURNED_SQLSTATE, @m = MESSAGE_TEXT, @e = MYSQL_ERRNO",
        "SELECT @n, @r, @s, @m, @e",
        "SELECT 1/0",
        "GET DIAGNOSTICS @n = NUMBER",
        "SELECT @n",
        "GET DIAGNOSTICS CONDITION 9 @s = RETURNED_SQLSTATE",
        "SHOW WARNINGS",
    ):
        yield sql, db.query(sql)


@case("session", "proxysql#653", "pgdog#3")
def timestamp_and_insert_id_variables(cx):
    """SET TIMESTAMP, INSERT_ID and RAND_SEED make results depend on the session (pgdog#3)."""
    db = cx.ready()
    db.must("SET time_zone = '+00:00', timestamp = 1700000000.5")
    yield "now", db.rows("SELECT NOW(), UNIX_TIMESTAMP(), CURDATE(), NOW(3)")
    yield "repeat", db.rows("SELECT NOW()")
    db.must("SET rand_seed1 = 10, rand_seed2 = 20")
    yield "random", db.rows("SELECT ROUND(RAND(), 12), ROUND(RAND(), 12)")
    db.must("SET timestamp = DEFAULT")
    yield "default again", db.rows("SELECT NOW() > '2024-01-01'")


@case("session", "vitess#6107", "pgdog#1298")
def set_statement_for(cx):
    """SET STATEMENT ... FOR (MariaDB) acts on one statement only (vitess#6107)."""
    db = cx.ready()
    for sql in (
        "SET STATEMENT group_concat_max_len = 5 FOR SELECT GROUP_CONCAT(name), @@group_concat_max_len FROM whoami",
        "SELECT @@group_concat_max_len",
        "SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT @@sql_mode",
        "SET STATEMENT max_statement_time = 0.2 FOR SELECT SLEEP(3)",
        "SET STATEMENT nope = 1 FOR SELECT 1",
        "SELECT @@sql_mode = @@global.sql_mode",
    ):
        yield sql, db.query(sql)


@case("session", "rds-proxy-pinning", "proxysql#394")
def handler_statements(cx):
    """HANDLER OPEN, READ and CLOSE keep their position in the session (rds-proxy-pinning)."""
    db = cx.ready()
    cx.table(db, "t_hd", "id INT PRIMARY KEY, v INT", "(1,10),(2,20),(3,30)")
    for sql in (
        "HANDLER t_hd OPEN AS h",
        "HANDLER h READ `PRIMARY` FIRST",
        "HANDLER h READ `PRIMARY` NEXT",
        "SELECT 1",
        "HANDLER h READ `PRIMARY` NEXT",
        "HANDLER h READ `PRIMARY` NEXT",
        "HANDLER h READ `PRIMARY` = (2)",
        "HANDLER h CLOSE",
        "HANDLER h READ FIRST",
    ):
        yield sql, db.query(sql)


@case("session", "pgdog#1341")
def roles(cx):
    """SET ROLE changes CURRENT_ROLE() for this session only (pgdog#1341)."""
    if not cx.fixtures.role:
        cx.skip("no role could be made")
    db, other = cx.ready(), cx.ready()
    for sql in (
        "SELECT CURRENT_ROLE()",
        "SET ROLE qa_role",
        "SELECT CURRENT_ROLE()",
        "SET ROLE qa_no_role",
        "SELECT CURRENT_ROLE()",
        "SET ROLE NONE",
        "SELECT CURRENT_ROLE()",
    ):
        yield sql, db.query(sql)
    db.must("SET ROLE qa_role")
    yield "other", other.rows("SELECT CURRENT_ROLE()")


@case("session", "seed-deferred", "vitess#21150")
def repeated_session_commands_keep_real_replies(cx):
    """The same SET repeated many times, then one that fails or warns after all (seed-deferred)."""
    db = cx.ready()
    for turn in range(12):
        yield "turn %d" % turn, [
            db.query("SET NAMES utf8mb4"),
            db.query("SET autocommit=1"),
            db.query("SET @n = %d" % turn),
        ]
    yield "variable", db.rows("SELECT @n")
    yield "warns", [db.query("SET sql_mode = 'NO_AUTO_CREATE_USER'"), db.query("SHOW WARNINGS")]
    yield "out of range", [
        db.query("SET net_write_timeout = 0"),
        db.query("SHOW WARNINGS"),
        db.rows("SELECT @@net_write_timeout"),
    ]
    yield "in transaction", [
        db.query("BEGIN"),
        db.query("SET NAMES utf8mb4"),
        db.query("SET autocommit=1"),
        db.query("SELECT 1"),
    ]


# ---------------------------------------------------------------- transactions


@case("transactions", "proxysql#4181", "proxysql#3058")
def errors_do_not_open_transactions(cx):
    """Errors in autocommit mode leave the in-transaction flag off; inside, they leave it on (proxysql#4181)."""
    db = cx.ready()
    cx.table(db, "t_err", "id INT PRIMARY KEY", "(1)")
    for sql in (
        "SET autocommit=1",
        "SELECT aaa FROM bbb",
        "SELECT 1",
        "BOGUS",
        "DO 1",
        "INSERT INTO t_err VALUES (1)",
        "SELECT 1",
        "BEGIN",
        "BOGUS",
        "SELECT 1",
        "INSERT INTO t_err VALUES (1)",
        "INSERT INTO t_err VALUES (2)",
        "COMMIT",
        "SELECT id FROM t_err",
    ):
        yield sql, db.query(sql)


@case("transactions", "proxysql#2236", "proxysql#1716", "proxysql#873")
def autocommit_off(cx):
    """autocommit = 0: visible in variables and flags, implicit transaction, rollback, back on (proxysql#2236)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_ac", "id INT PRIMARY KEY", "(1)")
    for sql in (
        "SET autocommit = 0",
        "SHOW VARIABLES LIKE 'autocommit'",
        "SELECT @@autocommit",
        "SELECT 1",
        "SELECT COUNT(*) FROM t_ac",
        "ROLLBACK",
        "INSERT INTO t_ac VALUES (2)",
    ):
        yield sql, db.query(sql)
    yield "not yet visible", other.rows("SELECT COUNT(*) FROM t_ac")
    for sql in (
        "ROLLBACK",
        "SELECT COUNT(*) FROM t_ac",
        "INSERT INTO t_ac VALUES (3)",
        "SET autocommit = 1",
        "SELECT @@autocommit",
    ):
        yield sql, db.query(sql)
    yield "committed by autocommit = 1", other.rows("SELECT id FROM t_ac ORDER BY id")


@case("transactions", "router#39190243", "proxysql#1915")
def spellings_of_begin(cx):
    """BEGIN and START TRANSACTION with semicolons, comments, options (router#39190243)."""
    db = cx.ready()
    for sql in (
        "BEGIN",
        "BEGIN;",
        "begin work",
        "BEGIN WORK;",
        "START TRANSACTION;",
        "start  transaction",
        "/* c */ BEGIN",
        "BEGIN /* c */",
        "-- c\nBEGIN",
        "# c\nBEGIN",
        "/*!50000 BEGIN */",
        "START TRANSACTION READ ONLY",
        "START TRANSACTION READ WRITE",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "BEGIN READ ONLY",
        "START TRANSACTION NONSENSE",
    ):
        yield sql, [db.query(sql), db.query("SELECT 1")["end"]["status"]]
        db.must("ROLLBACK")


@case("transactions", "maxscale-trx-set", "router#36674083")
def set_inside_transactions(cx):
    """SET of user and system variables between BEGIN and COMMIT (maxscale-trx-set)."""
    db = cx.ready()
    cx.table(db, "t_ts", "id INT PRIMARY KEY")
    for sql in (
        "BEGIN",
        "SET @a = 1",
        "SET SESSION sql_select_limit = 5",
        "INSERT INTO t_ts VALUES (@a)",
        "SET NAMES latin1",
        "SELECT @a, @@sql_select_limit, @@character_set_client",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
        "ROLLBACK",
        "SELECT @a, @@sql_select_limit, @@character_set_client, (SELECT COUNT(*) FROM t_ts)",
        "BEGIN",
        "SET autocommit = 0",
        "INSERT INTO t_ts VALUES (2)",
        "SET autocommit = 0",
        "ROLLBACK",
        "SELECT COUNT(*) FROM t_ts",
    ):
        yield sql, db.query(sql)


@case("transactions", "proxysql#1755", "proxysql#653")
def consistent_snapshot(cx):
    """WITH CONSISTENT SNAPSHOT sees the state of its start, not later commits (proxysql#653)."""
    snap, plain, writer = cx.ready(), cx.ready(), cx.ready()
    cx.table(writer, "t_snap", "id INT PRIMARY KEY", "(1)")
    yield "start", snap.query("START TRANSACTION WITH CONSISTENT SNAPSHOT")
    plain.must("START TRANSACTION")
    writer.must("INSERT INTO t_snap VALUES (2)")
    yield "snapshot", snap.query("SELECT COUNT(*) FROM t_snap")
    yield "plain", plain.query("SELECT COUNT(*) FROM t_snap")
    writer.must("INSERT INTO t_snap VALUES (3)")
    yield "again", [snap.rows("SELECT COUNT(*) FROM t_snap"), plain.rows("SELECT COUNT(*) FROM t_snap")]
    snap.must("COMMIT")
    yield "after", snap.rows("SELECT COUNT(*) FROM t_snap")


@case("transactions", "proxysql#1814", "proxysql#653", "proxysql#889")
def reads_inside_a_transaction(cx):
    """Select first, write, select again in one transaction: own changes seen, then kept (proxysql#1814)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_rit", "id INT PRIMARY KEY, v INT", "(20,0),(67,0)")
    stmt = db.prepare("SELECT COUNT(*), SUM(v) FROM t_rit WHERE id > ?")
    for end in ("ROLLBACK", "COMMIT"):
        db.must("BEGIN")
        yield "before", [db.rows("SELECT COUNT(*) FROM t_rit"), db.execute(stmt, [0])["rows"]]
        db.must("INSERT INTO t_rit VALUES (30, 5)")
        db.must("UPDATE t_rit SET v = v + 1")
        yield "inside", [db.rows("SELECT COUNT(*) FROM t_rit"), db.execute(stmt, [0])["rows"]]
        yield "outside", other.rows("SELECT COUNT(*), SUM(v) FROM t_rit")
        yield end, db.query(end)
        yield "after", [db.rows("SELECT COUNT(*) FROM t_rit"), db.execute(stmt, [0])["rows"]]


@case("transactions", "vitess#5825", "proxysql#4264")
def commit_and_chain(cx):
    """COMMIT AND CHAIN and ROLLBACK AND CHAIN open the next transaction; completion_type too (vitess#5825)."""
    db = cx.ready()
    cx.table(db, "t_chain", "id INT PRIMARY KEY")
    for sql in (
        "BEGIN",
        "INSERT INTO t_chain VALUES (1)",
        "COMMIT AND CHAIN",
        "INSERT INTO t_chain VALUES (2)",
        "ROLLBACK AND CHAIN",
        "SELECT id FROM t_chain",
        "COMMIT",
        "SET completion_type = 'CHAIN'",
        "BEGIN",
        "COMMIT",
        "ROLLBACK",
        "SET completion_type = 0",
        "ROLLBACK",
        "SELECT 1",
    ):
        yield sql, db.query(sql)


@case("transactions", "proxysql#1174", "proxysql#4264", "proxysql#897")
def deadlock_victim(cx):
    """Two sessions deadlock; exactly one gets 1213 and its transaction is gone (proxysql#1174)."""
    one, two = cx.ready(), cx.ready()
    cx.table(one, "t_dead", "id INT PRIMARY KEY, v INT", "(1,0),(2,0)", *["(%d,0)" % i for i in range(10, 60)])
    one.must("BEGIN")
    one.must("UPDATE t_dead SET v = 1 WHERE id >= 10")
    one.must("UPDATE t_dead SET v = 1 WHERE id = 1")
    two.must("BEGIN")
    two.must("UPDATE t_dead SET v = 2 WHERE id = 2")
    wait = cx.background(one.query, "UPDATE t_dead SET v = 1 WHERE id = 2 /* dead_one */")
    yield "waiting", cx.sql_running("dead_one")
    time.sleep(0.2)
    yield "victim", two.query("UPDATE t_dead SET v = 2 WHERE id = 1")
    yield "survivor", wait()
    yield "victim's state", two.query("SELECT 1")["end"]
    one.must("COMMIT")
    yield "rows", two.rows("SELECT id, v FROM t_dead WHERE id < 10 ORDER BY id")


@case("transactions", "proxysql#3749", "MXS-3959")
def savepoints(cx):
    """Nested savepoints, reuse of names, rollback to a missing one (proxysql#3749)."""
    db = cx.ready()
    cx.table(db, "t_sp", "id INT PRIMARY KEY")
    for sql in (
        "BEGIN",
        "INSERT INTO t_sp VALUES (1)",
        "SAVEPOINT a",
        "INSERT INTO t_sp VALUES (2)",
        "SAVEPOINT `b c`",
        "INSERT INTO t_sp VALUES (3)",
        "ROLLBACK TO `b c`",
        "SELECT id FROM t_sp",
        "SAVEPOINT a",
        "INSERT INTO t_sp VALUES (4)",
        "ROLLBACK WORK TO SAVEPOINT a",
        "ROLLBACK TO nope",
        "RELEASE SAVEPOINT a",
        "COMMIT",
        "SELECT id FROM t_sp",
        "ROLLBACK TO a",
        "SAVEPOINT outside",
    ):
        yield sql, db.query(sql)


# ----------------------------------------------------------------------- multi


@case("multi", "proxysql#553", "proxysql#2059")
def call_returning_results(cx):
    """CALL with no, one and three result sets; the closing OK is there, the next CALL works (proxysql#553)."""
    db = cx.ready()
    cx.table(db, "t_call", "id INT PRIMARY KEY", "(1),(2)")
    cx.procedure(db, "p_none", "() SET @called = 1")
    cx.procedure(db, "p_one", "() SELECT id FROM t_call ORDER BY id")
    cx.procedure(
        db,
        "p_three",
        "() BEGIN SELECT 1; UPDATE t_call SET id = id + 10; SELECT id FROM t_call ORDER BY id; "
        "SELECT 'end' AS e FROM t_call WHERE 0; DELETE FROM t_call WHERE id = 11; END",
    )
    for name in ("p_none", "p_one", "p_one", "p_three", "p_missing"):
        yield name, db.query("CALL %s()" % name)
    yield "after", db.rows("SELECT @called, (SELECT COUNT(*) FROM t_call)")


@case("multi", "vitess#6747", "mysqlconnector#267")
def multi_statement_stops_at_the_error(cx):
    """An error in a multi-statement ends it; statements before it took effect, later ones did not (vitess#6747)."""
    db = cx.ready("MULTI_STATEMENTS")
    cx.table(db, "t_multi", "id INT PRIMARY KEY")
    yield "batch", db.query(
        "INSERT INTO t_multi VALUES (1); SELECT 'x'; INSERT INTO t_multi VALUES (1); "
        "INSERT INTO t_multi VALUES (2)"
    )
    yield "syntax", db.query("INSERT INTO t_multi VALUES (3); SELEC 1; INSERT INTO t_multi VALUES (4)")
    yield "rows", db.rows("SELECT id FROM t_multi ORDER BY id")


@case("multi", "vitess#20988")
def routine_bodies_contain_semicolons(cx):
    """CREATE PROCEDURE and TRIGGER with semicolons inside, in a multi-statement (vitess#20988)."""
    db = cx.ready("MULTI_STATEMENTS")
    cx.table(db, "t_trg", "id INT PRIMARY KEY, v INT")
    db.must("DROP PROCEDURE IF EXISTS p_body")           # so that the first run warns as the later ones do
    yield "batch", db.query(
        "DROP PROCEDURE IF EXISTS p_body; CREATE PROCEDURE p_body() BEGIN IF 1 THEN SELECT 'a;b'; "
        "END IF; BEGIN SELECT 2; END; END; CALL p_body(); SELECT 'after'"
    )
    yield "trigger", db.query(
        "CREATE TRIGGER trg_x BEFORE INSERT ON t_trg FOR EACH ROW BEGIN SET NEW.v = 5; "
        "SET @trg = NEW.id; END; INSERT INTO t_trg (id) VALUES (3); SELECT v, @trg FROM t_trg"
    )


@case("multi", "proxysql#3799", "proxysql#2263")
def set_and_select_in_one_packet(cx):
    """SET, SELECT and SET back in one packet, and transactions in one packet (proxysql#3799)."""
    db = cx.ready("MULTI_STATEMENTS")
    cx.table(db, "t_mset", "id INT PRIMARY KEY", "(1),(2),(3)")
    for sql in (
        "SET sql_select_limit=1; SELECT * FROM t_mset; SET sql_select_limit=default;",
        "SELECT * FROM t_mset",
        "SET @p = (SELECT MAX(id) FROM t_mset); DELETE FROM t_mset WHERE id = @p; INSERT INTO t_mset VALUES (@p + 5)",
        "BEGIN; INSERT INTO t_mset VALUES (99); SELECT COUNT(*) FROM t_mset; ROLLBACK; SELECT COUNT(*) FROM t_mset",
        "BEGIN; SELECT 1",
        "SELECT 2; COMMIT",
        "USE shard28; SELECT name FROM whoami; USE qa_battery",
        "CREATE TEMPORARY TABLE tmp_m (x INT); INSERT INTO tmp_m VALUES (1); SELECT * FROM tmp_m",
    ):
        yield sql, db.query(sql)


@case("multi", "proxysql#3606", "vitess#4272")
def warnings_and_ids_per_result(cx):
    """Each result of a multi-statement has its own affected rows, insert id and warnings (vitess#4272)."""
    db = cx.ready("MULTI_STATEMENTS")
    cx.table(db, "t_mw", "id INT PRIMARY KEY AUTO_INCREMENT, v TINYINT")
    yield "batch", db.query(
        "SET sql_mode=''; INSERT INTO t_mw (v) VALUES (1),(1000),('x'); SELECT 1/0, CAST('a' AS SIGNED);"
        " SHOW WARNINGS; UPDATE t_mw SET v = v + 1 WHERE v < 5; SELECT LAST_INSERT_ID(), ROW_COUNT()"
    )


@case("multi", "mysqlconnector#1343", "proxysql#553")
def two_hundred_result_sets(cx):
    """A procedure that returns 200 result sets: sequence ids run on across them (mysqlconnector#1343)."""
    db = cx.ready()
    cx.procedure(
        db,
        "p_200",
        "() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 200 DO SELECT i AS i, REPEAT('x', i) AS r; "
        "SET i = i + 1; END WHILE; END",
    )
    views = db.query("CALL p_200()")
    yield "count", len(views)
    yield "some", [views[0], views[80], views[199], views[200]]
    yield "sequences", [v["seq"] for v in views]
    yield "after", db.query("SELECT 1")


@case("multi", "proxysql#1752", "vitess#20485")
def results_without_columns_or_rows(cx):
    """DO, SET, empty selects, EXPLAIN, SHOW on nothing: an OK packet or an empty result as due (vitess#20485)."""
    db = cx.ready("MULTI_STATEMENTS")
    for sql in (
        "DO 1",
        "DO SLEEP(0)",
        "SET @x = 1",
        "SELECT 1 FROM DUAL WHERE 0",
        "SELECT * FROM whoami WHERE 0",
        "SHOW TABLES LIKE 'none'",
        "SHOW WARNINGS",
        "SELECT 1 LIMIT 0",
        "DO 1; SELECT 1 WHERE FALSE; DO 2",
        "CHECK TABLE whoami",
        "SELECT NULL",
        "SELECT ''",
    ):
        yield sql, db.query(sql)


# ---------------------------------------------------------------- local-infile


def infile_table(cx, db):
    """A table for LOAD DATA and the statement that fills it."""
    cx.table(db, "t_load", "id INT PRIMARY KEY, v VARCHAR(30)")
    return "LOAD DATA LOCAL INFILE 'battery.csv' INTO TABLE t_load FIELDS TERMINATED BY ','"


@case("local-infile", "proxysql#833", "proxysql#3500", "matrixone#9565")
def load_local_file(cx):
    """The file is asked of the client, sent in pieces, and counted in the info text (proxysql#833)."""
    db = cx.ready("LOCAL_FILES")
    sql = infile_table(cx, db)
    yield "load", db.query(sql, infile=[b"1,one\n2,two\n", b"3,th", b"ree\n"])
    yield "rows", db.rows("SELECT * FROM t_load ORDER BY id")
    yield "after", db.query("SELECT 1")


@case("local-infile", "proxysql#2123", "matrixone#9565", slow=True)
def load_20_mb_in_large_packets(cx):
    """CONCURRENT load of 20 MB in packets of 1 MiB, one of 17 MiB that has to be split (proxysql#2123)."""
    db = cx.ready("LOCAL_FILES")
    infile_table(cx, db)
    lines = b"".join(b"%d,value %d\n" % (i, i) for i in range(60000))
    padding = b"".join(b"%d,%s\n" % (i, b"p" * 29) for i in range(100000, 100000 + 17 * 1024 * 1024 // 37))
    pieces = [lines[i : i + (1 << 20)] for i in range(0, len(lines), 1 << 20)] + [padding]
    yield "load", db.query(
        "LOAD DATA CONCURRENT LOCAL INFILE 'data' INTO TABLE t_load FIELDS TERMINATED BY ',' "
        "LINES TERMINATED BY '\\n'",
        infile=pieces,
    )
    yield "sum", db.rows("SELECT COUNT(*), SUM(id), SUM(LENGTH(v)) FROM t_load")
    db.must("DROP TABLE t_load")


@case("local-infile", "proxysql#3500")
def load_of_a_file_that_exists_on_the_way(cx):
    """The named file exists on every machine; only the bytes of the client may be loaded (proxysql#3500)."""
    db = cx.ready("LOCAL_FILES")
    infile_table(cx, db)
    sql = "LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE t_load FIELDS TERMINATED BY ','"
    yield "load", db.query(sql, infile=[b"7,from the client\n"])
    yield "rows", db.rows("SELECT * FROM t_load")


@case("local-infile", "proxysql#2123", "vitess#20485")
def load_with_warnings_and_session_state(cx):
    """Warnings and info of a load in a transaction that uses a user variable (proxysql#2123)."""
    db = cx.ready("LOCAL_FILES", "MULTI_STATEMENTS")
    infile_table(cx, db)
    db.must("SET sql_mode = '', @plus = 100")
    yield "begin", db.query("BEGIN")
    yield "load", db.query(
        "LOAD DATA LOCAL INFILE 'x' INTO TABLE t_load FIELDS TERMINATED BY ',' (@i, v) " "SET id = @i + @plus",
        infile=[b"1,aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\nzz,b\n3\n"],
    )
    yield "warnings", db.rows("SHOW WARNINGS")
    yield "inside", db.rows("SELECT * FROM t_load ORDER BY id")
    yield "rollback", [db.query("ROLLBACK"), db.rows("SELECT COUNT(*) FROM t_load")]
    yield "in a batch", db.query(
        "DO 1; LOAD DATA LOCAL INFILE 'y' INTO TABLE t_load FIELDS TERMINATED BY ','; " "SELECT COUNT(*) FROM t_load",
        infile=[b"5,five\n"],
    )


@case("local-infile", "proxysql#2123", "proxysql#1180")
def client_vanishes_during_load(cx):
    """The client disappears in the middle of a load: no rows stay, others go on (proxysql#2123)."""
    gone, other = cx.ready("LOCAL_FILES"), cx.ready()
    sql = infile_table(cx, gone)
    gone.must("BEGIN")
    gone.cmd(COM_QUERY, sql)
    gone.recv()
    gone.reply_raw(b"1,one\n2,two\n")
    gone.abort()
    cx.until(
        lambda: not cx.fixtures.one(
            "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = %d" % gone.thread_id
        )
    )
    yield "rows", other.query("SELECT COUNT(*) FROM t_load")


# -------------------------------------------------------------------- comments


@case("comments", "vitess#3576", "proxysql#3447")
def dump_preamble(cx):
    """The SET statements that dumps wrap in version comments take effect (vitess#3576)."""
    db = cx.ready("MULTI_STATEMENTS")
    for sql in (
        "/*!40101 SET @OLD_CHARACTER_SET_CLIENT=@@CHARACTER_SET_CLIENT */;",
        "/*!40101 SET NAMES latin1 */;",
        "/*!40103 SET @OLD_TIME_ZONE=@@TIME_ZONE */;",
        "/*!40103 SET TIME_ZONE='+00:00' */;",
        "/*!40014 SET @OLD_UNIQUE_CHECKS=@@UNIQUE_CHECKS, UNIQUE_CHECKS=0 */;",
        "/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='NO_AUTO_VALUE_ON_ZERO' */;",
        "SELECT @@character_set_client, @@time_zone, @@unique_checks, @@sql_mode, @OLD_CHARACTER_SET_CLIENT",
        "/*M!100616 SET @OLD_NOTE_VERBOSITY=@@NOTE_VERBOSITY, NOTE_VERBOSITY=0 */;",
        "/*!40101 SET SQL_MODE=@OLD_SQL_MODE */; /*!40101 SET CHARACTER_SET_CLIENT=@OLD_CHARACTER_SET_CLIENT */;",
        "SELECT @@sql_mode = @@global.sql_mode, @@character_set_client",
    ):
        yield sql, db.query(sql)


@case("comments", "seed-sticky", "proxysql#5413", "proxysql#5400")
def sticky_backend_hints(cx):
    """sticky_backend hints, good, bad and misplaced, never change the answer (seed-sticky)."""
    db = cx.ready("MULTI_STATEMENTS")
    for sql in (
        "/* sticky_backend=1 */ SELECT 1",
        "/* sticky_backend=0 */ SELECT 2",
        "/* sticky_backend=2 */ SELECT 3",
        "/*sticky_backend=1*/SELECT 4",
        "/* sticky_backend = 1 */ SELECT 5",
        "/* sticky_backend=7 */ SELECT 6",
        "/* sticky_backend=x */ SELECT 7",
        "/* sticky_backend= */ SELECT 8",
        "/* sticky_backend */ SELECT 9",
        "/* sticky_backend=99999999999999999999 */ SELECT 10",
        "/* STICKY_BACKEND=1 */ SELECT 11",
        "/* sticky_backend=1; sticky_backend=0 */ SELECT 12",
        "/* hostgroup=999;sticky_backend=1 */ SELECT 13",
        "SELECT 14 /* sticky_backend=1 */",
        "SELECT '/* sticky_backend=1 */' AS `/* sticky_backend=2 */`",
        "-- sticky_backend=1\nSELECT 15",
        "# sticky_backend=1\nSELECT 16",
        "/*+ sticky_backend=1 */ SELECT 17",
        "/*! sticky_backend=1 */ SELECT 18",
        "/* sticky_backend=1 */ INSERT INTO qa_missing VALUES (1)",
        "/* sticky_backend=1 */ SELECT 19; /* sticky_backend=0 */ SELECT 20",
        "/* sticky_backend=1 */",
        "/* sticky_backend=1 */ BEGIN",
        "/* sticky_backend=0 */ SELECT 21",
        "COMMIT",
    ):
        yield sql, db.query(sql)


@case("comments", "seed-sticky", "pgdog#1538")
def sticky_backend_keeps_session_state(cx):
    """State made before, under and after a sticky hint stays consistent (seed-sticky)."""
    db = cx.ready()
    cx.table(db, "t_sticky", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    stmt = db.prepare("SELECT COUNT(*), MAX(v) FROM t_sticky WHERE v >= ?")
    for sql in (
        "SET @s = 1",
        "/* sticky_backend=1 */ SELECT @s",
        "INSERT INTO t_sticky (v) VALUES (5)",
        "SELECT LAST_INSERT_ID()",
        "/* sticky_backend=2 */ SELECT COUNT(*) FROM t_sticky",
        "CREATE TEMPORARY TABLE tmp_sticky AS SELECT 1 AS x",
        "/* sticky_backend=0 */ SELECT x FROM tmp_sticky",
        "BEGIN",
        "/* sticky_backend=1 */ INSERT INTO t_sticky (v) VALUES (6)",
        "ROLLBACK",
    ):
        yield sql, [db.query(sql), db.execute(stmt, [0])["rows"]]


@case("comments", "MXS-3812", "proxysql#1187", "proxysql#5413")
def foreign_hint_styles(cx):
    """Hints of other products and optimizer hints pass as comments (MXS-3812)."""
    db = cx.ready()
    for sql in (
        "SELECT 1 -- maxscale route to master",
        "-- maxscale route to slave\nSELECT 2",
        "SELECT /* maxscale route to server nope */ 3",
        "/*vt+ ALLOW_SCATTER */ SELECT 4",
        "/* ShardingSphere hint: dataSourceName=ds */ SELECT 5",
        "SELECT /*+ MAX_EXECUTION_TIME(1000) */ 6",
        "SELECT /*+ NO_SUCH_HINT(x) */ 7",
        "SELECT /*+ QB_NAME(q) */ name FROM whoami /*+ late */",
        "/*FORCE_MASTER*/ SELECT 8",
        "/* mysql-proxy: x */ SELECT 9",
        "/*master*/SELECT 10",
        "/* traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' */ SELECT 11",
    ):
        yield sql, [db.query(sql), db.query("SHOW WARNINGS")["rows"]]
    stmt = db.prepare("/* hint=1 */ SELECT ? -- maxscale route to master")
    yield "prepared", [stmt.view, db.query("BOGUS")["err"][0], db.execute(stmt, [5])]


@case("comments", "vitess#5903", "proxysql#3680")
def column_names_keep_the_original_text(cx):
    """Unaliased expressions are named by their exact text, spacing and comments included (vitess#5903)."""
    db = cx.ready()
    for sql in (
        "SELECT 1+1,  1 +  1, 'a'  'b', (  2 )",
        "SELECT /* x */ 3 /* y */ , 4",
        "select Count( * ),MAX(Name) from whoami",
        "SELECT \"dq\", N'n', _utf8mb4'u', x'4D', 0x4D, b'1', 1e3, -1, +1, NULL, TRUE, @undefined, @@version IS NULL",
        "SELECT 'trailing   ', '   leading', ''",
        "SELECT a.name AS 'quoted alias', a.name `b t`, a.name x FROM whoami a",
        "SELECT (SELECT 1), EXISTS(SELECT 1), CASE WHEN 1 THEN 2 END, 5 DIV 2, NOT 0, 1 IN (1,2 , 3)",
    ):
        yield sql, db.query(sql)


@case("comments", "router#37538219", "proxysql#1398", "vitess#20988")
def quoting_forms(cx):
    """Doubled and escaped quotes, adjacent strings, dollar quotes, ODBC escapes, quotes in comments (proxysql#1398)."""
    db = cx.ready("MULTI_STATEMENTS")
    for sql in (
        "SELECT 'it''s', 'a\\'b', \"say \"\"hi\"\"\", 'x\"y', \"x'y\"",
        "SELECT 'a' 'b' \"c\"",
        "SELECT `name` AS `we``ird` FROM whoami",
        "SELECT '\\\\', 'a\\\\'; SELECT 'b'",
        "SELECT 'a\\0b', 'n\\nl', '\\%\\_', '\\q'",
        "SELECT $$dollar$$",
        "SELECT $tag$x$tag$",
        "SELECT {d '2024-01-02'}, {t '10:11:12'}, {ts '2024-01-02 10:11:12'}, {fn CONCAT('a','b')}",
        "SELECT '--', '#', '/*', '*/'; SELECT 1 -- ' \" `\n, 2",
        "SELECT /* ' */ 1, /* \" */ 2 # '`\n",
        "SELECT 'semi;colon', `name` FROM whoami",
        "SET @'quoted var' = 5, @\"dq\" = 6, @`bq` = 7; SELECT @'quoted var', @\"dq\", @`bq`",
        "SELECT 'new\nline', 'tab\t', 'nul\x00byte'",
        "SELECT \x00 1",
        "SELECT 1\x00",
        "SELECT 'a\x00b' -- \x00 c",
        "SELECT '\\x27', 'é', '\U0001f600'",
    ):
        yield repr(sql), db.query(sql)


@case("comments", "proxysql#3926", "dbd-mysql#297")
def no_backslash_escapes_and_ansi_quotes(cx):
    """The same bytes under NO_BACKSLASH_ESCAPES and ANSI_QUOTES; status bits follow (proxysql#3926)."""
    db = cx.ready("MULTI_STATEMENTS")
    texts = (
        "SELECT 'a\\', 'b'",
        "SELECT 'a\\'; SELECT 2 -- '",
        'SELECT "name" FROM whoami',
        'SELECT "it\'s"',
        "SELECT 'C:\\\\dir\\\\'",
        'SELECT "a\\"; SELECT 3 -- "',
        "SELECT 'x' || 'y'",
    )
    for mode in (
        "",
        "NO_BACKSLASH_ESCAPES",
        "ANSI_QUOTES",
        "NO_BACKSLASH_ESCAPES,ANSI_QUOTES",
        "PIPES_AS_CONCAT",
        "",
    ):
        yield "mode " + mode, db.query("SET sql_mode = '%s'" % mode)
        for sql in texts:
            yield sql, db.query(sql)
        stmt = db.prepare("SELECT ?, 'p\\\\q'")
        yield "prepared", db.execute(stmt, ["a\\'b"]) if stmt.id is not None else stmt.view


# --------------------------------------------------------------------- digests


@case("digests", "proxysql#3680", "proxysql#4918", "proxysql#2161")
def literals_keep_their_values(cx):
    """Numbers in many notations, NULL lists, signs and trailing comments come back as written (proxysql#3680)."""
    db = cx.ready()
    for sql in (
        "SELECT 1.2E3, 1.2E-3, -1.2E3, -1.2E-3, 1e10, .5, 5., 0x1F, 0b101, x'1f', 1E+2",
        "SELECT - -1, + 1, -(-1), 1-1, 1 -1, 1- 1",
        "SELECT NULL,null,Null, NULL",
        "SELECT 7,null,null, null",
        "SELECT 1.1# final",
        "SELECT 1.1-- final",
        "SELECT 1.1/**/",
        "SELECT '01JSQMJPDJEF'  -- cmt: foo",
        "SELECT 18446744073709551615, 18446744073709551616, 9223372036854775808, -9223372036854775809",
        "SELECT 1 = 1, 1<>2, 1!=2, 1<=>NULL, 2>=1, !0, 1&3, 1|2, 1^3, ~0, 1<<3, 8>>1, 5%3",
        "SELECT TRUE, false, DATE'2024-01-01', TIME '1:2:3'",
    ):
        yield sql, db.query(sql)


@case("digests", "proxysql#3918", "proxysql#970")
def nonsense_statements(cx):
    """Statements that are no SQL get the server's error and the session lives (proxysql#3918)."""
    db = cx.ready()
    for sql in (
        "showdatabases;",
        "selectt 1",
        "SELECT * FORM whoami",
        '{"json": true}',
        "GET / HTTP/1.1",
        "SELECT 1 1",
        "\\q",
        "\xff\xfe",
        "SELECT ?",
        "SELECT :name",
        "SELECT $1",
        "%s",
        "DELIMITER //",
        "BEGIN TRAN",
        "TABLE",
        "a" * 5000,
        "(" * 300,
        "SELECT " + "-" * 200 + "1",
    ):
        yield sql[:40], db.query(sql)
    yield "after", db.query("SELECT 1")


@case("digests", "vitess#20535", "proxysql#1398")
def large_statement_texts(cx):
    """A 200 KB expression, a 300 KB comment and deep subqueries (proxysql#1398)."""
    db = cx.ready()
    yield "expression", db.rows("SELECT " + "+".join(["1"] * 3000))
    yield "comment", db.rows("/* " + "x" * 300000 + " */ SELECT 'after a long comment'")
    yield "subqueries", db.rows("SELECT * FROM " + "(SELECT * FROM " * 20 + "(SELECT 7 AS x) t" + ") t" * 20)
    yield "alias of 256", db.query("SELECT 1 AS `%s`" % ("a" * 256))
    yield "alias of 257", db.query("SELECT 1 AS `%s`" % ("a" * 257))


# --------------------------------------------------------------------- charset


@case("charset", "proxysql#588", "proxysql#1357", "proxysql#1821", "proxysql#554")
def set_names_spellings(cx):
    """SET NAMES and CHARACTER SET with quotes, collations, DEFAULT, binary and rubbish (proxysql#1357)."""
    db = cx.ready()
    watch = (
        "SELECT @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection"
    )
    for sql in (
        "SET NAMES utf8",
        "SET NAMES 'utf8'",
        'SET NAMES "latin1"',
        "SET NAMES utf8 COLLATE 'utf8_general_ci'",
        "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci'",
        "set names utf8mb4 collate utf8mb4_bin;",
        "SET NAMES binary",
        "SET NAMES DEFAULT",
        "SET CHARACTER SET latin1",
        "SET CHARSET 'utf8mb4'",
        "SET NAMES utf8mb4 COLLATE latin1_bin",
        "SET NAMES `utf8mb4`",
        "SET NAMES ascii",
        "SET NAMES ucs2",
        "SET NAMES ''",
        "SET NAMES",
        "SET NAMES @x",
        "SET NAMES cp1251",
        "SET NAMES utf8mb4, @x = 1",
        "SET @y = 2, NAMES koi8r",
        "SET NAMES utf8mb4",
    ):
        yield sql, [db.query(sql), db.rows(watch)]


@case("charset", "proxysql#2528", "proxysql#554", "proxysql#4864")
def emoji_every_time(cx):
    """The same emoji read ten times after SET NAMES, by two sessions of different charset (proxysql#2528)."""
    db, old = cx.ready(), cx.ready(charset=8)
    cx.table(db, "t_emoji", "id INT PRIMARY KEY, v VARCHAR(50)")
    db.must("INSERT INTO t_emoji VALUES (1, 'smile \U0001f600 é')")
    db.must("SET NAMES 'utf8mb4'")
    for turn in range(5):
        yield "turn %d" % turn, [db.rows("SELECT v FROM t_emoji"), old.rows("SELECT v FROM t_emoji")]
    for name in ("character_set_client", "character_set_results", "character_set_connection"):
        yield name, [old.query("SET %s = 'utf8mb4'" % name), old.rows("SELECT v, HEX(v) FROM t_emoji")]


@case("charset", "proxysql#554", "mysqlclient#422")
def bytes_on_the_wire_per_charset(cx):
    """The bytes of one text under several result charsets, and what is stored from them (proxysql#554)."""
    db = cx.ready()
    cx.table(db, "t_bytes", "id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50)")
    for charset, raw in (
        ("latin1", b"caf\xe9 \x80"),
        ("cp1251", b"\xcf\xf0\xe8"),
        ("utf8mb4", "日本 é".encode()),
        ("sjis", b"\x93\xfa\x96\x7b"),
        ("gbk", b"\xd6\xd0\xce\xc4"),
        ("big5", b"\xa4\xa4\xa4\xe5"),
        ("binary", b"\x00\xff\xfe"),
    ):
        db.must("SET NAMES " + charset)
        yield charset, [
            db.query(b"INSERT INTO t_bytes (v) VALUES ('" + raw + b"')"),
            db.query("SELECT v, HEX(v) FROM t_bytes ORDER BY id DESC LIMIT 1"),
        ]
    db.must("SET NAMES utf8mb4")
    yield "all", db.rows("SELECT v FROM t_bytes ORDER BY id")


@case("charset", "safemysql#22", "libinjection#45")
def backslash_as_second_byte(cx):
    """gbk, sjis, big5 and cp932 characters whose second byte is a backslash, quote or backquote (safemysql#22)."""
    db = cx.ready("MULTI_STATEMENTS")
    for charset, char in (
        ("gbk", b"\xbf\x5c"),
        ("gbk", b"\x8c\x60"),
        ("sjis", b"\x95\x5c"),
        ("big5", b"\xa5\x5c"),
        ("cp932", b"\x83\x5c"),
        ("gb18030", b"\xbf\x5c"),
        ("latin1", b"\xbf\x5c"),
    ):
        db.query("SET NAMES " + charset)
        label = charset + " " + char.hex()
        yield label, db.rows("SELECT @@character_set_client")
        yield "literal", db.query(b"SELECT HEX('" + char + b"')")
        yield "ends a string", db.query(b"SELECT '" + char + b"', 2; SELECT 'next'")
        yield "escaped quote after", db.query(b"SELECT '" + char + b"\\'', 3; SELECT 4 -- '")
        yield "backquoted", db.query(b"SELECT 1 AS `" + char + b"`; SELECT 5")
        stmt = db.prepare(b"SELECT '" + char + b"', ?")
        yield "prepared", db.execute(stmt, [7]) if stmt.id is not None else stmt.view
        db.must("SET NAMES utf8mb4")


@case("charset", "libinjection#45", "proxysql#1821")
def introducers_and_literals(cx):
    """_charset introducers, N'', x'', b'', COLLATE and CONVERT, with their column charsets (libinjection#45)."""
    db = cx.ready()
    for sql in (
        b"SELECT _latin1'\xe9', _latin1\"x\", _binary'\x00\xff', N'n', n'n'",
        b"SELECT _utf8mb4'\xc3\xa9' COLLATE utf8mb4_bin, _ucs2 x'0041'",
        b"SELECT x'', X'4a', 0x4a, b'01001010', 0b1001010, HEX(_gbk'\xbf\x5c'), CHARSET(_latin1'a')",
        b"SELECT _nosuch'x'",
        b"SELECT _latin1 'x', _latin1",
        b"SELECT CONVERT('\xc3\xa9' USING latin1), CAST('\xc3\xa9' AS BINARY), HEX(CONVERT('\xc3\xa9' USING utf16))",
        b"SELECT 'a' = 'A', 'a' = BINARY 'A', 'a' COLLATE utf8mb4_bin = 'A', 'stra\xc3\x9fe' = 'strasse'",
    ):
        yield repr(sql), db.query(sql)


@case("charset", "proxysql#2528", "proxysql#4200")
def invalid_text_for_the_charset(cx):
    """Bytes that are not valid in the session charset: error or warning as the server says (proxysql#2528)."""
    db = cx.ready()
    cx.table(
        db, "t_inv", "id INT PRIMARY KEY, v VARCHAR(20) CHARACTER SET utf8mb4, w VARCHAR(20) CHARACTER SET latin1"
    )
    for mode in ("STRICT_ALL_TABLES", ""):
        db.must("SET sql_mode = '%s'" % mode)
        for number, raw in enumerate((b"a\xff\xfeb", b"\xc3", b"ok \xf0\x9f\x98\x80")):
            view = db.query(b"REPLACE INTO t_inv VALUES (%d, '%s', '%s')" % (number, raw, raw))
            yield "%s %d" % (mode, number), [view, db.rows("SHOW WARNINGS")]
    yield "rows", db.rows("SELECT id, HEX(v), HEX(w) FROM t_inv ORDER BY id")
    yield "comment", db.query(b"SELECT 1 /* \xff\xfe */")
    yield "identifier", db.query(b"SELECT 1 AS `\xff`")


# ----------------------------------------------------------------- change-user

STATE_PROBE = (
    "SELECT @cu, @@sql_mode = @@global.sql_mode, @@autocommit, @@sql_select_limit > 5, LAST_INSERT_ID(), "
    "IS_FREE_LOCK('qa_cu'), @@character_set_client, DATABASE()"
)


def dirty_session(cx, db):
    """Give a session state of every kind."""
    cx.table(db, "t_cu", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    for sql in (
        "SET @cu = 1, sql_mode = 'ANSI', sql_select_limit = 1",
        "CREATE TEMPORARY TABLE tmp_cu (x INT)",
        "SELECT GET_LOCK('qa_cu', 2)",
        "PREPARE sp FROM 'SELECT 5'",
        "SET NAMES latin1",
        "SET autocommit = 0",
        "INSERT INTO t_cu (v) VALUES (1)",
        "USE shard28",
    ):
        db.must(sql)
    return db.prepare("SELECT 6")


def dirty_session_for(cx, db, owner):
    """Like dirty_session, for an account that may only use the battery's schema."""
    cx.table(owner, "t_cu", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    for sql in (
        "SET @cu = 1, sql_mode = 'ANSI', sql_select_limit = 1",
        "CREATE TEMPORARY TABLE tmp_cu (x INT)",
        "SELECT GET_LOCK('qa_cu', 2)",
        "SET NAMES latin1",
        "SET autocommit = 0",
        "INSERT INTO t_cu (v) VALUES (1)",
    ):
        db.must(sql)
    return db.prepare("SELECT 6")


@case("change-user", "proxysql#752", "proxysql#3645", "maxscale-cuser-seq", "tiproxy#364")
def change_user_clears_the_session(cx):
    """COM_CHANGE_USER to the same and to another account clears everything; sequence ids are right (proxysql#752)."""
    user, password = cx.account("native")
    db, other = cx.ready(user=user, password=password), cx.ready()
    stmt = dirty_session_for(cx, db, other)
    yield "change", db.change_user(user, password, cx.db, plugin="mysql_native_password")
    yield "state", db.query(STATE_PROBE)
    yield "temporary table", db.query("SELECT * FROM tmp_cu")
    yield "statement", db.execute(stmt)
    yield "rolled back", other.rows("SELECT COUNT(*) FROM t_cu")
    account, secret = cx.account("empty")
    yield "other account", db.change_user(account, secret, "", plugin="mysql_native_password")
    yield "who", db.rows(
        "SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1), DATABASE(), CONNECTION_ID() = %d" % db.thread_id
    )


@case("change-user", "proxysql#4589", "proxysql#4596")
def change_user_with_caching_sha2(cx):
    """COM_CHANGE_USER to a caching_sha2_password account, cold and warm (proxysql#4589)."""
    user, password = cx.account("sha2")
    for label in ("cold", "warm"):
        if label == "cold":
            cx.fixtures.run("FLUSH PRIVILEGES")
        db = cx.ready(tls=tls_context())
        yield label, db.change_user(user, password, cx.db, plugin="caching_sha2_password")
        yield "who", db.rows("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)")


@case("change-user", "mysqlclient#422", "proxysql#4841")
def change_user_sets_the_charset(cx):
    """The collation in COM_CHANGE_USER replaces the session charset (mysqlclient#422)."""
    user, password = cx.account("native")
    db = cx.ready(user=user, password=password)
    for charset in (8, 28, 45, 63, 224, 309):
        view = db.change_user(user, password, cx.db, plugin="mysql_native_password", charset=charset)
        yield "id %d" % charset, ["ok" in view, db.rows("SELECT @@character_set_client, @@collation_connection")]


@case("change-user", "pgbouncer#1543", "mysqlconnector#1465", "mysqlconnector#1406")
def pipelined_resets(cx):
    """Reset, SET NAMES and a prepare in one burst, twice over one connection (mysqlconnector#1465)."""
    db = cx.ready()
    old = db.prepare("SELECT 'old'")
    for turn in range(2):
        db.send_bytes(
            command(COM_RESET_CONNECTION)
            + command(COM_QUERY, "SET NAMES utf8mb4")
            + command(COM_STMT_PREPARE, "SELECT 'new'")
            + command(COM_PING)
        )
        yield "reset", db.read_simple()
        yield "set names", db.read_results()
        stmt = db.read_prepare()
        yield "prepare", stmt.view
        yield "ping", db.read_simple()
        yield "new statement", db.execute(stmt)
        yield "old statement", db.execute(old)["err"][:2] if turn == 0 or old.id != stmt.id else "same id"


@case("change-user", "proxysql#3645", "MXS-3959")
def reset_during_special_states(cx):
    """Reset with an open cursor, inside LOCK TABLES, inside XA and after an error (proxysql#3645)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_rs", "id INT PRIMARY KEY", "(1),(2)")
    db.execute(db.prepare("SELECT id FROM t_rs"), flags=1)
    yield "cursor", [db.reset(), db.rows("SELECT 1")]
    db.must("LOCK TABLES t_rs WRITE")
    yield "locked", [db.reset(), other.query("INSERT INTO t_rs VALUES (3)")]
    db.must("USE " + cx.db)
    db.must("XA START 'qa_reset'")
    db.must("INSERT INTO t_rs VALUES (4)")
    yield "xa", [db.reset(), other.rows("SELECT COUNT(*) FROM t_rs")]
    db.query("BOGUS")
    yield "error", [db.reset(), db.query("SHOW WARNINGS"), db.query("SELECT DATABASE()")]


# ---------------------------------------------------------------------- status


@case("status", "vitess#20485", "MXS-3533", "MXS-3704")
def session_trackers(cx):
    """Session tracker data for schema, system variables, state and transactions (vitess#20485)."""
    db = cx.ready("SESSION_TRACK", "MULTI_STATEMENTS")
    cx.table(db, "t_track", "id INT PRIMARY KEY")
    for sql in (
        "USE shard28",
        "USE qa_battery",
        "SET autocommit = 0",
        "SET autocommit = 1",
        "SET NAMES latin1",
        "SET time_zone = '+01:00'",
        "SET session_track_system_variables = 'sql_mode,wait_timeout'",
        "SET sql_mode = 'ANSI'",
        "SET wait_timeout = 100, sql_mode = ''",
        "SET session_track_system_variables = '*'",
        "SET group_concat_max_len = 5000",
        "SET session_track_state_change = 1",
        "SET @x = 1",
        "CREATE TEMPORARY TABLE tmp_track (x INT)",
        "PREPARE st FROM 'SELECT 1'",
        "SET session_track_state_change = 0",
        "SET session_track_schema = 0",
        "USE shard280",
        "SELECT 1",
        "SET session_track_schema = 1; USE qa_battery; SELECT 2",
    ):
        yield sql, db.query(sql)


@case("status", "vitess#20485", "proxysql#4159")
def transaction_trackers(cx):
    """session_track_transaction_info STATE and CHARACTERISTICS, with DEPRECATE_EOF result ends too (vitess#20485)."""
    db = cx.ready("SESSION_TRACK", "DEPRECATE_EOF")
    cx.table(db, "t_ttrk", "id INT PRIMARY KEY", "(1)")
    for sql in (
        "SET session_track_transaction_info = 'CHARACTERISTICS'",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
        "START TRANSACTION READ ONLY",
        "SELECT * FROM t_ttrk",
        "COMMIT",
        "BEGIN",
        "INSERT INTO t_ttrk VALUES (2)",
        "SELECT 1",
        "ROLLBACK",
        "SET session_track_transaction_info = 'OFF'",
        "BEGIN",
        "COMMIT",
    ):
        yield sql, db.query(sql)


@case("status", "MXS-3704", "vitess#20485")
def no_trackers_without_the_capability(cx):
    """A client without SESSION_TRACK never gets tracker data or its flag (MXS-3704)."""
    db = cx.ready()
    for sql in ("USE shard28", "SET NAMES latin1", "SET @x = 1", "SET autocommit = 0", "BEGIN", "COMMIT"):
        yield sql, db.query(sql)
    yield "login with tracking", cx.login_view("SESSION_TRACK")


@case("status", "proxysql#4041", "proxysql#2684", "vitess#4272")
def deprecate_eof_layout(cx):
    """Results, prepares and errors with DEPRECATE_EOF: no EOF packets, right sequence and warnings (proxysql#4041)."""
    db = cx.ready("DEPRECATE_EOF", "MULTI_STATEMENTS")
    cx.table(db, "t_eof", "id INT PRIMARY KEY, v VARCHAR(10)", "(1,'a'),(2,NULL)")
    cx.procedure(db, "p_eof", "() BEGIN SELECT 1/0; SELECT id FROM t_eof; END")
    for sql in (
        "SELECT id, v FROM t_eof",
        "SELECT 1/0, 2/0",
        "SHOW WARNINGS",
        "SELECT 1 WHERE 0",
        "CALL p_eof()",
        "SELECT 1; SELECT 2/0; DO 1",
        "BOGUS",
        "SELECT REPEAT('a', 70000)",
        "BEGIN",
        "SELECT 1",
        "ROLLBACK",
    ):
        yield sql, db.query(sql)
    stmt = db.prepare("SELECT id, v FROM t_eof WHERE id = ? OR v = ?")
    yield "prepare", stmt.view
    yield "execute", db.execute(stmt, [1, "x"])
    yield "prepare without parameters", db.prepare("SELECT 1").view
    yield "prepare without columns", db.prepare("DO ?").view


@case("status", "proxysql#386", "proxysql#3749")
def flags_of_interleaved_sessions(cx):
    """Two sessions, one in a transaction, take turns; each keeps its own flags (proxysql#386)."""
    one, two = cx.ready(), cx.ready()
    cx.table(one, "t_il", "id INT PRIMARY KEY")
    script = (
        ("one", "BEGIN"),
        ("two", "SELECT 1"),
        ("one", "INSERT INTO t_il VALUES (1)"),
        ("two", "SET autocommit=0"),
        ("one", "SELECT 1"),
        ("two", "SELECT COUNT(*) FROM t_il"),
        ("one", "COMMIT"),
        ("two", "SELECT 1"),
        ("one", "SELECT 1"),
        ("two", "COMMIT"),
        ("two", "SELECT 1"),
    )
    for who, sql in script:
        yield who + " " + sql, (one if who == "one" else two).query(sql)


@case("status", "vitess#5675", "MXS-3704")
def large_counters(cx):
    """Insert ids and affected rows that need 3 and 8 byte encodings (vitess#5675)."""
    db = cx.ready("SESSION_TRACK")
    cx.table(db, "t_big", "id BIGINT UNSIGNED PRIMARY KEY AUTO_INCREMENT, v INT")
    for start in (250, 65535, 16777215, 4294967296, 18446744073709551600):
        yield "id %d" % start, [
            db.query("INSERT INTO t_big VALUES (%d, 1)" % start),
            db.query("INSERT INTO t_big (v) VALUES (2)") if start < 1 << 60 else None,
            db.rows("SELECT LAST_INSERT_ID(), MAX(id) FROM t_big"),
        ]
    db.must("TRUNCATE t_big")
    yield "70,000 rows", db.query(
        "INSERT INTO t_big (v) WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
        "SELECT a.i FROM n a JOIN n b ON b.i <= 78"
    )
    yield "update", db.query("UPDATE t_big SET v = v + 1")


# -------------------------------------------------------------------- warnings


@case("warnings", "proxysql#3606", "proxysql#1751", "proxysql#696")
def select_with_warnings(cx):
    """A SELECT with warnings: count in the end packet, SHOW WARNINGS after it, next query clean (proxysql#3606)."""
    db = cx.ready()
    cx.table(db, "t_w", "total DECIMAL(10,2) NOT NULL", "(0)", "(5)")
    for sql in (
        "SELECT COUNT(1) FROM t_w WHERE total = 'abc'",
        "SHOW WARNINGS",
        "SHOW WARNINGS",
        "SELECT @@warning_count, @@error_count",
        "SELECT 1",
        "SHOW WARNINGS",
        "SELECT 1/0, CAST('x' AS SIGNED), CONVERT('1a', DECIMAL)",
        "SHOW COUNT(*) WARNINGS",
        "SHOW WARNINGS LIMIT 1, 1",
        "SHOW WARNINGS LIMIT 1",
        "SHOW ERRORS",
        "SHOW COUNT(*) ERRORS",
        "show /* c */ warnings",
        "/* c */ SHOW WARNINGS;",
        "DO 1",
        "SHOW WARNINGS",
    ):
        yield sql, db.query(sql)


@case("warnings", "readyset#1703", "proxysql#1751", "proxysql#1807")
def prepared_statement_warnings(cx):
    """Warnings of prepared statements, in prepare and execute, read by text and prepared SHOW WARNINGS (readyset#1703)."""
    db = cx.ready()
    shower = db.prepare("SHOW WARNINGS")
    stmt = db.prepare("SELECT 1 / ?, CAST(? AS SIGNED)")
    yield "execute", db.execute(stmt, [0, "12x"])
    yield "text", db.rows("SHOW WARNINGS")
    yield "prepared show", db.execute(shower) if shower.id is not None else shower.view
    yield "clean", [db.execute(stmt, [1, "12"]), db.rows("SHOW WARNINGS")]
    view = db.prepare("SELECT 1 + '1x'").view
    yield "prepare of a constant", [view, db.rows("SHOW WARNINGS")]
    yield "failed prepare", [db.prepare("SELEC").view, db.rows("SHOW WARNINGS")]


@case("warnings", "router#35213196", "proxysql#696")
def show_warnings_keeps_flags(cx):
    """SHOW WARNINGS carries the session's status flags, also in a transaction and with autocommit off (router#35213196)."""
    db = cx.ready()
    for sql in (
        "SELECT 1/0",
        "SHOW WARNINGS",
        "BEGIN",
        "SELECT 1/0",
        "SHOW WARNINGS",
        "SHOW COUNT(*) WARNINGS",
        "COMMIT",
        "SET autocommit = 0",
        "SELECT 1/0",
        "SHOW WARNINGS",
        "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
        "SELECT 1/0",
        "SHOW WARNINGS",
    ):
        yield sql, db.query(sql)


@case("warnings", "proxysql#1751", "vitess#4272")
def many_warnings(cx):
    """More warnings than max_error_count: full count, capped list (proxysql#1751)."""
    db = cx.ready()
    cx.table(db, "t_mwc", "id INT PRIMARY KEY", *["(%d)" % i for i in range(300)])
    db.must("SET max_error_count = 64")
    yield "select", db.query("SELECT SUM(id / 0) FROM t_mwc")
    yield "list", db.rows("SHOW WARNINGS")
    yield "counts", db.rows("SELECT @@warning_count")
    yield "select again", db.query("SELECT SUM(CAST('z' AS SIGNED) + id) FROM t_mwc")
    yield "show count", db.rows("SHOW COUNT(*) WARNINGS")
    db.must("SET max_error_count = 0")
    yield "none kept", [db.query("SELECT 1/0"), db.query("SHOW WARNINGS"), db.rows("SELECT @@warning_count")]


# --------------------------------------------------------------------- routing


@case("routing", "proxysql#1755", "proxysql#3830", "MXS-3535")
def selects_that_write(cx):
    """SELECTs with side effects: stored functions, sequences, INTO, locks (proxysql#3830)."""
    db = cx.ready()
    cx.table(db, "t_fx", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    db.must("DROP FUNCTION IF EXISTS f_write")
    db.must(
        "CREATE FUNCTION f_write(n INT) RETURNS INT MODIFIES SQL DATA BEGIN INSERT INTO t_fx (v) VALUES (n); RETURN LAST_INSERT_ID(); END"
    )
    for sql in (
        "SELECT f_write(5)",
        "SELECT id, v FROM t_fx",
        "(SELECT f_write(6))",
        "WITH c AS (SELECT f_write(7) AS x) SELECT x FROM c",
        "SELECT COUNT(*) FROM t_fx",
        "SELECT MAX(id) INTO @mx FROM t_fx",
        "SELECT @mx",
        "DO f_write(8)",
        "SET @r = f_write(9)",
        "SELECT @r",
        "VALUES (1),(2)",
        "TABLE t_fx",
        "SELECT COUNT(*) FROM t_fx PROCEDURE ANALYSE()",
        "EXPLAIN SELECT * FROM t_fx WHERE id = 1",
    ):
        yield sql, db.query(sql)


@case("routing", "proxysql#1755", "proxysql#3830")
def locking_reads(cx):
    """FOR UPDATE and SHARE MODE with trailing text of all kinds take the lock (proxysql#1755)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_fu", "id INT PRIMARY KEY", "(1),(2)")
    other.must("SET innodb_lock_wait_timeout = 1")
    for sql in (
        "SELECT * FROM t_fu WHERE id = 1 FOR UPDATE",
        "SELECT * FROM t_fu WHERE id = 1 FOR UPDATE;",
        "SELECT * FROM t_fu WHERE id = 1 FOR UPDATE -- end",
        "SELECT * FROM t_fu WHERE id = 1\nFOR\nUPDATE\n",
        "select * from t_fu where id = 1 for update /* x */",
        "SELECT * FROM t_fu WHERE id = 1 FOR UPDATE NOWAIT",
        "SELECT * FROM t_fu WHERE id = 1 LOCK IN SHARE MODE",
        "(SELECT * FROM t_fu WHERE id = 1 FOR UPDATE)",
    ):
        db.must("BEGIN")
        yield sql, [
            db.query(sql),
            other.query("SELECT id FROM t_fu WHERE id = 1 FOR UPDATE NOWAIT"),
            other.query("ROLLBACK"),
        ]
        db.must("COMMIT")


@case("routing", "proxysql#3830", "vitess#20542")
def writes_that_return_rows(cx):
    """INSERT, REPLACE and DELETE ... RETURNING give result sets (MariaDB) or the server's error (proxysql#3830)."""
    db = cx.ready()
    cx.table(db, "t_ret", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    for sql in (
        "INSERT INTO t_ret (v) VALUES (5),(6) RETURNING id, v * 2",
        "SELECT LAST_INSERT_ID(), ROW_COUNT()",
        "REPLACE INTO t_ret VALUES (1, 50) RETURNING *",
        "DELETE FROM t_ret WHERE id = 1 RETURNING v",
        "DELETE FROM t_ret WHERE 0 RETURNING v",
        "SELECT COUNT(*) FROM t_ret",
    ):
        yield sql, db.query(sql)
    stmt = db.prepare("INSERT INTO t_ret (v) VALUES (?) RETURNING id, v")
    yield "prepared", [stmt.view, db.execute(stmt, [77]) if stmt.id is not None else None]


@case("routing", "proxysql#1118", "proxysql#889", "pgdog#1538")
def mixed_reads_and_writes_on_one_statement(cx):
    """Prepared reads and writes in and out of transactions, in mixed order (pgdog#1538)."""
    db = cx.ready()
    cx.table(db, "t_mix", "id INT PRIMARY KEY, v INT")
    read, write, lock = (
        db.prepare("SELECT v FROM t_mix WHERE id = ?"),
        db.prepare("REPLACE INTO t_mix VALUES (?, ?)"),
        db.prepare("SELECT v FROM t_mix WHERE id = ? FOR UPDATE"),
    )
    for turn in range(4):
        yield "read", db.execute(read, [1])["rows"]
        yield "write", db.execute(write, [1, turn])
        db.must("BEGIN") if turn % 2 else db.must("SET @turn = %d" % turn)
        yield "lock", db.execute(lock, [1])
        yield "write again", db.execute(write, [1, turn * 10], send_types=turn % 2 == 0)
        db.must("ROLLBACK")
        yield "read after", db.execute(read, [1])["rows"]


# ---------------------------------------------------------------- fast-forward


@case("fast-forward", "seed-fastforward", "proxysql#1770", "proxysql#3992")
def switch_candidates_run_once(cx):
    """Statements a rule may use to switch to fast-forward run exactly once, before and after state exists (seed-fastforward)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_ff", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    yield "normal", db.query("INSERT INTO t_ff (v) VALUES (1)")
    stmt = db.prepare("SELECT COUNT(*) FROM t_ff WHERE v >= ?")
    yield "prepared before", db.execute(stmt, [0])["rows"]
    db.must("SET @ff = 'kept', sql_mode = 'ANSI_QUOTES'")
    for sql in (
        "BEGIN",
        "INSERT INTO t_ff (v) VALUES (2)",
        "COMMIT",
        "CREATE TEMPORARY TABLE tmp_ff (x INT)",
        "INSERT INTO tmp_ff VALUES (1)",
        "SELECT x FROM tmp_ff",
        "INSERT INTO t_ff (v) VALUES (3) /* switch_to_fast_forward */",
        "SELECT @ff, @@sql_mode, DATABASE()",
        "SELECT LAST_INSERT_ID()",
    ):
        yield sql, db.query(sql)
    yield "prepared after", db.execute(stmt, [0], send_types=False)
    yield "other", other.rows("SELECT COUNT(*), MAX(id) FROM t_ff")


@case("fast-forward", "proxysql#3756", "proxysql#3992", "seed-fastforward")
def every_command_after_a_switch(cx):
    """After BEGIN (a usual switching point) every kind of command is answered as before (proxysql#3756)."""
    for caps in ((), ("DEPRECATE_EOF", "SESSION_TRACK"), ("COMPRESS", "MULTI_STATEMENTS")):
        db = cx.ready(*caps)
        db.must("BEGIN")
        stmt = db.prepare("SELECT ?, 'bin'")
        yield "%s select" % (caps,), db.query("SELECT 1, 'x'")
        yield "show", db.query("SHOW DATABASES LIKE 'qa\\_battery'")
        yield "execute", db.execute(stmt, [5])
        yield "init db", db.init_db("shard28")
        yield "ping", db.ping()
        yield "set option", db.set_option(0)
        yield "multi", db.query("SELECT 1; SELECT 2")
        yield "error", db.query("BOGUS")
        yield "large", db.query("SELECT REPEAT('ff', 40000)")
        yield "reset", db.reset()
        yield "after reset", db.query("SELECT @@autocommit")
        db.quit()
        yield "quit", db.after()


@case("fast-forward", "seed-fastforward", "MXS-3588")
def pipelined_commands_around_a_switch(cx):
    """A burst in which the second command may switch the session: replies in order, nothing lost or doubled (seed-fastforward)."""
    db, other = cx.ready(), cx.ready()
    cx.table(db, "t_ffp", "id INT PRIMARY KEY AUTO_INCREMENT, v INT")
    burst = (
        "INSERT INTO t_ffp (v) VALUES (1)",
        "BEGIN",
        "INSERT INTO t_ffp (v) VALUES (2)",
        "SELECT COUNT(*) FROM t_ffp",
        "COMMIT",
        "SELECT MAX(id) FROM t_ffp",
    )
    db.send_bytes(b"".join(command(COM_QUERY, sql) for sql in burst))
    for sql in burst:
        yield sql, db.read_results()
    yield "other", other.rows("SELECT id, v FROM t_ffp ORDER BY id")


# --------------------------------------------------------------------- drivers


def query_one(cursor, sql):
    cursor.execute(sql)
    return cursor.fetchall()[0][0]


@case("drivers", "vitess#19627", "proxysql#4446")
def pymysql_autocommit_and_cursors(cx):
    """PyMySQL: autocommit taken from the greeting, dict and unbuffered cursors, executemany (vitess#19627)."""
    import pymysql.cursors

    db = cx.pymysql(autocommit=False)
    with db.cursor() as cur:
        cur.execute("SELECT @@autocommit")
        yield "autocommit", cur.fetchone()
        cur.execute("CREATE TEMPORARY TABLE tmp_py (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))")
        yield "many", cur.executemany(
            "INSERT INTO tmp_py (v) VALUES (%s)", [("a",), ("b'",), ("c\\",), ("é\U0001f600",)]
        )
        yield "last id", cur.lastrowid
        cur.execute("SELECT * FROM tmp_py ORDER BY id")
        yield "rows", cur.fetchall()
    with db.cursor(pymysql.cursors.SSDictCursor) as cur:
        cur.execute("SELECT id, v FROM tmp_py ORDER BY id")
        yield "unbuffered", [cur.fetchone(), cur.fetchmany(2), cur.fetchall()]
    db.rollback()
    db.select_db("shard28")
    with db.cursor() as cur:
        cur.execute("SELECT name FROM whoami")
        yield "selected", cur.fetchall()
    db.ping(reconnect=False)
    yield "status", db.server_status & 3


@case("drivers", "proxysql#553", "proxysql#833")
def pymysql_procedures_and_local_file(cx):
    """PyMySQL: callproc with several results, multi statements, LOAD DATA LOCAL of a real file (proxysql#553)."""
    from pymysql.constants import CLIENT

    db = cx.pymysql(client_flag=CLIENT.MULTI_STATEMENTS, local_infile=True, autocommit=True)
    with db.cursor() as cur, tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        cur.execute("DROP PROCEDURE IF EXISTS p_py")
        cur.execute(
            "CREATE PROCEDURE p_py(IN a INT, OUT b INT) BEGIN SELECT a; SELECT a + 1, 'x'; SET b = a * 2; END"
        )
        cur.callproc("p_py", (5, 0))
        results = [cur.fetchall()]
        while cur.nextset():
            results.append(cur.fetchall())
        yield "results", results
        cur.execute("SELECT @_p_py_0, @_p_py_1")
        yield "out", cur.fetchall()
        cur.execute("CREATE TEMPORARY TABLE tmp_pl (id INT, v VARCHAR(10))")
        file.write("1,one\n2,two\n")
        file.flush()
        yield "load", cur.execute(
            "LOAD DATA LOCAL INFILE '%s' INTO TABLE tmp_pl FIELDS TERMINATED BY ','" % file.name
        )
        cur.execute("SELECT * FROM tmp_pl; SELECT COUNT(*) FROM tmp_pl")
        first = cur.fetchall()
        cur.nextset()
        yield "multi", [first, cur.fetchall()]


@case("drivers", "proxysql#1770", "vitess#5734", "proxysql#1357")
def connector_python_prepared_cursor(cx):
    """mysql-connector-python: prepared cursor, syntax error in prepare, then further use (proxysql#1770)."""
    db = cx.connector(charset="utf8mb4", collation="utf8mb4_general_ci")
    cur = db.cursor(prepared=True)
    cur.execute("SELECT %s", ("prepared statement succeeded",))
    yield "select", cur.fetchall()
    cur.execute("SELECT %s, %s, %s", (None, 2**40, b"\x00\xff"))
    yield "types", cur.fetchall()
    bad = db.cursor(prepared=True)
    try:
        bad.execute("DELETE s0 FROM whoami AS s0 WHERE s0.name = %s LIMIT %s", ("x", 1))
        yield "bad", "accepted"
    except Exception as exc:
        yield "bad", driver_error(exc)
    plain = db.cursor()
    plain.execute("SELECT 1/0")
    yield "warnings", [plain.fetchall(), plain.warnings]
    db.cmd_change_user(cx.target.user, cx.target.password, cx.db)
    plain = db.cursor()
    plain.execute("SELECT DATABASE()")
    yield "after change user", plain.fetchall()
    db.cmd_reset_connection()
    yield "ping", db.is_connected()


@case("drivers", "proxysql#3606", "proxysql#1187", "mysqlclient#422")
def mysqlclient_warnings_and_comments(cx):
    """mysqlclient: results do not shift after a warning; comments and charsets pass (proxysql#3606)."""
    db = cx.mysqlclient()
    cur = db.cursor()
    for sql in (
        "SELECT COUNT(1) FROM whoami WHERE name = 5 / 0",
        "SELECT 1",
        "SELECT CAST('abc' AS SIGNED)",
        "SELECT 'after'",
    ):
        cur.execute(sql)
        yield sql, [cur.fetchall(), db.warning_count()]
    yield "show", [cur.execute("SHOW WARNINGS"), cur.fetchall()]
    cur.execute("/* lead */ SELECT 'c' -- trail")
    yield "comments", cur.fetchall()
    cur.execute("SELECT @@character_set_client, 'é\U0001f600'")
    yield "charset", cur.fetchall()
    yield "thread id", db.thread_id() == int(query_one(cur, "SELECT CONNECTION_ID()"))
    yield "stat", bool(db.stat())
    db.select_db("qa-1")
    yield "schema", query_one(cur, "SELECT name FROM whoami")


@case("drivers", "mysql2#805", "mysql2#528", "mysql2#421")
def node_mysql2_execute(cx):
    """node mysql2: cached prepared statements, types, errors, big values (mysql2#805)."""
    yield "output", cx.node("execute")
