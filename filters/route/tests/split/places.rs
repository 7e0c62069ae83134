//! The table of statements, and what a session's state does to it.

use crate::{Above, Split, given, log, server, session, status, target};
use bytes::Bytes;
use chain::{
    Command, Reply,
    facts::{Expected, LogEntry, Pin, SessionLog},
    testing,
    topology::ServerState,
};
use std::{sync::Arc, time::Duration};
use wire::{
    command::CommandCode,
    err::{ErrPacket, codes},
};

#[test]
fn reads_go_to_the_replicas_in_turn_and_anything_else_to_the_primary() {
    let mut split = Split::new("");
    for text in [
        "SELECT * FROM t",
        "(SELECT 1) UNION (SELECT 2)",
        "SHOW TABLES",
        "DESCRIBE t",
        "EXPLAIN SELECT 1",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "TABLE t",
        "VALUES ROW(1)",
    ] {
        let first = split.sends(text);
        let second = split.sends(text);
        assert!(matches!((&*first, &*second), ("r1", "r2") | ("r2", "r1")), "{text}");
    }
    for text in [
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a = 1",
        "DELETE FROM t",
        "REPLACE INTO t VALUES (1)",
        "CREATE TABLE u (a INT)",
        "GRANT ALL ON *.* TO a",
        "OPTIMIZE TABLE t",
        "FLUSH TABLES",
        "CALL p()",
        "DO SLEEP(0)",
        "SELECT 1; SELECT 2",
        "SELECT * FROM t FOR UPDATE",
        "SELECT * FROM t FOR SHARE",
        "SELECT * FROM t LOCK IN SHARE MODE",
        "SELECT 1 INTO @a",
        "SELECT f(1)",
        "SELECT GET_LOCK('a', 1)",
        "SELECT NEXTVAL(s)",
        "SELECT LAST_INSERT_ID()",
        "SHOW MASTER STATUS",
        "SHOW BINARY LOG STATUS",
        "SET TRANSACTION READ ONLY",
        "EXECUTE p",
        "KILL 4711",
        "COMMIT",
        "nonsense",
    ] {
        assert_eq!(split.sends(text), "p", "{text}");
    }
}

#[test]
fn commands_without_a_text_have_their_place() {
    let mut split = Split::new("");
    for (code, there) in [
        (CommandCode::FIELD_LIST, "r1"),
        (CommandCode::PING, "r1"),
        (CommandCode::STATISTICS, "r1"),
        (CommandCode::CREATE_DB, "p"),
        (CommandCode::REFRESH, "p"),
        // Where the last one was.
        (CommandCode::PING, "p"),
        (CommandCode::FIELD_LIST, "r2"),
        (CommandCode::RESET_CONNECTION, "r2"),
    ] {
        split.client.send(Command::new(split.session.clone(), code, "t\0")).unwrap();
        assert_eq!(split.log.take(), [there], "{}", code.name());
    }
}

#[test]
fn a_transaction_is_on_one_server() {
    let mut split = Split::new("");
    for (text, there) in [
        ("BEGIN", "p"),
        ("SELECT 1", "p"),
        ("COMMIT", "p"),
        ("SELECT 1", "r1"),
        ("START TRANSACTION READ ONLY", "r2"),
        ("SELECT 1", "r2"),
        ("SELECT 2", "r2"),
        ("INSERT INTO t VALUES (1)", "r2"),
        ("COMMIT", "r2"),
        ("SELECT 1", "r1"),
        ("START TRANSACTION READ WRITE", "p"),
        ("SELECT 1", "p"),
        ("ROLLBACK", "p"),
        ("set autocommit=0", "p"),
        ("SELECT 1", "p"),
        ("START TRANSACTION READ ONLY", "p"),
    ] {
        assert_eq!(split.sends(text), there, "{text}");
    }
}

/// What route sends to end a transaction.
const ENDS: &str = "COMMIT AND NO CHAIN NO RELEASE";

