//! `towpath explain`: what it prints is what the filters do.

use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

const TOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

fn explain(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.current_dir(folder).arg("explain").args(arguments).env("APP_PASSWORD", "x");
    command.output().expect("it can be started")
}

/// What is said of a statement with these rules, and these arguments beside it.
fn with_rules(rules: &str, arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = format!(
        "[[listener]]
         address = '127.0.0.1:6033'
         chain = 'main'
         [[listener]]
         address = '127.0.0.1:6034'
         chain = 'main'
         [[user]]
         name = 'app'
         password = ''
         hostgroup = 0
         [[user]]
         name = 'ff'
         password = ''
         hostgroup = 1
         fast_forward = true
         [[server]]
         hostgroup = 0
         address = '127.0.0.1:3306'
         [[server]]
         hostgroup = 1
         address = '127.0.0.1:3307'
         [chain.main]
         session = [{{ use = 'parse' }}, {{ use = 'rules', {rules} }}, {{ use = 'fast-forward' }}, {{ use = 'route' }}]
        "
    );
    fs::write(folder.path().join("towpath.toml"), text).expect("it can be written");
    let output = explain(folder.path(), &[&["towpath.toml", "--json"], arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn ids(report: &Value) -> Vec<u64> {
    let rules = report["rules"].as_array().expect("there is a list").iter();
    rules.filter_map(|rule| rule["rule_id"].as_u64()).collect()
}

#[test]
fn the_example_of_the_page_is_what_is_printed() {
    let page = fs::read_to_string(Path::new(TOP).join("docs/query-rules.md")).expect("it is there");
    let shown = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next());
    let output = explain(
        Path::new(TOP),
        &["config/query-rules.toml", "--user", "app", "SELECT * FROM old_orders WHERE id = 7"],
    );
    assert_eq!(Some(String::from_utf8_lossy(&output.stdout).as_ref()), shown);
}

#[test]
fn each_rule_that_matches_is_told_with_what_it_sets() {
    let rules = "rules = [
        { rule_id = 1, username = 'app', flagOUT = 5, comment = 'all of it' },
        { rule_id = 2, destination_hostgroup = 0 },
        { rule_id = 3, flagIN = 5, match_digest = '^SELECT', destination_hostgroup = 1, retries = 2 },
    ]";
    let report = with_rules(rules, &["--user", "app", "SELECT 1"]);
    let expected = json!({
        "answer": null,
        "class": "Read",
        "digest": "0x1C46AE529DD5A40E",
        "digest_text": "SELECT ?",
        "fast_forward": false,
        "fast_routing": null,
        "hostgroup": 1,
        "mirror": null,
        "other_filters": [],
        "rewritten": null,
        "route": {
            "policy": "hostgroup",
            "why": "a rule",
            "hostgroup": 1,
            "server": "127.0.0.1:3307",
        },
        "rules": [
            { "rule_id": 1, "comment": "all of it", "sets": { "flagOUT": 5 } },
            { "rule_id": 3, "sets": { "destination_hostgroup": 1, "retries": 2 } },
        ],
    });
    assert_eq!(report, expected);
    let report = with_rules(rules, &["--user", "app", "DELETE FROM t"]);
    assert_eq!((ids(&report), &report["class"]), (vec![1], &json!("Write")));
    let report = with_rules(rules, &["--user", "ff", "SELECT 1"]);
    assert_eq!((ids(&report), &report["hostgroup"]), (vec![2], &json!(0)));
    assert_eq!(report["fast_forward"], json!(true), "the user's sessions are");
}

#[test]
fn a_chain_s_own_answer_is_told_and_nothing_is_waited_for() {
    let rules = "rules = [
        { rule_id = 1, match_digest = '^DROP', error_msg = 'no', delay = 3600000 },
        { rule_id = 2, match_digest = '^SET', OK_msg = 'done' },
        { rule_id = 3, match_digest = '^SELECT', delay = 3600000, mirror_hostgroup = 1,
          match_pattern = 'a', replace_pattern = 'b', attributes = { switch_to_fast_forward = true } },
    ]";
    let report = with_rules(rules, &["--user", "app", "DROP TABLE t"]);
    assert_eq!((&report["answer"], &report["hostgroup"]), (&json!("ERR 1148: no"), &Value::Null));
    let report = with_rules(rules, &["--user", "app", "SET GLOBAL a = 1"]);
    assert_eq!(report["answer"], json!("OK: done"));
    let report = with_rules(rules, &["--user", "app", "SELECT a"]);
    assert_eq!(report["fast_forward"], json!(true));
    assert_eq!((&report["mirror"], &report["rewritten"]), (&json!(1), &json!("SELECT b")));
}

