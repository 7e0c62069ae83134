//! What is wrong with rules, and where.

use crate::{client_in, try_chain};
use chain::{
    FilterFactory as _,
    settings::{Mistake, Mistakes, Settings},
    testing,
};

fn mistakes(settings: &str) -> String {
    try_chain(settings).err().unwrap_or_default()
}

#[test]
fn each_mistake_is_told_with_its_rule() {
    for (rule, said) in [
        ("match_digest = '(a'", "rule 7: this is not a regular expression: unclosed group"),
        ("match_pattern = 'a(?!b)'", "rule 7: this is not a regular expression: look-around"),
        ("match_pattern = 'a{0,1000}{1000}'", "too large"),
        ("match_digest = ''", "rule 7: this must not be empty"),
        ("re_modifiers = 'CASELES'", "rule 7: this is not a modifier"),
        ("replace_pattern = 'x'", "rule 7: replace_pattern without match_pattern"),
        ("match_digest = 'x', replace_pattern = 'x'", "replace_pattern without match_pattern"),
        ("match_pattern = 'x', replace_pattern = '\\\\1'", "\\1 is a group that match_pattern"),
        ("match_pattern = 'x', replace_pattern = '\\\\'", "rule 7: a backslash without"),
        (
            "match_pattern = 'x', negate_match_pattern = true, replace_pattern = 'y'",
            "rule 7: with negate_match_pattern nothing is found",
        ),
        ("negate_match_pattern = true", "rule 7: negate_match_pattern without a pattern"),
        ("client_addr = '10.1'", "rule 7: this is not an address"),
        ("client_addr = '10.1.2.3/33'", "from 0 to 32"),
        ("proxy_addr = '127.0.0.1:6033'", "rule 7: this is not an address"),
        ("proxy_port = 65536", "rule 7: 65536 is too large"),
        ("digest = '0xXYZ'", "rule 7: this is not a digest"),
        ("digest = '0x1C46AE529DD5A40E5'", "rule 7: this is not a digest"),
        ("flagIN = -1", "rule 7: -1 is too small"),
        ("multiplex = 3", "rule 7: 3 is too large: at most 2"),
        ("retries = 1001", "rule 7: 1001 is too large"),
        ("cache_ttl = 0", "rule 7: 0 is too small"),
        ("apply = 1", "rule 7: expected true or false, found an integer"),
        ("aply = true", "rule 7: unknown key `aply`"),
        ("flagOut = 1", "did you mean `flagOUT`?"),
        ("attributes = '{'", "rule 7: wrong JSON: EOF"),
        ("attributes = '{\"switch_to_fast_forward\": 1}'", "rule 7: wrong JSON: invalid type"),
        ("attributes = '{\"switch_to_fast_forward\": \"true\"}'", "wrong JSON: invalid type"),
        ("attributes = '{\"switch\": true}'", "wrong JSON: unknown field `switch`"),
        ("attributes = '[]'", "wrong JSON: invalid"),
        ("attributes = { switch_to_fast_forward = 1 }", "rule 7: expected true or false"),
        ("attributes = { switch_to_fast_forward = 'true' }", "rule 7: expected true or false"),
        ("attributes = { swich_to_fast_forward = true }", "rule 7: unknown key `swich_to_fast"),
        ("attributes = 3", "rule 7: expected a string or a table, found an integer"),
        ("attributes = { flagOUTs = [{ id = 1 }] }", "rule 7: missing key `weight`"),
        ("attributes = { flagOUTs = [{ id = 1, weight = 0 }] }", "all weights are 0"),
        (
            "flagOUT = 1, attributes = { flagOUTs = [{ id = 1, weight = 1 }] }",
            "rule 7: flagOUT beside flagOUTs",
        ),
    ] {
        let rule = rule.replace("\\\\", "\\");
        let found = mistakes(&format!("rules = [{{ rule_id = 7, {rule} }}]"));
        assert!(found.contains(said), "{rule}: {found}");
        assert_eq!(found.matches("error:").count(), 1, "{rule}: {found}");
        assert!(found.contains("--> chain.toml:3:"), "{rule}: {found}");
    }
}

