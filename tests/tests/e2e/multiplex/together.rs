//! Shared connections together with all else that says where a session's commands go: what a session
//! has set it finds wherever it reads, and nobody else does.

use super::value;
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, wait};
use wire::CommandCode;

on_both_vendors!(what_one_has_set_the_other_does_not_see, what_ends_a_session_ends_all);

const PROPAGATE: [&str; 3] = ["lazy", "last-used", "eager"];
const MODES: [&str; 2] = ["defer", "predict"];

fn start(cluster: &Cluster, mode: &str, propagate: &str) -> Result<Proxy> {
    let chain = format!(
        "[chain.main]
multiplex = true
session = [
  {{ use = 'parse' }},
  {{ use = 'hints', allow = ['sticky_backend'] }},
  {{ use = 'sticky' }},
  {{ use = 'session-commands', mode = '{mode}', propagate = '{propagate}' }},
  {{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1 }},
]
backend = [{{ use = 'catch-up' }}]"
    );
    Setup::of(cluster).server("max_connections = 3").append(&chain).start()
}

/// A state of a session.
struct State {
    begin: &'static [&'static str],
    /// Asked by both sessions.
    ask: &'static str,
    /// What who has set it is told. The other one gets another answer, or an error.
    answer: &'static str,
    /// The session keeps its connection.
    pinned: bool,
    end: &'static [&'static str],
}

const STATES: [State; 9] = [
    State {
        begin: &["BEGIN", "INSERT INTO t VALUES (7)"],
        ask: "SELECT COUNT(*) FROM t",
        answer: "2",
        pinned: true,
        end: &["ROLLBACK"],
    },
    State {
        begin: &["SET autocommit = 0", "INSERT INTO t VALUES (8)"],
        ask: "SELECT COUNT(*) FROM t",
        answer: "2",
        pinned: true,
        end: &["ROLLBACK", "SET autocommit = 1"],
    },
    State {
        begin: &["START TRANSACTION READ ONLY", "SET @where = 3"],
        ask: "SELECT @where",
        answer: "3",
        pinned: true,
        end: &["COMMIT", "SET @where = NULL"],
    },
    State {
        begin: &["CREATE TEMPORARY TABLE scratch SELECT 5 AS n"],
        ask: "SELECT n FROM scratch",
        answer: "5",
        pinned: true,
        end: &["DROP TEMPORARY TABLE scratch"],
    },
    State {
        begin: &["LOCK TABLES t READ", "SET @locked = 4"],
        ask: "SELECT @locked + COUNT(*) FROM t",
        answer: "5",
        pinned: true,
        end: &["UNLOCK TABLES"],
    },
    State {
        begin: &["SET @mine = 6", "SET sql_mode = 'ANSI_QUOTES'"],
        ask: "SELECT CONCAT(@mine, @@sql_mode)",
        answer: "6ANSI_QUOTES",
        pinned: false,
        end: &["SET sql_mode = DEFAULT", "SET @mine = NULL"],
    },
    State {
        begin: &["SET ROLE e2e_together"],
        ask: "SELECT SUBSTRING_INDEX(REPLACE(CURRENT_ROLE(), '`', ''), '@', 1)",
        answer: "e2e_together",
        pinned: false,
        end: &["SET ROLE NONE"],
    },
    State {
        begin: &["PREPARE p FROM 'SELECT 9'"],
        ask: "EXECUTE p",
        answer: "9",
        pinned: false,
        end: &["DEALLOCATE PREPARE p"],
    },
    State {
        begin: &["SELECT /* sticky_backend=1 */ 1", "SET NAMES latin1"],
        ask: "SELECT @@character_set_client",
        answer: "latin1",
        pinned: false,
        end: &["SET NAMES utf8mb4"],
    },
];

/// The server's own number of the connection, and which server it is.
fn place(client: &mut Client) -> Result<String> {
    let found = value(client, "SELECT CONCAT(@@pseudo_thread_id, ' of ', @@port)")?;
    found.context("a place")
}

