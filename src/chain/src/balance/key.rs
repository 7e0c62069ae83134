//! The same server for everybody who has the same key.

use super::takes;
use crate::topology::{Hostgroup, Server};
use std::{sync::Arc, time::Duration};

/// The server that a key leads to: every proxy whose configuration names the same servers, with the
/// same weights, chooses the same one. Where it takes no work the key's next one does, and no other
/// key moves (rendezvous hashing). If none takes work it is the first. `None` if there is none with
/// a weight.
///
/// Source: D. Thaler, C. Ravishankar, "Using name-based mappings to increase hit rates" (1998);
/// with weights, J. Resch, "New Hashing Algorithms for Data Storage" (2015).
pub fn by_key(group: &Hostgroup, key: u64, max_lag: Option<Duration>) -> Option<&Arc<Server>> {
    let mut best: Option<(bool, f64, &Arc<Server>)> = None;
    for server in group.servers.iter().filter(|server| server.weight() > 0) {
        let (fits, score) = (takes(server, max_lag), score(server, key));
        if best.is_none_or(|(fitted, high, _)| (fits, score) > (fitted, high)) {
            best = Some((fits, score, server));
        }
    }
    best.map(|(_, _, server)| server)
}

/// How far ahead a server is for a key; the greater the weight, the more keys it is ahead for.
fn score(server: &Server, key: u64) -> f64 {
    // The upper 53 bits fit into the fraction, and half a step keeps away from 0 and 1.
    let point = (hash(&server.name, key) >> 11) as f64 + 0.5;
    f64::from(server.weight()) / -(point / (1_u64 << 53) as f64).ln()
}

/// FNV-1a of the name, then mixed with the key (the end of SplitMix64). Never to change: other
/// proxies choose by it.
fn hash(name: &str, key: u64) -> u64 {
    let name = name.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    });
    let mixed = mix(name ^ mix(key));
    mix(mixed ^ name.rotate_left(32))
}

fn mix(mut bits: u64) -> u64 {
    bits = bits.wrapping_add(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ (bits >> 31)
}
