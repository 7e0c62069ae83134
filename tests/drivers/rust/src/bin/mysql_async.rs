//! A session by mysql_async; prints all that it tells.

use anyhow::Result;
use futures_util::{StreamExt, stream};
use mysql_async::{
    ChangeUserOpts, Compression, Conn, Error, IsolationLevel, Opts, OptsBuilder, Params, Row,
    SslOpts, TxOpts,
    prelude::{Protocol, Queryable},
};
use rust_drivers::{FILLED, Given, NUMBERS, PROCEDURE, digest, short};
use std::path::PathBuf;

fn options(given: &Given) -> Result<Opts> {
    let rows = PathBuf::from(given.get("rows"));
    let handler = move |_name: &[u8]| {
        let rows = rows.clone();
        let read = async move {
            let bytes = tokio::fs::read(rows).await?;
            let parts: Vec<_> = bytes.chunks(10).map(|part| Ok(part.to_vec().into())).collect();
            Ok(Box::pin(stream::iter(parts)) as mysql_async::InfileData)
        };
        Box::pin(read) as futures_util::future::BoxFuture<'static, _>
    };
    let mut options = OptsBuilder::default()
        .ip_or_hostname(given.get("host"))
        .tcp_port(given.get("port").parse()?)
        .user(Some(given.get("user")))
        .pass(Some(given.get("password")))
        .db_name(Some(given.get("schema")))
        // on a loopback address it would read @@socket and go round the proxy
        .prefer_socket(false)
        .enable_cleartext_plugin(given.get("cleartext") == "on")
        .stmt_cache_size(4)
        .local_infile_handler(Some(handler));
    if given.get("tls") == "on" {
        let ca = PathBuf::from(given.get("ca"));
        let tls = SslOpts::default().with_root_certs(vec![ca.into()]);
        options = options.ssl_opts(Some(tls.with_danger_accept_invalid_certs(true)));
    }
    if given.get("compress") == "zlib" {
        options = options.compression(Some(Compression::fast()));
    }
    Ok(options.into())
}

async fn show<P: Protocol>(answer: mysql_async::Result<mysql_async::QueryResult<'_, '_, P>>) {
    let mut result = match answer {
        Ok(result) => result,
        Err(error) => return failure(&error),
    };
    loop {
        for c in result.columns_ref() {
            let (length, set) = (c.column_length(), c.character_set());
            let names = (c.name_str(), c.org_name_str(), c.table_str(), c.org_table_str());
            println!("  column {names:?} {:?} {:?} {length} {set}", c.column_type(), c.flags());
        }
        let rows: Vec<Row> = match result.collect().await {
            Ok(rows) => rows,
            Err(error) => return failure(&error),
        };
        for row in rows {
            println!("  row {}", short(&row.unwrap_raw()));
        }
        println!("  affected {} id {:?}", result.affected_rows(), result.last_insert_id());
        println!("  warnings {} info {:?}", result.warnings(), result.info());
        if result.is_empty() {
            return;
        }
    }
}

fn failure(error: &Error) {
    println!("  {error}");
}

async fn query(connection: &mut Conn, sql: &str) {
    println!("{sql}");
    show(connection.query_iter(sql).await).await;
}

async fn execute(connection: &mut Conn, sql: &str, values: impl Into<Params> + Send) {
    println!("{sql}");
    let values: Params = values.into();
    show(connection.exec_iter(sql, values).await).await;
}

async fn values(connection: &mut Conn) -> Result<()> {
    query(connection, "DROP TABLE IF EXISTS filled").await;
    query(connection, FILLED).await;
    let insert = "INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?)";
    let bytes: Vec<u8> = (0..=255).collect();
    let full = (1, u64::MAX, 1.5e300, "täxt 😀 ' \" \\ \0 ?", bytes, true);
    let nothing = (3, None::<u64>, None::<f64>, None::<&str>, None::<Vec<u8>>, None::<bool>);
    execute(connection, insert, full.clone()).await;
    execute(connection, insert, (2, 0, -0.5, "", Vec::<u8>::new(), false)).await;
    execute(connection, insert, nothing).await;
    execute(connection, insert, full).await;
    let rows = (100..200).map(|n| (n, n, f64::from(n), format!("text é {n}"), vec![1_u8; 9], true));
    connection.exec_batch(insert, rows).await?;
    execute(connection, "SELECT * FROM filled WHERE id >= ? AND id < ? ORDER BY id", (1, 110))
        .await;
    // values of many types, which only the binary protocol sends as such
    let sql = "SELECT ?, ?, ?, ? + 0, NULL, CAST(? AS DATETIME(6)), CAST(? AS TIME(3))";
    let values = (-5i64, u64::MAX, "text é", 1.5f64, "2024-02-29 10:11:12.345678", "-12:34:56.789");
    execute(connection, sql, values).await;
    Ok(())
}

