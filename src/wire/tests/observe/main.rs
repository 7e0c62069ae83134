//! What is seen of conversations that pass, and what is changed in them.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod conversations;
mod fuzz_bodies;
mod ids;
mod talk;
mod texts;
