//! A session by sqlx; prints all that it tells.

use anyhow::Result;
use futures_util::{Stream, StreamExt};
use rust_drivers::{FILLED, Given, NUMBERS, PROCEDURE, digest, short};
use sqlx::{
    Column, Connection, Either, Executor, Row, TypeInfo,
    mysql::{MySqlConnectOptions, MySqlConnection, MySqlQueryResult, MySqlRow, MySqlSslMode},
};
use std::pin::Pin;

async fn connect(given: &Given) -> Result<MySqlConnection, sqlx::Error> {
    let mut options = MySqlConnectOptions::new()
        .host(given.get("host"))
        .port(given.get("port").parse().unwrap_or_default())
        .username(given.get("user"))
        .database(given.get("schema"))
        .enable_cleartext_plugin(given.get("cleartext") == "on")
        .statement_cache_capacity(4);
    // it makes a scramble of an empty password too
    if !given.get("password").is_empty() {
        options = options.password(given.get("password"));
    }
    options = if given.get("tls") == "on" {
        options.ssl_mode(MySqlSslMode::Required)
    } else {
        options.ssl_mode(MySqlSslMode::Disabled)
    };
    MySqlConnection::connect_with(&options).await
}

type Answers<'a> = Pin<
    Box<dyn Stream<Item = Result<Either<MySqlQueryResult, MySqlRow>, sqlx::Error>> + Send + 'a>,
>;

async fn show(mut answers: Answers<'_>) {
    let mut columns = false;
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(Either::Left(done)) => {
                columns = false;
                println!("  affected {} id {}", done.rows_affected(), done.last_insert_id());
            }
            Ok(Either::Right(row)) => {
                if !std::mem::replace(&mut columns, true) {
                    let one = |c: &sqlx::mysql::MySqlColumn| {
                        format!("{} {}", c.name(), c.type_info().name())
                    };
                    println!("  columns {:?}", row.columns().iter().map(one).collect::<Vec<_>>());
                }
                // as they came, whatever the type
                let value = |n| row.try_get_unchecked::<Option<Vec<u8>>, usize>(n);
                let values: Vec<_> = (0..row.len()).map(value).map(|v| short(&v)).collect();
                println!("  row {}", values.join(", "));
            }
            Err(error) => failure(&error),
        }
    }
}

fn failure(error: &sqlx::Error) {
    match error.as_database_error() {
        Some(own) => println!("  error {:?} {:?} {}", own.code(), own.kind(), own.message()),
        None => println!("  error {error}"),
    }
}

async fn query(connection: &mut MySqlConnection, sql: &str) {
    println!("{sql}");
    show(connection.fetch_many(sqlx::raw_sql(sql))).await;
}

async fn prepared(connection: &mut MySqlConnection, sql: &str) {
    println!("{sql}");
    show(connection.fetch_many(sqlx::query(sql))).await;
}

async fn values(connection: &mut MySqlConnection) {
    query(connection, "DROP TABLE IF EXISTS filled").await;
    query(connection, FILLED).await;
    let bytes: Vec<u8> = (0..=255).collect();
    for id in [1, 2, 1] {
        let insert = sqlx::query("INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?)");
        let insert = insert.bind(id).bind(u64::MAX).bind(1.5e300).bind("täxt 😀 ' \" \\ \0 ?");
        show(connection.fetch_many(insert.bind(&bytes).bind(true))).await;
    }
    let insert = sqlx::query("INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?)");
    let insert = insert.bind(3).bind(None::<u64>).bind(None::<f64>).bind(None::<String>);
    show(connection.fetch_many(insert.bind(None::<Vec<u8>>).bind(None::<bool>))).await;
    let select =
        sqlx::query("SELECT * FROM filled WHERE id >= ? AND (t IS NULL OR t <> ?) ORDER BY id");
    show(connection.fetch_many(select.bind(1).bind("nothing"))).await;
    let typed: Result<
        Vec<(i32, Option<u64>, Option<f64>, Option<String>, Option<Vec<u8>>, Option<bool>)>,
        _,
    > = sqlx::query_as("SELECT * FROM filled ORDER BY id").fetch_all(&mut *connection).await;
    println!("  typed {}", short(&typed));
    let described = connection.describe("SELECT id, big AS b, ? AS p FROM filled").await;
    let described = described.map(|d| (format!("{:?}", d.parameters()), d.columns().len()));
    println!("  described {described:?}");
}

