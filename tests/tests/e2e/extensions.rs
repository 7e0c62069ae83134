//! What one vendor has and the other has not: MariaDB's extended capabilities, MySQL's query
//! attributes. Byte by byte as directly.

use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Cluster, Proxy, Throwaway, Vendor,
    client::{Reply, Statement},
    transcript::{Transcript, same},
};
use wire::{Capabilities, CommandCode, column::kind};

/// COM_STMT_BULK_EXECUTE with the parameters' types, and with one result for each row.
const TYPES: u16 = 128;
const UNIT_RESULTS: u16 = 64;

/// Indicators of a bulk execution's values.
const VALUE: u8 = 0;
const NULL: u8 = 1;
const DEFAULT: u8 = 2;

/// COM_STMT_EXECUTE with its own number of parameters, attributes among them.
const PARAMETER_COUNT: u8 = 8;

fn on_mariadb(test: impl FnOnce(&Cluster) -> Result<()>) -> Result<()> {
    crate::with(Vendor::MariaDb, test)
}

#[test]
fn metadata_is_not_sent_again() -> Result<()> {
    on_mariadb(|cluster| {
        let proxy = Proxy::start(cluster)?;
        let login = cluster.admin().with(Capabilities::CACHE_METADATA);
        for login in [login.clone(), login.without(Capabilities::DEPRECATE_EOF)] {
            same(cluster, &proxy, &login, |client, transcript| {
                ensure!(client.capabilities.contains(Capabilities::CACHE_METADATA));
                client.must("CREATE TABLE t (a INT, b VARCHAR(9))")?;
                client.must("INSERT INTO t VALUES (1, 'one'), (2, NULL)")?;
                transcript.add("text", &client.query("SELECT * FROM t")?);
                let statement = client.prepare("SELECT * FROM t ORDER BY a")?;
                transcript.add("prepare", &statement.reply);
                let mut lengths = Vec::new();
                let mut execute = |client: &mut Client, label: &str| -> Result<()> {
                    let reply = client.execute(&statement, 0, &[])?;
                    lengths.push(reply.raw.len());
                    transcript.add(label, &reply);
                    Ok(())
                };
                execute(client, "known from its preparation")?;
                client.must("ALTER TABLE t ADD c INT DEFAULT 5")?;
                execute(client, "new")?;
                execute(client, "known")?;
                ensure!(lengths[1] > lengths[2], "all are as long: {lengths:?}");
                transcript.add("cursor", &client.execute(&statement, 1, &[])?);
                transcript.add("fetch", &client.fetch(&statement, 5)?);
                transcript.add("after", &client.query("SELECT 'after'")?);
                Ok(())
            })?;
        }
        Ok(())
    })
}

/// Each row is an id and a text: an indicator before each value.
fn bulk(
    client: &mut Client,
    statement: &Statement,
    flags: u16,
    rows: &[(i32, u8, &str)],
) -> Result<Reply> {
    let mut body = statement.id().to_le_bytes().to_vec();
    body.extend(flags.to_le_bytes());
    if flags & TYPES != 0 {
        body.extend([kind::LONG, 0, kind::VAR_STRING, 0]);
    }
    for (id, indicator, text) in rows {
        body.push(VALUE);
        body.extend(id.to_le_bytes());
        body.push(*indicator);
        if *indicator == VALUE {
            body.push(u8::try_from(text.len())?);
            body.extend(text.as_bytes());
        }
    }
    client.command(CommandCode::STMT_BULK_EXECUTE, &body)
}

fn in_bulk(cluster: &Cluster, flags: u16, capability: Capabilities) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().with(capability);
    same(cluster, &proxy, &login, |client, transcript| {
        ensure!(client.capabilities.contains(capability), "not offered");
        client.must("CREATE TABLE t (id INT PRIMARY KEY, t VARCHAR(9) DEFAULT 'default')")?;
        let insert = client.prepare("INSERT INTO t VALUES (?, ?)")?;
        let rows = [(1, VALUE, "one"), (2, NULL, ""), (3, DEFAULT, ""), (4, VALUE, "")];
        transcript.add("rows", &bulk(client, &insert, TYPES | flags, &rows)?);
        transcript.add("types as before", &bulk(client, &insert, flags, &[(5, VALUE, "five")])?);
        let again = [(6, VALUE, "six"), (1, VALUE, "a duplicate"), (7, VALUE, "seven")];
        transcript.add("a duplicate", &bulk(client, &insert, TYPES | flags, &again)?);
        transcript.add("inserted", &client.query("SELECT * FROM t ORDER BY id")?);
        let select = client.prepare("SELECT ?, ?")?;
        transcript.add("no such thing", &bulk(client, &select, TYPES | flags, &rows)?);
        client.close_statement(&insert)?;
        transcript.add_code("closed", &bulk(client, &insert, TYPES | flags, &rows)?);
        transcript.add("after", &client.query("SELECT 'after'")?);
        Ok(())
    })
}

#[test]
fn executions_in_bulk() -> Result<()> {
    on_mariadb(|cluster| in_bulk(cluster, 0, Capabilities::STMT_BULK_OPERATIONS))
}

