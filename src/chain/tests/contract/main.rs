//! What the contract promises to filters and to the proxy: one module for each promise.

mod balance;
mod bodies;
mod easy_door;
mod facts;
mod lend;
mod lists;
mod mistakes;
mod moving;
mod panics;
mod readiness;
mod rewriting;
mod towers_own;
