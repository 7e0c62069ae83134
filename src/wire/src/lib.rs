//! MySQL's bytes: packets, handshake, authentication, replies; no I/O, no clock.
//!
//! Everything here turns bytes into meaning or back. Whoever owns a socket reads and writes; this
//! crate says what was read, what to write, and where a reply ends. It speaks the protocol of MySQL
//! 5.7 to 9.x and of MariaDB 10.x to 12.x, from `CLIENT_PROTOCOL_41` on.
//!
//! In the order in which a connection meets them:
//!
//! | module | what |
//! |---|---|
//! | [`packet`] | framing: headers, the 16 MiB split, whole messages |
//! | [`compress`] | compressed frames around that framing, from the login on |
//! | [`capability`], [`status`], [`collation`] | flags and ids that change what follows |
//! | [`greeting`], [`login`], [`attributes`] | the handshake, both ways |
//! | [`auth`] | authentication towards a client and towards a server |
//! | [`command`] | what a client asks, one file per family |
//! | [`reply`] | **where a reply ends**: the one state machine for it |
//! | [`ok`], [`eof`], [`err`], [`session_state`] | the packets that end replies |
//! | [`upload`] | where a client's file ends |
//! | [`observe`] | commands and how they were answered, from copies of both directions |
//! | [`translate`] | other statement ids in what a client sends |
//! | [`column`], [`row`] | result sets, for those who look inside |
//! | [`answer`] | replies made here instead of by a server |
//!
//! Decoders never panic and never trust a length: what is cut short or contradicts itself is a
//! [`DecodeError`] that names the field. No error holds a password or a statement's text.

#![deny(missing_docs)]

pub mod answer;
pub mod attributes;
pub mod auth;
pub mod capability;
pub mod collation;
pub mod column;
pub mod command;
pub mod compress;
pub mod eof;
pub mod err;
pub mod greeting;
pub mod login;
pub mod observe;
pub mod ok;
pub mod packet;
pub mod reply;
pub mod row;
pub mod session_state;
pub mod status;
pub mod translate;
pub mod upload;

mod flags;
mod put;
mod read;

pub use attributes::Attributes;
pub use capability::Capabilities;
pub use command::CommandCode;
pub use eof::EofPacket;
pub use err::ErrPacket;
pub use greeting::Greeting;
pub use login::LoginRequest;
pub use ok::OkPacket;
pub use read::DecodeError;
pub use reply::{ReplyEnd, ReplyScanner, Scan};
pub use status::Status;
