//! The lexer: what kind of statement a text is, without parsing it.
//!
//! ```text
//! text ──▶ Lexer ──▶ tokens ──▶ statement() ──▶ Statement { verb, class, needs, multi, ... }
//!   ├────▶ peek() ──▶ Verb                      (nothing but the first keyword)
//!   └────▶ session_command() ──▶ Effect         (what it does to its session)
//! ```
//!
//! Texts are bytes: they come in any charset, and nothing here panics on any of them, allocates in
//! the common case, or follows the grammar further than the class needs. Where the lexer cannot be
//! sure, the answer is [`Class::Write`] or [`Class::Unknown`], never [`Class::Read`].
//!
//! ```
//! use sql::{Class, Dialect, Verb, statement};
//!
//! let text = b"/* nightly */ WITH old AS (SELECT id FROM a) DELETE FROM b WHERE id IN (SELECT id FROM old)";
//! let found = statement(text, Dialect::default());
//! assert_eq!((found.verb, found.class), (Verb::Delete, Class::Write));
//! ```

#![deny(missing_docs)]

mod access;
mod class;
mod comments;
mod connection_id;
mod counts;
mod cursor;
mod dialect;
mod digest;
mod functions;
mod head;
mod kill;
mod lexer;
mod reading;
mod repeatable;
mod scan;
pub mod session;
mod statement;
mod summary;
mod verb;
mod words;

pub use access::{Access, access};
pub use class::{Class, Needs};
pub use comments::{Comment, Comments, comments};
pub use connection_id::{ConnectionId, ConnectionIds, connection_ids, may_name_connection_id};
pub use counts::{Count, CountFunction, counts};
pub use dialect::{Charset, Dialect, Server, Vendor};
pub use digest::{DIGEST_LIMIT, Digest, DigestHash, digest, digest_into};
pub use kill::{Kill, kill};
pub use lexer::{Kind, Lexer, Token};
pub use reading::{Change, Reading, reading};
pub use repeatable::is_repeatable;
pub use session::session_command;
pub use statement::{Span, Statement, statement};
pub use summary::{SUMMARY_LIMIT, summary};
pub use verb::{Verb, peek};
