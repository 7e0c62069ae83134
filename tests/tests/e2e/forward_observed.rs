//! Forwarded sessions that are observed, and what becomes of the ids of their statements.

use crate::forward::{count, is_forwarded, on_go, one};
use anyhow::{Result, ensure};
use e2e::{
    Client, Cluster, Proxy, Setup,
    transcript::{Transcript, same},
    wait,
};
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    every_byte_is_the_same_with_and_without,
    what_is_counted,
    a_change_of_user_is_followed,
    ids_are_translated_in_every_command,
    raw_ids_pass_as_they_are,
    raw_ids_that_are_the_servers,
);

/// A chain with these settings of the filter; `more` stands above it.
fn proxy(cluster: &Cluster, settings: &str, more: &str, backend: &str) -> Result<Proxy> {
    let chain = format!(
        "[chain.main]\nsession = [\n  {{ use = \"parse\" }},\n  {{ use = \"rules\", rules = [{}] }},\n  \
         {more}{{ use = \"fast-forward\"{settings} }},\n  {{ use = \"route\" }},\n]\n{backend}",
        on_go()
    );
    Setup::of(cluster).append(&chain).start()
}

const LOGGED: &str = "{ use = \"session-commands\" },\n  ";
const CATCH_UP: &str = "backend = [{ use = \"catch-up\" }]\n";

fn seen(proxy: &Proxy, command: &str) -> Result<u64> {
    count(proxy, &format!("towpath_observed_commands_total{{command=\"{command}\"}}"))
}

fn all_seen(proxy: &Proxy) -> Result<u64> {
    let metrics = proxy.get("/metrics")?;
    let lines = metrics.lines().filter(|line| line.starts_with("towpath_observed_commands_total{"));
    Ok(lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

fn stopped(proxy: &Proxy) -> Result<u64> {
    count(proxy, "towpath_observed_stopped_total")
}

/// Commands of every kind, with what is difficult to follow.
fn script(client: &mut Client, transcript: &mut Transcript) -> Result<()> {
    for sql in [
        "SELECT 'go'",
        "CREATE TABLE t (a INT, b LONGTEXT)",
        "INSERT INTO t VALUES (1, ''), (NULL, NULL), (3, REPEAT('x', 70000))",
        "SELECT b, a FROM t",
        "SELECT * FROM missing",
        "SELECT 1; SELECT a FROM t; DO 1; SELEC",
        "SELECT x.a, REPEAT('w', 900) FROM t x, t y, t z, t u, t v, t w",
    ] {
        transcript.add(sql, &client.query(sql)?);
    }
    let sql = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a)";
    transcript.add(sql, &client.upload(sql, "7\n".repeat(50_000).as_bytes())?);
    let statement = client.prepare("SELECT a, ? FROM t LIMIT 9")?;
    transcript.add("prepare", &statement.reply);
    client.long_data(&statement, 0, b"long")?;
    transcript.add("execute", &client.execute_with_long_data(&statement)?);
    transcript.add("cursor", &client.execute(&statement, 1, &[Some(b"v")])?);
    for rows in [4, 5, 1] {
        transcript.add("fetch", &client.fetch(&statement, rows)?);
    }
    transcript.add("reset", &client.statement_command(CommandCode::STMT_RESET, &statement)?);
    client.close_statement(&statement)?;
    for code in [CommandCode::PING, CommandCode::STATISTICS, CommandCode::RESET_CONNECTION] {
        let reply = client.command(code, b"")?;
        if code != CommandCode::STATISTICS {
            transcript.add(code.name(), &reply);
        }
    }
    let texts: Vec<_> = (0..9).map(|n| format!("SELECT {n}")).collect();
    let framed = texts.iter().map(|text| client.framed(CommandCode::QUERY, text.as_bytes()));
    let framed: Vec<u8> = framed.collect::<Vec<_>>().concat();
    client.send(&framed)?;
    for text in &texts {
        transcript.add(text, &client.receive(CommandCode::QUERY)?);
    }
    Ok(())
}

fn every_byte_is_the_same_with_and_without(cluster: &Cluster) -> Result<()> {
    for (settings, observes) in
        [("", false), (", observe = false", false), (", observe = true", true)]
    {
        for without in [Capabilities::EMPTY, Capabilities::DEPRECATE_EOF] {
            let proxy = proxy(cluster, settings, "", "")?;
            let login = cluster.admin().with(Capabilities::LOCAL_FILES);
            let login = login.with(Capabilities::MULTI_STATEMENTS).without(without);
            same(cluster, &proxy, &login, script)?;
            ensure!((all_seen(&proxy)? > 0) == observes, "{settings}");
            ensure!(stopped(&proxy)? == 0, "{settings}: it was lost");
            if observes {
                // 7 statements, the file's, and 9 at once.
                ensure!(seen(&proxy, "COM_QUERY")? == 17, "{}", seen(&proxy, "COM_QUERY")?);
                ensure!(seen(&proxy, "COM_STMT_FETCH")? == 3);
                ensure!(seen(&proxy, "COM_STMT_CLOSE")? == 1);
                // SELECT * FROM missing, SELEC
                let errors = count(&proxy, "towpath_observed_errors_total")?;
                ensure!(errors == 2, "{errors} errors");
            }
        }
    }
    Ok(())
}

fn what_is_counted(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, ", observe = true", "", "")?;
    let mut client = proxy.connect(&cluster.login("app"))?;
    client.must("SELECT 1")?;
    ensure!(all_seen(&proxy)? == 0, "the chain's own are not observed");
    client.must("SELECT 'go'")?;
    ensure!(seen(&proxy, "COM_QUERY")? == 1, "the trigger is the first");
    ensure!(client.query("SELEC")?.error_code() == Some(1064));
    client.command(CommandCode::PING, b"")?;
    ensure!(seen(&proxy, "COM_QUERY")? == 2 && seen(&proxy, "COM_PING")? == 1);
    ensure!(count(&proxy, "towpath_observed_errors_total")? == 1);
    ensure!(count(&proxy, "towpath_observed_command_duration_seconds_count")? == 3);
    client.quit()?;
    wait::until("the goodbye", || Ok((seen(&proxy, "COM_QUIT")? == 1).then_some(())))?;
    ensure!(stopped(&proxy)? == 0);
    Ok(())
}

