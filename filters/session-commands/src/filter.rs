//! The filter, in one session.

mod alone;
mod assumed;
mod once;
mod others;
mod overflow;
mod pin;
mod prepared;
mod settle;

use crate::{
    Config,
    log::{Entry, Log, MULTI_STATEMENTS, Volumes},
    plan::{Known, Plan},
    predict::{Evidence, Memory, Predicting},
    statements::Statements,
    ties::{Cause, Change, Ties},
};
use bytes::Bytes;
use chain::{
    Command, Filter, Frame, Next, Reply, Result, Session,
    command::Asker,
    facts::{Fresh, Lsn, Predicted, ServedBy, SessionCommand, SessionLog, Statement, Target, This},
};
use sql::{
    Class,
    session::{self, Cell},
};
use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, OnceLock},
};
use wire::{
    command::{
        CommandCode, Execute,
        statement::{LAST_PREPARED, statement_id},
    },
    err::{ErrPacket, codes},
    packet::HEADER_LEN,
    status::Status,
};

/// What the filter knows of its session.
pub(crate) struct SessionCommands {
    config: Arc<Config>,
    log: Log,
    volumes: Arc<Volumes>,
    ties: Ties,
    statements: Statements,
    /// Cells that one connection has, and where it is.
    local: Vec<Cell>,
    local_at: Option<Target>,
    /// Statements that are prepared under names; `None` if the text is not known.
    texts: HashMap<Cell, Option<Bytes>>,
    /// What servers say of those whose PREPARE was answered from memory.
    assumed_texts: HashMap<Cell, Arc<Evidence>>,
    /// Where the last command ran, and the last that may have written.
    last: Option<Target>,
    last_write: Option<Target>,
    /// The connection of the last write is gone, and with it what it knew.
    last_write_lost: bool,
    /// Where the log says that the session is. `None` before its first command.
    schema: Option<Option<Bytes>>,
    generation: u32,
    schemaless: bool,
    nowhere: bool,
    /// Servers may have seen the log up to here.
    seen: Lsn,
    /// What the dispatcher has last heard of whether the session is tied, and whether by what the log
    /// has.
    told: (bool, bool),
    /// What it has last heard of whether answers from memory are given, and why not.
    told_memory: Option<&'static str>,
    pending: Option<Pending>,
    /// Answers from memory, if they are wanted.
    predicting: Option<Predicting>,
}

/// A command whose reply may still be on its way.
struct Pending {
    plan: Plan,
    this: Option<This>,
    target: Option<Target>,
    outcome: Arc<OnceLock<Outcome>>,
    /// It was answered from memory.
    assumed: bool,
}

/// How a reply has ended.
struct Outcome {
    error: Option<u16>,
    status: Option<Status>,
    /// The beginning of the reply.
    head: Vec<u8>,
}

/// A header and the first packet of a reply to COM_STMT_PREPARE.
const HEAD: usize = HEADER_LEN + 13;

impl Filter for SessionCommands {
    async fn handle(&mut self, mut command: Command, next: Next<'_>) -> Result<Reply> {
        self.settle(command.session());
        if self.is_over_limit(&command) {
            let text = "Can't create more than max_prepared_stmt_count statements";
            let refusal = ErrPacket::new(codes::ER_MAX_PREPARED_STMT_COUNT_REACHED, text);
            return Ok(Reply::err(&command, &refusal));
        }
        let mut plan = self.plan(&mut command);
        self.overflow(&mut plan)?;
        if let Some(reply) = self.alone(&command, &plan) {
            return Ok(reply);
        }
        let class = plan.class();
        let asked = self.asks(&command, &mut plan);
        if let Some(reply) = self.answer(&command, &mut plan, asked.as_ref()) {
            self.propagate_alone(&command, next).await;
            return Ok(about(reply, class, self.log.last()).with(Predicted));
        }
        let again = self.is_again();
        let writes = self.pin(&mut command, &plan)?;
        let this = self.note(&mut command, &plan);
        if plan.may_use {
            self.doubt();
        }
        if let Some(order) = self.propagates(&plan, this) {
            command.note(order);
        }
        self.seen = self.log.last();
        let named = self.assumed_text(&command);
        let reply = match &mut self.predicting {
            Some(predicting) => predicting.run(command, asked, next).await?,
            None => next.run(command).await?,
        };
        let reply = match named {
            Some(named) => assumed::refused(reply, named),
            None => reply,
        };
        let reply = match this {
            Some(This { lsn, .. }) => about(reply, class, lsn),
            None => reply,
        };
        let target = reply.fact().map(|ServedBy(target)| target);
        if let Some(target) = target {
            if again {
                self.ties.follow(target);
            }
            self.ran(target, &plan, writes, reply.fact::<Fresh>().is_some());
        }
        if plan.is_nothing() && this.is_none() && !self.ties.passes() {
            return Ok(reply);
        }
        let target = target.cloned();
        let (reply, outcome) = watch(reply);
        self.pending = Some(Pending { plan, this, target, outcome, assumed: false });
        Ok(reply)
    }

