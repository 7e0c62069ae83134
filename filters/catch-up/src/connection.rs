//! One connection, and how it comes to its session's state.

use crate::{
    Config,
    ids::{Ids, names_statement, prepares, watch},
    pipe::may_pipe,
    step::{Step, window},
    verify::{self, verify},
};
use bytes::Bytes;
use chain::{
    Answer, Command, Error, Outcome, Reply, Result, Server, Stack,
    error::{CatchUpFailed, CatchUpKilled, PreambleLost},
    facts::{
        Adopted, Answers, Careful, FastForward, Lag, LogEntry, Lsn, Preamble, Returned, SessionLog,
        StatementIds, Target, This, Verdict,
    },
    lend::Loan,
};
use std::sync::{Arc, OnceLock};
use tower::{Service, ServiceExt};
use wire::{
    capability::Capabilities,
    command::{CommandCode, statement::statement_id},
    err::ErrPacket,
};

/// What is known of one connection.
#[derive(Debug)]
pub(crate) struct Connection {
    config: Config,
    pub(crate) below: Stack,
    /// Everything in the log up to here has been executed.
    applied: Lsn,
    ids: Ids,
    /// The session's own command whose reply may still be on its way.
    pending: Option<Pending>,
    /// Something is missing, and has been begun.
    midway: bool,
}

#[derive(Debug)]
struct Pending {
    this: This,
    code: CommandCode,
    seen: Arc<OnceLock<Seen>>,
}

/// How the reply has ended.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) failed: bool,
    /// The server's id of a statement.
    pub(crate) id: Option<u32>,
}

/// Longest reply to an entry of the log: definitions of 65,535 parameters and as many columns.
const REPLY_LIMIT: usize = 1 << 26;

/// KILL QUERY, or a limit on its time, has ended a statement.
const INTERRUPTED: (u16, [u8; 5]) = (1317, *b"70100");

/// Sends a command, behind what the connection lacks.
pub(crate) async fn run(mut connection: Loan<Connection>, command: Command) -> Result<Reply> {
    let connection = &mut *connection;
    if connection.midway {
        return Err(Error::backend(CatchUpFailed("a catch-up was given up before".into())));
    }
    let log = command.fact::<SessionLog>().cloned();
    let steps = connection.missing(&command, log.as_ref());
    let server = command.fact().map(|Target { server, .. }| server.clone());
    let piped = !steps.is_empty() && connection.pipes(&command, &steps);
    if !steps.is_empty() {
        connection.midway = true;
        if !piped {
            connection.catch_up(&command, &steps, server.as_deref()).await?;
        }
    }
    let (adopted, code) = (command.fact::<Adopted>().is_some(), command.code());
    if !piped {
        connection.arrived(log.as_ref(), adopted, code);
    }
    let mut command = match connection.ids.translate(command) {
        Ok(command) => command,
        Err(reply) => return Ok(reply),
    };
    if piped {
        command.note(Preamble(commands(&command, &steps, Some(lag(&steps, true)))));
    }
    let reply = connection.below.ready().await?.call(command).await.map_err(of_preamble)?;
    if piped {
        // Dropped, the reply takes its connection with it: no byte of it has been seen.
        let answers = reply.fact().map(|Answers(answers)| answers.clone()).unwrap_or_default();
        connection.judge(&steps, &answers, server.as_deref())?;
        connection.arrived(log.as_ref(), adopted, code);
    }
    if reply.is_handover() {
        return Ok(reply.with(StatementIds(connection.ids.pairs())));
    }
    let Some(this) = log.and_then(|log| log.this) else { return Ok(reply) };
    let seen = Arc::new(OnceLock::new());
    connection.pending = Some(Pending { this, code, seen: seen.clone() });
    Ok(watch(reply, this.statement, seen))
}

impl Connection {
    pub(crate) fn new(config: Config, below: Stack) -> Self {
        let ids = Ids::default();
        Self { config, below, applied: 0, ids, pending: None, midway: false }
    }

    /// Whether nothing is to be done for this command.
    pub(crate) fn is_plain(&self, command: &Command) -> bool {
        let log = command.fact::<SessionLog>();
        log.is_none_or(|log| log.this.is_none() && log.head() <= self.applied)
            && !names_statement(command.code())
            && self.ids.is_settled()
            && !self.midway
            && command.fact::<FastForward>().is_none()
            && command.fact::<Adopted>().is_none()
            && command.fact::<Returned>().is_none()
    }

