//! What is known of the replies to one command: from the first one to a certainty, or to the
//! opposite.
//!
//! ```text
//!            the same again and again
//!  Cold ───────────────────────────────▶ Predictable ──┐ not confirmed for max_age
//!   │ ▲  └────────────────────────────────────◀────────┘
//!   │ │ after a while, unless the command sets a constant
//!   ▼ │       another reply
//!  Volatile ◀────────────────────────────── Predictable
//! ```

use super::{settings::Settings, template::Template};
use smallvec::SmallVec;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// What is known of one command's replies.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) state: State,
    /// What the replies depended on when they came: see [`super::epochs`].
    stamp: u64,
    /// How often there were two different replies.
    strikes: u8,
    /// A command that sets a constant has two replies for good.
    constant: bool,
    /// Whose it is.
    pub(crate) account: u64,
    /// It was asked for since it was last considered for removal.
    pub(crate) touched: bool,
}

/// How sure the next reply is.
#[derive(Debug)]
pub(crate) enum State {
    /// There were too few.
    Cold {
        /// The first one.
        first: First,
        /// How many there were.
        seen: u32,
        /// Sessions that have seen it.
        sessions: SmallVec<[u32; 2]>,
    },
    /// It is this.
    Predictable {
        /// The reply.
        template: Arc<Template>,
        /// When a server gave it last.
        confirmed: Instant,
        /// How often it was given from memory since the entry came to be.
        given: u32,
    },
    /// There were different ones. Observed anew from then on, if ever.
    Volatile(Option<Instant>),
}

/// The first reply to a command.
#[derive(Debug)]
pub(crate) enum First {
    /// There was none.
    None,
    /// One that cannot be given again: an error, for example.
    Unfit,
    /// This one.
    Template(Arc<Template>),
}

/// One reply of a server.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// `None` if it cannot be given again.
    pub(crate) template: Option<Arc<Template>>,
    /// The session that has seen it.
    pub(crate) session: u32,
    /// What it depended on.
    pub(crate) stamp: u64,
}

/// A kind of [`State`], in the order in which entries make room for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Cold,
    Predictable,
    Volatile,
}

/// Longest that a command of the environment's is left alone.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

impl Entry {
    pub(crate) fn new(account: u64, stamp: u64, constant: bool) -> Self {
        let state = State::cold();
        Self { state, stamp, strikes: 0, constant, account, touched: false }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self.state {
            State::Cold { .. } => Kind::Cold,
            State::Predictable { .. } => Kind::Predictable,
            State::Volatile(_) => Kind::Volatile,
        }
    }

    /// Bytes that it takes in a store.
    pub(crate) fn size(&self) -> usize {
        // Its key, its place in a map and in a queue.
        const AROUND: usize = 64;
        let template = match &self.state {
            State::Cold { first: First::Template(template), .. }
            | State::Predictable { template, .. } => template.size(),
            _ => 0,
        };
        size_of::<Self>() + AROUND + template
    }

    /// The reply, if it is sure. `None` now and then although it is, so that a server is asked.
    pub(crate) fn give(
        &mut self,
        stamp: u64,
        now: Instant,
        settings: &Settings,
    ) -> Option<Arc<Template>> {
        self.touched = true;
        if !self.refresh(stamp, now, settings) {
            return None;
        }
        let State::Predictable { template, given, .. } = &mut self.state else { return None };
        *given = given.wrapping_add(1);
        let audited = settings.audit_rate > 0 && given.is_multiple_of(settings.audit_rate);
        (!audited).then(|| template.clone())
    }

    /// Takes in a reply.
    pub(crate) fn observe(&mut self, sample: &Sample, now: Instant, settings: &Settings) {
        self.touched = true;
        if !self.refresh(sample.stamp, now, settings) {
            return;
        }
        match &mut self.state {
            State::Volatile(_) => {}
            State::Predictable { template, confirmed, .. } => match &sample.template {
                Some(same) if same == template => *confirmed = now,
                _ => self.spoil(now, settings),
            },
            State::Cold { first, seen, sessions } => {
                let same = match (&*first, &sample.template) {
                    (First::None, _) | (First::Unfit, None) => true,
                    (First::Template(first), Some(template)) => first == template,
                    _ => false,
                };
                if !same {
                    return self.spoil(now, settings);
                }
                let Some(template) = &sample.template else {
                    *first = First::Unfit;
                    return;
                };
                if matches!(first, First::None) {
                    *first = First::Template(template.clone());
                }
                *seen = seen.saturating_add(1);
                let enough = settings.min_sessions as usize;
                if sessions.len() < enough && !sessions.contains(&sample.session) {
                    sessions.push(sample.session);
                }
                if *seen >= settings.min_observations && sessions.len() >= enough {
                    let template = template.clone();
                    self.state = State::Predictable { template, confirmed: now, given: 0 };
                }
            }
        }
    }

    /// There were different replies.
    pub(crate) fn spoil(&mut self, now: Instant, settings: &Settings) {
        if self.kind() == Kind::Volatile {
            return;
        }
        let pause = settings.volatile_decay.saturating_mul(1 << self.strikes.min(16)).min(LONGEST);
        let ends = !self.constant && !pause.is_zero();
        self.strikes = self.strikes.saturating_add(1);
        self.state = State::Volatile(ends.then(|| now + pause));
    }

    /// A reply that it is from now on: what the statement does not touch has changed.
    pub(crate) fn replace(&mut self, template: Arc<Template>, now: Instant) {
        if self.kind() == Kind::Predictable {
            self.state = State::Predictable { template, confirmed: now, given: 0 };
        }
    }

    /// What time and other things have made of it. False for who comes from the time before they
    /// changed.
    fn refresh(&mut self, stamp: u64, now: Instant, settings: &Settings) -> bool {
        if stamp < self.stamp {
            return false;
        }
        let begins_again = match self.state {
            State::Volatile(until) => until.is_some_and(|until| until <= now),
            _ => self.stamp != stamp,
        };
        self.stamp = stamp;
        if begins_again {
            self.state = State::cold();
        }
        if let State::Predictable { template, confirmed, .. } = &self.state
            && now.duration_since(*confirmed) >= settings.max_age
        {
            let first = First::Template(template.clone());
            self.state = State::Cold { first, seen: 1, sessions: SmallVec::new() };
        }
        true
    }
}

impl State {
    fn cold() -> Self {
        Self::Cold { first: First::None, seen: 0, sessions: SmallVec::new() }
    }
}
