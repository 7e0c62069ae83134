//! How far behind its primary a command's server may be.

use super::Fact;
use std::time::Duration;

/// Only a server of the target's hostgroup will do that is known to be no further behind its primary
/// than this, or whose lag nobody knows: another one is waited for, as long as for a connection.
/// Writer: `route`; reader: the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near(pub Duration);

impl Fact for Near {
    const NAME: &'static str = "near";
}
