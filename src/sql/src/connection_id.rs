//! Where a text asks for the id of the connection that it runs on.

use crate::{
    Dialect, Span, Verb,
    cursor::Cursor,
    lexer::{Kind, Lexer, Token},
    words::Words,
};
use memchr::memchr_iter;

/// A place where a text reads the connection's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionId {
    /// `CONNECTION_ID()`. Blanks and comments may stand between the three.
    Call {
        /// The name, with its backticks if it has some.
        name: Span,
        /// Where `(` is.
        open: usize,
        /// Where `)` is.
        close: usize,
    },
    /// `@@pseudo_thread_id`, perhaps with `session.` or `local.`, in one piece.
    Variable(Span),
}

/// What a text has to do with the connection's id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionIds {
    /// Where it is read, in the text's order.
    pub read: Vec<ConnectionId>,
    /// A `SET` gives `pseudo_thread_id` a value, and from then on CONNECTION_ID() as well.
    pub assigned: bool,
}

/// Whether [`connection_ids`] may find something in `text`: a fast no for almost every text.
pub fn may_name_connection_id(text: &[u8]) -> bool {
    memchr_iter(b'_', text).any(|at| {
        let (before, after) = text.split_at(at);
        let is_id = matches!(after, [_, b'i' | b'I', b'd' | b'D', ..]);
        is_id && (ends_with(before, b"connection") || ends_with(before, b"pseudo_thread"))
    })
}

/// Finds where `text` reads the connection's id, so that another value may take its place.
///
/// It finds nothing
///
/// * from a `CREATE` or `ALTER` on, whose text is kept and runs on other connections,
/// * in a `KILL`, for which there is [`kill`](crate::kill()),
/// * in a text that also names something that lists or takes the server's ids (`processlist`,
///   `innodb_trx`, `IS_USED_LOCK()`, ...): to be compared with those it has to be one,
/// * in a text that a server may cut in another way.
///
/// Sources: MySQL manual and MariaDB manual, "CONNECTION_ID()", "pseudo_thread_id".
pub fn connection_ids(text: &[u8], dialect: Dialect) -> ConnectionIds {
    let mut cursor = Cursor::new(Lexer::new(text, dialect));
    let mut found = ConnectionIds::default();
    let mut verb = None;
    let mut before = None;
    while let Some(token) = cursor.next() {
        if token.kind == Kind::Semicolon {
            (verb, before) = (None, None);
            continue;
        }
        if verb.is_none() && token.kind != Kind::Open {
            verb = Some(Verb::of(cursor.of(token)));
        }
        match verb {
            Some(Verb::Create | Verb::Alter) => break,
            Some(Verb::Kill) => continue,
            _ => {}
        }
        match token.kind {
            Kind::Word | Kind::QuotedName => {
                let word = unquoted(cursor.of(token));
                match NAMES.get(word) {
                    Some(Name::ServersIds) => return ConnectionIds::default(),
                    Some(Name::Function) if !is_name_behind(before, &cursor) => {
                        found.read.extend(call(token, &cursor));
                    }
                    Some(Name::Variable) => found.assigned |= verb == Some(Verb::Set),
                    _ => {}
                }
            }
            Kind::SystemVariable if is_pseudo_thread_id(cursor.of(token)) => {
                if verb == Some(Verb::Set) && is_assignment(&cursor) {
                    found.assigned = true;
                } else {
                    found.read.push(ConnectionId::Variable(token.span()));
                }
            }
            _ => {}
        }
        before = Some(token);
    }
    if cursor.is_doubtful() { ConnectionIds::default() } else { found }
}

#[derive(Clone, Copy)]
enum Name {
    /// CONNECTION_ID.
    Function,
    /// `pseudo_thread_id` without `@@`.
    Variable,
    /// Something that has the servers' ids in it.
    ServersIds,
    /// What stands behind this word is no call.
    NoCallBehind,
}

static NAMES: Words<Name, 64> = Words::new(&[
    (Name::Function, &["connection_id"]),
    (Name::Variable, &["pseudo_thread_id"]),
    (
        Name::ServersIds,
        &[
            "processlist",
            "processlist_id",
            "threads",
            "thread_id",
            "conn_id",
            "innodb_trx",
            "trx_mysql_thread_id",
            "innodb_lock_waits",
            "schema_table_lock_waits",
            "metadata_lock_info",
            "general_log",
            "slow_log",
            "is_used_lock",
            "ps_thread_id",
        ],
    ),
    (Name::NoCallBehind, &["from", "join", "into", "insert", "replace", "ignore", "call", "as"]),
]);

/// Whether a name behind `before` is that of a table, a procedure or a column.
fn is_name_behind(before: Option<Token>, cursor: &Cursor<'_>) -> bool {
    before.is_some_and(|token| match token.kind {
        Kind::Dot => true,
        Kind::Word => matches!(NAMES.get(cursor.of(token)), Some(Name::NoCallBehind)),
        _ => false,
    })
}

/// The call whose name is `name`, if an empty pair of parentheses is ahead.
fn call(name: Token, cursor: &Cursor<'_>) -> Option<ConnectionId> {
    let mut ahead = cursor.clone();
    let open = ahead.next().filter(|token| token.kind == Kind::Open)?;
    let close = ahead.next().filter(|token| token.kind == Kind::Close)?;
    Some(ConnectionId::Call { name: name.span(), open: open.start, close: close.start })
}

fn is_assignment(cursor: &Cursor<'_>) -> bool {
    cursor.ahead().is_some_and(|token| matches!(cursor.of(token), b"=" | b":="))
}

