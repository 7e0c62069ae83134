//! Which system variables a session may have set alike on each of its connections.
//!
//! MySQL manual, "Server System Variables"; MariaDB manual, "Server System Variables".

use crate::cell::{self, Cell};

/// What a variable is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Set on each connection.
    Replayed,
    /// Set on each connection, but for the next transaction only as `@@name`.
    OneShotBare,
    /// For the next statement or transaction only.
    OneShot,
    /// Means something on the connection where it is set, and nowhere else.
    Local,
    /// What LAST_INSERT_ID() gives.
    LastInsertId,
    /// Not one of these: replayed as it came.
    Unknown,
}

const REPLAYED: [&str; 60] = [
    "autocommit",
    "auto_increment_increment",
    "auto_increment_offset",
    "big_tables",
    "character_set_client",
    "character_set_connection",
    "character_set_results",
    "collation_connection",
    "completion_type",
    "cte_max_recursion_depth",
    "default_storage_engine",
    "default_week_format",
    "div_precision_increment",
    "end_markers_in_json",
    "eq_range_index_dive_limit",
    "explicit_defaults_for_timestamp",
    "foreign_key_checks",
    "group_concat_max_len",
    "information_schema_stats_expiry",
    "innodb_lock_wait_timeout",
    "interactive_timeout",
    "join_buffer_size",
    "lc_messages",
    "lc_time_names",
    "lock_wait_timeout",
    "low_priority_updates",
    "max_allowed_packet",
    "max_error_count",
    "max_execution_time",
    "max_heap_table_size",
    "max_join_size",
    "max_length_for_sort_data",
    "max_recursive_iterations",
    "max_seeks_for_key",
    "max_sort_length",
    "max_sp_recursion_depth",
    "max_statement_time",
    "net_read_timeout",
    "net_retry_count",
    "net_write_timeout",
    "optimizer_prune_level",
    "optimizer_search_depth",
    "optimizer_switch",
    "read_buffer_size",
    "read_rnd_buffer_size",
    "session_track_schema",
    "session_track_state_change",
    "session_track_system_variables",
    "session_track_transaction_info",
    "sort_buffer_size",
    "sql_auto_is_null",
    "sql_big_selects",
    "sql_mode",
    "sql_notes",
    "sql_quote_show_create",
    "sql_safe_updates",
    "sql_select_limit",
    "sql_warnings",
    "time_zone",
    "timestamp",
];
const MORE: [&str; 6] = [
    "tmp_table_size",
    "unique_checks",
    "updatable_views_with_limit",
    "wait_timeout",
    "windowing_use_high_precision",
    "resultset_metadata",
];

/// What the variable of that name, in lower case, is.
pub(crate) fn kind(name: &str) -> Kind {
    match name {
        "transaction_isolation" | "tx_isolation" | "transaction_read_only" | "tx_read_only" => {
            Kind::OneShotBare
        }
        "insert_id" | "gtid_next" => Kind::OneShot,
        "last_insert_id" | "identity" => Kind::LastInsertId,
        "rand_seed1" | "rand_seed2" | "sql_log_bin" | "binlog_format" | "gtid_domain_id"
        | "gtid_seq_no" | "server_id" | "binlog_row_image" => Kind::Local,
        name if name.starts_with("pseudo_") => Kind::Local,
        name if REPLAYED.contains(&name) || MORE.contains(&name) => Kind::Replayed,
        _ => Kind::Unknown,
    }
}

/// The cell that `@@name` reads, if what it gives is the same on each of a session's connections.
pub(crate) fn read(token: &[u8]) -> Option<Cell> {
    let name = String::from_utf8_lossy(token.get(2..)?).to_lowercase();
    let name = match name.split_once('.') {
        Some(("session" | "local", name)) => name,
        Some(_) => return None,
        None => &name,
    };
    let same = matches!(kind(name), Kind::Replayed | Kind::OneShotBare);
    same.then(|| cell::system(name)).filter(|_| name != "timestamp")
}
