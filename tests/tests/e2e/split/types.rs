//! The types of user variables, and what a statement takes from its session when it is prepared, on
//! connections that catch up: byte by byte as on a direct connection.

use super::state::Twins;
use anyhow::{Result, ensure};
use e2e::Cluster;

on_both_vendors!(
    null_is_of_the_type_that_the_variable_had,
    statements_keep_what_they_were_prepared_with,
    a_statement_is_prepared_where_its_variable_is,
);

/// Reads go to one replica after the other: whichever was not asked to set anything has caught up.
const READS: usize = 4;

fn null_is_of_the_type_that_the_variable_had(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, "")?;
    let look = ["SELECT CHARSET(@a), COLLATION(@a)", "SELECT @a"].repeat(READS);
    twins.same(&["SET NAMES utf8mb4", "SET @a = @@sql_mode", "SET @a = NULL"])?;
    twins.same(&look)?;
    twins.same(&["SET @a = 1.5", "SET @b = NULL", "SET @a = CONCAT('x', @b)", "SET @a = @b"])?;
    twins.same(&look)?;
    // what a server has found stays where it is, with its type
    twins.same(&["SELECT 5 INTO @a", "SET @a = NULL"])?;
    twins.same(&look)
}

fn statements_keep_what_they_were_prepared_with(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, "")?;
    twins.same(&[
        "SET @e = 1, @q = 'SELECT @e + 1', div_precision_increment = 2",
        "PREPARE p FROM 'SELECT @e, 1/3'",
        "PREPARE q FROM @q",
        "SET @e = 2.5, @q = '', div_precision_increment = 8",
    ])?;
    twins.same(&["EXECUTE p", "SELECT @e, 1/3"].repeat(READS))?;
    twins.same(&["EXECUTE q"])?;

    let mut twins = Twins::start(cluster, "")?;
    twins.same(&["SET @e = 1, default_week_format = 3"])?;
    let text = "SELECT @e, WEEK('2020-01-01')";
    let [direct, proxied] =
        [&mut twins.direct, &mut twins.proxied].map(|client| client.prepare(text));
    let (direct, proxied) = (direct?, proxied?);
    twins.same(&["SET @e = 2.5, default_week_format = 0"])?;
    for _ in 0..READS {
        let (here, there) =
            (twins.direct.execute(&direct, 0, &[])?, twins.proxied.execute(&proxied, 0, &[])?);
        ensure!(here.raw == there.raw, "{:?} {:?}", here.raw, there.raw);
    }
    Ok(())
}

fn a_statement_is_prepared_where_its_variable_is(cluster: &Cluster) -> Result<()> {
    let mut twins = Twins::start(cluster, "")?;
    twins.same(&["SELECT 1", "SELECT 5 INTO @e"])?;
    let [direct, proxied] =
        [&mut twins.direct, &mut twins.proxied].map(|client| client.prepare("SELECT @e"));
    let (direct, proxied) = (direct?, proxied?);
    ensure!(direct.reply.raw[9..] == proxied.reply.raw[9..], "its column is of another type");
    for set in ["DO 0", "SET @e = 2.5"] {
        twins.same(&[set, "SELECT 1"])?;
        let (here, there) =
            (twins.direct.execute(&direct, 0, &[])?, twins.proxied.execute(&proxied, 0, &[])?);
        ensure!(here.raw == there.raw, "{set}: {:?} {:?}", here.raw, there.raw);
    }
    // closed, it keeps nothing where it was
    twins.proxied.close_statement(&proxied)?;
    let server = twins.proxied.rows("SELECT @@server_id, @e")?;
    ensure!(server[0][0].as_deref() != Some("1"), "{server:?}");
    Ok(())
}
