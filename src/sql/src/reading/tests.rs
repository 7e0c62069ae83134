use super::{Change, Change::*, Reading, reading};
use crate::{Charset, Dialect};

fn quotes(text: &str) -> Change<bool> {
    let found = reading(text.as_bytes(), Dialect::default(), true);
    assert_eq!(found.charset, Kept, "{text}");
    found.ansi_quotes
}

fn charset(text: &str) -> Change<Charset> {
    let found = reading(text.as_bytes(), Dialect::default(), true);
    assert_eq!(found.ansi_quotes, Kept, "{text}");
    found.charset
}

#[test]
fn modes_are_read_where_they_are_literals() {
    for (text, change) in [
        ("SET sql_mode = 'ANSI_QUOTES'", To(true)),
        ("set SESSION sql_mode='STRICT_ALL_TABLES, ansi_quotes'", To(true)),
        ("SET @@sql_mode := \"ANSI\"", To(true)),
        ("SET @@session.sql_mode = ansi", To(true)),
        ("SET @@local.`sql_mode` = 'ORACLE'", To(true)),
        ("SET sql_mode = ''", To(false)),
        ("SET sql_mode = 'NO_ANSI_QUOTES_HERE'", To(false)),
        ("SET sql_mode = 4", To(true)),
        ("SET sql_mode = 3", To(false)),
        ("SET sql_mode = DEFAULT", Default),
        ("SET sql_mode = @old", Unsure),
        ("SET sql_mode = @@global.sql_mode", Unsure),
        ("SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')", Unsure),
        ("SET sql_mode = (SELECT 'ANSI')", Unsure),
        ("SET @a = 'x,y', sql_mode = 'ANSI'", To(true)),
        ("SET a = f(1, 2), sql_mode = 'ANSI', b = 1", To(true)),
        ("SET sql_mode = 'ANSI', sql_mode = ''", To(false)),
        ("/* x */ SET sql_mode = 'ANSI'", To(true)),
        ("/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='ANSI' */", To(true)),
        ("/*!40101 SET SQL_MODE=@OLD_SQL_MODE */", Unsure),
        ("SELECT 1; SET sql_mode = 'ANSI'", To(true)),
        ("PREPARE p FROM 'SET sql_mode = @x'", Unsure),
    ] {
        assert_eq!(quotes(text), change, "{text}");
    }
}

#[test]
fn what_is_not_the_sessions_changes_nothing() {
    for text in [
        "SET GLOBAL sql_mode = 'ANSI'",
        "SET @@global.sql_mode = 'ANSI'",
        "SET PERSIST sql_mode = 'ANSI'",
        "SET GLOBAL a = 1, sql_mode = 'ANSI'",
        "SET @sql_mode = 'ANSI'",
        "SET @a = 'sql_mode = 1'",
        "SET STATEMENT sql_mode = 'ANSI' FOR SELECT 1",
        "SET autocommit = 1",
        "SELECT 'SET sql_mode = 4'",
        "PREPARE p FROM 'SELECT 1'",
        "SETTLE",
        "SET",
        "",
    ] {
        assert_eq!(
            reading(text.as_bytes(), Dialect::default(), true),
            Reading::default(),
            "{text}"
        );
    }
    assert_eq!(quotes("SET GLOBAL a = 1, SESSION sql_mode = 'ANSI'"), To(true));
    assert_eq!(quotes("SET GLOBAL a = 1, @@sql_mode = 'ANSI'"), To(true));
}

#[test]
fn charsets_are_read_too() {
    for (text, change) in [
        ("SET NAMES gbk", To(Charset::Gbk)),
        ("SET NAMES 'sjis' COLLATE 'sjis_bin'", To(Charset::Sjis)),
        ("SET NAMES utf8mb4 COLLATE utf8mb4_bin", To(Charset::AsciiSafe)),
        ("SET CHARACTER SET big5", To(Charset::Big5)),
        ("SET CHARSET gb18030", To(Charset::Gbk)),
        ("SET character_set_client = cp932", To(Charset::Sjis)),
        ("SET character_set_results = gbk", Kept),
        ("SET NAMES DEFAULT", Default),
        ("SET NAMES utf8mb4, @a = 1", To(Charset::AsciiSafe)),
        ("SET @a = 1, NAMES gbk", To(Charset::Gbk)),
        ("SET character_set_client = @x", Unsure),
    ] {
        assert_eq!(charset(text), change, "{text}");
    }
}

#[test]
fn in_doubt_a_change_is_unsure_and_nothing_stays_nothing() {
    let found = reading(b"SET sql_mode = 'ANSI'", Dialect::default(), false).in_doubt();
    assert_eq!(found, Reading { ansi_quotes: Unsure, charset: Kept });
}
