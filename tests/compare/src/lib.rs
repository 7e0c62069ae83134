//! What `tests/compare/run` measures with, besides sysbench.
//!
//! | here | what |
//! |---|---|
//! | [`client`] | one blocking connection that does as little as a client can |
//! | [`load`] | the loads made of it |
//! | `bin/load.rs` | their command line: one line of JSON for each |
//! | `bin/tcp-copy.rs` | the bare byte copy: what any user-space proxy costs at least |

pub mod client;
pub mod load;
