//! What `sql` says about session commands, asked of the servers: nothing else changes than the cells
//! that a text is said to write, and what it gives them depends on nothing else than those that it
//! is said to read.

use anyhow::{Context, Result, bail, ensure};
use e2e::{Client, Cluster, Throwaway, Vendor, client::Reply};
use std::collections::BTreeMap;
use wire::{Capabilities, CommandCode};

on_both_vendors!(cells_are_what_servers_change_and_ask);

/// The table of the crate's own tests.
const TABLE: &str = include_str!("../../../src/sql/tests/session/table.txt");

/// One row of it.
#[derive(Clone, Copy, Debug)]
struct Row {
    line: usize,
    /// Class, writes, reads, holds.
    reading: &'static str,
    settings: &'static str,
    text: &'static str,
}

/// User variables that the table names.
const USER_VARIABLES: [&str; 12] =
    ["a", "b", "c", "m", "n", "q", "h", "A.B", "a$b", "_a", "old", "old_sql_mode"];

/// Another value for one cell, for texts that do not read it.
const OTHERWISE: [(&str, &str); 9] = [
    ("@@collation_connection", "SET collation_connection = latin1_general_cs"),
    ("@@character_set_client", "SET character_set_client = latin1"),
    ("@@sql_mode", "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'"),
    ("@@time_zone", "SET time_zone = '+05:00'"),
    ("@@div_precision_increment", "SET div_precision_increment = 9"),
    ("schema", "USE d2"),
    ("@@collation_database", "SET collation_database = latin2_bin"),
    ("@a", "SET @a = 77"),
    ("@b", "SET @b = 'other'"),
];

/// Texts that servers take and nobody needs to read.
const GIVEN_UP: [&str; 4] = [
    "SET @@session .sql_mode = ''",
    "SET GLOBAL max_sort_length = 1024 /*!40101 + 0 */, SESSION max_error_count = 63",
    "PREPARE p FROM 'SELECT' ' 1'",
    "USE \"d2\"",
];

fn cells_are_what_servers_change_and_ask(cluster: &Cluster) -> Result<()> {
    let server = Throwaway::start(cluster.vendor)?;
    let here = &server.cluster;
    prepare(here)?;
    let (mut wrong, mut checked) = (String::new(), 0);
    for row in rows(here.vendor) {
        if let Err(error) = check(here, row) {
            wrong += &format!("line {}: {}: {error:#}\n", row.line, row.text);
        }
        checked += 1;
        let ddl =
            ["create", "drop", "alter", "rename", "truncate", "insert", "update", "select 1; c"];
        let text = row.text.to_lowercase();
        if ddl.iter().any(|verb| text.starts_with(verb)) || text.contains("for update") {
            prepare(here)?;
        }
    }
    ensure!(wrong.is_empty(), "{wrong}");
    ensure!(checked >= 350, "only {checked} texts");
    Ok(())
}

/// Schemas, tables, accounts and roles that the table names.
fn prepare(here: &Cluster) -> Result<()> {
    let mut admin = here.direct()?;
    for statement in [
        "DROP DATABASE IF EXISTS d1",
        "DROP DATABASE IF EXISTS d2",
        "DROP DATABASE IF EXISTS nd",
        "CREATE DATABASE d1 CHARACTER SET latin1",
        "CREATE DATABASE d2 CHARACTER SET latin2",
        "CREATE TABLE d1.t (a INT)",
        "CREATE TABLE d1.u (a INT)",
        "CREATE PROCEDURE d1.p4(OUT x INT) SET x = 4",
        "CREATE USER IF NOT EXISTS u, v",
        "CREATE ROLE IF NOT EXISTS r1, r2",
        "GRANT r1, r2 TO admin@'%'",
    ] {
        let both = statement.replace("GRANT r1, r2", "GRANT r1");
        let second = both.replace("r1", "r2");
        admin.must(&both)?;
        if both != second {
            admin.must(&second)?;
        }
    }
    admin.quit()
}

/// Whether a lock that a text takes or gives back is what has changed: those of users are looked at
/// together.
fn says(hold: &str, cell: &str) -> bool {
    hold == cell || cell == "user locks" && hold.starts_with("user lock ")
}

