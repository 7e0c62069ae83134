//! What is encoded comes back as it was.

use bytes::BytesMut;
use proptest::{collection::vec, prelude::*};
use wire::{
    Capabilities, CommandCode, DecodeError, EofPacket, ErrPacket, OkPacket, Status,
    auth::{Plugin, Secret},
    column::{Column, kind},
    command::{ChangeUser, Execute, LongData, Query, admin, attribute, statement},
    err::codes,
    row::{self, Date, Time, Value},
    session_state::Tracker,
};

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..300)
}

/// Text without NUL, as strings that end with one must be.
fn name() -> impl Strategy<Value = Vec<u8>> {
    vec(1u8.., 0..40)
}

fn tracker() -> impl Strategy<Value = Tracker> {
    prop_oneof![
        (name(), text()).prop_map(|(name, value)| Tracker::SystemVariable { name, value }),
        name().prop_map(Tracker::Schema),
        any::<bool>().prop_map(Tracker::StateChange),
        text().prop_map(Tracker::Gtids),
        text().prop_map(Tracker::TransactionCharacteristics),
        text().prop_map(Tracker::TransactionState),
        (6u8.., text()).prop_map(|(kind, raw)| Tracker::Other { kind, raw }),
    ]
}

fn plugin() -> impl Strategy<Value = Plugin> {
    prop_oneof![
        Just(Plugin::NativePassword),
        Just(Plugin::CachingSha2Password),
        "[a-z_]{1,20}".prop_map(Plugin::Other),
    ]
}

fn encoded(encode: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    encode(&mut out);
    out
}

proptest! {
    #[test]
    fn ok_packets(
        affected_rows: u64,
        last_insert_id: u64,
        warnings: u16,
        status: u16,
        info in text(),
        trackers in vec(tracker(), 0..4),
        track: bool,
    ) {
        let caps = if track { Capabilities::SESSION_TRACK } else { Capabilities::EMPTY };
        let mut status = Status(status) - Status::SESSION_STATE_CHANGED;
        if !trackers.is_empty() {
            status = status | Status::SESSION_STATE_CHANGED;
        }
        let trackers = if track { trackers } else { Vec::new() };
        let ok = OkPacket { affected_rows, last_insert_id, status, warnings, info, trackers };
        let zero = encoded(|out| ok.encode(out, caps));
        let eof = encoded(|out| ok.encode_as_eof(out, caps));
        prop_assert_eq!((zero[0], eof[0]), (0x00, 0xFE));
        prop_assert_eq!(OkPacket::decode(&zero, caps), Ok(ok.clone()));
        prop_assert_eq!(OkPacket::decode(&eof, caps), Ok(ok));
    }

    #[test]
    fn err_and_eof_packets(code: u16, sqlstate in "[0-9A-Z]{5}", message in text(), w: u16, s: u16) {
        let sqlstate = sqlstate.into_bytes().try_into().unwrap();
        let err = ErrPacket { code, sqlstate, message };
        prop_assert_eq!(ErrPacket::decode(&encoded(|out| err.encode(out))), Ok(err));
        let eof = EofPacket { warnings: w, status: Status(s) };
        prop_assert_eq!(EofPacket::decode(&encoded(|out| eof.encode(out))), Ok(eof));
    }

    #[test]
    fn columns(names in vec(text(), 7), length: u32, kind: u8, flags: u16, decimals: u8, ext: bool) {
        let caps = if ext { Capabilities::EXTENDED_METADATA } else { Capabilities::EMPTY };
        let [catalog, schema, table, org_table, name, org_name, extended] =
            names.try_into().unwrap();
        let extended = if ext { extended } else { Vec::new() };
        let column = Column {
            catalog, schema, table, org_table, name, org_name, extended,
            collation: 45, length, kind, flags, decimals, default: Vec::new(),
        };
        let payload = encoded(|out| column.encode(out, caps));
        prop_assert_eq!(Column::decode(&payload, caps), Ok(column));
    }

    #[test]
    fn text_rows(row in vec(prop::option::of(text()), 0..8)) {
        let payload = encoded(|out| row::encode_text(row.iter().map(Option::as_ref), out));
        let values: Vec<_> =
            row.iter().map(|value| value.as_ref().map_or(Value::Null, |v| Value::Bytes(v))).collect();
        prop_assert_eq!(row::decode_text(&payload, row.len()), Ok(values));
        prop_assert!(row::decode_text(&payload, row.len() + 1).is_err());
    }

    #[test]
    fn queries(sql in text(), attributes: bool) {
        let caps = if attributes { Capabilities::QUERY_ATTRIBUTES } else { Capabilities::EMPTY };
        let payload = encoded(|out| Query::new(&sql).encode(out, caps));
        prop_assert_eq!(Query::decode(&payload, caps), Ok(Query::new(&sql)));
    }

    #[test]
    fn change_user(
        user in name(),
        response in vec(any::<u8>(), 0..255),
        schema in name(),
        collation: u16,
        plugin in plugin(),
        attributes in vec((text(), text()), 0..4),
    ) {
        let caps = Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH
            | Capabilities::CONNECT_ATTRS;
        let auth_response = Secret::from(response);
        let plugin = Some(plugin);
        let attributes = attributes.into_iter().collect();
        let user = ChangeUser { user, auth_response, schema, collation, plugin, attributes };
        let payload = encoded(|out| user.encode(out, caps));
        prop_assert_eq!(ChangeUser::decode(&payload, caps), Ok(user));
    }
}

