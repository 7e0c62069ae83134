//! A replica that has not got yet what the primary has, and servers that change between PREPARE and
//! EXECUTE.

use super::{chain, until_let_go, value};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Say, Scripted, Setup, Throwaway, Vendor, scripted::Heard, wait};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use wire::CommandCode;

on_both_vendors!(
    h44_a_statement_that_a_replica_cannot_prepare_yet,
    h51_a_schema_that_a_replica_has_not_got,
    h44_h51_behind_a_split,
    restarted_between_prepare_and_execute,
    h47_ddl_and_rights_between_prepare_and_execute,
);

const CLUSTER: &str = "[[cluster]]
name = 'c'
writer = 0
reader = 1
writer_is_also_reader = false

[monitor]
user = 'monitor'
password = 'monitorpw'
ping_interval = '50ms'
read_only_interval = '50ms'";

/// A chain for one server.
const ONE: &str = "[chain.main]
session = [{ use = 'parse' }, { use = 'session-commands' }, { use = 'route' }]
backend = [{ use = 'catch-up' }]";

const PREPARED: &str = "SELECT /* hg=1 */ a FROM n";

/// A cluster of two; its replica refuses what names `n` while `lags`.
struct Bed {
    primary: Scripted,
    replica: Scripted,
    lags: Arc<AtomicBool>,
    proxy: Proxy,
    cluster: Cluster,
}

fn usual(heard: &Heard, read_only: &str) -> Say {
    match heard.code {
        CommandCode::STMT_PREPARE => Say::Prepared(9, 0),
        CommandCode::QUERY if heard.text.contains("read_only") => Say::Row(read_only.into()),
        CommandCode::QUERY if heard.text.starts_with("SELECT") => Say::Row("as ever".into()),
        CommandCode::QUERY if heard.text == LAST => Say::Cut(
            wire::answer::Answer::new(wire::Capabilities::PROTOCOL_41, 1)
                .ok(&wire::OkPacket {
                    status: wire::Status::AUTOCOMMIT,
                    ..wire::OkPacket::default()
                })
                .finish()
                .to_vec(),
        ),
        _ => Say::Ok,
    }
}

/// The server closes behind it.
const LAST: &str = "DO /* hg=1 */ 0";

impl Bed {
    fn new(vendor: Vendor, refusal: u16) -> Result<Self> {
        let lags = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&lags);
        let primary = Scripted::start(vendor, |heard| usual(heard, "0"))?;
        let replica = Scripted::start(vendor, move |heard| {
            let names = heard.text == PREPARED || heard.text == "n";
            if names && shared.load(Relaxed) { Say::Err(refusal) } else { usual(heard, "1") }
        })?;
        let cluster = Scripted::cluster(vendor, &[&primary, &replica]);
        let proxy = Setup::of(&cluster).append(CLUSTER).append(&chain("")).start()?;
        let bed = Self { primary, replica, lags, proxy, cluster };
        let mut client = bed.connect()?;
        wait::until("the replica to be one", || {
            client.rows("SELECT /* hg=1 */ 'here'")?;
            Ok(bed
                .asked(&bed.replica)
                .contains(&"SELECT /* hg=1 */ 'here'".to_owned())
                .then_some(()))
        })?;
        client.quit()?;
        Ok(bed)
    }

    fn connect(&self) -> Result<Client> {
        self.proxy.connect(&self.cluster.admin())
    }

    /// What sessions have asked it.
    fn asked(&self, server: &Scripted) -> Vec<String> {
        let own = |text: &String| {
            let beginnings = ["SHOW", "SET NAMES"];
            let of_a_session = !beginnings.iter().any(|begins| text.starts_with(begins));
            of_a_session && !text.contains("read_only") && !text.is_empty()
        };
        server.texts().into_iter().filter(own).collect()
    }
}

fn h44_a_statement_that_a_replica_cannot_prepare_yet(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, 1146)?;
    let mut client = bed.connect()?;
    let statement = client.prepare(PREPARED)?;
    client.must(LAST)?;
    until_let_go(&bed.proxy)?;
    bed.lags.store(true, Relaxed);
    bed.asked(&bed.primary);
    bed.asked(&bed.replica);
    let executed = client.execute(&statement, 0, &[])?;
    ensure!(executed.error_code().is_none(), "{:?}", executed.error());
    let (there, here) = (bed.asked(&bed.replica), bed.asked(&bed.primary));
    ensure!(there == [PREPARED], "{there:?}, {here:?}");
    ensure!(here == [PREPARED, "COM_STMT_EXECUTE 9"], "{here:?}");
    // The replica goes on with everything else.
    client.rows("SELECT /* hg=1 */ 1")?;
    ensure!(bed.asked(&bed.replica) == ["SELECT /* hg=1 */ 1"]);
    // It is tried again after a while.
    bed.lags.store(false, Relaxed);
    wait::until("the replica to execute it", || {
        ensure!(client.execute(&statement, 0, &[])?.error_code().is_none());
        let asked = bed.asked(&bed.replica);
        ensure!(asked.is_empty() || asked == [PREPARED, "COM_STMT_EXECUTE 9"], "{asked:?}");
        Ok((!asked.is_empty()).then_some(()))
    })?;
    client.quit()
}

