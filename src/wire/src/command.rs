//! What a client asks: the command's code, and decoders for the families that somebody looks into.
//!
//! Source: MySQL Internals, "Command Phase"; MariaDB Knowledge Base, "Client/Server Protocol".

pub mod admin;
pub mod change_user;
pub mod query;
pub mod statement;

pub use change_user::ChangeUser;
pub use query::{Query, attribute};
pub use statement::{Execute, LongData};

/// The first byte of a command's payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommandCode(pub u8);

macro_rules! commands {
    ($($(#[$doc:meta])* $name:ident = $code:literal $full:literal;)*) => {
        impl CommandCode {
            $($(#[$doc])* pub const $name: Self = Self($code);)*

            /// The manual's name, such as `COM_QUERY`; `COM_UNKNOWN` for a code without one.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $full,)*
                    _ => "COM_UNKNOWN",
                }
            }
        }
    };
}

commands! {
    /// Internal to servers.
    SLEEP = 0x00 "COM_SLEEP";
    /// Ends the connection.
    QUIT = 0x01 "COM_QUIT";
    /// Changes the default schema.
    INIT_DB = 0x02 "COM_INIT_DB";
    /// Runs the text of one or more statements.
    QUERY = 0x03 "COM_QUERY";
    /// Lists a table's columns (withdrawn in MySQL 9).
    FIELD_LIST = 0x04 "COM_FIELD_LIST";
    /// Creates a schema (withdrawn).
    CREATE_DB = 0x05 "COM_CREATE_DB";
    /// Drops a schema (withdrawn).
    DROP_DB = 0x06 "COM_DROP_DB";
    /// FLUSH (withdrawn in MySQL 8.4).
    REFRESH = 0x07 "COM_REFRESH";
    /// Shuts the server down (withdrawn in MySQL 8).
    SHUTDOWN = 0x08 "COM_SHUTDOWN";
    /// One line of text about the server.
    STATISTICS = 0x09 "COM_STATISTICS";
    /// SHOW PROCESSLIST (withdrawn in MySQL 8.4).
    PROCESS_INFO = 0x0A "COM_PROCESS_INFO";
    /// Internal to servers.
    CONNECT = 0x0B "COM_CONNECT";
    /// KILL (withdrawn in MySQL 8.4).
    PROCESS_KILL = 0x0C "COM_PROCESS_KILL";
    /// Writes debug information to the server's log.
    DEBUG = 0x0D "COM_DEBUG";
    /// Asks whether the server is there.
    PING = 0x0E "COM_PING";
    /// Internal to servers.
    TIME = 0x0F "COM_TIME";
    /// Internal to servers.
    DELAYED_INSERT = 0x10 "COM_DELAYED_INSERT";
    /// Logs in anew on the same connection.
    CHANGE_USER = 0x11 "COM_CHANGE_USER";
    /// Streams the binary log from a position.
    BINLOG_DUMP = 0x12 "COM_BINLOG_DUMP";
    /// Sends a table's contents (withdrawn).
    TABLE_DUMP = 0x13 "COM_TABLE_DUMP";
    /// Internal to servers.
    CONNECT_OUT = 0x14 "COM_CONNECT_OUT";
    /// Makes a replica known.
    REGISTER_SLAVE = 0x15 "COM_REGISTER_SLAVE";
    /// Prepares a statement.
    STMT_PREPARE = 0x16 "COM_STMT_PREPARE";
    /// Executes a prepared statement.
    STMT_EXECUTE = 0x17 "COM_STMT_EXECUTE";
    /// Sends a piece of a parameter's value; no reply.
    STMT_SEND_LONG_DATA = 0x18 "COM_STMT_SEND_LONG_DATA";
    /// Forgets a prepared statement; no reply.
    STMT_CLOSE = 0x19 "COM_STMT_CLOSE";
    /// Closes a prepared statement's cursor and forgets its long data.
    STMT_RESET = 0x1A "COM_STMT_RESET";
    /// Turns multi-statements on or off.
    SET_OPTION = 0x1B "COM_SET_OPTION";
    /// Fetches rows from a cursor.
    STMT_FETCH = 0x1C "COM_STMT_FETCH";
    /// Internal to servers.
    DAEMON = 0x1D "COM_DAEMON";
    /// Streams the binary log from a set of GTIDs (MySQL).
    BINLOG_DUMP_GTID = 0x1E "COM_BINLOG_DUMP_GTID";
    /// Resets the session without logging in anew.
    RESET_CONNECTION = 0x1F "COM_RESET_CONNECTION";
    /// Clones a server (MySQL).
    CLONE = 0x20 "COM_CLONE";
    /// Streams group replication (MySQL).
    SUBSCRIBE_GROUP_REPLICATION_STREAM = 0x21 "COM_SUBSCRIBE_GROUP_REPLICATION_STREAM";
    /// Executes a prepared statement for many rows of parameters (MariaDB).
    STMT_BULK_EXECUTE = 0xFA "COM_STMT_BULK_EXECUTE";
}

impl CommandCode {
    /// Whether no server takes it, be it that it has been withdrawn or that servers keep it for
    /// themselves: the reply is an ERR, mostly 1047, and MySQL closes the connection behind it.
    #[must_use]
    pub fn is_unknown(self) -> bool {
        let never = [
            Self::SLEEP,
            Self::CREATE_DB,
            Self::DROP_DB,
            Self::CONNECT,
            Self::TIME,
            Self::DELAYED_INSERT,
            Self::CONNECT_OUT,
            Self::DAEMON,
            Self::SUBSCRIBE_GROUP_REPLICATION_STREAM,
        ];
        never.contains(&self) || self.name() == "COM_UNKNOWN"
    }

    /// The code of a command's payload; `None` if it is empty.
    #[must_use]
    pub fn of(payload: &[u8]) -> Option<Self> {
        payload.first().copied().map(Self)
    }

    /// Whether the server answers at all.
    #[must_use]
    pub const fn has_reply(self) -> bool {
        !matches!(self, Self::QUIT | Self::STMT_CLOSE | Self::STMT_SEND_LONG_DATA)
    }
}

impl std::fmt::Debug for CommandCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name() {
            "COM_UNKNOWN" => write!(f, "COM_UNKNOWN({:#04x})", self.0),
            name => f.write_str(name),
        }
    }
}

impl std::fmt::Display for CommandCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
