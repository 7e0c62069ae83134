//! The smallest comparison there is, so that the script does not rot; and that the figures shown
//! are those that were measured. No figure of a real run is judged.

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Vendor, cluster, program, skip};
use std::{fs, path::Path, process::Command};

const HERE: &str = env!("CARGO_MANIFEST_DIR");
/// What stands in docs/performance.md around the figures.
const BEGIN: &str = "<!-- figures: tests/compare/render writes what follows -->";
const END: &str = "<!-- end of figures -->";

/// A row for each way of counting.
const ROWS: [&str; 4] = ["point-select/text/1", "connect", "upload", "idle-used"];
/// Those about what is answered from memory.
const PREDICTED: &str = "begin-read,begin-write,prepare,idle-prepared";

#[test]
fn mariadb() -> Result<()> {
    the_smallest_run(Vendor::MariaDb)
}

#[test]
fn mysql() -> Result<()> {
    the_smallest_run(Vendor::MySql)
}

fn the_smallest_run(vendor: Vendor) -> Result<()> {
    let rows = format!("{},{PREDICTED}", ROWS.join(","));
    let proxies = "copy,towpath,towpath-fast-forward,towpath-predict";
    let Some(result) = small(vendor, &rows, proxies)? else {
        return Ok(());
    };
    let figure = |row: &str, proxy: &str, number: &str| figure(&result, row, proxy, number);
    for proxy in ["direct", "copy", "towpath", "towpath-fast-forward"] {
        for row in &ROWS[..3] {
            ensure!(figure(row, proxy, "rate")? > 0.0, "{row} {proxy}");
        }
        ensure!(figure("point-select/text/1", proxy, "p50_us")? > 0.0, "{proxy}");
        ensure!(figure("connect", proxy, "p99_us")? > 0.0, "{proxy}");
    }
    for proxy in ["copy", "towpath", "towpath-fast-forward"] {
        // it may be less than the kernel counts
        figure("connect", proxy, "user_us")?;
        figure("connect", proxy, "system_us")?;
        if vendor == Vendor::MariaDb {
            figure("idle-used", proxy, "kb")?;
        }
    }
    for row in ["begin-read", "begin-write"] {
        for proxy in ["direct", "towpath", "towpath-predict"] {
            figure(row, proxy, "round_trips")?;
            ensure!(figure(row, proxy, "round_trip_us")? >= 2000.0, "1 ms each way");
        }
    }
    ensure!(figure("prepare", "towpath-predict", "p50_us")? > 0.0);
    ensure!(figure("prepare", "towpath", "p50_us").is_err(), "it is about answers from memory");
    if vendor == Vendor::MariaDb {
        figure("idle-prepared", "towpath-predict", "kb")?;
    }
    Ok(())
}

/// What telling a collector costs, and being asked for metrics.
#[test]
fn what_is_told_is_compared_too() -> Result<()> {
    let told = ["unsampled", "sampled", "traced", "metrics", "digests"];
    let told = told.map(|name| format!("towpath-{name}"));
    let proxies = format!("towpath,{}", told.join(","));
    let rows = "point-select/text/1,scrape";
    let Some(result) = small(Vendor::MariaDb, rows, &proxies)? else { return Ok(()) };
    for proxy in &told {
        ensure!(figure(&result, "point-select/text/1", proxy, "rate")? > 0.0, "{proxy}");
        figure(&result, "point-select/text/1", proxy, "user_us")?;
    }
    figure(&result, "scrape", "towpath-digests", "user_us")?;
    ensure!(figure(&result, "scrape", "towpath-unsampled", "user_us").is_err());
    Ok(())
}

/// The result of a small run; `None` after a report where something that it needs is not there.
fn small(vendor: Vendor, rows: &str, proxies: &str) -> Result<Option<serde_json::Value>> {
    if Cluster::find(vendor)?.is_none() {
        return Ok(None);
    }
    if program::sysbench().is_none() {
        skip::report("sysbench is not installed");
        return Ok(None);
    }
    let folder = tempfile::TempDir::with_prefix("towpath-smallest-")?;
    let file = folder.path().join("result.json");
    let server = cluster::cache().join(vendor.to_string()).join("env");
    let binaries = Path::new(env!("CARGO_BIN_EXE_load")).parent().context("a folder")?;
    let mut run = script("run");
    run.args(["--rows", rows, "--proxies", proxies, "--repetitions", "1"])
        .args(["--seconds", "1", "--part", "0.001", "--sessions", "20", "--seed", "1"])
        .arg("--server")
        .arg(server)
        .arg("--binaries")
        .arg(binaries)
        .arg("--json")
        .arg(&file);
    let shown = program::run(&mut run, "")?.good()?.stdout;
    assert!(shown.contains("Throughput against direct access"), "{shown}");
    Ok(Some(serde_json::from_str(&fs::read_to_string(&file)?)?))
}

