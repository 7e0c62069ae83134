//! COM_QUERY.

use super::{CommandCode, Execute};
use crate::{
    Capabilities,
    column::kind,
    put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// COM_QUERY: the statement's text, behind the query attributes where they are negotiated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Query<'a> {
    /// Number of query attributes.
    pub attributes: u64,
    /// The attributes' NULL bitmap, types, names and values, as they came.
    pub raw_attributes: &'a [u8],
    /// The statement's text, in the session's `character_set_client`.
    pub sql: &'a [u8],
}

impl<'a> Query<'a> {
    /// A query without attributes.
    #[must_use]
    pub fn new(sql: &'a [u8]) -> Self {
        Self { attributes: 0, raw_attributes: &[], sql }
    }

    /// Decodes a payload, its command byte included.
    ///
    /// # Errors
    ///
    /// Another command, or query attributes that do not add up.
    pub fn decode(payload: &'a [u8], caps: Capabilities) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        if r.u8("command")? != CommandCode::QUERY.0 {
            return Err(DecodeError::Invalid("command"));
        }
        if !caps.contains(Capabilities::QUERY_ATTRIBUTES) {
            return Ok(Self::new(r.rest()));
        }
        let attributes = r.int("attribute count")?;
        if r.int("attribute set count")? != 1 {
            return Err(DecodeError::Invalid("attribute set count"));
        }
        let start = r;
        if attributes > 0 {
            skip_attributes(&mut r, attributes)?;
        }
        let (raw_attributes, sql) = payload.split_at(payload.len() - r.len());
        let raw_attributes = &raw_attributes[payload.len() - start.len()..];
        Ok(Self { attributes, raw_attributes, sql })
    }

    /// Appends the payload, command byte included. Where query attributes are not negotiated they
    /// are left out.
    pub fn encode(&self, out: &mut BytesMut, caps: Capabilities) {
        out.put_u8(CommandCode::QUERY.0);
        if caps.contains(Capabilities::QUERY_ATTRIBUTES) {
            put::int(out, self.attributes);
            put::int(out, 1);
            out.put_slice(self.raw_attributes);
        }
        out.put_slice(self.sql);
    }
}

/// Sizes only: statements are not for logs.
impl std::fmt::Debug for Query<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Query({} attributes, {} bytes)", self.attributes, self.sql.len())
    }
}

fn skip_attributes(r: &mut Reader<'_>, count: u64) -> Result<(), DecodeError> {
    // Each attribute takes at least three bytes, so a count beyond the payload ends here.
    let count = usize::try_from(count).ok().filter(|&n| n <= r.len());
    let count = count.ok_or(DecodeError::Invalid("attribute count"))?;
    let nulls = r.bytes(count.div_ceil(8), "attribute NULL bitmap")?;
    if r.u8("attribute types flag")? != 1 {
        return Err(DecodeError::Invalid("attribute types flag"));
    }
    let mut types = Vec::with_capacity(count);
    for _ in 0..count {
        types.push((r.u16("attribute type")? & 0xFF) as u8);
        r.string("attribute name")?;
    }
    for (at, kind) in types.into_iter().enumerate() {
        if nulls[at / 8] & (1 << (at % 8)) == 0 {
            crate::row::skip_binary(r, kind, "attribute value")?;
        }
    }
    Ok(())
}

/// The value of the first text attribute of this name that a command brings: COM_QUERY, or
/// COM_STMT_EXECUTE that names its parameters. `None` also where that does not add up.
///
/// Source: MySQL manual, "Query Attributes"; MySQL Internals, "COM_STMT_EXECUTE".
#[must_use]
pub fn attribute<'a>(payload: &'a [u8], caps: Capabilities, name: &[u8]) -> Option<&'a [u8]> {
    if !caps.contains(Capabilities::QUERY_ATTRIBUTES) {
        return None;
    }
    let mut r = Reader::new(payload);
    let count = match CommandCode(r.u8("command").ok()?) {
        CommandCode::QUERY => {
            let count = r.int("attribute count").ok()?;
            (r.int("attribute set count").ok()? == 1).then_some(count)?
        }
        CommandCode::STMT_EXECUTE => {
            let flags = Execute::decode(payload).ok()?.flags;
            r.bytes(9, "head").ok()?;
            let counted = flags & Execute::PARAMETER_COUNT_AVAILABLE != 0;
            counted.then(|| r.int("parameter count").ok()).flatten()?
        }
        _ => return None,
    };
    let count = usize::try_from(count).ok().filter(|&n| n > 0 && n <= r.len())?;
    let nulls = r.bytes(count.div_ceil(8), "attribute NULL bitmap").ok()?;
    if r.u8("attribute types flag").ok()? != 1 {
        return None;
    }
    let (mut kinds, mut wanted) = (Vec::with_capacity(count), None);
    for at in 0..count {
        kinds.push((r.u16("attribute type").ok()? & 0xFF) as u8);
        let found = r.string("attribute name").ok()?;
        if wanted.is_none() && found.eq_ignore_ascii_case(name) {
            wanted = Some(at);
        }
    }
    let wanted = wanted?;
    let is_null = |at: usize| nulls[at / 8] & (1 << (at % 8)) != 0;
    for (at, &kind) in kinds.iter().enumerate().take(wanted) {
        if !is_null(at) {
            crate::row::skip_binary(&mut r, kind, "attribute value").ok()?;
        }
    }
    let is_text =
        matches!(kinds[wanted], kind::VAR_STRING | kind::STRING | kind::VARCHAR | kind::BLOB);
    (is_text && !is_null(wanted)).then(|| r.string("attribute value").ok()).flatten()
}
