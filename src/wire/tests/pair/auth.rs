//! A client and a server that log in at each other.

use bytes::BytesMut;
use std::sync::{Arc, OnceLock};
use wire::{
    Capabilities, Greeting, LoginRequest, OkPacket, Status,
    auth::{
        AuthSwitch, Channel, ClientAuth, ExtSalt, Plugin, PublicKey, RsaKeyPair, Secret,
        ServerAuth,
        client::{self, AuthError},
        random_nonce,
        server::{self, Expected},
    },
    err::codes,
};

const CAPS: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::LONG_PASSWORD)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA);

const PASSWORD: &str = "correct horse battery staple";

/// What the two ends have to go by.
#[derive(Clone, Debug)]
struct Setting {
    /// The account's password on the server's side; `None` if there is no account.
    account: Option<&'static str>,
    /// The password that the client knows.
    password: &'static str,
    account_plugin: Plugin,
    greeting_plugin: Plugin,
    secure: bool,
    full: bool,
    key: bool,
    pinned: bool,
}

/// What went over the wire and how it ended.
struct Login {
    accepted: bool,
    error: Option<AuthError>,
    /// Payloads behind the login, with who sent them.
    sent: Vec<(Side, Vec<u8>)>,
    login: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

fn key() -> Arc<RsaKeyPair> {
    static KEY: OnceLock<Arc<RsaKeyPair>> = OnceLock::new();
    KEY.get_or_init(|| Arc::new(RsaKeyPair::generate().unwrap())).clone()
}

impl Setting {
    fn new(plugin: Plugin) -> Self {
        Self {
            account: Some(PASSWORD),
            password: PASSWORD,
            account_plugin: plugin.clone(),
            greeting_plugin: plugin,
            secure: false,
            full: false,
            key: true,
            pinned: false,
        }
    }

