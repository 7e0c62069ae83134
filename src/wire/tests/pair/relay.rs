//! A client and a server that log in at each other through a relay.

use bytes::BytesMut;
use std::sync::{Arc, OnceLock};
use wire::{
    Capabilities, OkPacket,
    auth::{
        Channel, ClientAuth, Plugin, RelayAuth, RsaKeyPair, Secret, ServerAuth, client,
        relay::{Hops, RelayError, Step},
        server::{self, Expected},
    },
};

const PASSWORD: &str = "correct horse battery staple";
const NONCE: [u8; 20] = [7; 20];

#[derive(Clone, Debug)]
struct Setting {
    account: &'static str,
    password: &'static str,
    account_plugin: Plugin,
    greeting_plugin: Plugin,
    client: Channel,
    server: Channel,
    full: bool,
}

/// How it ended, and what the relay sent on each hop.
#[derive(Debug)]
struct Login {
    end: Result<bool, RelayError>,
    to_client: Vec<Vec<u8>>,
    to_server: Vec<Vec<u8>>,
}

fn keys() -> &'static [Arc<RsaKeyPair>; 2] {
    static KEYS: OnceLock<[Arc<RsaKeyPair>; 2]> = OnceLock::new();
    KEYS.get_or_init(|| [(); 2].map(|()| Arc::new(RsaKeyPair::generate().unwrap())))
}

impl Setting {
    fn run(&self) -> Login {
        let mut all = Login { end: Ok(false), to_client: Vec::new(), to_server: Vec::new() };
        all.end = self.converse(&mut all.to_client, &mut all.to_server);
        all
    }

    fn converse(
        &self,
        to_client: &mut Vec<Vec<u8>>,
        to_server: &mut Vec<Vec<u8>>,
    ) -> Result<bool, RelayError> {
        let password = Secret::from(self.password);
        let plugin = self.greeting_plugin.clone();
        let mut client = ClientAuth::new(password, plugin, NONCE, self.client);
        let hops = Hops { client: self.client, server: self.server, key: Some(keys()[0].clone()) };
        let mut relay = RelayAuth::new(hops, client.plugin().clone(), NONCE);
        let mut server: Option<ServerAuth> = None;
        let begins = client.plugin().clone();
        let mut step = relay.client(client.response().expose())?;
        for _ in 0..32 {
            step = match step {
                Step::Server(payload) => {
                    to_server.push(payload.expose().to_vec());
                    match &mut server {
                        None => server = Some(self.server(&begins, payload.expose())),
                        Some(server) => server.receive(payload.expose()),
                    }
                    relay.server(&says(server.as_mut().unwrap()))?
                }
                Step::Tell(payload) => {
                    to_client.push(payload.to_vec());
                    assert_eq!(client.receive(&payload), Ok(client::Step::Read));
                    relay.server(&says(server.as_mut().unwrap()))?
                }
                Step::Client(payload) => {
                    to_client.push(payload.to_vec());
                    let Ok(client::Step::Send(answer)) = client.receive(&payload) else {
                        panic!("{self:?}: no answer to {payload:?}")
                    };
                    relay.client(answer.expose())?
                }
                Step::Verdict(payload) => {
                    return Ok(matches!(client.receive(&payload), Ok(client::Step::Done(_))));
                }
            };
        }
        panic!("no end")
    }

    fn server(&self, plugin: &Plugin, response: &[u8]) -> ServerAuth {
        let expected = Expected {
            password: Some(Secret::from(self.account)),
            plugin: self.account_plugin.clone(),
            nonce: NONCE,
            channel: self.server,
            key: Some(keys()[1].clone()),
            full: self.full,
        };
        ServerAuth::new(expected, plugin, true, response)
    }
}

/// What the server sends next.
fn says(server: &mut ServerAuth) -> Vec<u8> {
    let mut out = BytesMut::new();
    match server.step() {
        server::Step::Send(payload) => return payload.to_vec(),
        server::Step::Accept => OkPacket::default().encode(&mut out, Capabilities::PROTOCOL_41),
        server::Step::Deny => out.extend_from_slice(b"\xFF\x15\x04#28000Access denied"),
        server::Step::Read => panic!("the server waits, and so does the client"),
    }
    out.to_vec()
}

const CHANNELS: [Channel; 3] = [Channel::Open, Channel::Socket, Channel::Tls];

