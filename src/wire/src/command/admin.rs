//! COM_INIT_DB, COM_PROCESS_KILL, COM_SET_OPTION.

use super::CommandCode;
use crate::read::{DecodeError, Reader};

/// The schema that COM_INIT_DB names.
///
/// # Errors
///
/// Another command.
pub fn init_db(payload: &[u8]) -> Result<&[u8], DecodeError> {
    Ok(expect(payload, CommandCode::INIT_DB)?.rest())
}

/// The connection id that COM_PROCESS_KILL names.
///
/// # Errors
///
/// Another command, or fewer than four bytes of id.
pub fn process_kill(payload: &[u8]) -> Result<u32, DecodeError> {
    expect(payload, CommandCode::PROCESS_KILL)?.u32("connection id")
}

/// Whether COM_SET_OPTION turns multi-statements on.
///
/// # Errors
///
/// Another command, or an option other than `MYSQL_OPTION_MULTI_STATEMENTS_ON` (0) and `_OFF` (1).
pub fn set_option(payload: &[u8]) -> Result<bool, DecodeError> {
    match expect(payload, CommandCode::SET_OPTION)?.u16("option")? {
        0 => Ok(true),
        1 => Ok(false),
        _ => Err(DecodeError::Invalid("option")),
    }
}

fn expect(payload: &[u8], code: CommandCode) -> Result<Reader<'_>, DecodeError> {
    let mut r = Reader::new(payload);
    if r.u8("command")? != code.0 {
        return Err(DecodeError::Invalid("command"));
    }
    Ok(r)
}
