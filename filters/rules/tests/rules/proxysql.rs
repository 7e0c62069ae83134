//! Rules from ProxySQL's configuration file.

use crate::{client_in, try_chain};
use chain::testing;

const FILE: &str = r#"
datadir="/var/lib/proxysql"
admin_variables = { admin_credentials="admin:secret-1" mysql_ifaces="0.0.0.0:6032" }
mysql_users: ( { username = "app", password = "secret-1", default_hostgroup = 0 } )
mysql_query_rules:
(
    {
        rule_id=1
        active=1
        match_digest="^SELECT .* FOR UPDATE$"
        destination_hostgroup=0
        apply=1
    },
    {
        rule_id=2; active=1; match_digest="^SELECT"; destination_hostgroup=1; apply=0;
        reconnect=1; cache_timeout=5;
        attributes="{\"switch_to_fast_forward\": true}"
    },
    { rule_id=3, active=0, match_pattern="." error_msg="never" }
)
mysql_query_rules_fast_routing = (
    { username="app", schemaname="", flagIN=0, destination_hostgroup=7, comment="" }
)
"#;

/// The settings that read a file with this text. The folder goes with the second value.
fn settings(text: &str) -> (String, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("proxysql.cnf");
    std::fs::write(&path, text).expect("it can be written");
    (format!("rules = {{ proxysql = '{}' }}", path.display()), folder)
}

#[test]
fn its_rules_are_ours() {
    let (settings, _folder) = settings(FILE);
    for (sql, rules, hostgroup, switches) in [
        ("SELECT 1 FOR UPDATE", vec![1], 0, false),
        ("SELECT 1", vec![2], 7, true),
        ("DELETE FROM t", vec![], 7, false),
    ] {
        let (mut client, seen) = client_in(testing::session(), &settings);
        client.query(sql).expect("the bottom answers");
        let verdict = seen.take().remove(0).1.expect("fast routing knows it at least");
        assert_eq!(verdict.rules.to_vec(), rules);
        assert_eq!(verdict.hostgroup.map(|hostgroup| hostgroup.0), Some(hostgroup));
        assert_eq!(verdict.switch_to_fast_forward, switches);
    }
}

#[test]
fn what_is_wrong_in_them_is_told_with_its_place_and_no_secret() {
    for (from, to, place, said) in [
        ("\"^SELECT\"", "\"^(SELECT\"", "15:43", "rule 2: this is not a regular expression"),
        ("active=0", "active=2", "19:25", "rule 3: expected true or false, found an integer"),
        ("rule_id=3", "rule_id=2", "19:15", "rule 2: there is another rule of this id"),
        ("error_msg", "eror_msg", "19:46", "rule 3: unknown key `eror_msg`"),
        ("rule_id=1\n", "rule_id=1 \"\n", "8:19", "expected a setting"),
        ("\"^SELECT\"", "\"\\w\"", "15:44", "a backslash that means nothing"),
        ("default_hostgroup = 0", "default_hostgroup = 0 !", "4:81", "cannot stand here"),
        ("mysql_query_rules:", "mysql_query_ruls:", "", "there is no mysql_query_rules in it"),
        ("datadir=", "@include ", "2:1", "@include is not followed"),
    ] {
        let (settings, _folder) = settings(&FILE.replacen(from, to, 1));
        let found = try_chain(&settings).expect_err(said);
        assert!(found.contains(said), "{said}: {found}");
        assert!(found.contains(&format!("proxysql.cnf:{place}")) || place.is_empty(), "{found}");
        assert!(!found.contains("secret-1"), "{found}");
    }
}

#[test]
fn a_file_that_is_not_there_is_a_mistake() {
    let found = try_chain("rules = { proxysql = 'no-such.cnf' }").expect_err("it is not there");
    assert!(found.contains("no-such.cnf cannot be read"), "{found}");
}