fn check(here: &Cluster, row: Row) -> Result<()> {
    let before = State::of(&mut session(here, row)?)?;
    let mut client = session(here, row)?;
    let error = run(&mut client, row)?;
    if row.reading == "unreadable grammar" {
        let refused = error.is_some() || GIVEN_UP.contains(&row.text);
        ensure!(refused, "the server takes it");
        return Ok(());
    }
    let after = State::of(&mut client)?;
    drop(client);
    let writes = list(row.reading, "writes ");
    let anything = row.reading.starts_with("unreadable")
        || writes.contains(&"*")
        || row.reading.contains("> ");
    let changed = after.changed(&before);
    if !anything {
        let holds = list(row.reading, "holds ");
        for cell in &changed {
            let known =
                writes.contains(&cell.as_str()) || holds.iter().any(|hold| says(&hold[1..], cell));
            ensure!(
                known,
                "{cell} changes from {:?} to {:?}",
                before.0.get(cell),
                after.0.get(cell)
            );
        }
    }
    let alike = row.reading.starts_with("const") || row.reading.starts_with("environment");
    if alike && error.is_none() && !row.reading.contains("; ") && !row.reading.contains("mixed") {
        depends(here, row, &writes, &after)?;
    }
    Ok(())
}

/// Where all cells that it does not read have other values, it sets the same.
fn depends(here: &Cluster, row: Row, writes: &[&str], expected: &State) -> Result<()> {
    let reads = list(row.reading, "reads ");
    let others: Vec<_> = OTHERWISE.iter().filter(|(cell, _)| !reads.contains(cell)).collect();
    let Err(error) = same_with(here, row, writes, expected, &others) else { return Ok(()) };
    for other in others {
        same_with(here, row, writes, expected, &[other]).with_context(|| other.0)?;
    }
    Err(error.context("several cells together"))
}

fn same_with(
    here: &Cluster,
    row: Row,
    writes: &[&str],
    expected: &State,
    others: &[&(&str, &str)],
) -> Result<()> {
    let mut client = session(here, row)?;
    for (_, otherwise) in others {
        client.must(otherwise)?;
    }
    if let Some(error) = run(&mut client, row)? {
        bail!("fails where another cell is different: {error}");
    }
    let found = State::of(&mut client)?;
    for written in writes {
        let (found, expected) = (found.0.get(*written), expected.0.get(*written));
        ensure!(found == expected, "{written} is {found:?}, not {expected:?}");
    }
    Ok(())
}

/// A session with the state that the table's texts work on.
fn session(here: &Cluster, row: Row) -> Result<Client> {
    let login = here.admin().with(Capabilities::MULTI_STATEMENTS);
    let mut client = Client::connect(&here.addresses[0], &login)?;
    client.must("USE d1")?;
    client.must("SET @b = 3, @q = 'SELECT 8', @m = 'ANSI', @old_sql_mode = 'ANSI'")?;
    client.must("PREPARE p FROM 'SELECT 7'")?;
    match row.settings {
        "ansi_quotes" => client.must("SET sql_mode = 'ANSI_QUOTES'")?,
        "no_backslash_escapes" => client.must("SET sql_mode = 'NO_BACKSLASH_ESCAPES'")?,
        _ => {}
    }
    Ok(client)
}

/// Runs the text; its error, if that is what comes first.
fn run(client: &mut Client, row: Row) -> Result<Option<String>> {
    let reply: Reply = client.command(CommandCode::QUERY, &bytes(row.text))?;
    Ok(reply.error().map(|error| error.to_string()))
}

/// What a session's cells hold, by their names in the table.
struct State(BTreeMap<String, String>);

