//! What makes a session leave its chain: each predicate of a rule, each kind of command, at each
//! moment of a session. And that a server is given the command once.

use crate::forward::{count, is_forwarded, on_go, one, with_rules};
use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Cluster, Login, Proxy, Setup, Throwaway,
    client::{Reply, Statement},
};
use std::net::Ipv4Addr;
use wire::{Capabilities, CommandCode, packet::MAX_PAYLOAD};

on_both_vendors!(
    each_predicate_about_a_session_is_a_trigger,
    each_predicate_about_a_statement_is_a_trigger,
    any_command_at_any_moment,
    commands_without_a_reply_come_first,
    a_server_is_given_the_trigger_once,
    a_bad_attribute_keeps_the_rules_of_before,
);

const SWITCH: &str = "attributes = { switch_to_fast_forward = true }, apply = true";

fn switches(proxy: &Proxy) -> Result<u64> {
    count(proxy, "towpath_fast_forward_total{chain=\"main\",cause=\"rule\"}")
}

fn each_predicate_about_a_session_is_a_trigger(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let admin = cluster.admin();
    let from = |last| admin.clone().from(Ipv4Addr::new(127, 0, 7, last));
    let inside = admin.clone().schema(&schema.name);
    for (predicate, has, lacks) in [
        ("username = 'app'".to_owned(), cluster.login("app"), admin.clone()),
        (format!("schemaname = '{}'", schema.name), inside, admin.clone()),
        ("client_addr = '127.0.7.3'".to_owned(), from(3), from(4)),
        ("client_addr = '127.0.7.0/30'".to_owned(), from(3), from(4)),
        ("client_addr = '127.0.7.%'".to_owned(), from(4), admin.clone()),
    ] {
        let rule = format!("{{ rule_id = 1, {predicate}, {SWITCH} }}");
        let proxy = with_rules(cluster, &rule).start()?;
        for (login, expected) in [(lacks, 0), (has, 1)] {
            let mut client = proxy.connect(&login)?;
            client.must("SELECT 1")?;
            ensure!(is_forwarded(&mut client)? == (expected == 1), "{predicate}, {login:?}");
            ensure!(switches(&proxy)? == expected, "{predicate}, {login:?}");
            client.quit()?;
        }
    }
    Ok(())
}

fn each_predicate_about_a_statement_is_a_trigger(cluster: &Cluster) -> Result<()> {
    let labels = format!(
        "{{ rule_id = 1, match_pattern = 'one', flagOUT = 3 }}, \
         {{ rule_id = 2, flagIN = 3, match_digest = '^SELECT', {SWITCH} }}"
    );
    let alone = |predicate: &str| format!("{{ rule_id = 1, {predicate}, {SWITCH} }}");
    for (rules, has, lacks) in [
        (alone("digest = '0x1C46AE529DD5A40E'"), "SELECT 7", "SELECT 7, 7"),
        (alone("match_digest = '^SELECT [?],[?]$'"), "SELECT 7, 7", "SELECT 7 /* , 7 */"),
        (alone("match_pattern = 'now'"), "SELECT 7 /* now */", "SELECT 7"),
        (alone("match_digest = '^SELECT [?]$', negate_match_pattern = true"), "DO 7", "SELECT 7"),
        (labels, "SELECT 'one'", "DO 'one'"),
    ] {
        let proxy = with_rules(cluster, &rules).start()?;
        let mut client = proxy.connect(&cluster.login("app"))?;
        client.must(lacks)?;
        ensure!(switches(&proxy)? == 0, "{rules}: {lacks}");
        client.must(has)?;
        ensure!(switches(&proxy)? == 1 && is_forwarded(&mut client)?, "{rules}: {has}");
        client.quit()?;
    }
    Ok(())
}

/// When the trigger comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    First,
    Hundredth,
    InTransaction,
}

/// With state that stays on its connection, and with state in a log.
const CHAINS: [(&str, &str); 2] =
    [("", ""), ("{ use = \"session-commands\" },", "backend = [{ use = \"catch-up\" }]")];

/// The command behind one with `now` in it is a trigger; with `Moment::First` each one is.
fn rules(moment: Moment) -> String {
    match moment {
        Moment::First => format!("{{ rule_id = 1, {SWITCH} }}"),
        _ => format!(
            "{{ rule_id = 1, match_pattern = 'now', next_query_flagIN = 1, apply = true }}, \
             {{ rule_id = 2, flagIN = 1, {SWITCH} }}"
        ),
    }
}

