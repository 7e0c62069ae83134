//! What tables say about each other, and what their schemas cannot say.

mod logins;

pub(super) use logins::relays;

use super::{
    Address, Backend, ClientCertificate, Cluster, Hostgroup, Listener, ListenerTlsMode, Log,
    LoginBy, Server, ServerCompression, ServerTlsMode,
    admin::AdminTable,
    load::Chains,
    part::{Entry, List, elsewhere},
    user::UserTable,
};
use crate::tls::{self, Check, TlsError};
use chain::{
    facts::{Affinity, Fact, FastForward},
    settings::{Mistake, Mistakes, Settings, suggest},
};
use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    path::{Path, PathBuf},
};
use tracing_subscriber::EnvFilter;

/// The hostgroups that have servers. None when that is not known, as a server has mistakes.
pub(super) struct Hostgroups(Option<BTreeSet<u32>>);

impl Hostgroups {
    /// Those of the servers; a cluster's are the same servers'.
    pub(super) fn of(servers: &List<Server>, clusters: &List<Cluster>) -> Self {
        let used = || {
            let mut used: BTreeSet<_> =
                servers.entries.iter().map(|entry| entry.value.hostgroup).collect();
            for cluster in clusters.entries.iter().map(|entry| &entry.value) {
                if used.contains(&cluster.writer) || used.contains(&cluster.reader) {
                    used.extend([cluster.writer, cluster.reader]);
                }
            }
            used
        };
        Self((servers.complete && clusters.complete).then(used))
    }

    /// The mistake of a table that names a hostgroup without a server.
    fn missing(&self, hostgroup: u32, settings: &Settings) -> Option<Mistake> {
        let message = format!("hostgroup {hostgroup} has no server");
        self.missing_at(hostgroup, || settings.mistake_at("hostgroup", message))
    }

    /// `mistake`, if there is no server in that hostgroup.
    pub(super) fn missing_at(
        &self,
        hostgroup: u32,
        mistake: impl FnOnce() -> Mistake,
    ) -> Option<Mistake> {
        let known = self.0.as_ref().filter(|known| !known.contains(&hostgroup))?;
        let mistake = mistake();
        let known: Vec<_> = known.iter().map(u32::to_string).collect();
        Some(match known.as_slice() {
            [] => mistake.hint("there is no [[server]] at all"),
            some => mistake.hint(format!("hostgroups with servers: {}", some.join(", "))),
        })
    }
}

pub(super) fn log(log: &Entry<Log>, mistakes: &mut Mistakes) {
    if EnvFilter::builder().parse(&log.value.level).is_err() {
        let mistake = log.settings.mistake_at("level", "this is not a level, nor a list of them");
        mistakes.push(mistake.hint("error, warn, info, debug, trace, or \"info,proxy=debug\""));
    }
}

pub(super) fn backend(backend: &Entry<Backend>, mistakes: &mut Mistakes) {
    let Backend { connect_budget, connect_timeout, .. } = backend.value;
    let durations = [("connect_budget", connect_budget), ("connect_timeout", connect_timeout)];
    backend.not_zero(&durations, mistakes);
}

pub(super) fn listeners(
    main: &Settings,
    listeners: &List<Listener>,
    admin: &Entry<AdminTable>,
    chains: &Chains,
    mistakes: &mut Mistakes,
) {
    if listeners.complete && listeners.entries.is_empty() {
        let mistake = main.mistake("there is no listener: nobody can connect");
        mistakes.push(mistake.hint("add [[listener]] with an address and a chain"));
    }
    unique(listeners, "address", fixed_address, mistakes);
    for entry in &listeners.entries {
        let Entry { settings, value: Listener { address, chain, tls, .. }, .. } = entry;
        if *address == admin.value.address && fixed_address(&entry.value).is_some() {
            let mistake = settings.mistake_at("address", "[admin] has this address already");
            mistakes.push(mistake.hint("[admin] address = \"127.0.0.1:6032\" is its default"));
        }
        if !chains.contains_key(chain) {
            let mistake = settings.mistake_at("chain", format!("there is no chain {chain:?}"));
            let names = chains.keys().map(String::as_str);
            let mistake = mistake.hint(format!("add [chain.{chain}]"));
            mistakes.push(suggest(mistake, chain, names, "there are"));
        }
        let made = pair(&tls.certificate, &tls.key).and_then(|pair| {
            let has_files = pair.is_some() || tls.client_ca.is_some();
            let made = has_files.then(|| tls::acceptor(pair, tls.client_ca.as_deref()));
            made.map_or(Ok(()), |made| made.map(drop).map_err(TlsMistake::Refused))
        });
        let files =
            [("certificate", &tls.certificate), ("key", &tls.key), ("client_ca", &tls.client_ca)];
        note_tls(settings, made, &files, mistakes);
        check_tls(entry, mistakes);
    }
}

