//! Greetings and logins, as encoded here and as real programs send them.

use bytes::BytesMut;
use proptest::{collection::vec, prelude::*};
use wire::{
    Capabilities, DecodeError, ErrPacket, Greeting, LoginRequest, Status,
    attributes::MAX_ATTRIBUTES,
    auth::{Plugin, Secret, random_nonce},
    err::codes,
    greeting::GreetingError,
    login::SslRequest,
};

fn encoded(encode: impl FnOnce(&mut BytesMut)) -> BytesMut {
    let mut out = BytesMut::new();
    encode(&mut out);
    out
}

fn greeting() -> Greeting {
    Greeting {
        server_version: b"8.4.3".to_vec(),
        thread_id: 0x8000_0001,
        nonce: random_nonce(),
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::LONG_PASSWORD
            | Capabilities::PLUGIN_AUTH
            | Capabilities::SECURE_CONNECTION,
        collation: 255,
        status: Status::AUTOCOMMIT,
        plugin: Plugin::CachingSha2Password,
    }
}

fn login() -> LoginRequest {
    LoginRequest {
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::LONG_PASSWORD
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        max_packet: 1 << 24,
        collation: 45,
        user: b"app".to_vec(),
        auth_response: Secret::from([7; 20]),
        plugin: Some(Plugin::NativePassword),
        ..LoginRequest::default()
    }
}

#[test]
fn greetings_come_back() {
    let mysql = greeting();
    assert_eq!(Greeting::decode(&encoded(|out| mysql.encode(out))), Ok(mysql.clone()));
    assert!(!mysql.is_mariadb());
    let mariadb = Greeting {
        server_version: b"5.5.5-10.11.6-MariaDB-1".to_vec(),
        capabilities: (mysql.capabilities - Capabilities::LONG_PASSWORD)
            | Capabilities::CACHE_METADATA
            | Capabilities::STMT_BULK_OPERATIONS,
        plugin: Plugin::NativePassword,
        ..mysql.clone()
    };
    assert_eq!(Greeting::decode(&encoded(|out| mariadb.encode(out))), Ok(mariadb.clone()));
    assert!(mariadb.is_mariadb());
    assert_eq!(mariadb.version(), "10.11.6-MariaDB-1");
    // Where MariaDB's flags cannot be on the wire they are not.
    let capabilities = mysql.capabilities | Capabilities::CACHE_METADATA;
    let mixed = Greeting { capabilities, ..mysql.clone() };
    let back = Greeting::decode(&encoded(|out| mixed.encode(out))).unwrap();
    assert_eq!(back.capabilities, mysql.capabilities);
}

#[test]
fn a_refusal_instead_of_a_greeting() {
    let err = ErrPacket::new(codes::ER_CON_COUNT_ERROR, "Too many connections");
    match Greeting::decode(&encoded(|out| err.encode_before_login(out))) {
        Err(GreetingError::Refused(refused)) => assert_eq!(refused.code, 1040),
        other => panic!("{other:?}"),
    }
    assert_eq!(Greeting::decode(b"\x09old"), Err(GreetingError::Version(9)));
    assert!(matches!(Greeting::decode(b""), Err(GreetingError::Malformed(_))));
}

#[test]
fn greetings_that_are_cut_are_errors_up_to_the_nonce() {
    let payload = encoded(|out| greeting().encode(out));
    let nonce_end = payload.len() - "caching_sha2_password\0".len() - 1;
    for cut in 0..nonce_end {
        assert!(Greeting::decode(&payload[..cut]).is_err(), "{cut}");
    }
    assert!(Greeting::decode(&payload[..nonce_end]).is_ok());
}

#[test]
fn nonces_have_no_byte_that_ends_them() {
    for _ in 0..200 {
        let nonce = random_nonce();
        assert!(nonce.iter().all(|byte| (1..0x80).contains(byte) && *byte != b'$'), "{nonce:?}");
    }
    assert_ne!(random_nonce(), random_nonce());
}

#[test]
fn the_three_forms_of_the_auth_response() {
    let base = login();
    let long = Secret::from([9; 300]);
    let lenenc = LoginRequest {
        capabilities: base.capabilities | Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA,
        auth_response: long,
        ..base.clone()
    };
    let closed = LoginRequest {
        capabilities: base.capabilities - Capabilities::SECURE_CONNECTION,
        ..base.clone()
    };
    for login in [base, lenenc, closed] {
        assert_eq!(LoginRequest::decode(&encoded(|out| login.encode(out))), Ok(login));
    }
}

