//! KILL with the ids that clients see: the same replies, and the same end, as directly.

use anyhow::{Context, Result};
use e2e::{Client, Cluster, Login, Proxy, Setup, Vendor, program, skip, wait};
use std::{
    collections::HashSet,
    process::{Command, Stdio},
};
use wire::CommandCode;

on_both_vendors!(
    every_form_of_it,
    idle_and_running_victims,
    victims_of_another_user,
    victims_on_another_server,
    victims_without_a_connection,
    ones_own_session,
    a_connection_that_is_used_again,
    by_the_command_lines,
);

/// What a scenario saw, with `<1>` for the id of the first client, and so on.
type Seen = Vec<String>;

/// Clients of one scenario, in the order in which they came.
struct Stage<'a> {
    address: &'a str,
    ids: Vec<u32>,
    seen: Seen,
}

impl Stage<'_> {
    fn connect(&mut self, login: &Login) -> Result<Client> {
        let client = Client::connect(self.address, login)?;
        self.ids.push(client.greeting.thread_id);
        Ok(client)
    }

    fn note(&mut self, what: &str, seen: &str) {
        self.seen.push(format!("{what}: {}", self.masked(seen)));
    }

    /// An id may have the digits of an error's number, or of a part of a longer one: only whole
    /// numbers in an error's text are ids.
    fn masked(&self, seen: &str) -> String {
        let Some((head, text)) = seen.split_once("): ") else { return seen.to_owned() };
        let mut masked = format!("{head}): ");
        for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
            let digits = part.trim_end_matches(|c: char| !c.is_ascii_digit());
            match self.ids.iter().position(|id| *digits == id.to_string()) {
                Some(n) => masked += &format!("<{}>{}", n + 1, &part[digits.len()..]),
                None => masked += part,
            }
        }
        masked
    }

    /// Runs a statement, and notes how its reply ended. `$id` stands for `id` in it, `$hex` for the
    /// same as hexadecimal digits, `$unknown` for an id that nobody has.
    fn run_with(&mut self, client: &mut Client, sql: &str, id: u32) {
        let text = sql.replace("$hex", &format!("{id:x}")).replace("$id", &id.to_string());
        let said = said(client.query(&text.replace("$unknown", &UNKNOWN.to_string())));
        self.note(sql, &said);
    }

    fn run(&mut self, client: &mut Client, sql: &str) {
        self.run_with(client, sql, 0);
    }

    /// Waits for the reply to a statement that was sent.
    fn receive(&mut self, client: &mut Client) {
        let said = said(client.receive(CommandCode::QUERY));
        self.note("running", &said);
    }
}

fn said(reply: Result<e2e::client::Reply>) -> String {
    match reply {
        Ok(reply) => reply.error().map_or_else(
            || format!("{:?}, {} bytes", reply.end.status, reply.raw.len()),
            |error| error.to_string(),
        ),
        Err(_) => "closed".to_owned(),
    }
}

/// Runs `scenario` directly and through `proxy`: both must see the same.
fn same(
    cluster: &Cluster,
    proxy: &Proxy,
    scenario: impl Fn(&mut Stage<'_>) -> Result<()>,
) -> Result<()> {
    let play = |address: &str| -> Result<Seen> {
        let mut stage = Stage { address, ids: Vec::new(), seen: Vec::new() };
        scenario(&mut stage)?;
        Ok(stage.seen)
    };
    let direct = play(&cluster.addresses[0]).context("directly")?;
    let proxied = play(&proxy.address).context("through the proxy")?;
    assert!(!direct.is_empty());
    assert_eq!(direct, proxied);
    Ok(())
}

/// Sends a statement with this test's mark that runs until it is killed, on server `node`.
fn sleep(cluster: &Cluster, client: &mut Client, node: usize) -> Result<()> {
    let sql = format!("/* {} */ SELECT SLEEP(600), 1", skip::test_name());
    client.send_command(CommandCode::QUERY, sql.as_bytes())?;
    until_sleeping(cluster, node, true)
}

fn until_sleeping(cluster: &Cluster, node: usize, wanted: bool) -> Result<()> {
    let mut client = Client::connect(&cluster.addresses[node], &cluster.admin())?;
    let sql = format!(
        "SELECT 1 FROM information_schema.PROCESSLIST \
         WHERE INFO LIKE '/* {} */%' AND COMMAND IN ('Query', 'Execute')",
        skip::test_name()
    );
    wait::until("the statement", || Ok((client.rows(&sql)?.is_empty() != wanted).then_some(())))
}

/// An id that nobody has, in place of one that stands where it is not translated.
const UNKNOWN: u32 = 0x7FFF_FFF0;

/// Forms of KILL, and whether the victim's connection ends.
fn forms(vendor: Vendor) -> Vec<(&'static str, bool)> {
    let mariadb = vendor == Vendor::MariaDb;
    vec![
        ("KILL $id", true),
        ("kill connection $id;", true),
        ("/* a */ KILL -- b\n $id", true),
        ("KILL '$id'", true),
        ("KILL 0x$hex", true),
        ("KILL HARD CONNECTION $id", mariadb),
        ("KILL SOFT $id", mariadb),
        ("KILL QUERY $id", false),
        ("KILL QUERY $id $id", false),
        ("KILL $id $id", false),
        ("KILL", false),
        ("KILL USER nobody", false),
        ("KILL $unknown", false),
        ("KILL QUERY $unknown", false),
        ("KILL $unknown+0", false),
        ("KILL -7", false),
    ]
}

fn every_form_of_it(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, |stage| {
        let mut killer = stage.connect(&cluster.admin())?;
        for (form, ends) in forms(cluster.vendor) {
            let mut victim = stage.connect(&cluster.admin())?;
            victim.must("DO 1")?;
            let id = victim.greeting.thread_id;
            stage.run_with(&mut killer, form, id);
            if ends {
                until_closed(&mut victim)?;
            }
            stage.run(&mut victim, "SELECT 'usable'");
        }
        Ok(())
    })
}

