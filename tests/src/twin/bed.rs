//! Servers, accounts and data for random sessions.

use super::{
    generator::Plan,
    script::Script,
    session::{Said, say},
    witness::{self, Line, Logs},
};
use crate::{Client, Login, Proxy, Setup, Throwaway, Vendor, wait};
use anyhow::{Context, Result};
use wire::Capabilities;

/// A primary with two replicas of one's own, a direct connection's twin.
#[derive(Debug)]
pub struct Bed {
    /// The servers.
    pub servers: Throwaway,
    /// What scripts log in with; see [`Plan`].
    pub logins: Vec<Login>,
    /// What COM_CHANGE_USER goes to.
    pub accounts: Vec<Login>,
    logs: Logs,
    /// The script that was said last.
    before: Option<Script>,
    /// One session as the account with all privileges, on the primary.
    admin: Client,
}

/// Logins from this one on may send several statements in one text.
const SEVERAL_FROM: usize = 3;

impl Bed {
    /// Starts the servers and gives them accounts and data.
    pub fn start(vendor: Vendor) -> Result<Self> {
        let servers = Throwaway::start_watched(vendor)?;
        let mut admin = servers.cluster.direct()?;
        for statement in DATA {
            admin.must(statement)?;
        }
        let (first, second) = (Login::new("twin_1", "one"), Login::new("twin_2", "two"));
        let trackers = Capabilities::SESSION_TRACK;
        let logins = vec![
            first.clone().schema("twin_a"),
            first.clone().schema("twin_a").with(trackers),
            first.clone().without(Capabilities::DEPRECATE_EOF),
            first.clone().with(trackers.union(Capabilities::MULTI_STATEMENTS)),
        ];
        debug_assert!(SEVERAL_FROM < logins.len());
        let accounts = vec![first.schema("twin_a"), second.clone().schema("twin_b"), second];
        for address in &servers.cluster.addresses {
            wait::until("replication", || {
                let Ok(mut client) = Client::connect(address, &accounts[1]) else {
                    return Ok(None);
                };
                let found = client.query("SELECT COUNT(*) FROM twin_a.last_made")?;
                Ok(found.error().is_none().then_some(()))
            })?;
        }
        let logs = Logs::new((1..=3).map(|node| servers.log_file(node)))?;
        Ok(Self { servers, logins, accounts, logs, before: None, admin })
    }

    /// What scripts for these servers are like.
    pub fn plan(&self, split: bool) -> Plan {
        Plan {
            vendor: self.servers.cluster.vendor,
            split,
            logins: self.logins.len(),
            several_from: SEVERAL_FROM,
            accounts: self.accounts.len(),
        }
    }

    /// A proxy with this chain.
    pub fn proxy(&self, chain: &str) -> Result<Proxy> {
        let setup = Setup::of(&self.servers.cluster).user("twin_1", "one").user("twin_2", "two");
        setup.append(chain).start()
    }

    /// Runs `script` directly and through `proxy`; what differs, for a person.
    ///
    /// # Errors
    /// The script could not begin.
    pub fn difference(&mut self, proxy: &Proxy, script: &Script) -> Result<Option<String>> {
        self.tidy(script)?;
        let direct = &self.servers.cluster.addresses[0];
        let (direct, _) = say(direct, &self.logins, &self.accounts, script).context("directly")?;
        let left = self.left(script)?;
        self.tidy(script)?;
        self.logs.take()?;
        let said = say(&proxy.address, &self.logins, &self.accounts, script);
        let (proxied, _) = said.context("through the proxy")?;
        let before = self.before.replace(script.clone());
        let lines = self.of_sessions()?;
        let left_there = self.left(script)?;
        if counts_into_variables(script)
            && let Some(at) = proxied.iter().position(Said::is_pinned_elsewhere)
        {
            // what follows it lacks what it would have done
            return Ok(compare(&direct[..at.min(direct.len())], &proxied[..at]));
        }
        if let Some(difference) = compare(&direct, &proxied) {
            return Ok(Some(difference));
        }
        if left != left_there {
            return Ok(Some(format!("rows directly {left:?}\n  proxied {left_there:?}")));
        }
        let wrong = witness::check(script, before.as_ref(), &lines).err();
        Ok(wrong.map(|error| error.to_string()))
    }

    /// What the servers' general logs say since this or a script was asked last.
    pub fn log(&mut self) -> Result<Vec<Line>> {
        self.logs.take()
    }

