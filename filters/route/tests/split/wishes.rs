//! Hints, rules, and servers that a session sticks to.

use crate::{Above, Split, given, log, server, target};
use chain::{
    HostgroupId,
    facts::{Affinity, Hints, Pin, RouteTo, RuleVerdict, StickyMode},
    topology::ServerState,
};
use std::time::Duration;

fn hinted(hints: Hints) -> Above {
    Above { hints: Some(Hints { beats_rules: true, ..hints }), ..Above::default() }
}

fn to(route: RouteTo) -> Hints {
    Hints { route: Some(route), ..Hints::default() }
}

fn ruled(id: u32) -> RuleVerdict {
    RuleVerdict { hostgroup: Some(HostgroupId(id)), ..RuleVerdict::default() }
}

#[test]
fn a_hint_moves_a_statement() {
    let mut split = Split::new("");
    for (hints, text, there) in [
        (to(RouteTo::Primary), "SELECT 1", "p"),
        (to(RouteTo::Replica), "DELETE FROM t", "r1"),
        (to(RouteTo::Last), "DELETE FROM t", "r1"),
        (to(RouteTo::Named("r2".into())), "SELECT 1", "r2"),
        (to(RouteTo::Named("p".into())), "SELECT 1", "p"),
        (to(RouteTo::Named("g7".into())), "SELECT 1", "x"),
        (Hints { hostgroup: Some(HostgroupId(0)), ..Hints::default() }, "SELECT 1", "p"),
        // What is not there is ignored.
        (to(RouteTo::Named("nowhere".into())), "DELETE FROM t", "p"),
        (Hints { hostgroup: Some(HostgroupId(99)), ..Hints::default() }, "DELETE FROM t", "p"),
    ] {
        let shown = format!("{hints:?}");
        given(hinted(hints));
        assert_eq!(split.sends(text), there, "{shown}");
    }
}

#[test]
fn a_hinted_server_is_not_the_sessions_own_afterwards() {
    let mut split = Split::new(", balance_each = 'session'");
    assert_eq!(split.sends("SELECT 1"), "r1");
    given(hinted(to(RouteTo::Named("r2".into()))));
    assert_eq!(split.sends("SELECT 1"), "r2");
    given(Above::default());
    assert_eq!(split.sends("SELECT 1"), "r1");
}

#[test]
fn of_hint_and_rule_the_configured_one_wins() {
    let mut split = Split::new("");
    for (beats_rules, there) in [(true, "p"), (false, "x")] {
        let hints = Some(Hints { beats_rules, ..to(RouteTo::Primary) });
        given(Above { hints, verdict: Some(ruled(7)), ..Above::default() });
        assert_eq!(split.sends("SELECT 1"), there);
    }
    // A hint that cannot be followed leaves the rule.
    let hints = Some(Hints { beats_rules: true, ..to(RouteTo::Named("nowhere".into())) });
    given(Above { hints, verdict: Some(ruled(7)), ..Above::default() });
    assert_eq!(split.sends("SELECT 1"), "y");
}

#[test]
fn a_rule_beats_the_policy() {
    let mut split = Split::new("");
    given(Above { verdict: Some(ruled(1)), ..Above::default() });
    assert_eq!(split.sends("DELETE FROM t"), "r1");
    assert_eq!(split.sends("SELECT 1"), "r2");
    assert_eq!(split.sends("DELETE FROM t"), "r2", "the session's own in that hostgroup");
}

#[test]
fn nothing_moves_a_transaction_or_a_pinned_statement() {
    let mut split = Split::new("");
    assert_eq!(split.sends("BEGIN"), "p");
    given(hinted(to(RouteTo::Replica)));
    assert_eq!(split.sends("SELECT 1"), "p");
    given(Above::default());
    split.sends("COMMIT");
    let pin =
        Pin { target: target(&split.session, 0, "p"), cause: "a lock", soft: false, again: false };
    given(Above { pin: Some(pin), ..hinted(to(RouteTo::Replica)) });
    assert_eq!(split.sends("SELECT 1"), "p");
    assert_eq!(split.ignored(), [("transaction".to_owned(), 1), ("pinned".to_owned(), 1)]);
}

#[test]
fn a_hint_says_how_far_behind_a_replica_may_be() {
    let mut split = Split::new(", max_lag = '10s'");
    server(&split.session, 1, "r1").standing.set_lag(Some(Duration::from_secs(3)));
    given(hinted(Hints { max_lag: Some(Duration::from_secs(1)), ..Hints::default() }));
    for _ in 0..3 {
        assert_eq!(split.sends("SELECT 1"), "r2");
    }
}

