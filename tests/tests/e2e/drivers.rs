//! A session of sixty varied statements by the clients that people use: the same output as directly.

use anyhow::{Context, Result, bail};
use e2e::{Cluster, Proxy, Setup, program, skip, wait};
use mysql_async::{OptsBuilder, Params, Row, consts::ColumnType, prelude::Queryable};
use std::{fmt::Write as _, path::PathBuf, process::Command};

on_both_vendors!(
    the_mariadb_command_line,
    the_mysql_command_line,
    pymysql,
    mysqlclient,
    mysql_async_text,
    mysql_async_prepared,
);

/// Where a client is to connect.
struct Endpoint<'a> {
    host: &'a str,
    port: &'a str,
    tls: bool,
}

fn session() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("drivers/session.sql")
}

/// Runs `client` directly and through the proxy, with and without TLS, and compares.
fn same(
    cluster: &Cluster,
    client: impl Fn(&Endpoint<'_>, &str) -> Result<program::Output>,
) -> Result<()> {
    let schema = cluster.schema()?;
    let proxy = Setup::of(cluster).listener_tls("prefer").start()?;
    let (host, port) = cluster.addresses[0].split_once(':').context("address")?;
    for tls in [false, true] {
        let direct = masked(client(&Endpoint { host, port, tls }, &schema.name)?);
        schema.clear()?;
        let (host, port) = proxy.host_and_port();
        let proxied = masked(client(&Endpoint { host, port, tls }, &schema.name)?);
        schema.clear()?;
        if direct.stdout.lines().count() < 100 {
            bail!("the session broke off early: {direct:?}");
        }
        compare(&direct.stdout, &proxied.stdout, tls)?;
        compare(&direct.stderr, &proxied.stderr, tls)?;
        assert_eq!(direct.code, proxied.code);
    }
    Ok(())
}

/// Times are not the same in any two runs; everything else is.
fn masked(mut output: program::Output) -> program::Output {
    let lines = output.stdout.lines().map(|line| match line.rsplit_once(" (") {
        Some((head, tail)) if tail.ends_with(" sec)") => head,
        _ => line,
    });
    output.stdout = lines.collect::<Vec<_>>().join("\n");
    output
}

fn compare(direct: &str, proxied: &str, tls: bool) -> Result<()> {
    let mut statement = "";
    let (mut left, mut right) = (direct.lines(), proxied.lines());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return Ok(()),
            (a, b) if a == b => statement = a.filter(|a| !a.starts_with(' ')).unwrap_or(statement),
            (a, b) => bail!("TLS {tls}, after {statement:?}:\n  directly {a:?}\n  proxied  {b:?}"),
        }
    }
}

fn command_line(cluster: &Cluster, program: Option<PathBuf>, tls: [&str; 2]) -> Result<()> {
    let Some(program) = program else {
        skip::report("this command line is not installed");
        return Ok(());
    };
    let admin = cluster.admin();
    let script = std::fs::read_to_string(session())?;
    same(cluster, |to, schema| {
        let mut command = Command::new(&program);
        command
            .arg("--no-defaults")
            .args(["--protocol=tcp", "--force", "--comments", "--table", "--show-warnings"])
            .args(["--column-type-info", "-v", "-v", "-v", "-h", to.host, "-P", to.port])
            .args(["-u", &admin.user, &format!("-p{}", admin.password), tls[usize::from(to.tls)]])
            .arg("--default-character-set=utf8mb4");
        if program.ends_with("mysql") {
            command.arg("--get-server-public-key");
        }
        program::run(command.arg(schema), &script)
    })
}

fn the_mariadb_command_line(cluster: &Cluster) -> Result<()> {
    command_line(cluster, program::mariadb(), ["--skip-ssl", "--ssl"])
}

fn the_mysql_command_line(cluster: &Cluster) -> Result<()> {
    command_line(cluster, program::mysql(), ["--ssl-mode=DISABLED", "--ssl-mode=REQUIRED"])
}

