//! What a hint's value means.

use crate::key::Key;
use chain::{
    HostgroupId, Session, Topology,
    facts::{Hints, RouteTo, StickyMode},
    trace_parent::{self, TraceParent},
};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The longest `affinity_key`, in bytes.
const LONGEST_KEY: usize = 256;
/// The most `retries`: as many as a rule may say.
const MOST_RETRIES: u32 = 1000;

/// What the hints of one statement ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) hints: Hints,
    /// How long the command waits before it is sent.
    pub(crate) delay: Option<Duration>,
    /// `min_epoch_ms`, as an age.
    age: Option<Duration>,
}

impl Asked {
    /// Sets what `key` asks for. `None`, and nothing changes, if the value does not fit.
    pub(crate) fn set(&mut self, key: Key, value: &[u8], session: &Session) -> Option<()> {
        let hints = &mut self.hints;
        let topology = &session.topology;
        match key {
            Key::StickyBackend => hints.sticky = Some(StickyMode::from_number(number(value)?)?),
            Key::Affinity => {
                let fits = (1..=LONGEST_KEY).contains(&value.len());
                hints.affinity_key = Some(fits.then(|| value.into())?);
            }
            Key::Hostgroup => hints.hostgroup = Some(hostgroup(value, topology)?),
            Key::Mirror => hints.mirror = Some(hostgroup(value, topology)?),
            Key::Route => hints.route = Some(route(value, topology)?),
            Key::TimeoutMs | Key::QueryTimeout => {
                hints.timeout = Some(milliseconds(value).filter(|limit| !limit.is_zero())?);
            }
            Key::CacheTtlMs | Key::CacheTtl => hints.cache_ttl = Some(milliseconds(value)?),
            Key::MaxLagMs => hints.max_lag = Some(milliseconds(value)?),
            Key::MaxSlaveReplicationLag => {
                hints.max_lag = Some(Duration::from_secs(number(value)?.into()));
            }
            Key::MinEpochMs => self.age = Some(age(value)?),
            Key::QueryDelay => self.delay = Some(milliseconds(value)?),
            Key::MinGtid => hints.min_gtid = Some(gtid(value)?),
            Key::Retries | Key::QueryRetries => {
                hints.retries = Some(number(value).filter(|retries| *retries <= MOST_RETRIES)?);
            }
            Key::CreateNewConnection => hints.new_connection = switch(value)?,
            Key::Traceparent => hints.traceparent = Some(traceparent(value)?),
            Key::Tracestate => hints.tracestate = Some(tracestate(value)?),
            // It has no value.
            Key::Maxscale => return None,
        }
        Some(())
    }

    /// What follows from several of them together.
    pub(crate) fn settle(&mut self) {
        if let Some(age) = self.age.take() {
            let lag = self.hints.max_lag.map_or(age, |lag| lag.min(age));
            self.hints.max_lag = Some(lag);
        }
    }
}

/// A server's name, or a hostgroup's.
pub(crate) fn named(name: &[u8], topology: &Topology) -> Option<RouteTo> {
    let name = std::str::from_utf8(name).ok()?;
    let known = topology.hostgroups().iter().any(|group| {
        group.name.as_deref() == Some(name)
            || group.servers.iter().any(|server| *server.name == *name)
    });
    known.then(|| RouteTo::Named(name.into()))
}

fn route(value: &[u8], topology: &Topology) -> Option<RouteTo> {
    if value.eq_ignore_ascii_case(b"primary") {
        Some(RouteTo::Primary)
    } else if value.eq_ignore_ascii_case(b"replica") {
        Some(RouteTo::Replica)
    } else {
        named(value, topology)
    }
}

/// Digits and nothing else.
fn number(value: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(value).ok()?;
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn switch(value: &[u8]) -> Option<bool> {
    match number(value)? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

fn milliseconds(value: &[u8]) -> Option<Duration> {
    number(value).map(|number| Duration::from_millis(number.into()))
}

fn hostgroup(value: &[u8], topology: &Topology) -> Option<HostgroupId> {
    let id = HostgroupId(number(value)?);
    topology.hostgroup(id).map(|group| group.id)
}

/// How long ago a time was that is counted in milliseconds since 1970; one to come is now.
fn age(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?;
    let epoch = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())??;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Some(now.saturating_sub(Duration::from_millis(epoch)))
}

/// A set of GTIDs of either vendor. Nothing that could leave a string of SQL is in one.
fn gtid(value: &[u8]) -> Option<Arc<str>> {
    let plain =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b':' | b',' | b'_');
    let fits = !value.is_empty() && value.iter().all(plain);
    std::str::from_utf8(value).ok().filter(|_| fits).map(Into::into)
}

fn traceparent(value: &[u8]) -> Option<Arc<str>> {
    TraceParent::parse(value)?;
    std::str::from_utf8(value).ok().map(Into::into)
}

fn tracestate(value: &[u8]) -> Option<Arc<str>> {
    let fits = (1..=trace_parent::LONGEST).contains(&value.len());
    let printable = value.iter().all(|byte| matches!(byte, b' '..=b'~'));
    std::str::from_utf8(value).ok().filter(|_| fits && printable).map(Into::into)
}