    /// All but the settings, and what they make of answers from memory.
    fn inherit(&mut self, from: &mut Self, _: bool) {
        std::mem::swap(self, from);
        std::mem::swap(&mut self.config, &mut from.config);
        std::mem::swap(&mut self.predicting, &mut from.predicting);
        std::mem::swap(&mut self.volumes, &mut from.volumes);
        self.log.count_among(self.volumes.clone());
        if let Some(predicting) = &mut self.predicting {
            predicting.inherit(from.predicting.take());
        }
    }
}

/// The reply to a session command with its place in the log.
fn about(reply: Reply, class: Option<session::Class>, lsn: Lsn) -> Reply {
    match class {
        Some(class) => reply.with(SessionCommand { class, lsn }),
        None => reply,
    }
}

/// Notes how a reply ends, and how it begins.
fn watch(reply: Reply) -> (Reply, Arc<OnceLock<Outcome>>) {
    let outcome = Arc::new(OnceLock::new());
    let (seen, mut head) = (outcome.clone(), Vec::new());
    let reply = reply.map_body(|body| {
        body.map(move |frame| {
            match &frame {
                Frame::Packets(run) => {
                    head.extend(run.iter().copied().take(HEAD - head.len().min(HEAD)));
                }
                Frame::End(end) => {
                    head.extend(end.packet.iter().copied().take(HEAD - head.len().min(HEAD)));
                    let head = std::mem::take(&mut head);
                    // There is one end.
                    let _ = seen.set(Outcome { error: end.error, status: end.status, head });
                }
                Frame::Upload(_) => {}
            }
            frame
        })
    });
    (reply, outcome)
}

/// The text of a COM_STMT_PREPARE, to be kept: what `parse` keeps is not copied.
fn kept_text(command: &mut Command) -> Bytes {
    let kept = command.fact().map(|statement: &Statement| statement.text().clone());
    let kept = kept.filter(|text| text[..] == *command.payload());
    kept.unwrap_or_else(|| Bytes::copy_from_slice(command.payload()))
}

impl SessionCommands {
    pub(crate) fn new(
        config: Arc<Config>,
        memory: Option<Arc<Memory>>,
        volumes: Arc<Volumes>,
    ) -> Self {
        let mut log = Log::default();
        log.count_among(volumes.clone());
        Self {
            config,
            log,
            volumes,
            ties: Ties::default(),
            statements: Statements::default(),
            local: Vec::new(),
            local_at: None,
            texts: HashMap::new(),
            assumed_texts: HashMap::new(),
            last: None,
            last_write: None,
            last_write_lost: false,
            schema: None,
            generation: 0,
            schemaless: false,
            nowhere: false,
            seen: 0,
            told: (false, false),
            told_memory: None,
            pending: None,
            predicting: memory.map(Predicting::new),
        }
    }

    /// What the command does to the session if it succeeds.
    fn plan(&mut self, command: &mut Command) -> Plan {
        let mut plan = Plan::default();
        match command.code() {
            CommandCode::QUERY => {
                if let Some(statement) = command.fact::<Statement>() {
                    self.text(&mut plan, statement, command.session());
                }
            }
            CommandCode::INIT_DB => {
                let payload = Bytes::copy_from_slice(command.payload());
                // The login puts the session into its schema, which is where connections begin.
                if command.asker() == Asker::Client {
                    plan.entries.push(init_db(payload));
                }
            }
            CommandCode::SET_OPTION => {
                let payload = Bytes::copy_from_slice(command.payload());
                let entry = Entry::new(command.code(), payload, session::Class::Lifecycle);
                plan.entries.push(Entry { writes: vec![MULTI_STATEMENTS], ..entry });
            }
            CommandCode::RESET_CONNECTION => plan.resets = true,
            CommandCode::STMT_PREPARE => self.prepares(&mut plan, command),
            code if code.is_unknown() => {
                plan.is_unknown = true;
                plan.ties.push(Change::tie(Cause::Ending));
            }
            _ => self.about_statement(&mut plan, command),
        }
        plan.may_use |= once::may_use_by_code(command);
        plan
    }