fn any_command_at_any_moment(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let login = cluster.admin().schema(&schema.name);
    let login = login.with(Capabilities::LOCAL_FILES).with(Capabilities::MULTI_STATEMENTS);
    cluster.direct()?.must(&format!("CREATE TABLE {}.t (a INT)", schema.name))?;
    for (state, backend) in CHAINS {
        for moment in [Moment::First, Moment::Hundredth, Moment::InTransaction] {
            let chain = format!(
                "[chain.main]\nsession = [\n{{ use = \"parse\" }},\n{{ use = \"rules\", rules = [{}] }},\n\
                 {state}\n{{ use = \"fast-forward\" }},\n{{ use = \"route\" }},\n]\n{backend}\n",
                rules(moment)
            );
            let proxy = Setup::of(cluster).append(&chain).start()?;
            for what in TRIGGERS {
                let of_statement = ["execute", "cursor"].contains(&what);
                if moment == Moment::First && of_statement {
                    continue; // there is none yet
                }
                leaves_with(&proxy, &login, &schema.name, what, moment)
                    .with_context(|| format!("{what}, {moment:?}, {state}"))?;
            }
        }
    }
    Ok(())
}

const TRIGGERS: [&str; 12] = [
    "text",
    "texts",
    "file",
    "prepare",
    "execute",
    "cursor",
    "schema",
    "ping",
    "statistics",
    "reset",
    "option",
    "fields",
];

fn leaves_with(
    proxy: &Proxy,
    login: &Login,
    schema: &str,
    what: &str,
    moment: Moment,
) -> Result<()> {
    let before = switches(proxy)?;
    let mut client = proxy.connect(login)?;
    let mut statement = None;
    if moment != Moment::First {
        statement = Some(client.prepare("SELECT 11 + 4 AS fifteen")?);
        if moment == Moment::InTransaction {
            client.must("BEGIN")?;
            client.must("INSERT INTO t VALUES (1)")?;
        } else {
            (0..97).try_for_each(|n| client.must(&format!("SELECT {n}")))?;
        }
        client.must("SELECT 'now'")?;
        ensure!(switches(proxy)? == before, "too early");
    }
    let reply = say(&mut client, schema, what, statement.as_ref())?;
    ensure!(reply.error().is_none(), "{:?}", reply.error());
    ensure!(switches(proxy)? == before + 1, "it has not left");
    ensure!(is_forwarded(&mut client)?);
    if what == "cursor" {
        let statement = statement.as_ref().context("it was prepared")?;
        ensure!(client.fetch(statement, 9)?.error().is_none());
    }
    if moment == Moment::InTransaction {
        client.must("ROLLBACK")?;
        ensure!(one(&mut client, "SELECT COUNT(*) FROM t")? == "0", "not in its transaction");
    }
    client.must("DELETE FROM t")?;
    client.quit()
}

fn say(
    client: &mut Client,
    schema: &str,
    what: &str,
    statement: Option<&Statement>,
) -> Result<Reply> {
    let statement = || statement.context("it was prepared");
    match what {
        "text" => client.query("SELECT 1"),
        "texts" => client.query("SELECT 1; DO 2; SELECT 3"),
        "file" => client.upload("LOAD DATA LOCAL INFILE 'x' INTO TABLE t", b"7\n8\n"),
        "prepare" => Ok(client.prepare("SELECT ?")?.reply),
        "execute" => client.execute(statement()?, 0, &[]),
        "cursor" => client.execute(statement()?, 1, &[]),
        "schema" => client.command(CommandCode::INIT_DB, schema.as_bytes()),
        "fields" => client.command(CommandCode::FIELD_LIST, b"t\0"),
        "ping" => client.command(CommandCode::PING, b""),
        "statistics" => client.command(CommandCode::STATISTICS, b""),
        "reset" => client.command(CommandCode::RESET_CONNECTION, b""),
        "option" => client.command(CommandCode::SET_OPTION, &[1, 0]),
        _ => anyhow::bail!("{what} is not known here"),
    }
}

/// Nobody answers them, and the session is forwarded all the same.
fn commands_without_a_reply_come_first(cluster: &Cluster) -> Result<()> {
    let admin = cluster.admin();
    let user = format!(
        "[[user]]\nname = {:?}\npassword = {:?}\nhostgroup = 0\nfast_forward = true\n",
        admin.user, admin.password
    );
    let always = "[chain.main]\nsession = [{ use = \"fast-forward\", always = true }]\n";
    for (setup, cause) in [
        (Setup::of(cluster).append(always), "always"),
        (with_rules(cluster, &on_go()).no_users().append(&user), "user"),
    ] {
        let proxy = setup.start()?;
        for code in [CommandCode::STMT_CLOSE, CommandCode::STMT_SEND_LONG_DATA] {
            let mut client = proxy.connect(&admin)?;
            client.send_command(code, &[7, 0, 0, 0, 0, 0])?;
            if code == CommandCode::STMT_SEND_LONG_DATA {
                // No server answers it for a statement that there is not, or all do with the next.
                client.send_command(CommandCode::STMT_CLOSE, &[7, 0, 0, 0])?;
            }
            ensure!(is_forwarded(&mut client)?, "{cause}, {code:?}");
            client.quit()?;
        }
        let series = format!("towpath_fast_forward_total{{chain=\"main\",cause=\"{cause}\"}}");
        ensure!(count(&proxy, &series)? == 2, "{cause}");
    }
    Ok(())
}

