//! Compressed frames: both ends against each other, against what servers sent, and against lies.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod bed;
mod conversations;
mod cuts;
mod frames;
mod fuzz_body;
