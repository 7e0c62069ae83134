//! A primary that is killed under load, and a replica that is promoted: what was acknowledged is
//! there, nothing is sent twice, and only what was under way sees an error.

mod sysbench;

use super::Bed;
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Login, Scale, wait};
use std::{
    collections::HashSet,
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

on_both_vendors!(killed_under_load);

const WRITERS: usize = 32;
const TABLE: &str = "CREATE TABLE app.failover (id INT AUTO_INCREMENT PRIMARY KEY, mark VARCHAR(40), \
                     n INT DEFAULT 0, KEY (mark))";
const IDLE: usize = 8;

/// What all writers have seen.
#[derive(Default)]
struct Seen {
    stop: AtomicBool,
    promoted: AtomicBool,
    /// Transactions whose COMMIT was answered by OK, by their mark.
    acknowledged: Mutex<Vec<String>>,
    /// Those whose COMMIT was refused in a way that says it was not done.
    begun: AtomicUsize,
    /// Errors of statements and transactions that were under way.
    in_flight: AtomicUsize,
    /// Errors of anything else.
    other: Mutex<Vec<String>>,
    first_after: Mutex<Option<Instant>>,
}

/// How a transaction has ended.
enum End {
    Acknowledged,
    /// An error, and whether it came on the first statement of a fresh transaction.
    Failed {
        first: bool,
        text: String,
    },
}

impl Seen {
    fn writer(&self, address: &str, login: &Login, number: usize) -> Result<()> {
        let mut client = None;
        for turn in 0.. {
            if self.stop.load(Relaxed) {
                break;
            }
            let mark = format!("w{number}t{turn}x");
            let connected = match client.take() {
                Some(client) => client,
                None => match Client::connect(address, login) {
                    Ok(client) => client,
                    Err(error) => {
                        self.note(format!("login: {error}"));
                        continue;
                    }
                },
            };
            let mut connected: Client = connected;
            self.begun.fetch_add(1, Relaxed);
            match transaction(&mut connected, &mark) {
                Ok(End::Acknowledged) => {
                    if self.promoted.load(Relaxed) {
                        let mut first = self.first_after.lock().expect("no writer panics");
                        first.get_or_insert_with(Instant::now);
                    }
                    self.acknowledged.lock().expect("no writer panics").push(mark);
                    client = Some(connected);
                }
                Ok(End::Failed { first: true, text }) if !text.contains("9007") => self.note(text),
                Ok(End::Failed { .. }) | Err(_) => {
                    self.in_flight.fetch_add(1, Relaxed);
                }
            }
        }
        Ok(())
    }

    fn note(&self, text: String) {
        self.other.lock().expect("no writer panics").push(text);
    }

    fn acknowledged(&self) -> usize {
        self.acknowledged.lock().expect("no writer panics").len()
    }
}

/// An error of the connection is one of what was under way.
fn transaction(client: &mut Client, mark: &str) -> Result<End> {
    let statements = [
        format!("BEGIN /* {mark} */"),
        format!("SELECT COUNT(*) FROM failover WHERE mark = '{mark}'"),
        format!("INSERT INTO failover (mark) VALUES ('{mark}')"),
        format!("UPDATE failover SET n = n + 1 WHERE mark = '{mark}'"),
        format!("COMMIT /* {mark} */"),
    ];
    for (at, statement) in statements.iter().enumerate() {
        if let Some(error) = client.query(statement)?.error() {
            return Ok(End::Failed { first: at == 0, text: error.to_string() });
        }
    }
    Ok(End::Acknowledged)
}

#[allow(clippy::print_stderr)]
fn killed_under_load(cluster: &Cluster) -> Result<()> {
    if !Scale::is_for_load() {
        return Ok(());
    }
    let bed = Bed::new(cluster.vendor)?;
    bed.on(0, &[TABLE])?;
    let mut idle = Vec::new();
    for number in 0..IDLE {
        let mut client = bed.connect()?;
        client.must(&format!("SET @mine = {number}"))?;
        idle.push(client);
    }
    let seen = Arc::<Seen>::default();
    let writers: Vec<_> = (0..WRITERS)
        .map(|number| {
            let (seen, address, login) = (seen.clone(), bed.proxy.address.clone(), bed.login());
            thread::spawn(move || seen.writer(&address, &login, number))
        })
        .collect();
    let enough = |more: usize| {
        wait::until("transactions", || Ok((seen.acknowledged() >= more).then_some(())))
    };
    enough(500)?;
    let killed = Instant::now();
    bed.servers.kill()?;
    bed.until_state(0, "shunned")?;
    let noticed = killed.elapsed();
    let before = seen.acknowledged();
    // the writers wait now
    let promoting = Instant::now();
    seen.promoted.store(true, Relaxed);
    bed.promote(1)?;
    let promoted = Instant::now();
    enough(before + 500)?;
    seen.stop.store(true, Relaxed);
    for writer in writers {
        writer.join().map_err(|_| anyhow::anyhow!("a writer panicked"))??;
    }
    let first = *seen.first_after.lock().expect("no writer panics");
    let resumed = first.context("no transaction on the new primary")?;

    for (number, client) in idle.iter_mut().enumerate() {
        let rows = client.rows("SELECT @mine, @@server_id")?;
        ensure!(rows == [[Some(number.to_string()), Some("2".to_owned())]], "{rows:?}");
    }
    bed.servers.start_node(1)?;
    let acknowledged = seen.acknowledged.lock().expect("no writer panics").clone();
    let verdict = Verdict::of(&bed, &acknowledged)?;
    let other = seen.other.lock().expect("no writer panics").clone();
    let (begun, in_flight) = (seen.begun.load(Relaxed), seen.in_flight.load(Relaxed));
    eprintln!(
        "failover of {}: {begun} transactions begun, {} acknowledged ({before} before the kill), \
         {in_flight} errors of what was under way, {} other errors; {verdict}; noticed after \
         {noticed:?}, promoted in {:?}, the first transaction {:?} after that; {IDLE} idle sessions \
         went on",
        bed.vendor,
        acknowledged.len(),
        other.len(),
        promoted - promoting,
        resumed.saturating_duration_since(promoted),
    );
    verdict.is_good()?;
    ensure!(other.is_empty(), "errors of what was not under way: {:?}", other.first());
    ensure!(in_flight <= WRITERS * 2, "{in_flight} errors");
    Ok(())
}

/// What became of the transactions that were acknowledged.
struct Verdict {
    /// On neither server.
    lost: Vec<String>,
    /// Rows that are twice in a table, of the old primary and of the new one.
    doubled: [usize; 2],
    /// Statements that servers were given more than once.
    twice: Vec<String>,
}

impl Verdict {
    fn of(bed: &Bed, acknowledged: &[String]) -> Result<Self> {
        let marks = |at: usize| -> Result<Vec<String>> {
            let login = bed.cluster().admin().schema("app");
            let mut direct = Client::connect(&bed.cluster().addresses[at], &login)?;
            let rows = direct.rows("SELECT mark FROM failover WHERE n = 1")?;
            Ok(rows.into_iter().flatten().flatten().collect())
        };
        let (old, new) = (marks(0)?, marks(1)?);
        let all: HashSet<_> = old.iter().chain(&new).collect();
        let lost = acknowledged.iter().filter(|mark| !all.contains(mark)).cloned().collect();
        let doubled =
            [&old, &new].map(|marks| marks.len() - marks.iter().collect::<HashSet<_>>().len());
        Ok(Self { lost, doubled, twice: sent_twice(bed)? })
    }

    fn is_good(&self) -> Result<()> {
        ensure!(self.lost.is_empty(), "acknowledged and lost: {:?}", self.lost.first());
        let twice = self.twice.first();
        ensure!(self.doubled == [0, 0] && twice.is_none(), "twice: {self}, {twice:?}");
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, doubled, twice } = self;
        write!(
            f,
            "{} acknowledged and lost, {doubled:?} doubled in the tables, {} sent twice",
            lost.len(),
            twice.len()
        )
    }
}

/// Marks of COMMITs and INSERTs that servers were given more than once.
fn sent_twice(bed: &Bed) -> Result<Vec<String>> {
    let log = bed.servers.log()?;
    let mut given = HashSet::new();
    let mut twice = Vec::new();
    for line in log.lines() {
        for verb in ["INSERT INTO failover (mark) VALUES ('", "COMMIT /* "] {
            let Some((_, rest)) = line.split_once(verb) else { continue };
            let mark: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
            let statement = format!("{verb}{mark}");
            // "implicit" is a replica's own
            if mark.starts_with('w') && !given.insert(statement.clone()) {
                twice.push(statement);
            }
        }
    }
    ensure!(given.len() > 500, "the servers' log has only {}", given.len());
    Ok(twice)
}
