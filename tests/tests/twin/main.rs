//! Random sessions, directly and through the proxy: no client can tell them apart, and the servers'
//! logs show nothing that was not asked.
//!
//! `TOWPATH_TWIN_SEED` runs one seed in all modes; `TOWPATH_TWIN_MINUTES` makes the soak.

mod modes;
mod random;
