//! Hosts whose logins break off too often, as servers refuse them by `max_connect_errors`.
//!
//! What counts is what counts with servers: a connection that closes before its login is complete,
//! a login that is malformed or out of order, a TLS handshake that fails, no login in time. A
//! refused login (a wrong password, no such schema, a limit) does not.

use crate::config::Limits;
use arc_swap::ArcSwap;
use chain::session::Peer;
use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// The hosts with logins that broke off since the last one that succeeded.
pub(crate) struct Hosts {
    bounds: ArcSwap<Bounds>,
    /// Locked for a moment when a client comes, and when its login has ended.
    broken: Mutex<HashMap<IpAddr, Broken>>,
}

struct Bounds {
    /// 0 is without limit.
    limit: u32,
    expiry: Duration,
}

struct Broken {
    count: u32,
    last: Instant,
}

/// Hosts that are remembered. Where there are more, the one whose last error is the oldest goes.
const MOST: usize = 4096;

impl Bounds {
    fn of(limits: &Limits) -> Self {
        let Limits { max_connect_errors, connect_errors_expire, .. } = *limits;
        Self { limit: max_connect_errors, expiry: connect_errors_expire }
    }
}

impl Hosts {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { bounds: ArcSwap::from_pointee(Bounds::of(limits)), broken: Mutex::default() }
    }

    /// Goes by other limits from now on.
    pub(crate) fn obey(&self, limits: &Limits) {
        self.bounds.store(Arc::new(Bounds::of(limits)));
    }

    /// Whether a client from there is to be refused.
    pub(crate) fn refuse(&self, peer: Peer) -> bool {
        let Some(host) = self.counted(peer) else { return false };
        let mut broken = self.lock();
        match broken.get(&host) {
            Some(entry) if entry.last.elapsed() >= self.bounds.load().expiry => {
                broken.remove(&host);
                false
            }
            entry => entry.is_some_and(|entry| entry.count >= self.bounds.load().limit),
        }
    }

    /// A login from there has broken off.
    pub(crate) fn broke_off(&self, peer: Peer) {
        let Some(host) = self.counted(peer) else { return };
        let mut broken = self.lock();
        if broken.len() >= MOST && !broken.contains_key(&host) {
            broken.retain(|_, entry| entry.last.elapsed() < self.bounds.load().expiry);
            let oldest = broken.iter().min_by_key(|(_, entry)| entry.last).map(|(host, _)| *host);
            if let Some(oldest) = oldest.filter(|_| broken.len() >= MOST) {
                broken.remove(&oldest);
            }
        }
        let entry = broken.entry(host).or_insert_with(|| Broken { count: 0, last: Instant::now() });
        *entry = Broken { count: entry.count.saturating_add(1), last: Instant::now() };
    }

    /// A login from there has succeeded.
    pub(crate) fn logged_in(&self, peer: Peer) {
        if let Some(host) = self.counted(peer) {
            self.lock().remove(&host);
        }
    }

    /// The host, if its errors count. Servers do not count those of the usual loopback addresses.
    fn counted(&self, peer: Peer) -> Option<IpAddr> {
        match peer {
            Peer::Tcp(host, _) if self.bounds.load().limit > 0 => {
                let usual = [IpAddr::from([127, 0, 0, 1]), IpAddr::from(1_u128.to_be_bytes())];
                (!usual.contains(&host)).then_some(host)
            }
            _ => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpAddr, Broken>> {
        // A panic while locked leaves a table of whole entries.
        self.broken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(limit: u32, expiry: Duration) -> Hosts {
        let limits = Limits {
            max_connect_errors: limit,
            connect_errors_expire: expiry,
            ..Limits::default()
        };
        Hosts::new(&limits)
    }

    fn peer(host: impl Into<IpAddr>) -> Peer {
        Peer::Tcp(host.into(), 4711)
    }

    #[test]
    fn a_host_is_refused_at_its_limit_until_it_expires() {
        const LONG: Duration = Duration::from_secs(3600);
        let (hosts, bad) = (hosts(2, LONG), peer([10, 0, 0, 1]));
        hosts.broke_off(bad);
        assert!(!hosts.refuse(bad));
        hosts.logged_in(bad);
        hosts.broke_off(bad);
        assert!(!hosts.refuse(bad), "a success begins the count anew");
        hosts.broke_off(bad);
        assert!(hosts.refuse(bad));
        assert!(!hosts.refuse(peer([10, 0, 0, 2])));
        let host = IpAddr::from([10, 0, 0, 1]);
        hosts.lock().get_mut(&host).unwrap().last -= LONG;
        assert!(!hosts.refuse(bad), "it has expired");
        assert!(hosts.lock().is_empty());
    }

    #[test]
    fn loopback_sockets_and_everybody_without_a_limit() {
        let day = Duration::from_secs(86_400);
        for peer in [peer([127, 0, 0, 1]), peer([0, 0, 0, 0, 0, 0, 0, 1]), Peer::Unix] {
            let hosts = hosts(1, day);
            hosts.broke_off(peer);
            assert!(!hosts.refuse(peer));
        }
        let hosts = hosts(0, day);
        hosts.broke_off(peer([10, 0, 0, 1]));
        assert!(!hosts.refuse(peer([10, 0, 0, 1])));
    }

    #[test]
    fn the_table_is_bounded() {
        let hosts = hosts(1, Duration::from_secs(86_400));
        for host in 0..u32::try_from(MOST).unwrap() + 100 {
            hosts.broke_off(peer((0x0A00_0000 + host).to_be_bytes()));
        }
        assert_eq!(hosts.lock().len(), MOST);
        assert!(!hosts.refuse(peer(0x0A00_0000_u32.to_be_bytes())), "the oldest has gone");
        assert!(hosts.refuse(peer((0x0A00_0000 + 101_u32).to_be_bytes())));
    }
}
