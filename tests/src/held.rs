//! What a process holds, to be compared with what it held before.

use crate::{Proxy, wait};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
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
        let status: Value = serde_json::from_str(&proxy.get("/status")?)?;
        let of_servers = |field: &str| -> Result<u64> {
            let servers = status["servers"].as_array().context("no servers")?;
            Ok(servers.iter().filter_map(|server| server[field].as_u64()).sum())
        };
        let metrics = proxy.get("/metrics")?;
        let tasks = metrics.lines().find_map(|line| line.strip_prefix("towpath_tasks "));
        let descriptors = fs::read_dir(format!("/proc/{}/fd", proxy.pid()))?.count() as u64;
        Ok(Self {
            sessions: status["sessions"].as_u64().context("no sessions")?,
            attached: of_servers("attached")?,
            outstanding: of_servers("outstanding")?,
            tasks: tasks.context("no tasks")?.parse()?,
            descriptors: descriptors.saturating_sub(of_servers("idle")?),
        })
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
        // the admin port's own connections come and go
        sessions <= before.sessions
            && attached <= before.attached
            && outstanding <= before.outstanding
            && tasks <= before.tasks
            && descriptors <= before.descriptors
    }
}
