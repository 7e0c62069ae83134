//! A session by diesel; prints all that it tells. It prepares whatever returns rows.

use anyhow::Result;
use diesel::{
    connection::SimpleConnection,
    deserialize::{self, QueryableByName},
    mysql::{Mysql, MysqlConnection},
    prelude::*,
    result::Error,
    row::{Field, NamedRow, Row},
    sql_query,
};
use rust_drivers::{FILLED, Given, NUMBERS, digest, returns_rows, short};

diesel::table! {
    filled (id) {
        id -> Integer,
        big -> Nullable<Unsigned<BigInt>>,
        f -> Nullable<Double>,
        t -> Nullable<Text>,
        raw -> Nullable<Blob>,
        yes -> Nullable<Bool>,
    }
}

#[derive(Debug, Clone, Insertable, Queryable)]
#[diesel(table_name = filled)]
struct Filled {
    id: i32,
    big: Option<u64>,
    f: Option<f64>,
    t: Option<String>,
    raw: Option<Vec<u8>>,
    yes: Option<bool>,
}

/// A row of any result: names and bytes as they came.
struct Any(Vec<(String, Option<Vec<u8>>)>);

impl QueryableByName<Mysql> for Any {
    fn build<'a>(row: &impl NamedRow<'a, Mysql>) -> deserialize::Result<Self> {
        let field = |n| {
            let field = Row::get(row, n)?;
            let name = field.field_name().unwrap_or_default().to_owned();
            Some((name, field.value().map(|value| value.as_bytes().to_vec())))
        };
        Ok(Self((0..row.field_count()).filter_map(field).collect()))
    }
}

fn connect(given: &Given) -> ConnectionResult<MysqlConnection> {
    let [host, port, user, password, schema] =
        ["host", "port", "user", "password", "schema"].map(|name| given.get(name));
    let mut url = format!("mysql://{user}:{password}@{host}:{port}/{schema}");
    if given.get("tls") == "on" {
        url += &format!("?ssl_mode=REQUIRED&ssl_ca={}", given.get("ca"));
    }
    MysqlConnection::establish(&url)
}

fn run(connection: &mut MysqlConnection, sql: &str) {
    println!("{sql}");
    if !returns_rows(sql) {
        return match sql_query(sql).execute(connection) {
            Ok(affected) => println!("  affected {affected}"),
            Err(error) => failure(&error),
        };
    }
    match sql_query(sql).load::<Any>(connection) {
        Ok(rows) => rows.iter().for_each(|row| println!("  row {}", short(&row.0))),
        Err(error) => failure(&error),
    }
}

fn failure(error: &Error) {
    match error {
        Error::DatabaseError(kind, own) => {
            println!("  error {kind:?} {} {:?}", own.message(), own.constraint_name());
        }
        other => println!("  error {other}"),
    }
}

fn values(connection: &mut MysqlConnection) -> Result<()> {
    run(connection, "DROP TABLE IF EXISTS filled");
    run(connection, FILLED);
    let full = Filled {
        id: 1,
        big: Some(u64::MAX),
        f: Some(1.5e300),
        t: Some("täxt 😀 ' \" \\ \0 ?".to_owned()),
        raw: Some((0..=255).collect()),
        yes: Some(true),
    };
    let nothing = Filled { id: 3, big: None, f: None, t: None, raw: None, yes: None };
    let small = Filled { id: 2, t: Some(String::new()), raw: Some(vec![]), ..full.clone() };
    for row in [&full, &small, &nothing, &full] {
        let inserted = diesel::insert_into(filled::table)
            .values((
                filled::id.eq(row.id),
                filled::big.eq(row.big),
                filled::f.eq(row.f),
                filled::t.eq(row.t.as_deref()),
                filled::raw.eq(row.raw.as_deref()),
                filled::yes.eq(row.yes),
            ))
            .execute(connection);
        match inserted {
            Ok(affected) => println!("  inserted {affected}"),
            Err(error) => failure(&error),
        }
    }
    let many: Vec<_> = (100..300).map(|id| Filled { id, ..full.clone() }).collect();
    println!("  {}", diesel::insert_into(filled::table).values(&many).execute(connection)?);
    for limit in [3, 250] {
        let rows: Vec<Filled> =
            filled::table.filter(filled::id.le(limit)).order(filled::id).load(connection)?;
        println!("  rows {} {}", rows.len(), short(&rows));
    }
    let changed = diesel::update(filled::table.filter(filled::id.gt(200))).set(filled::f.eq(2.5));
    println!("  changed {}", changed.execute(connection)?);
    Ok(())
}

fn transactions(connection: &mut MysqlConnection) -> Result<()> {
    let failed = connection.transaction::<(), Error, _>(|connection| {
        diesel::delete(filled::table).execute(connection)?;
        let inner = connection.transaction(|connection| {
            diesel::delete(filled::table).execute(connection)?;
            Err::<(), _>(Error::RollbackTransaction)
        });
        println!("  inner {inner:?}");
        Err(Error::RollbackTransaction)
    });
    println!("  outer {failed:?}");
    connection.transaction::<_, Error, _>(|connection| {
        diesel::delete(filled::table.find(3)).execute(connection)
    })?;
    println!("  left {}", filled::table.count().get_result::<i64>(connection)?);
    Ok(())
}

fn several(connection: &mut MysqlConnection) -> Result<()> {
    connection.batch_execute("SET @a = 1; SELECT 1 AS a; DO 1; SET @a = @a + 1")?;
    run(connection, "SELECT @a");
    if let Err(error) = connection.batch_execute("SET @a = 5; SELEC; SET @a = 6") {
        failure(&error);
    }
    run(connection, "SELECT @a");
    Ok(())
}

fn streaming(connection: &mut MysqlConnection) -> Result<()> {
    let rows = sql_query(NUMBERS).load::<Any>(connection)?;
    let total: usize = rows.iter().map(|row| row.0[1].1.as_ref().map_or(0, Vec::len)).sum();
    println!("  streamed {} {total}", rows.len());
    Ok(())
}

fn big(connection: &mut MysqlConnection, given: &Given) -> Result<()> {
    let value = given.big_value()?;
    println!("  sent {}", digest(value.as_bytes()));
    let echo = diesel::select(
        diesel::dsl::sql::<diesel::sql_types::Text>("").bind::<diesel::sql_types::Text, _>(value),
    );
    let back: String = echo.get_result(connection)?;
    println!("  back {}", digest(back.as_bytes()));
    Ok(())
}

fn main() -> Result<()> {
    let given = Given::new();
    let mut connection = connect(&given)?;
    if given.get("steps") == "login" {
        run(&mut connection, "SELECT CURRENT_USER(), DATABASE()");
        return Ok(());
    }
    // it panics at geometry and vectors
    let unreadable = &["SELECT * FROM places", "SELECT * FROM vendor", "TABLE vendor"];
    println!("---- script");
    for sql in given.statements(unreadable)? {
        run(&mut connection, &sql);
    }
    let mut connection = connect(&given)?;
    println!("---- values");
    values(&mut connection)?;
    println!("---- transactions");
    transactions(&mut connection)?;
    println!("---- several");
    several(&mut connection)?;
    println!("---- streaming");
    streaming(&mut connection)?;
    println!("---- big");
    big(&mut connection, &given)?;
    println!("---- refused");
    for wrong in [given.with("password", "wrong"), given.with("schema", "no_such_schema")] {
        match connect(&wrong) {
            Ok(_) => println!("  let in"),
            Err(error) => println!("  error {error}"),
        }
    }
    Ok(())
}
