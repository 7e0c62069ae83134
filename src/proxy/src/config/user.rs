//! Who may log in, and as whom the proxy logs in to servers for them.

use super::part::{Entry, Variables};
use chain::{
    facts::StickyMode,
    settings::{Mistakes, read_text},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};
use wire::auth::Secret;

/// Somebody who may log in.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    /// What the client must give.
    pub account: Account,
    /// What servers are given: the same, unless the file names another account.
    pub backend: Account,
    /// The hostgroup of its commands, unless a filter decides otherwise.
    pub hostgroup: u32,
    /// Connections at once; 0 is without limit.
    pub max_connections: u32,
    /// How it must connect.
    pub require: Require,
    /// Whether its transactions stay on their connection whatever rules and hints say.
    pub transaction_persistent: bool,
    /// How its sessions stick to their servers when they begin.
    pub sticky_backend: StickyMode,
    /// Whether its sessions are forwarded without a chain from their first command on.
    pub fast_forward: bool,
    /// Whether its sessions share their connections with others, where their chain does.
    pub multiplex: bool,
}

/// How a user must connect, as in CREATE USER ... REQUIRE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Require {
    /// In any way.
    #[default]
    None,
    /// Over TLS.
    Ssl,
    /// Over TLS, with a certificate that an authority of the listener's `client_ca` has signed.
    X509,
}

/// A name and its password.
#[derive(Clone, PartialEq, Eq)]
pub struct Account {
    /// The name.
    pub user: Arc<str>,
    /// The password; empty for none.
    pub password: Arc<Secret>,
}

/// Somebody who may log in.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "User")]
pub(super) struct UserTable {
    /// The name, for the client and, unless `backend_user` says otherwise, for the servers.
    #[schemars(length(min = 1, max = 128))]
    pub(super) name: String,
    /// The password; "" for a user without one. Exactly one of `password`, `password_file` and
    /// `password_env` must be there.
    password: Option<String>,
    /// A file whose first line is the password.
    password_file: Option<PathBuf>,
    /// A variable of the environment that holds the password.
    password_env: Option<String>,
    /// The hostgroup of its commands, unless a filter decides otherwise.
    pub(super) hostgroup: u32,
    /// Connections at once; 0 is without limit.
    #[serde(default)]
    max_connections: u32,
    /// How it must connect; a client that does not is refused with error 1045.
    #[serde(default)]
    require: Require,
    /// Whether its transactions stay on their connection whatever rules and hints say.
    #[serde(default = "yes")]
    transaction_persistent: bool,
    /// How its sessions stick to their servers when they begin. 0: not; 1: to one in each hostgroup
    /// while it is alive; 2: and to no other. The chain must have the filter sticky.
    #[serde(default)]
    #[schemars(range(max = 2))]
    pub(super) sticky_backend: u8,
    /// Whether its sessions are forwarded byte by byte from their first command on; the chain must
    /// have the filter fast-forward.
    #[serde(default)]
    pub(super) fast_forward: bool,
    /// Whether its sessions give their connections to others between two commands, in a chain with
    /// `multiplex = true`.
    #[serde(default = "yes")]
    multiplex: bool,
    /// Another account for the servers. Needs one of the three passwords below.
    #[schemars(length(min = 1, max = 128))]
    backend_user: Option<String>,
    /// The other account's password; "" for none.
    backend_password: Option<String>,
    /// A file whose first line is the other account's password.
    backend_password_file: Option<PathBuf>,
    /// A variable of the environment that holds the other account's password.
    backend_password_env: Option<String>,
}

/// The ways to give one password, and the prefix of their keys.
pub(super) struct Ways<'a> {
    pub(super) prefix: &'static str,
    pub(super) text: &'a Option<String>,
    pub(super) file: &'a Option<PathBuf>,
    pub(super) variable: &'a Option<String>,
}

/// Reads the passwords of a user. None when one of them cannot be read.
pub(super) fn resolve(
    entry: &Entry<UserTable>,
    variables: Variables<'_>,
    mistakes: &mut Mistakes,
) -> Option<User> {
    let table = &entry.value;
    let own = Ways {
        prefix: "",
        text: &table.password,
        file: &table.password_file,
        variable: &table.password_env,
    };
    let backend = Ways {
        prefix: "backend_",
        text: &table.backend_password,
        file: &table.backend_password_file,
        variable: &table.backend_password_env,
    };
    let password = own.read(entry, variables, mistakes);
    let backend = match &table.backend_user {
        Some(user) => Some((user, backend.read(entry, variables, mistakes))),
        None => {
            for key in backend.keys_given() {
                let mistake = entry.settings.mistake_at(&key, format!("`{key}` without a user"));
                mistakes.push(mistake.hint("add backend_user"));
            }
            None
        }
    };
    let account = Account { user: table.name.as_str().into(), password: password? };
    let backend = match backend {
        Some((user, password)) => Account { user: user.as_str().into(), password: password? },
        None => account.clone(),
    };
    let UserTable {
        hostgroup,
        max_connections,
        require,
        transaction_persistent,
        sticky_backend,
        fast_forward,
        multiplex,
        ..
    } = *table;
    // The schema has seen to the range.
    let sticky_backend = StickyMode::from_number(sticky_backend.into()).unwrap_or_default();
    Some(User {
        account,
        backend,
        hostgroup,
        max_connections,
        require,
        transaction_persistent,
        sticky_backend,
        fast_forward,
        multiplex,
    })
}

fn yes() -> bool {
    true
}

impl Ways<'_> {
    pub(super) fn keys_given(&self) -> Vec<String> {
        let given = [
            ("password", self.text.is_some()),
            ("password_file", self.file.is_some()),
            ("password_env", self.variable.is_some()),
        ];
        let given = given.into_iter().filter(|(_, given)| *given);
        given.map(|(key, _)| format!("{}{key}", self.prefix)).collect()
    }

    pub(super) fn read<T>(
        &self,
        entry: &Entry<T>,
        variables: Variables<'_>,
        mistakes: &mut Mistakes,
    ) -> Option<Arc<Secret>> {
        let (settings, prefix) = (&entry.settings, self.prefix);
        let keys = self.keys_given();
        let key = match keys.as_slice() {
            [key] => key,
            [] => {
                let missing = settings.mistake(format!("missing key `{prefix}password`"));
                mistakes.push(missing.hint(format!(
                    "give {prefix}password_file, {prefix}password_env or {prefix}password; \
                     {prefix}password = \"\" is a user without one"
                )));
                return None;
            }
            [first, second, ..] => {
                let message = format!("the password is given twice: `{first}` and `{second}`");
                mistakes.push(settings.mistake_at(second, message).hint("keep one of them"));
                return None;
            }
        };
        let password = match (self.text, self.file, self.variable) {
            (Some(text), _, _) => Ok(text.clone()),
            (_, Some(file), _) => {
                let file = entry.resolve(file);
                mistakes.reading(&file.display().to_string());
                first_line(&file)
            }
            (_, _, Some(name)) => {
                variables(name).ok_or_else(|| format!("the environment has no variable {name}"))
            }
            (None, None, None) => return None,
        };
        let password = password.and_then(|password| match password.contains('\0') {
            true => Err("a password has no NUL character".to_owned()),
            false => Ok(password),
        });
        let refused = |why| mistakes.push(settings.mistake_at(key, why));
        password.map_err(refused).ok().map(|password| Arc::new(Secret::from(password)))
    }
}

fn first_line(path: &Path) -> Result<String, String> {
    const LONGEST: u64 = 64 << 10;
    let text = read_text(path, LONGEST).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// Without the password.
impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Account").field(&self.user).finish()
    }
}