fn python(cluster: &Cluster, driver: &str) -> Result<()> {
    let Some(python) = program::python() else {
        skip::report("Python's drivers are not installed");
        return Ok(());
    };
    let admin = cluster.admin();
    same(cluster, |to, schema| {
        let tls = if to.tls { "tls" } else { "plain" };
        let mut command = Command::new(&python);
        command
            .arg(session().with_extension("py"))
            .args([driver, to.host, to.port, &admin.user, &admin.password, schema, tls])
            .arg(session());
        program::run(&mut command, "")?.good()
    })
}

fn pymysql(cluster: &Cluster) -> Result<()> {
    python(cluster, "pymysql")
}

fn mysqlclient(cluster: &Cluster) -> Result<()> {
    python(cluster, "mysqlclient")
}

fn mysql_async_text(cluster: &Cluster) -> Result<()> {
    mysql_async(cluster, false)
}

fn mysql_async_prepared(cluster: &Cluster) -> Result<()> {
    mysql_async(cluster, true)
}

fn mysql_async(cluster: &Cluster, prepared: bool) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let schema = cluster.schema()?;
    let proxy = Proxy::start(cluster)?;
    let mut outputs = Vec::new();
    for address in [&cluster.addresses[0], &proxy.address] {
        let (host, port) = address.split_once(':').context("address")?;
        let admin = cluster.admin();
        let options = OptsBuilder::default()
            .ip_or_hostname(host)
            .tcp_port(port.parse()?)
            .user(Some(admin.user))
            .pass(Some(admin.password))
            .db_name(Some(&schema.name))
            // on a loopback address it would read @@socket and go round the proxy
            .prefer_socket(false);
        let talk =
            async { tokio::time::timeout(wait::LIMIT, rust_session(options, prepared)).await? };
        outputs.push(runtime.block_on(talk)?);
        schema.clear()?;
    }
    compare(&outputs[0], &outputs[1], false)
}

/// All that mysql_async tells about each statement.
async fn rust_session(options: OptsBuilder, prepared: bool) -> Result<String> {
    let mut connection = mysql_async::Conn::new(options).await?;
    let mut out = String::new();
    let script = tokio::fs::read_to_string(session()).await?;
    for sql in script.split(";\n").map(str::trim).filter(|sql| !sql.is_empty()) {
        writeln!(out, "{sql}")?;
        if prepared {
            let answer = connection.exec_iter(sql, Params::Empty).await;
            show(answer, &mut out).await?;
        } else {
            show(connection.query_iter(sql).await, &mut out).await?;
        }
    }
    // values of many types, which only the binary protocol sends as such
    let sql = "SELECT ?, ?, ?, ? + 0, NULL, CAST(? AS DATETIME(6)), CAST(? AS TIME(3))";
    let values = (-5i64, u64::MAX, "text é", 1.5f64, "2024-02-29 10:11:12.345678", "-12:34:56.789");
    show(connection.exec_iter(sql, values).await, &mut out).await?;
    connection.disconnect().await?;
    Ok(out)
}

async fn show<P: mysql_async::prelude::Protocol>(
    answer: mysql_async::Result<mysql_async::QueryResult<'_, '_, P>>,
    out: &mut String,
) -> Result<()> {
    let mut result = match answer {
        Ok(result) => result,
        Err(error) => return Ok(writeln!(out, "  {error}")?),
    };
    while !result.is_empty() {
        let columns: Vec<(String, ColumnType, u16)> = result
            .columns_ref()
            .iter()
            .map(|c| (c.name_str().into_owned(), c.column_type(), c.flags().bits()))
            .collect();
        writeln!(out, "  columns {columns:?}")?;
        let rows: Vec<Row> = result.collect().await?;
        for row in rows {
            writeln!(out, "  row {:?}", row.unwrap_raw())?;
        }
        writeln!(out, "  warnings {} info {:?}", result.warnings(), result.info())?;
    }
    writeln!(out, "  affected {} id {:?}", result.affected_rows(), result.last_insert_id())?;
    Ok(())
}
