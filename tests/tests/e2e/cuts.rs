//! Conversations cut off at every byte, on either side, by FIN and by RST.
//!
//! Each conversation runs once whole; then again and again through a relay that cuts it, at every
//! byte in a full run and at some in others. After each cut the proxy must hold what it held before,
//! and the next session must be served as if nothing had been.

use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Cluster, Cut, Held, Login, Proxy, Relay, Scale, Setup, Vendor,
    client::Reply,
    relay::{How, Side},
};
use std::collections::BTreeMap;
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    text,
    prepared,
    file,
    tls,
    compressed,
    change_of_user,
    several_results,
    cursor,
    large_result,
);

/// One conversation, and what both hops are to be like.
struct Conversation<'a> {
    cluster: &'a Cluster,
    /// Beyond account and schema.
    login: fn(Login) -> Login,
    setup: fn(Setup) -> Setup,
    script: fn(&Cluster, &mut Client, u32, &mut Notes) -> Result<()>,
}

/// The replies that came whole.
#[derive(Default)]
struct Notes {
    replies: Vec<Vec<u8>>,
    /// An error of the proxy's own.
    told: Option<u16>,
}

impl Notes {
    /// Notes a reply; an error of the proxy's own is the last.
    fn add(&mut self, reply: &Reply) -> Result<()> {
        match reply.error_code() {
            Some(code) if code >= 9000 => {
                self.told = Some(code);
                anyhow::bail!("told {code}")
            }
            _ => self.replies.push(reply.raw.clone()),
        }
        Ok(())
    }
}

fn text(cluster: &Cluster) -> Result<()> {
    let script = |_: &Cluster, client: &mut Client, run: u32, notes: &mut Notes| {
        notes.add(&client.query("SELECT 1, 'one', NULL")?)?;
        notes.add(&client.query(&format!("INSERT INTO t VALUES ({run:06}, 'once')"))?)?;
        notes.add(&client.query("SELEC")?)?;
        notes.add(&client.query("BEGIN")?)?;
        notes.add(
            &client.query(&format!("UPDATE t SET b = 'undone' WHERE a = {run:06} LIMIT 1"))?,
        )?;
        notes.add(&client.query("ROLLBACK")?)
    };
    cut_everywhere(&Conversation { cluster, login: |login| login, setup: |setup| setup, script })
}

fn prepared(cluster: &Cluster) -> Result<()> {
    let script = |_: &Cluster, client: &mut Client, run: u32, notes: &mut Notes| {
        let run = format!("{run:06}");
        let insert = client.prepare("INSERT INTO t VALUES (?, ?)")?;
        notes.add(&insert.reply)?;
        notes.add(&client.execute(&insert, 0, &[Some(run.as_bytes()), Some(b"once")])?)?;
        let select = client.prepare("SELECT ? AS v")?;
        notes.add(&select.reply)?;
        client.long_data(&select, 0, b"in two ")?;
        client.long_data(&select, 0, b"pieces")?;
        notes.add(&client.execute_with_long_data(&select)?)?;
        notes.add(&client.statement_command(CommandCode::STMT_RESET, &select)?)?;
        client.close_statement(&insert)?;
        notes.add(&client.execute(&select, 0, &[None])?)
    };
    cut_everywhere(&Conversation { cluster, login: |login| login, setup: |setup| setup, script })
}

fn file(cluster: &Cluster) -> Result<()> {
    let script = |_: &Cluster, client: &mut Client, run: u32, notes: &mut Notes| {
        let sql = "LOAD DATA LOCAL INFILE 'rows' INTO TABLE t FIELDS TERMINATED BY ','";
        let rows = format!("{run:06},once\n9{run:06},another row of this file\n");
        notes.add(&client.upload(sql, rows.as_bytes())?)?;
        notes.add(&client.query("SELECT 'after'")?)
    };
    let login = |login: Login| login.with(Capabilities::LOCAL_FILES);
    cut_everywhere(&Conversation { cluster, login, setup: |setup| setup, script })
}

fn tls(cluster: &Cluster) -> Result<()> {
    let setup = |setup: Setup| setup.listener_tls("require").server("tls = { mode = \"require\" }");
    cut_everywhere(&Conversation { cluster, login: Login::tls, setup, script: insert_and_select })
}

fn compressed(cluster: &Cluster) -> Result<()> {
    let zlib = |setup: Setup| setup.server("compression = \"zlib\"");
    let script = insert_and_select;
    cut_everywhere(&Conversation { cluster, login: Login::zlib, setup: zlib, script })?;
    if cluster.vendor == Vendor::MySql {
        let zstd = |setup: Setup| setup.server("compression = \"zstd\"");
        let login = |login: Login| login.zstd(3);
        cut_everywhere(&Conversation { cluster, login, setup: zstd, script })?;
    }
    Ok(())
}

