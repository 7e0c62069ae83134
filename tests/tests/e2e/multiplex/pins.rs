//! What holds a session to its connection: while it lasts nobody else gets that, and afterwards
//! somebody does.

use super::{login, metric, same, start_with, until_served};
use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Proxy, Vendor, cluster::Schema, wait};
use wire::CommandCode;

on_both_vendors!(
    a_transaction,
    autocommit_off,
    a_temporary_table,
    a_table_lock,
    a_lock,
    a_handler,
    an_xa_transaction,
    a_cursor,
    long_data,
    the_next_transaction,
    a_user_variable_that_is_read_from_a_table,
    found_rows,
    warnings,
    an_error,
    without_binary_log,
    a_statement_with_the_sessions_id,
    a_statement_that_asks_for_counts,
    a_dropped_schema,
    a_rule,
    a_backup_lock,
    unknown_effects,
    a_full_log,
);

/// Two sessions of a proxy with one connection to each server.
struct Pair {
    proxy: Proxy,
    one: Client,
    other: Client,
    _schema: Schema,
}

const BUDGET: &str = "[backend]\nconnect_budget = \"150ms\"";

impl Pair {
    fn new(cluster: &Cluster) -> Result<Self> {
        let schema = cluster.schema()?;
        let proxy = start_with(cluster, 1, BUDGET)?;
        let login = login(cluster, &schema.name);
        let one = proxy.connect(&login)?;
        let other = wait::until("the other login", || Ok(proxy.connect(&login).ok()))?;
        let mut pair = Self { proxy, one, other, _schema: schema };
        until_served(&mut pair.one, "CREATE TABLE t (a INT PRIMARY KEY)")?;
        pair.must("INSERT INTO t VALUES (1), (2), (3)")?;
        Ok(pair)
    }

    fn must(&mut self, text: &str) -> Result<()> {
        until_served(&mut self.one, text)
    }

    /// The first session keeps the connection.
    fn is_pinned(&mut self, cause: &str) -> Result<()> {
        let pinned = wait::until(cause, || Ok((self.pinned(cause)? == 1).then_some(())));
        pinned.with_context(|| self.proxy.get("/metrics").unwrap_or_default())?;
        let refused = self.other.query("SELECT 1")?.error_code();
        ensure!(refused == Some(9001), "{cause}: {refused:?}");
        ensure!(self.pinned(cause)? == 1, "{cause} has passed");
        Ok(())
    }

    fn pinned(&self, cause: &str) -> Result<u64> {
        metric(&self.proxy, &format!("towpath_sessions_pinned{{cause=\"{cause}\"}}"))
    }

    /// The other session gets it.
    fn is_free(&mut self) -> Result<()> {
        until_served(&mut self.other, "SELECT 1")?;
        let metrics = self.proxy.get("/metrics")?;
        ensure!(!metrics.contains("sessions_pinned{"), "{metrics}");
        Ok(())
    }

    /// Until the client says that it begins anew.
    fn is_pinned_until_a_reset(&mut self, cause: &str) -> Result<()> {
        self.is_pinned(cause)?;
        let reset = self.one.command(CommandCode::RESET_CONNECTION, b"")?;
        ensure!(reset.error().is_none(), "{:?}", reset.error());
        self.is_free()
    }

    /// The whole story, in statements.
    fn while_between(&mut self, cause: &str, begin: &[&str], end: &[&str]) -> Result<()> {
        self.is_free()?;
        for text in begin {
            self.must(text)?;
        }
        self.is_pinned(cause)?;
        for text in end {
            self.must(text)?;
        }
        self.is_free()
    }
}

fn a_transaction(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    pair.while_between("a transaction", &["BEGIN"], &["COMMIT"])?;
    pair.while_between("a transaction", &["START TRANSACTION READ ONLY"], &["ROLLBACK"])
}

fn autocommit_off(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    pair.must("SET autocommit = 0")?;
    pair.is_free()?;
    pair.while_between("autocommit is off", &["SELECT 1"], &["COMMIT"])?;
    pair.while_between("a transaction", &["SELECT * FROM t"], &["ROLLBACK"])?;
    pair.while_between("a transaction", &["INSERT INTO t VALUES (9)"], &["SET autocommit = 1"])?;
    same(&mut pair.other, "SELECT COUNT(*) FROM t", "4")
}