#[test]
fn where_reads_wait_for_a_replica_they_wait_for_one_that_is_near() {
    let mut split = Split::new(", no_replica = 'wait', max_lag = '10s', after_write = 'wait'");
    for (name, lag) in [("r1", 30), ("r2", 20)] {
        server(&split.session, 1, name).standing.set_lag(Some(Duration::from_secs(lag)));
    }
    for (text, there) in [
        ("SELECT 1", "r2 within 10s"),
        ("START TRANSACTION READ ONLY", "r2 within 10s"),
        ("SELECT 1", "r2"),
        ("COMMIT", "r2"),
    ] {
        assert_eq!(split.sends(text), there, "{text}");
    }
    given(hinted(Hints { max_lag: Some(Duration::from_secs(25)), ..Hints::default() }));
    assert_eq!(split.sends("SELECT 1"), "r2 within 25s");
    // What any server may do is not worth a wait.
    given(Above { log: Some(log(true)), ..Above::default() });
    server(&split.session, 1, "r2").standing.set_state(ServerState::OfflineSoft);
    assert_eq!(split.sends("SET NAMES utf8mb4"), "p");
    // Nobody knows which replica will be near, and whether that one has what was written.
    given(Above { log: Some(log(false)), ..Above::default() });
    split.sends("DELETE FROM t");
    assert_eq!(split.sends("SELECT 1"), "p");
}

#[test]
fn a_hint_for_a_replica_is_not_followed_to_none() {
    let mut split = Split::new("");
    for name in ["r1", "r2"] {
        server(&split.session, 1, name).standing.set_state(ServerState::OfflineSoft);
    }
    given(hinted(to(RouteTo::Replica)));
    assert_eq!(split.sends("SELECT 1"), "p");
}

fn sticky(split: &Split, mode: StickyMode, name: &str) -> Above {
    let id = server(&split.session, 1, name).id;
    let servers = [(HostgroupId(1), id)].into_iter().collect();
    let affinity = Affinity { mode, servers, ..Affinity::default() };
    Above { affinity: Some(affinity), log: Some(log(false)), ..Above::default() }
}

#[test]
fn a_sticky_session_stays_while_its_server_takes_work() {
    let mut split = Split::new("");
    given(sticky(&split, StickyMode::WhileAlive, "r2"));
    for (text, there) in [("SELECT 1", "r2"), ("DELETE FROM t", "p"), ("SELECT 1", "r2")] {
        assert_eq!(split.sends(text), there);
    }
    server(&split.session, 1, "r2").standing.set_state(ServerState::Shunned);
    assert_eq!(split.sends("SELECT 1"), "r1");
    // Switched off, it is as if there were none.
    server(&split.session, 1, "r2").standing.set_state(ServerState::Online);
    given(sticky(&split, StickyMode::Off, "r2"));
    let (one, other) = (split.sends("SELECT 1"), split.sends("SELECT 1"));
    assert_ne!(one, other);
}

#[test]
fn a_strict_session_has_one_server_or_an_error() {
    let mut split = Split::new("");
    let strict = sticky(&split, StickyMode::Strict, "r2");
    given(strict.clone());
    server(&split.session, 1, "r2").standing.set_state(ServerState::OfflineHard);
    for _ in 0..3 {
        assert_eq!(split.sends("SELECT 1"), "r2");
    }
    let mut affinity = strict.affinity.expect("it sticks");
    affinity.servers[0].1 = 4711;
    given(Above { affinity: Some(affinity), ..Above::default() });
    let error = split.client.query("SELECT 1").unwrap_err();
    assert_eq!(error.code(), 9004);
    assert!(error.message().contains("sticky_backend=2"), "{}", error.message());
}

#[test]
fn a_key_leads_to_the_same_replica_in_every_session() {
    let mut there = Vec::new();
    for key in 0..16 {
        let affinity = Some(Affinity { key: Some(key), ..Affinity::default() });
        let mut found = Vec::new();
        for _ in 0..3 {
            let mut split = Split::new("");
            given(Above { affinity: affinity.clone(), ..Above::default() });
            found.push(split.sends("SELECT 1"));
            assert_eq!(split.sends("DELETE FROM t"), "p");
        }
        found.dedup();
        assert_eq!(found.len(), 1, "{key}");
        there.append(&mut found);
    }
    there.sort();
    there.dedup();
    assert_eq!(there, ["r1", "r2"]);
}
