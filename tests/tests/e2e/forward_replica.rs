//! A replica whose source is the proxy: it asks its questions through the chain, and its binary log
//! is forwarded.

use crate::forward::count;
use anyhow::{Context, Result};
use e2e::{Client, Proxy, Setup, Throwaway, Vendor, wait};

mod mariadb {
    #[test]
    fn a_replica_follows_through_the_proxy() -> anyhow::Result<()> {
        super::a_replica_follows_through_the_proxy(e2e::Vendor::MariaDb)
    }
}
mod mysql {
    #[test]
    fn a_replica_follows_through_the_proxy() -> anyhow::Result<()> {
        super::a_replica_follows_through_the_proxy(e2e::Vendor::MySql)
    }
}

/// With state that stays on its connection, and with state in a log.
const CHAINS: [&str; 2] = [
    "[chain.main]\nsession = [{ use = \"parse\" }, { use = \"fast-forward\", observe = true }, { use = \"route\" }]\n",
    "[chain.main]\nsession = [{ use = \"parse\" }, { use = \"session-commands\" }, \
     { use = \"fast-forward\", observe = true }, { use = \"route\" }]\nbackend = [{ use = \"catch-up\" }]\n",
];

/// Where a replica begins.
#[derive(Clone, Copy, Debug)]
enum From {
    Gtid,
    Position,
}

fn a_replica_follows_through_the_proxy(vendor: Vendor) -> Result<()> {
    let source = Throwaway::start(vendor)?;
    let replica = Throwaway::start_with(vendor, "server-id=7")?;
    let mut primary = source.cluster.direct()?;
    let mut copy = replica.cluster.direct()?;
    begin_where_it_is(vendor, &mut primary, &mut copy)?;
    primary.must("CREATE TABLE app.followed (a INT PRIMARY KEY, b LONGTEXT)")?;
    let mut rows = 0;
    for (chain, tls) in CHAINS.iter().zip([false, true]) {
        let proxy = Setup::of(&source.cluster).append(chain).start()?;
        for from in [From::Gtid, From::Position] {
            follow(vendor, &mut primary, &mut copy, &proxy, from, tls)?;
            for restart in ["", "STOP {} IO_THREAD", "STOP {}"] {
                if !restart.is_empty() {
                    control(vendor, &mut copy, restart)?;
                    control(vendor, &mut copy, "START {}")?;
                }
                rows += 1;
                // More than a packet of the log has, now and then.
                let size = if rows % 3 == 0 { 3 << 20 } else { 9 };
                let insert =
                    format!("INSERT INTO app.followed VALUES ({rows}, REPEAT('b', {size}))");
                primary.must(&insert)?;
                arrived(vendor, &mut copy, rows)
                    .with_context(|| format!("{from:?}, {restart:?}, {chain}{}", proxy.log()))?;
            }
            control(vendor, &mut copy, "STOP {}")?;
        }
        let binlog = "towpath_fast_forward_total{chain=\"main\",cause=\"binlog\"}";
        let left = count(&proxy, binlog)?;
        anyhow::ensure!(left >= 6, "{left} sessions left for a binary log");
        let lost = count(&proxy, "towpath_observed_stopped_total")?;
        anyhow::ensure!(lost == 0, "the observer was lost {lost} times");
    }
    Ok(())
}

/// Nothing of what the source has done so far is for the replica, which has done the same.
fn begin_where_it_is(vendor: Vendor, primary: &mut Client, copy: &mut Client) -> Result<()> {
    match vendor {
        Vendor::MariaDb => {
            let position = value(primary, "SELECT @@gtid_binlog_pos")?;
            copy.must("RESET MASTER")?;
            copy.must(&format!("SET GLOBAL gtid_slave_pos = '{position}'"))
        }
        Vendor::MySql => {
            let executed = value(primary, "SELECT @@global.gtid_executed")?.replace('\n', "");
            copy.must("RESET BINARY LOGS AND GTIDS")?;
            copy.must(&format!("SET GLOBAL gtid_purged = '{executed}'"))
        }
    }
}

fn value(client: &mut Client, sql: &str) -> Result<String> {
    let value = client.rows(sql)?.into_iter().flatten().next().flatten();
    value.with_context(|| format!("no value of {sql}"))
}

/// Makes the proxy the replica's source, from where the source is now.
fn follow(
    vendor: Vendor,
    primary: &mut Client,
    copy: &mut Client,
    proxy: &Proxy,
    from: From,
    tls: bool,
) -> Result<()> {
    let (host, port) = proxy.host_and_port();
    let tls = u8::from(tls);
    let status = match vendor {
        Vendor::MariaDb => "SHOW MASTER STATUS",
        Vendor::MySql => "SHOW BINARY LOG STATUS",
    };
    let at = primary.rows(status)?.into_iter().next().context("no binary log")?;
    let [file, position] = [0, 1].map(|column| at[column].clone().unwrap_or_default());
    let (change, start) = match vendor {
        Vendor::MariaDb => {
            let from = match from {
                From::Gtid => "MASTER_USE_GTID = slave_pos".to_owned(),
                From::Position => format!(
                    "MASTER_USE_GTID = no, MASTER_LOG_FILE = '{file}', MASTER_LOG_POS = {position}"
                ),
            };
            let change = format!(
                "CHANGE MASTER TO MASTER_HOST = '{host}', MASTER_PORT = {port}, MASTER_USER = 'repl', \
                 MASTER_PASSWORD = 'replpw', MASTER_CONNECT_RETRY = 1, MASTER_SSL = {tls}, \
                 MASTER_SSL_VERIFY_SERVER_CERT = 0, {from}"
            );
            (change, "START SLAVE")
        }
        Vendor::MySql => {
            let from = match from {
                From::Gtid => "SOURCE_AUTO_POSITION = 1".to_owned(),
                From::Position => format!(
                    "SOURCE_AUTO_POSITION = 0, SOURCE_LOG_FILE = '{file}', SOURCE_LOG_POS = {position}"
                ),
            };
            let change = format!(
                "CHANGE REPLICATION SOURCE TO SOURCE_HOST = '{host}', SOURCE_PORT = {port}, \
                 SOURCE_USER = 'repl', SOURCE_PASSWORD = 'replpw', SOURCE_CONNECT_RETRY = 1, \
                 SOURCE_SSL = {tls}, GET_SOURCE_PUBLIC_KEY = 1, {from}"
            );
            (change, "START REPLICA")
        }
    };
    copy.must(&change)?;
    copy.must(start)
}

/// A statement about the replica's threads, `{}` in place of the vendor's word for it.
fn control(vendor: Vendor, copy: &mut Client, statement: &str) -> Result<()> {
    let word = if vendor == Vendor::MariaDb { "SLAVE" } else { "REPLICA" };
    copy.must(&statement.replace("{}", word))
}

/// Waits until the replica has so many rows.
fn arrived(vendor: Vendor, copy: &mut Client, rows: u32) -> Result<()> {
    let come = wait::until("the rows", || {
        let there = copy.rows("SELECT COUNT(*) FROM app.followed");
        // The table is on its way as well.
        let there = there.ok().and_then(|rows| rows.into_iter().flatten().next().flatten());
        Ok((there == Some(rows.to_string())).then_some(()))
    });
    if come.is_err() {
        let word = if vendor == Vendor::MariaDb { "SLAVE" } else { "REPLICA" };
        let status = copy.rows(&format!("SHOW {word} STATUS"))?;
        let told = status.into_iter().flatten().flatten().filter(|value| value.contains(' '));
        return come.with_context(|| told.collect::<Vec<_>>().join("; "));
    }
    Ok(())
}