fn a_temporary_table(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let create = "CREATE TEMPORARY TABLE scratch (a INT)";
    pair.while_between("a temporary table", &[create], &["DROP TEMPORARY TABLE scratch"])
}

fn a_table_lock(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    pair.while_between("a table lock", &["LOCK TABLES t WRITE"], &["UNLOCK TABLES"])
}

fn a_lock(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let name = pair._schema.name.clone();
    let get = format!("SELECT GET_LOCK('{name}', 0)");
    pair.while_between("a lock", &[&get], &["DO RELEASE_ALL_LOCKS()"])?;
    let release = format!("SELECT RELEASE_LOCK('{name}')");
    pair.while_between("a lock", &[&get], &[&release])?;
    // As often as it was got.
    pair.while_between("a lock", &[&get, &get, &release], &[&release])?;
    let other = format!("SELECT GET_LOCK('{name}_2', 0)");
    let others = format!("DO RELEASE_LOCK('{name}_2')");
    pair.while_between("a lock", &[&get, &other, &release], &[&others])?;
    // The same lock, but nobody can be sure of that; nor of what is called for no row.
    pair.must(&get.to_uppercase())?;
    pair.must(&release)?;
    pair.must(&format!("{} FROM t WHERE a < 0", release.to_uppercase()))?;
    pair.is_pinned("a lock")?;
    pair.must("DO RELEASE_ALL_LOCKS()")?;
    let unseen = format!("SELECT GET_LOCK(CONCAT('{name}', ''), 0)");
    pair.while_between("a lock", &[&unseen, &release], &["DO RELEASE_ALL_LOCKS()"])
}

fn a_handler(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    pair.while_between("a handler", &["HANDLER t OPEN"], &["HANDLER t CLOSE"])
}

fn an_xa_transaction(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let name = pair._schema.name.clone();
    let id = |verb: &str| format!("XA {verb} '{name}'");
    let begin = [id("BEGIN"), id("END")];
    let begin: Vec<_> = begin.iter().map(String::as_str).collect();
    pair.is_free()?;
    for text in begin {
        pair.must(text)?;
    }
    let refused = pair.other.query("SELECT 1")?.error_code();
    ensure!(refused == Some(9001), "{refused:?}");
    pair.must(&id("ROLLBACK"))?;
    pair.is_free()
}

fn a_cursor(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let statement = pair.one.prepare("SELECT a FROM t ORDER BY a")?;
    pair.is_free()?;
    // read only
    let reply = wait::until("the cursor", || {
        let reply = pair.one.execute(&statement, 1, &[])?;
        Ok((reply.error_code() != Some(9001)).then_some(reply))
    })?;
    ensure!(reply.error().is_none(), "{:?}", reply.error());
    pair.is_pinned("a cursor")?;
    let fetched = pair.one.fetch(&statement, 2)?;
    ensure!(fetched.error().is_none(), "{:?}", fetched.error());
    pair.is_pinned("a cursor")?;
    let reset = pair.one.statement_command(CommandCode::STMT_RESET, &statement)?;
    ensure!(reset.error().is_none(), "{:?}", reset.error());
    pair.is_free()
}

fn long_data(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let statement = pair.one.prepare("SELECT LENGTH(?)")?;
    pair.one.long_data(&statement, 0, b"abc")?;
    pair.is_pinned("long data")?;
    pair.one.long_data(&statement, 0, b"def")?;
    let reply = pair.one.execute_with_long_data(&statement)?;
    ensure!(reply.error().is_none(), "{:?}", reply.error());
    pair.is_free()
}

fn the_next_transaction(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let set = "SET TRANSACTION READ ONLY";
    pair.while_between("a setting for the next transaction", &[set], &["ROLLBACK"])?;
    // A statement without a table does not use it up.
    pair.must(set)?;
    pair.must("SELECT 1")?;
    pair.is_pinned("a setting for the next transaction")?;
    pair.must("COMMIT")?;
    until_served(&mut pair.other, "INSERT INTO t VALUES (77)")
}

fn a_user_variable_that_is_read_from_a_table(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let cause = "a user variable of one connection";
    pair.while_between(cause, &["SELECT MAX(a) INTO @m FROM t"], &["SET @m = 5", "DO 1"])
}

fn found_rows(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let select = "SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1";
    pair.while_between("SQL_CALC_FOUND_ROWS", &[select], &["SELECT COUNT(*) FROM t"])?;
    pair.must(select)?;
    same(&mut pair.one, "SELECT FOUND_ROWS()", "3")?;
    pair.must("SELECT COUNT(*) FROM t")?;
    pair.is_free()
}