fn every_setting() -> Vec<Setting> {
    let plugins = [
        Plugin::NativePassword,
        Plugin::CachingSha2Password,
        Plugin::Sha256Password,
        Plugin::ClearPassword,
        Plugin::Ed25519,
        Plugin::Parsec,
    ];
    let passwords = [(PASSWORD, PASSWORD), (PASSWORD, "wrong"), (PASSWORD, ""), ("", "")];
    let mut all = Vec::new();
    for account_plugin in &plugins {
        for greeting_plugin in &plugins[..3] {
            for (account, password) in passwords {
                for bits in 0..18u8 {
                    all.push(Setting {
                        account,
                        password,
                        account_plugin: account_plugin.clone(),
                        greeting_plugin: greeting_plugin.clone(),
                        client: CHANNELS[usize::from(bits / 2 % 3)],
                        server: CHANNELS[usize::from(bits / 6)],
                        full: bits & 1 != 0,
                    });
                }
            }
        }
    }
    all
}

#[test]
fn the_servers_verdict_is_the_clients() {
    for setting in every_setting() {
        let login = setting.run();
        let secure = setting.client.is_secure() && setting.server.is_secure();
        if setting.account_plugin == Plugin::ClearPassword && !secure {
            match (setting.server.is_secure(), login.end) {
                // The server itself does not ask for it.
                (false, Ok(accepted)) => assert!(!accepted, "{setting:?}"),
                (true, Err(RelayError::Exposed(plugin))) => {
                    assert_eq!(plugin, Plugin::ClearPassword);
                }
                (_, end) => panic!("{setting:?}: {end:?}"),
            }
        } else {
            assert_eq!(login.end, Ok(setting.account == setting.password), "{setting:?}");
        }
    }
}

#[test]
fn no_hop_shows_a_password_that_it_would_not_show_by_itself() {
    for setting in every_setting().into_iter().filter(|setting| !setting.password.is_empty()) {
        let login = setting.run();
        let password = setting.password.as_bytes();
        let shown = |payload: &Vec<u8>| payload.windows(password.len()).any(|at| at == password);
        assert!(!login.to_client.iter().any(shown), "{setting:?}");
        assert!(setting.server.is_secure() || !login.to_server.iter().any(shown), "{setting:?}");
    }
}

#[test]
fn hops_of_one_kind_are_passed_through() {
    let base = Setting {
        account: PASSWORD,
        password: PASSWORD,
        account_plugin: Plugin::CachingSha2Password,
        greeting_plugin: Plugin::CachingSha2Password,
        client: Channel::Open,
        server: Channel::Open,
        full: true,
    };
    let key = |login: &Login| login.to_client.iter().find(|payload| payload.len() > 2).cloned();
    let pem = |at: usize| [b"\x01", keys()[at].public_pem().as_bytes()].concat();
    assert_eq!(key(&base.run()), Some(pem(1)), "the server's own key");
    let mixed = Setting { server: Channel::Tls, ..base };
    assert_eq!(key(&mixed.run()), Some(pem(0)), "the relay's");
}

#[test]
fn a_password_for_another_key_is_refused() {
    let hops = Hops { client: Channel::Open, server: Channel::Tls, key: Some(keys()[0].clone()) };
    let mut relay = RelayAuth::new(hops.clone(), Plugin::Sha256Password, NONCE);
    assert_eq!(relay.client(&[9; 256]), Err(RelayError::Foreign));
    let keyless = Hops { key: None, ..hops };
    let mut relay = RelayAuth::new(keyless, Plugin::Sha256Password, NONCE);
    assert_eq!(relay.client(&[1]), Err(RelayError::Foreign));
}

#[test]
fn a_login_that_never_ends_is_given_up() {
    let hops = Hops { client: Channel::Tls, server: Channel::Tls, key: None };
    let mut relay = RelayAuth::new(hops, Plugin::Other("dialog".into()), NONCE);
    let mut rounds = 0;
    while relay.server(b"\x02Password: ").is_ok() && relay.client(b"no").is_ok() {
        rounds += 1;
        assert!(rounds < 1000, "no end");
    }
}

#[test]
fn a_further_factor_is_looked_at_too() {
    let hops = Hops { client: Channel::Open, server: Channel::Tls, key: None };
    let mut relay = RelayAuth::new(hops, Plugin::CachingSha2Password, NONCE);
    assert!(relay.client(&[9; 32]).is_ok());
    let error = relay.server(b"\x02mysql_clear_password\0\0");
    assert_eq!(error, Err(RelayError::Exposed(Plugin::ClearPassword)));
    let hops = Hops { client: Channel::Open, server: Channel::Tls, key: None };
    let mut relay = RelayAuth::new(hops, Plugin::CachingSha2Password, NONCE);
    let question = b"\x02Password: ";
    assert_eq!(relay.server(question), Ok(Step::Client(question.to_vec().into())));
}
