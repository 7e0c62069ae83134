//! Whatever owns a socket: listeners, sessions, backends, configuration, admin.
//!
//! ```text
//! listen ─▶ session (login, then one command after the other) ─▶ the chain's session filters
//!                                                                     │
//!            backend (pool) ◀─ connection ◀─ the backend filters ◀─ dispatch
//! ```
//!
//! [`Proxy::bind`] opens the sockets, [`Proxy::serve`] runs until it is told to stop.

mod admin;
mod backend;
mod buffer;
pub mod config;
mod forward;
mod greeter;
mod hosts;
mod listen;
mod metrics;
mod reload;
mod runtime;
mod session;
mod signal;
mod stream;
pub mod telemetry;
mod tls;
mod users;

pub use metrics::table::table as metrics_table;
pub use reload::{Changes, Claim, Control, Inherited, Read, Refused, Reloaded, claim};
pub use runtime::{Proxy, StartError};
pub use tls::TlsError;
