//! What a session has set, and what its statements have left, where reads and writes are split:
//! byte by byte as on a direct connection to the primary.

use super::{chain, table};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, Vendor};
use wire::CommandCode;

on_both_vendors!(
    warnings_are_those_of_the_last_statement,
    a_transaction_begins_where_the_variables_are,
    a_setting_for_the_next_transaction_waits_for_it,
    a_copy_of_what_was_found_once_stays_with_it,
    what_two_connections_have_is_not_mixed,
    a_full_log_keeps_its_session_on_the_primary,
    a_role_that_a_full_log_has_not_kept,
);

pub(super) struct Twins {
    pub(super) direct: Client,
    pub(super) proxied: Client,
    _proxy: Proxy,
}

impl Twins {
    pub(super) fn start(cluster: &Cluster, settings: &str) -> Result<Self> {
        let filters = chain("replicas = 1, balance = 'round-robin'");
        let filters =
            filters.replace("'session-commands' }", &format!("'session-commands'{settings} }}"));
        let proxy = Setup::of(cluster).append(&filters).start()?;
        let (direct, proxied) = (cluster.direct()?, proxy.connect(&cluster.admin())?);
        Ok(Self { direct, proxied, _proxy: proxy })
    }

    pub(super) fn same(&mut self, script: &[&str]) -> Result<()> {
        for text in script {
            let (direct, proxied) = (self.direct.query(text)?, self.proxied.query(text)?);
            let shown = |raw: &[u8]| String::from_utf8_lossy(raw).into_owned();
            let (direct, proxied) = (shown(&direct.raw), shown(&proxied.raw));
            ensure!(direct == proxied, "{text}:\n direct  {direct:?}\n proxied {proxied:?}");
        }
        Ok(())
    }
}

fn warnings_are_those_of_the_last_statement(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, "")?;
    for set in ["SET @a = 1", "SET NAMES utf8mb4", "PREPARE p FROM 'SELECT 1'"] {
        twins.same(&["SELECT CAST('zz' AS SIGNED)", set, "SHOW WARNINGS"])?;
        twins.same(&["SELECT CAST('zz' AS SIGNED)", set, "SELECT @@warning_count, ROW_COUNT()"])?;
        // a warning of the primary, then none of a replica
        twins.same(&[
            "DO CAST('yy' AS SIGNED)",
            "SELECT COUNT(*) FROM mysql.db",
            set,
            "SHOW WARNINGS",
        ])?;
        twins.same(&[
            "SELECT SQL_CALC_FOUND_ROWS 1 UNION SELECT 2 LIMIT 1",
            set,
            "SELECT FOUND_ROWS()",
        ])?;
    }
    twins.same(&["SELECT 1", "SET NAMES nosuch", "SHOW WARNINGS", "SHOW ERRORS"])
}

fn a_transaction_begins_where_the_variables_are(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, "")?;
    for client in [&mut twins.direct, &mut twins.proxied] {
        let set = client.prepare("SET @c = ?")?;
        let reply = client.execute(&set, 0, &[Some(b"3")])?;
        ensure!(reply.error().is_none());
    }
    let read = ["START TRANSACTION READ ONLY", "SELECT @a, @c", "COMMIT", "SELECT @c"];
    twins.same(&read)?;
    twins.same(&[
        "SELECT 7 INTO @d",
        "SET SESSION TRANSACTION READ ONLY",
        "BEGIN",
        "SELECT @d",
        "COMMIT",
    ])
}

fn a_setting_for_the_next_transaction_waits_for_it(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let mut twins = Twins::start(cluster, "")?;
    let count = format!("SELECT COUNT(*) FROM {table}");
    for between in ["SHOW WARNINGS", "SELECT 1", &count, "DO 1"] {
        twins.same(&["SET TRANSACTION READ ONLY", between, &count, "BEGIN", "COMMIT"])?;
    }
    twins.same(&["SET TRANSACTION READ ONLY", "BEGIN", "COMMIT", "BEGIN", "COMMIT"])
}

fn a_copy_of_what_was_found_once_stays_with_it(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, "")?;
    let same = "SELECT @once = @twice, @twice IS NULL, @three";
    twins.same(&["SET @once = UUID(), @twice = @once, @three = 3", same, same, same])?;
    twins.same(&["SET @once = UUID()", "SET @twice = @once", same, same, same])
}

fn what_two_connections_have_is_not_mixed(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let mut twins = Twins::start(cluster, "")?;
    let insert = format!("INSERT INTO {table} (at) VALUES (@b := 2)");
    for client in [&mut twins.direct, &mut twins.proxied] {
        client.must(&insert)?;
        client.must("SELECT 1")?;
    }
    let error = twins.proxied.query("SET @a = ROW_COUNT()")?.error().map(|it| it.to_string());
    ensure!(error.as_ref().is_some_and(|text| text.contains("9006")), "{error:?}");
    twins.same(&["SELECT @a, @b", "SELECT 5 INTO @a", "SELECT @a, @b"])
}

fn a_full_log_keeps_its_session_on_the_primary(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let table = table(cluster, &schema.name)?;
    let mut twins = Twins::start(cluster, ", max_entries = 3")?;
    twins.same(&[
        "SELECT 1",
        "SET @a = 1",
        "SET @b = 2",
        "SET @c = 3",
        "SELECT @a, @b, @c",
        "SET @d = 4",
    ])?;
    let insert = format!("INSERT INTO {table} (id, at) VALUES (1, @d)");
    for client in [&mut twins.direct, &mut twins.proxied] {
        client.must(&insert)?;
        let rows =
            client.rows(&format!("SELECT at, @a + @b + @c + @d, @@server_id FROM {table}"))?;
        ensure!(rows == [["4", "10", "1"].map(|value| Some(value.to_owned()))], "{rows:?}");
        client.must(&format!("DELETE FROM {table}"))?;
        client.command(CommandCode::RESET_CONNECTION, b"")?;
    }
    let charset = match cluster.vendor {
        // what a reset makes of it is compared elsewhere
        Vendor::MySql => "SELECT @a, @d",
        Vendor::MariaDb => "SELECT @a, @d, @@character_set_client",
    };
    twins.same(&[charset])?;
    let servers = super::servers(&mut twins.proxied, "SELECT @@server_id")?;
    ensure!(servers.iter().eq(["2", "3"]), "a reset ends it: {servers:?}");
    Ok(())
}

/// A reset ends what a full log ties, and leaves the role: nobody else can give it to a replica.
fn a_role_that_a_full_log_has_not_kept(cluster: &Cluster) -> Result<()> {
    let mut direct = cluster.direct()?;
    direct.must("CREATE ROLE IF NOT EXISTS e2e_full_log")?;
    direct.must("GRANT e2e_full_log TO admin")?;
    let mut twins = Twins::start(cluster, ", max_entries = 1")?;
    twins.same(&["SET @a = 1", "SET @b = 2", "SET ROLE e2e_full_log", "SELECT CURRENT_ROLE()"])?;
    for client in [&mut twins.direct, &mut twins.proxied] {
        client.command(CommandCode::RESET_CONNECTION, b"")?;
    }
    twins.same(&["SELECT CURRENT_ROLE(), @a, @b"; 3])?;
    // Now it is in the log.
    twins.same(&["SET ROLE NONE", "SELECT CURRENT_ROLE()"])?;
    direct.must("DROP ROLE e2e_full_log")
}