    /// What a text does that runs now: as COM_QUERY, or as a prepared statement.
    fn text(&self, plan: &mut Plan, statement: &Statement, session: &Session) {
        let found = statement.get();
        let plain = matches!(found.class, Class::Read | Class::Show | Class::Explain);
        plan.consumes = once::consumes(found.class, statement.text());
        plan.may_use = !self.ties.is_empty() && once::may_use(found, statement.text());
        if plain && found.needs.is_none() && !found.multi {
            return;
        }
        let known = Known {
            local: &self.local,
            texts: &self.texts,
            schema: session.current_schema.as_ref(),
            variables: &self.config.allow_variables,
            is_set: &|cell| self.log.is_set(cell),
        };
        plan.text(found, statement.text(), statement.dialect(), &known);
    }

    fn about_statement(&mut self, plan: &mut Plan, command: &mut Command) {
        let Some(id) = statement_id(command.whole()) else { return };
        let name = name_of(id);
        plan.names_nothing = self.names_nothing(id);
        match command.code() {
            CommandCode::STMT_EXECUTE | CommandCode::STMT_BULK_EXECUTE => {
                plan.ties.push(Change::Untie(Cause::Cursor, name.clone()));
                plan.ties.push(Change::Untie(Cause::LongData, name));
                if self.ties.is_empty() {
                    plan.ties.clear();
                }
                self.statements.complete(id, command);
                if let Some(statement) = command.fact::<Statement>() {
                    self.text(plan, statement, command.session());
                }
                plan.names_local |= self.is_prepared_here(id);
                let cursor = Execute::decode(command.whole()).is_ok_and(|it| it.wants_cursor());
                plan.opens_cursor = cursor.then_some(id);
            }
            CommandCode::STMT_SEND_LONG_DATA => plan.ties.push(Change::Tie(Cause::LongData, name)),
            CommandCode::STMT_FETCH => plan.fetches = Some(id),
            CommandCode::STMT_RESET | CommandCode::STMT_CLOSE => {
                if !self.ties.is_empty() {
                    plan.ties.push(Change::Untie(Cause::Cursor, name.clone()));
                    plan.ties.push(Change::Untie(Cause::LongData, name));
                }
                if command.code() == CommandCode::STMT_CLOSE && id != LAST_PREPARED {
                    let place = self.log.close(id);
                    plan.closes_unseen = place.is_some_and(|lsn| lsn > self.seen);
                    self.statements.remove(id);
                    self.forget_here(id);
                }
            }
            _ => {}
        }
    }

    /// The command's place in the log, if it may get one.
    fn place(&mut self, plan: &Plan) -> Option<This> {
        let places = plan.entries.len() + usize::from(plan.prepares.is_some())
            // With the schema that a connection keeps.
            + 2 * usize::from(plan.resets);
        let lsn = (0..places).map(|_| self.log.reserve()).last();
        lsn.map(|lsn| This { lsn, statement: plan.prepares.as_ref().map(|(id, _)| *id) })
    }

    /// Attaches the log, and the command's place in it.
    fn note(&mut self, command: &mut Command, plan: &Plan) -> Option<This> {
        let this = self.place(plan);
        if this.is_some() || !self.log.is_empty() || self.generation > 0 {
            let (entries, generation, schemaless) =
                (self.log.snapshot(), self.generation, self.schemaless);
            let state = self.log.state();
            let nowhere = self.nowhere;
            command.note(SessionLog { entries, this, generation, schemaless, nowhere, state });
        }
        if let Some(tied) = self.tied(plan) {
            command.note(tied);
        }
        if let Some(news) = self.memory_news() {
            command.note(news);
        }
        this
    }

    /// Notes where a command has run; `fresh`: on a connection that had run nothing before. What is
    /// logged does elsewhere what it does here to warnings and counts, so it is not the last that
    /// these belong to.
    fn ran(&mut self, target: &Target, plan: &Plan, writes: bool, fresh: bool) {
        let is_other = |known: &Option<Target>| {
            known.as_ref().is_none_or(|known| known.server.id != target.server.id)
        };
        if is_other(&self.last) && (self.last.is_none() || !plan.is_logged()) {
            self.last = Some(target.clone());
        }
        if writes {
            self.last_write_lost = false;
            if is_other(&self.last_write) {
                self.last_write = Some(target.clone());
            }
        } else if fresh && !is_other(&self.last_write) {
            self.last_write_lost = true;
        }
    }
}

fn init_db(name: Bytes) -> Entry {
    let reads = Cow::Borrowed(if name.is_ascii() { &[][..] } else { &[Cell::CharsetClient] });
    let writes = SCHEMA.to_vec();
    Entry { reads, writes, ..Entry::new(CommandCode::INIT_DB, name, session::Class::Environment) }
}

/// What USE sets.
const SCHEMA: [Cell; 2] = [Cell::Schema, Cell::COLLATION_DATABASE];

/// What a statement's ties are called.
fn name_of(id: u32) -> crate::ties::Name {
    Box::new(id.to_le_bytes())
}