/// A listener's TLS that nobody could use.
fn check_tls(entry: &Entry<Listener>, mistakes: &mut Mistakes) {
    let Entry { settings, value: Listener { tls, .. }, .. } = entry;
    let table = settings.table("tls", &mut Mistakes::default());
    let table = table.as_ref().unwrap_or(settings);
    let without = tls.certificate.is_none() && tls.mode != ListenerTlsMode::Disable;
    if without && !tls.self_signed {
        let mistake = table.mistake_at("self_signed", "no certificate, and none may be made");
        mistakes.push(mistake.hint("give `certificate` and `key`, or mode = \"disable\""));
    }
    if tls.client_certificate == ClientCertificate::Required && tls.client_ca.is_none() {
        let message = "nothing says whose certificates are good";
        let mistake = table.mistake_at("client_certificate", message);
        mistakes.push(mistake.hint("add client_ca, a PEM file of authorities"));
    }
}

pub(super) fn servers(servers: &List<Server>, mistakes: &mut Mistakes) {
    unique(servers, "address", |server| Some((server.hostgroup, server.address.clone())), mistakes);
    for entry in &servers.entries {
        let Entry { settings, value: Server { address, tls, .. }, .. } = entry;
        if address.port() == Some(0) {
            mistakes.push(settings.mistake_at("address", "a server's port is not 0"));
        }
        check_level(entry, mistakes);
        let tls_settings = settings.table("tls", &mut Mistakes::default());
        if tls.mode == ServerTlsMode::VerifyIdentity && address.host().is_none() {
            let at = tls_settings.as_ref().unwrap_or(settings);
            let mistake = at.mistake_at("mode", "a unix socket has no host name to verify");
            mistakes.push(mistake.hint("use verify-ca"));
        }
        let made = pair(&tls.certificate, &tls.key).and_then(|pair| {
            let made = tls::connector(Check::None, tls.ca.as_deref(), pair);
            made.map(drop).map_err(TlsMistake::Refused)
        });
        let files = [("certificate", &tls.certificate), ("key", &tls.key), ("ca", &tls.ca)];
        note_tls(settings, made, &files, mistakes);
    }
}

pub(super) fn hostgroups(hostgroups: &List<Hostgroup>, mistakes: &mut Mistakes) {
    unique(hostgroups, "id", |hostgroup| Some(hostgroup.id), mistakes);
    unique(hostgroups, "name", |hostgroup| Some(hostgroup.name.clone()), mistakes);
}

/// Hostgroups and clusters that filters name.
pub(super) fn chains(hostgroups: &Hostgroups, clusters: &List<Cluster>, mistakes: &mut Mistakes) {
    for (id, mistake) in mistakes.take_hostgroups() {
        mistakes.extend(hostgroups.missing_at(id.0, || mistake));
    }
    let known: Vec<_> = clusters.entries.iter().map(|entry| entry.value.name.as_str()).collect();
    for (name, mistake) in mistakes.take_clusters() {
        let found = name.as_ref().map_or(!known.is_empty(), |name| known.contains(&name.as_str()));
        if clusters.complete && !found {
            mistakes.push(match &name {
                Some(name) if !known.is_empty() => {
                    suggest(mistake, name, known.iter().copied(), "there are")
                }
                _ => mistake.hint("[[cluster]] with name, writer and reader makes one"),
            });
        }
    }
}

