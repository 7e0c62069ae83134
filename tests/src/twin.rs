//! Random sessions, directly and through the proxy: what a client sees must be the same.
//!
//! | module | what |
//! |---|---|
//! | [`script`] | one session as a list of steps |
//! | [`templates`] | the statements that scripts are made of |
//! | [`generator`] | a script for a seed |
//! | [`session`] | a script said to one address, and what came back |
//! | [`shrink`] | the shortest part of a script that still fails |
//! | [`witness`] | what the servers' general logs say of it |
//! | [`bed`] | servers, accounts and data for all of this |

pub mod bed;
pub mod generator;
pub mod script;
pub mod session;
pub mod shrink;
pub mod templates;
pub mod witness;

pub use bed::Bed;
pub use generator::Plan;
pub use script::{Script, Step};
