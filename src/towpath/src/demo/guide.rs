//! What a running demo tells: who is where, how to connect, what to try.

use super::cluster::{Accounts, SERVERS};
use super::ports::Ports;
use std::path::Path;

/// The topology, the connect line, three things to try.
pub(super) fn text(ports: &Ports, accounts: &Accounts, dir: &Path) -> String {
    let connect = |user: &str, password: &str| {
        format!("mariadb -h 127.0.0.1 -P {} -u {user} -p{password} app", ports.proxy)
    };
    let (writer, reader) =
        (connect("app_writer", &accounts.writer), connect("app_reader", &accounts.reader));
    let [primary, replica1, replica2] = SERVERS.map(|(number, name)| {
        let (hostgroup, user) = if number == 1 { (0, "writer") } else { (1, "reader") };
        let port = ports.server(number);
        format!("{name:<8}  127.0.0.1:{port}   hostgroup {hostgroup}: app_{user}")
    });
    let proxy = format!("clients --> Towpath 127.0.0.1:{}", ports.proxy);
    let indent = " ".repeat(proxy.len());
    format!(
        "
  {proxy} -+-> {primary}
  {indent}  +-> {replica1}
  {indent}  +-> {replica2}

Connect with the mariadb or mysql client:
  {writer}

Three things to try, each in another terminal:
  1. Who answers? Run it twice: each session of app_reader has one of the replicas.
     {reader} -e 'SELECT @@server_id, @@read_only'
  2. Write through one account, read through the other:
     {writer} -e \"INSERT INTO boats (name) VALUES ('Osprey')\"
     {reader} -e 'SELECT * FROM boats'
  3. Watch which server runs what while you do so, and what the proxy says of itself:
     tail -f {dir}/n?/data/general.log {dir}/towpath.log
     curl -s http://127.0.0.1:{admin}/status

Ctrl-C stops and removes all of it.",
        dir = dir.display(),
        admin = ports.admin,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_one_needs_is_there() {
        let ports = Ports { proxy: 6033, admin: 20_003, primary: 20_000 };
        let accounts = Accounts { writer: "w1".to_owned(), reader: "r1".to_owned() };
        let text = text(&ports, &accounts, Path::new("/d"));
        for part in [
            "clients --> Towpath 127.0.0.1:6033 -+-> primary   127.0.0.1:20000   hostgroup 0",
            "+-> replica1  127.0.0.1:20001   hostgroup 1: app_reader",
            "+-> replica2  127.0.0.1:20002",
            "mariadb -h 127.0.0.1 -P 6033 -u app_writer -pw1 app",
            "mariadb -h 127.0.0.1 -P 6033 -u app_reader -pr1 app -e",
            "http://127.0.0.1:20003/status",
            "/d/n?/data/general.log",
            "Ctrl-C",
        ] {
            assert!(text.contains(part), "{part:?} is not in:\n{text}");
        }
    }
}
