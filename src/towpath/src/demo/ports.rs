//! Free ports of the loopback interface.

use anyhow::{Result, bail};
use std::net::{Ipv4Addr, TcpListener};
use std::process;

/// Where the search for the servers' ports begins, and how many starting points there are.
///
/// All stay below 32768: above, the kernel takes the local end of outgoing connections from the
/// same numbers, and a server's start could collide with one.
const FIRST: u16 = 20_000;
const STARTS: u16 = 2_000;
const LAST: u16 = 32_767;

/// The port an application would expect: 3306 and 6033 are mirror images, and the usual pair.
const PROXY: u16 = 6033;

/// The ports of one demo on 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ports {
    /// Towpath's, for clients.
    pub(crate) proxy: u16,
    /// Towpath's, for `/status` and `/metrics`.
    pub(crate) admin: u16,
    /// The primary's; the replicas have the two after it.
    pub(crate) primary: u16,
}

impl Ports {
    /// Chooses free ports; `proxy` is the one that was asked for, and an error if it is taken.
    pub(crate) fn choose(proxy: Option<u16>) -> Result<Self> {
        // Two demos that start together begin their search at different places.
        let start = FIRST + 5 * u16::try_from(process::id() % u32::from(STARTS))?;
        Self::search(proxy, start, is_free)
    }

    fn search(asked: Option<u16>, start: u16, free: impl Fn(u16) -> bool) -> Result<Self> {
        let run = |length: u16, from: u16| {
            (from..=LAST - length).find(|&first| (first..first + length).all(&free))
        };
        let Some(primary) = run(3, start).or_else(|| run(3, FIRST)) else {
            bail!("no three free ports in a row between {FIRST} and {LAST} on 127.0.0.1");
        };
        let others = |from: u16| (from..LAST).filter(|&p| free(p));
        let (proxy, admin) = match asked {
            Some(port) if !free(port) => bail!("port {port} on 127.0.0.1 is taken"),
            Some(port) => (Some(port), others(primary + 3).find(|&p| p != port)),
            None if free(PROXY) => (Some(PROXY), others(primary + 3).next()),
            None => {
                let mut two = others(primary + 3);
                (two.next(), two.next())
            }
        };
        match (proxy, admin) {
            (Some(proxy), Some(_)) if (primary..primary + 3).contains(&proxy) => {
                Self::search(asked, primary + 3, free)
            }
            (Some(proxy), Some(admin)) => Ok(Self { proxy, admin, primary }),
            _ => bail!("no free port between {primary} and {LAST} on 127.0.0.1"),
        }
    }

    /// The port of server 1 (the primary), 2 or 3.
    pub(crate) fn server(&self, number: u16) -> u16 {
        self.primary + number - 1
    }
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_port_is_taken_when_free() {
        let ports = Ports::search(None, 20_005, |_| true).unwrap();
        assert_eq!(ports, Ports { proxy: 6033, admin: 20_008, primary: 20_005 });
        assert_eq!(ports.server(3), 20_007);
    }

    #[test]
    fn taken_ports_are_stepped_over() {
        let ports = Ports::search(None, 20_000, |p| ![6033, 20_001, 20_005].contains(&p)).unwrap();
        assert_eq!(ports, Ports { proxy: 20_006, admin: 20_007, primary: 20_002 });
    }

    #[test]
    fn port_asked_for_is_kept_or_refused() {
        let ports = Ports::search(Some(20_001), 20_000, |_| true).unwrap();
        assert_eq!(ports, Ports { proxy: 20_001, admin: 20_006, primary: 20_003 });
        let error = Ports::search(Some(7000), 20_000, |p| p != 7000).unwrap_err();
        assert_eq!(error.to_string(), "port 7000 on 127.0.0.1 is taken");
    }

    #[test]
    fn search_wraps_and_ends() {
        let ports = Ports::search(Some(7000), 30_000, |p| p < 25_000).unwrap();
        assert_eq!(ports.primary, 20_000);
        assert!(Ports::search(None, 20_000, |p| p % 3 == 0).is_err());
    }

    #[test]
    fn really_taken_port_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert!(!is_free(listener.local_addr().unwrap().port()));
    }
}