fn is_pseudo_thread_id(variable: &[u8]) -> bool {
    let mut parts = variable.get(2..).unwrap_or_default().split(|&byte| byte == b'.');
    let is = |part: &[u8], name: &str| unquoted(part).eq_ignore_ascii_case(name.as_bytes());
    match (parts.next(), parts.next(), parts.next()) {
        (Some(name), None, _) => is(name, "pseudo_thread_id"),
        (Some(scope), Some(name), None) => {
            (is(scope, "session") || is(scope, "local")) && is(name, "pseudo_thread_id")
        }
        _ => false,
    }
}

fn unquoted(name: &[u8]) -> &[u8] {
    name.strip_prefix(b"`").and_then(|name| name.strip_suffix(b"`")).unwrap_or(name)
}

fn ends_with(text: &[u8], word: &[u8]) -> bool {
    let tail = text.len().checked_sub(word.len()).and_then(|start| text.get(start..));
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::{ConnectionId, connection_ids, may_name_connection_id};
    use crate::{Dialect, Server, Vendor};

    /// What is found, as the pieces of text; `SET` for an assignment.
    fn found(text: &str) -> Vec<String> {
        let server = Some(Server { vendor: Vendor::MariaDb, version: 101_106 });
        let ids = connection_ids(text.as_bytes(), Dialect { server, ..Dialect::default() });
        let read = ids.read.into_iter().map(|id| match id {
            ConnectionId::Call { name, close, .. } => text[name.start..=close].to_owned(),
            ConnectionId::Variable(span) => text[span].to_owned(),
        });
        read.chain(ids.assigned.then(|| "SET".into())).collect()
    }

    #[test]
    fn calls_are_found_as_servers_take_them() {
        for (text, expected) in [
            ("SELECT CONNECTION_ID()", vec!["CONNECTION_ID()"]),
            ("select Connection_Id ( ), 1", vec!["Connection_Id ( )"]),
            ("SELECT CONNECTION_ID/*a*/(/*b*/ -- c\n)", vec!["CONNECTION_ID/*a*/(/*b*/ -- c\n)"]),
            ("SELECT `connection_id`()", vec!["`connection_id`()"]),
            ("SELECT /*!50000 CONNECTION_ID() */", vec!["CONNECTION_ID()"]),
            ("SELECT /*!50000 CONNECTION_ID*/()", vec!["CONNECTION_ID*/()"]),
            (
                "DO CONNECTION_ID();SELECT connection_id()",
                vec!["CONNECTION_ID()", "connection_id()"],
            ),
            (
                "SET @a = CONNECTION_ID(), @b = @@pseudo_thread_id",
                vec!["CONNECTION_ID()", "@@pseudo_thread_id"],
            ),
            (
                "SELECT @@session.pseudo_thread_id, @@`LOCAL`.`pseudo_thread_ID`",
                vec!["@@session.pseudo_thread_id", "@@`LOCAL`.`pseudo_thread_ID`"],
            ),
            ("(SELECT CONNECTION_ID())", vec!["CONNECTION_ID()"]),
            ("INSERT INTO t VALUES (CONNECTION_ID())", vec!["CONNECTION_ID()"]),
        ] {
            assert_eq!(found(text), expected, "{text}");
            assert!(may_name_connection_id(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_one_is_left_alone() {
        for text in [
            "SELECT 'CONNECTION_ID()', \"CONNECTION_ID()\" -- CONNECTION_ID()",
            "SELECT `CONNECTION_ID()`, connection_id, /* CONNECTION_ID() */ 1 # CONNECTION_ID()",
            "SELECT /*!120000 CONNECTION_ID() */ 1",
            "SELECT CONNECTION_ID(1), a.connection_id(), my_connection_id(), connection_id2()",
            "INSERT INTO connection_id() VALUES ()",
            "CALL connection_id()",
            "SELECT @@global.pseudo_thread_id, @@a.b.pseudo_thread_id, @pseudo_thread_id",
            "SELECT CONNECTION_ID(), 'open",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn what_is_kept_or_has_servers_ids_is_left_alone() {
        for text in [
            "CREATE VIEW v AS SELECT CONNECTION_ID()",
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT CONNECTION_ID(); END",
            "ALTER TABLE t ADD x INT DEFAULT (CONNECTION_ID())",
            "KILL CONNECTION_ID()",
            "KILL QUERY @@pseudo_thread_id",
            "SELECT * FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()",
            "SELECT IS_USED_LOCK('x') = CONNECTION_ID()",
            "SELECT CONNECTION_ID() = `trx_mysql_thread_id` FROM information_schema.innodb_trx",
        ] {
            assert_eq!(found(text), Vec::<String>::new(), "{text}");
        }
        let text = "SELECT CONNECTION_ID(); CREATE VIEW v AS SELECT CONNECTION_ID()";
        assert_eq!(found(text), ["CONNECTION_ID()"]);
    }

    #[test]
    fn assignments_are_seen() {
        for text in [
            "SET pseudo_thread_id = 5",
            "SET @@session.pseudo_thread_id:=5/*!*/",
            "SET autocommit = 1, SESSION `pseudo_thread_id` = 7",
            "SELECT 1; SET @@pseudo_thread_id = 5",
        ] {
            assert_eq!(found(text), ["SET"], "{text}");
            assert!(may_name_connection_id(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn most_texts_are_known_to_have_none() {
        for text in
            ["", "_", "_id", "SELECT user_id, disconnection_i FROM t", "connection", "thread_id"]
        {
            assert!(!may_name_connection_id(text.as_bytes()), "{text}");
        }
    }
}
