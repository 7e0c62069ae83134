//! Rows, for filters that look inside and for tests. On the way through nothing decodes them.

mod binary;
mod text;
mod value;

pub(crate) use binary::skip as skip_binary;
pub use binary::{decode as decode_binary, encode as encode_binary};
pub use text::{decode as decode_text, encode as encode_text};
pub use value::{Date, Time, Value};
