//! The statements that scripts are made of.
//!
//! | in a text | becomes |
//! |---|---|
//! | `{n}` | a comment with a number of its own, by which the logs know the statement |
//! | `{r}` | the same, perhaps with `hg=1`: a read that any server answers alike |
//! | `{h}` | `/* hg=1 */`, or nothing |
//! | `{l}` | ` FOR UPDATE`, perhaps: always where reads are split, as replicas come later |
//! | `{i}` | 1 to 5 |
//! | `{s}` | a short string |
//! | `{v}`, `{u}` | a user variable's name, `a` to `e` |
//! | `my:`, `ma:` in front | MySQL's alone, MariaDB's alone |
//!
//! `twin_a` and `twin_b` have a table `fixed` that never changes; `twin_a.w` is written to;
//! `twin_c.secret` takes the role `twin_r`.

/// A group of templates, and how often one of it is chosen.
#[derive(Debug)]
pub struct Group {
    /// Among the sum of all groups.
    pub weight: u32,
    /// Its templates.
    pub texts: &'static [&'static str],
}

/// All groups of single statements.
pub const GROUPS: &[Group] = &[
    Group { weight: 24, texts: SETTINGS },
    Group { weight: 6, texts: TRACKERS },
    Group { weight: 18, texts: VARIABLES },
    Group { weight: 6, texts: ONCE },
    Group { weight: 7, texts: ERRORS },
    Group { weight: 8, texts: SCHEMAS },
    Group { weight: 12, texts: NAMED },
    Group { weight: 3, texts: ROLES },
    Group { weight: 9, texts: TRANSACTIONS },
    Group { weight: 8, texts: WRITES },
    Group { weight: 12, texts: READS },
    Group { weight: 8, texts: LAST },
    Group { weight: 4, texts: TIED },
    Group { weight: 20, texts: STATE },
];

/// Groups of session commands that have the same effect on every server.
pub const REPEATABLE: &[&[&str]] =
    &[SETTINGS, SETTINGS, TRACKERS, VARIABLES, VARIABLES, SCHEMAS, NAMED, ROLES];

const SETTINGS: &[&str] = &[
    "SET {h}NAMES utf8mb4",
    "SET NAMES latin1",
    "SET NAMES 'utf8mb4' COLLATE 'utf8mb4_unicode_ci'",
    "SET NAMES DEFAULT",
    "SET CHARACTER SET latin1",
    "SET CHARACTER SET utf8mb4",
    "SET character_set_results = NULL",
    "SET character_set_client = latin1",
    "SET character_set_connection = utf8mb4",
    "SET collation_connection = latin1_general_cs",
    "SET time_zone = '+0{i}:00'",
    "SET {h}time_zone = 'SYSTEM'",
    "SET sql_mode = ''",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SET SESSION sql_mode = 'NO_BACKSLASH_ESCAPES'",
    "SET sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_DATE'",
    "SET @@session.sql_mode = 'PIPES_AS_CONCAT'",
    "SET sql_mode = DEFAULT",
    "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
    "SET @old_mode = @@sql_mode, sql_mode = ''",
    "SET sql_mode = @old_mode",
    "SET sql_safe_updates = {i}",
    "SET sql_safe_updates = 0",
    "SET group_concat_max_len = {i}00",
    "SET @@session.sort_buffer_size = 65536, max_error_count = 1{i}",
    "SET foreign_key_checks = 0",
    "SET unique_checks = 1, foreign_key_checks = 1",
    "SET {h}sql_select_limit = {i}",
    "SET sql_select_limit = DEFAULT",
    "SET lc_time_names = 'de_DE'",
    "SET div_precision_increment = {i}",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ WRITE",
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION READ WRITE",
    "SET timestamp = 10{i}",
    "SET timestamp = DEFAULT",
    "SET net_read_timeout = 7{i}, @{v} = {i}",
    "SET optimizer_switch = 'mrr=on'",
    "SET optimizer_switch = 'index_merge=off'",
    "/*!40101 SET NAMES utf8mb4 */",
    "/*!40101 SET @old_mode = @@sql_mode, sql_mode = 'NO_AUTO_VALUE_ON_ZERO' */;",
    "/*!99999 SET NAMES greek */",
    "SET GLOBAL max_connect_errors = 100, SESSION lc_time_names = 'fr_FR'",
    "ma:SET STATEMENT max_statement_time = 9 FOR SET @@lc_time_names = 'es_ES'",
    "my:SET max_execution_time = {i}0000",
];

