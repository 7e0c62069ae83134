//! A connection that is cut at every byte of the replies to what it lacks.

use super::{chain, until_let_go};
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Say, Scripted, Setup, scripted::Heard};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};
use wire::{Capabilities, CommandCode, OkPacket, Status, answer::Answer, column::Column};

on_both_vendors!(
    a_write_runs_once_or_not_at_all,
    a_read_gives_the_whole_result_or_an_error,
    a_statement_is_executed_where_it_was_prepared,
);

const WRITE: &str = "INSERT /* hg=1 */ INTO t VALUES (1)";
const READ: &str = "SELECT /* hg=1 */ 1";
const PREPARED: &str = "SELECT /* hg=1 */ ?";

/// The server closes behind it.
const LAST: &str = "DO /* hg=1 */ 0";

/// No cut.
const NEVER: usize = usize::MAX;

fn ok() -> Vec<u8> {
    let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
    Answer::new(capabilities(), 1).ok(&ok).finish().to_vec()
}

fn capabilities() -> Capabilities {
    Capabilities::PROTOCOL_41 | Capabilities::DEPRECATE_EOF
}

fn row(value: &str) -> Vec<u8> {
    let rows = [[Some(value)]];
    let answer = Answer::new(capabilities(), 1);
    answer.text_rows(&[Column::text("v")], rows, Status::AUTOCOMMIT).finish().to_vec()
}