#[test]
fn a_transaction_that_may_write_is_not_begun_inside_one_on_a_replica() {
    let mut split = Split::new("");
    // Of MySQL, BEGIN says nothing about reading and writing: it goes on as it was.
    server(&split.session, 1, "r1").standing.set_state(ServerState::OfflineSoft);
    server(&split.session, 1, "r2").profile.set("8.4.3");
    for (text, there) in [
        ("START TRANSACTION READ ONLY", "r2"),
        ("BEGIN", "r2"),
        ("START TRANSACTION READ WRITE", &format!("r2: {ENDS} p")),
        ("COMMIT", "p"),
    ] {
        assert_eq!(split.sends(text), there, "{text}");
    }
    let mut split = Split::new("");
    for name in ["r1", "r2"] {
        server(&split.session, 1, name).profile.set("10.11.6-MariaDB");
    }
    for (text, there) in [
        ("START TRANSACTION READ ONLY", "r1"),
        ("SELECT 1", "r1"),
        // The replica's is ended first, as the server would have.
        ("BEGIN", &format!("r1: {ENDS} p")),
        ("DELETE FROM t", "p"),
        // On the primary there is nothing to leave.
        ("START TRANSACTION READ ONLY", "p"),
        ("BEGIN", "p"),
        ("COMMIT", "p"),
        ("START TRANSACTION READ ONLY", "r2"),
        ("START TRANSACTION READ ONLY", "r2"),
        ("start transaction", &format!("r2: {ENDS} p")),
    ] {
        assert_eq!(split.sends(text), there, "{text}");
    }
}

#[test]
fn a_text_that_leaves_a_transaction_on_a_replica_runs_on_the_primary() {
    let moved = format!("r1: {ENDS} p");
    for (version, text, there) in [
        ("8.4.3", "START TRANSACTION READ WRITE; DELETE FROM t; COMMIT", &*moved),
        ("8.4.3", "COMMIT; DELETE FROM t", &*moved),
        ("8.4.3", "rollback and no chain; DELETE FROM t", &*moved),
        // Of MySQL, that one only reads as well.
        ("8.4.3", "BEGIN; DELETE FROM t; COMMIT", "r1"),
        ("10.11.6-MariaDB", "BEGIN; DELETE FROM t; COMMIT", &*moved),
        ("10.11.6-MariaDB", "COMMIT; SELECT 1", &*moved),
        ("10.11.6-MariaDB", "START TRANSACTION READ ONLY; SELECT 1", "r1"),
        ("10.11.6-MariaDB", "COMMIT AND CHAIN; SELECT 1", "r1"),
        ("10.11.6-MariaDB", "SELECT 1; DELETE FROM t", "r1"),
        ("10.11.6-MariaDB", "ROLLBACK TO a; SELECT 1", "r1"),
    ] {
        let mut split = Split::new("");
        server(&split.session, 1, "r1").profile.set(version);
        assert_eq!(split.sends("START TRANSACTION READ ONLY"), "r1");
        assert_eq!(split.sends(text), there, "{text}");
    }
}

#[test]
fn what_is_bound_to_a_replica_begins_there() {
    let mut split = Split::new("");
    assert_eq!(split.sends("START TRANSACTION READ ONLY"), "r1");
    let pin =
        Pin { target: target(&split.session, 1, "r1"), cause: "a lock", soft: false, again: false };
    given(Above { pin: Some(pin), log: Some(log(false)), ..Above::default() });
    assert_eq!(split.sends("START TRANSACTION READ WRITE"), "r1");
}

#[test]
fn a_replica_that_cannot_end_its_transaction_says_so() {
    let mut split = Split::of("", |command| {
        Ok(match testing::text(command) {
            text if text == ENDS => {
                Reply::err(command, &ErrPacket::new(codes::ER_UNKNOWN_STMT_HANDLER, "no"))
            }
            _ => Reply::ok(command, status(command)),
        })
    });
    split.sends("START TRANSACTION READ ONLY");
    split.log.take();
    let answer = split.client.query("START TRANSACTION READ WRITE").unwrap();
    assert!(answer.end.error.is_some());
    assert_eq!(split.log.take(), [format!("r1: {ENDS}")]);
}

#[test]
fn a_session_whose_transactions_only_read_has_them_on_replicas() {
    let entry = |lsn, payload: &'static str| {
        let payload = Bytes::from_static(payload.as_bytes());
        LogEntry::new(lsn, CommandCode::QUERY, payload, Expected::Success)
    };
    let reset = LogEntry { code: CommandCode::RESET_CONNECTION, ..entry(9, "") };
    let read_only = "SET SESSION TRANSACTION READ ONLY";
    for (entries, there) in [
        (vec![entry(1, read_only)], "r1"),
        (vec![entry(2, read_only), entry(3, "SET NAMES utf8mb4"), entry(4, "USE s")], "r1"),
        (vec![entry(5, read_only), entry(6, "SET tx_read_only = 0")], "p"),
        (vec![entry(7, read_only), entry(8, "EXECUTE p")], "p"),
        (vec![entry(8, read_only), reset], "p"),
        (vec![entry(10, "SET transaction_read_only = @a")], "p"),
        (vec![], "p"),
    ] {
        let mut split = Split::new("");
        let shown = format!("{entries:?}");
        let entries = Arc::new(entries.into_iter().map(Arc::new).collect());
        given(Above { log: Some(SessionLog { entries, ..log(false) }), ..Above::default() });
        assert_eq!(split.sends("BEGIN"), there, "{shown}");
    }
}

