//! Several statements: in one text, in a row, or prepared to be executed.

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
    &["SELECT {r} id FROM twin_a.fixed WHERE id <= {i}", "ma:SET @{v} = FOUND_ROWS()"],
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
