//! How long each filter of a chain takes.
//!
//! ```text
//! parse ──▶ rules ──▶ route ──▶ dispatch ──▶ catch-up ──▶ connection
//! └──────────────────────── its sum ────────────────────────────────┘
//!           └──────────────────────── its sum ──────────────────────┘
//! ```
//!
//! A sum is of what a filter takes with all that is below it; the filter's own part is that less the
//! sum of what comes next. Measured are few commands, of few sessions: reading the clock before and
//! behind each filter is not for nothing.

use crate::{Command, Error, Reply, Result, Stack, moving::Around, stack::Calling};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};
use tower::Service;

/// The first of so many sessions is measured. The others do not pay for it: not even for a layer
/// between each two filters that does nothing.
const SESSIONS: usize = 8;

/// The first of so many commands of such a session is.
const COMMANDS: u32 = 32;

/// What a filter has taken of the commands that were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    /// How many of them have come to it.
    pub commands: u64,
    /// From there to the first bytes of the reply, without what is below it, all together.
    pub time: Duration,
}

/// Of one place in a chain, with all that is below.
#[derive(Debug, Default)]
pub(crate) struct Sum {
    commands: AtomicU64,
    nanos: AtomicU64,
}

impl Sum {
    /// What is taken at this place alone, where `below` is the next one.
    pub(crate) fn without(&self, below: &Self) -> Taken {
        let nanos = self.nanos.load(Relaxed).saturating_sub(below.nanos.load(Relaxed));
        Taken { commands: self.commands.load(Relaxed), time: Duration::from_nanos(nanos) }
    }

    /// What is taken from this place down.
    pub(crate) fn all(&self) -> Taken {
        self.without(&Self::default())
    }

    fn add(&self, time: Duration) {
        self.commands.fetch_add(1, Relaxed);
        self.nanos.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

/// Chooses sessions.
#[derive(Debug, Default)]
pub(crate) struct Turns(AtomicUsize);

impl Turns {
    /// Whether it is the turn of the session that begins.
    pub(crate) fn next(&self) -> bool {
        self.0.fetch_add(1, Relaxed).is_multiple_of(SESSIONS)
    }
}

/// The top of a stack whose commands are measured now and then.
#[derive(Debug)]
pub(crate) struct Chooser {
    left: u32,
    inner: Stack,
}

impl Chooser {
    pub(crate) fn new(inner: Stack) -> Self {
        Self { left: 0, inner }
    }
}

impl Around for Chooser {
    fn inner(&mut self) -> &mut Stack {
        &mut self.inner
    }
}

impl Service<Command> for Chooser {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut command: Command) -> Calling {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => {
                self.left = COMMANDS - 1;
                command.measure();
            }
        }
        self.inner.call(command)
    }
}

/// One place in a chain with all that is below it.
#[derive(Debug)]
pub(crate) struct Clocked {
    sum: Arc<Sum>,
    inner: Stack,
}

impl Clocked {
    pub(crate) fn new(sum: &Arc<Sum>, inner: Stack) -> Self {
        Self { sum: sum.clone(), inner }
    }
}

impl Around for Clocked {
    fn inner(&mut self) -> &mut Stack {
        &mut self.inner
    }
}

impl Service<Command> for Clocked {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> Calling {
        if !command.is_measured() {
            return self.inner.call(command);
        }
        let running = Running { sum: self.sum.clone(), began: Instant::now() };
        let calling = self.inner.call(command);
        Box::pin(async move {
            let reply = calling.await;
            drop(running);
            reply
        })
    }
}

/// Adds what has passed when it is dropped: a call that nobody waits for any more counts too, as it
/// does at all places above and below.
struct Running {
    sum: Arc<Sum>,
    began: Instant,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.sum.add(self.began.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, SESSIONS, Sum, Taken};
    use crate::{
        Chain, Command, Error, Filter, Next, Registry, Reply, Result,
        testing::{self, Client, Log},
    };
    use std::time::Duration;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Settings {}

    struct Passes;

    /// Refuses what begins with an X.
    struct Refuses;

    impl Filter for Passes {
        async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
            next.run(command).await
        }
    }

    impl Filter for Refuses {
        async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
            match testing::text(&command).starts_with('X') {
                true => Err(Error::filter("no")),
                false => next.run(command).await,
            }
        }
    }

    fn chain() -> Chain {
        let registry = Registry::default()
            .with_layer("passes", |_: Settings| Ok(crate::each_session(|| Passes)))
            .with_layer("refuses", |_: Settings| Ok(crate::each_session(|| Refuses)));
        let text = "session = [{ use = 'passes' }, { use = 'refuses' }]";
        testing::chain(text, &registry).expect("is good")
    }

    fn commands(chain: &Chain) -> Vec<u64> {
        let filters = chain.filters().map(|filter| filter.taken.commands);
        filters.chain([chain.taken_by_dispatch().commands]).collect()
    }

    #[test]
    fn some_commands_of_some_sessions_are_measured_where_they_come_by() {
        let chain = chain();
        let mut sessions: Vec<_> = (0..=2 * SESSIONS)
            .map(|_| Client::new(chain.session(testing::ok(Log::default()))))
            .collect();
        for session in &mut sessions[1..SESSIONS] {
            session.query("SELECT 1").expect("it passes");
        }
        assert_eq!(commands(&chain), [0, 0, 0]);
        for _ in 0..=COMMANDS {
            sessions[0].query("SELECT 1").expect("it passes");
        }
        assert_eq!(commands(&chain), [2, 2, 2]);
        for at in [SESSIONS, 2 * SESSIONS] {
            sessions[at].query("X").expect_err("a refusal");
        }
        assert_eq!(commands(&chain), [4, 4, 2]);
    }

    #[test]
    fn a_filter_s_part_is_without_what_is_below() {
        let (outer, inner) = (Sum::default(), Sum::default());
        outer.add(Duration::from_micros(30));
        inner.add(Duration::from_micros(20));
        outer.add(Duration::from_micros(5));
        let expected = Taken { commands: 2, time: Duration::from_micros(15) };
        assert_eq!(outer.without(&inner), expected);
        let none = Taken { commands: 1, time: Duration::ZERO };
        assert_eq!(inner.without(&outer), none, "a command is under way below");
    }
}