#[test]
fn what_the_log_repeats_runs_where_the_session_is() {
    let mut split = Split::new("");
    let session_command = Above { log: Some(log(true)), ..Above::default() };
    for (text, there) in [("SELECT 1", "r1"), ("DELETE FROM t", "p")] {
        given(Above { log: Some(log(false)), ..Above::default() });
        assert_eq!(split.sends(text), there);
        given(session_command.clone());
        for text in ["SET NAMES utf8mb4", "USE s", "PREPARE p FROM 'SELECT 1'"] {
            assert_eq!(split.sends(text), there, "{text}");
        }
    }
    // The server has become a replica, or has been taken out.
    server(&split.session, 0, "p").standing.set_member(false);
    assert!(split.sends("SET NAMES utf8mb4").starts_with('r'));
    given(Above { log: Some(log(false)), ..Above::default() });
    assert_eq!(split.sends("SET @a = 1"), "p", "no primary takes work: it is waited for");
}

#[test]
fn the_settings_say_who_answers_what_the_log_repeats() {
    let texts = ["SET NAMES utf8mb4", "USE s", "PREPARE p FROM 'SELECT 1'"];
    let prepared = ["SELECT 1", "INSERT INTO t VALUES (1)"];
    for (setting, used, first, there) in [
        ("last-used", "DELETE FROM t", 'r', "ppprp"),
        ("replica", "DELETE FROM t", 'r', "rrrrp"),
        ("primary", "SELECT 1", 'p', "ppppp"),
    ] {
        let mut split = Split::new(&format!(", answer_from = '{setting}'"));
        given(Above { log: Some(log(true)), ..Above::default() });
        assert!(split.sends("SET autocommit = 1").starts_with(first), "{setting}");
        given(Above { log: Some(log(false)), ..Above::default() });
        split.sends(used);
        given(Above { log: Some(log(true)), ..Above::default() });
        let mut found: Vec<_> = texts.iter().map(|text| split.sends(text)).collect();
        for text in prepared {
            let code = CommandCode::STMT_PREPARE;
            split.client.send(Command::new(split.session.clone(), code, text)).unwrap();
            found.push(split.log.take().join(" "));
        }
        let found: String = found.iter().filter_map(|name| name.chars().next()).collect();
        assert_eq!(found, there, "{setting}");
        // What has no trace on a connection.
        given(Above { log: Some(log(false)), ..Above::default() });
        split.sends("SELECT 1");
        split.client.send(Command::new(split.session.clone(), CommandCode::PING, "")).unwrap();
        assert!(split.log.take().join(" ").starts_with('r'), "{setting}");
    }
}

#[test]
fn what_ties_the_session_is_on_the_primary() {
    let mut split = Split::new("");
    given(Above { tied: true, log: Some(log(true)), ..Above::default() });
    for text in ["SELECT * FROM t", "SET @a = NOW()", "PREPARE p FROM @a"] {
        assert_eq!(split.sends(text), "p", "{text}");
    }
}

#[test]
fn a_text_execute_has_the_class_of_what_was_prepared() {
    let mut split = Split::new("");
    for (executed, there) in
        [("SELECT 1", "r1"), ("DELETE FROM t", "p"), ("SELECT 1 FOR UPDATE", "p")]
    {
        given(Above { executed: Some(executed), log: Some(log(false)), ..Above::default() });
        assert_eq!(split.sends("EXECUTE p"), there, "{executed}");
    }
}

#[test]
fn a_prepared_statement_is_prepared_where_it_will_run() {
    let mut split = Split::new("");
    for (text, there) in [("SELECT ?", "r1"), ("INSERT INTO t VALUES (?)", "p")] {
        let command =
            Command::new(split.session.clone(), CommandCode::STMT_PREPARE, text.as_bytes());
        split.client.send(command).unwrap();
        assert_eq!(split.log.take(), [there], "{text}");
    }
}

#[test]
fn a_pin_beats_the_class_and_a_transaction_beats_a_pin() {
    let mut split = Split::new("");
    let pin = Pin {
        target: target(&split.session, 1, "r2"),
        cause: "what the last one has left",
        soft: true,
        again: false,
    };
    let pinned = Above { pin: Some(pin), ..Above::default() };
    given(pinned.clone());
    for text in ["SELECT 1", "SHOW WARNINGS", "GET DIAGNOSTICS @a = NUMBER", "DO RELEASE_LOCK('a')"]
    {
        assert_eq!(split.sends(text), "r2", "{text}");
    }
    // But no write is sent to a replica.
    for text in [
        "INSERT INTO t VALUES (FOUND_ROWS())",
        "DROP TABLE t",
        "CALL p(@a)",
        "SELECT 1; DELETE FROM t",
    ] {
        let error = split.client.query(text).unwrap_err();
        assert_eq!(error.code(), 9006, "{text}");
        assert!(error.message().contains("on the replica r2"), "{}", error.message());
    }
    given(Above::default());
    assert_eq!(split.sends("BEGIN"), "p");
    given(pinned);
    assert_eq!(split.sends("SHOW WARNINGS"), "p");
}