/// The end of a connection comes some time after the reply to the KILL.
fn until_closed(victim: &mut Client) -> Result<()> {
    wait::until("the end", || Ok(victim.query("DO 1").is_err().then_some(())))
}

fn idle_and_running_victims(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, |stage| {
        let mut killer = stage.connect(&cluster.login("app"))?;
        for (kill, ends) in [("KILL QUERY", false), ("KILL", true)] {
            let mut victim = stage.connect(&cluster.login("app"))?;
            sleep(cluster, &mut victim, 0)?;
            stage.run_with(&mut killer, &format!("{kill} $id"), victim.greeting.thread_id);
            stage.receive(&mut victim);
            if !ends {
                stage.run(&mut victim, "SELECT 'usable'");
            }
            stage.run(&mut killer, "SELECT 'usable'");
        }
        let mut victim = stage.connect(&cluster.login("app"))?;
        victim.must("DO 1")?;
        let id = victim.greeting.thread_id;
        let reply = said(killer.command(CommandCode::PROCESS_KILL, &id.to_le_bytes()));
        stage.note("COM_PROCESS_KILL", &reply);
        let reply = said(killer.command(CommandCode::PROCESS_KILL, &UNKNOWN.to_le_bytes()));
        stage.note("COM_PROCESS_KILL", &reply);
        if cluster.vendor == Vendor::MariaDb {
            until_closed(&mut victim)?;
        }
        stage.run(&mut victim, "SELECT 'usable'");
        Ok(())
    })
}

fn victims_of_another_user(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, |stage| {
        let mut victim = stage.connect(&cluster.admin())?;
        let mut killer = stage.connect(&cluster.login("app"))?;
        // Once without a connection to a server, once with one.
        for _ in 0..2 {
            for kill in ["KILL", "KILL QUERY"] {
                stage.run_with(&mut killer, &format!("{kill} $id"), victim.greeting.thread_id);
            }
            stage.run(&mut victim, "SELECT 'usable'");
        }
        let mut other = stage.connect(&cluster.login("app"))?;
        other.must("DO 1")?;
        stage.run_with(&mut victim, "KILL $id", other.greeting.thread_id);
        until_closed(&mut other)
    })
}

/// The account `name` of the cluster on its second server, as the user `name_2`.
fn second(cluster: &Cluster, name: &str) -> String {
    let Login { password, .. } = cluster.login(name);
    format!(
        "[[user]]\nname = \"{name}_2\"\npassword = {password:?}\nhostgroup = 1\n\
         backend_user = {name:?}\nbackend_password = {password:?}\n"
    )
}

/// Which of the cluster's servers a session is on.
fn node(cluster: &Cluster, client: &mut Client) -> Result<usize> {
    let rows = client.rows("SELECT @@port")?;
    let port = rows.into_iter().flatten().flatten().next().context("no port")?;
    let ends = |address: &String| address.ends_with(&format!(":{port}"));
    cluster.addresses.iter().position(ends).context("an unknown server")
}

fn victims_on_another_server(cluster: &Cluster) -> Result<()> {
    let users = [second(cluster, "app"), second(cluster, "admin")].concat();
    let proxy = Setup::of(cluster).append(&users).start()?;
    let login = |name: &str| Login::new(&format!("{name}_2"), &cluster.login(name).password);
    let mut killer = proxy.connect(&cluster.login("app"))?;
    assert_eq!(node(cluster, &mut killer)?, 0);
    for (kill, ends) in [("KILL QUERY", false), ("KILL", true)] {
        let mut victim = proxy.connect(&login("app"))?;
        let there = node(cluster, &mut victim)?;
        assert_ne!(there, 0);
        sleep(cluster, &mut victim, there)?;
        let reply = killer.query(&format!("{kill} {}", victim.greeting.thread_id))?;
        assert_eq!(said(Ok(reply)), said(killer.query("DO 0")));
        let reply = victim.receive(CommandCode::QUERY);
        assert_eq!(reply.is_err(), ends, "{}", said(reply));
        until_sleeping(cluster, there, false)?;
        if !ends {
            victim.must("DO 1")?;
        }
    }
    let mut victim = proxy.connect(&login("admin"))?;
    victim.must("DO 1")?;
    let id = victim.greeting.thread_id;
    let reply = killer.query(&format!("KILL {id}"))?;
    let error = reply.error().context("killed without the privilege")?.to_string();
    assert_eq!(error, format!("ERR 1095 (HY000): You are not owner of thread {id}"));
    victim.must("DO 1")
}

