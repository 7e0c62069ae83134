//! Prepared statements: COM_STMT_PREPARE, _EXECUTE, _BULK_EXECUTE, _FETCH, _SEND_LONG_DATA, _CLOSE,
//! _RESET, and the first packet of PREPARE's reply.

use super::CommandCode;
use crate::{
    Capabilities,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// The id with which all commands on a statement begin, behind the command byte.
pub const STATEMENT_ID: std::ops::Range<usize> = 1..5;

/// The statement id that MariaDB takes as "the one prepared last".
pub const LAST_PREPARED: u32 = u32::MAX;

/// The head of COM_STMT_EXECUTE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execute {
    /// The statement.
    pub id: u32,
    /// Cursor type in the low three bits, and [`Execute::PARAMETER_COUNT_AVAILABLE`].
    pub flags: u8,
    /// Always 1.
    pub iterations: u32,
}

/// COM_STMT_SEND_LONG_DATA: a piece of one parameter's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LongData<'a> {
    /// The statement.
    pub id: u32,
    /// The parameter, counted from 0.
    pub parameter: u16,
    /// What is appended to its value.
    pub data: &'a [u8],
}

/// The first packet of the reply to COM_STMT_PREPARE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrepareOk {
    /// The statement's id on this connection.
    pub id: u32,
    /// Columns of its result; 0 if it has none.
    pub columns: u16,
    /// Parameters.
    pub parameters: u16,
    /// Number of warnings.
    pub warnings: u16,
    /// Whether definitions of parameters and columns follow. False only with
    /// `CLIENT_OPTIONAL_RESULTSET_METADATA` and `resultset_metadata = NONE`.
    pub metadata_follows: bool,
}

/// The text of COM_STMT_PREPARE.
///
/// # Errors
///
/// Another command.
pub fn prepare_text(payload: &[u8]) -> Result<&[u8], DecodeError> {
    let mut r = Reader::new(payload);
    expect(&mut r, CommandCode::STMT_PREPARE)?;
    Ok(r.rest())
}

/// The statement id of any command that has one: EXECUTE, BULK_EXECUTE, SEND_LONG_DATA, CLOSE,
/// RESET, FETCH. `None` for other commands, and where the payload is too short for one.
#[must_use]
pub fn statement_id(payload: &[u8]) -> Option<u32> {
    let has_id = matches!(
        CommandCode::of(payload)?,
        CommandCode::STMT_EXECUTE
            | CommandCode::STMT_BULK_EXECUTE
            | CommandCode::STMT_SEND_LONG_DATA
            | CommandCode::STMT_CLOSE
            | CommandCode::STMT_RESET
            | CommandCode::STMT_FETCH
    );
    let id = payload.get(STATEMENT_ID)?.first_chunk()?;
    has_id.then(|| u32::from_le_bytes(*id))
}

impl Execute {
    /// Flag: the number of parameters is in the payload (with `CLIENT_QUERY_ATTRIBUTES`).
    pub const PARAMETER_COUNT_AVAILABLE: u8 = 8;

    /// Decodes a payload's head, its command byte included.
    ///
    /// # Errors
    ///
    /// Another command, or a payload that ends within the head.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        expect(&mut r, CommandCode::STMT_EXECUTE)?;
        Ok(Self {
            id: r.u32("statement id")?,
            flags: r.u8("cursor flags")?,
            iterations: r.u32("iteration count")?,
        })
    }

    /// Whether a cursor is asked for instead of rows.
    #[must_use]
    pub fn wants_cursor(&self) -> bool {
        self.flags & 0b111 != 0
    }
}

impl<'a> LongData<'a> {
    /// Decodes a payload, its command byte included.
    ///
    /// # Errors
    ///
    /// Another command, or a payload that ends within the head.
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        expect(&mut r, CommandCode::STMT_SEND_LONG_DATA)?;
        let (id, parameter) = (r.u32("statement id")?, r.u16("parameter number")?);
        Ok(Self { id, parameter, data: r.rest() })
    }
}

/// Without the data.
impl std::fmt::Debug for LongData<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LongData({}, {}, {} bytes)", self.id, self.parameter, self.data.len())
    }
}

impl PrepareOk {
    /// Decodes a payload, its 0x00 included.
    ///
    /// # Errors
    ///
    /// Another first byte, or a payload that ends within the counts.
    pub fn decode(payload: &[u8], caps: Capabilities) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        if r.u8("PREPARE header")? != 0 {
            return Err(DecodeError::Invalid("PREPARE header"));
        }
        let id = r.u32("statement id")?;
        let columns = r.u16("column count")?;
        let parameters = r.u16("parameter count")?;
        r.skip_up_to(1);
        let warnings = if r.len() >= 2 { r.u16("warning count")? } else { 0 };
        let optional = caps.contains(Capabilities::OPTIONAL_RESULTSET_METADATA);
        let metadata_follows = !optional || r.peek() != Some(0);
        Ok(Self { id, columns, parameters, warnings, metadata_follows })
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut BytesMut, caps: Capabilities) {
        out.put_u8(0);
        out.put_u32_le(self.id);
        out.put_u16_le(self.columns);
        out.put_u16_le(self.parameters);
        out.put_u8(0);
        out.put_u16_le(self.warnings);
        if caps.contains(Capabilities::OPTIONAL_RESULTSET_METADATA) {
            out.put_u8(self.metadata_follows.into());
        }
    }
}

fn expect(r: &mut Reader<'_>, code: CommandCode) -> Result<(), DecodeError> {
    match r.u8("command")? {
        got if got == code.0 => Ok(()),
        _ => Err(DecodeError::Invalid("command")),
    }
}