#[test]
fn an_ssl_request_is_the_head_of_its_login() {
    let mut login = login();
    login.capabilities = login.capabilities | Capabilities::SSL;
    let request = login.ssl_request();
    let payload = encoded(|out| request.encode(out));
    assert_eq!(payload.len(), 32);
    assert_eq!(SslRequest::decode(&payload), Ok(Some(request)));
    let whole = encoded(|out| login.encode(out));
    assert_eq!(whole[..32], payload);
    assert_eq!(SslRequest::decode(&whole), Ok(None));
    assert!(SslRequest::decode(&payload[..31]).is_err());
}

#[test]
fn mariadb_flags_are_in_the_filler() {
    let mut login = login();
    login.capabilities =
        (login.capabilities - Capabilities::LONG_PASSWORD) | Capabilities::CACHE_METADATA;
    let payload = encoded(|out| login.encode(out));
    assert_eq!(payload[28..32], [0x10, 0, 0, 0]);
    assert_eq!(LoginRequest::decode(&payload), Ok(login));
}

#[test]
fn what_is_missing_at_the_end_is_forgiven() {
    let head = |flags: Capabilities| {
        let mut payload = BytesMut::new();
        let capabilities = flags | Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION;
        SslRequest { capabilities, max_packet: 0, collation: 8 }.encode(&mut payload);
        payload
    };
    let all = Capabilities::CONNECT_WITH_DB
        | Capabilities::PLUGIN_AUTH
        | Capabilities::CONNECT_ATTRS
        | Capabilities::ZSTD_COMPRESSION_ALGORITHM;
    let decode = |rest: &[u8]| {
        let mut payload = head(all);
        payload.extend_from_slice(rest);
        LoginRequest::decode(&payload)
    };
    let login = decode(b"app").unwrap();
    assert_eq!((&login.user[..], login.auth_response.is_empty()), (&b"app"[..], true));
    let login = decode(b"app\0\0shop").unwrap();
    assert_eq!(login.schema, b"shop");
    assert_eq!(login.plugin(), &Plugin::NativePassword, "a name that is missing is the old one");
    let login = decode(b"app\0\0shop\0mysql_native_password").unwrap();
    assert_eq!(login.plugin, Some(Plugin::NativePassword));
    let login = decode(b"app\0\0shop\0mysql_native_password\0\x04\x01a\x01b").unwrap();
    assert!(login.attributes.iter().eq([(&b"a"[..], &b"b"[..])]));
    assert_eq!(login.zstd_level, 0);
    let login = decode(b"app\0\0shop\0mysql_native_password\0\0\x07").unwrap();
    assert_eq!(login.zstd_level, 7);
    assert_eq!(decode(b"app\0\x14short"), Err(DecodeError::Truncated("auth response")));
}

#[test]
fn attributes_are_bounded() {
    let mut login = login();
    login.capabilities = login.capabilities | Capabilities::CONNECT_ATTRS;
    login.attributes = [("a", vec![0; MAX_ATTRIBUTES])].into_iter().collect();
    let result = LoginRequest::decode(&encoded(|out| login.encode(out)));
    assert_eq!(result, Err(DecodeError::Invalid("length of connection attributes")));
}

#[test]
fn the_protocol_before_4_1_is_refused() {
    let old = b"\x85\xa4\x03\0\0\0\0\x08\0\0\0\x01old\0pass\0and more than thirty-two bytes";
    let error = LoginRequest::decode(old).unwrap_err();
    assert!(error.to_string().contains("4.1"), "{error}");
}

#[test]
fn logins_do_not_show_their_response() {
    let login = LoginRequest {
        auth_response: Secret::from("hush"),
        attributes: [("k", "hush")].into_iter().collect(),
        ..login()
    };
    assert!(!format!("{login:?}").contains("hush"));
}

proptest! {
    #[test]
    fn logins_come_back(
        user in vec(1u8.., 0..40),
        schema in vec(1u8.., 0..40),
        response in vec(any::<u8>(), 0..64),
        attributes in vec((vec(any::<u8>(), 0..20), vec(any::<u8>(), 0..300)), 0..4),
        zstd_level: u8,
    ) {
        let login = LoginRequest {
            capabilities: login().capabilities
                | Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA
                | Capabilities::CONNECT_WITH_DB
                | Capabilities::CONNECT_ATTRS
                | Capabilities::ZSTD_COMPRESSION_ALGORITHM,
            user,
            schema,
            auth_response: Secret::from(response),
            attributes: attributes.into_iter().collect(),
            zstd_level,
            ..login()
        };
        prop_assert_eq!(LoginRequest::decode(&encoded(|out| login.encode(out))), Ok(login));
    }
}