const TRACKERS: &[&str] = &[
    "SET session_track_schema = OFF",
    "SET session_track_schema = ON",
    "SET session_track_state_change = ON",
    "SET session_track_state_change = OFF",
    "SET session_track_system_variables = 'time_zone,sql_mode'",
    "SET session_track_system_variables = ''",
];

const VARIABLES: &[&str] = &[
    "SET @{v} = {i}",
    "SET {h}@{v} = {i}",
    "SET @{v} = '{s}'",
    "SET @{v} = \"{s}\"",
    "SET @{v} = NULL",
    "SET @{v} = 1.50",
    "SET @{v} = @{u}",
    "SET @{v} = @{u} + 1",
    "SET @{v} = CONCAT('x', @{u})",
    "SET @{v} := {i}, @{u} = '@{v}'",
    "SET @{v} = _latin1'{s}'",
    "SET @{v} = '{s}' COLLATE utf8mb4_bin",
    "SET @{v} = @@sql_mode",
    "SET @{v} = @@session.time_zone",
    "SET @{v} = IFNULL(@{v}, 0) + 1",
    "SET @{v} = 'a\\'b', @{u} = '{s}'",
    "SET @{v} = 'SELECT {i} + 1'",
];

const ONCE: &[&str] = &[
    "SET @{v} = (SELECT COUNT(*) FROM twin_a.fixed)",
    "SET @{v} = LAST_INSERT_ID()",
    "SET @{v} = ROW_COUNT()",
    "SET @once = UUID(), @twice = @once",
    "SET @twice = @once",
    "SELECT {r} LENGTH(@once), @once = @twice",
    "SELECT {n} {i} INTO @{v}",
    "SELECT {n} name INTO @{v} FROM twin_a.fixed WHERE id = {i}",
    "SELECT {n} @{v} := {i}",
    "DO @{v} := {i}",
    "SET sql_mode = (SELECT 'ANSI_QUOTES')",
];

const ERRORS: &[&str] = &[
    "SET NAMES nosuch",
    "SET no_such_variable = 1",
    "SET @{v} = {i}, no_such_variable = 2",
    "SET sql_mode = 'NOPE'",
    "SET time_zone = 'Nowhere'",
    "SET autocommit = 7",
    "SET GLOBAL no_such_variable = 1",
    "USE no_such_schema",
    "USE twin_c",
    "SELEC {n}",
    "SELECT {r} no_such_column",
    "SELECT {r} * FROM twin_a.no_such_table",
    "SELECT {r} * FROM twin_c.secret",
    "INSERT {n} INTO twin_a.w (no_such_column) VALUES (1)",
    "INSERT {n} INTO twin_b.fixed VALUES (1, 'twice')",
    "EXECUTE nosuch",
    "DEALLOCATE PREPARE nosuch",
    "SET ROLE no_such_role",
];

const SCHEMAS: &[&str] =
    &["USE twin_a", "USE twin_b", "USE {h}twin_a", "USE `twin_b`;", "SELECT {r} DATABASE()"];

