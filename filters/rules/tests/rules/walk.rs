//! Which rules match, in which order.

use crate::{chain, client, client_in, matched};
use bytes::Bytes;
use chain::{
    Command, Session,
    session::{Peer, View},
    testing,
};
use wire::command::CommandCode;

fn session(change: impl FnOnce(&mut View)) -> Session {
    let mut session = testing::session();
    session.update(change);
    session
}

fn in_schema(name: &'static str) -> Session {
    session(|view| view.current_schema = Some(Bytes::from_static(name.as_bytes())))
}

/// Whether one rule with this predicate matches.
fn matches(session: Session, predicate: &str, sql: &str) -> bool {
    let rules = format!("rules = [{{ rule_id = 1, {predicate} }}]");
    !matched(session, &rules, sql).0.is_empty()
}

#[test]
fn each_predicate_tells_commands_apart() {
    let query = "/* shop */ SELECT 1";
    for (predicate, holds) in [
        ("username = 'app'", true),
        ("username = 'App'", false),
        ("schemaname = 'shop'", true),
        ("schemaname = 'Shop'", false),
        ("client_addr = '127.0.0.1'", true),
        ("client_addr = '127.0.0.2'", false),
        ("client_addr = '127.0.0.0/8'", true),
        ("client_addr = '127.0.1.0/24'", false),
        ("client_addr = '127.%'", true),
        ("client_addr = '10.%'", false),
        ("client_addr = 'localhost'", false),
        ("proxy_addr = '127.0.0.1'", true),
        ("proxy_addr = '127.0.0.2'", false),
        ("proxy_port = 6033", true),
        ("proxy_port = 6034", false),
        ("digest = '0x1C46AE529DD5A40E'", true),
        ("digest = '1c46ae529dd5a40e'", true),
        ("digest = '0x1C46AE529DD5A40F'", false),
        ("match_digest = '^select \\?$'", true),
        ("match_digest = '^select \\?$', re_modifiers = ''", false),
        ("match_digest = '^SELECT', re_modifiers = 'GLOBAL'", true),
        ("match_digest = 'shop'", false),
        ("match_pattern = '^/. shop'", true),
        ("match_pattern = '^SELECT'", false),
        ("match_pattern = 'SHOP'", true),
        ("match_digest = 'shop', negate_match_pattern = true", true),
        ("match_digest = 'SELECT', negate_match_pattern = true", false),
        ("match_pattern = 'shop', match_digest = 'x', negate_match_pattern = true", false),
        ("match_pattern = 'y', match_digest = 'x', negate_match_pattern = true", true),
        ("match_pattern = 'shop', match_digest = '^SELECT'", true),
        ("match_pattern = 'shop', match_digest = 'x'", false),
        ("flagIN = 0", true),
        ("flagIN = 1", false),
        ("active = false", false),
        ("username = 'app', proxy_port = 6034", false),
    ] {
        let predicate = predicate.replace('\\', "\\\\").replace('\'', "\"");
        assert_eq!(matches(in_schema("shop"), &predicate, query), holds, "{predicate}");
    }
    assert!(!matches(testing::session(), "schemaname = 'shop'", query), "it is in none");
    let local = session(|view| view.peer = Peer::Unix);
    assert!(matches(local.clone(), "client_addr = 'localhost'", query));
    assert!(!matches(local, "client_addr = '%'", query));
}

#[test]
fn rules_are_asked_in_the_order_of_their_ids_and_the_last_word_counts() {
    let settings = "rules = [
        { rule_id = 30, destination_hostgroup = 3 },
        { rule_id = 10, destination_hostgroup = 1 },
        { rule_id = 20, destination_hostgroup = 2, active = false },
        { rule_id = 25, comment = 'says nothing of a hostgroup' },
    ]";
    assert_eq!(matched(testing::session(), settings, "SELECT 1"), (vec![10, 25, 30], Some(3)));
}

#[test]
fn apply_ends_the_walk() {
    let settings = "rules = [
        { rule_id = 1, destination_hostgroup = 1, match_digest = '^SELECT', apply = true },
        { rule_id = 2, destination_hostgroup = 2 },
    ]";
    assert_eq!(matched(testing::session(), settings, "SELECT 1"), (vec![1], Some(1)));
    assert_eq!(matched(testing::session(), settings, "DELETE FROM t"), (vec![2], Some(2)));
}

const CHAINED: &str = "rules = [
    { rule_id = 1, flagIN = 5, destination_hostgroup = 9, apply = true },
    { rule_id = 2, username = 'app', flagOUT = 5, destination_hostgroup = 1 },
    { rule_id = 3, destination_hostgroup = 8 },
    { rule_id = 4, flagIN = 5, match_digest = '^SELECT', flagOUT = 6 },
    { rule_id = 5, flagIN = 6, destination_hostgroup = 2 },
]";