    /// Takes in what the session's own command has done here.
    pub(crate) fn settle(&mut self) {
        let Some(Pending { this, code, seen }) = self.pending.take() else { return };
        let Some(seen) = seen.get().filter(|seen| !seen.failed) else { return };
        self.applied = this.lsn;
        if code == CommandCode::RESET_CONNECTION {
            self.ids = Ids::default();
        }
        if let (Some(session), Some(server)) = (this.statement, seen.id) {
            self.ids.insert_own(session, server);
        }
    }

    /// What has to go before the command, in this order.
    fn missing(&mut self, command: &Command, log: Option<&SessionLog>) -> Vec<Step> {
        let entries = log.map(|log| &log.entries[..]).unwrap_or_default();
        let mut steps = Vec::new();
        if let Some(adopted) = command.fact::<Adopted>() {
            self.adopt(adopted, entries, command, &mut steps);
        } else if command.code() != CommandCode::STMT_CLOSE
            && let Some(log) = log
        {
            self.ids.label(log);
            let behind = log.behind(self.applied).iter().cloned();
            steps.extend(behind.map(Step::Entry));
        }
        if steps.is_empty() && !entries.is_empty() && executes(command.code()) {
            steps.extend(self.again(command, entries).map(Step::Entry));
        }
        let returned = command.fact::<Returned>().is_some();
        if returned {
            self.ids.retain(entries);
        }
        let forwards = command.fact::<FastForward>().is_some();
        if forwards || returned || !steps.is_empty() || command.fact::<Adopted>().is_some() {
            let limit = if forwards { 0 } else { self.config.spare_statements };
            let surplus = self.ids.surplus(limit).into_iter().map(Step::Close);
            steps.splice(..0, surplus);
        }
        steps
    }

    /// The connection was another session's: what makes it this one's.
    fn adopt(
        &mut self,
        adopted: &Adopted,
        entries: &[Arc<LogEntry>],
        command: &Command,
        steps: &mut Vec<Step>,
    ) {
        self.ids.pass_on();
        self.applied = 0;
        // With it servers leave out what they have told the session before.
        let remembers = command.session().capabilities.contains(Capabilities::CACHE_METADATA);
        if adopted.equal
            && let Some(lacking) = self.take_over(entries, !remembers)
        {
            steps.extend(lacking.into_iter().map(Step::Entry));
            return;
        }
        // The server forgets all statements.
        self.ids = Ids::default();
        steps.extend(adopted.renewal.iter().cloned().map(Step::Renew));
        steps.extend(entries.iter().cloned().map(Step::Entry));
    }

    /// Takes over what sessions before have prepared. What has to be prepared yet; `None` if that
    /// would be something else than it was where the log has it.
    fn take_over(&mut self, entries: &[Arc<LogEntry>], shares: bool) -> Option<Vec<Arc<LogEntry>>> {
        let settled = entries.iter().rposition(|entry| prepares(entry).is_none());
        let settled = settled.map_or(0, |at| at + 1);
        let mut lacking = Vec::new();
        for (at, entry) in entries.iter().enumerate() {
            let Some(session) = prepares(entry) else { continue };
            if shares && self.ids.take_over(entry, session) {
                continue;
            }
            if at < settled {
                return None;
            }
            lacking.push(entry.clone());
        }
        Some(lacking)
    }

    /// The statement that the command executes, if the server has refused it, may take it now, and
    /// would take it for the same as then.
    fn again(&self, command: &Command, entries: &[Arc<LogEntry>]) -> Option<Arc<LogEntry>> {
        let id = statement_id(command.whole()).filter(|id| self.ids.is_due(*id))?;
        let at = entries.iter().rposition(|entry| prepares(entry) == Some(id))?;
        let (entry, behind) = entries[at..].split_first()?;
        behind.iter().all(|entry| prepares(entry).is_some()).then(|| entry.clone())
    }

    /// Whether the command goes out in the same write.
    fn pipes(&self, command: &Command, steps: &[Step]) -> bool {
        let closes = steps.iter().all(|step| matches!(step, Step::Close(_)));
        (self.config.pipeline_reads || closes)
            && window(steps) == steps.len()
            && (!names_statement(command.code())
                || closes
                || statement_id(command.whole()).is_some_and(|id| self.ids.has(id)))
            && may_pipe(command, steps)
    }

    /// The connection is where the log ends.
    fn arrived(&mut self, log: Option<&SessionLog>, adopted: bool, code: CommandCode) {
        self.midway = false;
        if let Some(log) = log
            && (adopted || code != CommandCode::STMT_CLOSE)
        {
            self.applied = self.applied.max(log.head());
        }
    }

