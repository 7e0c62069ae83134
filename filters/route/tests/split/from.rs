//! `gtid_from_hostgroup` of a rule.

use crate::{
    Above, Split,
    causal::{ASKS, WAITS, mariadb},
    given, log,
};
use chain::{HostgroupId, facts::RuleVerdict};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// Reads are for hostgroup 1, and must see what was written in hostgroup `from`.
fn reads(from: Option<u32>) {
    let verdict = RuleVerdict {
        hostgroup: Some(HostgroupId(1)),
        gtid_from: from.map(HostgroupId),
        ..RuleVerdict::default()
    };
    given(Above { verdict: Some(verdict), log: Some(log(false)), ..Above::default() });
}

fn writes() {
    given(Above { log: Some(log(false)), ..Above::default() });
}

#[test]
fn a_reader_waits_once_for_what_was_written_there() {
    let mut split = Split::of("", mariadb(Arc::default()));
    reads(Some(0));
    assert_eq!(split.sends("SELECT 1"), "r1", "nothing was written");
    for _ in 0..2 {
        writes();
        assert_eq!(split.sends("DELETE FROM t"), "p");
        reads(Some(0));
        assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r2: {WAITS} r2"));
        assert_eq!(split.sends("SELECT 1"), format!("r1: {WAITS} r1"));
        assert_eq!(split.sends("SELECT 1"), "r2");
        reads(None);
        assert_eq!(split.sends("SELECT 1"), "r1");
        // So that the readers' turns are the same again.
        assert_eq!(split.sends("SELECT 1"), "r2");
        assert_eq!(split.sends("SELECT 1"), "r1");
    }
}

#[test]
fn what_was_written_before_a_rule_asked_is_seen_too() {
    let mut split = Split::of("", mariadb(Arc::default()));
    writes();
    assert_eq!(split.sends("DELETE FROM t"), "p");
    reads(Some(0));
    assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r1: {WAITS} r1"));
}

#[test]
fn writes_elsewhere_are_not_waited_for() {
    let mut split = Split::of("", mariadb(Arc::default()));
    writes();
    split.sends("DELETE FROM t");
    reads(Some(7));
    assert_eq!(split.sends("SELECT 1"), "r1");
    assert_eq!(split.sends("SELECT 1"), "r2");
}

#[test]
fn a_read_that_no_reader_can_answer_goes_to_the_hostgroup_itself() {
    let late = Arc::new(AtomicBool::new(true));
    let mut split = Split::of("", mariadb(late.clone()));
    writes();
    split.sends("DELETE FROM t");
    reads(Some(0));
    assert_eq!(split.sends("SELECT 1"), format!("{ASKS} r1: {WAITS} p"));
    late.store(false, Relaxed);
    assert_eq!(split.sends("SELECT 1"), format!("r2: {WAITS} r2"));
}

#[test]
fn a_transaction_and_what_writes_wait_for_nothing() {
    let mut split = Split::of("", mariadb(Arc::default()));
    writes();
    split.sends("DELETE FROM t");
    split.sends("BEGIN");
    reads(Some(0));
    assert_eq!(split.sends("SELECT 1"), "p");
    writes();
    split.sends("COMMIT");
    reads(Some(0));
    assert_eq!(split.sends("DELETE FROM u"), "r1", "as its rule says");
}