    /// Runs both ends until the server has decided.
    fn run(&self) -> Login {
        let greeting = Greeting {
            server_version: b"8.4.3".to_vec(),
            thread_id: 1,
            nonce: random_nonce(),
            capabilities: CAPS,
            collation: 45,
            status: Status::AUTOCOMMIT,
            plugin: self.greeting_plugin.clone(),
        };
        let mut payload = BytesMut::new();
        greeting.encode(&mut payload);
        let seen = Greeting::decode(&payload).unwrap();
        let password = Secret::from(self.password);
        let mut client = ClientAuth::new(password, seen.plugin, seen.nonce, self.secure);
        if self.pinned {
            let pinned = PublicKey::from_pem(key().public_pem().as_bytes()).unwrap();
            client = client.pin_key(Arc::new(pinned));
        }
        let login = LoginRequest {
            capabilities: CAPS,
            user: b"app".to_vec(),
            auth_response: client.response(),
            plugin: Some(client.plugin().clone()),
            ..LoginRequest::default()
        };
        let mut payload = BytesMut::new();
        login.encode(&mut payload);
        let login = LoginRequest::decode(&payload).unwrap();
        let expected = Expected {
            password: self.account.map(Secret::from),
            plugin: self.account_plugin.clone(),
            nonce: greeting.nonce,
            channel: self.secure.into(),
            key: self.key.then(key),
            full: self.full,
        };
        let response = login.auth_response.expose();
        let server = ServerAuth::new(expected, login.plugin(), true, response);
        converse(server, client, payload.to_vec())
    }
}

fn converse(mut server: ServerAuth, mut client: ClientAuth, login: Vec<u8>) -> Login {
    let mut all = Login { accepted: false, error: None, sent: Vec::new(), login };
    let mut answer = None;
    // More steps than any login takes: a machine that never ends must not hang the test.
    for _ in 0..32 {
        let payload = match server.step() {
            server::Step::Send(payload) => payload.to_vec(),
            server::Step::Read => {
                let Some(payload): Option<Secret> = answer.take() else { return all };
                all.sent.push((Side::Client, payload.expose().to_vec()));
                server.receive(payload.expose());
                continue;
            }
            server::Step::Accept => {
                let mut ok = BytesMut::new();
                OkPacket::default().encode(&mut ok, CAPS);
                let last = client.receive(&ok);
                all.accepted = matches!(last, Ok(client::Step::Done(_)));
                return all;
            }
            server::Step::Deny => return all,
        };
        all.sent.push((Side::Server, payload.clone()));
        match client.receive(&payload) {
            Ok(client::Step::Send(payload)) => answer = Some(payload),
            Ok(client::Step::Read) => {}
            Ok(client::Step::Done(_)) => panic!("done before the server's OK"),
            Err(error) => {
                all.error = Some(error);
                return all;
            }
        }
    }
    panic!("no end");
}

/// Every combination of plugins, channel, key and passwords.
fn every_setting() -> Vec<Setting> {
    let plugins = [
        Plugin::NativePassword,
        Plugin::CachingSha2Password,
        Plugin::Sha256Password,
        Plugin::ClearPassword,
        Plugin::Ed25519,
        Plugin::Parsec,
    ];
    let greetings = [&plugins[..], &[Plugin::Other("auth_other".into())]].concat();
    let passwords = [
        (Some(PASSWORD), PASSWORD),
        (Some(PASSWORD), "wrong"),
        (Some(PASSWORD), ""),
        (Some(""), ""),
        (Some(""), "wrong"),
        (None, PASSWORD),
        (None, ""),
    ];
    let mut all = Vec::new();
    for account_plugin in &plugins {
        for greeting_plugin in &greetings {
            for (account, password) in passwords {
                for bits in 0..16u8 {
                    let flag = |bit: u8| bits & (1 << bit) != 0;
                    all.push(Setting {
                        account,
                        password,
                        account_plugin: account_plugin.clone(),
                        greeting_plugin: greeting_plugin.clone(),
                        secure: flag(0),
                        full: flag(1),
                        key: flag(2),
                        pinned: flag(3),
                    });
                }
            }
        }
    }
    all
}

#[test]
fn the_right_password_and_only_the_right_one_is_let_in() {
    for setting in every_setting() {
        let login = setting.run();
        let right = setting.account == Some(setting.password);
        let possible = match setting.account_plugin {
            Plugin::ClearPassword => setting.secure,
            // Only the password itself over an open channel needs the key.
            Plugin::Sha256Password => setting.secure || setting.key || setting.password.is_empty(),
            Plugin::CachingSha2Password => {
                !setting.full || setting.secure || setting.key || setting.password.is_empty()
            }
            _ => true,
        };
        assert_eq!(login.accepted, right && possible, "{setting:?}");
        assert_eq!(login.error, None, "{setting:?}");
    }
}

#[test]
fn passwords_go_over_secure_channels_only() {
    for setting in every_setting().into_iter().filter(|setting| !setting.password.is_empty()) {
        let login = setting.run();
        let password = setting.password.as_bytes();
        let shown = |bytes: &[u8]| bytes.windows(password.len()).any(|part| part == password);
        let clear = login.sent.iter().any(|(_, payload)| shown(payload));
        if !setting.secure {
            assert!(!clear && !shown(&login.login), "{setting:?}");
        } else if setting.account_plugin == Plugin::CachingSha2Password {
            let asked = login.sent.iter().any(|(_, payload)| *payload == [1, 4]);
            assert_eq!(clear, asked, "{setting:?}");
        }
    }
}

#[test]
fn a_missing_account_looks_like_a_wrong_password() {
    let shape = |setting: &Setting| {
        let lens = setting.run().sent.into_iter().map(|(side, payload)| (side, payload.len()));
        lens.collect::<Vec<_>>()
    };
    for missing in every_setting().into_iter().filter(|setting| setting.account.is_none()) {
        let wrong = Setting { account: Some("another one"), ..missing.clone() };
        assert_eq!(shape(&missing), shape(&wrong), "{missing:?}");
    }
}

#[test]
fn steps_of_the_fast_path() {
    let native = Setting::new(Plugin::NativePassword).run();
    assert!(native.accepted && native.sent.is_empty());
    let sha2 = Setting::new(Plugin::CachingSha2Password).run();
    assert_eq!(sha2.sent, [(Side::Server, vec![1, 3])]);
}

#[test]
fn steps_of_full_authentication() {
    let full = Setting { full: true, ..Setting::new(Plugin::CachingSha2Password) };
    let sides = |login: &Login| login.sent.iter().map(|(side, _)| *side).collect::<Vec<_>>();
    let tls = Setting { secure: true, ..full.clone() }.run();
    assert_eq!(tls.sent[0], (Side::Server, vec![1, 4]));
    assert_eq!(tls.sent[1], (Side::Client, [PASSWORD.as_bytes(), &[0]].concat()));
    let rsa = full.run();
    assert_eq!(sides(&rsa), [Side::Server, Side::Client, Side::Server, Side::Client]);
    assert_eq!(rsa.sent[1].1, [2]);
    assert!(rsa.sent[2].1.starts_with(b"\x01-----BEGIN PUBLIC KEY-----\n"));
    assert_eq!(rsa.sent[3].1.len(), 256);
    let pinned = Setting { pinned: true, ..full }.run();
    assert_eq!(sides(&pinned), [Side::Server, Side::Client], "nobody asks for a key that is known");
    assert!(pinned.accepted);
}

#[test]
fn a_switch_leads_to_the_accounts_plugin() {
    let mut setting = Setting::new(Plugin::CachingSha2Password);
    setting.greeting_plugin = Plugin::NativePassword;
    let login = setting.run();
    assert!(login.accepted);
    let switch = AuthSwitch::decode(&login.sent[0].1).unwrap();
    assert_eq!((switch.plugin, switch.data.len()), (Plugin::CachingSha2Password, 20));
    assert_eq!(login.sent[1].1.len(), 32);
    assert_eq!(login.sent[2], (Side::Server, vec![1, 3]));
}

#[test]
fn steps_of_sha256_password() {
    let plain = Setting::new(Plugin::Sha256Password);
    let tls = Setting { secure: true, ..plain.clone() }.run();
    assert!(tls.accepted && tls.sent.is_empty(), "the login carries the password");
    let rsa = plain.run();
    assert!(rsa.accepted);
    assert!(rsa.sent[0].1.starts_with(b"\x01-----BEGIN PUBLIC KEY-----\n"));
    assert_eq!((rsa.sent[1].0, rsa.sent[1].1.len()), (Side::Client, 256));
    let pinned = Setting { pinned: true, ..plain }.run();
    assert!(pinned.accepted && pinned.sent.is_empty(), "nobody asks for a key that is known");
}

#[test]
fn steps_of_those_that_sign() {
    let mut setting = Setting::new(Plugin::Ed25519);
    setting.greeting_plugin = Plugin::NativePassword;
    let login = setting.run();
    assert!(login.accepted);
    let shape = |login: &Login| {
        login.sent.iter().map(|(side, payload)| (*side, payload.len())).collect::<Vec<_>>()
    };
    let name = "client_ed25519".len();
    assert_eq!(shape(&login), [(Side::Server, 1 + name + 1 + 32), (Side::Client, 64)]);
    setting.account_plugin = Plugin::Parsec;
    let login = setting.run();
    assert!(login.accepted);
    let name = "parsec".len();
    assert_eq!(
        shape(&login),
        [
            (Side::Server, 1 + name + 1 + 32),
            (Side::Client, 0),
            (Side::Server, 2 + 18),
            (Side::Client, 32 + 64),
        ]
    );
    assert_eq!(login.sent[2].1[..2], *b"P\0");
}

#[test]
fn a_challenge_may_end_in_a_nul() {
    let data = [&[7; 31][..], &[0]].concat();
    let switch = AuthSwitch { plugin: Plugin::Ed25519, data };
    let mut payload = BytesMut::new();
    switch.encode(&mut payload);
    assert_eq!(AuthSwitch::decode(&payload), Ok(switch));
    let sent = client(Plugin::NativePassword).receive(&payload);
    assert!(matches!(sent, Ok(client::Step::Send(signature)) if signature.expose().len() == 64));
}

#[test]
fn a_password_is_not_shown_to_whoever_asks() {
    let error = client(Plugin::NativePassword).receive(&switch_to("mysql_clear_password"));
    assert_eq!(error, Err(AuthError::Exposed("mysql_clear_password")));
    let begun = ClientAuth::new(Secret::from(PASSWORD), Plugin::ClearPassword, [7; 20], false);
    assert_eq!(begun.plugin(), &Plugin::NativePassword);
    assert!(!begun.response().expose().starts_with(PASSWORD.as_bytes()));
}

#[test]
fn salts_that_are_none_are_errors() {
    let parsec = || {
        let mut asking = client(Plugin::NativePassword);
        let mut payload = BytesMut::new();
        AuthSwitch { plugin: Plugin::Parsec, data: vec![1; 32] }.encode(&mut payload);
        assert_eq!(asking.receive(&payload), Ok(client::Step::Send(Secret::default())));
        asking
    };
    for payload in [&b"P"[..], b"P\0", b"P\x04salt", b"\x01Q\0salt"] {
        let result = parsec().receive(payload);
        assert!(matches!(result, Err(AuthError::Malformed(_))), "{payload:?}: {result:?}");
    }
    for payload in [&b"P\0a salt"[..], b"\x01P\x03a salt"] {
        let mut asking = parsec();
        let result = asking.receive(payload);
        assert!(matches!(result, Ok(client::Step::Send(_))), "{payload:?}: {result:?}");
        let again = asking.receive(payload);
        assert!(matches!(again, Err(AuthError::Unexpected(_))), "a salt is asked for once");
    }
    // A challenge of another length.
    let result = client(Plugin::NativePassword).receive(b"\xFEparsec\0short");
    assert!(matches!(result, Err(AuthError::Malformed(_))), "{result:?}");
}

fn expected(plugin: Plugin) -> Expected {
    let password = Some(Secret::from(PASSWORD));
    Expected { password, plugin, nonce: [7; 20], channel: false.into(), key: None, full: false }
}

#[test]
fn who_cannot_switch_is_denied() {
    let wanted = expected(Plugin::CachingSha2Password);
    let mut auth = ServerAuth::new(wanted, &Plugin::NativePassword, false, &[0; 20]);
    assert_eq!(auth.step(), server::Step::Deny);
}

#[test]
fn a_response_that_does_not_fit_is_asked_for_again_and_then_denied() {
    let plugin = Plugin::NativePassword;
    let mut auth = ServerAuth::new(expected(plugin.clone()), &plugin, true, &[1; 32]);
    assert!(matches!(auth.step(), server::Step::Send(_)));
    assert_eq!(auth.step(), server::Step::Read);
    auth.receive(&[1; 32]);
    assert_eq!(auth.step(), server::Step::Deny);
    auth.receive(&[1; 20]);
    assert_eq!(auth.step(), server::Step::Deny, "a verdict stands");
}

#[test]
fn the_empty_password_has_two_spellings() {
    for plugin in [Plugin::NativePassword, Plugin::CachingSha2Password] {
        for response in [&[][..], &[0]] {
            let wanted = Expected { password: Some(Secret::default()), ..expected(plugin.clone()) };
            let mut auth = ServerAuth::new(wanted, &plugin, true, response);
            assert_eq!(auth.step(), server::Step::Accept, "{plugin:?} {response:?}");
            let mut auth = ServerAuth::new(expected(plugin.clone()), &plugin, true, response);
            assert_eq!(auth.step(), server::Step::Deny, "{plugin:?} {response:?}");
        }
    }
}

#[test]
fn a_password_in_the_clear_is_not_taken_over_an_open_channel() {
    let wanted = Expected { full: true, key: Some(key()), ..expected(Plugin::CachingSha2Password) };
    let mut auth = ServerAuth::new(wanted, &Plugin::CachingSha2Password, true, &[1; 32]);
    assert_eq!(auth.step(), server::Step::Send(vec![1, 4].into()));
    auth.receive(&[PASSWORD.as_bytes(), &[0]].concat());
    assert_eq!(auth.step(), server::Step::Deny);
}

#[test]
fn a_wrong_scramble_leads_to_the_password_itself() {
    let plugin = Plugin::CachingSha2Password;
    for (password, sent, last) in [
        (Some(PASSWORD), PASSWORD, server::Step::Accept),
        (Some(PASSWORD), "wrong", server::Step::Deny),
        (Some(""), "", server::Step::Accept),
        (None, PASSWORD, server::Step::Deny),
    ] {
        for channel in [Channel::Open, Channel::Socket, Channel::Tls] {
            let password = password.map(Secret::from);
            let wanted = Expected { password, channel, ..expected(plugin.clone()) };
            let mut auth = ServerAuth::new(wanted, &plugin, true, &[1; 32]);
            assert_eq!(auth.step(), server::Step::Send(vec![1, 4].into()));
            assert_eq!(auth.step(), server::Step::Read);
            assert_eq!(auth.needs_key(), channel == Channel::Open);
            let mut payload = [sent.as_bytes(), &[0]].concat();
            if channel == Channel::Open {
                auth.give_key(key());
                auth.receive(&[2]);
                assert!(matches!(auth.step(), server::Step::Send(pem) if pem.len() > 256));
                assert_eq!(auth.step(), server::Step::Read);
                payload.iter_mut().for_each(|byte| *byte ^= 7);
                let public = PublicKey::from_pem(key().public_pem().as_bytes()).unwrap();
                payload = public.encrypt(&payload).unwrap();
            }
            auth.receive(&payload);
            assert_eq!(auth.step(), last, "{channel:?} {sent:?}");
            assert!(auth.password_used());
        }
    }
}

#[test]
fn without_a_key_an_open_channel_gets_no_further() {
    for payload in [&[2][..], &[1; 256]] {
        let plugin = Plugin::CachingSha2Password;
        let mut auth = ServerAuth::new(expected(plugin.clone()), &plugin, true, &[1; 32]);
        assert_eq!(auth.step(), server::Step::Send(vec![1, 4].into()));
        auth.receive(payload);
        assert_eq!(auth.step(), server::Step::Deny);
    }
}

#[test]
fn a_scramble_of_another_length_is_not_asked_for_again() {
    let plugin = Plugin::CachingSha2Password;
    for response in [&b"abc"[..], &[1; 33]] {
        let mut auth = ServerAuth::new(expected(plugin.clone()), &plugin, true, response);
        assert_eq!(auth.step(), server::Step::Deny);
        assert!(auth.password_used());
    }
}

#[test]
fn a_change_of_user_is_asked_for_anew() {
    for (response, last, used) in
        [(&[1; 3][..], server::Step::Deny, true), (&[], server::Step::Deny, false)]
    {
        let mut auth = ServerAuth::switched(expected(Plugin::CachingSha2Password));
        let mut payload = BytesMut::new();
        AuthSwitch { plugin: Plugin::CachingSha2Password, data: vec![7; 20] }.encode(&mut payload);
        assert_eq!(auth.step(), server::Step::Send(payload.freeze()));
        assert_eq!(auth.step(), server::Step::Read);
        auth.receive(response);
        assert_eq!(auth.step(), last);
        assert_eq!(auth.password_used(), used);
    }
}

fn client(plugin: Plugin) -> ClientAuth {
    ClientAuth::new(Secret::from(PASSWORD), plugin, [7; 20], false)
}

fn switch_to(name: &str) -> Vec<u8> {
    let mut payload = BytesMut::new();
    let plugin = Plugin::Other(name.into());
    AuthSwitch { plugin, data: vec![1; 20] }.encode(&mut payload);
    payload.to_vec()
}

#[test]
fn plugins_that_are_not_there_are_named() {
    for (payload, name) in [
        (switch_to("authentication_windows_client"), "authentication_windows_client"),
        (vec![0xFE], "mysql_old_password"),
    ] {
        let error = client(Plugin::NativePassword).receive(&payload).unwrap_err();
        assert_eq!(error, AuthError::Plugin(name.into()));
        assert!(error.to_string().contains(name), "{error}");
    }
}

#[test]
fn a_refusal_carries_the_servers_error() {
    let mut payload = BytesMut::new();
    let err = wire::ErrPacket::new(codes::ER_ACCESS_DENIED_ERROR, "Access denied for user 'app'");
    err.encode(&mut payload);
    let error = client(Plugin::NativePassword).receive(&payload).unwrap_err();
    assert_eq!(error, AuthError::Refused(err));
    assert!(error.to_string().contains("1045"), "{error}");
}

#[test]
fn what_does_not_belong_there_is_an_error() {
    for payload in [&b""[..], b"\x01", b"\x01\x04", b"\x01\x03", b"\x02", b"\x77"] {
        let result = client(Plugin::NativePassword).receive(payload);
        assert!(matches!(result, Err(AuthError::Unexpected(_))), "{payload:?}: {result:?}");
    }
    let mut asking = client(Plugin::CachingSha2Password);
    assert_eq!(asking.receive(&[1, 4]), Ok(client::Step::Send(Secret::from([2]))));
    assert!(matches!(asking.receive(b"\x01no key"), Err(AuthError::Key(_))));
    // A nonce that is too short.
    let short = b"\xFEmysql_native_password\0short\0";
    let result = client(Plugin::NativePassword).receive(short);
    assert!(matches!(result, Err(AuthError::Malformed(_))), "{result:?}");
}

#[test]
fn a_server_that_never_decides_is_given_up() {
    let mut client = client(Plugin::NativePassword);
    let mut payload = BytesMut::new();
    let plugin = Plugin::CachingSha2Password;
    AuthSwitch { plugin, data: vec![1; 20] }.encode(&mut payload);
    let mut rounds = 0;
    while client.receive(&payload).is_ok() {
        rounds += 1;
        assert!(rounds < 100, "no end");
    }
}

/// Against vectors computed apart, by the formulas of the manual.
#[test]
fn scrambles_are_the_known_ones() {
    let nonce = b"abcdefghijklmnopqrst";
    let hex =
        |secret: Secret| secret.expose().iter().map(|b| format!("{b:02x}")).collect::<String>();
    let native = hex(wire::auth::native_password(b"secret", nonce));
    assert_eq!(native, "8817c50fa779daef010ee7577825b0847df9842e");
    let sha2 = hex(wire::auth::sha2_password(b"secret", nonce));
    assert_eq!(sha2, "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809");
    assert!(wire::auth::native_password(b"", nonce).is_empty());
    assert!(wire::auth::sha2_password(b"", nonce).is_empty());
}

/// Against vectors computed apart: ed25519's by the formulas of RFC 8032 in plain integers, and its
/// public key is the one that MariaDB 10.11 keeps; parsec's by another library.
#[test]
fn signatures_are_the_known_ones() {
    let ascending = |from: u8| std::array::from_fn::<u8, 32, _>(|at| from + at as u8);
    let (challenge, own) = (ascending(0), ascending(32));
    let hex =
        |secret: Secret| secret.expose().iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(
        hex(wire::auth::ed25519_sign(b"secret", &challenge)),
        "546c3e9311d19ee389d1ae5d945821bfe459423910136f16b3bd2ae89fd7d63b\
         449e689f4be812891a85b8f999076446d92adb83d0707215aaa60b5a23220907"
    );
    let own_hex = "202122232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f";
    for (password, factor, signature) in [
        (
            &b"secret"[..],
            0,
            "c6e80a8055cdf0f2b05991775e1ab8e00afb9f240a63146fa06d4250b7091f50\
             5865c60b2a6fdb2c4a7367f7d8d3cbed388491b7a081345dfea9d3aeaa5c390e",
        ),
        (
            b"secret",
            3,
            "dd2004ba887c1295b9447ce1f811527c597ce23f2fa4ff29c0b6b3f0a8f53175\
             a7795fd44908724435a8335a2a420e5672b24bedc140949eee237cef6c0aa707",
        ),
        (
            b"",
            0,
            "249012f77ba5676ec057c26043f4617e0874cfe07e12331db08fde9db4921d69\
             09e02970fb83bd4fe89a22e9c56f958d9b210f38cdef6ebe6d9446a0b061810b",
        ),
    ] {
        let salt = ExtSalt { factor, salt: b"abcdefghijklmnopqr".to_vec() };
        let made = wire::auth::parsec_sign_with(password, &salt, &challenge, &own);
        assert!(wire::auth::parsec_verify(password, &salt, &challenge, made.expose()));
        assert!(!wire::auth::parsec_verify(b"another", &salt, &challenge, made.expose()));
        assert_eq!(hex(made), format!("{own_hex}{signature}"));
    }
}
