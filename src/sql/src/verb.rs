//! The first keyword of a statement.

use crate::{
    Dialect,
    lexer::{Kind, Lexer, is_blank, word_end},
    words::Words,
};

macro_rules! verbs {
    ($($verb:ident $word:literal $(or $synonym:literal)?),+ $(,)?) => {
        /// The keyword that decides what a statement is.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Verb {
            /// None of these words, or no word at all.
            #[default]
            Unknown,
            $(#[doc = concat!("`", $word, "`", $(" or `", $synonym, "`",)? ".")] $verb,)+
        }

        static VERBS: Words<Verb, 256> =
            Words::new(&[$((Verb::$verb, &[$word $(, $synonym)?])),+]);

        impl Verb {
            /// The keyword in lower case, `"unknown"` for [`Verb::Unknown`]: a name for metrics.
            pub fn as_str(self) -> &'static str {
                match self {
                    Self::Unknown => "unknown",
                    $(Self::$verb => $word,)+
                }
            }
        }
    };
}

verbs! {
    Alter "alter", Analyze "analyze", Backup "backup", Begin "begin", Binlog "binlog",
    Cache "cache", Call "call", Change "change", Check "check", Checksum "checksum",
    Clone "clone", Commit "commit", Create "create", Deallocate "deallocate", Delete "delete",
    Describe "describe" or "desc", Do "do", Drop "drop", Execute "execute", Explain "explain",
    Flush "flush", Get "get", Grant "grant", Handler "handler", Help "help", Import "import",
    Insert "insert", Install "install", Kill "kill", Load "load", Lock "lock",
    Optimize "optimize", Prepare "prepare", Purge "purge", Release "release", Rename "rename",
    Repair "repair", Replace "replace", Reset "reset", Resignal "resignal", Restart "restart",
    Revoke "revoke", Rollback "rollback", Savepoint "savepoint", Select "select", Set "set",
    Show "show", Shutdown "shutdown", Signal "signal", Start "start", Stop "stop",
    Table "table", Truncate "truncate", Uninstall "uninstall", Unlock "unlock",
    Update "update", Use "use", Values "values", With "with", Xa "xa",
}

/// The verb of `text`: its first word behind blanks, comments and opening parentheses.
///
/// The fast way for who needs no more. It knows no dialect, so what stands in an executable
/// comment counts; it does not look through `WITH` ([`Verb::With`]) nor `SET STATEMENT ... FOR`.
pub fn peek(text: &[u8]) -> Verb {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'(' => at += 1,
            _ if is_blank(byte) => at += 1,
            b'a'..=b'z' | b'A'..=b'Z' => return Verb::of(&text[at..word_end(text, at)]),
            b'/' | b'-' | b'#' => return behind_comments(&text[at..]),
            _ => break,
        }
    }
    Verb::Unknown
}

impl Verb {
    /// The verb that `word` is.
    pub(crate) fn of(word: &[u8]) -> Self {
        VERBS.get(word).unwrap_or_default()
    }
}

fn behind_comments(text: &[u8]) -> Verb {
    Lexer::new(text, Dialect::default())
        .find(|token| token.is_code() && token.kind != Kind::Open)
        .filter(|token| token.kind == Kind::Word)
        .map_or(Verb::Unknown, |token| Verb::of(token.of(text)))
}

#[cfg(test)]
mod tests {
    use super::{Verb, peek};

    #[test]
    fn peeks_behind_blanks_comments_and_parentheses() {
        for (text, verb) in [
            ("SELECT 1", Verb::Select),
            (" \t\r\n\x0b\x0cselect*from t", Verb::Select),
            ("/* a */ -- b\n# c\n ( /*+ d */ (uPDate t", Verb::Update),
            ("/*!40101 SET */ x", Verb::Set),
            ("DESC t", Verb::Describe),
            ("with x as (select 1) select 1", Verb::With),
            ("selects", Verb::Unknown),
            ("`select`", Verb::Unknown),
            ("/* open", Verb::Unknown),
            ("-", Verb::Unknown),
            ("", Verb::Unknown),
        ] {
            assert_eq!(peek(text.as_bytes()), verb, "{text}");
        }
    }

    #[test]
    fn names_are_the_keywords() {
        assert_eq!(Verb::Describe.as_str(), "describe");
        assert_eq!(Verb::default().as_str(), "unknown");
    }
}
