//! What the fuzz targets do, as plain functions: no input may make a decoder panic, and what it
//! takes must come back when it is encoded. The tests below run them on random bytes.
#![allow(dead_code)] // each fuzz target uses one

use bytes::BytesMut;
use std::fmt::Debug;
use wire::{
    Capabilities, CommandCode, DecodeError, EofPacket, ErrPacket, Greeting, LoginRequest, OkPacket,
    ReplyScanner, Scan,
    auth::{
        AuthSwitch, ClientAuth, Plugin, PublicKey, RelayAuth, RsaKeyPair, Secret, ServerAuth,
        client, relay, server,
    },
    column::Column,
    command::{ChangeUser, Execute, LongData, Query, admin, statement},
    login::SslRequest,
    packet::{missing, take_message},
    proxy_protocol, row,
    upload::UploadScanner,
};

/// Splits flags off the front of the input.
fn caps(data: &[u8]) -> (Capabilities, &[u8]) {
    match data.split_first_chunk() {
        Some((bits, rest)) => (Capabilities(u64::from_le_bytes(*bits)), rest),
        None => (Capabilities::EMPTY, data),
    }
}

fn comes_back<T: Debug + PartialEq, E>(
    decoded: Result<T, E>,
    encode: impl Fn(&T, &mut BytesMut),
    decode: impl Fn(&[u8]) -> Result<T, E>,
) {
    let Ok(value) = decoded else { return };
    let mut out = BytesMut::new();
    encode(&value, &mut out);
    let again = decode(&out).ok();
    assert!(again.as_ref() == Some(&value), "{value:?} came back as {again:?}");
}

pub(crate) fn packet(data: &[u8]) {
    let mut buf = BytesMut::from(data);
    let needed = missing(&buf);
    match take_message(&mut buf, 1 << 20) {
        Ok(Some(message)) => {
            assert_eq!(needed, 0);
            assert_eq!(message.framed.len() + buf.len(), data.len());
            assert!(message.payload().len() < message.framed.len());
        }
        Ok(None) => assert!(needed > 0 && buf.len() == data.len()),
        Err(_) => assert_eq!(buf.len(), data.len()),
    }
    let mut scanner = UploadScanner::default();
    let whole = scanner.scan(data);
    let mut scanner = UploadScanner::default();
    let single = data.iter().position(|byte| scanner.scan(&[*byte]).is_some());
    assert_eq!(whole, single.map(|at| at + 1));
}

pub(crate) fn greeting(data: &[u8]) {
    comes_back(Greeting::decode(data), Greeting::encode, Greeting::decode);
    if let Ok(greeting) = Greeting::decode(data) {
        let _ = (greeting.version(), greeting.is_mariadb());
    }
}

pub(crate) fn login(data: &[u8]) {
    comes_back(LoginRequest::decode(data), LoginRequest::encode, LoginRequest::decode);
    let _ = SslRequest::decode(data);
}

pub(crate) fn ok(data: &[u8]) {
    let (caps, data) = caps(data);
    let decode = |data: &[u8]| OkPacket::decode(data, caps);
    comes_back(decode(data), |ok, out| ok.encode(out, caps), decode);
    comes_back(decode(data), |ok, out| ok.encode_as_eof(out, caps), decode);
}

pub(crate) fn err(data: &[u8]) {
    comes_back(ErrPacket::decode(data), ErrPacket::encode, ErrPacket::decode);
    comes_back(EofPacket::decode(data), EofPacket::encode, EofPacket::decode);
}

pub(crate) fn column(data: &[u8]) {
    let (caps, data) = caps(data);
    let decode = |data: &[u8]| Column::decode(data, caps);
    comes_back(decode(data), |column, out| column.encode(out, caps), decode);
}

pub(crate) fn row(data: &[u8]) {
    let Some((count, rest)) = data.split_first() else { return };
    let columns = usize::from(count % 16);
    let decode = |data: &[u8]| owned(row::decode_text(data, columns)?);
    comes_back(
        decode(rest),
        |(_, texts), out| row::encode_text(texts.iter().map(Option::as_ref), out),
        decode,
    );

    let Some((kinds, payload)) = rest.split_at_checked(columns * 2) else { return };
    let column = |spec: &[u8]| Column {
        kind: spec[0],
        flags: u16::from(spec[1]) & Column::UNSIGNED,
        ..Column::default()
    };
    let columns: Vec<_> = kinds.chunks(2).map(column).collect();
    if let Ok(values) = row::decode_binary(payload, &columns) {
        let mut out = BytesMut::new();
        row::encode_binary(&values, &columns, &mut out);
        // NaN is not equal to itself, its text is.
        let again = row::decode_binary(&out, &columns).expect("it was encoded just now");
        assert_eq!(format!("{values:?}"), format!("{again:?}"));
    }
}

