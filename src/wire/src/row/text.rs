//! Rows of the text protocol: each value a string, NULL as 0xFB.
//!
//! Source: MySQL Internals, "Text Resultset Row".

use super::Value;
use crate::{
    put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

const NULL: u8 = 0xFB;

/// Decodes the payload of one row of `columns` columns.
///
/// # Errors
///
/// Fewer or more values than columns, or a value longer than the payload.
pub fn decode(payload: &[u8], columns: usize) -> Result<Vec<Value<'_>>, DecodeError> {
    let mut r = Reader::new(payload);
    // A value takes at least a byte; the count may come from the wire.
    let mut row = Vec::with_capacity(columns.min(payload.len()));
    for _ in 0..columns {
        row.push(if r.peek() == Some(NULL) {
            r.u8("NULL")?;
            Value::Null
        } else {
            Value::Bytes(r.string("value")?)
        });
    }
    if r.is_empty() { Ok(row) } else { Err(DecodeError::Invalid("number of values")) }
}

/// Appends the payload of a row; `None` is NULL.
pub fn encode<V: AsRef<[u8]>>(row: impl IntoIterator<Item = Option<V>>, out: &mut BytesMut) {
    for value in row {
        match value {
            Some(value) => put::string(out, value.as_ref()),
            None => out.put_u8(NULL),
        }
    }
}
