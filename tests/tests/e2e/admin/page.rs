//! The page, in a browser: Chromium without a window, where there is one, led by `browser/page.py`.

use super::{CHAIN, start};
use anyhow::{Result, ensure};
use e2e::{Cluster, Proxy, Setup, program, skip};
use std::{
    path::Path,
    process::Command,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

on_both_vendors!(it_shows_what_there_is, it_asks_for_the_token);

/// Looks at the page until it shows these words. False where there is nothing to look with.
fn look(proxy: &Proxy, name: &str, token: &str, words: &[&str]) -> Result<()> {
    let browsers = ["chromium", "chromium-browser", "google-chrome"];
    let Some(browser) = browsers.iter().find_map(|name| program::on_path(name)) else {
        skip::report("there is no Chromium; apt-get install chromium");
        return Ok(());
    };
    let Some(python) = program::python() else {
        skip::report("there is no Python with what the browser needs; ./tests/run makes it");
        return Ok(());
    };
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let report = tests.join("report");
    std::fs::create_dir_all(&report)?;
    let output = Command::new(python)
        .arg(tests.join("browser/page.py"))
        .arg(format!("http://{}/", proxy.admin))
        .args([&browser, &report])
        .args([name, token])
        .args(words)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named 'playwright'") {
        skip::report("that Python has no playwright; ./tests/run installs it");
        return Ok(());
    }
    ensure!(output.status.success(), "{said}");
    for theme in ["light", "dark"] {
        let size = report.join(format!("{name}-{theme}.png")).metadata()?.len();
        ensure!(size > 20_000, "the screenshot has {size} bytes");
    }
    Ok(())
}

fn it_shows_what_there_is(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let schema = cluster.schema()?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t7 (id INT PRIMARY KEY, words VARCHAR(40))")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t7 VALUES (1, '<b>marked</b>')")?;
    let words = [
        "running",
        "hostgroup 0",
        cluster.addresses[0].as_str(),
        "session-commands",
        "µs",
        "dispatch",
        "transaction",
        "to replicas",
        "SELECT ? AS from_a_replica,?",
        "CREATE TABLE",
    ];
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let busy = scope.spawn(|| traffic(&proxy, cluster, &ended));
        let shown = look(&proxy, &format!("page-{}", cluster.vendor), "", &words);
        ended.store(true, Relaxed);
        shown.and(busy.join().expect("traffic does not panic"))
    })
}

/// Something to see.
fn traffic(proxy: &Proxy, cluster: &Cluster, ended: &AtomicBool) -> Result<()> {
    let mut client = proxy.connect(&cluster.admin())?;
    let mut number = 0_u32;
    while !ended.load(Relaxed) {
        number += 1;
        client.must(&format!("SELECT {number}"))?;
        client.must(&format!("/* hostgroup=1 */ SELECT {number} AS from_a_replica, 2"))?;
        // No more than there is to see.
        client.must("SELECT SLEEP(0.01)")?;
    }
    Ok(())
}

fn it_asks_for_the_token(cluster: &Cluster) -> Result<()> {
    const TOKEN: &str = "a-token-of-the-tests-1234";
    let proxy = Setup::of(cluster).admin(&format!("token = {TOKEN:?}")).append(CHAIN).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SELECT 1")?;
    look(&proxy, &format!("token-{}", cluster.vendor), TOKEN, &["Not counted.", "127.0.0.1"])
}