/// Text values, owned so that they can be compared after their row is gone.
type Texts = (String, Vec<Option<Vec<u8>>>);

fn owned(values: Vec<row::Value<'_>>) -> Result<Texts, DecodeError> {
    let shown = format!("{values:?}");
    let texts = values.iter().map(|value| match value {
        row::Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    });
    Ok((shown, texts.collect()))
}

pub(crate) fn command(data: &[u8]) {
    let (caps, data) = caps(data);
    if let Ok(query) = Query::decode(data, caps) {
        let mut out = BytesMut::new();
        query.encode(&mut out, caps);
        assert_eq!(Query::decode(&out, caps), Ok(query));
    }
    let decode = |data: &[u8]| ChangeUser::decode(data, caps);
    comes_back(decode(data), |user, out| user.encode(out, caps), decode);
    let decode = |data: &[u8]| statement::PrepareOk::decode(data, caps);
    comes_back(decode(data), |prepared, out| prepared.encode(out, caps), decode);
    let _ = (Execute::decode(data), LongData::decode(data), statement::prepare_text(data));
    let _ = (admin::init_db(data), admin::process_kill(data), admin::set_option(data));
    let _ = (statement::statement_id(data), CommandCode::of(data).map(CommandCode::name));
}

/// Whole or cut, a reply ends in the same place in the same way.
pub(crate) fn reply(data: &[u8]) {
    let (caps, data) = caps(data);
    let Some((&[command, step], data)) = data.split_first_chunk() else { return };
    // Few commands are well formed at random: take the ones that matter more often.
    const OFTEN: [u8; 8] = [0x03, 0x03, 0x03, 0x16, 0x17, 0x17, 0x1C, 0x04];
    let command = CommandCode(*OFTEN.get(usize::from(command)).unwrap_or(&command));
    let whole = events(command, caps, data, data.len().max(1));
    let cut = events(command, caps, data, usize::from(step).max(1));
    assert_eq!(whole, cut, "{command:?} {caps:?}");
}

/// Uploads, the end or the error, with their places, when the bytes come in steps.
fn events(command: CommandCode, caps: Capabilities, data: &[u8], step: usize) -> Vec<String> {
    let mut scanner = ReplyScanner::new(command, caps);
    let mut events = Vec::new();
    let mut passed = 0;
    while passed < data.len() {
        let chunk = &data[passed..data.len().min(passed + step)];
        match scanner.scan(chunk) {
            Ok(Scan::More) => passed += chunk.len(),
            Ok(Scan::Upload { at }) => {
                assert!(at > 0 && at <= chunk.len());
                passed += at;
                events.push(format!("upload at {passed}"));
            }
            Ok(Scan::End { at, end }) => {
                assert!(at <= chunk.len());
                events.push(format!("end at {}: {end:?}", passed + at));
                let _ = (scanner.last_packet(), scanner.session_state(), scanner.prepared());
                return events;
            }
            Err(error) => {
                events.push(error.to_string());
                return events;
            }
        }
        assert!(scanner.undecided() <= ReplyScanner::KEPT.max(passed));
    }
    events
}

/// Whatever the client sends, it is not let in: the password cannot be guessed.
pub(crate) fn auth_server(data: &[u8]) {
    let Some((&[flags, plugins, response_len], data)) = data.split_first_chunk() else { return };
    let flag = |bit: u8| flags & (1 << bit) != 0;
    let plugin = |bits: u8| match bits & 7 {
        0 => Plugin::CachingSha2Password,
        1 => Plugin::NativePassword,
        2 => Plugin::Sha256Password,
        3 => Plugin::ClearPassword,
        4 => Plugin::Ed25519,
        5 => Plugin::Parsec,
        _ => Plugin::Other("auth_other".into()),
    };
    let expected = server::Expected {
        password: flag(0).then(|| Secret::from("never guessed")),
        plugin: plugin(plugins),
        nonce: [7; 20],
        channel: flag(1).into(),
        key: None,
        full: flag(2),
    };
    let (response, mut data) = data.split_at(data.len().min(response_len.into()));
    let mut auth = ServerAuth::new(expected, &plugin(plugins >> 3), flag(3), response);
    for _ in 0..8 {
        match auth.step() {
            server::Step::Send(_) => {}
            server::Step::Read => {
                let (payload, rest) = data.split_at(data.len().min(97));
                auth.receive(payload);
                data = rest;
            }
            server::Step::Accept => panic!("let in with {response:?}"),
            server::Step::Deny => return,
        }
    }
    panic!("no end");
}