fn prepared() -> Vec<u8> {
    Answer::new(capabilities(), 1).payload(&[0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).finish().to_vec()
}

fn usual(heard: &Heard) -> Say {
    match heard.code {
        CommandCode::STMT_PREPARE => Say::Prepared(9, 0),
        CommandCode::QUERY if heard.text == READ => Say::Row("whole".into()),
        CommandCode::QUERY if heard.text == LAST => Say::Cut(ok()),
        _ => Say::Ok,
    }
}

/// A replica that says the bytes `stream` to the first command of a log, as far as `cut`, once,
/// and is as ever otherwise; what is behind it was sent in the same write, or waits.
struct Bed {
    replica: Scripted,
    cut: Arc<AtomicUsize>,
    proxy: e2e::Proxy,
    cluster: Cluster,
}

impl Bed {
    fn new(cluster: &Cluster, stream: Vec<u8>) -> Result<Self> {
        let cut = Arc::new(AtomicUsize::new(NEVER));
        let shared = Arc::clone(&cut);
        let primary = Scripted::start(cluster.vendor, usual)?;
        let replica = Scripted::start(cluster.vendor, move |heard| {
            if heard.text == "SET @a = 1" {
                let cut = shared.swap(NEVER, Relaxed);
                if cut != NEVER {
                    return Say::Cut(stream[..cut.min(stream.len())].to_vec());
                }
            }
            usual(heard)
        })?;
        let cluster = Scripted::cluster(cluster.vendor, &[&primary, &replica]);
        let proxy = Setup::of(&cluster).append(&chain("")).start()?;
        Ok(Self { replica, cut, proxy, cluster })
    }

    /// A session whose next connection to the replica is cut there.
    fn session(&self, cut: usize) -> Result<Client> {
        let mut client = self.proxy.connect(&self.cluster.admin())?;
        client.must("SET @a = 1")?;
        client.must("SET @b = 2")?;
        self.replica.take();
        self.cut.store(cut, Relaxed);
        Ok(client)
    }

    /// The texts of what each of its connections was asked, in their order.
    fn asked(&self) -> Vec<Vec<String>> {
        let mut connections: Vec<(u32, Vec<String>)> = Vec::new();
        for heard in self.replica.take() {
            // What a connection of the session before is asked before it goes to the pool.
            if heard.code == CommandCode::RESET_CONNECTION || heard.text.starts_with("SET NAMES") {
                continue;
            }
            match connections.iter_mut().find(|(known, _)| *known == heard.connection) {
                Some((_, texts)) => texts.push(heard.text),
                None => connections.push((heard.connection, vec![heard.text])),
            }
        }
        connections.into_iter().map(|(_, texts)| texts).collect()
    }
}

fn a_write_runs_once_or_not_at_all(cluster: &Cluster) -> Result<()> {
    let stream = [ok(), ok()].concat();
    let end = stream.len();
    let bed = Bed::new(cluster, stream)?;
    for cut in 0..=end {
        let mut client = bed.session(cut)?;
        let reply = client.query(WRITE)?;
        let asked = bed.asked();
        let ran = asked.iter().flatten().filter(|text| **text == WRITE).count();
        match reply.error_code() {
            None => ensure!(ran == 1, "{cut}: {asked:?}"),
            // All was good, and then there was nobody to run it.
            Some(9007) => ensure!(cut == end && ran == 0, "{cut}: {asked:?}"),
            Some(other) => anyhow::bail!("{cut}: {other}"),
        }
        for texts in asked.iter().filter(|texts| texts.contains(&WRITE.to_owned())) {
            ensure!(*texts == ["SET @a = 1", "SET @b = 2", WRITE], "{cut}: {texts:?}");
        }
        if reply.error_code().is_none() {
            client.quit()?;
        }
    }
    Ok(())
}

fn a_read_gives_the_whole_result_or_an_error(cluster: &Cluster) -> Result<()> {
    let before = [ok(), ok()].concat();
    let stream = [before.clone(), row("of the first connection")].concat();
    let end = stream.len();
    let bed = Bed::new(cluster, stream)?;
    for cut in 0..=end {
        let mut client = bed.session(cut)?;
        let reply = client.query(READ);
        let Ok(reply) = reply else {
            // Rows that have begun to go out cannot be taken back.
            ensure!(cut > before.len() && cut < end, "{cut}: no reply");
            continue;
        };
        let rows = reply.error_code().is_none().then(|| reply.rows(client.capabilities));
        match rows.transpose()? {
            Some(rows) if cut < end => {
                ensure!(
                    cut < before.len() && rows == [[Some("whole".to_owned())]],
                    "{cut}: {rows:?}"
                );
            }
            Some(rows) => {
                ensure!(rows == [[Some("of the first connection".to_owned())]], "{rows:?}");
            }
            None => {
                ensure!(reply.error_code() == Some(9007), "{cut}: {:?}", reply.error());
                ensure!(cut >= before.len(), "{cut}: what was missing is lost with its connection");
            }
        }
        // The session ends where its command has, by then, or goes on in its state.
        let _ = client.quit();
    }
    Ok(())
}

fn a_statement_is_executed_where_it_was_prepared(cluster: &Cluster) -> Result<()> {
    let stream = [ok(), ok(), prepared()].concat();
    let end = stream.len();
    let bed = Bed::new(cluster, stream)?;
    for cut in 0..=end {
        let mut client = bed.session(NEVER)?;
        let statement = client.prepare(PREPARED)?;
        // The connection is lost while nothing is under way.
        client.must(LAST)?;
        until_let_go(&bed.proxy)?;
        bed.replica.take();
        bed.cut.store(cut, Relaxed);
        let executed = client.execute(&statement, 0, &[])?;
        let asked = bed.asked();
        match executed.error_code() {
            None => {
                let whole = ["SET @a = 1", "SET @b = 2", PREPARED, "COM_STMT_EXECUTE 9"];
                ensure!(asked.last().is_some_and(|texts| *texts == whole), "{cut}: {asked:?}");
                client.quit()?;
            }
            Some(9007) => ensure!(cut == end, "{cut}: {asked:?}"),
            Some(other) => anyhow::bail!("{cut}: {other}, {asked:?}"),
        }
        let ran =
            asked.iter().flatten().filter(|text| text.starts_with("COM_STMT_EXECUTE")).count();
        ensure!(ran == usize::from(cut < end), "{cut}: {asked:?}");
    }
    Ok(())
}
