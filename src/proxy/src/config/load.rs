//! From files to a configuration.

use super::{
    Config, Server, Shutdown,
    checks::{self, Hostgroups},
    cluster, limits, monitor,
    part::{self, Entry, List, Part, Variables, elsewhere},
    schema, tcp, telemetry, user,
};
use chain::{
    Chain, Registry,
    settings::{Mistake, Mistakes, Settings},
};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

pub(super) fn load(
    path: &Path,
    registry: &Registry,
    variables: Variables<'_>,
) -> Result<Config, Mistakes> {
    let mut mistakes = Mistakes::default();
    let config = match Part::read(path, variables, &mut mistakes) {
        Ok(main) => {
            let parts = with_included(main, variables, &mut mistakes);
            let mut config = assemble(&parts, registry, variables, &mut mistakes);
            config.files = mistakes.files().iter().map(PathBuf::from).collect();
            Some(config)
        }
        Err(why) => {
            let name = path.display().to_string();
            mistakes.push(Mistake::in_file(name, format!("the file cannot be read: {why}")));
            None
        }
    };
    mistakes.into_result(config)
}

/// The main file first, then those that it includes.
fn with_included(main: Part, variables: Variables<'_>, mistakes: &mut Mistakes) -> Vec<Part> {
    let names = main.settings.texts("include", mistakes);
    let mut included = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let Some(name) = name else { continue };
        if seen.contains(&name.as_str()) {
            let message = format!("{name} is included twice");
            mistakes.push(main.settings.mistake_in("include", at, message));
            continue;
        }
        seen.push(name);
        match Part::read(&main.named(name), variables, mistakes) {
            Ok(part) => included.push(part),
            Err(why) => {
                let message = format!("{name} cannot be read: {why}");
                mistakes.push(main.settings.mistake_in("include", at, message));
            }
        }
    }
    for part in included.iter().filter(|part| part.settings.has("include")) {
        let message = "an included file includes no others";
        mistakes.push(part.settings.mistake_at("include", message));
    }
    included.insert(0, main);
    included
}

fn assemble(
    parts: &[Part],
    registry: &Registry,
    variables: Variables<'_>,
    mistakes: &mut Mistakes,
) -> Config {
    let keys = schema::keys();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    parts.iter().for_each(|part| part.settings.allow_keys(&keys, mistakes));

    let admin = part::single(parts, "admin", mistakes);
    let log = part::single(parts, "log", mistakes);
    let otlp = part::single(parts, "otlp", mistakes);
    let trace = part::single(parts, "trace", mistakes);
    let bounds = part::single(parts, "limits", mistakes);
    let backend = part::single(parts, "backend", mistakes);
    let watching = part::single(parts, "monitor", mistakes);
    let sockets = part::single(parts, "tcp", mistakes);
    let mut shutdown = part::single(parts, "shutdown", mistakes);
    let reload = part::single(parts, "reload", mistakes);
    let mut listeners = part::list(parts, "listener", mistakes);
    let users = part::list(parts, "user", mistakes);
    let mut servers = part::list(parts, "server", mistakes);
    let hostgroups = part::list(parts, "hostgroup", mistakes);
    let clusters = part::list(parts, "cluster", mistakes);
    let chains = chains(parts, registry, mistakes);
    resolve_paths(&mut listeners, &mut servers);
    resolve_take_over(&mut shutdown);

    checks::admin(&admin, mistakes);
    checks::log(&log, mistakes);
    telemetry::check(&otlp, &trace, mistakes);
    limits::check(&bounds, mistakes);
    checks::backend(&backend, mistakes);
    tcp::check(&sockets, mistakes);
    checks::listeners(&parts[0].settings, &listeners, &admin, &chains, mistakes);
    checks::servers(&servers, mistakes);
    checks::hostgroups(&hostgroups, mistakes);
    let known = Hostgroups::of(&servers, &clusters);
    cluster::check(&clusters, &servers, &known, mistakes);
    checks::chains(&known, &clusters, mistakes);
    checks::relays(&listeners, &servers, &known, &chains, mistakes);
    checks::users(&parts[0].settings, &users, &listeners, &known, &chains, mistakes);

    let monitor = monitor::resolve(&watching, variables, mistakes);
    let users = users.entries.iter().filter_map(|entry| user::resolve(entry, variables, mistakes));
    let users = users.collect();
    let (mut servers, clusters) = (values(servers), values(clusters));
    cluster::complete(&mut servers, &clusters);
    Config {
        admin: admin.value,
        log: log.value,
        otlp: otlp.value,
        trace: trace.value,
        limits: bounds.value,
        backend: backend.value,
        tcp: sockets.value,
        shutdown: shutdown.value,
        reload: reload.value,
        files: Vec::new(),
        users,
        listeners: values(listeners),
        servers,
        clusters,
        monitor,
        hostgroups: values(hostgroups),
        chains: chains.into_iter().map(|(name, (_, chain))| (name, chain)).collect(),
    }
}

/// The chains by name, each with its table.
pub(super) type Chains = BTreeMap<String, (Settings, Chain)>;

fn chains(parts: &[Part], registry: &Registry, mistakes: &mut Mistakes) -> Chains {
    let mut chains = Chains::new();
    for part in parts {
        let Some(table) = part.settings.table("chain", mistakes) else { continue };
        for (name, settings) in table.named_tables(mistakes) {
            if let Some((first, _)) = chains.get(&name) {
                let mistake = settings.mistake(format!("there are two chains {name:?}"));
                mistakes.push(mistake.hint(elsewhere(&first.mistake(""))));
                continue;
            }
            let chain = Chain::new(&settings, registry, mistakes);
            chains.insert(name, (settings, chain));
        }
    }
    chains
}

fn resolve_paths(listeners: &mut List<super::Listener>, servers: &mut List<Server>) {
    for entry in &mut listeners.entries {
        entry.value.address = entry.resolve_address(&entry.value.address);
        let tls = &mut entry.value.tls;
        for path in [&mut tls.certificate, &mut tls.key, &mut tls.client_ca].into_iter().flatten() {
            *path = entry.directory.join(&*path);
        }
    }
    for entry in &mut servers.entries {
        if entry.value.name.is_empty() {
            entry.value.name = entry.value.address.to_string();
        }
        entry.value.address = entry.resolve_address(&entry.value.address);
        let tls = &mut entry.value.tls;
        for path in [&mut tls.certificate, &mut tls.key, &mut tls.ca].into_iter().flatten() {
            *path = entry.directory.join(&*path);
        }
    }
}

fn resolve_take_over(shutdown: &mut Entry<Shutdown>) {
    shutdown.value.take_over = shutdown.value.take_over.as_ref().map(|path| shutdown.resolve(path));
}

fn values<T>(list: List<T>) -> Vec<T> {
    list.entries.into_iter().map(|Entry { value, .. }| value).collect()
}
