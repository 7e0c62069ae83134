//! SET, USE and their like.

use super::{Twins, port, replicated, start, value};
use anyhow::{Result, ensure};
use e2e::{Cluster, Vendor};
use wire::CommandCode;

on_both_vendors!(
    h2_h7_h8_h9_variables_are_set_in_their_order,
    h11_h90_one_schema,
    h12_to_h16_autocommit_and_transactions,
    h17_a_set_in_a_transaction_holds_after_it,
    h4_h22_what_fails_is_not_logged,
    h28_h54_h57_forms_of_set,
    h58_several_statements_in_one_text,
    h66_the_mode_is_the_same_everywhere,
    h67_h68_h69_a_reset_holds_everywhere,
    h89_the_option_is_the_same_everywhere,
    h91_a_log_of_one_entry,
);

fn h2_h7_h8_h9_variables_are_set_in_their_order(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    ensure!(port(&mut twins.proxied, "")? != port(&mut twins.proxied, "/* hg=1 */")?);
    twins.same(&[
        "SET NAMES utf8mb4",
        "SELECT /* hg=1 */ @@character_set_client, @@collation_connection",
        "SET @a=1",
        "SET @b=@a+1",
        "SET @a=5",
        "SELECT /* hg=1 */ @a,@b",
        "SELECT @a,@b",
        "SET @p='Earth'",
        "SET /* hg=1 */ @h=CONCAT('x',@p)",
        "SET @p='Earth'",
        "SELECT @h, @p",
        "SELECT /* hg=1 */ @h, @p",
        "SET NAMES latin1",
        "SET @s='x'",
        "SET NAMES utf8mb4",
        "SELECT /* hg=1 */ CHARSET(@s)",
        "SELECT CHARSET(@s)",
        "SET @@session.sort_buffer_size = 65536, max_error_count = 17",
        "SELECT /* hg=1 */ @@sort_buffer_size, @@max_error_count",
        "SET time_zone = '+03:00', @z := @@session.time_zone",
        "SELECT /* hg=1 */ @@time_zone, @z",
    ])
}

fn h11_h90_one_schema(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let name = &schema.name;
    let other = format!("{name}_l");
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP DATABASE IF EXISTS {other}"))?;
    admin.must(&format!("CREATE DATABASE {other} CHARACTER SET latin1"))?;
    admin.must(&format!("CREATE TABLE {other}.t (a INT)"))?;
    replicated(cluster, &format!("{other}.t"), 0)?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&["SELECT DATABASE()", "SELECT /* hg=1 */ DATABASE()"])?;
    twins.same(&[
        &format!("USE {other}"),
        "SET CHARACTER SET utf8mb4",
        &format!("USE {name}"),
        "SELECT /* hg=1 */ @@character_set_connection, DATABASE()",
        &format!("USE {name}"),
        &format!("USE {name}"),
        "SELECT /* hg=1 */ DATABASE()",
        &format!("USE /* hg=1 */ {other}"),
        "SELECT DATABASE()",
        "SELECT COUNT(*) FROM t",
    ])?;
    let init = [&mut twins.direct, &mut twins.proxied]
        .map(|client| client.command(CommandCode::INIT_DB, name.as_bytes()));
    let [direct, proxied] = init;
    ensure!(direct?.raw == proxied?.raw);
    twins.same(&["SELECT /* hg=1 */ DATABASE()", "SELECT DATABASE()"])?;
    admin.must(&format!("DROP DATABASE {other}"))
}

fn h12_to_h16_autocommit_and_transactions(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    replicated(cluster, &table, 0)?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    let insert = format!("INSERT INTO {table} VALUES (1)");
    // Each twin sees its own row and rolls it back.
    let read = format!("SELECT /* hg=1 */ COUNT(*) FROM {table}");
    twins.same(&[
        "BEGIN",
        &insert,
        "SET autocommit=1",
        &read,
        "SET NAMES latin1",
        &read,
        "ROLLBACK",
        "SELECT @@character_set_client",
        "SELECT /* hg=1 */ @@character_set_client",
        "SET autocommit=0",
        "SELECT /* hg=1 */ @@autocommit",
        &insert,
        &read,
        "ROLLBACK",
        "SET autocommit=1",
        "SELECT /* hg=1 */ @@autocommit",
        &read,
        // H13: it commits.
        "SET autocommit=0",
        &insert,
        "SET autocommit=1",
        "ROLLBACK",
    ])?;
    ensure!(value(&mut admin, &format!("SELECT COUNT(*) FROM {table}"))? == "2");
    Ok(())
}

fn h17_a_set_in_a_transaction_holds_after_it(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "START TRANSACTION /* hg=1 */ READ ONLY",
        "SET @x=1",
        "SELECT @x",
        "COMMIT",
        "SELECT @x",
        "SELECT /* hg=1 */ @x",
        "SET SESSION TRANSACTION READ ONLY",
        "START TRANSACTION",
        "SELECT 1",
        "COMMIT",
        "SELECT /* hg=1 */ @@transaction_isolation",
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
        "SELECT /* hg=1 */ @@transaction_isolation",
    ])
}

