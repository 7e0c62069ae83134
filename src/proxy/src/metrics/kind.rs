//! What a command is, as far as that says how long it takes.

use chain::Command;
use sql::Verb;
use wire::command::CommandCode;

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident $name:literal),+ $(,)?) => {
        /// Kinds of commands that take different times.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Kind {
            $($(#[$doc])* $kind,)+
        }

        impl Kind {
            /// By their numbers, for labels.
            pub(super) const NAMES: &[&str] = &[$($name),+];
        }
    };
}

kinds! {
    /// `SELECT`, `SHOW` and others that read.
    Read "read",
    /// `INSERT`, `UPDATE`, `CALL` and others that write, or may.
    Write "write",
    /// `CREATE`, `ALTER`, `GRANT`, ...
    Ddl "ddl",
    /// `BEGIN`, `COMMIT`, ...
    Transaction "transaction",
    /// `SET`, `USE` and commands that do the like.
    Session "session",
    /// PREPARE, as a command or as text.
    Prepare "prepare",
    /// EXECUTE, likewise.
    Execute "execute",
    /// Everything else.
    Other "other",
}

impl Kind {
    /// By the first word of a command's text, or by its code.
    pub(crate) fn of(command: &Command) -> Self {
        match command.code() {
            CommandCode::QUERY => Self::of_verb(command.verb()),
            CommandCode::STMT_PREPARE => Self::Prepare,
            CommandCode::STMT_EXECUTE
            | CommandCode::STMT_BULK_EXECUTE
            | CommandCode::STMT_FETCH => Self::Execute,
            CommandCode::INIT_DB | CommandCode::RESET_CONNECTION | CommandCode::SET_OPTION => {
                Self::Session
            }
            CommandCode::FIELD_LIST => Self::Read,
            _ => Self::Other,
        }
    }

    fn of_verb(verb: Verb) -> Self {
        use Verb as V;
        match verb {
            V::Select
            | V::Show
            | V::Table
            | V::Values
            | V::With
            | V::Describe
            | V::Explain
            | V::Help
            | V::Handler
            | V::Checksum => Self::Read,
            V::Insert | V::Update | V::Delete | V::Replace | V::Load | V::Call | V::Do => {
                Self::Write
            }
            V::Create
            | V::Alter
            | V::Drop
            | V::Truncate
            | V::Rename
            | V::Grant
            | V::Revoke
            | V::Analyze
            | V::Optimize
            | V::Repair => Self::Ddl,
            V::Begin | V::Start | V::Commit | V::Rollback | V::Savepoint | V::Release | V::Xa => {
                Self::Transaction
            }
            V::Set | V::Use | V::Reset => Self::Session,
            V::Prepare | V::Deallocate => Self::Prepare,
            V::Execute => Self::Execute,
            _ => Self::Other,
        }
    }
}
