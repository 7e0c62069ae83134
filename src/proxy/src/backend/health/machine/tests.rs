//! Servers that fail, come back, lag and change their role, with simulated time.

use super::{Event, Lag, Machine, Role, Rules, Transition};
use crate::config::ServerWord;
use chain::topology::ServerState::{self, Lagging, OfflineHard, OfflineSoft, Online, Shunned};
use std::time::{Duration, Instant};

const RULES: Rules = Rules {
    failures: 3,
    successes: 2,
    confirmations: 2,
    shun_time: Duration::from_secs(10),
    monitored: true,
    max_lag: Some(Duration::from_secs(5)),
};

/// A machine with its clock.
struct Bed {
    machine: Machine,
    now: Instant,
}

impl Bed {
    fn new(rules: Rules) -> Self {
        let now = Instant::now();
        Self { machine: Machine::new(rules, ServerWord::Online, now), now }
    }

    /// One second later this happens.
    fn sees(&mut self, event: Event) -> Option<Transition> {
        self.now += Duration::from_secs(1);
        self.machine.observe(event, self.now)
    }

    fn state(&mut self, event: Event) -> Option<(ServerState, ServerState)> {
        self.sees(event)?.state
    }

    fn role(&mut self, event: Event) -> Option<(Role, Role)> {
        self.sees(event)?.role
    }
}

fn failed() -> Event {
    Event::Failed("refused".to_owned())
}

fn unreachable() -> Event {
    Event::Unreachable("refused".to_owned())
}

#[test]
fn failures_in_a_row_shun_and_an_answer_between_them_does_not() {
    let mut bed = Bed::new(RULES);
    for _ in 0..5 {
        assert_eq!(bed.state(failed()), None);
        assert_eq!(bed.state(failed()), None);
        assert!(bed.machine.is_in_doubt());
        assert_eq!(bed.state(Event::Answered), None);
        assert!(!bed.machine.is_in_doubt());
    }
    for _ in 0..2 {
        assert_eq!(bed.state(failed()), None);
    }
    let shunned = bed.sees(failed()).expect("it is shunned");
    assert_eq!(shunned.state, Some((Online, Shunned)));
    assert_eq!((shunned.cause.as_str(), bed.machine.cause()), ("refused", "refused"));
    assert_eq!(bed.machine.until(), Some(bed.now + RULES.shun_time));
}

#[test]
fn it_comes_back_after_its_time_with_answers_in_a_row() {
    let mut bed = Bed::new(RULES);
    (0..3).for_each(|_| drop(bed.sees(failed())));
    for second in 1..10 {
        assert_eq!(bed.state(Event::Answered), None, "second {second}");
    }
    assert_eq!(bed.state(Event::Answered), Some((Shunned, Online)));
    assert_eq!(bed.machine.until(), None);

    (0..3).for_each(|_| drop(bed.sees(failed())));
    bed.now += RULES.shun_time;
    assert_eq!(bed.state(Event::Answered), None);
    assert!(bed.machine.is_in_doubt(), "one more will do");
    assert_eq!(bed.state(failed()), None);
    assert_eq!(bed.state(Event::Answered), None, "not in a row");
    assert_eq!(bed.state(Event::Answered), Some((Shunned, Online)));
}

#[test]
fn a_server_that_fails_every_other_time_does_not_flap() {
    let mut bed = Bed::new(RULES);
    let changes = (0..1000).filter(|at| {
        let event = if at % 2 == 0 { failed() } else { Event::Answered };
        bed.sees(event).is_some()
    });
    assert_eq!(changes.count(), 0);
    // Ten of each at a time: it goes and comes once for each.
    let changes = (0..1000).filter(|at| {
        let event = if at / 10 % 2 == 0 { failed() } else { Event::Answered };
        bed.sees(event).is_some()
    });
    assert!(changes.count() <= 100);
}

#[test]
fn where_a_monitor_asks_sessions_do_not_count() {
    let mut bed = Bed::new(RULES);
    (0..100).for_each(|_| assert_eq!(bed.state(unreachable()), None));
}

#[test]
fn a_session_that_connects_ends_the_row() {
    let mut bed = Bed::new(Rules { monitored: false, ..RULES });
    for _ in 0..5 {
        (0..2).for_each(|_| assert_eq!(bed.state(unreachable()), None));
        assert_eq!(bed.state(Event::Reached), None);
    }
}

#[test]
fn without_a_monitor_time_brings_it_back_on_probation() {
    let mut bed = Bed::new(Rules { monitored: false, ..RULES });
    (0..2).for_each(|_| assert_eq!(bed.state(unreachable()), None));
    assert_eq!(bed.state(unreachable()), Some((Online, Shunned)));
    assert_eq!(bed.state(Event::Time), None);
    bed.now += RULES.shun_time;
    assert_eq!(bed.state(Event::Time), Some((Shunned, Online)));
    assert_eq!(bed.state(unreachable()), Some((Online, Shunned)), "one is enough now");
    bed.now += RULES.shun_time;
    assert_eq!(bed.state(Event::Time), Some((Shunned, Online)));
    assert_eq!(bed.state(Event::Reached), None);
    (0..2).for_each(|_| assert_eq!(bed.state(unreachable()), None, "it is trusted again"));
}

