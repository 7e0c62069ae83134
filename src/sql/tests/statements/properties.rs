//! What holds for every text.

use crate::{
    classes::rows,
    spell::{bytes, dialect, spelled},
};
use proptest::prelude::*;
use sql::{
    Charset, ConnectionId, Dialect, Kind, Lexer, Server, Vendor, connection_ids, kill,
    may_name_connection_id, peek, statement,
};

fn any_dialect() -> impl Strategy<Value = Dialect> {
    let vendor = prop_oneof![Just(Vendor::MySql), Just(Vendor::MariaDb)];
    let server = proptest::option::of(
        (vendor, 50_000..120_000_u32).prop_map(|(vendor, version)| Server { vendor, version }),
    );
    let charset = prop_oneof![
        Just(Charset::AsciiSafe),
        Just(Charset::Gbk),
        Just(Charset::Sjis),
        Just(Charset::Big5)
    ];
    (any::<bool>(), any::<bool>(), server, charset).prop_map(
        |(ansi_quotes, no_backslash_escapes, server, charset)| Dialect {
            ansi_quotes,
            no_backslash_escapes,
            server,
            charset,
            unsure: false,
        },
    )
}

/// Random bytes, and random heaps of what statements are made of.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "SELECT ",
        "WITH ",
        "x AS (",
        "(",
        ")",
        "FOR ",
        "UPDATE ",
        "SET ",
        "STATEMENT ",
        "EXPLAIN ",
        "ANALYZE ",
        "USE ",
        "BEGIN ",
        "END ",
        "CASE ",
        "CREATE PROCEDURE ",
        "IF ",
        ";",
        ",",
        ".",
        "'",
        "\"",
        "`",
        "\\",
        "\n",
        " ",
        "/*",
        "*/",
        "/*!",
        "/*!80000 ",
        "/*M!",
        "/*+",
        "-- ",
        "#",
        "@",
        "@@",
        "a",
        "f",
        "1",
        "1e",
        "0x",
        "=",
        ":=",
        "\u{e9}",
        "\0",
        "autocommit",
        "as",
        "connection_ID",
        "()",
        "@@pseudo_thread_id",
        "KILL ",
    ]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        prop::collection::vec(pieces, 0..60).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}

/// A statement of the table and its dialect.
fn any_row() -> impl Strategy<Value = (Vec<u8>, Dialect)> {
    let all: Vec<_> =
        rows().map(|(_, _, settings, line)| (bytes(line), dialect(settings))).collect();
    prop::sample::select(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn spans_are_ordered_and_leave_out_nothing_but_blanks(
        text in any_text(), dialect in any_dialect()
    ) {
        let mut end = 0;
        for token in Lexer::new(&text, dialect) {
            prop_assert!(end <= token.start && token.start < token.end && token.end <= text.len());
            prop_assert!(text[end..token.start].iter().all(|byte| b" \t\n\x0b\x0c\r".contains(byte)));
            prop_assert_eq!(token.of(&text).len(), token.span().len());
            end = token.end;
        }
        prop_assert!(text[end..].iter().all(|byte| b" \t\n\x0b\x0c\r".contains(byte)));
    }

    #[test]
    fn any_bytes_get_an_answer(text in any_text(), dialect in any_dialect()) {
        let found = statement(&text, dialect);
        if let Some(schema) = found.schema_change.clone() {
            prop_assert!(text.get(schema).is_some());
            prop_assert!(found.new_schema(&text).is_some());
        }
        peek(&text);
    }

    #[test]
    fn doubt_is_never_a_read(text in any_text(), dialect in any_dialect()) {
        let mut lexer = Lexer::new(&text, dialect);
        lexer.by_ref().for_each(drop);
        if lexer.is_doubtful() {
            prop_assert!(!statement(&text, dialect).any_server());
        }
    }

    #[test]
    fn a_comment_between_tokens_changes_nothing(
        (text, dialect) in any_row(),
        comments in prop::collection::vec(
            prop::sample::select(
                vec!["", "", " /* ; DELETE ' */ ", "/**/ ", " # \" `\n", " -- ; '\n", "\t", " /*+ x */ "]
            ),
            40,
        ),
    ) {
        let (mut changed, mut end) = (Vec::new(), 0);
        for (token, comment) in Lexer::new(&text, dialect).zip(comments.iter().cycle()) {
            changed.extend_from_slice(&text[end..token.start]);
            changed.extend_from_slice(comment.as_bytes());
            changed.extend_from_slice(token.of(&text));
            end = token.end;
        }
        changed.extend_from_slice(&text[end..]);
        let (before, after) = (statement(&text, dialect), statement(&changed, dialect));
        prop_assert_eq!(before.verb, after.verb);
        prop_assert_eq!(spelled(&before, &text), spelled(&after, &changed));
    }

    #[test]
    fn case_changes_nothing((text, dialect) in any_row(), upper in any::<u64>()) {
        let mut changed = text.clone();
        for token in Lexer::new(&text, dialect) {
            if matches!(token.kind, Kind::Word | Kind::SystemVariable | Kind::UserVariable) {
                for at in token.span() {
                    let byte = &mut changed[at];
                    *byte = if upper >> (at % 64) & 1 == 1 {
                        byte.to_ascii_uppercase()
                    } else {
                        byte.to_ascii_lowercase()
                    };
                }
            }
        }
        let (before, after) = (statement(&text, dialect), statement(&changed, dialect));
        prop_assert_eq!(before.verb, after.verb);
        prop_assert_eq!(
            spelled(&before, &text).to_lowercase(),
            spelled(&after, &changed).to_lowercase()
        );
    }

    #[test]
    fn a_statement_behind_it_makes_anything_a_write_or_unknown((text, dialect) in any_row()) {
        let mut lexer = Lexer::new(&text, dialect);
        lexer.by_ref().for_each(drop);
        let mut both = text.clone();
        both.extend_from_slice(b"\n;DELETE FROM t");
        let found = statement(&both, dialect);
        prop_assert!(!found.any_server());
        prop_assert!(found.multi || lexer.is_doubtful());
    }

    #[test]
    fn connection_ids_are_where_they_are_said_to_be(text in any_text(), dialect in any_dialect()) {
        let found = connection_ids(&text, dialect);
        let some = found.assigned || !found.read.is_empty();
        prop_assert!(!some || may_name_connection_id(&text));
        let mut end = 0;
        for id in found.read {
            let (start, stop) = match id {
                ConnectionId::Call { name, open, close } => {
                    let bare = text[name.clone()].to_ascii_lowercase();
                    prop_assert!(bare == b"connection_id" || bare == b"`connection_id`");
                    prop_assert!(name.end <= open && open < close);
                    prop_assert_eq!((text[open], text[close]), (b'(', b')'));
                    (name.start, close + 1)
                }
                ConnectionId::Variable(span) => (span.start, span.end),
            };
            prop_assert!(end <= start && start < stop && stop <= text.len());
            end = stop;
        }
    }

    #[test]
    fn a_kill_with_another_id_is_the_same_kill(
        text in any_text(), kept in 0..4_usize, id: u64, dialect in any_dialect()
    ) {
        let tail = &text[..kept.min(text.len())];
        let text = [format!("KILL {id} ").as_bytes(), tail].concat();
        if let Some(found) = kill(&text, dialect) {
            prop_assert_eq!(found.id, id);
            let (before, after) = (&text[..found.span.start], &text[found.span.end..]);
            let other = kill(&[before, b"17", after].concat(), dialect).unwrap();
            prop_assert_eq!((other.query, other.id), (found.query, 17));
        }
    }
}
