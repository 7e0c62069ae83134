//! Prepared statements.

use crate::{Bed, in_hostgroup};
use chain::{
    Command,
    facts::{Hints, Statement},
};
use wire::command::CommandCode;

/// A command that names the prepared statement with this text, as `parse` gives it.
fn of(bed: &Bed, code: CommandCode, text: &'static str) -> Command {
    let statement = Statement::new(text.into(), sql::Dialect::default()).shared();
    Command::new(bed.session.clone(), code, [1, 0, 0, 0, 0, 1, 0, 0, 0]).with(statement)
}

#[test]
fn a_prepared_statement_keeps_its_hints() {
    let mut bed = Bed::new("");
    let text = "/* hostgroup=1 retries=2 */ SELECT ?";
    let expected = Hints { retries: Some(2), beats_rules: true, ..in_hostgroup(1) };
    let prepare = Command::new(bed.session.clone(), CommandCode::STMT_PREPARE, text);
    assert_eq!(bed.send(prepare).hints, Some(expected.clone()));
    for _ in 0..2 {
        let run = of(&bed, CommandCode::STMT_EXECUTE, text);
        assert_eq!(bed.send(run).hints, Some(expected.clone()));
    }
    assert_eq!(bed.counts("hints"), ["hostgroup=3", "retries=3"]);
}

#[test]
fn what_goes_with_a_run_goes_to_the_same_place_and_no_more() {
    let mut bed = Bed::new("");
    let text = "/* hostgroup=1 retries=2 mirror=0 sticky_backend=1 */ SELECT ?";
    for code in [
        CommandCode::STMT_FETCH,
        CommandCode::STMT_RESET,
        CommandCode::STMT_SEND_LONG_DATA,
        CommandCode::STMT_CLOSE,
    ] {
        let companion = of(&bed, code, text);
        let expected = Hints { beats_rules: true, ..in_hostgroup(1) };
        assert_eq!(bed.send(companion).hints, Some(expected), "{}", code.name());
    }
    assert!(bed.counts("hints").is_empty(), "they have been counted with the run");
}

#[test]
fn a_statement_is_stripped_when_it_is_prepared() {
    let mut bed = Bed::new("strip = true");
    let text = "SELECT ? /* hostgroup=1 */ FROM t";
    let prepare = Command::new(bed.session.clone(), CommandCode::STMT_PREPARE, text);
    let one = bed.send(prepare);
    assert_eq!(one.text, "SELECT ? FROM t");
    assert_eq!(one.statement.expect("it has one").text().as_ref(), b"SELECT ? FROM t");
    let run = of(&bed, CommandCode::STMT_EXECUTE, text);
    let packets = run.packets();
    let one = bed.send(run);
    assert_eq!(one.text.as_bytes(), &packets[5..], "its bytes are no text");
    assert_eq!(one.hints.map(|hints| hints.hostgroup), Some(in_hostgroup(1).hostgroup));
}

#[test]
fn a_text_behind_attributes_is_read_and_stripped() {
    use bytes::BytesMut;
    use wire::{capability::Capabilities, command::Query};

    let mut session = crate::session();
    session.update(|view| view.capabilities = view.capabilities | Capabilities::QUERY_ATTRIBUTES);
    let mut bed = Bed::of("strip = true", session);
    let mut payload = BytesMut::new();
    let text: &[u8] = b"/* hostgroup=1 */ SELECT 1";
    Query::new(text).encode(&mut payload, bed.session.capabilities);
    let command = Command::new(bed.session.clone(), CommandCode::QUERY, &payload[1..]);
    let one = bed.send(command);
    assert_eq!(
        (one.text.as_str(), one.hints.map(|hints| hints.hostgroup)),
        ("SELECT 1", Some(in_hostgroup(1).hostgroup))
    );
}
