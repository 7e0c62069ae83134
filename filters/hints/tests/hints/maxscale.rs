//! MaxScale's hints.

use crate::{Bed, in_hostgroup};
use chain::{
    Command,
    facts::{Hints, RouteTo, Statement},
};
use std::time::Duration;
use wire::command::CommandCode;

fn to(route: RouteTo) -> Hints {
    Hints { route: Some(route), ..Hints::default() }
}

fn within(seconds: u64) -> Hints {
    Hints { max_lag: Some(Duration::from_secs(seconds)), ..Hints::default() }
}

#[test]
fn one_statement_is_led() {
    let mut bed = Bed::new("");
    let named = |name: &str| to(RouteTo::Named(name.into()));
    for (hint, expected) in [
        ("route to master", to(RouteTo::Primary)),
        ("ROUTE  To Slave ", to(RouteTo::Replica)),
        ("route to last", to(RouteTo::Last)),
        ("route to server db2", named("db2")),
        ("route to server readers", named("readers")),
        ("max_slave_replication_lag=7", within(7)),
        ("max_slave_replication_lag = 7", within(7)),
    ] {
        for text in [
            format!("SELECT 1 -- maxscale {hint}"),
            format!("SELECT 1 # MaxScale {hint}\n + 1"),
            format!("/* maxscale {hint} */ SELECT 1"),
        ] {
            assert_eq!(bed.hints(&text), expected, "{text}");
        }
        assert_eq!(bed.query("SELECT 1").hints, None);
    }
}

#[test]
fn what_does_not_fit_is_counted() {
    let mut bed = Bed::new("");
    for hint in [
        "route to",
        "route to slaves",
        "route master",
        "route to master now",
        "route to server",
        "route to server db9",
        "max_slave_replication_lag=soon",
        "max_slave_replication_lag=+1",
        "max_slave_replication_lag",
        "is fine",
        "",
        "end",
        "a begin",
        "begin",
        "begin route to",
        "a prepare",
        "a prepare route to x",
        "end all",
    ] {
        assert_eq!(bed.hints(&format!("SELECT 1 -- maxscale {hint}")), Hints::default(), "{hint}");
        assert_eq!(bed.query("SELECT 1").hints, None, "{hint}");
    }
    let expected = ["route=8", "max_slave_replication_lag=2", "maxscale=8"];
    assert_eq!(bed.counts("hints_ignored"), expected);
}

#[test]
fn named_hints_are_a_stack() {
    let mut bed = Bed::new("");
    let mut ask = |text: &str| bed.hints(text);
    let none = Hints::default();
    assert_eq!(ask("SELECT 1 -- maxscale here prepare route to master"), none, "only kept");
    assert_eq!(ask("SELECT 1"), none);
    assert_eq!(ask("SELECT 1 -- maxscale here begin"), to(RouteTo::Primary));
    assert_eq!(ask("SELECT 1"), to(RouteTo::Primary));
    assert_eq!(ask("SELECT 1 -- maxscale begin route to slave"), to(RouteTo::Replica));
    assert_eq!(
        ask("SELECT 1 -- maxscale there begin max_slave_replication_lag=3"),
        Hints { route: Some(RouteTo::Replica), ..within(3) }
    );
    // The statement's own comes first, but only for what it is about.
    assert_eq!(
        ask("SELECT 1 -- maxscale route to last"),
        Hints { route: Some(RouteTo::Last), ..within(3) }
    );
    assert_eq!(
        ask("/* hostgroup=1 */ SELECT 1"),
        Hints { max_lag: within(3).max_lag, ..in_hostgroup(1) }
    );
    assert_eq!(ask("SELECT 1 -- maxscale end"), to(RouteTo::Replica));
    assert_eq!(ask("SELECT 1 -- maxscale end"), to(RouteTo::Primary));
    assert_eq!(ask("SELECT 1 -- maxscale HERE prepare route to slave"), to(RouteTo::Primary));
    assert_eq!(ask("SELECT 1 -- maxscale end"), none);
    assert_eq!(ask("SELECT 1 -- maxscale here begin"), to(RouteTo::Replica), "the new one");
}

#[test]
fn a_reset_ends_them() {
    let mut bed = Bed::new("");
    bed.query("SELECT 1 -- maxscale a prepare route to slave");
    bed.query("SELECT 1 -- maxscale a begin");
    let reset = Command::new(bed.session.clone(), CommandCode::RESET_CONNECTION, "");
    assert_eq!(bed.send(reset).hints, None);
    assert_eq!(bed.query("SELECT 1").hints, None);
    assert_eq!(bed.query("SELECT 1 -- maxscale a begin").hints, None);
}

#[test]
fn they_last_from_when_they_are_prepared_and_once() {
    let mut bed = Bed::new("");
    let text = "SELECT ? -- maxscale begin route to slave";
    let prepare = Command::new(bed.session.clone(), CommandCode::STMT_PREPARE, text);
    assert!(bed.send(prepare).hints.is_some());
    let statement = Statement::new(text.into(), sql::Dialect::default()).shared();
    for _ in 0..3 {
        let run = Command::new(bed.session.clone(), CommandCode::STMT_EXECUTE, [1; 9]);
        assert_eq!(
            bed.send(run.with(statement.clone())).hints.and_then(|hints| hints.route),
            Some(RouteTo::Replica)
        );
    }
    assert_eq!(bed.hints("SELECT 1 -- maxscale end"), Hints::default(), "begun once");
}

#[test]
fn there_are_not_too_many() {
    let mut bed = Bed::new("");
    for number in 0..70 {
        bed.query(&format!("SELECT 1 -- maxscale n{number} prepare route to master"));
        bed.query(&format!("SELECT 1 -- maxscale n{number} begin"));
    }
    assert_eq!(bed.counts("hints_ignored"), ["maxscale=12"]);
    for _ in 0..64 {
        bed.query("SELECT 1 -- maxscale end");
    }
    assert_eq!(bed.query("SELECT 1").hints, None);
}

#[test]
fn they_have_to_be_allowed() {
    let mut bed = Bed::new("allow = ['route']");
    assert_eq!(bed.hints("SELECT 1 -- maxscale route to master"), to(RouteTo::Primary));
    bed.query("SELECT 1 -- maxscale begin route to master");
    assert_eq!(bed.query("SELECT 1").hints, None);
    let mut bed = Bed::new("allow = ['maxscale', 'route']");
    bed.query("SELECT 1 -- maxscale begin max_slave_replication_lag=1");
    assert_eq!(bed.query("SELECT 1").hints, None);
    bed.query("SELECT 1 -- maxscale begin route to master");
    assert_eq!(bed.hints("SELECT 1"), to(RouteTo::Primary));
    assert_eq!(bed.counts("hints_denied"), ["max_slave_replication_lag=1"]);
}
