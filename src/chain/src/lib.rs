//! The contract between the proxy and its filters.
//!
//! A client command travels down a stack of tower services and its reply streams back up:
//!
//! ```text
//! client ─ Command ─▶ [session filters] ─▶ dispatch ─▶ [backend filters] ─▶ connection
//!        ◀─ Reply ──                                                        (streams)
//! ```
//!
//! * [`Command`] and [`Reply`] are the two messages, owned and passed by value.
//! * A [`Stack`] is one session's chain: uniquely owned, never cloned, one command in flight.
//! * A filter is any [`tower::Layer`] over a [`Stack`]. The layer is shared by all sessions; the
//!   service it makes belongs to one session. [`Filter`] is the easy door for stateful filters.
//! * [`Registry`] knows filters by name and makes a [`Chain`] of a configuration's table.
//!
//! # A filter in full
//!
//! ```
//! use chain::{Command, Filter, Next, Registry, Reply, Result, each_session, testing};
//!
//! #[derive(Default)]
//! struct Tag {
//!     sent: u64,
//! }
//!
//! impl Filter for Tag {
//!     async fn handle(&mut self, mut command: Command, next: Next<'_>) -> Result<Reply> {
//!         self.sent += 1;
//!         command.rewrite_sql(format!("/* {} */ {}", self.sent, testing::text(&command)));
//!         next.run(command).await
//!     }
//! }
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! #[serde(deny_unknown_fields)]
//! struct Settings {}
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry =
//!     Registry::default().with_layer("tag", |_: Settings| Ok(each_session(Tag::default)));
//! let chain = testing::chain("session = [{ use = 'tag' }]", &registry)?;
//!
//! let log = testing::Log::default();
//! let mut session = testing::Client::new(chain.session(testing::ok(log.clone())));
//! session.query("SELECT 1")?;
//! session.query("SELECT 2")?;
//! assert_eq!(log.take(), ["/* 1 */ SELECT 1", "/* 2 */ SELECT 2"]);
//! # Ok(())
//! # }
//! ```
//!
//! # Where state lives
//!
//! | scope | home |
//! |---|---|
//! | one command, read by other filters | a [`facts::Fact`] on the command (down) or reply (up) |
//! | one session, one filter | a field of the filter's service |
//! | one filter, all sessions | a field of the filter's layer, behind an `Arc` |
//! | what the session *is* | the read-only [`Session`] every command carries |
//! | what servers there are | the read-only [`Topology`] the session carries |
//!
//! # Readiness
//!
//! `poll_ready` answers "is this session's state home, and is the stack below alive". Pass it on:
//! the session loop asks it after an error to learn whether the session can go on. An error from
//! it means the stack is beyond use.
//!
//! It never reserves anything. Which backend is needed is not known before the command is, and a
//! filter above may answer without calling down, so a permit taken here would stay with an idle
//! session. Take permits in `call` and let the reply hold them ([`Body::hold`]): a command is not
//! over when its future is, only when its reply is.
#![deny(missing_docs)]

pub mod balance;
pub mod body;
mod clocked;
pub mod command;
pub mod composition;
pub mod counters;
pub mod error;
pub mod facts;
pub mod filter;
pub mod handover;
pub mod id_map;
pub mod lend;
pub mod live;
pub mod moving;
pub mod registry;
pub mod reply;
pub mod retry;
pub mod session;
pub mod settings;
pub mod stack;
pub mod testing;
mod timed;
pub mod topology;
pub mod trace_parent;

pub use body::{Body, End, Frame, Upload};
pub use command::Command;
pub use composition::Chain;
pub use error::{Error, Origin, Result};
pub use filter::{Filter, Next, each_session};
pub use handover::Handover;
pub use registry::{FilterFactory, Part, Registry};
pub use reply::{Answer, Outcome, Reply};
pub use session::Session;
pub use stack::{Layer, Stack};
pub use topology::{Hostgroup, HostgroupId, Server, Topology};

// What a filter's own crate needs of ours and cannot name otherwise.
pub use {schemars, sql, wire};
