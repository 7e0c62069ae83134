//! A server that answers otherwise than the first one did.

use super::chain;
use anyhow::{Result, ensure};
use e2e::{
    Client, Cluster, Proxy, Say, Scripted, Setup, Vendor, client::Statement, scripted::Heard, wait,
};
use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed},
    mpsc,
};
use wire::CommandCode;

on_both_vendors!(
    h3_a_write_waits_for_what_is_missing,
    h1_a_read_does_not_and_is_held_back,
    h5_h6_h50_a_write_is_not_sent_behind_what_fails,
    h6_the_second_time_one_by_one,
    h75_nobody_is_handed_over_behind_what_fails,
    h77_a_kill_in_the_midst,
    v7_another_number_of_parameters,
    v8_a_connection_that_is_lost,
    h42_who_has_not_got_it_is_not_asked_to_close_it,
    h48_a_refusal_is_the_statement_s_own,
);

/// A primary that does everything, and a replica that does what the script says.
struct Bed {
    primary: Scripted,
    replica: Scripted,
    proxy: Proxy,
    /// The replica's connections that sessions have used.
    known: Mutex<Vec<u32>>,
}

/// Statements and OK; a row where one is due.
fn usual(heard: &Heard) -> Say {
    match heard.code {
        CommandCode::STMT_PREPARE => Say::Prepared(7, 1),
        CommandCode::QUERY if heard.text.starts_with("SELECT") => Say::Row("as ever".into()),
        _ => Say::Ok,
    }
}

impl Bed {
    fn new(vendor: Vendor, script: impl Fn(&Heard) -> Say + Send + Sync + 'static) -> Result<Self> {
        Self::with(vendor, &chain(""), script)
    }

    fn with(
        vendor: Vendor,
        chain: &str,
        script: impl Fn(&Heard) -> Say + Send + Sync + 'static,
    ) -> Result<Self> {
        let primary = Scripted::start(vendor, usual)?;
        let replica = Scripted::start(vendor, script)?;
        let cluster = Scripted::cluster(vendor, &[&primary, &replica]);
        let proxy = Setup::of(&cluster).append(chain).start()?;
        Ok(Self { primary, replica, proxy, known: Mutex::default() })
    }

    fn connect(&self) -> Result<Client> {
        let login = Scripted::cluster(Vendor::MySql, &[&self.primary]).admin();
        self.proxy.connect(&login)
    }

    /// What sessions have asked the replica, and on which of their connections there: counted from 1.
    fn asked(&self) -> Vec<(u32, String)> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut asked = Vec::new();
        for heard in self.replica.take() {
            // The proxy ends what it has given up by a KILL over a connection of its own.
            if heard.code == CommandCode::PING || heard.text.starts_with("KILL") {
                continue;
            }
            if !known.contains(&heard.connection) {
                known.push(heard.connection);
            }
            let number = known.iter().position(|it| *it == heard.connection).unwrap_or_default();
            asked.push((number as u32 + 1, heard.text));
        }
        asked
    }
}

fn asked(wanted: &[(u32, &str)]) -> Vec<(u32, String)> {
    wanted.iter().map(|(connection, text)| (*connection, (*text).to_owned())).collect()
}

const WRITE: &str = "INSERT /* hg=1 */ INTO t VALUES (1)";
const READ: &str = "SELECT /* hg=1 */ 1";

fn h3_a_write_waits_for_what_is_missing(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, usual)?;
    let mut client = bed.connect()?;
    client.must("SET @a = 1")?;
    client.must("SET @b = @a")?;
    client.must(WRITE)?;
    ensure!(bed.asked() == asked(&[(1, "SET @a = 1"), (1, "SET @b = @a"), (1, WRITE)]));
    client.must(WRITE)?;
    client.rows(READ)?;
    ensure!(bed.asked() == asked(&[(1, WRITE), (1, READ)]));
    client.quit()
}

/// Refuses what sets `@a`, so many times. A read says how often it had done so.
fn refuses_first(times: u32) -> impl Fn(&Heard) -> Say {
    let met = AtomicU32::new(0);
    move |heard| match heard.text.as_str() {
        "SET @a = 1" if met.fetch_add(1, Relaxed) < times => Say::Err(1231),
        text if text == READ => Say::Row(format!("of {}", met.load(Relaxed))),
        _ => usual(heard),
    }
}

