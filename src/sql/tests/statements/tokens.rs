//! How texts are cut.

use crate::spell::{bytes, dialect};
use sql::{Kind, Lexer};

/// The tokens of a text as `kind:text`, separated by blanks.
fn cut(line: &str, settings: &str) -> String {
    let text = bytes(line);
    let tokens = Lexer::new(&text, dialect(settings)).map(|token| {
        let name = match token.kind {
            Kind::Word => "w",
            Kind::QuotedName => "q",
            Kind::String => "s",
            Kind::Introducer => "i",
            Kind::Number => "n",
            Kind::UserVariable => "u",
            Kind::SystemVariable => "v",
            Kind::Placeholder
            | Kind::Open
            | Kind::Close
            | Kind::Comma
            | Kind::Dot
            | Kind::Semicolon
            | Kind::Operator => "o",
            Kind::Comment => "c",
            Kind::Hint => "h",
            Kind::SkippedCode => "skip",
            Kind::CodeStart => "start",
            Kind::CodeEnd => "end",
        };
        format!("{name}:{}", String::from_utf8_lossy(token.of(&text)))
    });
    tokens.collect::<Vec<_>>().join(" ")
}

#[test]
fn texts_are_cut_as_servers_cut_them() {
    for (settings, text, expected) in [
        ("", "SELECT a1,$b", "w:SELECT w:a1 o:, w:$b"),
        ("", "a.1b.`c`.2e3", "w:a o:. w:1b o:. q:`c` o:. w:2e3"),
        (
            "",
            "1 1.5 .5 1. 1e9 1E-9 1e 1ex 12ab 0xFF 0xG 0b01 0b2",
            "n:1 n:1.5 n:.5 n:1. n:1e9 n:1E-9 w:1e w:1ex w:12ab n:0xFF w:0xG n:0b01 w:0b2",
        ),
        ("", "1e9x", "n:1e9 w:x"),
        ("", "-1 - -2", "o:- n:1 o:- o:- n:2"),
        ("", "'a''b' 'a\\'b' \"a\"\"b\"", "s:'a''b' s:'a\\'b' s:\"a\"\"b\""),
        ("", "'a\\\\'", "s:'a\\'"),
        (
            "",
            "N'a' n 'a' _utf8'a' _utf8 'a' x'4D' b'1' SELECT'a'",
            "i:N s:'a' w:n s:'a' i:_utf8 s:'a' w:_utf8 s:'a' i:x s:'4D' i:b s:'1' w:SELECT s:'a'",
        ),
        ("", "`a``b`", "q:`a``b`"),
        (
            "",
            "@a @a.b$ @'x y' @`x``y` @@a @@global.b @@`c`.d @",
            "u:@a u:@a.b$ u:@'x y' u:@`x``y` v:@@a v:@@global.b v:@@`c`.d u:@",
        ),
        ("", "u@'%'", "w:u u:@'%'"),
        (
            "",
            "a:=1<=>2->>3->4||5&&6<>7!=8>=9<<1",
            concat!(
                "w:a o::= n:1 o:<=> n:2 o:->> n:3 o:-> n:4 o:|| n:5 o:&& n:6 o:<> n:7 o:!= n:8 o:>= n:9 ",
                "o:<< n:1"
            ),
        ),
        ("", "?;?", "o:? o:; o:?"),
        ("", "a -- b\\nc", "w:a c:-- b w:c"),
        ("", "a --\\nc --", "w:a c:-- w:c c:--"),
        ("", "5--1", "n:5 o:- o:- n:1"),
        ("", "a # b\\nc", "w:a c:# b w:c"),
        ("", "a/* ' */b/**/c/*/d*/", "w:a c:/* ' */ w:b c:/**/ w:c c:/*/d*/"),
        ("", "a/b*c*/d", "w:a o:/ w:b o:* w:c o:* o:/ w:d"),
        ("", "/*+ X(1) */ a", "h:/*+ X(1) */ w:a"),
        (
            "",
            "/*!a*/ /*!40101 b*/ /*!50700c*/ /*M!100100d*/",
            concat!(
                "start:/*! w:a end:*/ start:/*!40101 w:b end:*/ start:/*!50700 w:c end:*/ ",
                "start:/*M!100100 w:d end:*/"
            ),
        ),
        ("", "/*!40101 a /* b */ c */ d", "start:/*!40101 w:a c:/* b */ w:c end:*/ w:d"),
        ("", "/*!1234 a*/", "start:/*! n:1234 w:a end:*/"),
        (
            "mysql 8.4.3",
            "/*!80403a*/ /*!80404 a /* b */ c */ d",
            "start:/*!80403 w:a end:*/ skip:/*!80404 a /* b */ c */ w:d",
        ),
        (
            "mysql 8.4.3",
            "/*!080403 a*/ /*M!50000 b*/",
            "start:/*!080403 w:a end:*/ c:/*M!50000 b*/",
        ),
        (
            "mariadb 10.11.6",
            "/*!50699a*/ /*!50700 b*/ /*!99999 c*/ /*!101106d*/",
            "start:/*!50699 w:a end:*/ skip:/*!50700 b*/ skip:/*!99999 c*/ start:/*!101106 w:d end:*/",
        ),
        (
            "mariadb 10.11.6",
            "/*M!50700 a*/ /*M!101107 b*/",
            "start:/*M!50700 w:a end:*/ skip:/*M!101107 b*/",
        ),
        ("ansi_quotes", "\"a\\\\\" _utf8\"b\" @\"c\"", "q:\"a\\\" w:_utf8 q:\"b\" u:@\"c\""),
        ("no_backslash_escapes", "'a\\\\' \"b\\\\\"", "s:'a\\' s:\"b\\\""),
        ("", "'open", "s:'open"),
        ("", "'a\\\\", "s:'a\\"),
        ("", "/* open", "c:/* open"),
        ("", "", ""),
    ] {
        assert_eq!(cut(text, settings), expected, "{text}");
    }
}

