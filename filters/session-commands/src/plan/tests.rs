use super::{Known, Plan, Variables};
use crate::ties::{Cause, Change};
use bytes::Bytes;
use sql::{
    Dialect, Server, Vendor,
    session::{Cell, Class},
};
use std::collections::HashMap;

fn read(text: &str, variables: &[&str]) -> Plan {
    let texts = HashMap::from([
        (prepared("p"), Some(Bytes::from_static(b"SET @z = 1"))),
        (prepared("bound"), Some(Bytes::from_static(b"SET @z = ?"))),
        (prepared("mixed"), Some(Bytes::from_static(b"SET GLOBAL a = 1, SESSION sql_mode = ''"))),
        (prepared("unknown"), None),
    ]);
    let variables = variables.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let variables = Variables::try_from(variables).expect("they are words");
    let local = [Cell::User("here".into())];
    let schema = Bytes::from_static(b"d");
    let known = Known {
        local: &local,
        texts: &texts,
        schema: Some(&schema),
        variables: &variables,
        is_set: &|cell| *cell == Cell::User("set".into()),
    };
    let server = Server { vendor: Vendor::MySql, version: 90_700 };
    let dialect = Dialect { server: Some(server), ..Dialect::default() };
    let mut plan = Plan::default();
    plan.text(&sql::statement(text.as_bytes(), dialect), text.as_bytes(), dialect, &known);
    plan
}

fn prepared(name: &str) -> Cell {
    Cell::Prepared(name.into())
}

/// In few words: what is logged, what stays here, what ties.
fn spelled(plan: &Plan) -> String {
    let logged = plan.entries.iter().map(|entry| {
        let text = String::from_utf8_lossy(&entry.payload);
        let class = match entry.class {
            Class::Const => "A",
            Class::Environment => "B",
            Class::Unknown => "U",
            Class::OneShot => "D",
            _ => "?",
        };
        format!("{class} {text}")
    });
    let local = plan.local.iter().map(|cell| format!("here {cell}"));
    let ties = plan.ties.iter().map(|change| match change {
        Change::Tie(cause, _) => format!("+{cause:?}"),
        Change::Untie(cause, _) | Change::UntieAll(cause) => format!("-{cause:?}"),
        Change::Rename(..) => "~".to_owned(),
    });
    let last = plan.sets_last_insert_id.then(|| "last insert id".to_owned());
    logged.chain(local).chain(ties).chain(last).collect::<Vec<_>>().join(", ")
}