#[test]
fn the_session_is_where_the_arguments_say() {
    let rules =
        "fast_routing = [{ username = 'app', schemaname = 'fast', destination_hostgroup = 1 }],
        rules = [
            { rule_id = 1, schemaname = 'shop' },
            { rule_id = 2, client_addr = '10.0.0.0/8' },
            { rule_id = 3, proxy_port = 6034 },
        ]";
    for (arguments, expected) in [
        (&[][..], vec![]),
        (&["--schema", "shop"], vec![1]),
        (&["--client", "10.1.2.3"], vec![2]),
        (&["--port", "6034"], vec![3]),
        (&["--listener", "2"], vec![3]),
        (&["--listener", "1"], vec![]),
    ] {
        let report = with_rules(rules, &[&["--user", "app", "SELECT 1"], arguments].concat());
        assert_eq!(ids(&report), expected, "{arguments:?}");
    }
    let report = with_rules(rules, &["--user", "app", "--schema", "fast", "SELECT 1"]);
    assert_eq!((&report["fast_routing"], &report["hostgroup"]), (&json!(1), &json!(1)));
}

#[test]
fn what_is_not_in_the_file_is_refused() {
    for (arguments, said) in [
        (&["--user", "nobody"][..], "the file has no user \"nobody\""),
        (&["--user", "app", "--port", "1"], "no listener has the port 1"),
        (&["--user", "app", "--listener", "0"], "--listener counts from 1 to 1"),
    ] {
        let arguments = [&["config/query-rules.toml", "SELECT 1"], arguments].concat();
        let output = explain(Path::new(TOP), &arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        let found = String::from_utf8_lossy(&output.stderr);
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn a_session_command_is_told_with_its_class_and_what_becomes_of_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "listener = [{ address = '127.0.0.1:6033', chain = 'main' }]
         user = [{ name = 'app', password = '', hostgroup = 0 }]
         server = [{ hostgroup = 0, address = '127.0.0.1:3306' }]
         [chain.main]
         session = [
           { use = 'parse' },
           { use = 'session-commands', mode = 'predict' },
           { use = 'route' },
         ]
         backend = [{ use = 'catch-up' }]";
    fs::write(folder.path().join("towpath.toml"), text).expect("it can be written");
    for (sql, class, done, predictable) in [
        ("SET NAMES latin1", "const", "deferred", true),
        ("USE d", "environment", "deferred", true),
        ("SET @a = NOW()", "evaluated_once", "executed", false),
        ("SET TRANSACTION READ ONLY", "one_shot", "executed", false),
        ("SET nosuch = 1", "unknown", "deferred", false),
    ] {
        let output = explain(folder.path(), &["towpath.toml", "--user", "app", sql]);
        let text = String::from_utf8_lossy(&output.stdout);
        let said = text.lines().find_map(|line| line.strip_prefix("session-commands "));
        let wanted = format!("class = {class:?}, done = {done:?}, predictable = {predictable}");
        assert_eq!(said, Some(wanted.as_str()), "{sql}");
    }
    let output = explain(folder.path(), &["towpath.toml", "--user", "app", "SELECT 1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(!text.contains("session-commands"), "{text}");
}

#[test]
fn the_policy_says_where_a_statement_goes_and_why() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = "listener = [{ address = '127.0.0.1:6033', chain = 'main' }]
         user = [{ name = 'app', password = '', hostgroup = 0 }]
         server = [{ hostgroup = 0, address = '127.0.0.1:3306' }, { hostgroup = 1, address = '127.0.0.1:3307' }]
         [chain.main]
         session = [
           { use = 'parse' },
           { use = 'session-commands' },
           { use = 'route', policy = 'read-write-split', primary = 0, replicas = 1 },
         ]
         backend = [{ use = 'catch-up' }]";
    fs::write(folder.path().join("towpath.toml"), text).expect("it can be written");
    for (sql, said) in [
        ("SELECT 1", "Read, read-write-split: a read, 127.0.0.1:3307, 1"),
        (
            "SELECT 1 FOR UPDATE",
            "Write, read-write-split: a write, or not surely a read, 127.0.0.1:3306, 0",
        ),
        ("SET NAMES latin1", "SetSession, read-write-split: any server will do, 127.0.0.1:3307, 1"),
    ] {
        let output = explain(folder.path(), &["towpath.toml", "--user", "app", sql]);
        let text = String::from_utf8_lossy(&output.stdout);
        let after = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let words = ["class", "policy", "server", "hostgroup"]
            .map(|name| after(&format!("{name} ")).unwrap_or_default().trim().to_owned());
        assert_eq!(words.join(", "), said, "{text}");
    }
}