pub(super) fn users(
    main: &Settings,
    users: &List<UserTable>,
    listeners: &List<Listener>,
    hostgroups: &Hostgroups,
    chains: &Chains,
    mistakes: &mut Mistakes,
) {
    let by_proxy = |entry: &Entry<Listener>| entry.value.login == LoginBy::Proxy;
    let needed = listeners.entries.is_empty() || listeners.entries.iter().any(by_proxy);
    if users.complete && users.entries.is_empty() && needed {
        let mistake = main.mistake("there is no user: nobody can log in");
        mistakes.push(mistake.hint("add [[user]] with a name, a password and a hostgroup"));
    }
    unique(users, "name", |user| Some(user.name.clone()), mistakes);
    let chain =
        |entry: &Entry<Listener>| chains.get(&entry.value.chain).map(|(_, chain)| chain.clone());
    let used: Vec<_> = listeners.entries.iter().filter(|entry| by_proxy(entry)).collect();
    let without =
        |fact: &str| used.iter().find(|entry| chain(entry).is_some_and(|chain| !chain.gives(fact)));
    for entry in &users.entries {
        mistakes.extend(hostgroups.missing(entry.value.hostgroup, &entry.settings));
        for (wanted, key, fact, filter, does) in [
            (
                entry.value.fast_forward,
                "fast_forward",
                FastForward::NAME,
                "fast-forward",
                "fast-forwards sessions",
            ),
            (
                entry.value.sticky_backend > 0,
                "sticky_backend",
                Affinity::NAME,
                "sticky",
                "keeps sessions on their servers",
            ),
        ] {
            let Some(without) = without(fact).filter(|_| wanted) else { continue };
            let name = &without.value.chain;
            let message = format!("the chain {name:?} has no filter that {does}");
            let hint = format!("put {{ use = {filter:?} }} above `route` in its `session` list");
            mistakes.push(entry.settings.mistake_at(key, message).hint(hint));
        }
    }
}

/// A level without an algorithm, or one that its algorithm does not have.
fn check_level(server: &Entry<Server>, mistakes: &mut Mistakes) {
    let Entry { settings, value: Server { compression, compression_level, .. }, .. } = server;
    let Some(level) = compression_level else { return };
    let mistake = |message: &str| settings.mistake_at("compression_level", message);
    match compression {
        ServerCompression::None => {
            let mistake = mistake("a level without `compression`");
            mistakes.push(mistake.hint("add compression = \"zlib\" or \"zstd\""));
        }
        ServerCompression::Zlib if *level > 9 => mistakes.push(mistake("zlib's levels are 1 to 9")),
        ServerCompression::Zlib | ServerCompression::Zstd => {}
    }
}

/// Notes each table whose `key` has the value of one before it.
pub(super) fn unique<T, K: Eq + Hash>(
    list: &List<T>,
    key: &str,
    value: impl Fn(&T) -> Option<K>,
    mistakes: &mut Mistakes,
) {
    let mut seen = HashMap::new();
    for entry in &list.entries {
        let Some(value) = value(&entry.value) else { continue };
        match seen.get(&value) {
            None => {
                seen.insert(value, &entry.settings);
            }
            Some(first) => {
                let mistake =
                    entry.settings.mistake_at(key, format!("this {key} is taken already"));
                mistakes.push(mistake.hint(elsewhere(&first.mistake_at(key, ""))));
            }
        }
    }
}

/// The address, unless its port is chosen when it is opened.
fn fixed_address(listener: &Listener) -> Option<Address> {
    (listener.address.port() != Some(0)).then(|| listener.address.clone())
}

/// What is wrong with the files of a `tls` table.
enum TlsMistake {
    /// One of certificate and key without the other: the key that is there, and the missing one.
    Half(&'static str, &'static str),
    Refused(TlsError),
}

/// Certificate and key, both or none.
fn pair<'a>(
    certificate: &'a Option<PathBuf>,
    key: &'a Option<PathBuf>,
) -> Result<tls::Pair<'a>, TlsMistake> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        (Some(_), None) => Err(TlsMistake::Half("certificate", "key")),
        (None, Some(_)) => Err(TlsMistake::Half("key", "certificate")),
    }
}

/// Notes a mistake in a `tls` table, at the key that names the file in question.
fn note_tls(
    settings: &Settings,
    made: Result<(), TlsMistake>,
    files: &[(&str, &Option<PathBuf>)],
    mistakes: &mut Mistakes,
) {
    let Err(mistake) = made else { return };
    let table = settings.table("tls", &mut Mistakes::default());
    let table = table.as_ref().unwrap_or(settings);
    mistakes.push(match mistake {
        TlsMistake::Half(key, missing) => {
            table.mistake_at(key, format!("`{key}` without `{missing}`"))
        }
        TlsMistake::Refused(TlsError::File(path, reason)) => {
            let names =
                |file: &&(&str, &Option<PathBuf>)| file.1.as_deref() == Some(Path::new(&path));
            let key = files.iter().find(names).map_or("tls", |(key, _)| *key);
            table.mistake_at(key, format!("{}: {reason}", path.display()))
        }
        TlsMistake::Refused(other) => settings.mistake_at("tls", other.to_string()),
    });
}
