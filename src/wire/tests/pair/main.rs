//! Both ends of the protocol, driven against each other and against recorded replies, without
//! sockets.

mod auth;
mod fuzz_bodies;
mod logins;
mod packets;
mod recorded;
mod replies;
mod round_trips;