fn insert_and_select(_: &Cluster, client: &mut Client, run: u32, notes: &mut Notes) -> Result<()> {
    notes.add(&client.query(&format!("INSERT INTO t VALUES ({run:06}, 'once')"))?)?;
    notes.add(&client.query("SELECT REPEAT('compressible ', 30), SHA2('less so', 512)")?)
}

fn change_of_user(cluster: &Cluster) -> Result<()> {
    let script = |cluster: &Cluster, client: &mut Client, run: u32, notes: &mut Notes| {
        notes.add(&client.query(&format!("INSERT INTO t VALUES ({run:06}, 'once')"))?)?;
        client.change_user(&cluster.login("app").schema("app"))?;
        notes.add(&client.query("SELECT CURRENT_USER(), DATABASE()")?)
    };
    cut_everywhere(&Conversation { cluster, login: |login| login, setup: |setup| setup, script })
}

fn several_results(cluster: &Cluster) -> Result<()> {
    let script = |_: &Cluster, client: &mut Client, run: u32, notes: &mut Notes| {
        let sql = format!("SELECT 1; INSERT INTO t VALUES ({run:06}, 'once'); SELECT 2; DO 3");
        notes.add(&client.query(&sql)?)?;
        notes.add(&client.query("SELECT 1; SELEC; SELECT 2")?)
    };
    let login = |login: Login| login.with(Capabilities::MULTI_STATEMENTS);
    cut_everywhere(&Conversation { cluster, login, setup: |setup| setup, script })
}

fn cursor(cluster: &Cluster) -> Result<()> {
    let script = |_: &Cluster, client: &mut Client, _: u32, notes: &mut Notes| {
        let three = client.prepare("SELECT 1 AS n UNION SELECT 2 UNION SELECT 3")?;
        notes.add(&three.reply)?;
        notes.add(&client.execute(&three, 1, &[])?)?;
        for _ in 0..2 {
            notes.add(&client.fetch(&three, 2)?)?;
        }
        notes.add(&client.query("SELECT 'after'")?)
    };
    let login = |login: Login| login.without(Capabilities::DEPRECATE_EOF);
    cut_everywhere(&Conversation { cluster, login, setup: |setup| setup, script })
}

/// Larger than what the proxy gathers before it writes.
fn large_result(cluster: &Cluster) -> Result<()> {
    let script = |_: &Cluster, client: &mut Client, run: u32, notes: &mut Notes| {
        notes.add(&client.query(&format!("INSERT INTO t VALUES ({run:06}, 'once')"))?)?;
        notes.add(&client.query(
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 90) \
             SELECT i, REPEAT('large', 400) FROM n",
        )?)?;
        notes.add(&client.query("SELECT 'after'")?)
    };
    cut_everywhere(&Conversation { cluster, login: |login| login, setup: |setup| setup, script })
}

fn cut_everywhere(conversation: &Conversation<'_>) -> Result<()> {
    let schema = conversation.cluster.schema()?;
    let mut direct = conversation.cluster.direct()?;
    direct.must(&format!("CREATE TABLE {}.t (a INT, b VARCHAR(40))", schema.name))?;
    let login = (conversation.login)(conversation.cluster.admin().schema(&schema.name));
    let run = |address: &str, number| conversation.run(address, &login, number);

    let (whole, expected) = run(&conversation.cluster.addresses[0], 0);
    whole.context("directly")?;
    let mut witness = Witness { direct, schema: schema.name.clone(), next: 1 };
    clients_vanish(conversation, &login, &mut witness, &expected)?;
    servers_vanish(conversation, &login, &mut witness, &expected)
}

impl Conversation<'_> {
    /// Runs it at `address`, up to its end or the first failure.
    fn run(&self, address: &str, login: &Login, number: u32) -> (Result<()>, Notes) {
        let mut notes = Notes::default();
        let ended = Client::connect(address, login).and_then(|mut client| {
            let said = (self.script)(self.cluster, &mut client, number, &mut notes);
            if notes.told.is_some() {
                let next = client.command(CommandCode::PING, b"");
                ensure!(next.is_err(), "the session goes on over another connection");
            }
            said?;
            client.quit()
        });
        (ended, notes)
    }

    /// The proxy, with one session served.
    fn proxy(&self, cluster: &Cluster, login: &Login, expected: &Notes) -> Result<(Proxy, Held)> {
        let proxy = (self.setup)(Setup::of(cluster)).start()?;
        let (whole, notes) = self.run(&proxy.address, login, 0);
        whole.context("through the proxy")?;
        ensure!(
            notes.replies == expected.replies,
            "a whole conversation differs from a direct one"
        );
        let none = Held { sessions: 0, attached: 0, outstanding: 0, tasks: 99, descriptors: 99 };
        none.until_again(&proxy)?;
        let held = Held::by(&proxy)?;
        Ok((proxy, held))
    }
}

/// Looks at the server directly.
struct Witness {
    direct: Client,
    schema: String,
    next: u32,
}

