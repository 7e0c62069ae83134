//! What is answered without a server.

use super::Bed;
use wire::command::CommandCode;

/// An OK with AUTOCOMMIT, as a packet.
const OK: [u8; 11] = [7, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0];
/// An EOF with AUTOCOMMIT.
const EOF: [u8; 9] = [5, 0, 0, 1, 0xFE, 0, 0, 2, 0];

#[test]
fn a_ping_opens_no_connection() {
    let mut bed = Bed::new("");
    assert_eq!(bed.send(CommandCode::PING, b""), OK);
    assert!(bed.reached.take().is_empty());
    bed.client.query("SELECT 1").unwrap();
    bed.send(CommandCode::PING, b"");
    assert_eq!(bed.reached.take(), ["SELECT 1", "COM_PING"]);
}

#[test]
fn an_option_is_remembered_for_every_connection() {
    let mut bed = Bed::new("");
    assert_eq!(bed.send(CommandCode::SET_OPTION, &[0, 0]), EOF);
    assert_eq!(bed.send(CommandCode::SET_OPTION, &[1, 0]), EOF);
    assert!(bed.reached.take().is_empty());
    bed.client.query("SELECT 1").unwrap();
    assert_eq!(bed.log(), [(CommandCode::SET_OPTION, "\u{1}\0".to_owned())]);
    // What there is no such option for is the server's to say.
    let mut bed = Bed::new("");
    bed.send(CommandCode::SET_OPTION, &[7, 0]);
    assert_eq!(bed.reached.take(), ["COM_SET_OPTION"]);
}

#[test]
fn a_statement_that_the_session_does_not_have_is_nowhere() {
    let mut bed = Bed::new("");
    let id = 7_u32.to_le_bytes();
    let execute = [&id[..], &[0, 1, 0, 0, 0]].concat();
    let fetch = [&id[..], &[1, 0, 0, 0]].concat();
    for (code, payload, name) in [
        (CommandCode::STMT_EXECUTE, &execute[..], "mysqld_stmt_execute"),
        (CommandCode::STMT_FETCH, &fetch[..], "mysqld_stmt_fetch"),
        (CommandCode::STMT_RESET, &id[..], "mysqld_stmt_reset"),
    ] {
        let text = format!("Unknown prepared statement handler (7) given to {name}");
        let packet = bed.send(code, payload);
        assert_eq!(packet[4..7], [0xFF, 0xDB, 4], "{name}");
        assert!(packet.ends_with(text.as_bytes()), "{name}");
    }
    let long_data = [&id[..], &[0, 0, b'x']].concat();
    assert!(bed.send(CommandCode::STMT_SEND_LONG_DATA, &long_data).is_empty());
    assert!(bed.send(CommandCode::STMT_CLOSE, &id).is_empty());
    assert!(bed.reached.take().is_empty());
}