#[test]
fn a_label_leads_downwards() {
    assert_eq!(matched(testing::session(), CHAINED, "SELECT 1"), (vec![2, 4, 5], Some(2)));
    assert_eq!(matched(testing::session(), CHAINED, "DELETE FROM t"), (vec![2], Some(1)));
}

#[test]
fn with_iterations_it_leads_to_the_top_again() {
    let settings = format!("iterations = 1, {CHAINED}");
    assert_eq!(matched(testing::session(), &settings, "SELECT 1"), (vec![2, 1], Some(9)));
    let circle = "iterations = 3, rules = [{ rule_id = 1, flagOUT = 0 }, { rule_id = 2 }]";
    assert_eq!(matched(testing::session(), circle, "SELECT 1"), (vec![1, 2], None));
}

#[test]
fn weighted_labels_come_as_often_as_their_weights_say() {
    let (mut client, seen) = client(
        "{ rule_id = 1, attributes = { flagOUTs = [
             { id = 7, weight = 3000 }, { id = 8, weight = 1000 }, { id = 9, weight = 0 }] } },
         { rule_id = 7, flagIN = 7, destination_hostgroup = 7 },
         { rule_id = 8, flagIN = 8, destination_hostgroup = 8 },
         { rule_id = 9, flagIN = 9, destination_hostgroup = 9 }",
    );
    for _ in 0..4000 {
        client.query("SELECT 1").unwrap();
    }
    let hostgroups = seen.take().into_iter().filter_map(|(_, verdict)| verdict?.hostgroup);
    let sevens = hostgroups.filter(|hostgroup| hostgroup.0 == 7).count();
    // Twelve standard deviations: a chance of less than 1 in 10^30.
    assert!((2670..=3330).contains(&sevens), "{sevens} of 4000 where 3000 are meant");
}

#[test]
fn the_next_commands_begin_with_the_label_that_a_rule_has_set() {
    let (mut client, seen) = client(
        "{ rule_id = 1, match_digest = '^begin', next_query_flagIN = 1 },
         { rule_id = 2, flagIN = 1, match_digest = '^commit', next_query_flagIN = 0 },
         { rule_id = 3, flagIN = 1, destination_hostgroup = 1 }",
    );
    let session = testing::session();
    for sql in ["SELECT 1", "BEGIN", "SELECT 2", "SELECT 3", "COMMIT", "SELECT 4", "BEGIN"] {
        client.query(sql).unwrap();
    }
    client.send(Command::new(session, CommandCode::RESET_CONNECTION, "")).unwrap();
    client.query("SELECT 5").unwrap();
    let rules: Vec<_> = seen
        .take()
        .into_iter()
        .map(|(_, verdict)| verdict.map_or(Vec::new(), |verdict| verdict.rules.to_vec()))
        .collect();
    let none = Vec::new;
    let expected =
        [none(), vec![1], vec![3], vec![3], vec![2, 3], none(), vec![1], vec![3], none()];
    assert_eq!(rules, expected);
}

#[test]
fn fast_routing_knows_user_schema_and_label() {
    let settings = "
        rules = [
            { rule_id = 1, match_digest = '^DELETE', destination_hostgroup = 1, apply = true },
            { rule_id = 2, match_digest = '^UPDATE', destination_hostgroup = 1, flagOUT = 4 },
        ],
        fast_routing = [
            { username = 'app', schemaname = 'shop', destination_hostgroup = 20 },
            { username = 'app', schemaname = 'shop', flagIN = 4, destination_hostgroup = 24 },
            { username = 'app', schemaname = '', destination_hostgroup = 30 },
        ]";
    let shop = || in_schema("shop");
    assert_eq!(matched(shop(), settings, "SELECT 1"), (vec![], Some(20)));
    assert_eq!(matched(shop(), settings, "UPDATE t SET a = 1"), (vec![2], Some(24)));
    assert_eq!(matched(shop(), settings, "DELETE FROM t"), (vec![1], Some(1)));
    assert_eq!(matched(testing::session(), settings, "SELECT 1"), (vec![], Some(30)));
    assert_eq!(matched(in_schema("other"), settings, "SELECT 1"), (vec![], None));
    let other = session(|view| view.user = "other".into());
    assert_eq!(matched(other, settings, "SELECT 1"), (vec![], None));
}

#[test]
fn a_session_that_goes_to_another_schema_has_other_rules() {
    let settings = "rules = [{ rule_id = 1, schemaname = 'shop' }]";
    let (mut client, seen) = client_in(testing::session(), settings);
    for schema in ["shop", "other", "shop"] {
        client.send(Command::query(in_schema(schema), "SELECT 1")).unwrap();
    }
    let matched: Vec<_> = seen.take().iter().map(|(_, verdict)| verdict.is_some()).collect();
    assert_eq!(matched, [true, false, true]);
}

