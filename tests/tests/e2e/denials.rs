//! What a client is asked before it is denied, and what lets it in then.

use anyhow::Result;
use bytes::BytesMut;
use e2e::{Client, Cluster, Login, Proxy, Setup, Vendor};
use std::{
    io::{Read, Write},
    net::TcpStream,
};
use wire::{Capabilities, CommandCode, Greeting, auth::PublicKey, packet};

on_both_vendors!(
    the_steps_to_a_denial,
    a_change_of_user_is_denied_like_the_servers,
    a_wrong_scramble_and_the_right_password,
);

/// Accounts with passwords that are not theirs.
const WRONG: [(&str, &str); 3] = [("admin", "wrong"), ("admin", ""), ("app_nopw", "given")];

fn proxy(cluster: &Cluster, listener: &str) -> Result<Proxy> {
    Setup::of(cluster).listener(listener).listener_tls("prefer").start()
}

fn the_steps_to_a_denial(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, "")?;
    for (user, password) in WRONG {
        for login in [Login::new(user, password), Login::new(user, password).tls()] {
            let steps = |address: &str| {
                let mut seen = Vec::new();
                let denied = Client::connect_seeing(address, &login, &mut seen).map(drop);
                (denied.expect_err("let in").to_string(), seen)
            };
            assert_eq!(steps(&proxy.address), steps(&cluster.addresses[0]), "{user} {password}");
        }
    }
    Ok(())
}

fn a_change_of_user_is_denied_like_the_servers(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, "")?;
    let addresses = [&cluster.addresses[0], &proxy.address];
    for admin in [cluster.admin(), cluster.admin().tls()] {
        for (user, password) in WRONG {
            let [direct, proxied] = addresses.map(|address| -> Result<_> {
                let mut client = Client::connect(address, &admin)?;
                let denied = client.change_user(&Login::new(user, password));
                let denied = denied.expect_err("let in").to_string();
                Ok((denied, client.command(CommandCode::PING, b"").is_ok()))
            });
            assert_eq!(proxied?, direct?, "{user} {password}");
        }
    }
    // servers ask again, whatever response the command carries
    let [direct, proxied] = addresses.map(|address| -> Result<_> {
        let client = Client::connect(address, &cluster.admin())?;
        let (plugin, nonce) = (client.greeting.plugin.to_string(), client.greeting.nonce);
        let body = [b"admin\0\0\0\x2d\0", plugin.as_bytes(), b"\0"].concat();
        let change = client.framed(CommandCode::CHANGE_USER, &body);
        let mut reply = client.last_words(&change)?;
        // header, 0xFE, the plugin and a NUL; then the nonce, and what is said as we go
        let rest = reply.split_off(4 + 1 + plugin.len() + 1);
        assert_eq!(rest[..20] == nonce, cluster.vendor == Vendor::MariaDb);
        Ok(reply)
    });
    assert_eq!(proxied?, direct?);
    Ok(())
}

/// The next packet's payload.
fn read(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let [a, b, c, _] = header;
    let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

/// What comes behind a scramble for another nonce and then `password`, encrypted.
fn asked(address: &str, password: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    let nonce = Greeting::decode(&read(&mut stream)?)?.nonce;
    let login = Login::new("admin", password).plugin("caching_sha2_password");
    let login = login.without(Capabilities::SSL);
    stream.write_all(&Client::login_bytes(&login))?;
    let mut asked = read(&mut stream)?;
    let mut seq = 3;
    assert_eq!(asked, [1, 4]);
    for step in 0..2 {
        let said = match step {
            0 => vec![2],
            _ => {
                let mut clear = [password.as_bytes(), &[0]].concat();
                clear.iter_mut().zip(nonce).for_each(|(byte, nonce)| *byte ^= nonce);
                PublicKey::from_pem(&asked[1..])?.encrypt(&clear)?
            }
        };
        let mut framed = BytesMut::new();
        packet::put_packet(&mut framed, seq, &said);
        stream.write_all(&framed)?;
        asked = read(&mut stream)?;
        seq += 2;
    }
    Ok(asked)
}

fn a_wrong_scramble_and_the_right_password(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, "default_auth = \"caching_sha2_password\"")?;
    let password = cluster.login("admin").password;
    assert_eq!(asked(&proxy.address, &password)?[0], 0);
    let denied = asked(&proxy.address, "wrong")?;
    assert!(denied.starts_with(b"\xFF\x15\x04#28000"), "{}", denied.escape_ascii());
    if cluster.vendor == Vendor::MySql {
        assert_eq!(asked(&cluster.addresses[0], &password)?[0], 0);
        assert_eq!(asked(&cluster.addresses[0], "wrong")?, denied);
    }
    Ok(())
}
