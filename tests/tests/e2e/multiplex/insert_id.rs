//! LAST_INSERT_ID() says what it would say on a connection of the session's own, also where the OK
//! packet has said something else.

use super::{login, same, start, start_with, value};
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, cluster::Schema, wait};
use wire::CommandCode;

on_both_vendors!(
    as_on_a_connection_of_its_own,
    of_a_prepared_statement,
    told_before_the_connection_is_reset,
    asked_for_by_the_session_on_another_connection,
    lost_with_its_connection,
    asked_by_what_nobody_has_read,
    a_trigger_sees_the_sessions_own,
    counts_beside_it,
    diagnostics_beside_it,
    the_last_gtid,
);

const TABLES: [&str; 3] = [
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT UNIQUE, b INT)",
    "CREATE TABLE n (a INT PRIMARY KEY)",
    "INSERT INTO n VALUES (1), (2)",
];

/// Statements that an OK packet tells the truth about, and statements that it does not.
const SCRIPT: [&str; 20] = [
    "INSERT INTO t (a) VALUES (1)",
    "INSERT INTO t (id, a) VALUES (50, 2)",
    "INSERT INTO n VALUES (3)",
    "INSERT INTO t (a) VALUES (3), (4)",
    "INSERT INTO t (a) VALUES (5), (1)",
    "INSERT IGNORE INTO t (a) VALUES (6), (1)",
    "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE b = 6",
    "INSERT INTO t (id, a) VALUES (90, 1) ON DUPLICATE KEY UPDATE b = 7",
    "SET last_insert_id = 77",
    "SET @@identity = 78",
    "SELECT LAST_INSERT_ID(79)",
    "UPDATE t SET b = LAST_INSERT_ID(80) WHERE a = 1",
    "UPDATE t SET b = 9 WHERE a = 1",
    "PREPARE p FROM 'INSERT INTO t (a) VALUES (?)'",
    "SET @v = 31",
    "EXECUTE p USING @v",
    "PREPARE p FROM 'SELECT LAST_INSERT_ID(81)'",
    "EXECUTE p",
    "INSERT INTO t (a) SELECT a + 1000 FROM n",
    "DELETE FROM n",
];

struct Pair {
    proxy: Proxy,
    one: Client,
    other: Client,
    schema: Schema,
}

impl Pair {
    fn new(cluster: &Cluster, connections: u32) -> Result<Self> {
        let schema = cluster.schema()?;
        let proxy = start(cluster, connections)?;
        let login = login(cluster, &schema.name);
        let (mut one, other) = (proxy.connect(&login)?, proxy.connect(&login)?);
        TABLES.iter().try_for_each(|sql| one.must(sql))?;
        Ok(Self { proxy, one, other, schema })
    }
}

/// What the session has done last has no end of its own for its connection to wait for.
fn takes_over(client: &mut Client) -> Result<()> {
    client.must("SELECT COUNT(*) FROM information_schema.SCHEMATA")
}

/// The same script directly, and then with somebody else in between.
fn as_on_a_connection_of_its_own(cluster: &Cluster) -> Result<()> {
    let schema = cluster.schema()?;
    let mut direct = Client::connect(&cluster.addresses[0], &login(cluster, &schema.name))?;
    TABLES.iter().try_for_each(|sql| direct.must(sql))?;
    let expected = SCRIPT.map(|sql| {
        let error = direct.query(sql).ok().and_then(|reply| reply.error_code());
        (error, value(&mut direct, "SELECT LAST_INSERT_ID()"))
    });
    drop(schema);
    let mut pair = Pair::new(cluster, 1)?;
    let Pair { one, other, .. } = &mut pair;
    for (sql, (error, id)) in SCRIPT.iter().zip(expected) {
        let reply = one.query(sql)?;
        ensure!(reply.error_code() == error, "{sql}: {:?}", reply.error());
        if error.is_some() || sql.contains("IGNORE") {
            // Errors and warnings keep the connection.
            takes_over(one)?;
        }
        let id = id?.context("an id")?;
        for ask in ["SELECT LAST_INSERT_ID()", "SELECT @@last_insert_id", "SELECT @@identity"] {
            // The other's is another one.
            other.must("SELECT LAST_INSERT_ID(123456)")?;
            let found = value(one, ask)?;
            ensure!(found.as_ref() == Some(&id), "{ask} behind {sql}: {found:?}, not {id}");
        }
        same(other, "SELECT LAST_INSERT_ID()", "123456")?;
    }
    Ok(())
}

