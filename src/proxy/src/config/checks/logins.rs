//! Listeners whose logins the proxy does not check.

use super::Hostgroups;
use crate::config::{
    Listener, LoginBy, Server,
    load::Chains,
    part::{Entry, List},
};
use chain::{
    facts::{Fact, Forwarding},
    settings::{Mistakes, Settings},
};

/// Listeners whose logins are the servers' to check.
pub(in crate::config) fn relays(
    listeners: &List<Listener>,
    servers: &List<Server>,
    hostgroups: &Hostgroups,
    chains: &Chains,
    mistakes: &mut Mistakes,
) {
    for Entry { settings, value: listener, .. } in &listeners.entries {
        let Listener { login, hostgroup, default_auth, .. } = listener;
        match (login, hostgroup) {
            (LoginBy::Untouched, _) => {
                untouched(listener, settings, hostgroups, chains, mistakes);
                continue;
            }
            (LoginBy::Proxy, None) => continue,
            (LoginBy::Proxy, Some(_)) => {
                let mistake = settings.mistake_at("hostgroup", "`hostgroup` without a login there");
                mistakes.push(mistake.hint("add login = \"server\""));
                continue;
            }
            (LoginBy::Server, None) => {
                let mistake =
                    settings.mistake_at("login", "login = \"server\" without a hostgroup");
                mistakes
                    .push(mistake.hint("add hostgroup = 0, or that of the servers in question"));
            }
            (LoginBy::Server, Some(hostgroup)) => {
                if let Some(mistake) = hostgroups.missing(*hostgroup, settings) {
                    mistakes.push(mistake);
                }
                let on_socket = |server: &&Entry<Server>| {
                    server.value.hostgroup == *hostgroup && server.value.address.host().is_none()
                };
                // unix_socket and auth_socket let in whoever the process at the other end is.
                if servers.entries.iter().any(|server| on_socket(&server)) {
                    let message = "a server on a unix socket may take every client for the \
                                   proxy's own user";
                    let mistake = settings.mistake_at("login", message);
                    mistakes.push(mistake.hint("give the server's TCP address"));
                }
            }
        }
        if default_auth.is_some() {
            let message = "with login = \"server\" the servers choose the plugin";
            mistakes.push(settings.mistake_at("default_auth", message));
        }
    }
}

/// A listener that forwards without reading: what would have to be read cannot be set.
fn untouched(
    listener: &Listener,
    settings: &Settings,
    hostgroups: &Hostgroups,
    chains: &Chains,
    mistakes: &mut Mistakes,
) {
    match listener.hostgroup {
        None => {
            let mistake = settings.mistake_at("login", "login = \"untouched\" without a hostgroup");
            mistakes.push(mistake.hint("add hostgroup = 0, or that of the servers in question"));
        }
        Some(hostgroup) => mistakes.extend(hostgroups.missing(hostgroup, settings)),
    }
    for key in ["tls", "server_version", "default_auth", "compression"] {
        if settings.has(key) {
            let message = format!("with login = \"untouched\" `{key}` is the servers'");
            mistakes.push(settings.mistake_at(key, message).hint("leave it out"));
        }
    }
    let Some((_, chain)) = chains.get(&listener.chain) else { return };
    if !chain.is_raw() {
        let message = "with login = \"untouched\" no filter sees anything";
        let hint = "session = [{ use = \"fast-forward\", always = true }] says so";
        mistakes.push(settings.mistake_at("chain", message).hint(hint));
    }
    if chain.gives(Forwarding::NAME) {
        let message = "with login = \"untouched\" there is nothing to observe";
        let hint = "leave `observe` out of the chain's fast-forward";
        mistakes.push(settings.mistake_at("chain", message).hint(hint));
    }
}