const NAMED: &[&str] = &[
    "PREPARE p FROM 'SELECT {i}, @{v}'",
    "PREPARE p FROM 'SELECT @{v} / 3, MONTHNAME(''2020-05-01'')'",
    "PREPARE p FROM 'SELECT name FROM fixed WHERE id = ?'",
    "PREPARE p FROM 'SELECT \"x\", ''y'''",
    "PREPARE p FROM 'SELECT FROM'",
    "PREPARE p FROM 'SELECT x FROM no_such_table'",
    "PREPARE {h}p FROM 'SELECT DATABASE(), @@sql_mode'",
    "PREPARE q FROM 'SET @{v} = ?'",
    "PREPARE q FROM 'SET @{v} = {i}'",
    "PREPARE q FROM 'SET sql_mode = ''ANSI_QUOTES'''",
    "PREPARE q FROM @{v}",
    "EXECUTE p",
    "EXECUTE p",
    "EXECUTE {h}p",
    "EXECUTE {h}p USING @{v}",
    "EXECUTE q",
    "EXECUTE q USING @{v}",
    "DEALLOCATE PREPARE p",
    "DROP PREPARE q",
    "ma:EXECUTE IMMEDIATE 'SET @{v} = {i}'",
];

const ROLES: &[&str] = &[
    "SET ROLE twin_r",
    "SET ROLE NONE",
    "SELECT {r} CURRENT_ROLE()",
    "SELECT {r} * FROM twin_c.secret",
];

const TRANSACTIONS: &[&str] = &[
    "BEGIN",
    "START TRANSACTION",
    "START TRANSACTION READ WRITE",
    "START TRANSACTION WITH CONSISTENT SNAPSHOT",
    "COMMIT",
    "ROLLBACK",
    "COMMIT AND CHAIN",
    "SAVEPOINT s",
    "ROLLBACK TO SAVEPOINT s",
    "SET autocommit = 1",
    "SET autocommit=1",
    "SET autocommit = 0",
    "SET @@session.autocommit = ON, @{v} = {i}",
    "SET TRANSACTION READ ONLY",
    "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
];

const WRITES: &[&str] = &[
    "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
    "INSERT {n} INTO twin_a.w (v) VALUES ('{s}'), ('{s}')",
    "INSERT {n} INTO twin_a.w (v) VALUES (@{v} := {i})",
    "INSERT {n} INTO w (v) VALUES (CONCAT(@@sql_mode, '{s}'))",
    "UPDATE {n} twin_a.w SET v = 'z' WHERE id <= {i}",
    "UPDATE {n} twin_a.w SET v = 'all'",
    "DELETE {n} FROM twin_a.w WHERE id = {i}",
    "SELECT {n} id, HEX(v) FROM twin_a.w ORDER BY id{l}",
    "SELECT {n} COUNT(*) FROM twin_a.w{l}",
];

const READS: &[&str] = &[
    "SELECT {r} id, name FROM twin_a.fixed WHERE id <= {i}",
    "SELECT {r} COUNT(*) FROM fixed",
    "SELECT {r} name FROM twin_b.fixed ORDER BY name LIMIT {i}",
    "SELECT {r} GROUP_CONCAT(name) FROM twin_a.fixed",
    "SELECT {r} {i} / 3, 'a' || 'b'",
    "SELECT {r} 'a\\n', \"b\"",
    "SELECT {r} 1; ",
    "SHOW {r} TABLES FROM twin_b LIKE 'fix%'",
    "DO 1",
    "SELECT {r} DATE_FORMAT('2020-05-01', '%M')",
    "SELECT {r} FROM_UNIXTIME(86400)",
    "SELECT {r} IF(UNIX_TIMESTAMP() < 1000, NOW(), 'now')",
];

// MariaDB keeps warnings over statements that name no table, wherever those go; and it has a
// FOUND_ROWS() of earlier connections before a session's first SELECT. See the blocks.
const LAST: &[&str] = &[
    "SELECT {r} CAST('zz' AS SIGNED)",
    "my:SHOW WARNINGS",
    "my:SHOW COUNT(*) WARNINGS",
    "my:SELECT {r} @@warning_count, @@error_count",
    "SELECT {r} ROW_COUNT()",
    "SELECT SQL_CALC_FOUND_ROWS {r} id FROM twin_a.fixed LIMIT 1",
    "SELECT {r} LAST_INSERT_ID()",
    "SELECT {r} LAST_INSERT_ID(), @@identity",
    "SELECT {n} LAST_INSERT_ID({i})",
];