/// What asks for the error before it is not preceded by a question of the proxy's.
fn diagnostics_beside_it(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 1)?;
    let Pair { one, other, .. } = &mut pair;
    one.must("INSERT INTO t (a) VALUES (1)")?;
    same(other, "SELECT LAST_INSERT_ID()", "0")?;
    // The connection has been given the session's id.
    same(one, "SELECT LAST_INSERT_ID()", "1")?;
    ensure!(other.query("SELECT * FROM nosuch")?.error_code() == Some(1146));
    other.must("GET DIAGNOSTICS @count = NUMBER")?;
    other.must("GET DIAGNOSTICS CONDITION 1 @code = MYSQL_ERRNO")?;
    same(other, "SELECT CONCAT(@count, ' ', @code)", "1 1146")
}

fn of_a_prepared_statement(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 1)?;
    let Pair { one, other, .. } = &mut pair;
    let generated = one.prepare("INSERT INTO t (a) VALUES (?)")?;
    let given = one.prepare("INSERT INTO t (id, a) VALUES (?, 400)")?;
    let sets = one.prepare("SELECT LAST_INSERT_ID(?)")?;
    let ask = one.prepare("SELECT LAST_INSERT_ID()")?;
    for (statement, argument, expected) in
        [(&generated, "7", 1_u64), (&given, "500", 1), (&generated, "8", 501), (&sets, "66", 66)]
    {
        let reply = one.execute(statement, 0, &[Some(argument.as_bytes())])?;
        ensure!(reply.error().is_none(), "{:?}", reply.error());
        other.must("SELECT LAST_INSERT_ID(123456)")?;
        let reply = one.execute(&ask, 0, &[])?;
        // One row of one BIGINT.
        let found = reply.raw.windows(8).any(|bytes| bytes == expected.to_le_bytes());
        ensure!(found, "{expected} behind {argument}: {:?}", reply.raw);
        other.must("SELECT LAST_INSERT_ID(123456)")?;
        same(one, "SELECT LAST_INSERT_ID()", &expected.to_string())?;
    }
    Ok(())
}

/// Somebody with another account needs the place.
fn told_before_the_connection_is_reset(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 1)?;
    let Pair { proxy, one, schema, .. } = &mut pair;
    let login = login(cluster, &schema.name).with(wire::Capabilities::FOUND_ROWS);
    let mut stranger = proxy.connect(&login)?;
    for turn in 1..4 {
        one.must(&format!("INSERT INTO t (id, a) VALUES ({}, {turn})", 1000 * turn))?;
        let before = value(one, "SELECT LAST_INSERT_ID()")?;
        one.must(&format!("INSERT INTO t (a) VALUES ({})", 100 + turn))?;
        stranger.must("SELECT LAST_INSERT_ID(123456)")?;
        let id = value(one, "SELECT LAST_INSERT_ID()")?;
        let expected = 1000 * turn + 1;
        ensure!(id == Some(expected.to_string()), "{before:?}, then {id:?}");
        one.must(&format!("INSERT INTO t (id, a) VALUES ({}, {})", 1000 * turn + 10, 200 + turn))?;
        stranger.must("SELECT LAST_INSERT_ID(123456)")?;
        same(one, "SELECT LAST_INSERT_ID()", &expected.to_string())?;
    }
    Ok(())
}

/// The connection that knows is in the pool, or somebody has it.
fn asked_for_by_the_session_on_another_connection(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 2)?;
    let Pair { one, other, .. } = &mut pair;
    for turn in 0..3 {
        one.must(&format!("INSERT INTO t (a) VALUES ({turn})"))?;
        let direct = value(one, "SELECT MAX(id) FROM t")?;
        let id = 100 * (turn + 1);
        one.must(&format!("INSERT INTO t (id, a) VALUES ({id}, {id})"))?;
        other.send_command(CommandCode::QUERY, b"SELECT SLEEP(0.2)")?;
        ensure!(value(one, "SELECT LAST_INSERT_ID()")? == direct);
        ensure!(other.receive(CommandCode::QUERY)?.error().is_none());
        one.must("DELETE FROM t WHERE id = 100")?;
        ensure!(value(one, "SELECT LAST_INSERT_ID()")? == direct);
    }
    Ok(())
}

