//! How a session's texts are read, as its own statements have changed it.

use chain::{Command, Frame, Reply, facts::Statement};
use sql::{Change, Charset, Dialect, Reading};
use std::sync::{Arc, OnceLock};
use wire::{capability::Capabilities, command::CommandCode};

/// What differs from how the session's texts were read when it began.
#[derive(Debug, Default)]
pub(crate) struct Now {
    /// `None` where no statement has changed it.
    ansi_quotes: Option<bool>,
    charset: Option<Charset>,
    unsure_of_quotes: bool,
    unsure_of_charset: bool,
    /// COM_SET_OPTION may have allowed texts of several statements.
    several: bool,
    /// A change whose reply may still be on its way.
    pending: Option<(Reading, Arc<OnceLock<End>>)>,
}

/// How the reply to a change has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Done,
    /// Of several statements, any may have been the one that failed.
    Failed {
        one_of_several: bool,
    },
}

/// Notes how a reply ends.
pub(crate) struct Watch {
    end: Arc<OnceLock<End>>,
    several: bool,
}

impl Now {
    /// How the session's next text is read: `begun` is how its first one was, `told` whether a
    /// server has said that ANSI_QUOTES is on.
    pub(crate) fn apply(&self, begun: Dialect, told: bool) -> Dialect {
        Dialect {
            ansi_quotes: told || self.ansi_quotes.unwrap_or(begun.ansi_quotes),
            charset: self.charset.unwrap_or(begun.charset),
            unsure: self.unsure_of_quotes && !told || self.unsure_of_charset,
            ..begun
        }
    }

    /// Takes in how the last change has ended, now that the next command is here.
    pub(crate) fn settle(&mut self, next: &Command) {
        if let Some((reading, end)) = self.pending.take() {
            match end.get() {
                Some(End::Done) => self.take(reading),
                Some(End::Failed { one_of_several: false }) => {}
                Some(End::Failed { one_of_several: true }) | None => self.take(reading.in_doubt()),
            }
        }
        if matches!(next.code(), CommandCode::RESET_CONNECTION | CommandCode::CHANGE_USER) {
            *self = Self::default();
        }
        self.several |= next.code() == CommandCode::SET_OPTION;
    }

    /// Begins a command: one that changes how texts are read is to be watched.
    pub(crate) fn begin(&mut self, command: &Command) -> Option<Watch> {
        if !matches!(command.code(), CommandCode::QUERY | CommandCode::STMT_EXECUTE) {
            return None;
        }
        let statement = command.fact::<Statement>()?;
        let several =
            self.several || command.session().capabilities.contains(Capabilities::MULTI_STATEMENTS);
        let reading = sql::reading(statement.text(), statement.dialect(), several);
        if reading.is_nothing() {
            return None;
        }
        let end = Arc::<OnceLock<End>>::default();
        self.pending = Some((reading, end.clone()));
        Some(Watch { end, several: statement.get().multi })
    }

    fn take(&mut self, Reading { ansi_quotes, charset }: Reading) {
        match ansi_quotes {
            Change::Kept => {}
            Change::To(on) => (self.ansi_quotes, self.unsure_of_quotes) = (Some(on), false),
            Change::Default => (self.ansi_quotes, self.unsure_of_quotes) = (None, false),
            Change::Unsure => self.unsure_of_quotes = true,
        }
        match charset {
            Change::Kept => {}
            Change::To(charset) => {
                (self.charset, self.unsure_of_charset) = (Some(charset), false);
            }
            // The server's own default, which is not the handshake's.
            Change::Default | Change::Unsure => self.unsure_of_charset = true,
        }
    }
}

impl Watch {
    pub(crate) fn reply(self, reply: Reply) -> Reply {
        let Self { end, several } = self;
        reply.map_body(|body| {
            body.map(move |frame| {
                if let Frame::End(last) = &frame {
                    let ended = match last.error {
                        None => End::Done,
                        Some(_) => End::Failed { one_of_several: several },
                    };
                    // There is one end.
                    let _ = end.set(ended);
                }
                frame
            })
        })
    }
}