#[test]
fn halves_of_characters_are_neither_quotes_nor_backslashes() {
    for (settings, character) in
        [("gbk", "\\xbf\\\\"), ("sjis", "\\x83\\\\"), ("big5", "\\xa5\\\\")]
    {
        let text = bytes(&format!("'{character}' a{character}b `{character}` c"));
        let kinds: Vec<_> = Lexer::new(&text, dialect(settings)).map(|token| token.kind).collect();
        assert_eq!(kinds, [Kind::String, Kind::Word, Kind::QuotedName, Kind::Word], "{settings}");
    }
}

#[test]
fn what_servers_may_cut_otherwise_is_doubted() {
    for (settings, text, doubtful) in [
        ("", "SELECT 'a' /* b */", false),
        ("", "caf\\xc3\\xa9", false),
        ("", "'caf\\xe9'", false),
        ("", "caf\\xe9", true),
        ("gbk", "\\xbf\\\\", false),
        ("gbk", "a\\xbf ", true),
        ("", "'a", true),
        ("", "`a", true),
        ("", "/* a", true),
        ("", "/*! a", true),
        ("", "a\\x00", true),
        ("", "[a]", true),
        ("", "/*!50699 a */", false),
        ("", "/*!50700 a */", true),
        ("", "/*M! a */", true),
        ("mysql 8.4.3", "/*!50700 a */ /*M! b */", false),
        ("", "/*+ QB_NAME(`a`) */", false),
        ("", "/*+ QB_NAME(`*/", true),
    ] {
        let text = bytes(text);
        let mut lexer = Lexer::new(&text, dialect(settings));
        lexer.by_ref().for_each(drop);
        assert_eq!(lexer.is_doubtful(), doubtful, "{}", String::from_utf8_lossy(&text));
    }
}
