//! What `catch-up`, the connection below it and the dispatcher above it tell each other.

use super::Fact;
use crate::{command::Command, reply::Answer, topology::HostgroupId};

/// Commands that go before this one on its connection, in the same write. Their replies are kept
/// from whoever reads the command's: they are the fact [`Answers`] on its reply. None of them may
/// be COM_CHANGE_USER. Writer: `catch-up`; reader: the connection.
#[derive(Debug)]
pub struct Preamble(pub Vec<Command>);

/// The answers to a command's [`Preamble`], one for each of its commands, in their order; an empty
/// one where a command has no reply. On the reply, which comes behind them. Writer: the connection.
#[derive(Clone, Debug)]
pub struct Answers(pub Vec<Answer>);

/// How far the connection was behind its session: so many entries of the log it lacked. On the first of
/// the commands that `catch-up` sends for a command. Writer: `catch-up`; reader: the connection, for
/// traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lag {
    /// Entries of the log.
    pub entries: usize,
    /// They go in one write with the command that they are for.
    pub piped: bool,
}

/// A connection to this server did not come to the session's state: what the next one lacks goes
/// one by one, so that nothing follows what fails. On the command. Writer: the dispatcher; reader:
/// `catch-up`.
#[derive(Clone, Copy, Debug)]
pub struct Careful;

/// The reply is a server's refusal to prepare the statement, where another server may have what it
/// lacks; nothing was executed. On the reply. Writer: `catch-up`; reader: the dispatcher.
#[derive(Debug)]
pub struct Unprepared {
    /// The command that was not sent.
    pub command: Command,
}

/// The hostgroup of the primary whose replicas the target's hostgroup has, where `route` knows it
/// and no [`Cluster`](crate::topology::Cluster) says so. Only on the commands of a session with a
/// log. Writer: `route`; reader: the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Primary(pub HostgroupId);

impl Fact for Lag {
    const NAME: &'static str = "lag";
}
impl Fact for Primary {
    const NAME: &'static str = "primary";
}
impl Fact for Preamble {
    const NAME: &'static str = "preamble";
}
impl Fact for Answers {
    const NAME: &'static str = "answers";
}
impl Fact for Careful {
    const NAME: &'static str = "careful";
}
impl Fact for Unprepared {
    const NAME: &'static str = "unprepared";
}
