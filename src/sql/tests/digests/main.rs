//! Digests: the pairs of ProxySQL's, and what is done otherwise.

use proptest::prelude::*;
use sql::{Charset, DIGEST_LIMIT, Dialect, DigestHash, Server, digest};

fn text(sql: &str) -> String {
    text_in(sql, Dialect::default())
}

fn text_in(sql: &str, dialect: Dialect) -> String {
    let digest = digest(sql.as_bytes(), dialect, DIGEST_LIMIT);
    String::from_utf8(digest.text).expect("of a text in UTF-8")
}

#[test]
fn hashes_are_those_of_proxysql() {
    for (text, hash) in [
        ("SELECT ?", 0x1C46_AE52_9DD5_A40E),
        ("SELECT * FROM t WHERE id=?", 0x5263_4913_591C_3955),
        ("INSERT INTO t (a,b) VALUES (?,?)", 0xEE23_F336_09BA_0928),
        ("SELECT * FROM t WHERE id IN (?,?,?,...)", 0x0879_5263_00B5_BE2D),
        ("SET @OLD_TIME_ZONE=@@TIME_ZONE", 16_906_282_918_371_515_167),
    ] {
        let sql = text.replace("?,?,?,...", "1,2,3,4,5").replace('?', "7");
        let digest = digest(sql.as_bytes(), Dialect::default(), DIGEST_LIMIT);
        assert_eq!(String::from_utf8_lossy(&digest.text), text);
        assert_eq!(digest.hash, DigestHash(hash), "{text}");
    }
}

#[test]
fn values_are_left_out() {
    for (sql, expected) in [
        ("SELECT * FROM t WHERE id=1", "SELECT * FROM t WHERE id=?"),
        (
            "select  *   from t where a = 'foo' and b=\"bar\";",
            "select * from t where a = ? and b=?",
        ),
        ("SELECT 1 FROM t WHERE a IN (1,2,3,4)", "SELECT ? FROM t WHERE a IN (?,?,?,?)"),
        ("SELECT 1 FROM t WHERE a IN (1,2,3,4,5)", "SELECT ? FROM t WHERE a IN (?,?,?,...)"),
        ("SELECT 1 FROM t WHERE a IN (1,2,3,4,5,6,7)", "SELECT ? FROM t WHERE a IN (?,?,?,...)"),
        ("INSERT INTO t VALUES (1,'x'),(2,'y'),(3,'z')", "INSERT INTO t VALUES (?,?),(?,?),(?,?)"),
        ("SELECT -1, +2, - 3, a-1, 1e-9, 0xFF, 1.5", "SELECT ?,?,?,a-?,?,?,?"),
        ("/* hostgroup=1 */ SELECT 1 /* b */", "SELECT ?"),
        ("SELECT /*!40001 SQL_NO_CACHE */ * FROM t", "SELECT SQL_NO_CACHE * FROM t"),
        ("# c\nSELECT 1", "SELECT ?"),
        (
            "SELECT a FROM db1.table_2024_01 WHERE x2=3",
            "SELECT a FROM db1.table_2024_01 WHERE x2=?",
        ),
        ("SELECT NULL, x IS NULL", "SELECT NULL,x IS NULL"),
        ("SELECT N'abc', _utf8'x', x'4D', b'01', 0b11", "SELECT N?,_utf8?,x?,b?,0b11"),
        ("SELECT f( 1 ,2 )", "SELECT f(?,?)"),
        ("SELECT count( * ) FROM t", "SELECT count(*) FROM t"),
        ("INSERT INTO t VALUES (1,2,3,4,5,6)", "INSERT INTO t VALUES (?,?,?,...)"),
        ("SELECT (1,2,3,4,5,x,1)", "SELECT (?,?,?,...,x,?)"),
        ("SELECT 1,2,3,4,5,6 FROM t", "SELECT ?,?,?,... FROM t"),
        ("SELECT ?, ? , ?", "SELECT ?,?,?"),
        ("SELECT f(1),f(2)", "SELECT f(?),f(?)"),
        (
            "SELECT a FROM t WHERE (b = -1 OR c > - 2) LIMIT 10,20",
            "SELECT a FROM t WHERE (b = ? OR c > ?) LIMIT ?,?",
        ),
        ("SELECT 1; SELECT 2;", "SELECT ?; SELECT ?"),
        ("SELECT 'it''s', 'a\\'b'", "SELECT ?,?"),
        ("SELECT @a, @@session.x", "SELECT @a,@@session.x"),
        ("", ""),
        ("  ;  ", ""),
        ("-- only a comment", ""),
        ("SELECT /*+ NO_MERGE(a) */ 1", "SELECT ?"),
        ("SELECT/**/1", "SELECT ?"),
        ("CALL p(1,2,3),(4)", "CALL p(?,?,?),(?)"),
    ] {
        assert_eq!(text(sql), expected, "{sql}");
    }
}

