//! Session commands that are answered from memory: see [`crate::predict`].

use super::{HEAD, Outcome, Pending, SessionCommands};
use crate::{
    plan::Plan,
    predict::{Asked, Evidence, Template},
};
use bytes::BytesMut;
use chain::{
    Command, End, Frame, Reply, Session,
    facts::{Explain, FromMemory, Statement, This},
};
use serde_json::json;
use sql::{
    Class,
    session::{self, Action, session_command},
};
use std::sync::{Arc, OnceLock};
use wire::{
    err::{ErrPacket, codes},
    packet::{HEADER_LEN, put_packet},
};

impl SessionCommands {
    /// Whether the command's reply may be in memory, or is to be noted there.
    pub(super) fn asks(&mut self, command: &Command, plan: &mut Plan) -> Option<Asked> {
        let tied = !self.ties.is_empty() || self.generation > 0;
        let predicting = self.predicting.as_mut();
        let asked = predicting.and_then(|it| it.asks(command, plan, &self.log, tied));
        if let Some(explain) = command.fact::<Explain>() {
            explain_to(explain, command, plan, asked.is_some());
        }
        let asked = asked?;
        plan.witness = Some(asked.evidence.clone());
        Some(asked)
    }

    /// What is not known yet of whether the session gets answers from memory.
    pub(super) fn memory_news(&mut self) -> Option<FromMemory> {
        let predicting = self.predicting.as_ref()?;
        let off = match () {
            () if predicting.was_wrong_too_often() => Some("too many answers were wrong"),
            () if self.log.is_unclear() => Some("what the session has set is not known"),
            () if !self.ties.is_empty() || self.generation > 0 => {
                Some("something ties the session to a connection")
            }
            () if predicting.worked => Some("autocommit is off"),
            () => None,
        };
        (off != self.told_memory).then(|| {
            self.told_memory = off;
            FromMemory { off }
        })
    }

    /// The reply from memory, if there is one. The plan is what the session has done then.
    pub(super) fn answer(
        &mut self,
        command: &Command,
        plan: &mut Plan,
        asked: Option<&Asked>,
    ) -> Option<Reply> {
        let template = self.predicting.as_mut()?.answer(command, asked?)?;
        let id = plan.prepares.as_ref().map(|(id, _)| *id);
        let reply = template.reply(command, id);
        self.assume(std::mem::take(plan), &template);
        Some(reply)
    }

    /// What servers say of the statement with a name that the command executes, if its PREPARE was
    /// answered from memory.
    pub(super) fn assumed_text(&self, command: &Command) -> Option<Arc<Evidence>> {
        if self.assumed_texts.is_empty() {
            return None;
        }
        let statement = command.fact::<Statement>()?;
        if statement.get().class != Class::Execute {
            return None;
        }
        let effect = session_command(statement.text(), statement.dialect());
        let [step] = effect.steps() else { return None };
        let Action::Execute { .. } = step.action else { return None };
        self.assumed_texts.get(step.reads.first()?).cloned()
    }

    /// The command is as good as done.
    fn assume(&mut self, plan: Plan, template: &Template) {
        let this = self.place(&plan);
        let outcome = Outcome {
            error: None,
            status: template.status(),
            head: template.head(plan.prepares.as_ref().map(|(id, _)| *id), HEAD),
        };
        let outcome = Arc::new(OnceLock::from(outcome));
        self.pending = Some(Pending { plan, this, target: None, outcome, assumed: true });
    }

    /// Takes in a command that no server has executed yet. Whether the log says where it has moved
    /// the session.
    pub(super) fn assumed(
        &mut self,
        plan: &Plan,
        this: Option<This>,
        outcome: &Outcome,
        session: &Session,
    ) -> bool {
        if plan.resets {
            self.reset(plan, this, session);
            return true;
        }
        for (cell, text) in &plan.texts {
            self.texts.insert(cell.clone(), text.clone());
            match plan.witness.clone().filter(|_| text.is_some()) {
                Some(evidence) => self.assumed_texts.insert(cell.clone(), evidence),
                None => self.assumed_texts.remove(cell),
            };
        }
        let Some(this) = this else { return false };
        self.learn(plan, this, outcome)
    }
}

/// The reply to an EXECUTE: where the server does not know the statement, because it has refused the
/// PREPARE that was answered from memory, it is what the server has said then.
pub(super) fn refused(reply: Reply, named: Arc<Evidence>) -> Reply {
    reply.map_body(|body| {
        body.map(move |frame| match frame {
            Frame::End(end) if end.error == Some(codes::ER_UNKNOWN_STMT_HANDLER.code) => {
                Frame::End(named.refusal().map_or(end.clone(), |error| replaced(&end, &error)))
            }
            frame => frame,
        })
    })
}

fn replaced(end: &End, error: &ErrPacket) -> End {
    let (mut payload, mut packet) = (BytesMut::new(), BytesMut::new());
    error.encode(&mut payload);
    put_packet(&mut packet, end.packet.get(HEADER_LEN - 1).copied().unwrap_or(1), &payload);
    End { packet: packet.freeze(), error: Some(error.code), ..end.clone() }
}

/// Says what becomes of a session command that nobody has seen before.
fn explain_to(explain: &Explain, command: &Command, plan: &Plan, may_be_known: bool) {
    let class = match (&plan.entries[..], command.fact::<Statement>()) {
        _ if plan.is_nothing() => return,
        ([entry], _) => entry.class,
        ([], Some(statement)) => {
            let effect = session_command(statement.text(), statement.dialect());
            effect.steps().iter().map(|step| step.class).max().unwrap_or_default()
        }
        (entries, _) => entries.iter().map(|entry| entry.class).max().unwrap_or_default(),
    };
    let is_nowhere_else = plan.entries.is_empty() && plan.prepares.is_none();
    // Other connections are given a one-shot only in place of one that is lost.
    let done = match is_nowhere_else || class == session::Class::OneShot {
        true => "executed",
        false => "deferred",
    };
    let what = json!({ "class": class.as_str(), "done": done, "predictable": may_be_known });
    explain.note("session-commands", what);
}
