//! One event for each command that a rule wants logged, when its reply has ended.

use crate::rule::Outcome;
use chain::{
    Command, HostgroupId, Reply, Result,
    body::Ending,
    facts::{Logged, ServedBy, Statement},
};
use smallvec::SmallVec;
use std::time::Instant;

/// A command under way. Holds no text of a statement but its digest's, which has no values in it.
#[derive(Debug)]
pub(crate) struct Watch {
    session: u32,
    command: &'static str,
    rules: SmallVec<[u32; 4]>,
    statement: Option<Statement>,
    hostgroup: Option<HostgroupId>,
    begun: Instant,
}

impl Watch {
    pub(crate) fn begin(command: &Command, outcome: &Outcome) -> Self {
        Self {
            session: command.session().id,
            command: command.code().name(),
            rules: outcome.verdict.rules.clone(),
            statement: command.fact::<Statement>().cloned(),
            hostgroup: outcome.verdict.hostgroup,
            begun: Instant::now(),
        }
    }

    /// Reports how this reply ends.
    pub(crate) fn reply(mut self, reply: Result<Reply>) -> Result<Reply> {
        let reply = reply.inspect_err(|error| self.ended(Some(error.code()), "failed"))?;
        if let Some(ServedBy(target)) = reply.fact() {
            self.hostgroup = Some(target.hostgroup);
        }
        if reply.is_handover() {
            self.ended(None, "handed over");
            return Ok(reply);
        }
        let reply = reply.with(Logged { rules: self.rules.clone() });
        Ok(reply.map_body(|body| {
            body.on_end(move |ending| match ending {
                Ending::Done(end) => self.ended(end.error, "done"),
                Ending::Failed(error) => self.ended(Some(error.code()), "failed"),
                Ending::Abandoned => self.ended(None, "abandoned"),
            })
        }))
    }

    fn ended(&self, error: Option<u16>, outcome: &'static str) {
        let digest = self.statement.as_ref().map(Statement::digest);
        let text = digest.map(|digest| String::from_utf8_lossy(digest.text.as_ref()).into_owned());
        tracing::info!(
            target: "query",
            session = self.session,
            command = self.command,
            rules = ?self.rules,
            digest = digest.map(|digest| digest.hash.to_string()),
            digest_text = text.as_deref(),
            hostgroup = self.hostgroup.map(|hostgroup| hostgroup.0),
            microseconds = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            error,
            "{outcome}"
        );
    }
}
