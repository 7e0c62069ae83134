//! What is known of a connection's default schema.

use bytes::Bytes;
use chain::{Command, End};
use sql::Verb;
use wire::{capability::Capabilities, command::CommandCode, session_state::Tracker};

/// The default schema of a connection, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    /// It never had one.
    None,
    /// This one, in the connection's character set.
    Named(Bytes),
    /// One, or none: a statement may have changed it.
    Unknown,
}

impl Schema {
    /// What is known of it once a reply has ended. Servers report a change to clients that have
    /// asked for it; otherwise whatever may be one counts.
    pub(super) fn follow(&mut self, end: &End, capabilities: Capabilities, may_change: bool) {
        if may_change {
            *self = Self::Unknown;
        }
        if capabilities.contains(Capabilities::SESSION_TRACK) && end.tracked {
            match end.trackers() {
                None => *self = Self::Unknown,
                Some(trackers) => {
                    for tracker in trackers {
                        if let Tracker::Schema(name) = tracker {
                            *self = Self::Named(name.into());
                        }
                    }
                }
            }
        }
    }
}

/// Statements with one of these words may change the default schema: USE itself, and whatever can
/// run a text that is not seen here.
const WORDS: [&str; 5] = ["use", "prepare", "execute", "drop", "call"];

/// A session that has asked for reports can turn them off. Sought by its `k`, the rarest letter.
const REPORTS: (&[u8], usize) = (b"session_track_", 12);

/// Whether a command may change the default schema and nothing will tell of it. Looks for words anywhere, in strings and
/// comments too: a word too many costs a connection that is not used again, one too few would put a
/// session into another's schema.
pub(super) fn may_change(command: &Command) -> bool {
    let capabilities = command.session().capabilities;
    if capabilities.contains(Capabilities::SESSION_TRACK) {
        return has(command.payload(), REPORTS.0, REPORTS.1);
    }
    match command.code() {
        CommandCode::INIT_DB | CommandCode::DROP_DB => true,
        CommandCode::QUERY | CommandCode::STMT_PREPARE => {
            let text = command.payload();
            !is_plain(command.verb(), text)
                && WORDS.iter().any(|word| has_word(text, word.as_bytes()))
        }
        _ => false,
    }
}

/// Whether `text` is one statement of a kind that leaves the schema alone: for most of them, without
/// looking for words. Functions and triggers cannot change it. A `;` may begin another statement, and
/// a `!` a comment that is executed.
fn is_plain(verb: Verb, text: &[u8]) -> bool {
    matches!(verb, Verb::Select | Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace)
        && memchr::memchr2(b';', b'!', text).is_none()
}

/// Whether `text` has this part, in any case; `rare` is where in it the letter is that is looked for.
fn has(text: &[u8], part: &[u8], rare: usize) -> bool {
    let letter = part[rare];
    memchr::memchr2_iter(letter, letter.to_ascii_uppercase(), text).any(|at| {
        let found = at.checked_sub(rare).and_then(|start| text.get(start..start + part.len()));
        found.is_some_and(|found| found.eq_ignore_ascii_case(part))
    })
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    let (first, len) = (word[0], word.len());
    memchr::memchr2_iter(first, first.to_ascii_uppercase(), text).any(|at| {
        let continues = |byte: &u8| byte.is_ascii_alphabetic() || *byte == b'_';
        text.get(at..at + len).is_some_and(|found| found.eq_ignore_ascii_case(word))
            && !at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(continues)
            && !text.get(at + len).is_some_and(|after| continues(after) || after.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_that_are_turned_off_are_noticed() {
        let text = |text: &str| {
            let mut session = chain::testing::session();
            session.update(|view| view.capabilities = Capabilities::SESSION_TRACK);
            may_change(&Command::query(session, text))
        };
        assert!(text("set session_track_schema = off"));
        assert!(text("SET @@SESSION.SESSION_TRACK_SCHEMA=0"));
        assert!(!text("USE d"));
        assert!(!text("SET sql_mode = ''"));
    }

    #[test]
    fn what_may_change_it_is_found_without_reports() {
        let may = |text: &str| may_change(&Command::query(chain::testing::session(), text));
        for text in ["USE d", "SELECT 1; USE d", "SELECT 1 /*! INTO @a */; use d", "CALL p()"] {
            assert!(may(text), "{text}");
        }
        assert!(may("SELECT 1 /*!99999 ; use d */"));
        assert!(!may("SELECT 'use drop' FROM t"), "one statement that reads");
        assert!(!may("INSERT INTO t VALUES (';')"), "no word");
    }

    #[test]
    fn words_are_found_whole_and_in_any_case() {
        for text in ["USE d", "use`d`", "SELECT 1;uSe d", "/*!50000use d*/", "a /*x*/use/*y*/ d"] {
            assert!(has_word(text.as_bytes(), b"use"), "{text}");
        }
        for text in ["SELECT user FROM users", "SELECT because, use_1, reuse, use2", "us", ""] {
            assert!(!has_word(text.as_bytes(), b"use"), "{text}");
        }
    }
}