/// The server's own log says so: of every kind and size, with commands behind it and without.
fn a_server_is_given_the_trigger_once(cluster: &Cluster) -> Result<()> {
    let server = Throwaway::start_with(cluster.vendor, "max-allowed-packet=128M")?;
    let proxy = with_rules(&server.cluster, &rules(Moment::Hundredth)).start()?;
    let start = || -> Result<Client> {
        let mut client = proxy.connect(&server.cluster.admin())?;
        client.must("SELECT 'now'")?;
        Ok(client)
    };
    for (mark, size) in [("small_one", 0), ("whole_one", MAX_PAYLOAD), ("large_one", 40 << 20)] {
        let mut client = start()?;
        let mut text = format!("SELECT '{mark}', LENGTH('')");
        let room = size.saturating_sub(text.len() + 1);
        text.insert_str(text.len() - 2, &"x".repeat(room));
        // ten more behind it, in one write
        let behind: Vec<_> = (0..10).map(|n| format!("SELECT 'behind_{mark}_{n}'")).collect();
        let mut bytes = client.framed(CommandCode::QUERY, text.as_bytes());
        for text in &behind {
            bytes.extend(client.framed(CommandCode::QUERY, text.as_bytes()));
        }
        client.send(&bytes)?;
        for _ in 0..=behind.len() {
            let reply = client.receive(CommandCode::QUERY)?;
            ensure!(reply.error().is_none(), "{mark}: {:?}", reply.error());
        }
        ensure!(is_forwarded(&mut client)?);
        client.quit()?;
        let log = server.log()?;
        ensure!(log.matches(&format!("SELECT '{mark}'")).count() == 1, "{mark}");
        let places = behind.iter().map(|text| log.find(text.as_str()));
        let places = places.collect::<Option<Vec<_>>>().context("one was lost")?;
        ensure!(places.is_sorted(), "{places:?}");
        ensure!(log.matches(&format!("behind_{mark}_")).count() == behind.len(), "{mark}");
    }
    let mut client = start()?;
    let statement = client.prepare("SELECT 'prepared_once'")?;
    ensure!(is_forwarded(&mut client)? && statement.reply.error().is_none());
    ensure!(server.times_given("prepared_once")? == 1);
    client.quit()?;
    let mut client = proxy.connect(&server.cluster.admin())?;
    let statement = client.prepare("SELECT 'executed_once'")?;
    client.must("SELECT 'now'")?;
    client.execute(&statement, 0, &[])?;
    ensure!(is_forwarded(&mut client)?);
    let log = server.log()?;
    let given = log.lines().filter(|line| line.contains("executed_once"));
    let executed = given.filter(|line| line.contains("Execute")).count();
    ensure!(executed == 1, "{executed} times");
    client.quit()
}

fn a_bad_attribute_keeps_the_rules_of_before(cluster: &Cluster) -> Result<()> {
    let proxy = with_rules(cluster, &on_go()).start()?;
    let good = std::fs::read_to_string(proxy.config())?;
    for (bad, says) in [
        ("{ switch_to_fast_forward = \"true\" }", "expected true or false"),
        ("{ switch_to_fast_forward = 1 }", "expected true or false"),
        ("{ switch_to_fastforward = true }", "switch_to_fastforward"),
        ("'{\"switch_to_fast_forward\": true'", "wrong JSON"),
    ] {
        proxy.edit(|_| good.replace("{ switch_to_fast_forward = true }", bad))?;
        let (status, answer) = proxy.post("/reload", "{}")?;
        ensure!(status == 422 && answer.contains("rule 1"), "{bad}: {status} {answer}");
        ensure!(answer.contains(says) && answer.contains("\"line\""), "{bad}: {answer}");
        let before = switches(&proxy)?;
        let mut client = proxy.connect(&cluster.login("app"))?;
        client.must("SELECT 'go'")?;
        ensure!(switches(&proxy)? == before + 1 && is_forwarded(&mut client)?, "{bad}");
        client.quit()?;
    }
    Ok(())
}