#[test]
fn with_a_monitor_time_alone_changes_nothing() {
    let mut bed = Bed::new(RULES);
    (0..3).for_each(|_| drop(bed.sees(failed())));
    bed.now += RULES.shun_time * 9;
    assert_eq!(bed.state(Event::Time), None);
}

#[test]
fn a_role_is_known_at_once_and_changes_when_it_is_confirmed() {
    let mut bed = Bed::new(RULES);
    assert_eq!(bed.role(Event::Writable(true)), Some((Role::Unknown, Role::Primary)));
    assert_eq!(bed.role(Event::Writable(false)), None);
    assert!(bed.machine.is_in_doubt());
    assert_eq!(bed.role(Event::Writable(true)), None);
    assert_eq!(bed.role(Event::Writable(false)), None, "not in a row");
    assert_eq!(bed.role(Event::Writable(false)), Some((Role::Primary, Role::Replica)));
    for at in 0..100 {
        assert_eq!(bed.role(Event::Writable(at % 2 == 0)), None, "it does not flap");
    }
}

#[test]
fn lag_counts_when_it_is_confirmed_and_is_forgiven_when_it_has_passed() {
    let by = |seconds| Event::Behind(Lag::By(Duration::from_secs(seconds)));
    let mut bed = Bed::new(RULES);
    bed.sees(Event::Writable(false));
    assert_eq!(bed.state(by(5)), None);
    assert_eq!(bed.state(by(9)), None);
    assert!(bed.machine.is_in_doubt());
    assert_eq!(bed.state(by(5)), None);
    assert_eq!(bed.state(by(9)), None, "not in a row");
    assert_eq!(bed.state(by(6)), Some((Online, Lagging)));
    assert_eq!(bed.machine.cause(), "it is 6s behind, max_lag is 5s");
    assert_eq!(bed.state(by(1)), None);
    assert_eq!(bed.state(by(7)), None);
    assert_eq!(bed.state(by(1)), None);
    assert_eq!(bed.state(by(1)), Some((Lagging, Online)));
    assert_eq!(bed.state(Event::Behind(Lag::Stopped)), None);
    assert_eq!(bed.state(Event::Behind(Lag::Stopped)), Some((Online, Lagging)));
    assert_eq!(bed.machine.cause(), "its replication does not run");
    assert_eq!(bed.state(Event::Behind(Lag::Unknown)), None, "nothing was measured");
}

#[test]
fn a_replica_that_becomes_a_primary_lags_no_more() {
    let mut bed = Bed::new(RULES);
    bed.sees(Event::Writable(false));
    (0..2).for_each(|_| drop(bed.sees(Event::Behind(Lag::Stopped))));
    assert_eq!(bed.machine.state(), Lagging);
    bed.sees(Event::Writable(true));
    let promoted = bed.sees(Event::Writable(true)).expect("it is promoted");
    assert_eq!(promoted.role, Some((Role::Replica, Role::Primary)));
    assert_eq!(promoted.state, Some((Lagging, Online)));
    assert_eq!(bed.state(Event::Behind(Lag::Stopped)), None);
}

#[test]
fn without_a_limit_no_lag_is_too_much() {
    let mut bed = Bed::new(Rules { max_lag: None, ..RULES });
    (0..9).for_each(|_| assert_eq!(bed.state(Event::Behind(Lag::Stopped)), None));
    assert_eq!(bed.machine.lag(), Lag::Stopped);
}

#[test]
fn an_operators_word_stands_above_everything() {
    let mut bed = Bed::new(RULES);
    let order = |word| Event::Ordered(word);
    assert_eq!(bed.state(order(ServerWord::OfflineSoft)), Some((Online, OfflineSoft)));
    assert!(!bed.machine.is_up());
    (0..3).for_each(|_| assert_eq!(bed.state(failed()), None));
    assert_eq!(bed.machine.until(), None);
    assert_eq!(bed.state(order(ServerWord::OfflineHard)), Some((OfflineSoft, OfflineHard)));
    assert_eq!(bed.state(order(ServerWord::OfflineHard)), None);
    // What was seen meanwhile holds again.
    assert_eq!(bed.state(order(ServerWord::Online)), Some((OfflineHard, Shunned)));
    assert_eq!(bed.machine.cause(), "refused");
    bed.now += RULES.shun_time;
    bed.sees(Event::Answered);
    assert_eq!(bed.state(Event::Answered), Some((Shunned, Online)));
    assert!(bed.machine.is_up());
}

#[test]
fn a_file_may_begin_with_a_word() {
    let machine = Machine::new(RULES, ServerWord::OfflineHard, Instant::now());
    assert_eq!(machine.state(), OfflineHard);
}
