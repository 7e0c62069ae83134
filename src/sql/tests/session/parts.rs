//! The parts of a SET, each by itself.

use crate::texts::dialect;
use sql::{
    Dialect,
    session::{
        Action, Cell, Class, Effect, Null, Scope, Source, Step, Target, Unreadable, Variable,
        session_command, user_variables, variable,
    },
};

fn step(text: &str, dialect: Dialect) -> Step {
    let reading = session_command(text.as_bytes(), dialect);
    let Effect::Steps(mut steps) = reading else { panic!("{text}: {reading:?}") };
    assert_eq!(steps.len(), 1, "{text}");
    steps.remove(0)
}

#[test]
fn each_part_says_where_it_is_and_whose() {
    let text = "SET /* a */ GLOBAL `sort_buffer_size` = 1, tmp_table_size := (2 + 3) , @a='x,y', \
                @@sql_mode = DEFAULT, LOCAL time_zone = @z, net_retry_count = 4;";
    let step = step(text, Dialect::default());
    let found: Vec<_> = step
        .assignments()
        .iter()
        .map(|part| {
            let (scope, name) = match &part.target {
                Target::System { scope, name, .. } => (Some(*scope), name.clone()),
                Target::User { name } => (None, name.clone()),
                other => panic!("{other:?}"),
            };
            (&text[part.span.clone()], scope, &text[name], &text[part.value.span.clone()])
        })
        .collect();
    assert_eq!(
        found,
        [
            ("GLOBAL `sort_buffer_size` = 1", Some(Scope::Server), "`sort_buffer_size`", "1"),
            ("tmp_table_size := (2 + 3)", Some(Scope::Server), "tmp_table_size", "(2 + 3)"),
            ("@a='x,y'", None, "@a", "'x,y'"),
            ("@@sql_mode = DEFAULT", Some(Scope::Bare), "sql_mode", "DEFAULT"),
            ("LOCAL time_zone = @z", Some(Scope::Session), "time_zone", "@z"),
            ("net_retry_count = 4", Some(Scope::Session), "net_retry_count", "4"),
        ]
    );
    let classes: Vec<_> = step.assignments().iter().map(|part| part.class).collect();
    assert_eq!(classes[..3], [Class::NotSession, Class::NotSession, Class::Const]);
    assert_eq!(classes[3..], [Class::Environment, Class::Environment, Class::Const]);
    assert_eq!(step.class, Class::Environment);
    assert_eq!(&text[step.span.clone()], &text[..text.len() - 1]);
}

#[test]
fn of_a_mixed_set_the_session_s_part_can_be_said_alone() {
    for (text, own) in [
        (
            "SET GLOBAL a = 1, SESSION sql_mode = '', @b = 2",
            Some("SET @@SESSION.sql_mode = '', @b = 2"),
        ),
        ("SET @@global.a=1, time_zone='x'", Some("SET @@SESSION.time_zone = 'x'")),
        (
            "SET GLOBAL a = 1, b = 2, @c = 3, d = 4, @@time_zone = 'x', LOCAL sql_mode = '', \
             lc_time_names = 'y'",
            Some(
                "SET @c = 3, @@time_zone = 'x', @@SESSION.sql_mode = '', @@SESSION.lc_time_names = \
                 'y'",
            ),
        ),
        (
            "SET GLOBAL a = 1, NAMES latin1 COLLATE latin1_bin, @`b` = 2",
            Some("SET NAMES latin1 COLLATE latin1_bin, @`b` = 2"),
        ),
        ("SET @a = 1", None),
        ("SET GLOBAL a = 1", None),
        ("SET PASSWORD = 'x'", None),
        ("USE d", None),
    ] {
        let step = step(text, Dialect::default());
        let found = step.own_text(text.as_bytes());
        assert_eq!(found.as_deref(), own.map(str::as_bytes), "{text}");
        // And that text is all the session's, and does the same.
        if let Some(own) = own {
            let again = self::step(own, Dialect::default());
            assert!(!again.is_mixed(), "{own}");
            assert_eq!((again.class, again.writes), (step.class, step.writes), "{own}");
        }
    }
}

#[test]
fn a_secret_has_its_target() {
    let text = "SET @a = 1, PASSWORD FOR u = 'secret'";
    let step = step(text, dialect("mariadb 10.11.19"));
    let part = &step.assignments()[1];
    assert_eq!((&part.target, part.class), (&Target::Password, Class::NotSession));
    assert!(!format!("{step:?}").contains("secret"));
    assert_eq!(step.own_text(text.as_bytes()).as_deref(), Some(&b"SET @a = 1"[..]));
}

