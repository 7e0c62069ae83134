//! State follows a command and comes home before the next one.

use chain::lend::Lend;
use std::future::poll_fn;
use tokio_test::{assert_pending, assert_ready, task};

/// A future that resolves with what is at home.
macro_rules! home {
    ($lend:expr) => {
        poll_fn(|cx| $lend.poll_home(cx).map(|home| home.map(|value| *value)))
    };
}

#[test]
fn it_comes_home_changed_when_it_is_dropped() {
    let mut state = Lend::new(7);
    let mut loan = state.lend();
    *loan += 1;
    let mut home = task::spawn(home!(state));
    assert_pending!(home.poll(), "it is away");
    drop(loan);
    assert!(home.is_woken());
    assert_eq!(assert_ready!(home.poll()).unwrap(), 8);
}

#[test]
fn it_can_be_lent_again() {
    let mut state = Lend::new(0);
    for before in 0..3 {
        let mut loan = state.lend();
        assert_eq!(*loan, before);
        *loan += 1;
        drop(loan);
        assert_eq!(assert_ready!(task::spawn(home!(state)).poll()).unwrap(), before + 1);
    }
}

#[test]
fn what_is_at_home_can_be_asked_for_again_and_again() {
    let mut state = Lend::new(7);
    for _ in 0..2 {
        assert_eq!(assert_ready!(task::spawn(home!(state)).poll()).unwrap(), 7);
    }
}

#[test]
fn kept_for_good_it_ends_the_service() {
    let mut state = Lend::new(7);
    assert_eq!(state.lend().keep(), 7);
    for _ in 0..2 {
        let error = assert_ready!(task::spawn(home!(state)).poll()).unwrap_err();
        assert_eq!(error.origin(), chain::Origin::Backend);
        assert_eq!(error.message(), "the session's state left with an earlier command");
    }
}

#[test]
fn a_loan_outlives_its_lender() {
    let mut state = Lend::new(String::from("here"));
    let loan = state.lend();
    drop(state);
    assert_eq!(&*loan, "here");
}

#[test]
#[should_panic(expected = "poll_ready must succeed before call")]
fn lending_what_is_away_is_a_bug() {
    let mut state = Lend::new(7);
    let _loan = state.lend();
    let _ = state.lend();
}