/// Whatever the server sends, the password does not go over a channel that is not secure.
pub(crate) fn auth_client(data: &[u8]) {
    const PASSWORD: &[u8] = b"a password of some length";
    let Some((flags, mut data)) = data.split_first() else { return };
    let plugin = match flags & 7 {
        0 => Plugin::NativePassword,
        1 => Plugin::CachingSha2Password,
        2 => Plugin::Sha256Password,
        3 => Plugin::ClearPassword,
        _ => Plugin::Parsec,
    };
    let mut auth = ClientAuth::new(Secret::from(PASSWORD), plugin, [7; 20], false);
    while let Some((len, rest)) = data.split_first() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        data = rest;
        match auth.receive(payload) {
            Ok(client::Step::Send(sent)) => {
                assert!(!sent.expose().windows(PASSWORD.len()).any(|part| part == PASSWORD));
            }
            Ok(client::Step::Read) => {}
            Ok(client::Step::Done(_)) | Err(_) => return,
        }
    }
    let decode = AuthSwitch::decode;
    comes_back(decode(data), AuthSwitch::encode, decode);
}

/// Whatever both sides send, a login through a relay ends, and no password is shown on a hop that
/// is not secure: without a key of its own the relay never has one.
pub(crate) fn auth_relay(data: &[u8]) {
    let Some((&[flags, plugin], mut data)) = data.split_first_chunk() else { return };
    let hops =
        relay::Hops { client: (flags & 1 != 0).into(), server: (flags & 2 != 0).into(), key: None };
    let secure = hops.client.is_secure() && hops.server.is_secure();
    let plugin = match plugin & 3 {
        0 => Plugin::CachingSha2Password,
        1 => Plugin::Sha256Password,
        2 => Plugin::ClearPassword,
        _ => Plugin::Other("dialog".into()),
    };
    let mut auth = RelayAuth::new(hops, plugin, [7; 20]);
    while let Some((head, rest)) = data.split_first() {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*head >> 1)));
        data = rest;
        let from_client = head & 1 == 0;
        let step = if from_client { auth.client(payload) } else { auth.server(payload) };
        match step {
            Ok(relay::Step::Verdict(verdict)) => {
                assert!(!from_client && verdict == payload);
                return;
            }
            Ok(relay::Step::Client(_) | relay::Step::Tell(_)) => assert!(!from_client),
            Ok(relay::Step::Server(_)) => assert!(from_client || !secure),
            Err(_) => return,
        }
    }
}

/// Keys come from files.
pub(crate) fn key(data: &[u8]) {
    let _ = PublicKey::from_pem(data);
    let _ = RsaKeyPair::from_pem(&String::from_utf8_lossy(data));
}

