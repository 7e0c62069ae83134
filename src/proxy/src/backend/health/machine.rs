//! What becomes of one server by what is seen of it. No clock and no socket: time comes with each
//! event.
//!
//! ```text
//!            failures in a row                    beyond max_lag
//!  SHUNNED ◀────────────────── ONLINE ──────────────────────────▶ LAGGING
//!     └──── shun_time, then ─────▶  ◀──── answers within it, ────────┘
//!           answers in a row              in a row
//!
//!  an operator's word (OFFLINE_SOFT, OFFLINE_HARD) stands above all of it
//! ```

mod seen;

pub(crate) use seen::{Event, Lag, Role, Transition};

use crate::config::ServerWord;
use chain::topology::ServerState;
use std::time::{Duration, Instant};

/// When a state changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    /// Failures in a row, after which a server is shunned.
    pub(crate) failures: u32,
    /// Answers in a row, after which it comes back.
    pub(crate) successes: u32,
    /// Answers in a row that must contradict what is known of its role, or be beyond `max_lag`.
    pub(crate) confirmations: u32,
    pub(crate) shun_time: Duration,
    /// Somebody asks the server. If not, only time brings it back.
    pub(crate) monitored: bool,
    /// How far a replica may be behind.
    pub(crate) max_lag: Option<Duration>,
}

/// All that is known of one server.
#[derive(Debug)]
pub(crate) struct Machine {
    rules: Rules,
    word: ServerWord,
    shun: Option<Shun>,
    /// In a row, of the monitor.
    failures: u32,
    /// In a row, of the monitor.
    successes: u32,
    /// In a row, of sessions.
    unreachable: u32,
    role: Role,
    /// Answers in a row that contradict the role.
    doubts: u32,
    lag: Lag,
    lagging: bool,
    /// Answers in a row that were beyond the limit.
    behind: u32,
    /// Answers in a row that were within it.
    caught_up: u32,
    state: ServerState,
    cause: String,
    since: Instant,
}

#[derive(Debug)]
struct Shun {
    cause: String,
    until: Instant,
}

impl Machine {
    /// A server of which nothing is known but its operator's word.
    pub(crate) fn new(rules: Rules, word: ServerWord, now: Instant) -> Self {
        let mut machine = Self {
            rules,
            word,
            shun: None,
            failures: 0,
            successes: 0,
            unreachable: 0,
            role: Role::Unknown,
            doubts: 0,
            lag: Lag::Unknown,
            lagging: false,
            behind: 0,
            caught_up: 0,
            state: ServerState::Online,
            cause: "as configured".to_owned(),
            since: now,
        };
        machine.state = machine.verdict();
        machine
    }

    /// Goes by other rules from now on; gives what that changes.
    pub(crate) fn obey(&mut self, rules: Rules, now: Instant) -> Option<Transition> {
        self.rules = rules;
        if rules.max_lag.is_none() {
            self.lagging = false;
            (self.behind, self.caught_up) = (0, 0);
        }
        self.settle(self.role, "its rules were changed by a reload".to_owned(), now)
    }

    /// Notes what is seen; gives what that changes.
    pub(crate) fn observe(&mut self, event: Event, now: Instant) -> Option<Transition> {
        let role = self.role;
        let cause = match event {
            Event::Answered => self.answered(now),
            Event::Failed(cause) => {
                self.successes = 0;
                self.failures += 1;
                self.fails(self.failures, cause, now)
            }
            Event::Reached => {
                self.unreachable = 0;
                None
            }
            // Then the monitor looks by itself.
            Event::Unreachable(_) if self.rules.monitored => None,
            Event::Unreachable(cause) => {
                self.unreachable += 1;
                self.fails(self.unreachable, cause, now)
            }
            Event::Writable(writable) => self.is_writable(writable),
            Event::Behind(lag) => self.is_behind(lag),
            Event::Ordered(word) => {
                self.word = word;
                Some("its operator's word".to_owned())
            }
            Event::Time => self.time_has_passed(now),
        };
        self.settle(role, cause?, now)
    }

    fn settle(&mut self, role: Role, cause: String, now: Instant) -> Option<Transition> {
        let state = self.verdict();
        let state = (state != self.state).then_some((self.state, state));
        if let Some((_, to)) = state {
            self.state = to;
            self.since = now;
            self.cause = match (&self.shun, to) {
                (Some(shun), ServerState::Shunned) => shun.cause.clone(),
                _ => cause.clone(),
            };
        }
        let role = (role != self.role).then_some((role, self.role));
        (state.is_some() || role.is_some()).then_some(Transition { state, role, cause })
    }