#[test]
fn all_are_found_at_once() {
    let found = mistakes(
        "rules = [
            { rule_id = 1, match_digest = '(', client_addr = 'x', colour = 'red', digest = 'y' },
            { rule_id = 1, active = false, attributes = { x = 1 }, proxy_addr = 'a b' },
            { match_digest = '(' },
            7,
        ], fast_routing = [{ username = 'a' }], iteration = 3",
    );
    for said in [
        "rule 1: this is not a regular expression",
        "rule 1: this is not an address: no address\n",
        "rule 1: unknown key `colour`",
        "rule 1: this is not a digest",
        "rule 1: there is another rule of this id",
        "help: the other one is in chain.toml:4",
        "rule 1: unknown key `x`",
        "rule 1: this is not an address: no address of a listener",
        "missing key `rule_id`",
        "expected a table, found an integer",
        "missing key `destination_hostgroup`",
        "missing key `schemaname`",
        "did you mean `iterations`?",
    ] {
        assert!(found.contains(said), "{said}\n{found}");
    }
}

#[test]
fn without_rules_there_is_a_mistake() {
    assert!(mistakes("").contains("missing key `rules`"));
    assert!(mistakes("rules = 3").contains("expected a list of tables, found an integer"));
    assert!(mistakes("rules = { proxsql = 'x' }").contains("did you mean `proxysql`?"));
}

#[test]
fn two_lines_of_fast_routing_do_not_contradict_each_other() {
    let line = "{ username = 'a', schemaname = 's', flagIN = 1, destination_hostgroup = 1 }";
    let found = mistakes(&format!("rules = [], fast_routing = [{line}, {line}]"));
    assert!(found.contains("another line of this username, schemaname and flagIN"), "{found}");
}

#[test]
fn a_file_has_rules_and_fast_routing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("rules.toml");
    let text = "
        [[rule]]
        rule_id = 1
        match_digest = '^SELECT'
        destination_hostgroup = 1
        [[fast_routing]]
        username = 'app'
        schemaname = ''
        destination_hostgroup = 2
    ";
    std::fs::write(&path, text).expect("it can be written");
    let settings = format!("rules = '{}'", path.display());
    for (sql, hostgroup) in [("SELECT 1", 2), ("DELETE FROM t", 2)] {
        let (mut client, seen) = client_in(testing::session(), &settings);
        client.query(sql).unwrap();
        let verdict = seen.take().remove(0).1.expect("there is one");
        assert_eq!(verdict.hostgroup.map(|hostgroup| hostgroup.0), Some(hostgroup));
    }
    std::fs::write(&path, "[[rule]]\nrule_id = 4\ndigest = 'x'\n[[rules]]\n").unwrap();
    let found = mistakes(&settings);
    assert!(found.contains("rule 4: this is not a digest"), "{found}");
    assert!(found.contains("rules.toml:3:10"), "{found}");
    assert!(found.contains("did you mean `rule`?"), "{found}");
    assert!(mistakes("rules = 'no-such-file.toml'").contains("no-such-file.toml cannot be read"));
}

#[test]
fn rules_need_to_know_the_statement() {
    let text = "session = [{ use = 'rules', rules = [] }]";
    let found = testing::chain(text, &crate::registry()).unwrap_err().to_string();
    assert!(found.contains("rules needs `statement`, which no filter above it gives"), "{found}");
}

/// They are noted whatever else is wrong.
#[test]
fn hostgroups_are_named_with_their_places() {
    let text = "rules = [
        { rule_id = 1, destination_hostgroup = 1, mirror_hostgroup = 2, match_digest = '(' },
        { rule_id = 2, gtid_from_hostgroup = 3, active = false },
    ]
    fast_routing = [{ username = 'a', schemaname = 's', destination_hostgroup = 4 }]";
    let mut mistakes = Mistakes::default();
    let settings = Settings::parse("f.toml", text, &mut mistakes);
    assert!(rules::Factory::read(&settings, &mut mistakes).is_none());
    let named = mistakes.take_hostgroups().into_iter().map(|(id, mistake)| {
        let Mistake { line, column, message, .. } = mistake;
        format!("{id} {line}:{column} {message}")
    });
    assert_eq!(
        named.collect::<Vec<_>>(),
        [
            "1 2:48 rule 1: hostgroup 1 has no server",
            "2 2:70 rule 1: hostgroup 2 has no server",
            "3 3:46 rule 2: hostgroup 3 has no server",
            "4 5:81 hostgroup 4 has no server",
        ]
    );
    assert!(mistakes.take_hostgroups().is_empty());
}

#[test]
fn what_the_environment_gives_is_not_quoted() {
    let found = mistakes("rules = [{ rule_id = 1, attributes = '${PATH}' }]");
    assert!(found.contains("wrong JSON: it does not fit"), "{found}");
}