pub(crate) fn proxy_header(data: &[u8]) {
    let decoded = proxy_protocol::decode(data);
    let Ok(Some((source, length))) = decoded else { return };
    assert!(length <= proxy_protocol::LONGEST);
    assert_eq!(proxy_protocol::decode(&data[..length]), decoded);
    assert_eq!(proxy_protocol::decode(&data[..length - 1]), Ok(None));
    let mut out = BytesMut::new();
    proxy_protocol::encode(source, &mut out);
    assert_eq!(proxy_protocol::decode(&out), Ok(Some((source, out.len()))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Random bytes with a bias towards those that mean something.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        let telling = prop::sample::select(vec![0, 1, 2, 3, 4, 5, 7, 0x16, 0xFB, 0xFC, 0xFE, 0xFF]);
        prop::collection::vec(prop_oneof![telling, any::<u8>()], 0..120)
    }

    /// Bytes behind a first one that lets a decoder begin.
    fn behind(first: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
        bytes().prop_map(move |bytes| [first, &bytes].concat())
    }

    /// Packets of random payloads, numbered from 1, behind eight bytes of flags and two of choice.
    fn packets() -> impl Strategy<Value = Vec<u8>> {
        let first = prop::sample::select(vec![0u8, 1, 2, 3, 0xFB, 0xFE, 0xFF]);
        let payload = (first, prop::collection::vec(0u8..4, 0..12));
        let head = prop::collection::vec(any::<u8>(), 8);
        (head, 0u8..8, 1u8..9, prop::collection::vec(payload, 0..12)).prop_map(
            |(head, command, step, payloads)| {
                let mut out = [&head[..], &[command, step]].concat();
                for (seq, (first, rest)) in (1u8..).zip(payloads) {
                    out.extend([rest.len() as u8 + 1, 0, 0, seq, first]);
                    out.extend(rest);
                }
                out
            },
        )
    }

    proptest! {
        #[test]
        fn packets_of_any_bytes(data in bytes()) {
            packet(&data);
        }

        #[test]
        fn greetings_of_any_bytes(data in behind(b"\x0A8.4.3\0")) {
            greeting(&data);
        }

        #[test]
        fn logins_of_any_bytes(flags: u32, data in bytes()) {
            let head = (flags | 0x200).to_le_bytes();
            login(&[&head[..], &[0; 28], &data].concat());
            login(&data);
        }

        #[test]
        fn ends_of_any_bytes(data in bytes(), flags: u64) {
            let flags = flags.to_le_bytes();
            ok(&[&flags[..], &[0], &data].concat());
            err(&[&[0xFF][..], &data].concat());
            err(&[&[0xFE][..], &data].concat());
        }

        #[test]
        fn columns_of_any_bytes(data in bytes(), flags: u64) {
            column(&[&flags.to_le_bytes()[..], &data].concat());
        }

        #[test]
        fn rows_of_any_bytes(data in bytes()) {
            row(&data);
        }

        #[test]
        fn rows_of_any_kinds(kinds in prop::collection::vec(0u8..0x12, 4), data in bytes()) {
            let kinds: Vec<u8> = kinds.into_iter().flat_map(|kind| [kind, 0]).collect();
            row(&[&[4][..], &kinds, &[0, 0], &data].concat());
        }

        #[test]
        fn commands_of_any_bytes(
            code in prop::sample::select(vec![0x00u8, 0x02, 0x03, 0x0C, 0x11, 0x16, 0x17, 0x18]),
            flags: u64,
            data in bytes(),
        ) {
            command(&[&flags.to_le_bytes()[..], &[code], &data].concat());
        }

        #[test]
        fn replies_of_any_bytes(data in bytes()) {
            reply(&data);
        }

        #[test]
        fn replies_of_any_packets(data in packets()) {
            reply(&data);
        }

        #[test]
        fn proxy_headers_of_any_bytes(
            line in "(TCP4|TCP6|UNKNOWN)( [0-9.:]{0,8}){0,5}",
            command in 0x1Fu8..0x23,
            family in prop::sample::select(vec![0u8, 0x11, 0x12, 0x21, 0x31]),
            data in bytes(),
        ) {
            proxy_header(&data);
            proxy_header(format!("PROXY {line}\r\n").as_bytes());
            let length = u16::try_from(data.len()).unwrap().to_be_bytes();
            let fixed = [b"\r\n\r\n\0\r\nQUIT\n", &[command, family][..], &length].concat();
            proxy_header(&[&fixed[..], &data].concat());
        }

        #[test]
        fn authentication_of_any_bytes(data in bytes()) {
            auth_server(&data);
            auth_client(&data);
            auth_relay(&data);
            key(&data);
        }
    }

    /// The seeds that fuzzing begins with, and what it has found wrong before.
    #[test]
    fn seeds() {
        type Target = (&'static str, fn(&[u8]));
        let targets: [Target; 14] = [
            ("packet", packet),
            ("greeting", greeting),
            ("login", login),
            ("ok", ok),
            ("err", err),
            ("column", column),
            ("row", row),
            ("command", command),
            ("reply", reply),
            ("auth_server", auth_server),
            ("auth_client", auth_client),
            ("auth_relay", auth_relay),
            ("key", key),
            ("proxy_header", proxy_header),
        ];
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds");
        for (name, body) in targets {
            let files = std::fs::read_dir(format!("{seeds}/{name}")).expect("a folder of seeds");
            let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            assert!(!files.is_empty(), "{name} has no seed");
            files.iter().for_each(|file| body(&std::fs::read(file).unwrap()));
        }
    }
}