#[test]
fn many_groups_are_shortened() {
    let insert = |group: &str, count| {
        format!("INSERT INTO t VALUES {} ON DUPLICATE KEY UPDATE a=1", vec![group; count].join(","))
    };
    let expected = |group: &str, count, dots: &str| {
        let groups = vec![group; count].join(",");
        format!("INSERT INTO t VALUES {groups}{dots} ON DUPLICATE KEY UPDATE a=?")
    };
    assert_eq!(text(&insert("(1,'b')", 10)), expected("(?,?)", 10, ""));
    assert_eq!(text(&insert("(1,'b')", 11)), expected("(?,?)", 10, ",..."));
    assert_eq!(text(&insert("( 1 , 2,3,4,5)", 12)), expected("(?,?,?,...)", 10, ",..."));
    assert_eq!(text(&insert("(1,2)", 5000)), expected("(?,?)", 10, ",..."));
}

#[test]
fn what_proxysql_gets_wrong_is_not_repeated() {
    assert_eq!(text("SELECT 1 -- tail"), "SELECT ?");
    assert_eq!(text("SELECT `it's` FROM t WHERE a='x'"), "SELECT `it's` FROM t WHERE a=?");
    assert_eq!(text("SELECT a - 1"), "SELECT a - ?");
    assert_eq!(text("SELECT (a) - 1, 2 - 1"), "SELECT (a) - ?,? - ?");
    assert_eq!(text("SELECT a - -1"), "SELECT a - ?");
}

#[test]
fn the_sessions_state_decides_what_is_a_string() {
    let ansi = Dialect { ansi_quotes: true, ..Dialect::default() };
    assert_eq!(text_in("SELECT \"a\", 'b'", ansi), "SELECT \"a\",?");
    let plain = Dialect { no_backslash_escapes: true, ..Dialect::default() };
    assert_eq!(text_in("SELECT 'a\\', b", plain), "SELECT ?,b");
    let server = Server::from_version("8.0.30");
    let old = Dialect { server, ..Dialect::default() };
    assert_eq!(text_in("SELECT 1 /*!99999 , 2 */", old), "SELECT ?");
    assert_eq!(text_in("SELECT 1 /*!80000 , a */", old), "SELECT ?,a");
    let gbk = Dialect { charset: Charset::Gbk, ..Dialect::default() };
    let digest = digest(b"SELECT '\x81\x5C', a", gbk, DIGEST_LIMIT);
    assert_eq!(digest.text, b"SELECT ?,a");
}

#[test]
fn the_text_is_cut_between_characters() {
    let long = format!("SELECT {}", "\u{e9}".repeat(2000));
    let digest = digest(long.as_bytes(), Dialect::default(), 100);
    assert_eq!(digest.text.len(), 99);
    assert!(String::from_utf8(digest.text).is_ok());
    assert_eq!(text(&format!("SELECT {}", "a".repeat(3000))).len(), DIGEST_LIMIT);
}

#[test]
fn numbers_of_digests_are_read_as_they_are_written() {
    let hash = DigestHash(0x0879_5263_00B5_BE2D);
    assert_eq!(hash.to_string(), "0x0879526300B5BE2D");
    for text in ["0x0879526300B5BE2D", "0879526300b5be2d", "0X879526300B5BE2D"] {
        assert_eq!(DigestHash::parse(text), Some(hash), "{text}");
    }
    for text in ["", "0x", "0x00879526300B5BE2D", "+1", "g", "0x1 "] {
        assert_eq!(DigestHash::parse(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn any_bytes_have_a_digest(bytes in proptest::collection::vec(any::<u8>(), 0..300), limit in 0..200_usize) {
        let digest = digest(&bytes, Dialect::default(), limit);
        prop_assert!(digest.text.len() <= limit);
    }

    #[test]
    fn values_do_not_matter(a in 0..1_000_000_u32, b in "[a-z ,();-]{0,20}") {
        let one = text(&format!("SELECT x FROM t WHERE a = {a} AND b IN ('{b}', -{a}) -- {a}"));
        prop_assert_eq!(one, "SELECT x FROM t WHERE a = ? AND b IN (?,?)");
    }

    #[test]
    fn a_digest_is_its_own_digest(sql in "(SELECT|INSERT) [a-z0-9 ,()'=-]{0,60}") {
        let once = text(&sql);
        // `---1` loses the sign of its number, and what is left begins a comment.
        prop_assume!(!once.contains("--"));
        prop_assert_eq!(text(&once), once.clone());
    }
}