/// From MariaDB 11.5 on.
#[test]
fn executions_in_bulk_with_a_result_for_each() -> Result<()> {
    let Some(cluster) = crate::plugins::parsec_server()? else { return Ok(()) };
    let both = Capabilities::STMT_BULK_OPERATIONS | Capabilities::BULK_UNIT_RESULTS;
    in_bulk(&cluster, UNIT_RESULTS, both)?;
    in_bulk(&cluster, 0, both)
}

#[test]
fn types_of_columns_in_more_detail() -> Result<()> {
    on_mariadb(|cluster| {
        let proxy = Proxy::start(cluster)?;
        let login = cluster.admin().with(Capabilities::EXTENDED_METADATA);
        same(cluster, &proxy, &login, |client, transcript| {
            ensure!(client.capabilities.contains(Capabilities::EXTENDED_METADATA));
            client.must("CREATE TABLE t (j JSON, p POINT, i INET6, u UUID)")?;
            let sql = "SELECT * FROM t";
            let reply = client.query(sql)?;
            ensure!(reply.raw.windows(5).any(|bytes| bytes == b"inet6"), "no extended types");
            transcript.add(sql, &reply);
            let statement = client.prepare(sql)?;
            transcript.add("prepare", &statement.reply);
            transcript.add("execute", &client.execute(&statement, 0, &[])?);
            transcript.add("after", &client.query("SELECT 'after'")?);
            Ok(())
        })
    })
}

/// How many there are is a matter of time; that there is one is not.
#[test]
fn reports_of_progress() -> Result<()> {
    on_mariadb(|cluster| {
        let proxy = Proxy::start(cluster)?;
        let schema = cluster.schema()?;
        let login = cluster.admin().schema(&schema.name).with(Capabilities::PROGRESS);
        for address in [&cluster.addresses[0], &proxy.address] {
            schema.clear()?;
            let mut client = Client::connect(address, &login)?;
            client.must("SET progress_report_time = 1")?;
            client.must("CREATE TABLE t (a INT)")?;
            client.must("INSERT INTO t SELECT help_topic_id FROM mysql.help_topic")?;
            let reply = client.query("ALTER TABLE t ADD b INT, ALGORITHM = COPY")?;
            ensure!(reply.error().is_none(), "{:?}", reply.error());
            let packets = reply.packets();
            let (last, reports) = packets.split_last().context("no reply")?;
            ensure!(last[0] == 0, "an OK at the end");
            ensure!(!reports.is_empty(), "{address}: no report of progress");
            ensure!(reports.iter().all(|report| report.starts_with(b"\xFF\xFF\xFF")));
            ensure!(client.rows("SELECT 'after'")? == [[Some("after".to_owned())]]);
            client.quit()?;
        }
        Ok(())
    })
}

/// What stands in front of a command's parameters: an attribute `n` with the text `value`.
fn attribute(value: &str) -> Result<Vec<u8>> {
    let head = [1, 1, 0, 1, kind::VAR_STRING, 0, 1, b'n', u8::try_from(value.len())?];
    Ok([&head[..], value.as_bytes()].concat())
}

fn attributes(client: &mut Client, transcript: &mut Transcript) -> Result<()> {
    ensure!(client.capabilities.contains(Capabilities::QUERY_ATTRIBUTES), "not offered");
    let asks = "SELECT mysql_query_attribute_string('n')";
    for value in ["here", "", "another"] {
        let body = [&attribute(value)?[..], asks.as_bytes()].concat();
        let reply = client.command(CommandCode::QUERY, &body)?;
        let rows = reply.rows(client.capabilities)?;
        ensure!(rows == [[Some(value.to_owned())]], "{rows:?}");
        transcript.add(value, &reply);
    }
    let none = [b"\0\x01", asks.as_bytes()].concat();
    transcript.add("none", &client.command(CommandCode::QUERY, &none)?);
    let statement = client.prepare(&format!("{asks}, ?"))?;
    transcript.add("prepare", &statement.reply);
    for value in ["of the first", "of the second"] {
        let head = [&statement.id().to_le_bytes()[..], &[PARAMETER_COUNT], &[1, 0, 0, 0]].concat();
        // two parameters, no NULLs, types with names: the first one has none
        let types = [2, 0, 1, kind::VAR_STRING, 0, 0, kind::VAR_STRING, 0, 1, b'n'];
        let values = [&[1, b'p', u8::try_from(value.len())?], value.as_bytes()].concat();
        let body = [&head[..], &types, &values].concat();
        let reply = client.command(CommandCode::STMT_EXECUTE, &body)?;
        ensure!(reply.raw.windows(value.len()).any(|bytes| bytes == value.as_bytes()));
        transcript.add(value, &reply);
    }
    transcript.add("after", &client.command(CommandCode::QUERY, b"\0\x01SELECT 'after'")?);
    Ok(())
}

#[test]
fn attributes_of_queries() -> Result<()> {
    crate::with(Vendor::MySql, |cluster| {
        // a component is the whole server's
        let server = Throwaway::start(cluster.vendor)?;
        let mut direct = server.cluster.direct()?;
        direct.must("INSTALL COMPONENT 'file://component_query_attributes'")?;
        direct.quit()?;
        let proxy = Proxy::start(&server.cluster)?;
        let login = server.cluster.admin().with(Capabilities::QUERY_ATTRIBUTES);
        same(&server.cluster, &proxy, &login, attributes)
    })
}
