//! What `tests/compare/run` measures with, besides sysbench.
//!
//! | here | what |
//! |---|---|
//! | [`client`] | one blocking connection that does as little as a client can |
//! | [`load`] | the loads made of it |
//! | [`beginnings`] | those about how sessions begin |
//! | [`crowd`] | that of many sessions over few connections |
//! | `bin/load.rs` | their command line: one line of JSON for each |
//! | `bin/tcp-copy.rs` | the bare byte copy: what any user-space proxy costs at least |
//! | `bin/delay.rs` | a relay that makes a server be farther away |

pub mod beginnings;
pub mod client;
pub mod crowd;
pub mod load;
