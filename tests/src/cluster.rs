//! The servers that the tests talk to.

use crate::{
    client::{Client, Login},
    skip,
};
use anyhow::{Context, Result, bail};
use std::{
    collections::HashMap,
    fmt,
    path::{Path, PathBuf},
};

/// Whose server it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vendor {
    /// MariaDB, as Debian packages it.
    MariaDb,
    /// MySQL 9.x.
    MySql,
}

impl fmt::Display for Vendor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
        })
    }
}

/// PEM files of a cluster: its authority, and a certificate for clients.
#[derive(Clone, Debug)]
pub struct Certificates {
    /// The authority that signed both.
    pub ca: PathBuf,
    /// The client's certificate.
    pub certificate: PathBuf,
    /// The client's key.
    pub key: PathBuf,
}

impl Certificates {
    /// The server's certificate and key, made beside the client's, for `localhost` and `127.0.0.1`.
    pub fn of_server(&self) -> (PathBuf, PathBuf) {
        (self.ca.with_file_name("server-cert.pem"), self.ca.with_file_name("server-key.pem"))
    }
}

/// A primary and its replicas, up and replicating.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// Whose servers.
    pub vendor: Vendor,
    /// What `SELECT VERSION()` gives.
    pub version: String,
    /// `host:port` of the primary, then of the replicas.
    pub addresses: Vec<String>,
    /// Unix sockets in the same order.
    pub sockets: Vec<PathBuf>,
    /// TLS files.
    pub certificates: Certificates,
    /// Accounts: name and password.
    pub users: Vec<(String, String)>,
}

impl Cluster {
    /// The cluster of `vendor`; `None`, after a report that the current test is left out, where it
    /// has never been started.
    ///
    /// # Errors
    /// It has been started and does not answer.
    pub fn find(vendor: Vendor) -> Result<Option<Self>> {
        let file = cache().join(vendor.to_string()).join("env");
        if !file.exists() {
            skip::report(&format!("there is no {vendor} cluster; ./tests/run starts it"));
            return Ok(None);
        }
        let cluster = Self::read(&file)?;
        let client = cluster.direct().with_context(|| format!("the {vendor} cluster"))?;
        client.quit()?;
        Ok(Some(cluster))
    }

    /// Reads the `env` file that the cluster scripts write: shell assignments, several a line.
    pub fn read(file: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let values = assignments(&text);
        let get = |name: &str| {
            values.get(name).cloned().with_context(|| format!("{}: no {name}", file.display()))
        };
        let vendor = match get("KIND")?.as_str() {
            "mariadb" => Vendor::MariaDb,
            "mysql" => Vendor::MySql,
            other => bail!("{}: KIND={other}", file.display()),
        };
        let nodes: Vec<String> = (1..=9)
            .map(|node| node.to_string())
            .filter(|node| values.contains_key(&format!("PORT{node}")))
            .collect();
        let host = get("HOST")?;
        let users = get("USERS")?
            .split_whitespace()
            .filter_map(|pair| pair.split_once(':'))
            .map(|(name, password)| (name.to_owned(), password.to_owned()))
            .collect();
        Ok(Self {
            vendor,
            version: get("VERSION")?,
            addresses: nodes
                .iter()
                .map(|node| Ok(format!("{host}:{}", get(&format!("PORT{node}"))?)))
                .collect::<Result<_>>()?,
            sockets: nodes
                .iter()
                .map(|node| Ok(get(&format!("SOCKET{node}"))?.into()))
                .collect::<Result<_>>()?,
            certificates: Certificates {
                ca: get("TLS_CA")?.into(),
                certificate: get("TLS_CERT")?.into(),
                key: get("TLS_KEY")?.into(),
            },
            users,
        })
    }

    /// The account with all privileges.
    pub fn admin(&self) -> Login {
        self.login("admin")
    }

    /// The account `name` of this cluster.
    ///
    /// # Panics
    /// When the cluster has no such account.
    pub fn login(&self, name: &str) -> Login {
        let Some((_, password)) = self.users.iter().find(|(user, _)| user == name) else {
            panic!("the {} cluster has no account {name}", self.vendor)
        };
        Login::new(name, password)
    }

    /// A connection to the primary as the account with all privileges.
    pub fn direct(&self) -> Result<Client> {
        Client::connect(&self.addresses[0], &self.admin())
    }

    /// One value that the primary answers with.
    pub fn ask(&self, sql: &str) -> Result<String> {
        let mut client = self.direct()?;
        let rows = client.rows(sql)?;
        client.quit()?;
        Ok(rows.into_iter().flatten().next().context("no row")?.unwrap_or_default())
    }

    /// An empty schema of the current test's own, which the replicas have too.
    pub fn schema(&self) -> Result<Schema> {
        let mut name = String::from("e2e_");
        name.extend(skip::test_name().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }));
        name.truncate(64); // the longest name of a schema
        let schema = Schema { name, cluster: self.clone() };
        schema.clear()?;
        self.replicate()?;
        Ok(schema)
    }

    /// Returns once the replicas have what the primary has written so far; those that a test has
    /// stopped are waited for 10 s.
    fn replicate(&self) -> Result<()> {
        let (position, wait) = match self.vendor {
            Vendor::MariaDb => ("SELECT @@gtid_binlog_pos", "MASTER_GTID_WAIT"),
            Vendor::MySql => ("SELECT @@gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET"),
        };
        let written = self.ask(position)?;
        for address in &self.addresses[1..] {
            let mut replica = Client::connect(address, &self.admin())?;
            replica.rows(&format!("SELECT {wait}('{written}', 10)"))?;
            replica.quit()?;
        }
        Ok(())
    }
}

/// A schema that exists as long as this value.
#[derive(Debug)]
pub struct Schema {
    /// Its name, made from the test's.
    pub name: String,
    cluster: Cluster,
}

impl Schema {
    /// Empties it.
    pub fn clear(&self) -> Result<()> {
        let mut client = self.cluster.direct()?;
        client.must(&format!("DROP DATABASE IF EXISTS {}", self.name))?;
        client.must(&format!("CREATE DATABASE {} CHARACTER SET utf8mb4", self.name))?;
        client.quit()
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        if let Ok(mut client) = self.cluster.direct() {
            // a lock that a failed test left must not hold the others up
            let _ = client.must("SET lock_wait_timeout = 2");
            let _ = client.must(&format!("DROP DATABASE IF EXISTS {}", self.name));
        }
    }
}

/// Where servers and programs are kept between runs.
pub fn cache() -> PathBuf {
    if let Some(folder) = std::env::var_os("TOWPATH_TEST_CACHE") {
        return folder.into();
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| std::env::home_dir().map(|home| home.join(".cache")));
    cache.unwrap_or_else(std::env::temp_dir).join("towpath")
}

/// `NAME=value` and `NAME='value with blanks'`, separated by white space.
fn assignments(text: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut rest = text.trim_start();
    while let Some((name, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').unwrap_or((quoted, "")),
            None => after.split_at(after.find(char::is_whitespace).unwrap_or(after.len())),
        };
        found.insert(name.to_owned(), value.to_owned());
        rest = after.trim_start();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::assignments;

    #[test]
    fn assignments_are_read_as_the_shell_reads_them() {
        let found =
            assignments("KIND=mariadb\nVERSION='10.11 x'\nA=1 B=/b/c.pem\nUSERS='a:b c:'\n");
        assert_eq!(found.len(), 5);
        assert_eq!(found["VERSION"], "10.11 x");
        assert_eq!(found["B"], "/b/c.pem");
        assert_eq!(found["USERS"], "a:b c:");
    }
}
