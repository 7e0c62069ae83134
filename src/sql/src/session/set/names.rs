//! `SET NAMES` and `SET CHARACTER SET`.

use super::{is_mariadb, is_mysql};
use crate::{
    Dialect,
    cursor::Cursor,
    lexer::{Kind, Token},
    session::{Assignment, Cell, Class, Target, Unreadable, Value, ValueKind, bytes, value},
};

/// `NAMES charset [COLLATE collation]`.
pub(super) fn names(cursor: &mut Cursor<'_>, dialect: Dialect) -> Result<Assignment, Unreadable> {
    let keyword = cursor.next_here().ok_or(Unreadable::Grammar)?;
    let charset = word(cursor)?;
    let mut value = Value::word(kind(cursor, charset), charset.span());
    let mut reads = Vec::new();
    if cursor.accept("collate") {
        let collation = word(cursor)?;
        value.kind = value.kind.min(kind(cursor, collation));
        value.span.end = collation.end;
    } else {
        // Which collation a charset has then is a variable's to say.
        let utf8mb4 = |text: &[u8]| text.to_ascii_lowercase().ends_with(b"utf8mb4");
        let named = value.kind == ValueKind::Literal;
        if !is_mariadb(dialect) && (!named || utf8mb4(super::bare(cursor.of(charset)))) {
            reads.push(Cell::System("default_collation_for_utf8mb4".into()));
        }
        if !is_mysql(dialect) {
            reads.push(Cell::System("character_set_collations".into()));
        }
    }
    Ok(finish(cursor, keyword, Target::Names, value, reads))
}

/// `{CHARACTER SET | CHAR SET | CHARSET} charset`: the connection's collation becomes the schema's.
pub(super) fn character_set(cursor: &mut Cursor<'_>) -> Result<Assignment, Unreadable> {
    let keyword = cursor.next_here().ok_or(Unreadable::Grammar)?;
    let whole = cursor.of(keyword).eq_ignore_ascii_case(b"charset");
    if !whole && !cursor.accept("set") {
        return Err(Unreadable::Grammar);
    }
    let charset = word(cursor)?;
    // Also for a literal: the outcome depends on the schema.
    let value = Value::word(kind(cursor, charset), charset.span());
    let reads = vec![Cell::Schema, Cell::COLLATION_DATABASE];
    let part = finish(cursor, keyword, Target::CharacterSet, value, reads);
    Ok(Assignment { class: Class::Environment, ..part })
}

fn finish(
    cursor: &Cursor<'_>,
    keyword: Token,
    target: Target,
    value: Value,
    mut reads: Vec<Cell>,
) -> Assignment {
    value::text_reads(bytes(cursor, &value.span), false, &mut reads);
    let class = match value.kind {
        ValueKind::Literal => Class::Const,
        _ => Class::Environment,
    };
    let span = keyword.start..value.span.end;
    let writes = vec![Cell::CharsetClient, Cell::CharsetResults, Cell::CollationConnection];
    Assignment { span, target, value, class, reads, writes }
}

fn word(cursor: &mut Cursor<'_>) -> Result<Token, Unreadable> {
    let name = |kind| matches!(kind, Kind::Word | Kind::QuotedName | Kind::String);
    cursor.next_here().filter(|token| name(token.kind)).ok_or(Unreadable::Grammar)
}

fn kind(cursor: &Cursor<'_>, token: Token) -> ValueKind {
    let default = token.kind == Kind::Word && cursor.of(token).eq_ignore_ascii_case(b"default");
    if default { ValueKind::Default } else { ValueKind::Literal }
}
