//! Results from memory, between real servers.

use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, cluster::Schema};
use wire::CommandCode;

on_both_vendors!(
    an_answer_from_memory_is_the_servers_byte_by_byte,
    what_a_session_has_set_keeps_it_apart,
    a_transaction_reads_for_itself,
    hits_are_counted,
);

const CHAIN: &str = r#"
[chain.main]
session = [
  { use = "parse" },
  { use = "rules", rules = [{ rule_id = 1, match_digest = "FROM kept", cache_ttl = 3600000 }] },
  STATE
  { use = "cache" },
  { use = "route" },
]
"#;

/// A proxy that keeps what is read from the table `kept`, which is in a schema of the test's own.
fn start(cluster: &Cluster, with_state: bool) -> Result<Proxy> {
    let (state, below) = match with_state {
        true => ("{ use = \"session-commands\" },", "backend = [{ use = \"catch-up\" }]\n"),
        false => ("", ""),
    };
    Setup::of(cluster).append(&format!("{}{below}", CHAIN.replace("STATE", state))).start()
}

/// Makes the table in the schema; gives a connection to it.
fn table(cluster: &Cluster, schema: &Schema) -> Result<Client> {
    let mut direct = cluster.direct()?;
    for sql in [
        &*format!("USE {}", schema.name),
        "CREATE TABLE kept (id INT PRIMARY KEY, at TIMESTAMP NULL, v VARCHAR(20))",
        "INSERT INTO kept VALUES (1, '2026-01-01 12:00:00', 'first'), (2, NULL, NULL)",
    ] {
        direct.must(sql)?;
    }
    Ok(direct)
}

fn an_answer_from_memory_is_the_servers_byte_by_byte(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut direct = table(cluster, &schema)?;
    let proxy = start(cluster, false)?;
    let login = cluster.admin().schema(&schema.name);
    let (mut one, mut two) = (proxy.connect(&login)?, proxy.connect(&login)?);
    let sql = "SELECT id, at, v FROM kept ORDER BY id";
    let expected = direct.query(sql)?.raw;
    ensure!(one.query(sql)?.raw == expected, "the first answer differs from the server's");
    direct.must("UPDATE kept SET v = 'second'")?;
    for client in [&mut one, &mut two] {
        ensure!(client.query(sql)?.raw == expected, "the answer from memory differs");
    }
    let other = "SELECT id, at, v FROM kept ORDER BY id DESC";
    ensure!(
        one.query(other)?.raw == direct.query(other)?.raw,
        "another text has an answer of its own"
    );
    one.quit()?;
    two.quit()
}

fn what_a_session_has_set_keeps_it_apart(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut direct = table(cluster, &schema)?;
    for with_state in [false, true] {
        let proxy = start(cluster, with_state)?;
        let login = cluster.admin().schema(&schema.name);
        let sql = "SELECT at FROM kept WHERE id = 1";
        let mut plain = proxy.connect(&login)?;
        plain.query(sql)?;
        let mut client = proxy.connect(&login)?;
        for set in ["SET time_zone = '+05:00'", "SET time_zone = '-05:00'", "SET sql_mode = ''"] {
            direct.must(set)?;
            client.must(set)?;
            let expected = direct.rows(sql)?;
            for _ in 0..2 {
                ensure!(client.rows(sql)? == expected, "{set}, with state: {with_state}");
            }
        }
        direct.command(CommandCode::RESET_CONNECTION, &[])?;
        client.command(CommandCode::RESET_CONNECTION, &[])?;
        direct.must(&format!("USE {}", schema.name))?;
        ensure!(client.rows(sql)? == plain.rows(sql)?, "reset, with state: {with_state}");
        plain.quit()?;
        client.quit()?;
    }
    direct.quit()
}

fn a_transaction_reads_for_itself(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut direct = table(cluster, &schema)?;
    let proxy = start(cluster, true)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    let sql = "SELECT v FROM kept WHERE id = 1";
    let before = client.rows(sql)?;
    client.must("BEGIN")?;
    client.must("UPDATE kept SET v = 'mine' WHERE id = 1")?;
    let mine = client.rows(sql)?;
    ensure!(mine != before, "a transaction does not see what it has written");
    client.must("ROLLBACK")?;
    ensure!(client.rows(sql)? == before, "what was rolled back was kept");
    client.must("SET autocommit = 0")?;
    direct.must("UPDATE kept SET v = 'theirs' WHERE id = 1")?;
    ensure!(client.rows(sql)? != before, "without autocommit each read is in a transaction");
    client.must("ROLLBACK")?;
    client.quit()?;
    direct.quit()
}

fn hits_are_counted(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let direct = table(cluster, &schema)?;
    let proxy = start(cluster, false)?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    for sql in ["SELECT v FROM kept", "SELECT v FROM kept", "SELECT RAND() FROM kept", "SELECT 1"] {
        client.query(sql)?;
    }
    for (result, count) in [("hit", 1), ("miss", 1), ("unfit", 1)] {
        let sample =
            format!("towpath_cache_lookups_total{{chain=\"main\",result=\"{result}\"}} {count}");
        ensure!(proxy.get("/metrics")?.contains(&sample), "no {sample} in /metrics");
    }
    client.quit()?;
    direct.quit()
}
