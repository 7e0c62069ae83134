//! What a server says about the session at the end of each reply.

use crate::flags::flags;

flags! {
    /// Server status flags.
    ///
    /// Source: MySQL Internals, "SERVER_STATUS_flags_enum"; MariaDB Knowledge Base, "OK_Packet".
    Status(u16) {
        /// A transaction is open.
        IN_TRANS = 1;
        /// `autocommit` is on.
        AUTOCOMMIT = 1 << 1;
        /// Another result of the same reply follows.
        MORE_RESULTS_EXISTS = 1 << 3;
        /// The query used no good index.
        NO_GOOD_INDEX_USED = 1 << 4;
        /// The query used no index.
        NO_INDEX_USED = 1 << 5;
        /// A cursor was opened: no rows follow, COM_STMT_FETCH gets them.
        CURSOR_EXISTS = 1 << 6;
        /// COM_STMT_FETCH has given the last row.
        LAST_ROW_SENT = 1 << 7;
        /// A schema was dropped.
        DB_DROPPED = 1 << 8;
        /// `NO_BACKSLASH_ESCAPES` is in `sql_mode`.
        NO_BACKSLASH_ESCAPES = 1 << 9;
        /// A re-prepared statement has other columns than before.
        METADATA_CHANGED = 1 << 10;
        /// The query was slow.
        QUERY_WAS_SLOW = 1 << 11;
        /// The result holds OUT parameters.
        PS_OUT_PARAMS = 1 << 12;
        /// The open transaction is READ ONLY.
        IN_TRANS_READONLY = 1 << 13;
        /// Session state has changed; the OK packet may say how.
        SESSION_STATE_CHANGED = 1 << 14;
        /// `ANSI_QUOTES` is in `sql_mode` (MariaDB).
        ANSI_QUOTES = 1 << 15;
    }
}