fn h4_h22_what_fails_is_not_logged(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "SET NAMES nosuch",
        "SELECT /* hg=1 */ @@character_set_client",
        "SET @a = 1, no_such_variable = 2",
        "SELECT /* hg=1 */ @a",
        "USE no_such_schema",
        "SELECT /* hg=1 */ DATABASE()",
        "BEGIN",
        "SET TRANSACTION READ ONLY",
        "ROLLBACK",
        "SELECT /* hg=1 */ 1",
    ])
}

fn h28_h54_h57_forms_of_set(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "SET timestamp=100",
        "SELECT /* hg=1 */ UNIX_TIMESTAMP()",
        "/*!40101 SET NAMES utf8mb4 */;",
        "SELECT /* hg=1 */ @@character_set_client",
        "SET NAMES latin1",
        "/*!99999 SET NAMES greek */",
        "SELECT /* hg=1 */ @@character_set_client",
        "SET GLOBAL net_write_timeout = @@GLOBAL.net_write_timeout, SESSION net_read_timeout = 77",
        "SELECT /* hg=1 */ @@net_read_timeout",
        "SET @x = 1, @`A b` = 'it''s', @@lc_time_names = 'de_DE'",
        "SELECT /* hg=1 */ @x, @`a B`, @@lc_time_names",
        "SET SESSION sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES'), group_concat_max_len = DEFAULT",
        "SELECT /* hg=1 */ @@sql_mode",
        "SET GLOBAL net_write_timeout = @@GLOBAL.net_write_timeout, max_connect_errors = 100",
        "SELECT /* hg=1 */ @@sql_mode",
        "SET NAMES latin1, time_zone = '+05:00'",
        "SET NAMES utf8mb4",
        "SELECT /* hg=1 */ @@time_zone",
        "SET optimizer_switch = 'mrr=on'",
        "SET optimizer_switch = 'batched_key_access=off'",
        "SET optimizer_switch = 'index_merge=off'",
        "SELECT /* hg=1 */ @@optimizer_switch",
    ])?;
    if cluster.vendor == Vendor::MariaDb {
        twins.same(&[
            "SET STATEMENT max_statement_time = 9 FOR SET @@lc_time_names = 'fr_FR'",
            "SELECT /* hg=1 */ @@lc_time_names",
        ])?;
    }
    Ok(())
}

fn h58_several_statements_in_one_text(cluster: &Cluster) -> Result<()> {
    let login = cluster.admin().with(wire::Capabilities::MULTI_STATEMENTS);
    let mut twins = Twins::start(cluster, &login)?;
    twins.same(&[
        "SET @a = 1; SELECT @a; SET @b = @a + 1",
        "SELECT /* hg=1 */ @a, @b",
        "SELECT 1; SET NAMES latin1; USE mysql",
        "SELECT /* hg=1 */ @@character_set_client, DATABASE()",
    ])
}

fn h66_the_mode_is_the_same_everywhere(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    twins.same(&[
        "SET sql_mode='NO_BACKSLASH_ESCAPES'",
        r"SET @a='a\'",
        r"SELECT /* hg=1 */ 'b\', @a",
        "SET sql_mode=''",
        r"SELECT /* hg=1 */ 'b\n', @a",
    ])
}

fn h67_h68_h69_a_reset_holds_everywhere(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut admin = cluster.direct()?;
    let table = format!("{}.t", schema.name);
    admin.must(&format!("CREATE TABLE {table} (a INT)"))?;
    replicated(cluster, &table, 0)?;
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    let look = "SELECT /* hg=1 */ DATABASE(), @a, @@character_set_client, @@collation_connection";
    let look_here = "SELECT DATABASE(), @a, @@character_set_client, @@collation_connection";
    twins.same(&[
        "SET NAMES greek",
        &format!("USE {}", schema.name),
        "SET @a = 1",
        look,
        "BEGIN",
        "INSERT INTO t VALUES (1)",
    ])?;
    let [direct, proxied] = [&mut twins.direct, &mut twins.proxied]
        .map(|client| client.command(CommandCode::RESET_CONNECTION, b""));
    ensure!(direct?.raw == proxied?.raw);
    twins.same(&["SELECT COUNT(*) FROM t", look, look_here, "SET @a = 2", look, look_here])
}

fn h89_the_option_is_the_same_everywhere(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, &cluster.admin())?;
    for option in [[0, 0], [1, 0]] {
        let [direct, proxied] = [&mut twins.direct, &mut twins.proxied]
            .map(|client| client.command(CommandCode::SET_OPTION, &option));
        ensure!(direct?.raw == proxied?.raw);
        twins.same(&["SELECT /* hg=1 */ 1; SELECT 2", "SELECT 1; SELECT 2"])?;
    }
    Ok(())
}

fn h91_a_log_of_one_entry(cluster: &Cluster) -> Result<()> {
    let proxy = start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let asked = |client: &mut e2e::Client| -> Result<u64> {
        let rows = client.rows("SHOW /* hg=1 */ SESSION STATUS LIKE 'Com_set_option'")?;
        let count = rows.first().and_then(|row| row.get(1)).cloned().flatten();
        Ok(count.unwrap_or_default().parse()?)
    };
    let before = asked(&mut client)?;
    for n in 0..600 {
        client.must("SET NAMES 'utf8mb4'")?;
        client.must(&format!("SET @a = {n}"))?;
    }
    ensure!(value(&mut client, "SELECT /* hg=1 */ @a")? == "599");
    let after = asked(&mut client)?;
    ensure!(after - before == 2, "{before} {after}");
    Ok(())
}