fn a_change_of_user_is_followed(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, ", observe = true", "", "")?;
    let told = [("program_name", "forward")];
    let mut client = proxy.connect(&cluster.login("app").attributes(&told))?;
    client.must("SELECT 'go'")?;
    client.change_user(&cluster.admin().attributes(&told))?;
    ensure!(one(&mut client, "SELECT CURRENT_USER()")?.starts_with("admin"));
    ensure!(seen(&proxy, "COM_CHANGE_USER")? == 1 && seen(&proxy, "COM_QUERY")? == 2);
    ensure!(stopped(&proxy)? == 0);
    client.quit()
}

fn ids_are_translated_in_every_command(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, ", prepared_statements = \"translate\"", LOGGED, CATCH_UP)?;
    let login = cluster.admin().with(Capabilities::LOCAL_FILES);
    same(cluster, &proxy, &login, |client, transcript| {
        let table = "CREATE TABLE t (a VARBINARY(20))";
        transcript.add(table, &client.query(table)?);
        let first = client.prepare("SELECT ? AS v")?;
        let [other, fetched] =
            [client.prepare("SELECT a FROM t")?, client.prepare("SELECT a FROM t")?];
        transcript.add("go", &client.query("SELECT 'go'")?);
        transcript.add("execute", &client.execute(&first, 0, &[Some(b"v")])?);
        client.long_data(&first, 0, b"long")?;
        transcript.add("long data", &client.execute_with_long_data(&first)?);
        // What the file says looks like a command on the statement.
        let id = first.id().to_le_bytes();
        let file = [&[CommandCode::STMT_EXECUTE.0][..], &id, b"ends"].concat();
        // Any byte may be in an id: none separates anything.
        let sql = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t CHARACTER SET binary \
                   FIELDS TERMINATED BY 'never' ESCAPED BY '' LINES TERMINATED BY 'ends'";
        transcript.add("file", &client.upload(sql, &file)?);
        let stored = one(client, "SELECT HEX(LEFT(a, 5)) FROM t")?;
        let sent: String = file[..5].iter().map(|byte| format!("{byte:02X}")).collect();
        ensure!(stored == sent, "{stored} instead of {sent}");
        client.must("UPDATE t SET a = 'the same'")?;
        transcript.add("cursor", &client.execute(&fetched, 1, &[])?);
        transcript.add("fetch", &client.fetch(&fetched, 9)?);
        transcript.add("reset", &client.statement_command(CommandCode::STMT_RESET, &fetched)?);
        client.close_statement(&first)?;
        transcript.add("behind a close", &client.execute(&other, 0, &[])?);
        client.close_statement(&other)?;
        client.close_statement(&fetched)?;
        transcript.add_code("gone", &client.execute(&other, 0, &[])?);
        Ok(())
    })
}

fn raw_ids_pass_as_they_are(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, ", prepared_statements = \"raw\"", LOGGED, CATCH_UP)?;
    let mut client = proxy.connect(&cluster.login("app"))?;
    let before = client.prepare("SELECT 11 + 4")?;
    ensure!(before.id() >= 1 << 31, "the id is the session's");
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    let unknown = client.execute(&before, 0, &[])?;
    ensure!(unknown.error_code() == Some(1243), "{:?}", unknown.error());
    let after = client.prepare("SELECT 11 + 4")?;
    ensure!(after.id() < 1 << 31, "the id is the server's");
    ensure!(client.execute(&after, 0, &[])?.error().is_none());
    client.quit()
}

/// Without `session-commands` the ids are the server's all the time.
fn raw_ids_that_are_the_servers(cluster: &Cluster) -> Result<()> {
    let proxy = proxy(cluster, ", prepared_statements = \"raw\"", "", "")?;
    let mut client = proxy.connect(&cluster.login("app"))?;
    let before = client.prepare("SELECT 11 + 4")?;
    client.must("SELECT 'go'")?;
    ensure!(is_forwarded(&mut client)?);
    ensure!(client.execute(&before, 0, &[])?.error().is_none());
    client.quit()
}
