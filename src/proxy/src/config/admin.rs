//! The admin port.

use super::{
    Address,
    part::{Entry, Variables},
    user::Ways,
};
use chain::settings::Mistakes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{net::IpAddr, path::PathBuf, sync::Arc};
use wire::auth::Secret;

/// The admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it is.
    pub address: Address,
    /// What whoever asks must know. Without one, everybody on this machine may ask.
    pub token: Option<Arc<Secret>>,
    /// How many digests are counted; 0 is none.
    pub digests: u32,
}

/// The admin port: an API and a page over HTTP.
#[derive(Clone, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Admin")]
pub(super) struct AdminTable {
    /// Where it is, over TCP. Another address than loopback needs a token.
    pub(super) address: Address,
    /// What whoever asks must send, as "Authorization: Bearer TOKEN". At most one of `token`,
    /// `token_file` and `token_env`.
    #[serde(skip_serializing)]
    token: Option<String>,
    /// A file whose first line is the token.
    #[serde(skip_serializing)]
    token_file: Option<PathBuf>,
    /// A variable of the environment that holds the token.
    #[serde(skip_serializing)]
    token_env: Option<String>,
    /// How many digests are counted, with their calls, errors and times; 0 counts none, and costs
    /// nothing.
    #[schemars(range(max = 100_000))]
    digests: u32,
}

/// The shortest token, in bytes.
const SHORTEST: usize = 16;

impl Default for AdminTable {
    fn default() -> Self {
        Self {
            address: Address::Tcp("127.0.0.1:6032".to_owned()),
            token: None,
            token_file: None,
            token_env: None,
            digests: 0,
        }
    }
}

/// Reads the token, and notes what is wrong with the table.
pub(super) fn resolve(
    entry: &Entry<AdminTable>,
    variables: Variables<'_>,
    mistakes: &mut Mistakes,
) -> Admin {
    let AdminTable { address, token, token_file, token_env, digests } = &entry.value;
    let ways =
        Ways { prefix: "", word: "token", text: token, file: token_file, variable: token_env };
    let given = ways.keys_given();
    let token = given.first().and_then(|key| {
        let token = ways.read(entry, variables, mistakes)?;
        if token.expose().len() < SHORTEST {
            let text = format!("a token has at least {SHORTEST} characters");
            let mistake = entry.settings.mistake_at(key, text);
            mistakes.push(mistake.hint("for example what `openssl rand -hex 32` gives"));
        }
        let visible = |byte: &u8| byte.is_ascii_graphic();
        if !token.expose().iter().all(visible) {
            let text = "a token has letters, digits and signs of ASCII, and no blanks";
            mistakes.push(entry.settings.mistake_at(key, text));
        }
        Some(token)
    });
    match address {
        Address::Unix(_) => {
            let mistake = entry.settings.mistake_at("address", "metrics are served over TCP only");
            mistakes.push(mistake.hint("for example \"127.0.0.1:6032\""));
        }
        Address::Tcp(text) if given.is_empty() && !is_loopback(text) => {
            let text = "others than this machine reach this address: it needs a token";
            let mistake = entry.settings.mistake_at("address", text);
            mistakes.push(mistake.hint("add token_file or token_env, or listen on 127.0.0.1"));
        }
        Address::Tcp(_) => {}
    }
    Admin { address: address.clone(), token, digests: *digests }
}

/// Whether only this machine reaches an address. A name may be anybody's, but for `localhost`.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_matches(['[', ']']);
    let numeric = || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    host.eq_ignore_ascii_case("localhost") || numeric()
}

#[cfg(test)]
mod tests {
    use super::is_loopback;

    #[test]
    fn what_only_this_machine_reaches() {
        for address in ["127.0.0.1:6032", "127.9.9.9:1", "[::1]:6032", "localhost:6032"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["0.0.0.0:6032", "[::]:6032", "10.1.2.3:1", "proxy.example:6032"] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
