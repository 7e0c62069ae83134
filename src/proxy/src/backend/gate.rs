//! A KILL meets the session that it was meant for, or nobody.

use tokio::sync::{Mutex, MutexGuard};

/// Stands between the KILLs of a session's connection and the sessions that have it later.
#[derive(Default)]
pub(crate) struct Gate(Mutex<State>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// The connection is the session's.
    #[default]
    Open,
    /// So it is, and a KILL has been answered.
    Struck,
    /// A KILL was sent to which no reply has come: it may strike at any time.
    Doubtful,
    /// The connection is the session's no longer.
    Shut,
}

/// A KILL that is under way.
#[derive(Debug)]
pub(crate) struct Passage<'a>(MutexGuard<'a, State>);

impl Gate {
    /// Lets one KILL through, after those before it. Until [`Passage::answered`] the connection
    /// counts as one that may be struck, also when the KILL is given up. `None` once the session
    /// has let go of the connection.
    pub(crate) async fn enter(&self) -> Option<Passage<'_>> {
        let mut state = self.0.lock().await;
        if *state == State::Shut {
            return None;
        }
        *state = State::Doubtful;
        Some(Passage(state))
    }

    /// Waits until no KILL is under way, and lets none through any more. True if none can strike
    /// the connection from now on.
    pub(crate) async fn shut(&self) -> bool {
        let mut state = self.0.lock().await;
        matches!(std::mem::replace(&mut *state, State::Shut), State::Open | State::Struck)
    }

    /// Lets none through any more, unless one has been let through: then the gate stays as it is.
    pub(crate) fn try_shut(&self) -> bool {
        self.0.try_lock().is_ok_and(|mut state| {
            let untouched = *state == State::Open;
            if untouched {
                *state = State::Shut;
            }
            untouched
        })
    }

    /// The connection is the same session's again, which has shut the gate when it let it go. False
    /// if somebody looks at it just now: then it stays shut.
    pub(crate) fn reopen(&self) -> bool {
        self.0.try_lock().is_ok_and(|mut state| {
            *state = State::Open;
            true
        })
    }
}

impl Passage<'_> {
    /// A server has replied: what there was to do has been done.
    pub(crate) fn answered(mut self) {
        *self.0 = State::Struck;
    }
}

#[cfg(test)]
mod tests {
    use super::Gate;
    use tokio_test::{assert_pending, assert_ready, task};

    #[test]
    fn a_connection_is_let_go_when_the_kill_has_been_answered() {
        let gate = Gate::default();
        let passage = assert_ready!(task::spawn(gate.enter()).poll()).unwrap();
        let mut shut = task::spawn(gate.shut());
        assert_pending!(shut.poll());
        passage.answered();
        assert!(shut.is_woken());
        assert!(assert_ready!(shut.poll()));
        assert!(assert_ready!(task::spawn(gate.enter()).poll()).is_none());
    }

    #[test]
    fn after_a_kill_without_an_answer_it_is_fit_for_nobody() {
        let gate = Gate::default();
        drop(assert_ready!(task::spawn(gate.enter()).poll()));
        assert!(!assert_ready!(task::spawn(gate.shut()).poll()));
    }

    #[test]
    fn without_waiting_only_an_untouched_gate_is_shut() {
        let gate = Gate::default();
        assert!(gate.try_shut() && gate.reopen() && gate.try_shut());
        assert!(assert_ready!(task::spawn(gate.enter()).poll()).is_none());
        assert!(gate.reopen());
        let passage = assert_ready!(task::spawn(gate.enter()).poll()).unwrap();
        assert!(!gate.try_shut() && !gate.reopen());
        passage.answered();
        assert!(!gate.try_shut(), "one has been let through");
        assert!(assert_ready!(task::spawn(gate.shut()).poll()));
    }

    #[test]
    fn kills_pass_one_after_the_other() {
        let gate = Gate::default();
        let first = assert_ready!(task::spawn(gate.enter()).poll()).unwrap();
        let mut second = task::spawn(gate.enter());
        assert_pending!(second.poll());
        first.answered();
        assert_ready!(second.poll()).unwrap().answered();
        assert!(assert_ready!(task::spawn(gate.shut()).poll()));
    }
}
