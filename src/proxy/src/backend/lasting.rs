//! What a session can do to a connection that COM_RESET_CONNECTION does not undo.
//!
//! Measured on MariaDB 10.11 and MySQL 9.7: the option of COM_SET_OPTION, and the active roles
//! (SET ROLE); on MySQL also SET RESOURCE GROUP.

use chain::Command;
use sql::Verb;
use wire::{capability::Capabilities, command::CommandCode};

/// What has been done to a connection since its login.
pub(crate) struct Lasting {
    /// By the login: one command may have several statements.
    agreed: bool,
    /// As the last COM_SET_OPTION has it.
    option: bool,
    /// Roles or the resource group may have changed.
    role: bool,
}

impl Lasting {
    /// Nothing yet, after a login with these capabilities.
    pub(super) fn of(capabilities: Capabilities) -> Self {
        let agreed = capabilities.contains(Capabilities::MULTI_STATEMENTS);
        Self { agreed, option: agreed, role: false }
    }

    /// Notes what a command asks for, whether or not the server does it.
    pub(super) fn follow(&mut self, command: &Command) {
        match command.code() {
            // Servers refuse any other value.
            CommandCode::SET_OPTION => match command.payload() {
                [0, 0, ..] => self.option = true,
                [1, 0, ..] => self.option = false,
                _ => {}
            },
            CommandCode::QUERY | CommandCode::STMT_PREPARE if !self.role => {
                let text = command.text().unwrap_or(command.payload());
                self.role = !is_plain(command, text, self.option) && sets_role(text);
            }
            _ => {}
        }
    }

    /// The body of the COM_SET_OPTION that brings back what the login has agreed on, if it is needed.
    pub(super) fn option_to_restore(&mut self) -> Option<[u8; 2]> {
        let differs = self.option != self.agreed;
        self.option = self.agreed;
        differs.then_some([u8::from(!self.agreed), 0])
    }

    /// Whether a reset leaves anything of it.
    pub(super) fn differs(&self) -> bool {
        self.role || self.option != self.agreed
    }

    /// Nothing but another login gives the roles of the login back.
    pub(super) fn is_for_good(&self) -> bool {
        self.role
    }
}

/// Whether the first word says enough: these statements set nothing, however long they are, if
/// there can be no other one behind them. Behind a comment it may be one that this server skips.
fn is_plain(command: &Command, text: &[u8], several: bool) -> bool {
    let verbs = [Verb::Select, Verb::Insert, Verb::Update, Verb::Delete, Verb::Replace];
    let another = || several && memchr::memchr(b';', text).is_some();
    let begins = || text.trim_ascii_start().first().is_some_and(u8::is_ascii_alphabetic);
    verbs.contains(&command.verb()) && begins() && !another()
}

/// Whether SET ROLE or SET RESOURCE GROUP may be in a text, be it in a string that is prepared. What
/// is put together on the server, or done by a stored routine, is not seen here.
fn sets_role(text: &[u8]) -> bool {
    memchr::memchr2_iter(b'r', b'R', text).any(|at| {
        ["role", "resource"].iter().any(|word| {
            let rest = &text[at..];
            rest.get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word.as_bytes()))
                // a column in UPDATE ... SET role = 1, or another word
                && !rest[word.len()..].trim_ascii_start().starts_with(b"=")
                && !rest.get(word.len()).copied().is_some_and(is_of_a_word)
                && is_behind_set(&text[..at])
        })
    })
}

/// Whether the word before this place is SET, or hidden by a comment.
fn is_behind_set(before: &[u8]) -> bool {
    let text = before.trim_ascii_end();
    let gap = &before[text.len()..];
    if text.ends_with(b"*/") {
        return true;
    }
    if gap.contains(&b'\n') {
        let line = text.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
        if line.contains(&b'#') || line.windows(2).any(|two| two == b"--") {
            return true;
        }
    }
    let Some((word, set)) = text.split_last_chunk::<3>() else { return false };
    !gap.is_empty()
        && set.eq_ignore_ascii_case(b"set")
        && !word.last().copied().is_some_and(is_of_a_word)
}

fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::{Lasting, sets_role};
    use chain::{Command, testing};
    use wire::{capability::Capabilities, command::CommandCode};

    #[test]
    fn roles_are_seen_and_columns_of_that_name_are_not() {
        for text in [
            "SET ROLE admin",
            "set role NONE",
            "/* a */SET/* b */ROLE x",
            "SET -- a comment\n  ROLE x",
            "SET # a comment\nrole x",
            "SELECT 1;SET\n\tRole x",
            "PREPARE p FROM 'SET ROLE x'",
            "SET STATEMENT max_statement_time = 1 FOR SET ROLE x",
            "SET RESOURCE GROUP g",
            "SET ROLE `x`",
        ] {
            assert!(sets_role(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT role FROM users",
            "UPDATE users SET role = 'x', resource = 1",
            "UPDATE users SET role='x'",
            "SELECT a,\n  role\nFROM users",
            "SELECT 1 AS offset, ROLE FROM x",
            "SET roles = 1",
            "SET ROLE_1 = 2",
            "SET DEFAULT ROLE x FOR y",
            "r",
            "",
        ] {
            assert!(!sets_role(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn what_cannot_set_anything_is_not_searched() {
        let text = "INSERT INTO t VALUES (1); SET ROLE x";
        for (capabilities, role) in
            [(Capabilities::EMPTY, false), (Capabilities::MULTI_STATEMENTS, true)]
        {
            let mut lasting = Lasting::of(capabilities);
            lasting.follow(&Command::query(testing::session(), "SELECT 1, ' SET ROLE x'"));
            assert!(!lasting.is_for_good());
            lasting.follow(&Command::query(testing::session(), text));
            assert_eq!(lasting.is_for_good(), role);
            lasting.follow(&Command::query(testing::session(), "/*!99999 SELECT 1 */ SET ROLE x"));
            assert!(lasting.is_for_good());
        }
    }

    #[test]
    fn the_option_is_restored_once() {
        for (capabilities, change, back) in [
            (Capabilities::EMPTY, [0, 0], [1, 0]),
            (Capabilities::MULTI_STATEMENTS, [1, 0], [0, 0]),
        ] {
            let mut lasting = Lasting::of(capabilities);
            assert_eq!(lasting.option_to_restore(), None);
            let command =
                |body: &[u8]| Command::new(testing::session(), CommandCode::SET_OPTION, body);
            lasting.follow(&command(&change));
            lasting.follow(&command(&[9, 9]));
            assert_eq!(lasting.option_to_restore(), Some(back));
            assert_eq!(lasting.option_to_restore(), None);
            lasting.follow(&command(&change));
            lasting.follow(&command(&back));
            assert_eq!(lasting.option_to_restore(), None);
        }
    }
}
