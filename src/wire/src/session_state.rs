//! Changes of session state, as OK packets report them.
//!
//! Source: MySQL Internals, "Session State Information"; MariaDB Knowledge Base, "OK_Packet",
//! section "Session State Info".

use crate::{
    put,
    read::{DecodeError, Reader},
};
use bytes::{BufMut, BytesMut};

/// One change.
#[derive(Clone, PartialEq, Eq)]
pub enum Tracker {
    /// A system variable has a new value (`session_track_system_variables`).
    SystemVariable {
        /// The variable's name.
        name: Vec<u8>,
        /// Its value as text.
        value: Vec<u8>,
    },
    /// The default schema has changed (`session_track_schema`).
    Schema(Vec<u8>),
    /// Anything has changed (`session_track_state_change`): `1`.
    StateChange(bool),
    /// GTIDs of what was done (`session_track_gtids`, MySQL).
    Gtids(Vec<u8>),
    /// The statement that would start the open transaction anew
    /// (`session_track_transaction_info = CHARACTERISTICS`).
    TransactionCharacteristics(Vec<u8>),
    /// Eight characters that describe the open transaction, such as `T_R_W__S`
    /// (`session_track_transaction_info = STATE`).
    TransactionState(Vec<u8>),
    /// A kind that this crate does not know.
    Other {
        /// The block's type byte.
        kind: u8,
        /// Its data.
        raw: Vec<u8>,
    },
}

const SYSTEM_VARIABLE: u8 = 0;
const SCHEMA: u8 = 1;
const STATE_CHANGE: u8 = 2;
const GTIDS: u8 = 3;
const TRANSACTION_CHARACTERISTICS: u8 = 4;
const TRANSACTION_STATE: u8 = 5;

impl Tracker {
    /// Decodes the blocks of one OK packet, or of several one after the other.
    ///
    /// # Errors
    ///
    /// A block that ends within a field.
    pub fn decode_all(state: &[u8]) -> Result<Vec<Self>, DecodeError> {
        let mut r = Reader::new(state);
        let mut all = Vec::new();
        while !r.is_empty() {
            let kind = r.u8("session state type")?;
            decode_block(kind, r.string("session state")?, &mut all)?;
        }
        Ok(all)
    }

    /// Appends one block: type, length, data.
    pub fn encode(&self, out: &mut BytesMut) {
        let (kind, strings) = self.parts();
        out.put_u8(kind);
        match self {
            Self::StateChange(_) | Self::Other { .. } => put::string(out, strings[0]),
            Self::Gtids(gtids) => {
                put::int(out, 1 + put::string_len(gtids) as u64);
                // The encoding of the list; 0, text, is the only one there is.
                out.put_u8(0);
                put::string(out, gtids);
            }
            _ => {
                put::int(out, strings.iter().map(|s| put::string_len(s) as u64).sum());
                strings.iter().for_each(|s| put::string(out, s));
            }
        }
    }

    fn parts(&self) -> (u8, Vec<&[u8]>) {
        match self {
            Self::SystemVariable { name, value } => (SYSTEM_VARIABLE, vec![name, value]),
            Self::Schema(name) => (SCHEMA, vec![name]),
            Self::StateChange(changed) => (STATE_CHANGE, vec![if *changed { b"1" } else { b"0" }]),
            Self::Gtids(gtids) => (GTIDS, vec![gtids]),
            Self::TransactionCharacteristics(text) => (TRANSACTION_CHARACTERISTICS, vec![text]),
            Self::TransactionState(text) => (TRANSACTION_STATE, vec![text]),
            Self::Other { kind, raw } => (*kind, vec![raw]),
        }
    }
}

/// The kind only, and a variable's name: values may be secrets or parts of statements.
impl std::fmt::Debug for Tracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::SystemVariable { name, .. } => {
                write!(f, "SystemVariable({})", name.escape_ascii())
            }
            Self::Schema(_) => f.write_str("Schema"),
            Self::StateChange(changed) => write!(f, "StateChange({changed})"),
            Self::Gtids(_) => f.write_str("Gtids"),
            Self::TransactionCharacteristics(_) => f.write_str("TransactionCharacteristics"),
            Self::TransactionState(_) => f.write_str("TransactionState"),
            Self::Other { kind, raw } => write!(f, "Other({kind}, {} bytes)", raw.len()),
        }
    }
}

/// One block of variables may hold several pairs.
fn decode_block(kind: u8, data: &[u8], all: &mut Vec<Tracker>) -> Result<(), DecodeError> {
    let mut r = Reader::new(data);
    all.push(match kind {
        SYSTEM_VARIABLE => {
            while !r.is_empty() {
                let name = r.string("variable name")?.to_vec();
                let value = r.string("variable value")?.to_vec();
                all.push(Tracker::SystemVariable { name, value });
            }
            return Ok(());
        }
        SCHEMA => Tracker::Schema(r.string("schema name")?.to_vec()),
        STATE_CHANGE => Tracker::StateChange(r.rest() == b"1"),
        GTIDS => {
            r.u8("GTID encoding")?;
            Tracker::Gtids(r.string("GTIDs")?.to_vec())
        }
        TRANSACTION_CHARACTERISTICS => {
            Tracker::TransactionCharacteristics(r.string("transaction characteristics")?.to_vec())
        }
        TRANSACTION_STATE => Tracker::TransactionState(r.string("transaction state")?.to_vec()),
        kind => Tracker::Other { kind, raw: data.to_vec() },
    });
    Ok(())
}
