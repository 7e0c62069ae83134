//! Reads behind a write of their session.

use crate::{Above, Split, given, server, status};
use bytes::{Bytes, BytesMut};
use chain::{Answer, Body, Command, End, Reply, Result, command::Asker, facts::Hints, testing};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use wire::{
    command::CommandCode,
    err::{ErrPacket, codes},
    packet::put_packet,
    row::encode_text,
    session_state::Tracker,
};

/// A result set of one value, as servers send it; what is in its column's definition is not read.
fn value(value: &str) -> Reply {
    let (mut packets, mut row) = (BytesMut::new(), BytesMut::new());
    encode_text([Some(value)], &mut row);
    for (seq, payload) in (1..).zip([&b"\x01"[..], &b"a column"[..], &row[..]]) {
        put_packet(&mut packets, seq, payload);
    }
    Answer { packets: packets.freeze(), end: End::default() }.into()
}

/// Servers of MariaDB's: `late` is the replica that has not applied what was written.
pub(crate) fn mariadb(
    late: Arc<AtomicBool>,
) -> impl FnMut(&Command) -> Result<Reply> + Send + 'static {
    move |command| {
        let text = testing::text(command);
        Ok(match &text {
            _ if command.asker() == Asker::Client => Reply::ok(command, status(command)),
            text if text.contains("gtid_binlog_pos") => value("0-1-7"),
            _ if late.load(Relaxed) => value("-1"),
            _ => value("0"),
        })
    }
}

pub(crate) const ASKS: &str = "p: SELECT IF(@@last_gtid = '', @@gtid_binlog_pos, @@last_gtid)";
pub(crate) const WAITS: &str = "SELECT MASTER_GTID_WAIT('0-1-7', 1)";

#[test]
fn without_a_setting_reads_do_not_wait() {
    let mut split = Split::new("");
    split.sends("DELETE FROM t");
    assert_eq!(split.sends("SELECT 1"), "r1");
}

#[test]
fn a_session_that_has_written_reads_on_the_primary() {
    let mut split = Split::new(", after_write = 'primary'");
    assert_eq!(split.sends("SELECT 1"), "r1");
    assert_eq!(split.sends("DELETE FROM t"), "p");
    assert_eq!(split.sends("SELECT 1"), "p");
    assert_eq!(split.sends("START TRANSACTION READ ONLY"), "p");
    let mut split = Split::new(", after_write = 'primary', after_write_window = '0s'");
    assert_eq!(split.sends("DELETE FROM t"), "p");
    assert_eq!(split.sends("SELECT 1"), "r1", "the time is over");
}

#[test]
fn a_replica_waits_once_for_what_was_written() {
    let mut split = Split::of(", after_write = 'wait'", mariadb(Arc::default()));
    assert_eq!(split.sends("SELECT 1"), "r1");
    assert_eq!(split.sends("DELETE FROM t"), "p");
    assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r2: {WAITS} r2"));
    assert_eq!(split.sends("SELECT 1"), format!("r1: {WAITS} r1"));
    assert_eq!(split.sends("SELECT 1"), "r2");
    assert_eq!(split.sends("SELECT 1"), "r1");
    for text in ["BEGIN", "DELETE FROM t", "COMMIT"] {
        assert_eq!(split.sends(text), "p");
    }
    assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r2: {WAITS} r2"));
}

#[test]
fn a_read_goes_to_the_primary_if_no_replica_has_it_in_time() {
    let late = Arc::new(AtomicBool::new(true));
    let settings = ", after_write = 'wait', after_write_timeout = '250ms'";
    let mut split = Split::of(settings, mariadb(late.clone()));
    split.sends("DELETE FROM t");
    let wait = "SELECT MASTER_GTID_WAIT('0-1-7', 0.25)";
    assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r1: {wait} p"));
    late.store(false, Relaxed);
    assert_eq!(split.sends("SELECT 1"), format!("r2: {wait} r2"));
}

#[test]
fn a_replica_can_be_asked_without_waiting() {
    let late = Arc::new(AtomicBool::new(true));
    let mut split = Split::of(", after_write = 'gtid'", mariadb(late.clone()));
    split.sends("DELETE FROM t");
    let has = "SELECT MASTER_GTID_WAIT('0-1-7', 0)";
    assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r1: {has} p"));
    late.store(false, Relaxed);
    assert_eq!(split.sends("SELECT 1"), format!("r2: {has} r2"));
}