impl Witness {
    fn run(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// What run `number` has written is there once or not at all, and nothing that was undone.
    fn nothing_done_twice(&mut self, number: u32) -> Result<()> {
        let (schema, direct) = (&self.schema, &mut self.direct);
        let sql = format!(
            "SELECT COUNT(*), COUNT(IF(b = 'undone', 1, NULL)) FROM {schema}.t WHERE a = {number}"
        );
        let found = direct.rows(&sql)?.concat();
        let count = |n: usize| found[n].clone().unwrap_or_default();
        ensure!(["0", "1"].contains(&count(0).as_str()), "inserted {} times", count(0));
        ensure!(count(1) == "0", "a transaction that was broken off is done");
        Ok(())
    }
}

fn clients_vanish(
    conversation: &Conversation<'_>,
    login: &Login,
    witness: &mut Witness,
    expected: &Notes,
) -> Result<()> {
    let (proxy, held) = conversation.proxy(conversation.cluster, login, expected)?;
    let relay = Relay::start(&proxy.address)?;
    conversation.run(&relay.address, login, 0).0?;
    let total = relay.passed()[0].client.len();
    for (after, how) in cuts(total) {
        let at = || format!("the client vanishes by {how:?} after {after} of {total} bytes");
        relay.forget();
        relay.cut_after(0, Cut { side: Side::Client, after, how });
        let number = witness.run();
        // what the client saw does not matter: it is gone
        let (_, _) = conversation.run(&relay.address, login, number);
        held.until_again(&proxy).with_context(at)?;
        witness.nothing_done_twice(number).with_context(at)?;
        let (next, notes) = conversation.run(&proxy.address, login, 0);
        next.with_context(at)?;
        ensure!(notes.replies == expected.replies, "{}: the next session differs", at());
    }
    Ok(())
}

fn servers_vanish(
    conversation: &Conversation<'_>,
    login: &Login,
    witness: &mut Witness,
    expected: &Notes,
) -> Result<()> {
    let mut cluster = conversation.cluster.clone();
    let relay = Relay::start(&cluster.addresses[0])?;
    cluster.addresses[0] = relay.address.clone();
    let (proxy, held) = conversation.proxy(&cluster, login, expected)?;
    relay.close_all();
    relay.forget();
    // the second session uses the connections of the first
    for _ in 0..2 {
        conversation.run(&proxy.address, login, 0).0?;
        held.until_again(&proxy)?;
    }
    let totals: Vec<usize> = relay.passed().iter().map(|passed| passed.server.len()).collect();
    let mut outcomes = BTreeMap::new();
    for (connection, total) in totals.into_iter().enumerate() {
        for (after, how) in cuts(total) {
            let at = || {
                format!("connection {connection} ends by {how:?} after {after} of {total} bytes")
            };
            // no pooled connection: the cut is for a new one
            relay.close_all();
            relay.forget();
            relay.cut_after(connection, Cut { side: Side::Server, after, how });
            for _ in 0..2 {
                let number = witness.run();
                let (ended, notes) = conversation.run(&proxy.address, login, number);
                let outcome = outcome(ended, &notes, expected).with_context(at)?;
                *outcomes.entry(outcome).or_insert(0) += 1;
                held.until_again(&proxy).with_context(at)?;
                witness.nothing_done_twice(number).with_context(at)?;
            }
            let (next, notes) = conversation.run(&proxy.address, login, 0);
            next.with_context(at)?;
            ensure!(notes.replies == expected.replies, "{}: the next session differs", at());
        }
    }
    // a cut in the server's login is made up for by another connection
    ensure!(outcomes.contains_key("whole"), "{outcomes:?}");
    ensure!(outcomes.contains_key("told 9007"), "{outcomes:?}");
    Ok(())
}

/// What the client saw: all of it; a part and an error of the proxy's own; or a part and the end.
fn outcome(ended: Result<()>, notes: &Notes, expected: &Notes) -> Result<String> {
    ensure!(expected.replies.starts_with(&notes.replies), "a reply that no server gave");
    let Err(error) = ended else {
        ensure!(notes.replies == expected.replies, "replies are missing");
        return Ok("whole".into());
    };
    if let Some(code) = notes.told {
        return Ok(format!("told {code}"));
    }
    // in the login, before any command
    if let Some(code) = error.to_string().strip_prefix("ERR 900") {
        return Ok(format!("told 900{}", &code[..1]));
    }
    ensure!(error.is::<std::io::Error>(), error);
    Ok("closed".into())
}

/// Where to cut a stream of `total` bytes: everywhere and in both ways, or at some places.
fn cuts(total: usize) -> Vec<(usize, How)> {
    let ways = [How::Fin, How::Rst];
    if Scale::of_this_run() == Scale::Full {
        // a large result is many times the same
        let step = 1 + total / 2_000;
        return (0..=total).step_by(step).flat_map(|n| ways.map(|how| (n, how))).collect();
    }
    const SOME: usize = 24;
    let place = |n| total * n / SOME;
    (0..=SOME).map(|n| (place(n), ways[n % 2])).collect()
}
