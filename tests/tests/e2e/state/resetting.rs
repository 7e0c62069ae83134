//! COM_RESET_CONNECTION: what it leaves, and what connections are like that are opened behind it.

use super::{Twins, replicated, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Vendor, wait};
use wire::CommandCode;

on_both_vendors!(
    h67_statements_are_gone_everywhere,
    h68_a_connection_that_is_opened_behind_a_reset,
    h56_h67_h89_what_a_reset_does_not_undo,
);

/// A role that the tests' account may have, on all servers, until it is dropped.
pub(crate) struct Role {
    pub(crate) name: String,
    admin: Client,
}

impl Role {
    pub(crate) fn new(cluster: &Cluster, what: &str) -> Result<Self> {
        let name = format!("state_{what}_{}", std::process::id());
        let mut admin = cluster.direct()?;
        admin.must(&format!("DROP ROLE IF EXISTS {name}"))?;
        admin.must(&format!("CREATE ROLE {name}"))?;
        admin.must(&format!("GRANT {name} TO {}", cluster.admin().user))?;
        let role = Self { name, admin };
        for address in &cluster.addresses {
            let mut client = Client::connect(address, &cluster.admin())?;
            let set = format!("SET ROLE {}", role.name);
            wait::until("the role", || Ok(client.query(&set)?.error().is_none().then_some(())))?;
        }
        Ok(role)
    }

    /// Whether it is the one that is active. MySQL says its host too.
    pub(crate) fn is(&self, active: Option<String>) -> bool {
        active.is_some_and(|active| active.contains(&self.name))
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // The next run drops it.
        let _ = self.admin.query(&format!("DROP ROLE {}", self.name));
    }
}

impl Twins {
    /// A command to both; every byte of the replies is the same.
    fn command(&mut self, code: CommandCode, body: &[u8]) -> Result<()> {
        let [direct, proxied] =
            [&mut self.direct, &mut self.proxied].map(|client| client.command(code, body));
        let (direct, proxied) = (direct?, proxied?);
        ensure!(direct.raw == proxied.raw, "{}: {:?} {:?}", code.name(), direct.raw, proxied.raw);
        Ok(())
    }
}

fn h67_statements_are_gone_everywhere(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    let texts = ["SELECT ?", "SELECT /* hg=1 */ ?", "SELECT /* hg=1 */ ? + 1"];
    let mut statements = Vec::new();
    for text in texts {
        let statement = twins.proxied.prepare(text)?;
        ensure!(twins.proxied.execute(&statement, 0, &[Some(b"1")])?.error().is_none());
        statements.push(statement);
    }
    twins.same(&["PREPARE p FROM 'SELECT 1'", "EXECUTE /* hg=1 */ p"])?;
    twins.command(CommandCode::RESET_CONNECTION, b"")?;
    for statement in &statements {
        let gone = twins.proxied.execute(statement, 0, &[Some(b"1")])?;
        ensure!(gone.error_code() == Some(1243), "{:?}", gone.error());
    }
    twins.same(&["EXECUTE p", "EXECUTE /* hg=1 */ p"])
}

/// Of each charset that a client may have logged in with: MySQL falls back to its own, MariaDB to that.
fn h68_a_connection_that_is_opened_behind_a_reset(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    replicated(cluster, &table, 0)?;
    let (latin1, utf8mb4) = (8, 45);
    for collation in [latin1, utf8mb4] {
        let mut login = cluster.admin();
        login.collation = collation;
        let mut twins = Twins::start(cluster, &login)?;
        twins.same(&["SET NAMES greek", "SET @a = 1", &format!("USE {}", schema.name)])?;
        twins.command(CommandCode::RESET_CONNECTION, b"")?;
        let look = "DATABASE(), @a, @@character_set_client, @@character_set_results, \
                    @@collation_connection, 'text'";
        // No replica was needed until now.
        twins.same(&[&format!("SELECT /* hg=1 */ {look}"), &format!("SELECT {look}")])?;
        twins.same(&["SET @a = 2", &format!("SELECT /* hg=1 */ {look}")])?;
        if cluster.vendor == Vendor::MySql {
            let charset = value(&mut twins.proxied, "SELECT /* hg=1 */ @@character_set_client")?;
            ensure!(charset == "utf8mb4", "{charset}");
        }
    }
    Ok(())
}

/// Roles and the option of COM_SET_OPTION stay as they are.
fn h56_h67_h89_what_a_reset_does_not_undo(cluster: &Cluster) -> Result<()> {
    let role = Role::new(cluster, "reset")?;
    for opened_before in [true, false] {
        let mut twins = Twins::start(cluster, &cluster.admin())?;
        if opened_before {
            twins.same(&["SELECT /* hg=1 */ 1"])?;
        }
        twins.same(&[&format!("SET ROLE {}", role.name), "SET @a = 1"])?;
        twins.command(CommandCode::SET_OPTION, &[0, 0])?;
        for _ in 0..2 {
            twins.command(CommandCode::RESET_CONNECTION, b"")?;
            for comment in ["/* hg=1 */", ""] {
                twins.same(&[
                    &format!("SELECT {comment} CURRENT_ROLE(), @a"),
                    &format!("SELECT {comment} 1; SELECT 2"),
                ])?;
            }
        }
        let active = value(&mut twins.proxied, "SELECT /* hg=1 */ CURRENT_ROLE()")?;
        ensure!(role.is(Some(active)));
        twins.same(&["SET ROLE NONE"])?;
        twins.command(CommandCode::SET_OPTION, &[1, 0])?;
        twins.command(CommandCode::RESET_CONNECTION, b"")?;
        twins.same(&["SELECT /* hg=1 */ CURRENT_ROLE()", "SELECT /* hg=1 */ 1; SELECT 2"])?;
    }
    Ok(())
}