fn warnings(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let begin = ["SELECT CAST('x' AS SIGNED) FROM t"];
    pair.while_between("warnings", &begin, &["SELECT COUNT(*) FROM t"])?;
    pair.must(begin[0])?;
    let shown = pair.one.rows("SHOW WARNINGS")?;
    ensure!(shown.len() == 3, "{shown:?}");
    pair.is_pinned("warnings")
}

fn an_error(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    pair.is_free()?;
    ensure!(
        wait::until("an error", || {
            let code = pair.one.query("SELECT * FROM nosuch")?.error_code();
            Ok(code.filter(|code| *code != 9001))
        })? == 1146
    );
    pair.is_pinned("warnings")?;
    ensure!(pair.one.rows("SHOW ERRORS")?.len() == 1);
    pair.must("SELECT COUNT(*) FROM t")?;
    pair.is_free()?;
    // What is only prepared does the same, to fail and to clear.
    let code = wait::until("an error", || {
        let code = pair.one.command(CommandCode::STMT_PREPARE, b"SELECT * FROM nosuch")?;
        Ok(code.error_code().filter(|code| *code != 9001))
    })?;
    ensure!(code == 1146, "{code}");
    pair.is_pinned("warnings")?;
    pair.one.prepare("SELECT a FROM t")?;
    pair.is_free()
}

fn without_binary_log(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let cause = "a setting of this connection";
    pair.is_free()?;
    pair.must("SET sql_log_bin = 0")?;
    pair.is_pinned_until_a_reset(cause)
}

fn a_statement_with_the_sessions_id(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let statement = pair.one.prepare("SELECT CONNECTION_ID()")?;
    pair.is_pinned("CONNECTION_ID() in a prepared statement")?;
    pair.one.close_statement(&statement)?;
    pair.must("SELECT 1")?;
    pair.is_free()
}

fn a_statement_that_asks_for_counts(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let statement = pair.one.prepare("SELECT ROW_COUNT()")?;
    pair.must("DELETE FROM t WHERE a < 3")?;
    pair.is_pinned("a prepared statement that asks about the last one")?;
    let reply = pair.one.execute(&statement, 0, &[])?;
    // One row of one BIGINT.
    ensure!(reply.raw.windows(8).any(|bytes| bytes == 2_u64.to_le_bytes()), "{:?}", reply.raw);
    Ok(())
}

fn a_dropped_schema(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    let (name, gone) = (pair._schema.name.clone(), format!("{}_gone", pair._schema.name));
    pair.must(&format!("CREATE DATABASE {gone}"))?;
    pair.must(&format!("USE {gone}"))?;
    pair.must(&format!("DROP DATABASE {gone}"))?;
    pair.must("SELECT 1")?;
    pair.is_pinned("a schema that was dropped")?;
    ensure!(super::value(&mut pair.one, "SELECT DATABASE()")?.is_none());
    pair.must(&format!("USE {name}"))?;
    pair.must("SELECT 1")?;
    pair.is_free()
}

fn a_rule(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    pair.while_between("a rule", &["SELECT /* mx=0 */ 1"], &["SELECT /* mx=1 */ 1"])?;
    // A variable that only this connection has does not keep it, at the user's own risk.
    pair.must("SELECT /* mx=2 */ MAX(a) INTO @m FROM t")?;
    pair.is_free()
}

fn a_backup_lock(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    // MySQL's would hold up the other tests.
    if cluster.vendor == Vendor::MariaDb {
        pair.while_between("a backup lock", &["BACKUP LOCK t"], &["BACKUP UNLOCK"])?;
    }
    Ok(())
}

fn unknown_effects(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    for text in ["SET @q = 'SELECT 1'", "PREPARE p FROM @q", "EXECUTE p"] {
        pair.must(text)?;
    }
    pair.is_pinned_until_a_reset("a statement with unknown effects")
}

fn a_full_log(cluster: &Cluster) -> Result<()> {
    let mut pair = Pair::new(cluster)?;
    for number in 0..512 {
        pair.must(&format!("SET @v{number} = 1"))?;
    }
    pair.is_free()?;
    pair.must("SET @one_too_many = 1")?;
    pair.is_pinned_until_a_reset("a full log")
}
