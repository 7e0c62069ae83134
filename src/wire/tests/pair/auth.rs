//! A client and a server that log in at each other.

use bytes::BytesMut;
use std::sync::{Arc, OnceLock};
use wire::{
    Capabilities, Greeting, LoginRequest, OkPacket, Status,
    auth::{
        AuthSwitch, ClientAuth, Plugin, PublicKey, RsaKeyPair, Secret, ServerAuth,
        client::{self, AuthError},
        random_nonce,
        server::{self, Expected},
    },
    err::codes,
};

const CAPS: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::LONG_PASSWORD)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PLUGIN_AUTH);

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
            secure: self.secure,
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
    let plugins = [Plugin::NativePassword, Plugin::CachingSha2Password];
    let greetings = [plugins[0].clone(), plugins[1].clone(), Plugin::Other("auth_other".into())];
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
        // Only full authentication over an open channel needs the key.
        let full = setting.full && setting.account_plugin == Plugin::CachingSha2Password;
        let possible = !full || setting.secure || setting.key || setting.password.is_empty();
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
        assert!(!shown(&login.login), "{setting:?}");
        let clear = login.sent.iter().any(|(_, payload)| shown(payload));
        let asked = login.sent.iter().any(|(_, payload)| *payload == [1, 4]);
        assert_eq!(clear, asked && setting.secure, "{setting:?}");
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

fn expected(plugin: Plugin) -> Expected {
    let password = Some(Secret::from(PASSWORD));
    Expected { password, plugin, nonce: [7; 20], secure: false, key: None, full: false }
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
        (switch_to("mysql_clear_password"), "mysql_clear_password"),
        (switch_to("sha256_password"), "sha256_password"),
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