#[test]
fn without_a_replica_reads_go_to_the_primary_or_name_the_nearest_replica() {
    let lagging = |split: &Split| {
        for name in ["r1", "r2"] {
            server(&split.session, 1, name).standing.set_lag(Some(Duration::from_secs(9)));
        }
    };
    let mut split = Split::new(", max_lag = '2s'");
    assert_eq!(split.sends("SELECT 1"), "r1");
    lagging(&split);
    assert_eq!(split.sends("SELECT 1"), "p");
    server(&split.session, 0, "p").standing.set_state(ServerState::Shunned);
    assert_eq!(split.sends("SELECT 1"), "p", "nothing older than that is read");
    let shunned = |split: &Split| {
        for name in ["r1", "r2"] {
            server(&split.session, 1, name).standing.set_state(ServerState::Shunned);
        }
    };
    let mut split = Split::new("");
    shunned(&split);
    assert_eq!(split.sends("SELECT 1"), "p");
    server(&split.session, 0, "p").standing.set_state(ServerState::Shunned);
    assert_eq!(split.sends("SELECT 1"), "r1", "for the dispatcher to wait for");
    let mut split = Split::new(", no_replica = 'wait'");
    shunned(&split);
    assert_eq!(split.sends("SELECT 1"), "r1");
    assert_eq!(split.sends("DELETE FROM t"), "p", "writes do not mind");
}

#[test]
fn a_server_that_takes_no_work_is_left() {
    for (settings, first) in [("", "r1"), (", balance_each = 'session'", "r1")] {
        let mut split = Split::new(settings);
        assert_eq!(split.sends("SELECT 1"), first);
        server(&split.session, 1, first).standing.set_state(ServerState::OfflineSoft);
        for _ in 0..3 {
            assert_eq!(split.sends("SELECT 1"), "r2", "{settings}");
        }
    }
    let mut split = Split::new("");
    assert_eq!(split.sends("DELETE FROM t"), "p");
    // A failover: r1 is the primary now.
    for (group, name, member) in
        [(0, "p", false), (0, "r1", true), (1, "r1", false), (1, "p", true)]
    {
        server(&split.session, group, name).standing.set_member(member);
    }
    assert_eq!(split.sends("DELETE FROM t"), "r1");
}

#[test]
fn a_session_may_keep_its_replica() {
    let mut split = Split::new(", balance_each = 'session'");
    for _ in 0..3 {
        assert_eq!(split.sends("SELECT 1"), "r1");
        assert_eq!(split.sends("DELETE FROM t"), "p");
    }
}

#[test]
fn the_cluster_is_the_users_or_the_one_that_is_named() {
    for settings in [", cluster = 'main'", ", primary = 0, replicas = 1"] {
        let mut split = Split::new(settings);
        assert_eq!([split.sends("SELECT 1"), split.sends("DO 1")], ["r1", "p"], "{settings}");
    }
    let mut split = Split::new(", primary = 7, replicas = 0");
    assert_eq!([split.sends("SELECT 1"), split.sends("DO 1")], ["p", "x"]);
    let mut split = Split::new(", cluster = 'other'");
    let error = split.client.query("SELECT 1").unwrap_err();
    assert_eq!(error.message(), "read-write-split: there is no cluster \"other\"");
    let mut stray = session();
    stray.update(|view| view.hostgroup = chain::HostgroupId(7));
    let command = Command::query(stray, "SELECT 1");
    let error = Split::new("").client.send(command).unwrap_err();
    assert_eq!(error.message(), "read-write-split: hostgroup 7 belongs to no cluster");
}

#[test]
fn without_kept_state_the_policy_is_refused() {
    for (settings, what) in [
        ("policy = 'read-write-split'", "policy \"read-write-split\""),
        ("balance_each = 'command'", "balance_each \"command\""),
    ] {
        let text = format!("session = [{{ use = 'route', {settings} }}]");
        let wrong = testing::chain(&text, &crate::registry()).unwrap_err().to_string();
        assert!(wrong.contains(&format!("route: {what} sends the commands")), "{wrong}");
        assert!(wrong.contains("put { use = \"session-commands\" } above it"), "{wrong}");
    }
}
