//! What both sides of a connection can do.

use crate::flags::flags;

flags! {
    /// Capability flags. The low 32 bits are MySQL's `CLIENT_*`, the high 32 bits MariaDB's extended
    /// ones. Names are the manual's without `CLIENT_` and `MARIADB_CLIENT_`.
    ///
    /// Source: MySQL Internals, "Capabilities Flags"; MariaDB Knowledge Base, "Connection",
    /// section "Capabilities".
    Capabilities(u64) {
        /// MySQL: always set. MariaDB calls it `CLIENT_MYSQL`: where it is *off*, the greeting or
        /// login carries the extended flags.
        LONG_PASSWORD = 1;
        /// OK packets count the rows found, not the rows changed.
        FOUND_ROWS = 1 << 1;
        /// Longer flags in column definitions.
        LONG_FLAG = 1 << 2;
        /// The login names a schema.
        CONNECT_WITH_DB = 1 << 3;
        /// `schema.table.column` is not allowed.
        NO_SCHEMA = 1 << 4;
        /// Compression by zlib.
        COMPRESS = 1 << 5;
        /// No effect since MySQL 3.22.
        ODBC = 1 << 6;
        /// `LOAD DATA LOCAL INFILE` is possible.
        LOCAL_FILES = 1 << 7;
        /// Spaces before `(` are ignored.
        IGNORE_SPACE = 1 << 8;
        /// The protocol of MySQL 4.1 and later.
        PROTOCOL_41 = 1 << 9;
        /// `interactive_timeout` instead of `wait_timeout`.
        INTERACTIVE = 1 << 10;
        /// The connection changes to TLS before the login.
        SSL = 1 << 11;
        /// No effect on the wire.
        IGNORE_SIGPIPE = 1 << 12;
        /// OK and EOF packets carry status flags.
        TRANSACTIONS = 1 << 13;
        /// Once named `PROTOCOL_41`; no effect.
        RESERVED = 1 << 14;
        /// 20-byte nonces; a length before the login's auth response. Also named `RESERVED2`.
        SECURE_CONNECTION = 1 << 15;
        /// Several statements in one COM_QUERY or COM_STMT_PREPARE.
        MULTI_STATEMENTS = 1 << 16;
        /// Several result sets in the reply to COM_QUERY.
        MULTI_RESULTS = 1 << 17;
        /// Several result sets in the reply to COM_STMT_EXECUTE.
        PS_MULTI_RESULTS = 1 << 18;
        /// Greeting and login name authentication plugins.
        PLUGIN_AUTH = 1 << 19;
        /// The login carries connection attributes.
        CONNECT_ATTRS = 1 << 20;
        /// The login's auth response has a length-encoded length.
        PLUGIN_AUTH_LENENC_CLIENT_DATA = 1 << 21;
        /// An expired password does not close the connection.
        CAN_HANDLE_EXPIRED_PASSWORDS = 1 << 22;
        /// OK packets report changes of session state.
        SESSION_TRACK = 1 << 23;
        /// No EOF packets: OK packets with header 0xFE end rows.
        DEPRECATE_EOF = 1 << 24;
        /// Result sets say whether column definitions follow (MySQL).
        OPTIONAL_RESULTSET_METADATA = 1 << 25;
        /// Compression by zstd (MySQL).
        ZSTD_COMPRESSION_ALGORITHM = 1 << 26;
        /// COM_QUERY and COM_STMT_EXECUTE carry query attributes (MySQL).
        QUERY_ATTRIBUTES = 1 << 27;
        /// More than one authentication factor (MySQL).
        MULTI_FACTOR_AUTHENTICATION = 1 << 28;
        /// Reserved for more capabilities. MariaDB before 10.2: progress reports.
        CAPABILITY_EXTENSION = 1 << 29;
        /// A client's own note: verify the server's certificate.
        SSL_VERIFY_SERVER_CERT = 1 << 30;
        /// A client's own note: keep options after a failed connect.
        REMEMBER_OPTIONS = 1 << 31;

        /// Progress reports in ERR packets (MariaDB).
        PROGRESS = 1 << 32;
        /// COM_MULTI, withdrawn (MariaDB).
        COM_MULTI = 1 << 33;
        /// COM_STMT_BULK_EXECUTE (MariaDB).
        STMT_BULK_OPERATIONS = 1 << 34;
        /// Column definitions carry extended type information (MariaDB).
        EXTENDED_METADATA = 1 << 35;
        /// Result sets say whether column definitions follow (MariaDB).
        CACHE_METADATA = 1 << 36;
        /// A bulk execution answers with one result per parameter row (MariaDB).
        BULK_UNIT_RESULTS = 1 << 37;
    }
}

impl Capabilities {
    /// All that change the format of anything after the handshake, or forbid a kind of reply.
    pub const WIRE_FORMAT: Self = Self(
        Self::PROTOCOL_41.0
            | Self::TRANSACTIONS.0
            | Self::MULTI_RESULTS.0
            | Self::PS_MULTI_RESULTS.0
            | Self::SESSION_TRACK.0
            | Self::DEPRECATE_EOF.0
            | Self::OPTIONAL_RESULTSET_METADATA.0
            | Self::QUERY_ATTRIBUTES.0
            | Self::MARIADB.0,
    );

    /// All that change what a server does for the session, with the same format.
    pub const BEHAVIOUR: Self = Self(
        Self::FOUND_ROWS.0
            | Self::LONG_FLAG.0
            | Self::NO_SCHEMA.0
            | Self::ODBC.0
            | Self::LOCAL_FILES.0
            | Self::IGNORE_SPACE.0
            | Self::INTERACTIVE.0
            | Self::MULTI_STATEMENTS.0
            | Self::CAN_HANDLE_EXPIRED_PASSWORDS.0,
    );

    /// MariaDB's extended flags: the high 32 bits.
    pub const MARIADB: Self = Self(0xFFFF_FFFF << 32);

    /// The low 32 bits, as MySQL's packets have them.
    #[must_use]
    pub const fn mysql_bits(self) -> u32 {
        (self.0 & 0xFFFF_FFFF) as u32
    }

    /// The high 32 bits, as MariaDB's packets have them.
    #[must_use]
    pub const fn mariadb_bits(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_halves() {
        let caps = Capabilities::PROTOCOL_41 | Capabilities::CACHE_METADATA;
        assert_eq!((caps.mysql_bits(), caps.mariadb_bits()), (0x200, 0x10));
    }

    #[test]
    fn format_and_behaviour_do_not_overlap() {
        assert!(!Capabilities::WIRE_FORMAT.intersects(Capabilities::BEHAVIOUR));
    }
}