const TIED: &[&str] = &[
    "CREATE TEMPORARY TABLE twin_a.tmp (a INT)",
    "INSERT {n} INTO twin_a.tmp VALUES ({i})",
    "SELECT {r} a FROM twin_a.tmp",
    "DROP TEMPORARY TABLE IF EXISTS twin_a.tmp",
    "SELECT {n} GET_LOCK('twin', 20)",
    "SELECT {n} RELEASE_LOCK('twin')",
    "DO RELEASE_ALL_LOCKS()",
    "LOCK TABLES twin_a.fixed READ",
    "LOCK TABLES twin_a.w WRITE, twin_a.fixed READ",
    "UNLOCK TABLES",
    "HANDLER twin_a.fixed OPEN AS h",
    "HANDLER h READ FIRST",
    "HANDLER h CLOSE",
    "SET rand_seed1 = {i}, rand_seed2 = 7",
    "SET insert_id = 4{i}",
];

/// What a session is made of, to be looked at.
pub const STATE: &[&str] = &[
    "SELECT {r} @a, @b, @c, @d, @e",
    "SELECT {r} @@sql_mode, DATABASE(), @@time_zone, @old_mode",
    "SELECT {r} @@character_set_client, @@character_set_results, @@character_set_connection, \
     @@collation_connection, @@collation_database",
    "SELECT {r} CHARSET(@{v}), COLLATION(@{v}), HEX(@{v})",
    "SELECT {r} @@autocommit, @@sql_select_limit, @@group_concat_max_len, @@lc_time_names, \
     @@sql_safe_updates, @@foreign_key_checks, @@unique_checks, @@max_error_count, \
     @@div_precision_increment, @@net_read_timeout, @@sort_buffer_size",
    "SELECT {r} @@session_track_schema, @@session_track_state_change, \
     @@session_track_system_variables, @@optimizer_switch",
    "my:SELECT {r} @@transaction_isolation, @@transaction_read_only, @@max_execution_time",
    "ma:SELECT {r} @@tx_isolation, @@tx_read_only",
    "SELECT {r} 'é', CHARSET('x'), LENGTH('é')",
];

/// Texts of several statements, for logins that may send them.
pub const SEVERAL: &[&str] = &[
    "SET @{v} = {i}; SELECT {n} @{v}; SET @{u} = @{v} + 1",
    "SELECT {n} 1; SET NAMES latin1; USE twin_b",
    "SET @{v} = {i}; SELEC",
    "SET autocommit = 1; INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
    "BEGIN; INSERT {n} INTO twin_a.w (v) VALUES ('{s}'); COMMIT",
    "SET sql_mode = 'ANSI_QUOTES'; SELECT {n} \"id\" FROM twin_a.fixed LIMIT 1",
];