/// Better an error than a number that is not known.
fn lost_with_its_connection(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 1)?;
    let Pair { one, schema, .. } = &mut pair;
    one.must("INSERT INTO t (id, a) VALUES (50, 1)")?;
    let mut direct = cluster.direct()?;
    let list = format!(
        "SELECT MAX(ID) FROM information_schema.PROCESSLIST WHERE DB = '{}' AND COMMAND = 'Sleep'",
        schema.name
    );
    let thread = wait::until("the connection at rest", || value(&mut direct, &list))?;
    direct.must(&format!("KILL {thread}"))?;
    wait::until("the end of the thread", || {
        let sql =
            format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {thread}");
        Ok((value(&mut direct, &sql)?.as_deref() == Some("0")).then_some(()))
    })?;
    let reply = one.query("SELECT LAST_INSERT_ID()")?;
    let error = reply.error().context("an error")?;
    ensure!(error.to_string().contains("last insert id was lost"), "{error:?}");
    one.must("INSERT INTO t (a) VALUES (2)")?;
    same(one, "SELECT LAST_INSERT_ID()", "51")
}

/// A procedure and a text that nobody has seen may ask too.
fn asked_by_what_nobody_has_read(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 2)?;
    let Pair { one, other, .. } = &mut pair;
    one.must("CREATE PROCEDURE ask() SELECT LAST_INSERT_ID()")?;
    one.must("INSERT INTO t (id, a) VALUES (9, 1)")?;
    one.must("INSERT INTO t (a) VALUES (2)")?;
    one.must(
        "CREATE FUNCTION asks() RETURNS INT NOT DETERMINISTIC NO SQL RETURN LAST_INSERT_ID()",
    )?;
    for ask in ["SELECT asks()", "CALL ask()", "EXECUTE unseen"] {
        if ask == "EXECUTE unseen" {
            one.command(CommandCode::RESET_CONNECTION, b"")?;
            one.must("SELECT LAST_INSERT_ID(10)")?;
            one.must("SET @text = CONCAT('SELECT LAST_INSERT', '_ID()')")?;
            one.must("PREPARE unseen FROM @text")?;
        }
        // Both connections say something else.
        other.send_command(CommandCode::QUERY, b"SELECT SLEEP(0.1), LAST_INSERT_ID(55)")?;
        takes_over(one)?;
        ensure!(other.receive(CommandCode::QUERY)?.error().is_none());
        other.must("SELECT LAST_INSERT_ID(56)")?;
        same(one, ask, "10")?;
    }
    Ok(())
}

/// What a trigger reads is never what another session has left.
fn a_trigger_sees_the_sessions_own(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 1)?;
    let Pair { one, other, .. } = &mut pair;
    one.must(
        "CREATE TRIGGER note BEFORE INSERT ON n FOR EACH ROW SET NEW.a = NEW.a + LAST_INSERT_ID()",
    )?;
    for turn in 1..4 {
        other.must("SELECT LAST_INSERT_ID(100000)")?;
        one.must(&format!("INSERT INTO n VALUES ({})", 10 * turn))?;
        other.must("SELECT LAST_INSERT_ID(100000)")?;
        same(one, "SELECT MAX(a) FROM n", &(10 * turn).to_string())?;
    }
    Ok(())
}

/// Asking for the id does not count as the last statement.
fn counts_beside_it(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster, 1)?;
    let Pair { one, other, .. } = &mut pair;
    one.must("INSERT INTO t (a) VALUES (1)")?;
    other.must("SELECT LAST_INSERT_ID(123456)")?;
    // Where 0 was left, so that the connection has to be asked.
    one.must("INSERT INTO t (id, a) VALUES (50, 50), (51, 51)")?;
    same(one, "SELECT ROW_COUNT() * 1000 + LAST_INSERT_ID()", "2001")?;
    one.must("DELETE FROM t")?;
    other.must("SELECT LAST_INSERT_ID(123456)")?;
    same(one, "SELECT ROW_COUNT() * 1000 + LAST_INSERT_ID()", "3001")
}

/// There is no way to give it to another connection.
fn the_last_gtid(cluster: &Cluster) -> Result<()> {
    if cluster.vendor != e2e::Vendor::MariaDb {
        return Ok(());
    }
    let schema = cluster.schema()?;
    let proxy = start_with(cluster, 1, "")?;
    let login = login(cluster, &schema.name);
    let (mut one, mut other) = (proxy.connect(&login)?, proxy.connect(&login)?);
    one.must("CREATE TABLE t (a INT)")?;
    one.must("INSERT INTO t VALUES (1)")?;
    let gtid = value(&mut one, "SELECT @@last_gtid")?;
    ensure!(gtid.is_some_and(|gtid| !gtid.is_empty()));
    other.must("INSERT INTO t VALUES (2)")?;
    let refused = one.query("SELECT @@last_gtid")?.error_code();
    ensure!(refused == Some(9005), "{refused:?}");
    Ok(())
}
