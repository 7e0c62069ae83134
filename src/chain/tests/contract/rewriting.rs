//! What a filter may do to a command, and what of it is sent.

use bytes::{Bytes, BytesMut};
use chain::{Command, testing::session};
use wire::{
    capability::Capabilities,
    command::CommandCode,
    packet::{Message, put_packet, take_message},
};

fn message(payload: &[u8]) -> Message {
    let mut bytes = BytesMut::new();
    put_packet(&mut bytes, 0, payload);
    take_message(&mut bytes, usize::MAX).expect("well formed").expect("whole")
}

#[test]
fn a_command_is_sent_as_it_came() {
    let message = message(b"\x03SELECT 1");
    let framed = message.framed.clone();
    let command = Command::read(session(), message).unwrap();
    assert_eq!(command.code(), CommandCode::QUERY);
    assert_eq!((command.payload(), command.sql()), (&b"SELECT 1"[..], Some("SELECT 1".into())));
    assert_eq!(command.packets().as_ptr(), framed.as_ptr(), "the client's own bytes");
}

#[test]
fn a_rewritten_text_is_framed_anew() {
    let mut command = Command::read(session(), message(b"\x03SELECT 1")).unwrap();
    command.rewrite_sql("SELECT 22");
    assert_eq!(command.sql(), Some("SELECT 22".into()));
    assert_eq!(command.packets(), Bytes::from_static(b"\x0a\0\0\0\x03SELECT 22"));
    assert_eq!(command.reply_seq(), 1);
}

#[test]
fn query_attributes_stay_before_a_rewritten_text() {
    let mut session = session();
    session.update(|view| view.capabilities = view.capabilities | Capabilities::QUERY_ATTRIBUTES);
    let command = Command::query(session.clone(), "SELECT 1");
    assert_eq!(command.payload(), b"\x00\x01SELECT 1", "none of them, and so it says");
    let attributes = b"\x03\x01\x01\x00\x01\xfe\x00\x01k\x01v";
    let came = message(&[&attributes[..], b"SELECT 1"].concat());
    let mut command = Command::read(session, came).unwrap();
    assert_eq!(command.sql(), Some("SELECT 1".into()));
    command.rewrite_sql("SELECT 2");
    assert_eq!(command.payload(), [&attributes[1..], b"SELECT 2"].concat());
}

#[test]
fn a_command_without_text_keeps_its_payload() {
    let mut command = Command::new(session(), CommandCode::INIT_DB, "app");
    command.rewrite_sql("SELECT 1");
    assert_eq!((command.sql(), command.payload()), (None, &b"app"[..]));
    command.rewrite("other");
    assert_eq!(command.payload(), b"other");
}

#[test]
fn nothing_at_all_is_no_command() {
    assert!(Command::read(session(), message(b"")).is_none());
}

#[test]
fn a_rewritten_command_of_16_mib_is_split_again() {
    let mut command = Command::query(session(), "x");
    command.rewrite_sql(vec![b'x'; wire::packet::MAX_PAYLOAD]);
    let packets = command.packets();
    assert_eq!(packets.len(), 4 + wire::packet::MAX_PAYLOAD + 4 + 1);
    assert_eq!(packets[..4], [0xff, 0xff, 0xff, 0]);
    assert_eq!(packets[packets.len() - 5..], [1, 0, 0, 1, b'x']);
}