fn h51_a_schema_that_a_replica_has_not_got(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, 1049)?;
    let mut client = bed.connect()?;
    bed.lags.store(true, Relaxed);
    client.must("SET @a = 1")?;
    client.command(CommandCode::INIT_DB, b"n")?;
    bed.asked(&bed.primary);
    bed.asked(&bed.replica);
    let read = "SELECT /* hg=1 */ 1";
    client.rows(read)?;
    let asked = bed.asked(&bed.replica);
    let second = ["SET @a = 1", "n"].map(str::to_owned);
    ensure!(asked.ends_with(&second), "{asked:?}");
    ensure!(bed.asked(&bed.primary) == [read]);
    // For a while it is not asked again.
    client.rows(read)?;
    ensure!(bed.asked(&bed.primary) == [read]);
    ensure!(bed.asked(&bed.replica).is_empty());
    bed.lags.store(false, Relaxed);
    wait::until("the replica to be used", || {
        client.rows(read)?;
        Ok(bed.asked(&bed.replica).contains(&read.to_owned()).then_some(()))
    })?;
    client.quit()
}

/// Real replicas that lack a schema, behind a policy that names its two hostgroups itself.
fn h44_h51_behind_a_split(cluster: &Cluster) -> Result<()> {
    let name = format!("catch_up_only_{}", std::process::id());
    let mut admin = cluster.direct()?;
    admin.must("SET sql_log_bin = 0")?;
    admin.must(&format!("CREATE DATABASE {name}"))?;
    admin.must(&format!("CREATE TABLE {name}.t (a INT)"))?;
    let proxy = Setup::of(cluster).append(SPLIT).start()?;
    let checked = behind_a_split(&proxy, cluster, &name);
    admin.must(&format!("DROP DATABASE {name}"))?;
    checked
}

const SPLIT: &str = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'session-commands' },
  { use = 'route', policy = 'read-write-split', primary = 0, replicas = 1 },
]
backend = [{ use = 'catch-up' }]";

fn behind_a_split(proxy: &Proxy, cluster: &Cluster, name: &str) -> Result<()> {
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @a = 1")?;
    // The primary prepares it, in a transaction; behind that it is a read.
    client.must("BEGIN")?;
    let statement = client.prepare(&format!("SELECT COUNT(*) FROM {name}.t"))?;
    ensure!(statement.reply.error().is_none(), "PREPARE: {:?}", statement.reply.error());
    client.must("COMMIT")?;
    let executed = client.execute(&statement, 0, &[])?;
    ensure!(executed.error().is_none(), "EXECUTE: {:?}", executed.error());
    ensure!(value(&mut client, "SELECT @@server_id")? != "1", "replicas go on with all else");
    client.must("DO SLEEP(0)")?;
    client.must(&format!("USE {name}"))?;
    ensure!(value(&mut client, "SELECT COUNT(*) FROM t")? == "0");
    ensure!(value(&mut client, "SELECT @a + @@server_id")? == "2");
    client.quit()
}

fn restarted_between_prepare_and_execute(cluster: &Cluster) -> Result<()> {
    let server = Throwaway::start(cluster.vendor)?;
    let proxy = Setup::of(&server.cluster).append(ONE).start()?;
    let mut client = proxy.connect(&server.cluster.admin())?;
    client.must("SET @a = 'kept'")?;
    let text = "SELECT @a, 'restarted'";
    let statement = client.prepare(text)?;
    ensure!(client.execute(&statement, 0, &[])?.error_code().is_none());
    server.kill()?;
    server.start_again()?;
    let executed = client.execute(&statement, 0, &[])?;
    ensure!(executed.error_code().is_none(), "{:?}", executed.error());
    ensure!(executed.raw.windows(4).any(|window| window == b"kept"));
    ensure!(value(&mut client, "SELECT @a")? == "kept");
    client.quit()
}

fn h47_ddl_and_rights_between_prepare_and_execute(cluster: &Cluster) -> Result<()> {
    let server = Throwaway::start(cluster.vendor)?;
    let mut admin = server.cluster.direct()?;
    admin.must("CREATE TABLE app.t (a INT)")?;
    admin.must("CREATE USER c@'%' IDENTIFIED BY 'cpw'")?;
    admin.must("GRANT ALL ON app.* TO c@'%'")?;
    let proxy = Setup::of(&server.cluster).user("c", "cpw").append(ONE).start()?;
    let login = e2e::Login::new("c", "cpw");
    let mut client = proxy.connect(&login)?;
    let mut direct = Client::connect(&server.cluster.addresses[0], &login)?;
    let text = "SELECT * FROM app.t";
    let [proxied, own] = [client.prepare(text)?, direct.prepare(text)?];
    let mut same = |what: &str| {
        let proxied = client.execute(&proxied, 0, &[])?;
        let own = direct.execute(&own, 0, &[])?;
        ensure!(proxied.raw == own.raw, "{what}: {:?} and {:?}", proxied.error(), own.error());
        anyhow::Ok(proxied.error_code())
    };
    admin.must("ALTER TABLE app.t ADD b INT")?;
    ensure!(same("another column")?.is_none());
    admin.must("REVOKE ALL ON app.* FROM c@'%'")?;
    ensure!(same("no right")?.is_some());
    admin.must("GRANT ALL ON app.* TO c@'%'")?;
    ensure!(same("the right again")?.is_none());
    admin.must("DROP TABLE app.t")?;
    ensure!(same("no table")? == Some(1146));
    Ok(())
}