#[test]
fn binary_rows() {
    let day = Date { year: 2024, month: 2, day: 29, ..Date::default() };
    let noon = Date { hour: 12, ..day };
    let exact = Date { micros: 1, ..noon };
    let span = Time { negative: true, days: 34, hour: 22, minute: 59, second: 59, micros: 0 };
    let cases = [
        (kind::TINY, 0, Value::Int(-1)),
        (kind::TINY, Column::UNSIGNED, Value::UInt(255)),
        (kind::SHORT, 0, Value::Int(-300)),
        (kind::YEAR, Column::UNSIGNED, Value::UInt(2024)),
        (kind::LONG, 0, Value::Int(i32::MIN.into())),
        (kind::INT24, Column::UNSIGNED, Value::UInt(0xFF_FFFF)),
        (kind::LONGLONG, 0, Value::Int(i64::MIN)),
        (kind::LONGLONG, Column::UNSIGNED, Value::UInt(u64::MAX)),
        (kind::FLOAT, 0, Value::Float(1.5)),
        (kind::DOUBLE, 0, Value::Double(-2.25)),
        (kind::DATE, 0, Value::Date(Date::default())),
        (kind::DATE, 0, Value::Date(day)),
        (kind::DATETIME, 0, Value::Date(noon)),
        (kind::TIMESTAMP, 0, Value::Date(exact)),
        (kind::TIME, 0, Value::Time(Time::default())),
        (kind::TIME, 0, Value::Time(span)),
        (kind::TIME, 0, Value::Time(Time { micros: 999_999, ..span })),
        (kind::NEWDECIMAL, 0, Value::Bytes(b"12.50")),
        (kind::VAR_STRING, 0, Value::Null),
        (kind::JSON, 0, Value::Bytes(b"{}")),
    ];
    let column =
        |&(kind, flags, _): &(u8, u16, Value<'_>)| Column { kind, flags, ..Column::default() };
    let columns: Vec<_> = cases.iter().map(column).collect();
    let values: Vec<_> = cases.iter().map(|&(_, _, value)| value).collect();
    let payload = encoded(|out| row::encode_binary(&values, &columns, out));
    assert_eq!(row::decode_binary(&payload, &columns), Ok(values));
    assert!(row::decode_binary(&payload[..payload.len() - 1], &columns).is_err());
}

#[test]
fn an_attribute_is_found_by_its_name() {
    let caps = Capabilities::QUERY_ATTRIBUTES;
    // `n` is the integer 7, `t` is "abc", `z` is NULL.
    let mut attributes = vec![0b100, 1];
    attributes.extend([0x03, 0x00, 1, b'n', 0xFD, 0x00, 1, b't', 0xFD, 0x00, 1, b'z']);
    attributes.extend([7, 0, 0, 0, 3, b'a', b'b', b'c']);
    let query = [&[0x03, 3, 1][..], &attributes, b"SELECT 1"].concat();
    let execute = [&[0x17, 1, 0, 0, 0, 8, 1, 0, 0, 0, 3][..], &attributes].concat();
    for payload in [&query, &execute] {
        assert_eq!(attribute(payload, caps, b"T"), Some(&b"abc"[..]));
        for other in [&b"n"[..], b"z", b"other"] {
            assert_eq!(attribute(payload, caps, other), None);
        }
        assert_eq!(attribute(payload, Capabilities::EMPTY, b"t"), None);
        for cut in 0..payload.len() - 12 {
            let _ = attribute(&payload[..cut], caps, b"t");
        }
    }
}

#[test]
fn query_attributes_are_passed_over() {
    // Two attributes: `n` is the integer 7, `t` is NULL. As the mysql client sends them.
    let mut payload = vec![0x03, 2, 1, 0b10, 1];
    payload.extend([0x03, 0x00, 1, b'n', 0xFD, 0x00, 1, b't']);
    payload.extend([7, 0, 0, 0]);
    payload.extend(b"SELECT 1");
    let query = Query::decode(&payload, Capabilities::QUERY_ATTRIBUTES).unwrap();
    assert_eq!((query.attributes, query.sql), (2, &b"SELECT 1"[..]));
    assert_eq!(encoded(|out| query.encode(out, Capabilities::QUERY_ATTRIBUTES)), payload);
    let plain = encoded(|out| query.encode(out, Capabilities::EMPTY));
    assert_eq!(&plain[..], b"\x03SELECT 1");
    for cut in 1..payload.len() - 8 {
        let cut = &payload[..cut];
        assert!(Query::decode(cut, Capabilities::QUERY_ATTRIBUTES).is_err(), "{cut:?}");
    }
}

#[test]
fn statements() {
    let payload = [0x17, 5, 0, 0, 0, 1, 1, 0, 0, 0, 9, 9];
    let execute = Execute { id: 5, flags: 1, iterations: 1 };
    assert_eq!(Execute::decode(&payload), Ok(execute));
    assert!(execute.wants_cursor());
    assert!(!Execute { flags: Execute::PARAMETER_COUNT_AVAILABLE, ..execute }.wants_cursor());
    assert_eq!(statement::statement_id(&payload), Some(5));
    assert_eq!(statement::statement_id(&payload[..4]), None);
    assert_eq!(statement::statement_id(b"\x03SELECT"), None);
    assert_eq!(statement::prepare_text(b"\x16DO ?"), Ok(&b"DO ?"[..]));
    let data = LongData::decode(b"\x18\x05\0\0\0\x02\0abc").unwrap();
    assert_eq!((data.id, data.parameter, data.data), (5, 2, &b"abc"[..]));
    assert_eq!(Execute::decode(b"\x18"), Err(DecodeError::Invalid("command")));
}

#[test]
fn administration() {
    assert_eq!(admin::init_db(b"\x02app"), Ok(&b"app"[..]));
    assert_eq!(admin::process_kill(b"\x0C\x01\0\0\x80"), Ok(0x8000_0001));
    assert_eq!(admin::process_kill(b"\x0C\x01"), Err(DecodeError::Truncated("connection id")));
    assert_eq!(admin::set_option(b"\x1B\0\0"), Ok(true));
    assert_eq!(admin::set_option(b"\x1B\x01\0"), Ok(false));
    assert_eq!(admin::set_option(b"\x1B\x02\0"), Err(DecodeError::Invalid("option")));
}

#[test]
fn commands_have_names_and_mostly_replies() {
    assert_eq!(CommandCode::STMT_PREPARE.name(), "COM_STMT_PREPARE");
    assert_eq!(format!("{:?}", CommandCode(0x55)), "COM_UNKNOWN(0x55)");
    let silent = (0..=255).map(CommandCode).filter(|code| !code.has_reply());
    let silent: Vec<_> = silent.collect();
    assert_eq!(
        silent,
        [CommandCode::QUIT, CommandCode::STMT_SEND_LONG_DATA, CommandCode::STMT_CLOSE]
    );
}

#[test]
fn an_error_before_the_login_has_no_sqlstate() {
    let err = ErrPacket::new(codes::ER_CON_COUNT_ERROR, "Too many connections");
    let payload = encoded(|out| err.encode_before_login(out));
    assert_eq!(&payload[..], b"\xFF\x10\x04Too many connections");
    let back = ErrPacket::decode(&payload).unwrap();
    assert_eq!((back.code, &back.sqlstate), (1040, b"HY000"));
}

#[test]
fn nothing_secret_shows() {
    let secret = "hush";
    let shown = [
        format!("{:?}", ErrPacket::new(codes::ER_PARSE_ERROR, secret)),
        format!("{:?}", Query::new(secret.as_bytes())),
        format!("{:?}", LongData { id: 1, parameter: 0, data: secret.as_bytes() }),
        format!("{:?}", Secret::from(secret)),
        format!(
            "{:?}",
            Tracker::SystemVariable { name: b"n".to_vec(), value: secret.as_bytes().to_vec() }
        ),
    ];
    for shown in shown {
        assert!(!shown.contains(secret) && !shown.contains("104, 117"), "{shown}");
    }
}