fn h1_a_read_does_not_and_is_held_back(cluster: &Cluster) -> Result<()> {
    for piped in [true, false] {
        let chain = chain(if piped { "" } else { ", pipeline_reads = false" });
        let bed = Bed::with(cluster.vendor, &chain, refuses_first(1))?;
        let mut client = bed.connect()?;
        client.must("SET @a = 1")?;
        // What the first connection said to it is for nobody.
        let rows = client.rows(READ)?;
        ensure!(rows == [[Some("of 2".to_owned())]], "{rows:?}");
        let mut all = vec![(1, "SET @a = 1"), (1, READ), (2, "SET @a = 1"), (2, READ)];
        if !piped {
            all.remove(1);
        }
        let seen = bed.asked();
        // The connection that failed is closed, not reset.
        ensure!(seen == asked(&all), "{piped}: {seen:?}");
        client.quit()?;
    }
    Ok(())
}

fn h5_h6_h50_a_write_is_not_sent_behind_what_fails(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, refuses_first(u32::MAX))?;
    for command in [WRITE, READ] {
        let mut client = bed.connect()?;
        client.must("SET @a = 1")?;
        let reply = client.query(command)?;
        let error = reply.error().map(|error| error.to_string()).unwrap_or_default();
        let wanted = "ERR 1231 (HY000): deferred session command failed: as it is written";
        ensure!(error == wanted, "{command}: {error}");
        // Going on would be in another state than the client was told.
        ensure!(client.query("SELECT 1").is_err(), "{command}: the session goes on");
    }
    let seen = bed.asked();
    ensure!(seen.iter().all(|(_, text)| text != WRITE), "{seen:?}");
    Ok(())
}

fn h6_the_second_time_one_by_one(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, refuses_first(u32::MAX))?;
    let mut client = bed.connect()?;
    client.must("SET @a = 1")?;
    client.must("SET @b = 1")?;
    ensure!(client.query(WRITE)?.error_code() == Some(1231));
    let seen = bed.asked();
    ensure!(seen == asked(&[(1, "SET @a = 1"), (1, "SET @b = 1"), (2, "SET @a = 1")]), "{seen:?}");
    Ok(())
}

fn h75_nobody_is_handed_over_behind_what_fails(cluster: &Cluster) -> Result<()> {
    let chain = "[chain.main]
session = [
  { use = 'parse' },
  { use = 'rules', rules = [
    { rule_id = 1, match_pattern = 'hg=1', destination_hostgroup = 1,
      attributes = { switch_to_fast_forward = true }, apply = true },
  ] },
  { use = 'session-commands' },
  { use = 'fast-forward' },
  { use = 'route' },
]
backend = [{ use = 'catch-up' }]";
    let begin = "BEGIN /* hg=1 */";
    // H74: where nothing fails it goes over once, behind what was missing.
    let bed = Bed::with(cluster.vendor, chain, usual)?;
    let mut client = bed.connect()?;
    client.must("SET @a = 1")?;
    client.must(begin)?;
    client.must("DO 1")?;
    ensure!(bed.asked() == asked(&[(1, "SET @a = 1"), (1, begin), (1, "DO 1")]));
    client.quit()?;
    let bed = Bed::with(cluster.vendor, chain, refuses_first(u32::MAX))?;
    let mut client = bed.connect()?;
    client.must("SET @a = 1")?;
    ensure!(client.query(begin)?.error_code() == Some(1231));
    ensure!(client.query("SELECT 1").is_err());
    ensure!(bed.asked() == asked(&[(1, "SET @a = 1"), (2, "SET @a = 1")]));
    Ok(())
}

