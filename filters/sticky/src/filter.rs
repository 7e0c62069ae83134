//! One session's filter.

use crate::{Shared, assigned::assigned};
use chain::{
    Command, Error, HostgroupId, Reply, Result, Session, Stack,
    command::Asker,
    error::code,
    facts::{
        Affinity, Explain, Hints, RuleVerdict, ServedBy, Statement, StickyMode, Target, key_hash,
    },
    lend::Lend,
    moving::Moves,
    stack::Calling,
};
use serde_json::json;
use smallvec::SmallVec;
use sql::Verb;
use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};
use tower::Service;
use wire::command::CommandCode;

/// Says on each command which servers the session stays on.
pub(crate) struct Sticky(Lend<State>);

struct State {
    shared: Arc<Shared>,
    /// None until the session's first command.
    mode: Option<StickyMode>,
    /// Asked for in a transaction, for when that is over.
    later: Option<StickyMode>,
    /// The server in each hostgroup that the session has used since it is sticky.
    servers: SmallVec<[(HostgroupId, u32); 2]>,
    below: Stack,
}

impl Sticky {
    pub(crate) fn new(shared: Arc<Shared>, below: Stack) -> Self {
        let servers = SmallVec::new();
        Self(Lend::new(State { shared, mode: None, later: None, servers, below }))
    }
}

impl Moves for Sticky {
    fn inherit(&mut self, from: &mut Self, _: bool) {
        if let (Some(state), Some(from)) = (self.0.at_home(), from.0.at_home()) {
            (state.mode, state.later) = (from.mode, from.later);
            state.servers = std::mem::take(&mut from.servers);
        }
    }

    fn below(&mut self) -> Option<&mut Stack> {
        self.0.at_home().map(|state| &mut state.below)
    }
}

impl Service<Command> for Sticky {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        ready!(self.0.poll_home(cx))?.below.poll_ready(cx)
    }

    fn call(&mut self, mut command: Command) -> Calling {
        let state = self.0.home();
        let mode = state.hear(&command);
        let key = command.fact::<Hints>().and_then(|hints| hints.affinity_key.as_deref());
        let key = key.map(key_hash);
        if mode == StickyMode::Off && key.is_none() {
            return state.below.call(command);
        }
        if let Some(explain) = command.fact::<Explain>() {
            explain.note(crate::NAME, json!({ "mode": mode.name(), "key": key.is_some() }));
        }
        let (servers, strict_wait) = (state.servers.clone(), state.shared.strict_wait);
        command.note(Affinity { mode, servers, key, strict_wait });
        if mode == StickyMode::Off {
            return state.below.call(command);
        }
        let mut state = self.0.lend();
        Box::pin(async move {
            let reply = state.below.call(command).await;
            state.learn(mode, &reply);
            reply
        })
    }
}

impl State {
    /// The mode that counts for this command.
    fn hear(&mut self, command: &Command) -> StickyMode {
        let session = command.session();
        let mode = match self.mode {
            Some(mode) => mode,
            None => self.begin(session),
        };
        if command.asker() != Asker::Client {
            return mode;
        }
        if command.code() == CommandCode::RESET_CONNECTION {
            self.later = None;
            return self.begin(session);
        }
        let asked = self.asked(command);
        if session.in_transaction() {
            self.later = asked.or(self.later);
            return mode;
        }
        match asked.or(self.later.take()) {
            Some(asked) => self.change(mode, asked),
            None => mode,
        }
    }

    /// As the user's setting has it, without a server.
    fn begin(&mut self, session: &Session) -> StickyMode {
        self.servers.clear();
        if self.mode.is_some_and(|mode| mode != session.sticky)
            || (self.mode.is_none() && session.sticky != StickyMode::Off)
        {
            self.shared.count(session.sticky);
        }
        self.mode = Some(session.sticky);
        session.sticky
    }

    fn change(&mut self, from: StickyMode, to: StickyMode) -> StickyMode {
        self.later = None;
        if from != to {
            if to == StickyMode::Off {
                self.servers.clear();
            }
            self.shared.count(to);
            self.mode = Some(to);
        }
        to
    }

    /// The mode that a command asks for: by its hint or as a SET, and by a rule.
    fn asked(&self, command: &Command) -> Option<StickyMode> {
        let (mode, later) = (self.mode.unwrap_or_default(), self.later);
        let rule = command.fact::<RuleVerdict>().and_then(|verdict| verdict.sticky);
        let rule = rule.map(|sticky| match (sticky, later.unwrap_or(mode)) {
            (false, _) => StickyMode::Off,
            // A session that is strict is sticky already.
            (true, StickyMode::Strict) => StickyMode::Strict,
            (true, _) => StickyMode::WhileAlive,
        });
        let hints = command.fact::<Hints>();
        let said = hints.and_then(|hints| hints.sticky).or_else(|| self.set(command));
        Hints::or_rule(said, rule, hints.is_none_or(|hints| hints.beats_rules))
    }

    /// The mode that a SET asks for when it runs.
    fn set(&self, command: &Command) -> Option<StickyMode> {
        let statement = command.fact::<Statement>()?;
        let verb = match command.code() {
            CommandCode::QUERY => command.verb(),
            CommandCode::STMT_EXECUTE => sql::peek(statement.text()),
            _ => return None,
        };
        if verb != Verb::Set {
            return None;
        }
        let asked = assigned(statement.text(), statement.dialect())?;
        asked.inspect_err(|()| self.shared.bad_values.add_one()).ok()
    }

    /// Remembers where the command has run.
    fn learn(&mut self, mode: StickyMode, reply: &Result<Reply>) {
        let reply = match reply {
            Ok(reply) => reply,
            Err(error) => {
                let offline = error.code() == code::SERVER_OFFLINE;
                if mode == StickyMode::Strict && offline && !self.servers.is_empty() {
                    self.shared.strict_failures.add_one();
                }
                return;
            }
        };
        // An answer of a filter's own comes from no server.
        let Some(ServedBy(Target { hostgroup, server })) = reply.fact() else { return };
        match self.servers.iter_mut().find(|(known, _)| known == hostgroup) {
            None => self.servers.push((*hostgroup, server.id)),
            Some((_, known)) if *known == server.id || mode == StickyMode::Strict => {}
            Some((_, known)) => {
                *known = server.id;
                self.shared.re_picks.add_one();
            }
        }
    }
}
