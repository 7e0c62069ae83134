//! Which commands may be in the same write as what their connection lacks.

use crate::{ids::names_statement, step::Step};
use chain::{
    Command,
    facts::{Careful, Expected, FastForward, SessionLog, Statement},
};
use sql::Class;
use wire::{
    command::{CommandCode, Execute},
    status::Status,
};

/// A longer command goes by itself.
const LONG: usize = 64 * 1024;

/// Whether a command may be written behind `steps` whose replies have not come. What fails stops
/// none behind it, so the command must be one whose result can be thrown away, as if it had not
/// run: a read, outside a transaction, that depends on no one connection.
pub(crate) fn may_pipe(command: &Command, steps: &[Step]) -> bool {
    if command.fact::<FastForward>().is_some() || command.whole().len() > LONG {
        return false;
    }
    if steps.iter().all(|step| matches!(step, Step::Close(_))) {
        return true;
    }
    // An unread entry may do anything.
    let is_read = command.fact::<SessionLog>().is_none_or(|log| log.state.is_some());
    let sure = |step: &Step| match step {
        Step::Entry(entry) => entry.expected != Expected::Anything,
        Step::Close(_) | Step::Renew(_) => true,
    };
    command.fact::<Careful>().is_none()
        && is_read
        && steps.iter().all(sure)
        && !(names_statement(command.code()) && steps.iter().any(Step::resets))
        && is_safe_read(command)
}

fn is_safe_read(command: &Command) -> bool {
    let (session, code) = (command.session(), command.code());
    let cursor = || Execute::decode(command.whole()).is_ok_and(|execute| execute.wants_cursor());
    let runs = code == CommandCode::QUERY || code == CommandCode::STMT_EXECUTE && !cursor();
    runs && !session.in_transaction()
        && session.status().contains(Status::AUTOCOMMIT)
        && command.fact::<Statement>().is_some_and(|statement| {
            let found = statement.get();
            let reads = matches!(found.class, Class::Read | Class::Show);
            reads && !found.multi && found.any_server()
        })
}