fn h77_a_kill_in_the_midst(cluster: &Cluster) -> Result<()> {
    for command in [WRITE, READ] {
        let (killed, kill) = mpsc::channel();
        let kill = Mutex::new(kill);
        let met = AtomicU32::new(0);
        let bed = Bed::new(cluster.vendor, move |heard| match heard.text.as_str() {
            "SET @a = 1" if met.fetch_add(1, Relaxed) == 0 => {
                // A KILL that never comes ends the test by its time limit.
                let _ = kill.lock().unwrap_or_else(PoisonError::into_inner).recv();
                Say::Err(1317)
            }
            text if text.starts_with("KILL") => {
                let _ = killed.send(());
                Say::Ok
            }
            _ => usual(heard),
        })?;
        let mut client = bed.connect()?;
        client.must("SET @a = 1")?;
        client.send_command(CommandCode::QUERY, command.as_bytes())?;
        wait::until("the catch-up", || {
            Ok(bed.asked().iter().any(|(_, text)| text == "SET @a = 1").then_some(()))
        })?;
        let mut other = bed.connect()?;
        other.must(&format!("KILL QUERY {}", client.greeting.thread_id))?;
        let reply = client.receive(CommandCode::QUERY)?;
        ensure!(reply.error_code() == Some(1317), "{command}: {:?}", reply.error());
        // The session goes on, on another connection.
        let before = bed.asked();
        ensure!(before.iter().all(|(_, text)| text != WRITE), "{before:?}");
        client.must(command)?;
        let seen = bed.asked();
        ensure!(seen.iter().any(|(_, text)| text == "SET @a = 1"), "{command}: {seen:?}");
        client.quit()?;
        other.quit()?;
    }
    Ok(())
}

fn execute(client: &mut Client, statement: &Statement) -> Result<Option<u16>> {
    Ok(client.execute(statement, 0, &[Some(b"1")])?.error_code())
}

fn v7_another_number_of_parameters(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, |heard| match heard.code {
        CommandCode::STMT_PREPARE => Say::Prepared(3, 2),
        _ => usual(heard),
    })?;
    let mut client = bed.connect()?;
    // The primary's is of one parameter. The rule sees its text again with each EXECUTE.
    let proxied = client.prepare("SELECT ?")?;
    client.must(WRITE)?;
    ensure!(execute(&mut client, &proxied)?.is_none());
    let texts: Vec<String> = bed.asked().into_iter().map(|(_, text)| text).collect();
    ensure!(texts == ["SELECT ?", WRITE], "{texts:?}");
    client.quit()
}

fn h42_who_has_not_got_it_is_not_asked_to_close_it(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, usual)?;
    let mut client = bed.connect()?;
    let statement = client.prepare("SELECT ?")?;
    ensure!(execute(&mut client, &statement)?.is_none());
    client.close_statement(&statement)?;
    client.rows(READ)?;
    ensure!(bed.asked() == asked(&[(1, READ)]));
    client.must("DO 1")?;
    let mut texts = bed.primary.texts();
    texts.retain(|text| text.contains("STMT") || text.contains("DO"));
    ensure!(texts == ["COM_STMT_EXECUTE 7", "COM_STMT_CLOSE 7", "DO 1"], "{texts:?}");
    client.quit()
}

fn h48_a_refusal_is_the_statement_s_own(cluster: &Cluster) -> Result<()> {
    let refuse = AtomicUsize::new(1);
    let bed = Bed::new(cluster.vendor, move |heard| match heard.code {
        CommandCode::STMT_PREPARE if refuse.swap(0, Relaxed) == 1 => Say::Err(1461),
        _ => usual(heard),
    })?;
    let mut client = bed.connect()?;
    client.must("SET @a = 1")?;
    client.prepare("SELECT ?")?;
    // Nothing but the statement suffers.
    client.rows(READ)?;
    let texts: Vec<String> = bed.asked().into_iter().map(|(_, text)| text).collect();
    ensure!(texts == ["SET @a = 1", "SELECT ?", READ], "{texts:?}");
    client.rows(READ)?;
    ensure!(bed.asked().len() == 1);
    client.quit()
}

fn v8_a_connection_that_is_lost(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor, |heard| match heard.text.as_str() {
        "SET @a = 1" if heard.connection == 1 => Say::Cut(Vec::new()),
        _ => usual(heard),
    })?;
    let mut client = bed.connect()?;
    client.must("SET @a = 1")?;
    client.must(WRITE)?;
    ensure!(bed.asked() == asked(&[(1, "SET @a = 1"), (2, "SET @a = 1"), (2, WRITE)]));
    client.quit()
}