/// Statements in a row.
pub const BLOCKS: &[&[&str]] = &[
    // a variable that was never set would be made by it, of a type of its own
    &["SET @a = '{s}'", "INSERT {n} INTO twin_a.w (v) VALUES (@a)", "SELECT {r} @a"],
    &[
        "BEGIN",
        "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
        "SET @{v} = {i}",
        "SELECT {n} id, v FROM twin_a.w{l}",
        "COMMIT",
        "SELECT {r} @{v}",
    ],
    &[
        "BEGIN",
        "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
        "SET autocommit=1",
        "SELECT {n} COUNT(*) FROM twin_a.w{l}",
        "ROLLBACK",
    ],
    &[
        "SET autocommit = 0",
        "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
        "SET autocommit = 1",
        "ROLLBACK",
        "SELECT {n} COUNT(*) FROM twin_a.w{l}",
    ],
    &["SET TRANSACTION READ ONLY", "SELECT {r} 1", "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')"],
    &[
        "SET TRANSACTION READ ONLY",
        "SET @{v} = 1",
        "SELECT {n} COUNT(*) FROM twin_a.fixed",
        "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
    ],
    &["SET SESSION TRANSACTION READ ONLY", "START TRANSACTION", "SELECT {r} 1", "COMMIT"],
    &[
        "START TRANSACTION READ ONLY",
        "SELECT {r} 1",
        "ma:BEGIN",
        "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
        "COMMIT",
    ],
    &["START TRANSACTION READ ONLY", "SET @{v} = {i}", "COMMIT", "SELECT {r} @{v}"],
    &["SET @a=1", "SET @b=@a+1", "SET @a=5", "SELECT {r} @a,@b"],
    &["SET NAMES latin1", "SET @{v}='x'", "SET NAMES utf8mb4", "SELECT {r} CHARSET(@{v})"],
    &[
        "SET sql_mode='ANSI_QUOTES'",
        "PREPARE p FROM 'SELECT \"name\" FROM twin_b.fixed WHERE id = 1'",
        "SET sql_mode=''",
        "EXECUTE {h}p",
    ],
    &["SET @q='SELECT COUNT(*) FROM twin_a.fixed'", "PREPARE p FROM @q", "SET @q='x'", "EXECUTE p"],
    &[
        "INSERT {n} INTO twin_a.w (v) VALUES ('{s}'), ('{s}')",
        "SET @{v} = {i}",
        "SELECT {r} ROW_COUNT()",
    ],
    &[
        "INSERT {n} INTO twin_a.w (v) VALUES ('{s}')",
        "SET @{v} = {i}",
        "SELECT {r} LAST_INSERT_ID()",
    ],
    &["SELECT SQL_CALC_FOUND_ROWS {r} id FROM twin_a.fixed LIMIT 1", "SET @{v} = {i}"],
    &["SELECT {r} CAST(name AS SIGNED) FROM twin_a.fixed", "SET @{v} = {i}", "SHOW WARNINGS"],
    &[
        "SELECT {r} CAST(name AS SIGNED) FROM twin_a.fixed",
        "SELECT {r} @@warning_count, @@error_count",
    ],
    &["SELECT {r} id FROM twin_a.fixed WHERE id <= {i}", "SELECT {r} FOUND_ROWS()"],
    &["SELECT {r} id FROM twin_a.fixed WHERE id <= {i}", "SET @{v} = FOUND_ROWS()"],
    &["SET NAMES utf8mb4", "SET autocommit=1", "SET time_zone = '+01:00'", "SELECT {r} 1"],
    &[
        "USE twin_b",
        "SET CHARACTER SET utf8mb4",
        "USE twin_a",
        "SELECT {r} @@character_set_connection",
    ],
];

/// What COM_STMT_PREPARE prepares.
pub const PREPARED: &[&str] = &[
    "SELECT {r} ?, @{v}",
    "SELECT {r} {i} / 3, @{v}, WEEK('2020-01-01')",
    "SELECT {r} name FROM twin_a.fixed WHERE id = ?",
    "SELECT {r} name FROM fixed ORDER BY id",
    "SELECT {r} DATABASE(), \"x\"",
    "SELECT {r} id FROM twin_b.fixed WHERE id > ? ORDER BY id",
    "SELECT name FROM twin_a.fixed WHERE id = ?",
    "SELECT * FROM twin_b.fixed",
    "SELECT {r} FROM",
    "SELECT {r} * FROM twin_c.secret",
    "INSERT {n} INTO twin_a.w (v) VALUES (?)",
    "UPDATE {n} twin_a.w SET v = ? WHERE id = ?",
    "SET @{v} = ?",
    "SET @{v} = {i}",
    "SET NAMES latin1",
    "SET time_zone = '+0{i}:00'",
    "COMMIT",
    "SHOW {r} VARIABLES LIKE 'time_zone'",
];

/// Strings of `{s}`.
pub const STRINGS: &[&str] = &["x", "y", "it''s", "é", "", "12", "three words here", "ß"];
/// User variables of `{v}` and `{u}`.
pub const NAMES: &[&str] = &["a", "b", "c", "d", "e"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_at_least_sixty() {
        let single: usize = GROUPS.iter().map(|group| group.texts.len()).sum();
        assert!(single + SEVERAL.len() + BLOCKS.len() + PREPARED.len() >= 60);
    }
}
