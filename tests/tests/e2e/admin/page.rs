//! The page, in a browser: Chromium without a window, where there is one.

use super::start;
use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Proxy, skip};
use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

on_both_vendors!(it_shows_what_there_is);

fn browser() -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let paths = std::env::split_paths(&folders);
    paths.flat_map(|folder| names.map(|name| folder.join(name))).find(|path| path.is_file())
}

/// Opens the page for a few seconds.
fn open(browser: &Path, proxy: &Proxy, more: &[&str]) -> Result<Output> {
    let folder = proxy.file("browser");
    let output = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--hide-scrollbars", "--no-first-run", "--disable-background-networking"])
        .args(["--enable-logging=stderr", "--timeout=6000", "--window-size=1400,2600"])
        .arg(format!("--user-data-dir={}", folder.display()))
        .args(more)
        .arg(format!("http://{}/", proxy.admin))
        .output()?;
    let log = String::from_utf8_lossy(&output.stderr);
    let said: Vec<_> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    ensure!(said.is_empty(), "the page has said to the console: {said:#?}");
    ensure!(output.status.success(), "{log}");
    Ok(output)
}

fn it_shows_what_there_is(cluster: &Cluster) -> Result<()> {
    let Some(browser) = browser() else {
        skip::report("there is no Chromium; apt-get install chromium");
        return Ok(());
    };
    let proxy = start(cluster)?;
    let schema = cluster.schema()?;
    let mut client = proxy.connect(&cluster.admin().schema(&schema.name))?;
    client.must("CREATE TABLE t7 (id INT PRIMARY KEY, words VARCHAR(40))")?;
    client.must("BEGIN")?;
    client.must("INSERT INTO t7 VALUES (1, '<b>marked</b>')")?;
    let ended = AtomicBool::new(false);
    let shown = std::thread::scope(|scope| {
        scope.spawn(|| traffic(&proxy, cluster, &ended));
        let shown = look(&browser, &proxy, cluster);
        ended.store(true, Relaxed);
        shown
    });
    shown
}

/// Something to see.
fn traffic(proxy: &Proxy, cluster: &Cluster, ended: &AtomicBool) -> Result<()> {
    let mut client = proxy.connect(&cluster.admin())?;
    let mut number = 0_u32;
    while !ended.load(Relaxed) {
        number += 1;
        client.must(&format!("SELECT {number}"))?;
        client.must(&format!("/* hostgroup=1 */ SELECT {number} AS from_a_replica, 2"))?;
        if number % 20 == 0 {
            client.must("SELECT SLEEP(0.01)")?;
        }
    }
    Ok(())
}

fn look(browser: &Path, proxy: &Proxy, cluster: &Cluster) -> Result<()> {
    let page = String::from_utf8(open(browser, proxy, &["--dump-dom"])?.stdout)?;
    let count = page.split("data-overviews=\"").nth(1).and_then(|rest| rest.split('"').next());
    let count: u32 = count.context("no overview was shown")?.parse()?;
    ensure!(count >= 2, "{count} overviews in six seconds");
    for words in [
        "running",
        "hostgroup 0",
        &cluster.addresses[0],
        "session-commands",
        "transaction",
        "to replicas",
        "SELECT ? AS from_a_replica,?",
        "<path class=\"trace\"",
    ] {
        ensure!(page.contains(words), "{words:?} is not on the page");
    }
    ensure!(!page.contains("marked"), "a value is on the page");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("report");
    std::fs::create_dir_all(&folder)?;
    for (theme, more) in [("light", None), ("dark", Some("--force-dark-mode"))] {
        let file = folder.join(format!("page-{}-{theme}.png", cluster.vendor));
        let _ = std::fs::remove_file(&file);
        let screenshot = format!("--screenshot={}", file.display());
        let more: Vec<_> = [screenshot.as_str()].into_iter().chain(more).collect();
        open(browser, proxy, &more)?;
        ensure!(file.metadata()?.len() > 20_000, "{} is empty", file.display());
    }
    Ok(())
}
