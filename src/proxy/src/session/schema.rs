//! Which schema the session is in, from what goes by.

use bytes::Bytes;
use chain::{Command, End, Session};
use sql::Verb;
use wire::{command::CommandCode, session_state::Tracker};

/// Where a command would take the session, if its reply is no error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Nothing,
    /// Into this schema.
    Enters(Bytes),
}

impl Asked {
    /// What `command` asks for. Looks no further than a text's first word, unless that is USE.
    pub(super) fn by(command: &Command) -> Self {
        match command.code() {
            CommandCode::INIT_DB => Self::Enters(command.whole().slice(1..)),
            CommandCode::QUERY if command.verb() == Verb::Use => {
                let text = command.sql().unwrap_or_default();
                let named = sql::statement(&text, sql::Dialect::default());
                let named = named.new_schema(&text).map(|name| Bytes::copy_from_slice(&name));
                named.map_or(Self::Nothing, Self::Enters)
            }
            _ => Self::Nothing,
        }
    }

    /// Notes in the session where it is, once the reply has ended.
    pub(super) fn done(self, end: &End, session: &mut Session) {
        let reported = end.tracked.then(|| end.trackers().and_then(last_schema)).flatten();
        // a session can turn reports off
        let schema = reported.or(match self {
            Self::Enters(name) if end.error.is_none() => Some(name),
            _ => None,
        });
        if let Some(schema) = schema {
            let schema = (!schema.is_empty()).then_some(schema);
            session.update(|view| view.current_schema = schema);
        }
    }
}

fn last_schema(trackers: Vec<Tracker>) -> Option<Bytes> {
    trackers.into_iter().rev().find_map(|tracker| match tracker {
        Tracker::Schema(name) => Some(name.into()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use chain::testing;

    fn after(text: &str, end: &End) -> Option<Bytes> {
        let mut session = testing::session();
        let asked = Asked::by(&Command::query(session.clone(), text));
        asked.done(end, &mut session);
        session.current_schema.clone()
    }

    #[test]
    fn without_session_tracking_the_text_says_it() {
        let ok = End::default();
        let refused = End { error: Some(1049), ..End::default() };
        assert_eq!(after("USE `a``b`", &ok).as_deref(), Some(&b"a`b"[..]));
        assert_eq!(after("/* x */ use d;", &ok).as_deref(), Some(&b"d"[..]));
        assert_eq!(after("USE d", &refused), None);
        assert_eq!(after("SELECT 1", &ok), None);
        let mut session = testing::session();
        let command = Command::new(session.clone(), CommandCode::INIT_DB, b"shop");
        Asked::by(&command).done(&ok, &mut session);
        assert_eq!(session.current_schema.as_deref(), Some(&b"shop"[..]));
    }

    #[test]
    fn with_it_the_server_does() {
        let end = |name: &[u8]| {
            let length = u8::try_from(name.len()).expect("short");
            let mut block = vec![1, length + 1, length];
            block.extend_from_slice(name);
            End { tracked: true, session_state: block.into(), ..End::default() }
        };
        assert_eq!(after("CALL p()", &end(b"d")).as_deref(), Some(&b"d"[..]));
        assert_eq!(after("DROP DATABASE d", &end(b"")), None);
    }
}