fn victims_without_a_connection(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, |stage| {
        let mut killer = stage.connect(&cluster.login("app"))?;
        let mut victim = stage.connect(&cluster.login("app"))?;
        stage.run_with(&mut killer, "KILL QUERY $id", victim.greeting.thread_id);
        stage.run(&mut victim, "SELECT 'usable'");
        let mut victim = stage.connect(&cluster.login("app"))?;
        let id = victim.greeting.thread_id;
        stage.run_with(&mut killer, "KILL $id", id);
        // It hears of it without asking.
        stage.note("closed", &victim.read_some().is_err().to_string());
        let gone = || {
            let reply = killer.query(&format!("KILL {id}"))?;
            Ok(reply.error().map(|error| error.to_string()))
        };
        let error = wait::until("the end of the session", gone)?;
        stage.note("gone", &error);
        Ok(())
    })
}

fn ones_own_session(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, |stage| {
        for kill in [
            "KILL $id",
            "KILL QUERY $id",
            "KILL CONNECTION_ID()",
            "KILL QUERY CONNECTION_ID()",
            "KILL CONNECTION @@pseudo_thread_id",
        ] {
            let mut client = stage.connect(&cluster.login("app"))?;
            let id = client.greeting.thread_id;
            stage.run_with(&mut client, kill, id);
            stage.run(&mut client, "SELECT 'usable'");
        }
        Ok(())
    })
}

/// A connection that goes to another session is that one's: no id of the session before hits it.
fn a_connection_that_is_used_again(cluster: &Cluster) -> Result<()> {
    const ROUNDS: usize = 30;
    let proxy = Proxy::start(cluster)?;
    let mut killer = proxy.connect(&cluster.login("app"))?;
    killer.must("DO 1")?;
    let mut threads = HashSet::new();
    for _ in 0..ROUNDS {
        let mut before = proxy.connect(&cluster.login("app"))?;
        before.must("DO 1")?;
        let id = before.greeting.thread_id;
        // Said and gone at once: the order meets the end of the session.
        before.send_command(CommandCode::QUIT, b"")?;
        killer.query(&format!("KILL QUERY {id}"))?;
        let mut after = proxy.connect(&cluster.login("app"))?;
        after.must("DO SLEEP(0.01)")?;
        let own = "SELECT ID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()";
        threads.insert(after.rows(own)?);
        let reply = killer.query(&format!("KILL {id}"))?;
        assert_eq!(reply.error_code(), Some(1094));
        after.must("DO 1")?;
        after.quit()?;
    }
    assert!(threads.len() < ROUNDS, "no connection was used again");
    Ok(())
}

/// Ctrl-C sends a KILL QUERY with the id of the greeting over a connection of its own.
fn by_the_command_lines(cluster: &Cluster) -> Result<()> {
    let (program, off) = match cluster.vendor {
        Vendor::MariaDb => (program::mariadb(), "--skip-ssl"),
        Vendor::MySql => (program::mysql(), "--ssl-mode=DISABLED"),
    };
    let Some(program) = program else {
        skip::report("no command line of this vendor");
        return Ok(());
    };
    let proxy = Proxy::start(cluster)?;
    let (host, port) = proxy.host_and_port();
    let login = cluster.login("app");
    let options = |command: &mut Command| {
        command.args(["--no-defaults", off, "-h", host, "-P", port, "-u", &login.user]);
        command.arg(format!("-p{}", login.password));
    };
    let mut command = Command::new(&program);
    options(&mut command);
    let sql = format!("/* {} */ SELECT SLEEP(600), 1", skip::test_name());
    let mut child = command
        .args(["--comments", "-e", &sql])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    until_sleeping(cluster, 0, true)?;
    let interrupt = ["-s", "INT", &child.id().to_string()];
    assert!(Command::new("kill").args(interrupt).status()?.success());
    until_sleeping(cluster, 0, false)?;
    wait::until("the command line's end", || Ok(child.try_wait()?))?;

    let admin = program.with_file_name(match cluster.vendor {
        Vendor::MariaDb => "mariadb-admin",
        Vendor::MySql => "mysqladmin",
    });
    let mut victim = proxy.connect(&login)?;
    sleep(cluster, &mut victim, 0)?;
    let mut command = Command::new(&admin);
    options(&mut command);
    let id = victim.greeting.thread_id.to_string();
    program::run(command.args(["kill", &id]), "")?.good()?;
    assert!(victim.receive(CommandCode::QUERY).is_err());
    Ok(())
}