    fn verdict(&self) -> ServerState {
        match self.word {
            ServerWord::OfflineHard => ServerState::OfflineHard,
            ServerWord::OfflineSoft => ServerState::OfflineSoft,
            ServerWord::Online if self.shun.is_some() => ServerState::Shunned,
            ServerWord::Online if self.lagging => ServerState::Lagging,
            ServerWord::Online => ServerState::Online,
        }
    }

    fn answered(&mut self, now: Instant) -> Option<String> {
        self.failures = 0;
        self.successes = self.successes.saturating_add(1);
        let over = self.shun.as_ref().is_some_and(|shun| now >= shun.until);
        if !over || self.successes < self.rules.successes {
            return None;
        }
        self.shun = None;
        self.unreachable = 0;
        Some("it answers again".to_owned())
    }

    /// The `count`th failure in a row.
    fn fails(&mut self, count: u32, cause: String, now: Instant) -> Option<String> {
        if self.shun.is_some() || count < self.rules.failures {
            return None;
        }
        self.successes = 0;
        self.shun = Some(Shun { cause: cause.clone(), until: now + self.rules.shun_time });
        Some(cause)
    }

    fn is_writable(&mut self, writable: bool) -> Option<String> {
        let seen = if writable { Role::Primary } else { Role::Replica };
        if seen == self.role {
            self.doubts = 0;
            return None;
        }
        self.doubts += 1;
        if self.role != Role::Unknown && self.doubts < self.rules.confirmations {
            return None;
        }
        self.doubts = 0;
        self.role = seen;
        if seen == Role::Primary {
            (self.lag, self.lagging) = (Lag::Unknown, false);
            (self.behind, self.caught_up) = (0, 0);
        }
        Some(if writable { "it can be written to" } else { "it is read-only" }.to_owned())
    }

    fn is_behind(&mut self, lag: Lag) -> Option<String> {
        if self.role == Role::Primary {
            return None;
        }
        self.lag = lag;
        let limit = self.rules.max_lag?;
        match lag {
            Lag::Unknown => None,
            Lag::By(lag) if lag <= limit => {
                self.behind = 0;
                self.caught_up = self.caught_up.saturating_add(1);
                if self.lagging && self.caught_up >= self.rules.successes {
                    self.lagging = false;
                }
                Some(format!("it is {lag:?} behind, within max_lag of {limit:?}"))
            }
            beyond => {
                self.caught_up = 0;
                self.behind = self.behind.saturating_add(1);
                self.lagging |= self.behind >= self.rules.confirmations;
                Some(match beyond {
                    Lag::By(lag) => format!("it is {lag:?} behind, max_lag is {limit:?}"),
                    _ => "its replication does not run".to_owned(),
                })
            }
        }
    }

    fn time_has_passed(&mut self, now: Instant) -> Option<String> {
        let over = self.shun.as_ref().is_some_and(|shun| now >= shun.until);
        if self.rules.monitored || !over {
            return None;
        }
        self.shun = None;
        // On probation: the next failure is one too many.
        self.unreachable = self.rules.failures - 1;
        Some("its time is over, it is tried again".to_owned())
    }

    pub(crate) fn state(&self) -> ServerState {
        self.state
    }

    /// Why it is in that state.
    pub(crate) fn cause(&self) -> &str {
        &self.cause
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Until when it is left alone at least.
    pub(crate) fn until(&self) -> Option<Instant> {
        let shunned = self.state == ServerState::Shunned;
        self.shun.as_ref().filter(|_| shunned).map(|shun| shun.until)
    }

    pub(crate) fn role(&self) -> Role {
        self.role
    }

    pub(crate) fn lag(&self) -> Lag {
        self.lag
    }

    /// Whether its operator lets it be used and it can be reached, as far as is known.
    pub(crate) fn is_up(&self) -> bool {
        self.word == ServerWord::Online && self.shun.is_none()
    }

    /// Whether the last question was answered.
    pub(crate) fn answers(&self) -> bool {
        self.shun.is_none() && self.failures == 0
    }

    /// Whether something is about to change, so that one should look more often.
    pub(crate) fn is_in_doubt(&self) -> bool {
        match self.shun {
            Some(_) => self.successes > 0,
            None => {
                let lags = self.behind > 0 && !self.lagging;
                self.failures > 0 || self.doubts > 0 || lags
            }
        }
    }
}

/// States as people and metrics read them.
pub(crate) fn state_name(state: ServerState) -> &'static str {
    match state {
        ServerState::Online => "online",
        ServerState::Lagging => "lagging",
        ServerState::Shunned => "shunned",
        ServerState::OfflineSoft => "offline-soft",
        ServerState::OfflineHard => "offline-hard",
    }
}

/// All of them.
pub(crate) const STATES: [ServerState; 5] = [
    ServerState::Online,
    ServerState::Lagging,
    ServerState::Shunned,
    ServerState::OfflineSoft,
    ServerState::OfflineHard,
];

#[cfg(test)]
mod tests;