    /// Executes what this connection lacks, and sees that it means here what it meant where it was
    /// executed first.
    async fn catch_up(
        &mut self,
        command: &Command,
        steps: &[Step],
        server: Option<&Server>,
    ) -> Result<()> {
        let careful = command.fact::<Careful>().is_some();
        let (mut rest, mut lag) = (steps, Some(lag(steps, false)));
        while !rest.is_empty() {
            let (now, later) = rest.split_at(if careful { 1 } else { window(rest) });
            let answers = self.execute(command, now, lag.take()).await.map_err(broke)?;
            self.judge(now, &answers, server)?;
            rest = later;
        }
        Ok(())
    }

    /// Sends commands in one write and reads all replies.
    async fn execute(
        &mut self,
        about: &Command,
        steps: &[Step],
        lag: Option<Lag>,
    ) -> Result<Vec<Answer>> {
        let mut commands = commands(about, steps, lag);
        let Some(mut last) = commands.pop() else { return Ok(Vec::new()) };
        if !commands.is_empty() {
            last.note(Preamble(commands));
        }
        let reply = self.below.ready().await?.call(last).await?;
        let answers = reply.fact().map(|Answers(answers)| answers.clone());
        let mut answers = answers.unwrap_or_default();
        match reply.into_outcome() {
            Outcome::Body(body) => answers.push(body.collect(REPLY_LIMIT).await?),
            Outcome::Handover(_) => return Err(Error::filter("handed over below catch-up")),
        }
        Ok(answers)
    }

    /// Compares answers with what is expected, in their order. Fails at the first that leaves the
    /// connection in another state.
    fn judge(&mut self, steps: &[Step], answers: &[Answer], server: Option<&Server>) -> Result<()> {
        if answers.len() != steps.len() {
            let text = format!("{} answers to {} commands", answers.len(), steps.len());
            return Err(Error::backend(CatchUpFailed(text)));
        }
        for (step, answer) in steps.iter().zip(answers) {
            if answer.end.error == Some(INTERRUPTED.0) {
                let (code, sqlstate) = INTERRUPTED;
                return Err(Error::backend(CatchUpKilled).with_code(code, sqlstate));
            }
            match step {
                Step::Close(_) => {}
                Step::Renew(_) if answer.end.error.is_some() => {
                    return Err(failure(&verify::error_of(answer)));
                }
                Step::Renew(_) => {}
                Step::Entry(entry) => self.judge_entry(entry, answer, server)?,
            }
            if step.resets() {
                self.ids = Ids::default();
            }
        }
        Ok(())
    }

    fn judge_entry(
        &mut self,
        entry: &LogEntry,
        answer: &Answer,
        server: Option<&Server>,
    ) -> Result<()> {
        let witnessed = server.and_then(|server| entry.witness.as_ref()?.saw(server, answer));
        match witnessed.unwrap_or_else(|| verify(entry, answer)) {
            Verdict::Same => {}
            Verdict::Prepared { id, server } => self.ids.insert(entry, id, server),
            Verdict::Broken { id, error } => self.ids.broken(id, error),
            Verdict::Other(error) => return Err(failure(&error)),
        }
        Ok(())
    }
}

/// What is sent for `about`, in the order of the steps.
fn commands(about: &Command, steps: &[Step], lag: Option<Lag>) -> Vec<Command> {
    let mut commands: Vec<_> = steps.iter().map(|step| step.command(about)).collect();
    if let (Some(first), Some(lag)) = (commands.first_mut(), lag) {
        first.note(lag);
    }
    commands
}

fn lag(steps: &[Step], piped: bool) -> Lag {
    let entries = steps.iter().filter(|step| matches!(step, Step::Entry(_))).count();
    Lag { entries, piped }
}

/// Whether the command executes a statement, or is about to.
fn executes(code: CommandCode) -> bool {
    code == CommandCode::STMT_EXECUTE
        || code == CommandCode::STMT_BULK_EXECUTE
        || code == CommandCode::STMT_SEND_LONG_DATA
}

/// A connection that is lost in the midst of it has not been sent the command.
fn broke(error: Error) -> Error {
    let (code, sqlstate) = (error.code(), error.sqlstate());
    Error::backend(CatchUpFailed(error.message())).with_code(code, sqlstate)
}

/// A connection that is lost before the reply to a read has begun.
fn of_preamble(error: Error) -> Error {
    if error.cause::<PreambleLost>().is_some() { broke(error) } else { error }
}

/// The error for a session command that is not true here.
fn failure(error: &Bytes) -> Error {
    const WHAT: &str = "deferred session command failed";
    match ErrPacket::decode(error) {
        Ok(error) => {
            let text = format!("{WHAT}: {}", error.message_lossy());
            Error::backend(CatchUpFailed(text)).with_code(error.code, error.sqlstate)
        }
        Err(_) => Error::backend(CatchUpFailed(format!("{WHAT}: a server has answered otherwise"))),
    }
}
