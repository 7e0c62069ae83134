//! Read-write splitting: which of a cluster's servers can run a command.
//!
//! What is not surely a read is a write. What leaves state on the connection that runs it goes to
//! the primary too: the session stays there, and may write next.

use chain::{
    Command,
    facts::{Executed, Lsn, SessionLog, Statement, Tied},
    sql::{self, Access, Class, Dialect, Verb},
    wire::{command::CommandCode, status::Status},
};

/// Which servers will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The primary alone.
    Primary,
    /// Any replica.
    Replica,
    /// Any server: best the one that the session has used last.
    Anywhere,
    /// Any server, as each connection of the session will execute it: the settings say which is
    /// first.
    Everywhere,
}

/// Whether the session's transactions write unless they say otherwise, as its log says.
#[derive(Debug, Default)]
pub(crate) struct AccessMode {
    /// Where the log ended when it was read.
    head: Lsn,
    read_only: bool,
}

/// Where `command` can run, and why, for people.
pub(crate) fn place(command: &Command, mode: &mut AccessMode) -> (Place, &'static str) {
    use Place::{Anywhere, Everywhere, Primary, Replica};
    if !command.session().status().contains(Status::AUTOCOMMIT) {
        return (Primary, "autocommit is off");
    }
    if command.fact::<Tied>().is_some_and(|tied| tied.by.is_some()) {
        return (Primary, "it leaves state on its connection");
    }
    match command.code() {
        CommandCode::FIELD_LIST => (Replica, "a read"),
        CommandCode::INIT_DB | CommandCode::SET_OPTION | CommandCode::RESET_CONNECTION => {
            (Everywhere, "any server will do")
        }
        CommandCode::PING
        | CommandCode::STATISTICS
        | CommandCode::STMT_CLOSE
        | CommandCode::STMT_RESET
        | CommandCode::STMT_FETCH => (Anywhere, "any server will do"),
        CommandCode::QUERY
        | CommandCode::STMT_PREPARE
        | CommandCode::STMT_EXECUTE
        | CommandCode::STMT_BULK_EXECUTE => match command.fact::<Statement>() {
            Some(statement) => of_statement(command, found(command, statement), statement, mode),
            None => (Primary, "its text is not known"),
        },
        _ => (Primary, "not surely a read"),
    }
}

/// What the command runs: of a text EXECUTE, what was prepared.
fn found<'a>(command: &'a Command, statement: &'a Statement) -> &'a sql::Statement {
    command.fact::<Executed>().map_or_else(|| statement.get(), |Executed(found)| found)
}

fn of_statement(
    command: &Command,
    found: &sql::Statement,
    statement: &Statement,
    mode: &mut AccessMode,
) -> (Place, &'static str) {
    use Place::{Everywhere, Primary, Replica};
    match found.class {
        Class::Read | Class::Show | Class::Explain if found.needs.primary => {
            (Primary, "only the primary can say")
        }
        Class::Read | Class::Show | Class::Explain if found.needs.last_write => {
            (Primary, "it asks for the last write")
        }
        Class::Read | Class::Show | Class::Explain => (Replica, "a read"),
        Class::Begin { read_only: Some(true), .. } => (Replica, "a transaction that only reads"),
        Class::Begin { read_only: None, .. } => {
            match mode.of(command.fact::<SessionLog>(), statement.dialect()) {
                true => (Replica, "the session's transactions only read"),
                false => (Primary, "a transaction"),
            }
        }
        Class::Begin { .. } => (Primary, "a transaction"),
        // What is in the log can be repeated wherever it is needed.
        Class::SetSession | Class::Use | Class::Prepare | Class::Deallocate
            if is_logged(command) =>
        {
            (Everywhere, "any server will do")
        }
        Class::Write => (Primary, "a write, or not surely a read"),
        Class::Ddl => (Primary, "it changes a schema, accounts or grants"),
        Class::Execute => (Primary, "what it executes is not known"),
        _ => (Primary, "not surely a read"),
    }
}

/// Whether every connection of the session executes the command, if it succeeds.
pub(crate) fn is_logged(command: &Command) -> bool {
    command.fact::<SessionLog>().is_some_and(|log| log.this.is_some())
}

/// Of BEGIN and START TRANSACTION, also where more follows in the text: whether the transaction only
/// reads, if that is said. `None` of anything else.
pub(crate) fn begins(command: &Command) -> Option<Option<bool>> {
    match found(command, command.fact::<Statement>()?).first {
        Class::Begin { read_only, .. } if command.code() != CommandCode::STMT_PREPARE => {
            Some(read_only)
        }
        _ => None,
    }
}

/// Whether it is a text that ends the transaction, and goes on behind that.
pub(crate) fn ends(command: &Command) -> bool {
    command.fact::<Statement>().is_some_and(|statement| {
        let found = found(command, statement);
        let (Class::Commit { chain, release } | Class::Rollback { chain, release }) = found.first
        else {
            return false;
        };
        found.multi && chain != Some(true) && release != Some(true)
    })
}

/// Whether the command may change data, so that later reads of the session must see it.
pub(crate) fn writes(command: &Command) -> bool {
    match command.code() {
        CommandCode::QUERY | CommandCode::STMT_EXECUTE | CommandCode::STMT_BULK_EXECUTE => {
            command.fact::<Statement>().is_none_or(|statement| {
                let found = found(command, statement);
                match found.class {
                    Class::Read | Class::Show | Class::Explain | Class::Savepoint => false,
                    Class::Begin { .. } | Class::SetSession => {
                        found.implicit_commit && command.session().in_transaction()
                    }
                    Class::Use | Class::Prepare | Class::Deallocate | Class::Kill => false,
                    _ => true,
                }
            })
        }
        CommandCode::CREATE_DB | CommandCode::DROP_DB => true,
        _ => false,
    }
}

/// Whether the command is of use on a primary alone. Others that count as writes may be pinned to a
/// replica: `DO RELEASE_LOCK('a')`, `GET DIAGNOSTICS`.
pub(crate) fn must_write(command: &Command) -> bool {
    let Some(statement) = command.fact::<Statement>() else { return false };
    let found = found(command, statement);
    let writes = matches!(
        found.verb,
        Verb::Insert | Verb::Update | Verb::Delete | Verb::Replace | Verb::Load | Verb::Call
    );
    let runs =
        command.code() != CommandCode::STMT_CLOSE && command.code() != CommandCode::STMT_RESET;
    let class = found.class == Class::Write && (writes || found.multi);
    runs && (class
        || matches!(found.class, Class::Call | Class::Ddl | Class::Admin | Class::Unknown))
}

impl AccessMode {
    fn of(&mut self, log: Option<&SessionLog>, dialect: Dialect) -> bool {
        let Some(log) = log else { return false };
        if log.head() != self.head {
            let decides = log.entries.iter().rev();
            let mut decides = decides.filter_map(|entry| match entry.code {
                CommandCode::QUERY => access(&entry.payload, dialect),
                CommandCode::RESET_CONNECTION => Some(Access::ReadWrite),
                _ => None,
            });
            *self = Self { head: log.head(), read_only: decides.next() == Some(Access::ReadOnly) };
        }
        self.read_only
    }
}

/// What an entry of the log makes of the mode; `None` if it leaves it.
fn access(text: &[u8], dialect: Dialect) -> Option<Access> {
    match sql::peek(text) {
        Verb::Set => sql::access(text, dialect),
        Verb::Use | Verb::Prepare | Verb::Deallocate | Verb::Drop => None,
        _ => Some(Access::Unsure),
    }
}