#[test]
fn servers_that_say_what_was_written_are_not_asked() {
    let uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    let mut number = 0;
    let mut split = Split::of(", after_write = 'wait'", move |command| {
        if command.asker() != Asker::Client {
            return Ok(value("0"));
        }
        let mut state = BytesMut::new();
        // Nothing is committed before the transaction's end.
        let open = command.session().in_transaction();
        if matches!((&*testing::text(command), open), ("DELETE FROM t", false) | ("COMMIT", _)) {
            number += 1;
            Tracker::Gtids(format!("{uuid}:{number}").into()).encode(&mut state);
        }
        let status = Some(status(command));
        let (tracked, session_state) = (!state.is_empty(), state.freeze());
        Ok(Reply::new(Body::end(End { status, tracked, session_state, ..End::default() })))
    });
    split.sends("DELETE FROM t");
    for text in ["BEGIN", "DELETE FROM t", "DELETE FROM t", "COMMIT"] {
        split.sends(text);
    }
    let sql = format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{uuid}:1,{uuid}:2', 1)");
    assert_eq!(split.sends("SELECT 1"), format!("r1: {sql} r1"));
}

/// The client may ask next what its last statement has left, there or on the replica.
#[test]
fn preparing_asks_nobody() {
    let mut split = Split::of(", after_write = 'wait'", mariadb(Arc::default()));
    let prepare = |split: &mut Split| {
        let command = Command::new(split.session.clone(), CommandCode::STMT_PREPARE, "SELECT ?");
        split.client.send(command).unwrap();
        split.log.take().join(" ")
    };
    assert_eq!(prepare(&mut split), "r1");
    split.sends("DELETE FROM t");
    assert_eq!(prepare(&mut split), "p", "a replica may lack the table");
    for there in ["r1", "r2"] {
        assert!(split.sends("SELECT 1").ends_with(there));
    }
    assert_eq!(prepare(&mut split), "r1", "it has all");
    let hints = Hints { min_gtid: Some("0-1-7".into()), ..Hints::default() };
    given(Above { hints: Some(hints), ..Above::default() });
    assert_eq!(prepare(&mut split), "p");
}

#[test]
fn a_server_is_asked_in_its_own_words() {
    let mut split = Split::of(", after_write = 'wait'", mariadb(Arc::default()));
    for (version, asks) in [("11.4.2-MariaDB", ASKS), ("8.4.3", "p: SELECT @@GLOBAL.gtid_executed")]
    {
        server(&split.session, 0, "p").profile.set(version);
        split.sends("DELETE FROM t");
        let found = split.sends("SELECT 1");
        assert!(found.starts_with(&format!("{asks} ")), "{version}: {found}");
    }
}

#[test]
fn what_cannot_be_known_is_read_on_the_primary() {
    let mut split = Split::of(", after_write = 'wait'", |command| {
        if command.asker() == Asker::Client {
            return Ok(Reply::ok(command, status(command)));
        }
        let (mut payload, mut packet) = (BytesMut::new(), BytesMut::new());
        ErrPacket::new(codes::ER_UNKNOWN_STMT_HANDLER, "no such variable").encode(&mut payload);
        put_packet(&mut packet, 1, &payload);
        let packet: Bytes = packet.freeze();
        Ok(Reply::new(Body::end(End { packet, error: Some(1243), ..End::default() })))
    });
    split.sends("DELETE FROM t");
    let asks = format!("{ASKS} p: SELECT @@GLOBAL.gtid_executed");
    assert_eq!(split.sends("SELECT 1"), format!("{asks} p"));
}

#[test]
fn a_hint_names_what_a_read_must_see() {
    let hint = |gtid: &str| {
        let hints = Hints { min_gtid: Some(gtid.into()), ..Hints::default() };
        given(Above { hints: Some(hints), ..Above::default() });
    };
    let late = Arc::new(AtomicBool::new(false));
    let mut split = Split::of("", mariadb(late.clone()));
    hint("0-1-7");
    assert_eq!(split.sends("SELECT 1"), format!("r1: {WAITS} r1"));
    late.store(true, Relaxed);
    assert_eq!(split.sends("SELECT 1"), format!("r2: {WAITS} p"));
    assert_eq!(split.sends("DELETE FROM t"), "p");
    hint("0-1-7'); DROP TABLE t; -- ");
    assert_eq!(split.sends("SELECT 1"), "r1", "it is no GTID");
    // Nothing to wait for: what is not waited for is not asked.
    assert!(server(&split.session, 1, "r1").standing.takes(None));
}

#[test]
fn the_server_that_was_written_to_has_it_in_every_hostgroup() {
    let mut split = Split::of(", after_write = 'wait'", mariadb(Arc::default()));
    server(&split.session, 1, "p").standing.set_member(true);
    split.sends("DELETE FROM t");
    assert_eq!(split.sends("SELECT 1"), "p");
    assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r1: {WAITS} r1"));
}
