//! Both ends of the protocol, driven against each other and against recorded replies, without
//! sockets.

#![allow(clippy::unwrap_used)] // a test that cannot go on has failed

mod auth;
mod fuzz_bodies;
mod logins;
mod packets;
mod proxy_headers;
mod recorded;
mod relay;
mod replies;
mod round_trips;