#[test]
fn names_and_texts_of_prepared_statements_are_found() {
    let text = "PREPARE `p` FROM 'SELECT 1'";
    let Action::Prepare { name, source } = step(text, Dialect::default()).action else { panic!() };
    assert_eq!((&text[name], source), ("`p`", Source::Literal(17..27)));
    let text = "PREPARE p FROM @q";
    let Action::Prepare { source, .. } = step(text, Dialect::default()).action else { panic!() };
    assert_eq!(source, Source::Variable(15..17));
    let text = "EXECUTE p USING @a";
    assert_eq!(step(text, Dialect::default()).action, Action::Execute { name: 8..9 });
    let text = "DEALLOCATE PREPARE p";
    assert_eq!(step(text, Dialect::default()).action, Action::Deallocate { name: 19..20 });
    let text = "USE `d`";
    assert_eq!(step(text, Dialect::default()).action, Action::Use { schema: 4..7 });
}

#[test]
fn statements_of_a_text_have_their_places() {
    let text = "SET @a = ';' ; /* x */ SELECT 1; USE d -- end";
    let reading = session_command(text.as_bytes(), Dialect::default());
    let found: Vec<_> = reading.steps().iter().map(|step| &text[step.span.clone()]).collect();
    assert_eq!(found, ["SET @a = ';'", "SELECT 1", "USE d"]);
}

#[test]
fn a_variable_is_one_under_all_its_names() {
    for (one, other) in [
        ("TX_ISOLATION", "transaction_isolation"),
        ("identity", "last_insert_id"),
        ("character_set_connection", "COLLATION_CONNECTION"),
        ("character_set_database", "collation_database"),
        ("log_slow_query_time", "long_query_time"),
        ("tmp_memory_table_size", "tmp_table_size"),
    ] {
        assert_eq!(Cell::system(one), Cell::system(other), "{one}");
    }
    assert_ne!(Cell::system("character_set_client"), Cell::system("character_set_results"));
    assert_eq!(variable(b"SQL_MODE"), Variable::Everywhere);
    assert_eq!(variable(b"Tx_Isolation"), Variable::Transaction);
    assert_eq!(variable(b"insert_id"), Variable::NextStatement);
    assert_eq!(variable(b"sql_log_bin"), Variable::Connection);
    assert_eq!(variable(b"identity"), Variable::LastInsertId);
    assert_eq!(variable(b"x"), Variable::Unknown);
}

#[test]
fn where_quotes_are_unsure_only_what_could_be_more_is_doubtful() {
    let unsure = Dialect { unsure: true, ..Dialect::default() };
    for (text, expected) in [
        ("SELECT \"a\" FROM t", Effect::Nothing),
        ("SELECT 'é'", Effect::Nothing),
        ("SELECT 'é'; SELECT 1", Effect::Unreadable(Unreadable::Doubtful)),
        ("SET @a = \"b\"", Effect::Unreadable(Unreadable::Doubtful)),
    ] {
        assert_eq!(session_command(text.as_bytes(), unsure), expected, "{text}");
    }
    assert_eq!(session_command(b"SET @a = 'b'", unsure).steps().len(), 1);
}

#[test]
fn user_variables_are_found_wherever_they_are() {
    let found = user_variables(
        b"SELECT @a, 'x@b', @`C`, @@d, @\xc3\xa9 -- @f\n FROM t WHERE @a",
        Dialect::default(),
    );
    let names: Vec<_> = found.iter().map(Cell::to_string).collect();
    assert_eq!(names, ["@a", "@c", "*", "@a"]);
}

#[test]
fn a_value_says_whether_it_may_be_null() {
    for (value, null) in [
        ("NULL", Null::Always),
        ("null", Null::Always),
        ("1", Null::Never),
        ("'NULL'", Null::Never),
        ("_latin1'x'", Null::Never),
        ("@@sql_mode", Null::Never),
        ("@@character_set_results", Null::Perhaps),
        ("@b", Null::AsRead),
        ("CONCAT(@b, 'x') + 1", Null::AsRead),
        ("@b / 2", Null::Perhaps),
        ("NULLIF(1, 1)", Null::Perhaps),
        ("-NULL", Null::Perhaps),
        ("IF(@b, 1, NULL)", Null::Perhaps),
        ("(SELECT 1)", Null::Perhaps),
        ("NOW()", Null::Perhaps),
    ] {
        let step = step(&format!("SET @a = {value}, @z = 1"), Dialect::default());
        assert_eq!(step.assignments()[0].value.null, null, "{value}");
    }
}