async fn transactions(connection: &mut Conn) -> Result<()> {
    let mut options = TxOpts::default();
    options.with_consistent_snapshot(true).with_isolation_level(IsolationLevel::ReadCommitted);
    let mut transaction = connection.start_transaction(options).await?;
    transaction.query_drop("DELETE FROM filled").await?;
    println!("  deleted {}", transaction.affected_rows());
    transaction.rollback().await?;
    let mut transaction = connection.start_transaction(TxOpts::default()).await?;
    transaction.query_drop("DELETE FROM filled WHERE id >= 100").await?;
    transaction.commit().await?;
    query(connection, "SELECT COUNT(*) FROM filled").await;
    Ok(())
}

async fn several(connection: &mut Conn) {
    query(connection, "DROP PROCEDURE IF EXISTS two_results").await;
    query(connection, PROCEDURE).await;
    query(connection, "CALL two_results(20, @b)").await;
    execute(connection, "CALL two_results(?, @b)", (30,)).await;
    query(connection, "SELECT @b").await;
    query(connection, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3").await;
    query(connection, "SELECT 1; SELEC; SELECT 2").await;
    query(connection, "SELECT 'after'").await;
}

async fn upload(connection: &mut Conn) {
    query(connection, "DROP TABLE IF EXISTS uploaded").await;
    let table = "CREATE TABLE uploaded (id INT PRIMARY KEY, t VARCHAR(20)) CHARACTER SET utf8mb4";
    query(connection, table).await;
    for _ in 0..2 {
        let sql = "LOAD DATA LOCAL INFILE 'rows' INTO TABLE uploaded CHARACTER SET utf8mb4 \
                   FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'";
        query(connection, sql).await;
        query(connection, "SHOW WARNINGS").await;
    }
    query(connection, "SELECT * FROM uploaded ORDER BY id").await;
}

async fn streaming(connection: &mut Conn) -> Result<()> {
    let mut total = 0;
    let mut rows = connection.query_stream::<(usize, String), _>(NUMBERS).await?;
    while let Some(row) = rows.next().await {
        let (i, s) = row?;
        total += i + s.len();
    }
    drop(rows);
    println!("  streamed {total}");
    let first: Option<(usize, String)> = connection.exec_first(NUMBERS, ()).await?;
    println!("  first {first:?}");
    Ok(())
}

async fn big(connection: &mut Conn, given: &Given) -> Result<()> {
    let value = given.big_value()?;
    println!("  sent {}", digest(value.as_bytes()));
    let back: Option<Vec<u8>> = connection.query_first(format!("SELECT '{value}'")).await?;
    println!("  text {}", digest(&back.unwrap_or_default()));
    let back: Option<Vec<u8>> = connection.exec_first("SELECT ?", (value,)).await?;
    println!("  prepared {}", digest(&back.unwrap_or_default()));
    Ok(())
}

async fn more(connection: &mut Conn, given: &Given) -> Result<()> {
    println!("  server {:?}", connection.server_version());
    connection.ping().await?;
    query(connection, "SET @kept = 1").await;
    println!("  reset {}", connection.reset().await?);
    query(connection, "SELECT @kept, DATABASE()").await;
    query(connection, "SET @kept = 1").await;
    let user = ChangeUserOpts::new().with_user(Some(given.get("user").to_owned()));
    let user = user.with_pass(Some(given.get("password").to_owned()));
    connection.change_user(user.with_db_name(Some(given.get("schema").to_owned()))).await?;
    query(connection, "SELECT @kept, DATABASE()").await;
    let statement = connection.prep("SELECT ? + ?").await?;
    println!("  prepared {:?} {:?}", statement.num_params(), statement.num_columns());
    connection.close(statement).await?;
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let given = Given::new();
    let mut connection = Conn::new(options(&given)?).await?;
    if given.get("steps") == "login" {
        query(&mut connection, "SELECT CURRENT_USER(), DATABASE()").await;
        return Ok(connection.disconnect().await?);
    }
    println!("---- script");
    for sql in given.statements(&[])? {
        query(&mut connection, &sql).await;
    }
    connection.disconnect().await?;
    let mut connection = Conn::new(options(&given)?).await?;
    println!("---- script, prepared");
    for sql in given.statements(&[])? {
        execute(&mut connection, &sql, ()).await;
    }
    connection.disconnect().await?;
    let mut connection = Conn::new(options(&given)?).await?;
    println!("---- values");
    values(&mut connection).await?;
    println!("---- transactions");
    transactions(&mut connection).await?;
    println!("---- several");
    several(&mut connection).await;
    println!("---- upload");
    upload(&mut connection).await;
    println!("---- streaming");
    streaming(&mut connection).await?;
    println!("---- big");
    big(&mut connection, &given).await?;
    println!("---- more");
    more(&mut connection, &given).await?;
    connection.disconnect().await?;
    println!("---- refused");
    for wrong in [given.with("password", "wrong"), given.with("schema", "no_such_schema")] {
        match Conn::new(options(&wrong)?).await {
            Ok(_) => println!("  let in"),
            Err(error) => failure(&error),
        }
    }
    Ok(())
}