#[test]
fn commands_without_a_text_match_rules_without_one() {
    let (mut client, seen) = client(
        "{ rule_id = 1, match_digest = 'x', negate_match_pattern = true },
         { rule_id = 2, digest = '1' },
         { rule_id = 3, username = 'app', destination_hostgroup = 1,
           attributes = { switch_to_fast_forward = true } },
         { rule_id = 4, username = 'app', error_msg = 'no statement', OK_msg = 'nor this' }",
    );
    for code in [CommandCode::PING, CommandCode::INIT_DB, CommandCode::STATISTICS] {
        client.send(Command::new(testing::session(), code, "x")).unwrap();
    }
    let seen = seen.take();
    assert_eq!(seen.len(), 3, "they are not answered by rules");
    for (_, verdict) in seen {
        let verdict = verdict.expect("two rules match");
        assert_eq!(verdict.rules.to_vec(), [3, 4]);
        assert!(verdict.switch_to_fast_forward);
    }
}

#[test]
fn only_clients_are_asked_about() {
    let (mut client, seen) = client("{ rule_id = 1 }");
    let command = Command::query(testing::session(), "SELECT 1");
    client.send(command.aside_query("other", "SELECT 2")).unwrap();
    client.send(command.aside("login", CommandCode::INIT_DB, "shop")).unwrap();
    client.send(command).unwrap();
    let verdicts: Vec<_> = seen.take().into_iter().map(|(_, verdict)| verdict.is_some()).collect();
    assert_eq!(verdicts, [false, false, true]);
}

#[test]
fn where_nothing_matches_nothing_is_attached() {
    let (mut client, seen) = client("{ rule_id = 1, match_digest = 'x' }");
    client.query("SELECT 1").unwrap();
    assert_eq!(seen.take(), [("SELECT 1".to_owned(), None)]);
}

#[test]
fn a_digest_is_computed_when_a_rule_needs_it() {
    for (rules, computed) in [
        ("{ rule_id = 1, username = 'app', apply = true }, { rule_id = 2, digest = '1' }", false),
        ("{ rule_id = 1, username = 'other', match_digest = 'x' }", false),
        ("{ rule_id = 1, flagIN = 3, match_digest = 'x' }", false),
        ("{ rule_id = 1, match_pattern = 'x' }, { rule_id = 2, proxy_port = 1 }", false),
        ("{ rule_id = 1, digest = '1' }", true),
        ("{ rule_id = 1, match_digest = 'x' }", true),
    ] {
        let bottom = testing::answering(move |command| {
            let statement = command.fact::<chain::facts::Statement>().expect("it is given");
            assert_eq!(statement.is_digested(), computed, "{rules}");
            Ok(chain::Reply::ok(&command, wire::status::Status::AUTOCOMMIT))
        });
        let stack = chain(&format!("rules = [{rules}]")).session(bottom);
        testing::Client::new(stack).query("SELECT 1").unwrap();
    }
}

/// A thousand rules of all kinds decide as a plain walk over them would.
#[test]
fn many_rules_decide_as_a_plain_walk_does() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20 {
        let rules: Vec<_> = (0..150)
            .map(|_| {
                let word = format!("w{}", random.u32(0..6));
                let in_text = random.bool();
                (random.u32(0..4), random.u32(0..4), word, in_text, random.u32(0..5) == 0)
            })
            .collect();
        let written = rules.iter().enumerate().map(|(id, (from, to, word, in_text, negated))| {
            let column = if *in_text { "match_pattern" } else { "match_digest" };
            let flags = format!("flagIN = {from}, flagOUT = {to}");
            let negated = format!("negate_match_pattern = {negated}");
            format!("{{ rule_id = {id}, {flags}, {column} = '{word}', {negated} }}")
        });
        let settings = format!("rules = [{}]", written.collect::<Vec<_>>().join(","));
        for _ in 0..5 {
            let (a, b) = (random.u32(0..6), random.u32(0..6));
            let sql = format!("SELECT w{a} /* w{b} */");
            let mut flag = 0;
            let mut expected = Vec::new();
            for (id, (from, to, word, in_text, negated)) in rules.iter().enumerate() {
                let found = *word == format!("w{a}") || *in_text && *word == format!("w{b}");
                if *from == flag && found != *negated {
                    expected.push(id as u32);
                    flag = *to;
                }
            }
            assert_eq!(matched(testing::session(), &settings, &sql).0, expected, "{sql}");
        }
    }
}
