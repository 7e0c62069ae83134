//! The ERR packet, and the codes that a proxy sends by itself.
//!
//! Source: MySQL Internals, "Protocol::ERR_Packet"; MySQL Error Message Reference; MariaDB Error
//! Codes.

use crate::read::{DecodeError, Reader};
use bytes::{BufMut, BytesMut};

/// The first byte of ERR packets.
pub const HEADER: u8 = 0xFF;

/// The SQLSTATE of an error that has none of its own.
pub const GENERAL_STATE: [u8; 5] = *b"HY000";

/// `ERR_Packet`. The message is in the session's `character_set_results`.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrPacket {
    /// The error's number.
    pub code: u16,
    /// The five characters of its SQLSTATE.
    pub sqlstate: [u8; 5],
    /// What a person reads. Servers quote parts of statements in it: not for logs.
    pub message: Vec<u8>,
}

/// An error number with its SQLSTATE, as servers pair them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode {
    /// The error's number.
    pub code: u16,
    /// Its SQLSTATE.
    pub sqlstate: [u8; 5],
}

/// The codes that a proxy sends by itself, named as in MySQL's and MariaDB's error references.
pub mod codes {
    use super::ErrorCode;

    macro_rules! codes {
        ($($(#[$doc:meta])* $name:ident = $code:literal $state:literal;)*) => {
            $($(#[$doc])* pub const $name: ErrorCode =
                ErrorCode { code: $code, sqlstate: *$state };)*
        };
    }

    codes! {
        /// Too many connections.
        ER_CON_COUNT_ERROR = 1040 b"08004";
        /// Bad handshake.
        ER_HANDSHAKE_ERROR = 1043 b"08S01";
        /// Access denied for this user to this schema.
        ER_DBACCESS_DENIED_ERROR = 1044 b"42000";
        /// Access denied for this user.
        ER_ACCESS_DENIED_ERROR = 1045 b"28000";
        /// No schema selected.
        ER_NO_DB_ERROR = 1046 b"3D000";
        /// Unknown command.
        ER_UNKNOWN_COM_ERROR = 1047 b"08S01";
        /// Unknown schema.
        ER_BAD_DB_ERROR = 1049 b"42000";
        /// Server shutdown in progress.
        ER_SERVER_SHUTDOWN = 1053 b"08S01";
        /// The statement cannot be parsed.
        ER_PARSE_ERROR = 1064 b"42000";
        /// Unknown thread id.
        ER_NO_SUCH_THREAD = 1094 b"HY000";
        /// Unknown error.
        ER_UNKNOWN_ERROR = 1105 b"HY000";
        /// The host is blocked for too many connection errors.
        ER_HOST_IS_BLOCKED = 1129 b"HY000";
        /// The host may not connect.
        ER_HOST_NOT_PRIVILEGED = 1130 b"HY000";
        /// The command is not allowed here.
        ER_NOT_ALLOWED_COMMAND = 1148 b"42000";
        /// The connection was aborted.
        ER_ABORTING_CONNECTION = 1152 b"08S01";
        /// A packet is larger than `max_allowed_packet`.
        ER_NET_PACKET_TOO_LARGE = 1153 b"08S01";
        /// Packets out of order.
        ER_NET_PACKETS_OUT_OF_ORDER = 1156 b"08S01";
        /// A packet could not be uncompressed.
        ER_NET_UNCOMPRESS_ERROR = 1157 b"08S01";
        /// Reading failed.
        ER_NET_READ_ERROR = 1158 b"08S01";
        /// Reading took too long.
        ER_NET_READ_INTERRUPTED = 1159 b"08S01";
        /// Writing failed.
        ER_NET_ERROR_ON_WRITE = 1160 b"08S01";
        /// Writing took too long.
        ER_NET_WRITE_INTERRUPTED = 1161 b"08S01";
        /// The session was killed.
        ER_NEW_ABORTING_CONNECTION = 1184 b"08S01";
        /// The user has too many connections.
        ER_TOO_MANY_USER_CONNECTIONS = 1203 b"42000";
        /// The account has as much of something as it may have.
        ER_USER_LIMIT_REACHED = 1226 b"42000";
        /// A privilege is missing.
        ER_SPECIFIC_ACCESS_DENIED_ERROR = 1227 b"42000";
        /// Not supported yet.
        ER_NOT_SUPPORTED_YET = 1235 b"42000";
        /// Unknown prepared statement.
        ER_UNKNOWN_STMT_HANDLER = 1243 b"HY000";
        /// The client's authentication protocol is not supported.
        ER_NOT_SUPPORTED_AUTH_MODE = 1251 b"08004";
        /// The server is read-only.
        ER_OPTION_PREVENTS_STATEMENT = 1290 b"HY000";
        /// The query was interrupted.
        ER_QUERY_INTERRUPTED = 1317 b"70100";
        /// There are too many prepared statements.
        ER_MAX_PREPARED_STMT_COUNT_REACHED = 1461 b"42000";
        /// A packet is malformed.
        ER_MALFORMED_PACKET = 1835 b"HY000";
        /// The connection was killed (MariaDB).
        ER_CONNECTION_KILLED = 1927 b"70100";
        /// The server cannot be reached.
        CR_CONN_HOST_ERROR = 2003 b"HY000";
        /// The server has gone away.
        CR_SERVER_GONE_ERROR = 2006 b"HY000";
        /// The connection was lost during a query.
        CR_SERVER_LOST = 2013 b"HY000";
        /// TLS could not be set up.
        CR_SSL_CONNECTION_ERROR = 2026 b"HY000";
        /// A packet is malformed, as clients say it.
        CR_MALFORMED_PACKET = 2027 b"HY000";
    }
}

impl ErrPacket {
    /// An error with a server's code.
    #[must_use]
    pub fn new(code: ErrorCode, message: impl Into<Vec<u8>>) -> Self {
        Self { code: code.code, sqlstate: code.sqlstate, message: message.into() }
    }

    /// Decodes a payload, its header byte included, with or without a SQLSTATE.
    ///
    /// # Errors
    ///
    /// Another header, or an end within the code or the SQLSTATE.
    pub fn decode(payload: &[u8]) -> Result<Self, DecodeError> {
        let mut r = Reader::new(payload);
        if r.u8("ERR header")? != HEADER {
            return Err(DecodeError::Invalid("ERR header"));
        }
        let code = r.u16("error code")?;
        let mut sqlstate = GENERAL_STATE;
        if r.peek() == Some(b'#') {
            r.u8("SQLSTATE marker")?;
            sqlstate = r.array("SQLSTATE")?;
        }
        Ok(Self { code, sqlstate, message: r.rest().to_vec() })
    }

    /// Appends the payload with the SQLSTATE: after the login has been read.
    pub fn encode(&self, out: &mut BytesMut) {
        self.head(out);
        out.put_u8(b'#');
        out.put_slice(&self.sqlstate);
        out.put_slice(&self.message);
    }

    /// Appends the payload without the SQLSTATE: instead of a greeting, when nothing is known of
    /// the client yet.
    pub fn encode_before_login(&self, out: &mut BytesMut) {
        self.head(out);
        out.put_slice(&self.message);
    }

    /// The message as text, for a person.
    #[must_use]
    pub fn message_lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.message)
    }

    fn head(&self, out: &mut BytesMut) {
        out.put_u8(HEADER);
        out.put_u16_le(self.code);
    }
}

/// Without the message, which may quote a statement.
impl std::fmt::Debug for ErrPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ErrPacket({}, {})", self.code, self.sqlstate.escape_ascii())
    }
}
