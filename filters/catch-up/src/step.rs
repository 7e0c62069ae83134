//! What goes to a connection before a command, and how much of it at once.

use chain::{
    Command,
    facts::{Expected, LogEntry, Renewal},
};
use std::sync::Arc;
use wire::command::CommandCode;

/// One command of the proxy's own.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// Makes the connection as it was after a login.
    Renew(Renewal),
    /// Closes a statement that nobody needs, by the server's id. Has no reply.
    Close(u32),
    /// Something of the log.
    Entry(Arc<LogEntry>),
}

/// Commands of one write.
const COMMANDS: usize = 64;
/// Bytes of them.
const REQUESTS: usize = 256 * 1024;
/// Bytes of the replies that are on their way at once, as they are expected.
const REPLIES: usize = 1024 * 1024;
/// What is longer goes alone.
const LONG: usize = 64 * 1024;

/// What an OK packet takes, with what it tracks.
const OK: usize = 256;
/// What a PREPARE of some wide tables is answered with, beside its parameters.
const DEFINITIONS: usize = 15 * 1024;
/// The definition of a parameter, and more.
const PARAMETER: usize = 64;

impl Step {
    /// The command to send, in the session of `about`.
    pub(crate) fn command(&self, about: &Command) -> Command {
        let (code, payload) = match self {
            Self::Close(id) => {
                return about.aside("catch-up", CommandCode::STMT_CLOSE, id.to_le_bytes());
            }
            Self::Renew(renewal) => (renewal.code, &renewal.payload),
            Self::Entry(entry) => (entry.code, &entry.payload),
        };
        match code {
            CommandCode::QUERY => about.aside_query("catch-up", payload),
            code => about.aside("catch-up", code, payload),
        }
    }

    fn code(&self) -> CommandCode {
        match self {
            Self::Close(_) => CommandCode::STMT_CLOSE,
            Self::Renew(renewal) => renewal.code,
            Self::Entry(entry) => entry.code,
        }
    }

    /// Whether it takes all prepared statements with it.
    pub(crate) fn resets(&self) -> bool {
        self.code() == CommandCode::RESET_CONNECTION
    }

    /// Bytes of the command.
    fn size(&self) -> usize {
        match self {
            Self::Close(_) => 9,
            Self::Renew(renewal) => renewal.payload.len() + 8,
            Self::Entry(entry) => entry.payload.len() + 8,
        }
    }

    /// Bytes of its reply, more or less.
    fn reply_size(&self) -> usize {
        match self {
            Self::Close(_) => 0,
            Self::Entry(entry) => match entry.expected {
                Expected::Statement { parameters, .. } => {
                    DEFINITIONS + usize::from(parameters) * PARAMETER
                }
                _ => OK,
            },
            Self::Renew(_) => OK,
        }
    }
}

/// How many of the first steps go out in one write; at least one, if there is any.
pub(crate) fn window(steps: &[Step]) -> usize {
    let (mut requests, mut replies) = (0, 0);
    let fits = |step: &&Step| {
        requests += step.size();
        replies += step.reply_size();
        step.size() <= LONG && requests <= REQUESTS && replies <= REPLIES
    };
    let fitting = steps.iter().take(COMMANDS).take_while(fits).count();
    fitting.max(1).min(steps.len())
}

#[cfg(test)]
mod tests {
    use super::{COMMANDS, LONG, Step, window};
    use chain::facts::{Expected, LogEntry};
    use std::sync::Arc;
    use wire::command::CommandCode;

    fn step(size: usize, expected: Expected) -> Step {
        let entry = LogEntry::new(1, CommandCode::QUERY, vec![b'x'; size].into(), expected);
        Step::Entry(Arc::new(entry))
    }

    #[test]
    fn what_is_on_its_way_at_once_is_bounded() {
        let short = step(10, Expected::Success);
        assert_eq!(window(&[]), 0);
        assert_eq!(window(&vec![short.clone(); 5]), 5);
        assert_eq!(window(&vec![short.clone(); 500]), COMMANDS);
        // What is long goes alone, and what is before it does not wait for it.
        let long = step(LONG, Expected::Success);
        assert_eq!(window(&[long.clone(), short.clone()]), 1);
        assert_eq!(window(&[short.clone(), short.clone(), long]), 2);
        assert_eq!(window(&vec![step(50_000, Expected::Success); 9]), 5);
        // Statements with many parameters have long replies.
        let wide = Expected::Statement { id: 1 << 31, parameters: 5000 };
        assert_eq!(window(&vec![step(10, wide); 9]), 3);
    }
}
