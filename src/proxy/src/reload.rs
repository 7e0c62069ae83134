//! Another configuration for a proxy that runs, another process in its place, and its end.
//!
//! ```text
//! SIGHUP, POST /reload, a file that changes ─▶ read ─▶ plan (everything made) ─▶ put into use
//!                                                │            │
//!                                                └─ mistakes ─┴─▶ nothing has changed
//! ```

mod control;
mod inherited;
mod report;
mod take_over;

pub(crate) use control::Reloads;
pub use control::{Control, Read};
pub use inherited::Inherited;
pub use report::{Changes, Refused, Reloaded};
pub use take_over::{Claim, claim};
