//! Which connection a command needs, and what the dispatcher is told of that.

use super::SessionCommands;
use crate::plan::Plan;
use chain::{
    Command, Error, Result,
    error::code,
    facts::{Executed, Pin, Statement, Tied},
};
use sql::{Class, session::Action};
use wire::command::CommandCode;

impl SessionCommands {
    /// Sends the command where the state is that it needs. Whether it may write.
    pub(super) fn pin(&self, command: &mut Command, plan: &Plan) -> Result<bool> {
        let executes =
            !matches!(command.code(), CommandCode::STMT_PREPARE | CommandCode::STMT_CLOSE);
        let found = command.fact::<Statement>().filter(|_| executes);
        let executed = found.and_then(|found| self.executed(found));
        let found = executed.as_ref().or(found.map(Statement::get));
        let needs = found.map(|found| found.needs).unwrap_or_default();
        let writes = found.is_some_and(|found| {
            matches!(
                found.class,
                Class::Write | Class::Ddl | Class::Call | Class::Execute | Class::Unknown
            )
        });
        let begins = found.is_some_and(|found| matches!(found.class, Class::Begin { .. }));
        let left = match needs {
            _ if needs.last_write && self.last_write_lost => {
                let text = "the connection with the last insert id was lost";
                return Err(Error::backend(text));
            }
            _ if needs.last_write => self.last_write.as_ref().map(|it| (it, "the last insert id")),
            _ if needs.last_used => {
                self.last.as_ref().map(|it| (it, "what the last statement has left"))
            }
            _ => None,
        };
        // What is on one connection alone is all on the same one, and a transaction cannot be left
        // for it.
        let joins = plan.names_local || begins || !plan.local.is_empty();
        let local = self.local_at.as_ref().filter(|_| joins);
        let pin = match (self.ties.get(), local, left) {
            (Some((target, cause)), ..) => Some((target, cause.name())),
            (None, Some(local), Some((left, cause))) if local.server.id != left.server.id => {
                let (there, here) = (&local.server.name, &left.server.name);
                let text = format!(
                    "this statement needs {}, which is on {there}, and {cause}, which is on {here}",
                    Tied::USER_VARIABLE
                );
                return Err(Error::filter(text).with_code(code::PINNED_ELSEWHERE, *b"HY000"));
            }
            (None, Some(local), _) => Some((local, Tied::USER_VARIABLE)),
            (None, None, left) => left,
        };
        let soft = self.ties.is_empty() && local.is_none();
        let again = self.is_again();
        let pin = pin.map(|(target, cause)| Pin { target: target.clone(), cause, soft, again });
        if let Some(pin) = pin {
            command.note(pin);
        }
        if let Some(executed) = executed {
            command.note(Executed(executed));
        }
        Ok(writes)
    }

    /// What EXECUTE runs by its name.
    fn executed(&self, statement: &Statement) -> Option<sql::Statement> {
        if self.texts.is_empty() || statement.get().class != Class::Execute {
            return None;
        }
        let effect = sql::session_command(statement.text(), statement.dialect());
        let [step] = effect.steps() else { return None };
        let Action::Execute { .. } = step.action else { return None };
        let text = self.texts.get(step.reads.first()?)?.as_ref()?;
        Some(sql::statement(text, statement.dialect()))
    }

    /// What the dispatcher does not know yet of what ties the session.
    pub(super) fn tied(&mut self, plan: &Plan) -> Option<Tied> {
        let before = match self.ties.get() {
            Some((_, cause)) => Some(cause.name()),
            None => self.local_at.as_ref().map(|_| Tied::USER_VARIABLE),
        };
        let by = plan.ties().or(before);
        let ends = self.local_at.is_none() && self.ties.end_with(plan);
        let again = by.is_some() && self.is_again_with(plan);
        let tells = (by.is_some(), again);
        let news = tells != self.told || ends || plan.ties().is_some();
        self.told = tells;
        news.then_some(Tied { by, ends, again })
    }
}
