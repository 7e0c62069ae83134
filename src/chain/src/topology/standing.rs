//! Whether a server may get new work.

use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed},
    time::Duration,
};

/// Whether a server may get new work. Written by the proxy's monitor, its dispatcher and its
/// operator, read by whoever balances; a reader may see a change a moment late.
#[derive(Debug)]
pub struct Standing {
    state: AtomicU8,
    member: AtomicBool,
    /// In ms; [`UNKNOWN`] if nobody knows.
    lag: AtomicU32,
    /// See [`Standing::changes`].
    changes: AtomicU32,
}

/// What a server's state is, in the order of how bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ServerState {
    /// It takes new work.
    #[default]
    Online,
    /// It is further behind its primary than its cluster allows: no new reads.
    Lagging,
    /// It could not be reached: it is left alone for a while.
    Shunned,
    /// An operator's word: no new work, what is there goes on.
    OfflineSoft,
    /// An operator's word: nothing, and what is there is cut.
    OfflineHard,
}

const UNKNOWN: u32 = u32::MAX;

impl Standing {
    /// Its state.
    pub fn state(&self) -> ServerState {
        match self.state.load(Relaxed) {
            0 => ServerState::Online,
            1 => ServerState::Lagging,
            2 => ServerState::Shunned,
            3 => ServerState::OfflineSoft,
            _ => ServerState::OfflineHard,
        }
    }

    /// Sets its state; gives what it was.
    pub fn set_state(&self, state: ServerState) -> ServerState {
        let before = self.state();
        self.state.store(state as u8, Relaxed);
        let is_there = |state| state <= ServerState::Lagging;
        if is_there(before) != is_there(state) {
            self.changes.fetch_add(1, Relaxed);
        }
        before
    }

    /// Counts how often it went, came back, or changed its hostgroup: another number is perhaps
    /// another server.
    pub fn changes(&self) -> u32 {
        self.changes.load(Relaxed)
    }

    /// Whether it belongs to its hostgroup now. In the two hostgroups of a cluster, a server is a
    /// member of the writer's while it is a primary, of the reader's while it is a replica.
    pub fn is_member(&self) -> bool {
        self.member.load(Relaxed)
    }

    /// Says whether it belongs to its hostgroup now.
    pub fn set_member(&self, member: bool) {
        if self.member.swap(member, Relaxed) != member {
            self.changes.fetch_add(1, Relaxed);
        }
    }

    /// How far it is behind its primary, as last measured, to the ms. `None` if that is not known.
    pub fn lag(&self) -> Option<Duration> {
        match self.lag.load(Relaxed) {
            UNKNOWN => None,
            lag => Some(Duration::from_millis(lag.into())),
        }
    }

    /// Notes how far it is behind its primary.
    pub fn set_lag(&self, lag: Option<Duration>) {
        let lag = lag.map_or(UNKNOWN, |lag| u32::try_from(lag.as_millis()).unwrap_or(UNKNOWN - 1));
        self.lag.store(lag, Relaxed);
    }

    /// Whether it may get new work that bears a lag of at most `max_lag`, where that matters. A lag
    /// that nobody knows is none.
    pub fn takes(&self, max_lag: Option<Duration>) -> bool {
        let behind = || max_lag.is_some_and(|limit| self.lag().is_some_and(|lag| lag > limit));
        self.state() == ServerState::Online && self.is_member() && !behind()
    }
}

impl Default for Standing {
    /// Online, and a member; its lag is not known.
    fn default() -> Self {
        Self {
            state: AtomicU8::new(ServerState::Online as u8),
            member: AtomicBool::new(true),
            lag: AtomicU32::new(UNKNOWN),
            changes: AtomicU32::new(0),
        }
    }
}
