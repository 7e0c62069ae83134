//! The test bed: real servers, a Towpath process in front of them, clients to compare with.
//!
//! | module | what |
//! |---|---|
//! | [`cluster`] | the MariaDB and MySQL clusters that `./tests/run` keeps up |
//! | [`throwaway`] | a server of a test's own, to be killed, stopped, or left without disk |
//! | [`proxy`] | one Towpath process with a configuration of its own |
//! | [`relay`] | a relay that notes what passes, and cuts at a chosen byte |
//! | [`otlp`] | a collector of traces and metrics |
//! | [`noise`] | random byte strings, and conversations with mistakes in them |
//! | [`held`] | what a process holds, to be compared with what it held before |
//! | [`client`] | a client that keeps every byte it received |
//! | [`transcript`] | one script directly and through the proxy, compared byte for byte |
//! | [`scripted`] | a server that says what a test wants it to say |
//! | [`twin`] | random sessions directly and through the proxy, compared byte for byte |
//! | [`program`] | command lines (`mariadb`, `mysql`, `sysbench`, Python) with a time limit |
//! | [`skip`] | tests that cannot run here say so |
//!
//! A test asks for a cluster by vendor; where there is none it is left out, with a loud line.

pub mod client;
pub mod cluster;
pub mod held;
pub mod noise;
pub mod otlp;
pub mod program;
pub mod proxy;
pub mod relay;
pub mod scripted;
pub mod skip;
pub mod throwaway;
pub mod transcript;
pub mod twin;
pub mod wait;

pub use client::{Client, Login};
pub use cluster::{Cluster, Schema, Vendor};
pub use held::Held;
pub use otlp::Collector;
pub use proxy::{Proxy, Setup};
pub use relay::{Cut, Relay};
pub use scripted::{Say, Scripted};
pub use throwaway::Throwaway;

/// How much a run of the tests does, from `TOWPATH_TEST_SCALE`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Scale {
    /// No load, no big results.
    Fast,
    /// What continuous integration does.
    Normal,
    /// Long soaks.
    Full,
}

impl Scale {
    /// The scale of this run; [`Scale::Normal`] where nothing is said.
    pub fn of_this_run() -> Self {
        match std::env::var("TOWPATH_TEST_SCALE").as_deref() {
            Ok("fast") => Self::Fast,
            Ok("full") => Self::Full,
            _ => Self::Normal,
        }
    }

    /// True when load and big results are wanted; otherwise the test is reported as left out.
    pub fn is_for_load() -> bool {
        let wanted = Self::of_this_run() > Self::Fast;
        if !wanted {
            skip::report("load tests are left out by --fast");
        }
        wanted
    }
}
