//! Any bytes, in any dialect: spans are in order, doubt is never a read, a second statement is seen,
//! a digest is no longer than it may be, a comment is whole.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sql::{
    Charset, Dialect, Lexer, Server, Vendor, comments, connection_ids, digest, kill,
    may_name_connection_id, peek, statement,
};

fuzz_target!(|input: (u8, u8, &[u8])| {
    let (flags, version, text) = input;
    let dialect = dialect(flags, version);

    let mut lexer = Lexer::new(text, dialect);
    let mut end = 0;
    for token in lexer.by_ref() {
        assert!(end <= token.start && token.start < token.end && token.end <= text.len());
        end = token.end;
    }

    // Found as the lexer finds them, and each is whole.
    let mut end = 0;
    for comment in comments(text, dialect) {
        assert!(end <= comment.span.start && comment.span.end <= text.len());
        assert!(comment.span.start < comment.inner.start && comment.inner.end <= comment.span.end);
        assert!(comment.inner.start <= comment.inner.end);
        end = comment.span.end;
    }

    peek(text);
    assert!(digest(text, dialect, usize::from(version)).text.len() <= usize::from(version));
    let ids = connection_ids(text, dialect);
    assert!(may_name_connection_id(text) || (ids.read.is_empty() && !ids.assigned));
    assert!(kill(text, dialect).is_none_or(|found| text.get(found.span).is_some()));
    sql::reading(text, dialect, flags & 128 != 0);
    sql::is_repeatable(text, dialect);
    let found = statement(text, dialect);
    assert!(!(lexer.is_doubtful() && found.any_server()));
    assert!(!(found.multi && found.any_server()));
    if let Some(schema) = &found.schema_change {
        assert!(text.get(schema.clone()).is_some() && found.new_schema(text).is_some());
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
