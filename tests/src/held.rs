//! What a process holds, to be compared with what it held before.

use crate::{Proxy, client::throw, wait};
use anyhow::{Context, Result, ensure};
use std::fs;

/// What a Towpath process holds for its clients.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Held {
    /// Clients.
    pub sessions: u64,
    /// Connections to servers that sessions hold.
    pub attached: u64,
    /// Commands whose reply has not ended.
    pub outstanding: u64,
    /// Tasks of the runtime.
    pub tasks: u64,
    /// File descriptors, but for those of idle connections.
    pub descriptors: u64,
}

impl Held {
    /// What `proxy` holds now.
    pub fn by(proxy: &Proxy) -> Result<Self> {
        // before the question, which takes a descriptor itself, and later than its answer
        let descriptors = fs::read_dir(format!("/proc/{}/fd", proxy.pid()))?.count() as u64;
        let metrics = proxy.get("/metrics")?;
        let sum = |name: &str, label: &str| -> Result<u64> {
            let lines = metrics.lines().filter(|line| !line.starts_with('#'));
            lines
                .filter_map(|line| line.rsplit_once(' '))
                .filter(|(key, _)| key.split('{').next() == Some(name) && key.contains(label))
                .try_fold(0, |sum, (_, value)| Ok(sum + value.parse::<u64>()?))
        };
        let idle = sum("towpath_backend_connections", "state=\"idle\"")?;
        Ok(Self {
            sessions: sum("towpath_sessions", "")?,
            attached: sum("towpath_backend_connections", "state=\"attached\"")?,
            outstanding: sum("towpath_backend_outstanding", "")?,
            tasks: sum("towpath_tasks", "")?,
            descriptors: descriptors.saturating_sub(idle),
        })
    }

    /// What `proxy` holds without clients, to be asked before it has any: its listeners begin one
    /// after the other, and what they begin with ends.
    pub fn at_start(proxy: &Proxy) -> Result<Self> {
        throw(&proxy.address, b"")?;
        let mut least = Self { tasks: u64::MAX, descriptors: u64::MAX, ..Self::default() };
        for _ in 0..5 {
            let now = Self::by(proxy)?;
            least.tasks = least.tasks.min(now.tasks);
            least.descriptors = least.descriptors.min(now.descriptors);
            wait::pause();
        }
        Ok(least)
    }

    /// Waits until `proxy` holds no more than this, and its log tells of no panic.
    pub fn until_again(self, proxy: &Proxy) -> Result<()> {
        self.until_again_with(proxy, || ())
    }

    /// Like [`Held::until_again`]; does something before each look.
    pub fn until_again_with(self, proxy: &Proxy, mut before_each: impl FnMut()) -> Result<()> {
        let mut last = self;
        let waited = wait::until("the proxy to hold what it held before", || {
            before_each();
            last = Self::by(proxy)?;
            Ok(last.is_within(&self).then_some(()))
        });
        waited.with_context(|| format!("before {self:?}, now {last:?}"))?;
        ensure!(!proxy.log().contains("panicked"), "a panic: see the proxy's log");
        Ok(())
    }

    fn is_within(&self, before: &Self) -> bool {
        let Self { sessions, attached, outstanding, tasks, descriptors } = *self;
        sessions <= before.sessions
            && attached <= before.attached
            && outstanding <= before.outstanding
            && tasks <= before.tasks
            && descriptors <= before.descriptors
    }
}