/// A schema with a table that all servers have, and a role.
fn prepare(cluster: &Cluster, schema: &str) -> Result<()> {
    let mut direct = cluster.direct()?;
    direct.must("CREATE ROLE IF NOT EXISTS e2e_together")?;
    direct.must("GRANT e2e_together TO admin")?;
    direct.must(&format!("CREATE TABLE {schema}.t (a INT)"))?;
    direct.must(&format!("INSERT INTO {schema}.t VALUES (1)"))?;
    for address in &cluster.addresses {
        let mut there = Client::connect(address, &cluster.admin())?;
        wait::until("the table and the role on each server", || {
            let rows = there.query(&format!("SELECT * FROM {schema}.t"))?;
            let role = there.query("SET ROLE e2e_together")?;
            Ok((rows.error().is_none() && role.error().is_none()).then_some(()))
        })?;
    }
    Ok(())
}

fn what_one_has_set_the_other_does_not_see(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    prepare(cluster, &schema.name)?;
    for (mode, propagate) in MODES.iter().flat_map(|mode| PROPAGATE.map(|how| (mode, how))) {
        let proxy = start(cluster, mode, propagate)?;
        let login = super::login(cluster, &schema.name);
        let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
        for State { begin, ask, answer, pinned, end } in STATES {
            let about = || format!("{mode}, {propagate}: {begin:?}");
            begin.iter().try_for_each(|sql| one.must(sql)).with_context(about)?;
            let here = if pinned { Some(place(&mut one)?) } else { None };
            for _ in 0..3 {
                let seen = other.query(ask)?;
                let rows = seen.error().is_none().then(|| seen.rows(other.capabilities));
                let seen = rows.transpose()?.into_iter().flatten().flatten().next().flatten();
                ensure!(seen.as_deref() != Some(answer), "{}: the other sees it", about());
                // On the primary.
                other.must("DO 1").with_context(about)?;
                let found = value(&mut one, ask).with_context(about)?;
                ensure!(found.as_deref() == Some(answer), "{}: {found:?}", about());
                let now = if pinned { Some(place(&mut one)?) } else { None };
                ensure!(here == now, "{}: {here:?}, then {now:?}", about());
            }
            end.iter().try_for_each(|sql| one.must(sql)).with_context(about)?;
        }
    }
    Ok(())
}

/// COM_RESET_CONNECTION and COM_CHANGE_USER.
fn what_ends_a_session_ends_all(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    prepare(cluster, &schema.name)?;
    for (mode, propagate) in MODES.iter().flat_map(|mode| PROPAGATE.map(|how| (mode, how))) {
        let proxy = start(cluster, mode, propagate)?;
        let login = super::login(cluster, &schema.name);
        let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
        for State { begin, ask, answer, .. } in STATES {
            for resets in [true, false] {
                let about = || format!("{mode}, {propagate}, {resets}: {begin:?}");
                begin.iter().try_for_each(|sql| one.must(sql)).with_context(about)?;
                if resets {
                    let reset = one.command(CommandCode::RESET_CONNECTION, b"")?;
                    ensure!(reset.error().is_none(), "{}: {:?}", about(), reset.error());
                } else {
                    one.change_user(&login).with_context(about)?;
                }
                for client in [&mut one, &mut other] {
                    let seen = client.query(ask)?;
                    let rows = seen.error().is_none().then(|| seen.rows(client.capabilities));
                    let seen = rows.transpose()?.into_iter().flatten().flatten().next().flatten();
                    // A reset leaves the roles on both vendors.
                    let stays = resets && ask.contains("CURRENT_ROLE");
                    ensure!(stays || seen.as_deref() != Some(answer), "{}: still there", about());
                    client.must("DELETE FROM t WHERE a > 1").with_context(about)?;
                }
            }
        }
    }
    Ok(())
}