    /// [`Bed::log`], but for sessions of other accounts than the scripts'.
    pub fn of_sessions(&mut self) -> Result<Vec<Line>> {
        let mut lines = self.logs.take()?;
        lines.retain(|line| self.logs.is_ours(line));
        Ok(lines)
    }

    /// Waits until the servers are given nothing more.
    pub fn quiet(&mut self) -> Result<()> {
        wait::until("the servers to be left alone", || {
            wait::pause();
            Ok(self.of_sessions()?.is_empty().then_some(()))
        })
    }

    /// What the last session has left is gone, and its locks are free.
    fn tidy(&mut self, script: &Script) -> Result<()> {
        if script.mentions("_LOCK('twin'") {
            self.admin.must("SELECT GET_LOCK('twin', 20)")?;
            self.admin.must("SELECT RELEASE_LOCK('twin')")?;
        }
        if writes(script) {
            self.admin.must("TRUNCATE twin_a.w")?;
        }
        Ok(())
    }

    /// The rows that a script has committed.
    fn left(&mut self, script: &Script) -> Result<Vec<Vec<Option<String>>>> {
        if !writes(script) {
            return Ok(Vec::new());
        }
        // waits for the locks of a session that is ending
        self.admin.rows("SELECT id, HEX(v) FROM twin_a.w ORDER BY id FOR UPDATE")
    }
}

fn writes(script: &Script) -> bool {
    ["twin_a.w", "INTO w ", "`w`"].iter().any(|table| script.mentions(table))
}

/// What the last statement has left may be on another connection than the session's variables: a
/// statement that is about both is refused.
fn counts_into_variables(script: &Script) -> bool {
    script.mentions("= ROW_COUNT()") || script.mentions("= FOUND_ROWS()")
}

fn compare(direct: &[Said], proxied: &[Said]) -> Option<String> {
    let pairs = direct.iter().zip(proxied);
    for (direct, proxied) in pairs {
        if direct.bytes != proxied.bytes && !same_trackers(&direct.bytes, &proxied.bytes) {
            let same = direct.bytes.iter().zip(&proxied.bytes).take_while(|(a, b)| a == b).count();
            let around = |bytes: &[u8]| {
                let part = bytes.get(same.saturating_sub(60)..bytes.len().min(same + 80));
                part.unwrap_or_default().escape_ascii().to_string()
            };
            return Some(format!(
                "{} from byte {same} on\n  directly {}\n  proxied  {}",
                direct.step,
                around(&direct.bytes),
                around(&proxied.bytes)
            ));
        }
    }
    (direct.len() != proxied.len())
        .then(|| format!("{} steps directly, {} through the proxy", direct.len(), proxied.len()))
}

/// MariaDB tells of several changed variables in an order that depends on what its connection has
/// done before.
fn same_trackers(direct: &[u8], proxied: &[u8]) -> bool {
    let sorted = |bytes: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes.sort_unstable();
        bytes
    };
    let tells =
        |bytes: &[u8]| bytes.windows(14).filter(|part| part == b"character_set_").count() > 1;
    tells(direct) && tells(proxied) && sorted(direct) == sorted(proxied)
}

const DATA: &[&str] = &[
    "CREATE DATABASE twin_a CHARACTER SET utf8mb4",
    "CREATE DATABASE twin_b CHARACTER SET latin1",
    "CREATE DATABASE twin_c",
    "CREATE TABLE twin_a.fixed (id INT PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO twin_a.fixed VALUES (1,'one'),(2,'two'),(3,'three'),(4,'four'),(5,'five')",
    "CREATE TABLE twin_b.fixed (id INT PRIMARY KEY, name VARCHAR(20))",
    "INSERT INTO twin_b.fixed VALUES (1,'eins'),(2,'zwei'),(3,'drei')",
    "CREATE TABLE twin_a.w (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200))",
    "CREATE TABLE twin_c.secret (a INT)",
    "CREATE ROLE twin_r",
    "GRANT SELECT ON twin_c.* TO twin_r",
    "CREATE USER twin_1@'%' IDENTIFIED BY 'one'",
    "CREATE USER twin_2@'%' IDENTIFIED BY 'two'",
    "GRANT ALL ON twin_a.* TO twin_1@'%'",
    "GRANT ALL ON twin_b.* TO twin_1@'%'",
    "GRANT twin_r TO twin_1@'%'",
    "GRANT SELECT ON twin_a.* TO twin_2@'%'",
    "GRANT SELECT ON twin_b.* TO twin_2@'%'",
    "CREATE TABLE twin_a.last_made (a INT)",
];
