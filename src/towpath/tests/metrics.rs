//! The table of metrics in `docs/metrics.md` is made from the program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use proxy::config::Config;
use std::{fs, path::Path};

/// A chain of all filters that may count something.
const EVERYTHING: &str = r#"
admin = { address = "127.0.0.1:0" }
listener = [{ address = "127.0.0.1:0", chain = "main" }]
user = [{ name = "app", password = "", hostgroup = 0 }]
server = [{ name = "db1", hostgroup = 0, address = "127.0.0.1:1" }]

[chain.main]
session = [
    { use = "parse" },
    { use = "rules", rules = [{ rule_id = 7, cache_ttl = 1000, apply = true }] },
    { use = "hints", allow = ["hostgroup"] },
    { use = "sticky" },
    { use = "session-commands", mode = "predict" },
    { use = "fast-forward" },
    { use = "cache" },
    { use = "route" },
]
backend = [{ use = "catch-up" }]
"#;

const BEGIN: &str = "<!-- metrics: made by the program, `UPDATE=1 cargo nextest run -p towpath table_of_metrics` -->\n";
const END: &str = "<!-- end of metrics -->\n";

#[test]
fn the_table_of_metrics_is_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("towpath.toml");
    fs::write(&file, EVERYTHING).unwrap();
    let config = Config::load(&file, &towpath::builtin::registry());
    let config = config.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    let made = proxy::metrics_table(&config);
    assert!(made.lines().count() > 30, "{made}");

    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let text = fs::read_to_string(&page).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let renewed = format!("{before}{BEGIN}\n{made}\n{END}{after}");
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, &renewed).unwrap();
    }
    assert!(
        fs::read_to_string(&page).unwrap() == renewed,
        "docs/metrics.md is stale; `UPDATE=1 cargo nextest run -p towpath table_of_metrics` renews it"
    );
}