async fn transactions(connection: &mut MySqlConnection) -> Result<()> {
    let mut outer = connection.begin().await?;
    query(&mut outer, "DELETE FROM filled WHERE id = 3").await;
    let mut inner = outer.begin().await?;
    query(&mut inner, "DELETE FROM filled").await;
    inner.rollback().await?;
    outer.commit().await?;
    let mut dropped = connection.begin().await?;
    query(&mut dropped, "DELETE FROM filled").await;
    drop(dropped);
    query(connection, "SELECT COUNT(*) FROM filled").await;
    Ok(())
}

async fn several(connection: &mut MySqlConnection) {
    query(connection, "DROP PROCEDURE IF EXISTS two_results").await;
    query(connection, PROCEDURE).await;
    query(connection, "CALL two_results(20, @b)").await;
    prepared(connection, "CALL two_results(30, @b)").await;
    query(connection, "SELECT @b").await;
    query(connection, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3").await;
    query(connection, "SELECT 1; SELEC; SELECT 2").await;
    query(connection, "SELECT 'after'").await;
}

async fn streaming(connection: &mut MySqlConnection) -> Result<()> {
    let mut total = 0;
    let mut rows = connection.fetch(sqlx::query(NUMBERS));
    while let Some(row) = rows.next().await {
        total += row?.try_get_unchecked::<Vec<u8>, usize>(1)?.len();
    }
    drop(rows);
    println!("  streamed {total}");
    // the rest stays on the wire until the next statement
    let first = connection.fetch(sqlx::query(NUMBERS)).next().await.is_some();
    println!("  first {first}");
    query(connection, "SELECT 'after'").await;
    Ok(())
}

async fn big(connection: &mut MySqlConnection, given: &Given) -> Result<()> {
    let value = given.big_value()?;
    println!("  sent {}", digest(value.as_bytes()));
    let row = connection.fetch_one(sqlx::raw_sql(&format!("SELECT '{value}'"))).await?;
    println!("  text {}", digest(&row.try_get_unchecked::<Vec<u8>, usize>(0)?));
    let row = connection.fetch_one(sqlx::query("SELECT ?").bind(&value)).await?;
    println!("  prepared {}", digest(&row.try_get_unchecked::<Vec<u8>, usize>(0)?));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let given = Given::new();
    let mut connection = connect(&given).await?;
    if given.get("steps") == "login" {
        query(&mut connection, "SELECT CURRENT_USER(), DATABASE()").await;
        return Ok(connection.close().await?);
    }
    // after these it waits for ever
    let unreadable: &[&str] = if given.get("vendor") == "mysql" {
        &["SELECT * FROM vendor", "TABLE vendor"]
    } else {
        &[]
    };
    println!("---- script");
    for sql in given.statements(unreadable)? {
        query(&mut connection, &sql).await;
    }
    connection.close().await?;
    let mut connection = connect(&given).await?;
    println!("---- script, prepared");
    for sql in given.statements(unreadable)? {
        prepared(&mut connection, &sql).await;
    }
    connection.close().await?;
    let mut connection = connect(&given).await?;
    println!("---- values");
    values(&mut connection).await;
    println!("---- transactions");
    transactions(&mut connection).await?;
    println!("---- several");
    several(&mut connection).await;
    println!("---- streaming");
    streaming(&mut connection).await?;
    println!("---- big");
    big(&mut connection, &given).await?;
    connection.ping().await?;
    connection.close().await?;
    println!("---- refused");
    for wrong in [given.with("password", "wrong"), given.with("schema", "no_such_schema")] {
        match connect(&wrong).await {
            Ok(_) => println!("  let in"),
            Err(error) => failure(&error),
        }
    }
    Ok(())
}
