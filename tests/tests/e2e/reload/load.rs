//! Reloads under load: no query fails, and nothing is left behind.

use super::with_user;
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Held, Login, Proxy, Scale, Schema, Setup, wait};
use std::{
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    thread,
};

on_both_vendors!(no_query_fails_and_nothing_is_left,);

pub(super) const CHAIN: &str = "[chain.main]\nsession = [\n{ use = \"parse\" },\n{ use = \"rules\", rules = [\n\
    { rule_id = 1, match_digest = \"^SELECT @@server_id\", destination_hostgroup = 1, apply = true },\n\
    # more\n] },\n{ use = \"session-commands\" },\n{ use = \"route\" },\n]\n\
    backend = [{ use = \"catch-up\" }]\n";

/// One session after the other: reads, writes, transactions, prepared statements.
fn work(
    proxy: &str,
    login: &Login,
    row: usize,
    over: &AtomicBool,
    done: &AtomicUsize,
) -> Result<()> {
    let mut session = 0;
    while !over.load(Relaxed) {
        let mut client = e2e::Client::connect(proxy, login).context("a login")?;
        session += 1;
        client.must(&format!("SET @mine = {row}, sql_mode = 'ANSI_QUOTES'"))?;
        let prepared = client.prepare("SELECT a + ? FROM t WHERE id = 0")?;
        for turn in 0..20 {
            client.must("SELECT @@server_id")?;
            client.must("BEGIN")?;
            client.must(&format!("UPDATE t SET a = a + 1 WHERE id = {row}"))?;
            client.must("SELECT @@server_id, 'in a transaction'")?;
            client.must("COMMIT")?;
            client.execute(&prepared, 0, &[Some(b"1")])?;
            let rows = client.rows("SELECT @mine, @@sql_mode")?;
            let kept = rows == [[Some(row.to_string()), Some("ANSI_QUOTES".to_owned())]];
            ensure!(kept, "session {session} of {row}, turn {turn}: {rows:?}");
            done.fetch_add(1, Relaxed);
        }
        client.quit()?;
    }
    Ok(())
}

/// Another file each time: rules, servers, chains, users, certificates.
pub(super) fn change(text: &str, turn: usize, replica: &str) -> String {
    let mut text = text.to_owned();
    if turn % 2 == 1 {
        let rule =
            format!("{{ rule_id = {}, match_digest = 'x{turn}', error_msg = 'no' }},\n", turn + 1);
        text = text.replace("# more\n", &(rule + "# more\n"));
    }
    match turn % 5 {
        1 => text = text.replace(replica, &format!("{replica}weight = {}\n", turn + 1)),
        2 => text = text.replace(replica, "# gone\n"),
        3 => {
            text = text.replace("{ use = \"route\" }", "{ use = \"sticky\" }, { use = \"route\" }")
        }
        4 => text = text.replace(replica, &format!("{replica}max_connections = {}\n", 500 + turn)),
        _ => {}
    }
    if turn % 3 == 1 { with_user(text) } else { text }
}

/// A certificate and its key for the listener, written into a folder, and the setting that names them.
/// Every second time it comes with its authority's.
pub(super) fn with_certificates(cluster: &Cluster, folder: &Path, turn: usize) -> Result<String> {
    let (certificate, key) = cluster.certificates.of_server();
    let (new_certificate, new_key) = (folder.join("cert.pem"), folder.join("key.pem"));
    let mut chain = fs::read(certificate)?;
    if turn % 2 == 1 {
        chain.extend(fs::read(&cluster.certificates.ca)?);
    }
    fs::write(&new_certificate, chain)?;
    fs::copy(key, &new_key)?;
    Ok(format!(
        "tls = {{ mode = \"prefer\", certificate = {new_certificate:?}, key = {new_key:?} }}"
    ))
}

fn run(
    cluster: &Cluster,
    proxy: &Proxy,
    schema: &Schema,
    folder: &Path,
    reloads: usize,
) -> Result<()> {
    let replica = format!("[[server]]\nhostgroup = 1\naddress = {:?}\n", cluster.addresses[1]);
    let original = fs::read_to_string(proxy.config())?;
    ensure!(original.contains(&replica), "{original}");
    let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let login = cluster.admin().tls().schema(&schema.name);
    let workers: Vec<_> = (0..32)
        .map(|row| {
            let (address, login) = (proxy.address.clone(), login.clone());
            let (over, done) = (over.clone(), done.clone());
            thread::spawn(move || work(&address, &login, row, &over, &done))
        })
        .collect();
    for turn in 1..=reloads {
        proxy.edit(|_| change(&original, turn, &replica))?;
        with_certificates(cluster, folder, turn)?;
        let answer = proxy.reload().with_context(|| format!("reload {turn}"));
        let before = done.load(Relaxed);
        let waited = wait::until("work between two reloads", || {
            let broken = workers.iter().any(|worker| worker.is_finished());
            Ok((done.load(Relaxed) > before || broken).then_some(()))
        });
        if answer.is_err() || waited.is_err() || workers.iter().any(|one| one.is_finished()) {
            over.store(true, Relaxed);
            for worker in workers {
                worker
                    .join()
                    .expect("it does not panic")
                    .with_context(|| format!("turn {turn}"))?;
            }
            return answer.map(drop).and(waited);
        }
    }
    over.store(true, Relaxed);
    for worker in workers {
        worker.join().expect("it does not panic")?;
    }
    proxy.edit(|_| original)?;
    proxy.reload().map(drop)
}

fn no_query_fails_and_nothing_is_left(cluster: &Cluster) -> Result<()> {
    let reloads = if Scale::of_this_run() > Scale::Fast { 100 } else { 10 };
    let schema = cluster.schema()?;
    let folder = tempfile::TempDir::with_prefix("towpath-certificates-")?;
    let tls = with_certificates(cluster, folder.path(), 0)?;
    let proxy = Setup::of(cluster).listener(&tls).append(CHAIN).start()?;
    let mut direct = cluster.direct()?;
    let name = &schema.name;
    direct.must(&format!("CREATE TABLE {name}.t (id INT PRIMARY KEY, a INT) ENGINE = InnoDB"))?;
    let rows: Vec<_> = (0..32).map(|row| format!("({row}, 0)")).collect();
    direct.must(&format!("INSERT INTO {name}.t VALUES {}", rows.join(", ")))?;
    let held = Held::at_start(&proxy)?;
    run(cluster, &proxy, &schema, folder.path(), reloads / 5)?;
    let (_, before) = proxy.memory()?;
    run(cluster, &proxy, &schema, folder.path(), reloads - reloads / 5)?;
    held.until_again(&proxy)?;
    let (_, after) = proxy.memory()?;
    ensure!(after < before + before / 2 + (16 << 20), "from {before} to {after} bytes");
    Ok(())
}
