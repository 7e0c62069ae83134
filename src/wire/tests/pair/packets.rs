//! Framing.

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;
use wire::packet::{
    HEADER_LEN, Header, MAX_PAYLOAD, Message, PacketError, missing, packets_len, put_packet,
    take_message,
};
use wire::upload::UploadScanner;

const NO_LIMIT: usize = usize::MAX;

#[test]
fn lengths_around_the_split_come_back() {
    for len in [0, 1, MAX_PAYLOAD - 1, MAX_PAYLOAD, MAX_PAYLOAD + 1, 2 * MAX_PAYLOAD] {
        let payload = Bytes::from(vec![0xFE; len]);
        let mut out = BytesMut::new();
        let next = put_packet(&mut out, 254, &payload);
        assert_eq!(out.len(), len + HEADER_LEN * packets_len(len), "{len}");
        assert_eq!(missing(&out), 0, "{len}");
        out.extend_from_slice(b"more");
        let message = take_message(&mut out, len).unwrap().expect("it is whole");
        assert_eq!((message.seq, message.next_seq), (254, next), "{len}");
        assert_eq!(next, 254u8.wrapping_add(packets_len(len) as u8), "{len}");
        assert!(message.payload() == payload, "{len}");
        assert_eq!(&out[..], b"more");
    }
}

#[test]
fn one_packet_is_not_copied() {
    let message = Message::new(0, b"\x03SELECT 1");
    let (framed, payload) = (message.framed.as_ptr(), message.payload());
    assert_eq!(payload.as_ptr(), framed.wrapping_add(HEADER_LEN));
    assert_eq!(message.first_byte(), Some(3));
}

#[test]
fn the_limit_holds_before_the_payload_is_there() {
    let mut buf = BytesMut::from(&b"\x06\0\0\0"[..]);
    assert_eq!(take_message(&mut buf, 5), Err(PacketError::TooLarge { limit: 5 }));
    assert_eq!(take_message(&mut buf, 6), Ok(None));
    // Over several packets: the second header goes beyond the limit.
    let mut buf = BytesMut::new();
    put_packet(&mut buf, 0, &vec![0; MAX_PAYLOAD + 2]);
    let limit = MAX_PAYLOAD + 1;
    buf.truncate(HEADER_LEN + MAX_PAYLOAD);
    assert_eq!(take_message(&mut buf, limit), Ok(None));
    assert_eq!(missing(&buf), HEADER_LEN);
    buf.extend_from_slice(&[2, 0, 0, 1]);
    assert_eq!(missing(&buf), 2);
    assert_eq!(take_message(&mut buf, limit), Err(PacketError::TooLarge { limit }));
}

#[test]
fn continuations_must_count_on() {
    let mut buf = BytesMut::new();
    put_packet(&mut buf, 3, &vec![0; MAX_PAYLOAD + 1]);
    buf[HEADER_LEN + MAX_PAYLOAD + 3] = 5;
    let expected = PacketError::OutOfOrder { expected: 4, got: 5 };
    assert_eq!(take_message(&mut buf, NO_LIMIT), Err(expected));
}

#[test]
fn bytes_are_asked_for_until_the_message_is_whole() {
    let whole = Message::new(9, b"hello").framed;
    for have in 0..whole.len() {
        let mut buf = BytesMut::from(&whole[..have]);
        let known = if have < HEADER_LEN { HEADER_LEN } else { whole.len() };
        assert_eq!(missing(&buf), known - have);
        assert_eq!(take_message(&mut buf, NO_LIMIT), Ok(None));
        assert_eq!(buf.len(), have, "nothing is taken");
    }
}

#[test]
fn payloads_do_not_show() {
    assert!(!format!("{:?}", Message::new(0, b"\x03secret")).contains("secret"));
}

proptest! {
    #[test]
    fn headers_come_back(len in 0..=MAX_PAYLOAD, seq: u8) {
        let header = Header { len, seq };
        prop_assert_eq!(Header::parse(&header.to_bytes()), Some(header));
    }

    #[test]
    fn an_upload_ends_at_its_empty_packet(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..9), 0..5),
        rest in prop::collection::vec(any::<u8>(), 0..9),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = BytesMut::new();
        let mut seq = 2;
        for packet in packets.iter().chain([&Vec::new()]) {
            seq = put_packet(&mut bytes, seq, packet);
        }
        let end = bytes.len();
        bytes.extend_from_slice(&rest);
        let cut = cut.index(end);
        let mut scanner = UploadScanner::default();
        prop_assert_eq!(scanner.scan(&bytes[..cut]), None);
        prop_assert_eq!(scanner.scan(&bytes[cut..]), Some(end - cut));
    }
}
