//! Which system variables a session may have set alike on each of its connections.
//!
//! MySQL manual, "Server System Variables", "Using System Variables"; MariaDB manual, "Server
//! System Variables". That setting one changes no other was tried for each of them.

use super::Cell;
use crate::words::Words;

/// What a system variable is to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Variable {
    /// Means the same on every connection.
    Everywhere,
    /// The same, but for the next transaction only where it is set as `@@name`.
    Transaction,
    /// For the next statement or transaction.
    NextStatement,
    /// Means something on the connection where it is set, and nowhere else.
    Connection,
    /// What `LAST_INSERT_ID()` gives.
    LastInsertId,
    /// None of these.
    Unknown,
}

/// What the variable of that name, in any case and without a scope, is to a session.
pub fn variable(name: &[u8]) -> Variable {
    VARIABLES.get(name).unwrap_or(Variable::Unknown)
}

/// Whether setting it changes only what the value names: `'mrr=on'`.
pub(super) fn is_partial(cell: &Cell) -> bool {
    matches!(cell, Cell::System(name) if matches!(
        &**name,
        "optimizer_switch" | "optimizer_trace" | "optimizer_trace_features"
    ))
}

/// The cells that setting a variable writes.
pub(super) fn written(name: &str) -> Vec<Cell> {
    let cell = Cell::system(name);
    match name {
        "max_join_size" => vec![cell, Cell::System("sql_big_selects".into())],
        _ => vec![cell],
    }
}

/// The cell that a value reads from a variable, if what that holds is what the session has set, or
/// the servers' common default.
pub(super) fn read(name: &[u8]) -> Option<Cell> {
    let same = matches!(variable(name), Variable::Everywhere | Variable::Transaction)
        && !name.eq_ignore_ascii_case(b"timestamp");
    same.then(|| Cell::system(&String::from_utf8_lossy(name)))
}

static VARIABLES: Words<Variable, 512> = Words::new(&[
    (Variable::Everywhere, LANGUAGE),
    (Variable::Everywhere, LIMITS),
    (Variable::Everywhere, OPTIMIZER),
    (Variable::Everywhere, TRACKING),
    (Variable::Transaction, TRANSACTION),
    (Variable::NextStatement, &["gtid_next", "insert_id"]),
    (Variable::LastInsertId, &["last_insert_id", "identity"]),
    (Variable::Connection, CONNECTION),
]);

#[rustfmt::skip]
const TRANSACTION: &[&str] = &[
    "transaction_isolation", "transaction_read_only", "tx_isolation", "tx_read_only",
];

/// What writes to the log, belongs to one server's data, or is used up by use.
#[rustfmt::skip]
const CONNECTION: &[&str] = &[
    "binlog_format", "binlog_row_image", "gtid_domain_id", "gtid_seq_no", "pseudo_replica_mode",
    "pseudo_slave_mode", "pseudo_thread_id", "rand_seed1", "rand_seed2", "server_id",
    "skip_parallel_replication", "skip_replication", "sql_log_bin",
];

/// How texts are read, and what they mean.
#[rustfmt::skip]
const LANGUAGE: &[&str] = &[
    "auto_increment_increment", "auto_increment_offset", "autocommit", "block_encryption_mode",
    "character_set_client", "character_set_connection", "character_set_database",
    "character_set_filesystem", "character_set_results", "character_set_server",
    "check_constraint_checks", "collation_connection", "collation_database", "collation_server",
    "completion_type", "default_collation_for_utf8mb4", "default_regex_flags",
    "default_storage_engine", "default_tmp_storage_engine", "default_week_format",
    "div_precision_increment", "explicit_defaults_for_timestamp", "foreign_key_checks",
    "innodb_strict_mode", "lc_messages", "lc_time_names", "low_priority_updates",
    "old_mode", "sql_auto_is_null", "sql_if_exists", "sql_mode", "sql_quote_show_create",
    "sql_safe_updates", "standard_compliant_cte", "storage_engine", "system_versioning_asof",
    "time_zone", "timestamp", "unique_checks", "updatable_views_with_limit",
    "windowing_use_high_precision",
];

/// How much, and for how long.
#[rustfmt::skip]
const LIMITS: &[&str] = &[
    "bulk_insert_buffer_size", "cte_max_recursion_depth", "group_concat_max_len",
    "idle_readonly_transaction_timeout", "idle_transaction_timeout",
    "idle_write_transaction_timeout", "information_schema_stats_expiry",
    "innodb_lock_wait_timeout", "interactive_timeout", "join_buffer_size",
    "join_buffer_space_limit", "lock_wait_timeout", "log_slow_min_examined_row_limit",
    "log_slow_query_time", "long_query_time", "max_delayed_threads", "max_error_count",
    "max_execution_time", "max_heap_table_size", "max_insert_delayed_threads", "max_join_size",
    "max_length_for_sort_data", "max_points_in_geometry", "max_recursive_iterations",
    "max_rowid_filter_size", "max_seeks_for_key", "max_session_mem_used", "max_sort_length",
    "max_sp_recursion_depth", "max_statement_time", "min_examined_row_limit", "mrr_buffer_size",
    "myisam_sort_buffer_size", "net_read_timeout", "net_retry_count", "net_write_timeout",
    "preload_buffer_size", "query_alloc_block_size", "query_prealloc_size",
    "range_alloc_block_size", "range_optimizer_max_mem_size", "read_buffer_size",
    "read_rnd_buffer_size", "rowid_merge_buff_size", "select_into_buffer_size",
    "set_operations_buffer_size", "sort_buffer_size", "sql_select_limit", "tmp_disk_table_size",
    "tmp_memory_table_size", "tmp_table_size", "wait_timeout",
];

/// How the optimizer works, and what it tells.
#[rustfmt::skip]
const OPTIMIZER: &[&str] = &[
    "big_tables", "end_markers_in_json", "eq_range_index_dive_limit", "expensive_subquery_limit",
    "explain_format", "explain_json_format_version", "in_predicate_conversion_threshold",
    "internal_tmp_mem_storage_engine", "join_cache_level", "optimizer_max_subgraph_pairs",
    "optimizer_prune_level", "optimizer_search_depth", "optimizer_selectivity_sampling_limit",
    "optimizer_switch", "optimizer_trace", "optimizer_trace_features", "optimizer_trace_limit",
    "optimizer_trace_max_mem_size", "optimizer_trace_offset",
    "optimizer_use_condition_selectivity", "profiling", "profiling_history_size",
    "sql_big_selects", "sql_buffer_result", "use_secondary_engine", "use_stat_tables",
];

/// What replies carry beside their rows.
#[rustfmt::skip]
const TRACKING: &[&str] = &[
    "note_verbosity", "resultset_metadata", "session_track_gtids", "session_track_schema",
    "session_track_state_change", "session_track_system_variables",
    "session_track_transaction_info", "show_create_table_verbosity", "sql_notes", "sql_warnings",
];