#[test]
fn what_becomes_of_a_text() {
    for (text, expected) in [
        ("SET NAMES utf8mb4", "A SET NAMES utf8mb4"),
        ("SET @a = 1, @b := @a + 1;", "B SET @a = 1, @b := @a + 1;"),
        ("USE d", "B USE d"),
        ("PREPARE p FROM 'SELECT 1'", "B PREPARE p FROM 'SELECT 1'"),
        ("DROP PREPARE p", "B DROP PREPARE p"),
        ("EXECUTE p", "A EXECUTE p"),
        ("EXECUTE bound USING @x", "here @z"),
        ("EXECUTE mixed", "+Setting"),
        ("EXECUTE unknown", "+Unknown"),
        ("EXECUTE never", ""),
        ("SET no_such_variable = 1", "U SET no_such_variable = 1"),
        ("SET @a = NOW()", "here @a"),
        ("SET sql_mode = (SELECT 1)", "+Setting"),
        ("SET @a = @here", "here @a"),
        ("SET sql_mode = @here", "+Setting"),
        ("PREPARE p FROM @here", "here prepared p"),
        ("PREPARE p FROM 'SELECT @here'", "here prepared p"),
        ("PREPARE p FROM @q", "here prepared p"),
        // NULL is of the type of what was there.
        ("SET @here = NULL", "here @here"),
        ("SET @here = CONCAT('x', @unset)", "here @here"),
        ("SET @here = CONCAT('x', @set)", "B SET @here = CONCAT('x', @set)"),
        ("SET TRANSACTION READ ONLY", "D SET TRANSACTION READ ONLY, +OneShot"),
        ("SET TRANSACTION READ ONLY; BEGIN", "+OneShot"),
        ("SET @@transaction_isolation = @x", "+OneShot"),
        ("SET insert_id = 5", "+OneShot"),
        ("SET rand_seed1 = 5", "+Setting"),
        ("SET last_insert_id = 5", "last insert id"),
        ("SELECT LAST_INSERT_ID(5)", "last insert id"),
        ("SELECT 1 INTO @a", "here @a"),
        ("CALL p()", "here *"),
        // What goes with the rest of a statement is kept from it.
        ("SET GLOBAL a = 1, SESSION sql_mode = ''", "A SET @@SESSION.sql_mode = ''"),
        ("SET @a = NOW(), sql_mode = '', @b = 2", "A SET @@SESSION.sql_mode = '', @b = 2, here @a"),
        ("SET insert_id = 5, @@time_zone = 'UTC'", "A SET @@time_zone = 'UTC', +OneShot"),
        ("SET /*!50000 GLOBAL a = 1, */ SESSION sql_mode = ''", "+Unknown"),
        ("SET /*!50000 @a = NOW(), */ sql_mode = ''", "here @a, +Setting"),
        ("SET GLOBAL a = 1", ""),
        // Who wants to be left soon keeps the connection that does so.
        ("SET SESSION wait_timeout = 59", "+Setting"),
        ("SET sql_mode = '', @@`Wait_Timeout` = 1", "A SET @@SESSION.sql_mode = '', +Setting"),
        ("SET wait_timeout = 60", "A SET wait_timeout = 60"),
        ("SET wait_timeout = DEFAULT", "B SET wait_timeout = DEFAULT"),
        ("SET GLOBAL wait_timeout = 1", ""),
        ("SET net_read_timeout = 1", "A SET net_read_timeout = 1"),
        ("SET PASSWORD = 'x'", ""),
        // Several.
        ("SET @a = 1; INSERT INTO t VALUES (1); USE e", "A SET @a = 1, B USE e"),
        ("PREPARE n FROM 'SET @y = 2'; EXECUTE n", "B PREPARE n FROM 'SET @y = 2', A EXECUTE n"),
        ("SET @a = NOW(); SET @b = @a", "here @a, here @b"),
        ("SELECT 1; /*!50000 SET @a */ = 1", "here @a"),
        // What cannot be read.
        ("SET @a", "+Unknown"),
        ("SET NAMES", "U SET NAMES"),
        ("SET @a = (@b := 1)", "+Unknown"),
        ("EXECUTE IMMEDIATE 'SET @a = 1'", "+Unknown"),
        ("FROBNICATE", "+Unknown"),
        // What is held.
        ("CREATE TEMPORARY TABLE t (a INT)", "+TemporaryTable"),
        ("DROP TABLE t, u", "-TemporaryTable, -TemporaryTable"),
        ("ALTER TABLE t RENAME u", "~"),
        ("LOCK TABLES t READ", "+TableLock"),
        ("UNLOCK TABLES", "-TableLock"),
        ("LOCK INSTANCE FOR BACKUP", "+BackupLock"),
        ("SELECT GET_LOCK('a', 1)", "+UserLock"),
        ("DO RELEASE_LOCK('a')", "-UserLock"),
        ("DO RELEASE_ALL_LOCKS()", "-UserLock"),
        ("HANDLER t OPEN AS h", "+Handler"),
        ("XA START 'x'", "+Xa"),
        ("KILL 5", "+Ending"),
        ("COMMIT RELEASE", "+Ending"),
        ("COMMIT", ""),
        ("SELECT 1", ""),
    ] {
        assert_eq!(spelled(&read(text, &[])), expected, "{text}");
    }
}

#[test]
fn temporary_tables_have_their_schema() {
    let of = |text: &str| read(text, &[]).ties.remove(0);
    let (Change::Tie(cause, here), Change::Untie(_, there)) =
        (of("CREATE TEMPORARY TABLE t (a INT)"), of("DROP TABLE d.t"))
    else {
        panic!("a tie and its end")
    };
    assert_eq!((cause, &here), (Cause::TemporaryTable, &there));
    assert_ne!(of("DROP TABLE e.t"), of("DROP TABLE t"));
    let ties = read("USE e; CREATE TEMPORARY TABLE t (a INT)", &[]).ties;
    assert_eq!(ties, [Change::Tie(cause, (*b"e\0t").into())]);
}

#[test]
fn the_settings_say_what_a_variable_is() {
    let becomes = |text: &str, words: &[&str]| spelled(&read(text, words));
    assert_eq!(becomes("SET Mine.x = 1", &["+mine.x"]), "A SET Mine.x = 1");
    assert_eq!(becomes("SET mine = DEFAULT", &["+mine"]), "B SET mine = DEFAULT");
    assert_eq!(becomes("SET mine = NOW()", &["+mine"]), "+Setting");
    assert_eq!(becomes("SET `sql_mode` = ''", &["-sql_mode"]), "U SET `sql_mode` = ''");
    // What means something on one connection alone is no matter of opinion.
    assert_eq!(becomes("SET sql_log_bin = 0", &["+sql_log_bin"]), "+Setting");
    for wrong in ["", "+", "sql_mode", "+a b"] {
        assert!(Variables::try_from(vec![wrong.to_owned()]).is_err(), "{wrong}");
    }
}

proptest::proptest! {
    /// Nothing panics on any text.
    #[test]
    fn any_text_is_read(
        bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..40),
        at in 0..6_usize,
    ) {
        let head = ["SET ", "SET @a = ", "PREPARE ", "EXECUTE p ", "DROP TABLE ", ""][at];
        read(&[head, &String::from_utf8_lossy(&bytes)].concat(), &[]);
    }
}
