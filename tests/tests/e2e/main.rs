//! What must hold between a client, Towpath and real servers: one module for each theme.
//!
//! Every test runs once for each vendor, as `theme::vendor::test`.

/// Makes of each function `fn(&Cluster) -> Result<()>` two tests, one for each vendor.
macro_rules! on_both_vendors {
    ($($test:ident),* $(,)?) => {
        mod mariadb {
            $(#[test] fn $test() -> anyhow::Result<()> {
                crate::with(e2e::Vendor::MariaDb, super::$test)
            })*
        }
        mod mysql {
            $(#[test] fn $test() -> anyhow::Result<()> {
                crate::with(e2e::Vendor::MySql, super::$test)
            })*
        }
    };
}

mod abandoned;
mod admin;
mod attributes;
mod big_packets;
mod cache;
mod catch_up;
mod compression;
mod cuts;
mod denials;
mod drivers;
mod events;
mod extensions;
mod faults;
mod forward;
mod forward_ends;
mod forward_flags;
mod forward_hops;
mod forward_observed;
mod forward_places;
mod forward_replica;
mod forward_told;
mod forward_triggers;
mod frames;
mod graceful;
mod half_open;
mod health;
mod hints;
mod hostile;
mod ids;
mod kill;
mod left_behind;
mod limits;
mod login;
mod memory;
mod multiplex;
mod observe;
mod pipelining;
mod plugins;
mod pool;
mod predict;
mod prepared;
mod proxy_protocol;
mod queries;
mod ready;
mod refused_late;
mod relay;
mod reload;
mod rules;
mod rules_actions;
mod session_commands;
mod sessions;
mod slow;
mod split;
mod state;
mod sticky;
mod sysbench;
mod telemetry;
mod tls;
mod transactions;
mod vanish;

/// Runs `test` on the cluster of `vendor`; where there is none it is left out, with a loud line.
fn with(
    vendor: e2e::Vendor,
    test: impl FnOnce(&e2e::Cluster) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    e2e::Cluster::find(vendor)?.map_or(Ok(()), |cluster| test(&cluster))
}