impl State {
    fn of(client: &mut Client) -> Result<Self> {
        let mut cells = BTreeMap::new();
        for row in client.rows("SHOW SESSION VARIABLES")? {
            let [Some(name), value] = &row[..] else { bail!("{row:?}") };
            if let Some(name) = variable(name) {
                cells.insert(format!("@@{name}"), format!("{value:?}"));
            }
        }
        let names: Vec<_> = USER_VARIABLES
            .iter()
            .map(|name| format!("HEX(@`{name}`), COLLATION(@`{name}`)"))
            .collect();
        let values = client.rows(&format!("SELECT {}", names.join(", ")))?;
        let values = values.first().context("no row")?;
        for (name, value) in USER_VARIABLES.iter().zip(values.chunks(2)) {
            cells.insert(format!("@{}", name.to_lowercase()), format!("{value:?}"));
        }
        let rest = client
            .rows("SELECT DATABASE(), CURRENT_ROLE(), IS_USED_LOCK('x') = CONNECTION_ID()")?;
        for (name, value) in ["schema", "role", "user locks"].iter().zip(&rest[0]) {
            // How names are quoted is for sql_mode to say.
            let value = format!("{value:?}").replace("\\\"", "`");
            cells.insert((*name).to_owned(), value);
        }
        for table in ["tt", "d2.tt"] {
            let there = client.query(&format!("SELECT 1 FROM {table} LIMIT 0"))?.error().is_none();
            cells.insert(format!("table {table}"), there.to_string());
        }
        // Last, because it sets collation_database to that of the current schema if it was prepared
        // in another one.
        let prepared = client.rows("EXECUTE p");
        let prepared = prepared.map_or_else(|error| error.to_string(), |rows| format!("{rows:?}"));
        cells.insert("prepared p".to_owned(), prepared);
        Ok(Self(cells))
    }

    fn changed(&self, before: &Self) -> Vec<String> {
        let cells = self.0.iter().filter(|(cell, value)| before.0.get(*cell) != Some(value));
        cells.map(|(cell, _)| cell.clone()).collect()
    }
}

/// The cell of a system variable. `None` for what every statement changes, or each connection has.
fn variable(name: &str) -> Option<String> {
    const OWN: [&str; 13] = [
        "error_count",
        "gtid_binlog_pos",
        "gtid_binlog_state",
        "gtid_current_pos",
        "gtid_executed",
        "last_gtid",
        "pseudo_thread_id",
        "rand_seed1",
        "rand_seed2",
        "statement_id",
        "timestamp",
        "warning_count",
        "in_transaction",
    ];
    let name = match name {
        "character_set_connection" => "collation_connection",
        "character_set_database" => "collation_database",
        "character_set_server" => "collation_server",
        "identity" => "last_insert_id",
        "pseudo_slave_mode" => "pseudo_replica_mode",
        "storage_engine" => "default_storage_engine",
        "tmp_memory_table_size" => "tmp_table_size",
        "tx_isolation" => "transaction_isolation",
        "tx_read_only" => "transaction_read_only",
        "log_slow_query_time" => "long_query_time",
        other => other,
    };
    (!OWN.contains(&name)).then(|| name.to_owned())
}

/// The names behind a keyword of a heading, of all its statements.
fn list<'a>(reading: &'a str, keyword: &str) -> Vec<&'a str> {
    let parts = reading.split([';', '|']).filter_map(|part| part.trim().strip_prefix(keyword));
    parts.flat_map(|names| names.split(", ")).collect()
}

/// The rows for a vendor. What changes the account is left out.
fn rows(vendor: Vendor) -> Vec<Row> {
    let own = if vendor == Vendor::MySql { "mysql" } else { "mariadb" };
    let (mut rows, mut reading, mut settings) = (Vec::new(), "", "");
    for (number, text) in TABLE.lines().enumerate().skip(3) {
        if let Some(heading) = text.strip_prefix('[') {
            let (found, rest) = heading.rsplit_once(']').expect("a heading has an end");
            (reading, settings) = (found, rest.strip_prefix(" -- ").unwrap_or_default());
            continue;
        }
        let here = ["", own, "ansi_quotes", "no_backslash_escapes"].contains(&settings);
        let harmless = !text.contains("PASSWORD") && !text.contains("DEFAULT ROLE");
        if here && harmless && !text.is_empty() {
            rows.push(Row { line: number + 1, reading, settings, text });
        }
    }
    rows
}

/// The bytes of a line: `\n`, `\t` and `\\` stand for one each.
fn bytes(line: &str) -> Vec<u8> {
    let line = line.replace("\\\\", "\0").replace("\\n", "\n").replace("\\t", "\t");
    line.replace('\0', "\\").into_bytes()
}
