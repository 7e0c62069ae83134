//! Sessions beside a direct connection: random ones, those of well-known applications, and the rows of
//! the hazard table that need servers of their own.
//!
//! | variable | |
//! |---|---|
//! | `TOWPATH_TWIN_SEED` | one seed, in all modes |
//! | `TOWPATH_TWIN_MINUTES` | how long the soak takes |
//! | `TOWPATH_TWIN_CHAIN`, `TOWPATH_TWIN_SETTINGS` | lines of the chain, and settings of `session-commands`, in place of all modes |

/// Makes of each function `fn(Vendor) -> Result<()>` two tests, one for each vendor.
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

mod applications;
mod compaction;
mod counted;
mod listed;
mod modes;
mod random;
mod rows;

/// Runs `test` for `vendor`; where there is none of its servers it is left out, with a loud line.
fn with(
    vendor: e2e::Vendor,
    test: impl FnOnce(e2e::Vendor) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    e2e::Cluster::find(vendor)?.map_or(Ok(()), |_| test(vendor))
}
