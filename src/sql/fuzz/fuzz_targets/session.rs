//! Any bytes, in any dialect: every place that is named is in the text, doubt is never read, and the
//! session's own part of a SET is the session's alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sql::{
    Charset, Dialect, Lexer, Server, Vendor,
    session::{Effect, session_command, user_variables},
};

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (flags, version, text) = input;
    let dialect = dialect(flags, version);
    let mut lexer = Lexer::new(text, dialect);
    lexer.by_ref().for_each(drop);

    let found = session_command(text, dialect);
    user_variables(text, dialect);
    assert!(!lexer.is_doubtful() || found.steps().is_empty());
    let mut end = 0;
    for step in found.steps() {
        assert!(end <= step.span.start && step.span.start < step.span.end);
        assert!(step.span.end <= text.len());
        end = step.span.end;
        for part in step.assignments() {
            assert!(step.span.start <= part.span.start && part.span.end <= step.span.end);
            assert!(part.span.start <= part.value.span.start);
            assert!(part.value.span.end <= part.span.end);
        }
        if let Some(own) = step.own_text(text) {
            let Effect::Steps(again) = session_command(&own, dialect) else {
                panic!("it cannot be read alone")
            };
            assert!(again.len() == 1 && !again[0].is_mixed());
            assert!(again[0].class == step.class && again[0].writes == step.writes);
        }
    }
});

fn dialect(flags: u8, version: u8) -> Dialect {
    let vendor = if flags & 4 == 0 { Vendor::MySql } else { Vendor::MariaDb };
    let server = Server { vendor, version: 50_000 + u32::from(version) * 300 };
    Dialect {
        ansi_quotes: flags & 1 != 0,
        no_backslash_escapes: flags & 2 != 0,
        server: (flags & 8 != 0).then_some(server),
        charset: match flags >> 4 & 3 {
            0 => Charset::AsciiSafe,
            1 => Charset::Gbk,
            2 => Charset::Sjis,
            _ => Charset::Big5,
        },
        unsure: flags & 64 != 0,
    }
}
