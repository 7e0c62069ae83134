//! What holds for every text.

use crate::{
    spell::{dialects, spelled},
    table::rows,
    texts::bytes,
};
use proptest::prelude::*;
use sql::{
    Charset, Dialect, Kind, Lexer, Server, Span, Vendor,
    session::{Action, Effect, Source, Step, Target, session_command, user_variables},
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
    (any::<bool>(), any::<bool>(), server, charset, any::<bool>()).prop_map(
        |(ansi_quotes, no_backslash_escapes, server, charset, unsure)| Dialect {
            ansi_quotes,
            no_backslash_escapes,
            server,
            charset,
            unsure,
        },
    )
}

/// Random bytes, and random heaps of what session commands are made of.
fn any_text() -> impl Strategy<Value = Vec<u8>> {
    #[rustfmt::skip]
    let pieces = prop::sample::select(vec![
        "SET ", "SET ", "SET @a = ", "SESSION ", "GLOBAL ", "LOCAL ", "@@", "@@global.", "@@session.",
        "NAMES ", "CHARACTER SET ", "COLLATE ", "TRANSACTION ", "READ ONLY", "ISOLATION LEVEL ",
        "ROLE ", "DEFAULT ", "PASSWORD ", "RESOURCE GROUP ", "STATEMENT ", "FOR ", "USE ", "PREPARE ",
        "FROM ", "EXECUTE ", "USING ", "DEALLOCATE PREPARE ", "DROP ", "TABLE ", "CREATE TEMPORARY TABLE ",
        "ALTER TABLE ", "RENAME ", "TO ", "HANDLER ", "OPEN ", "CLOSE", "LOCK TABLES ", "XA START ",
        "CALL ", "BEGIN ", "END ", "CREATE PROCEDURE ", "SELECT ", "INTO ", "GET_LOCK(", "@a", "@`b`",
        "sql_mode", "autocommit", "x", "p", "latin1", "=", ":=", ",", ";", "(", ")", ".", "'", "\"",
        "`", "\\", "1", "'s'", " ", "\n", "/*", "*/", "/*!40101 ", "/*M!", "-- ", "#", "?", "\u{e9}",
        "\0", "NOW()", "CONCAT(", "LAST_INSERT_ID(",
    ]);
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..100),
        (prop::collection::vec(any::<u8>(), 0..60))
            .prop_map(|bytes| [b"SET ".as_slice(), &bytes].concat()),
        prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}

/// A text of the table and a dialect of its row.
fn any_row() -> impl Strategy<Value = (Vec<u8>, Dialect)> {
    let all: Vec<_> = rows()
        .flat_map(|(_, _, settings, line)| {
            dialects(settings).into_iter().map(move |dialect| (bytes(line), dialect))
        })
        .collect();
    prop::sample::select(all)
}

/// All places in a text that a step names, from the widest to the narrowest.
fn spans(step: &Step) -> Vec<Span> {
    let mut spans = vec![step.span.clone()];
    match &step.action {
        Action::Set(parts) => {
            for part in parts {
                spans.extend([part.span.clone(), part.value.span.clone()]);
                match &part.target {
                    Target::User { name } | Target::System { name, .. } => spans.push(name.clone()),
                    _ => {}
                }
            }
        }
        Action::Use { schema: name } | Action::Execute { name } | Action::Deallocate { name } => {
            spans.push(name.clone())
        }
        Action::Prepare { name, source } => {
            let (Source::Literal(text) | Source::Variable(text) | Source::Expression(text)) =
                source;
            spans.extend([name.clone(), text.clone()]);
        }
        Action::Work => {}
    }
    spans
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_bytes_get_an_answer(text in any_text(), dialect in any_dialect()) {
        let found = session_command(&text, dialect);
        user_variables(&text, dialect);
        let mut end = 0;
        for step in found.steps() {
            prop_assert!(end <= step.span.start);
            end = step.span.end;
            for span in spans(step) {
                prop_assert!(step.span.start <= span.start && span.end <= step.span.end);
                prop_assert!(span.start < span.end && text.get(span).is_some());
            }
            let mut end = 0;
            for part in step.assignments() {
                prop_assert!(end <= part.span.start && part.value.span.end <= part.span.end);
                end = part.span.end;
            }
            prop_assert!(step.own_text(&text).is_some() == step.is_mixed());
        }
    }

    #[test]
    fn doubt_is_never_read(text in any_text(), dialect in any_dialect()) {
        let mut lexer = Lexer::new(&text, dialect);
        lexer.by_ref().for_each(drop);
        if lexer.is_doubtful() {
            prop_assert!(session_command(&text, dialect).steps().is_empty());
        }
    }

    #[test]
    fn the_session_s_part_of_a_set_is_one(text in any_text(), dialect in any_dialect()) {
        for step in session_command(&text, dialect).steps() {
            let Some(own) = step.own_text(&text) else { continue };
            let Effect::Steps(again) = session_command(&own, dialect) else {
                return Err(TestCaseError::fail(format!("{}", own.escape_ascii())));
            };
            prop_assert_eq!((again.len(), again[0].is_mixed()), (1, false));
            prop_assert_eq!(again[0].class, step.class);
            prop_assert_eq!(&again[0].writes, &step.writes);
        }
    }

    #[test]
    fn a_comment_between_tokens_changes_nothing(
        (text, dialect) in any_row(),
        comments in prop::collection::vec(
            prop::sample::select(vec!["", "", " /* ; SET , */ ", " # := `\n", " -- ; (\n", "\t"]),
            40,
        ),
    ) {
        let (mut changed, mut end, mut last) = (Vec::new(), 0, None);
        for (token, comment) in Lexer::new(&text, dialect).zip(comments.iter().cycle()) {
            changed.extend_from_slice(&text[end..token.start]);
            // `f (` is not `f(`, `@@a .b` not `@@a.b`, `x 'FF'` not `x'FF'`.
            let joined = matches!(token.kind, Kind::Open | Kind::Dot)
                || matches!(last, Some(Kind::Dot | Kind::Introducer));
            if !joined {
                changed.extend_from_slice(comment.as_bytes());
            }
            changed.extend_from_slice(token.of(&text));
            (end, last) = (token.end, Some(token.kind));
        }
        changed.extend_from_slice(&text[end..]);
        let (before, after) = (session_command(&text, dialect), session_command(&changed, dialect));
        prop_assert_eq!(spelled(&before), spelled(&after));
    }

    #[test]
    fn case_of_keywords_and_names_changes_nothing((text, dialect) in any_row(), upper in any::<u64>()) {
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
        let (before, after) = (session_command(&text, dialect), session_command(&changed, dialect));
        prop_assert_eq!(spelled(&before).to_lowercase(), spelled(&after).to_lowercase());
    }

    #[test]
    fn what_follows_is_seen((text, dialect) in any_row(), second in any_row()) {
        let both = [&text[..], b"\n;", &second.0].concat();
        let first = session_command(&text, dialect);
        let found = session_command(&both, dialect);
        let second = session_command(&second.0, dialect);
        match (first, second) {
            (Effect::Nothing, Effect::Nothing) => {}
            (Effect::Steps(first), Effect::Steps(second)) => {
                let steps = found.steps();
                prop_assert!(steps.is_empty() || steps.len() >= first.len() + second.len());
                prop_assert!(found != Effect::Nothing);
            }
            _ => prop_assert!(found != Effect::Nothing),
        }
    }
}