/// A number of the first repetition.
fn figure(result: &serde_json::Value, row: &str, proxy: &str, number: &str) -> Result<f64> {
    let rows = result["rows"].as_array().context("rows")?;
    let found = rows.iter().find(|found| found["row"] == row);
    let figure = found.map(|found| &found["figures"][proxy][0][number]);
    let figure = figure.and_then(serde_json::Value::as_f64);
    figure.with_context(|| format!("no {number} of {proxy} for {row}"))
}

/// What a process and its child use is counted, and both end.
#[test]
fn processes_are_measured() -> Result<()> {
    let check = Path::new(HERE).join("tests/check_processes.py");
    program::run(Command::new("python3").arg(check).env("PYTHONPATH", HERE), "")?.good()?;
    Ok(())
}

/// Three repetitions of known numbers. Ratios are of the same repetition: the medians by
/// themselves would give 0.50 for the throughput, and 1.10 for the processor time.
#[test]
fn figures_are_of_the_same_repetition() -> Result<()> {
    let folder = tempfile::TempDir::with_prefix("towpath-smallest-")?;
    let page = folder.path().join("page.md");
    let picture = folder.path().join("picture.svg");
    fs::write(&page, format!("before\n{BEGIN}\nold\n{END}\nafter\n"))?;
    let mut render = script("render");
    render.arg(Path::new(HERE).join("tests/known.json"));
    render.arg("--page").arg(&page).arg("--svg").arg(&picture);
    program::run(&mut render, "")?.good()?;

    let shown = fs::read_to_string(&page)?;
    assert!(shown.starts_with(&format!("before\n{BEGIN}\n")), "{shown}");
    assert!(shown.ends_with(&format!("{END}\nafter\n")), "{shown}");
    assert!(!shown.contains("old"), "{shown}");
    let cells = |title: &str| -> Vec<String> {
        let table = shown.split("### ").find(|part| part.starts_with(title)).unwrap_or_default();
        let line = table.lines().find(|line| line.starts_with("| one load")).unwrap_or_default();
        line.split('|')
            .skip(2)
            .map(|cell| cell.trim().to_owned())
            .filter(|cell| !cell.is_empty())
            .collect()
    };
    let throughput = cells("Throughput");
    assert_eq!(throughput, ["200 query/s", "1.00", "0.80 (0.25 to 0.90)"], "{shown}");
    assert_eq!(cells("Processor time of the proxy against"), ["1.00", "1.20 (1.10 to 3.00)"]);
    assert_eq!(cells("p50 added"), ["0.00", "10.0 (-5.00 to 20.0)"]);
    assert!(fs::read_to_string(&picture)?.contains("one load"));
    Ok(())
}

#[test]
fn what_does_not_exist_is_refused() -> Result<()> {
    let said = program::run(script("run").args(["--list", "--rows", "connect,no-such-row"]), "")?;
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("nothing is called no-such-row"), "{}", said.stderr);
    Ok(())
}

/// The command lines of the page and of `--help` are understood.
#[test]
fn documented_commands_exist() -> Result<()> {
    let page = fs::read_to_string(Path::new(HERE).join("../../docs/performance.md"))?;
    let help = program::run(script("run").arg("--help"), "")?.good()?.stdout;
    let text = [page, help].concat();
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("tests/compare/run "));
    let mut count = 0;
    for line in lines {
        count += 1;
        let command = line.split('#').next().unwrap_or_default();
        let shell = format!("{HERE}/run --list {command}");
        program::run(Command::new("sh").arg("-c").arg(shell), "")?
            .good()
            .context(line.to_owned())?;
    }
    ensure!(count >= 5, "only {count} commands were found");
    Ok(())
}

fn script(name: &str) -> Command {
    Command::new(Path::new(HERE).join(name))
}
