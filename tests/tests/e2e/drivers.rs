//! Sessions by the drivers that people use: the same transcript as directly.
//!
//! Each driver has a program in `tests/drivers`, in its own language, that goes through the same
//! steps and prints all that the driver tells it.

mod bed;
mod binlog;
mod command_lines;
mod dump;
mod languages;
mod logins;
mod plugins;

use anyhow::Result;
use bed::{Bed, Case};
use e2e::{Cluster, Scale, skip};
use languages::Driver;

on_both_vendors!(
    pymysql,
    mysqlclient,
    connector_python,
    asyncmy,
    node_mysql2,
    node_mariadb,
    php_mysqli,
    php_pdo,
    perl_dbd_mysql,
    perl_dbd_mariadb,
    go,
    mysql_async,
    sqlx,
    diesel,
    values_of_64_mib,
    compressed_values_of_two_packets,
);

/// A value that takes two packets.
const TWO_PACKETS: usize = 17 << 20;

/// What compression has to be tried with; more would be its own speed only.
const COMPRESSED: usize = 1 << 20;

/// Runs the whole session of `driver` directly and through the proxy.
fn session(cluster: &Cluster, driver: &Driver) -> Result<()> {
    let Some(program) = driver.program() else {
        skip::report(&format!("{} is not installed", driver.name));
        return Ok(());
    };
    let (fast, full) = (Scale::of_this_run() == Scale::Fast, Scale::of_this_run() == Scale::Full);
    let bed = Bed::with(cluster, "")?;
    let mut cases = vec![Case { tls: false, compress: "none" }];
    cases.extend(full.then_some(Case { tls: true, compress: "none" }));
    for compress in driver.compression {
        cases.extend(full.then_some(Case { tls: false, compress }));
        cases.push(Case { tls: true, compress });
    }
    if driver.compression.is_empty() {
        cases.push(Case { tls: true, compress: "none" });
    }
    for case in cases {
        let big = match case.compress {
            _ if fast => 100_000,
            "none" if full => 64 << 20,
            "none" => TWO_PACKETS,
            _ => COMPRESSED,
        };
        bed.same(&case, |to| to.run(&program, big, "all"))?;
    }
    Ok(())
}

/// The protocol's two ways of sending and of receiving a value that is as large as the usual
/// limit: as text, as a parameter, and in pieces ahead of the execution.
fn values_of_64_mib(cluster: &Cluster) -> Result<()> {
    let driver = &languages::PHP_MYSQLI;
    let Some(program) = driver.program() else {
        skip::report(&format!("{} is not installed", driver.name));
        return Ok(());
    };
    if !Scale::is_for_load() {
        return Ok(());
    }
    let bed = Bed::new(cluster)?;
    bed.same(&Case { tls: false, compress: "none" }, |to| to.run(&program, 64 << 20, "big"))
}

/// Drivers that take frames only as servers cut them.
fn compressed_values_of_two_packets(cluster: &Cluster) -> Result<()> {
    if !Scale::is_for_load() {
        return Ok(());
    }
    let bed = Bed::new(cluster)?;
    for driver in [&languages::CONNECTOR_PYTHON, &languages::MYSQL_ASYNC] {
        let Some(program) = driver.program() else {
            skip::report(&format!("{} is not installed", driver.name));
            continue;
        };
        let case = Case { tls: false, compress: "zlib" };
        bed.same(&case, |to| to.run(&program, TWO_PACKETS, "all"))?;
    }
    Ok(())
}

macro_rules! sessions {
    ($($test:ident = $driver:ident;)*) => {
        $(fn $test(cluster: &Cluster) -> Result<()> {
            session(cluster, &languages::$driver)
        })*
    };
}

sessions! {
    pymysql = PYMYSQL;
    mysqlclient = MYSQLCLIENT;
    connector_python = CONNECTOR_PYTHON;
    asyncmy = ASYNCMY;
    node_mysql2 = NODE_MYSQL2;
    node_mariadb = NODE_MARIADB;
    php_mysqli = PHP_MYSQLI;
    php_pdo = PHP_PDO;
    perl_dbd_mysql = PERL_DBD_MYSQL;
    perl_dbd_mariadb = PERL_DBD_MARIADB;
    go = GO;
    mysql_async = MYSQL_ASYNC;
    sqlx = SQLX;
    diesel = DIESEL;
}
