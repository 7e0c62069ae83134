//! The settings that sessions run with.

/// A chain, and what scripts for it must heed.
#[derive(Debug)]
pub(crate) struct Mode {
    /// For a person.
    pub(crate) name: String,
    /// The chain.
    pub(crate) chain: String,
    /// Reads go to replicas by themselves; where not, a comment says so.
    pub(crate) split: bool,
}

/// Settings of the chain, and of `session-commands`, that random sessions run with.
const SETTINGS: &[(&str, &str)] = &[
    ("", "mode = 'off'"),
    ("", "mode = 'defer', propagate = 'lazy'"),
    ("", "mode = 'defer', propagate = 'last-used'"),
    ("", "mode = 'defer', propagate = 'eager'"),
    (
        "",
        "mode = 'predict', propagate = 'lazy', predict = { min_observations = 2, min_sessions = 1 }",
    ),
    (
        "",
        "mode = 'predict', propagate = 'last-used', predict = { min_observations = 2, min_sessions = 1 }",
    ),
    (
        "",
        "mode = 'predict', propagate = 'eager', predict = { min_observations = 2, min_sessions = 1 }",
    ),
];

/// All modes; where the environment names settings, those alone.
pub(crate) fn all() -> Vec<Mode> {
    let asked = |name: &str| std::env::var(name).ok();
    let (chain, settings) = (asked("TOWPATH_TWIN_CHAIN"), asked("TOWPATH_TWIN_SETTINGS"));
    if chain.is_some() || settings.is_some() {
        return both(&chain.unwrap_or_default(), &settings.unwrap_or_default()).into();
    }
    SETTINGS.iter().flat_map(|(chain, settings)| both(chain, settings)).collect()
}

fn both(of_chain: &str, settings: &str) -> [Mode; 2] {
    [(false, "by comment"), (true, "split")].map(|(split, reads)| {
        let chain = if split { self::split(settings) } else { by_comment(settings) };
        let chain = chain.replacen('\n', &format!("\n{of_chain}\n"), 1);
        Mode { name: format!("[{of_chain} {settings}] reads {reads}"), chain, split }
    })
}

/// Statements with `hg=1` in a comment go to a replica.
pub(crate) fn by_comment(settings: &str) -> String {
    let rules = "{ use = 'rules', rules = [\n  { rule_id = 1, match_pattern = 'hg=1', \
                 destination_hostgroup = 1, apply = true },\n] },\n";
    chain(rules, settings, "{ use = 'route' }")
}

/// Reads go to replicas.
pub(crate) fn split(settings: &str) -> String {
    let route = "{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1 }";
    chain("", settings, route)
}

/// Reads go to replicas, and sessions share their connections.
pub(crate) fn shared(settings: &str) -> String {
    split(settings).replacen('\n', "\nmultiplex = true\n", 1)
}

/// Reads go to replicas; session commands are answered by the primary.
pub(crate) fn from_primary(settings: &str) -> String {
    let route = "{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1, \
                 answer_from = 'primary' }";
    chain("", settings, route)
}

/// Reads go to replicas, and hints make a session stick to one.
pub(crate) fn sticky() -> String {
    let route = "{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1, \
                 balance = 'round-robin' }";
    chain("{ use = 'hints' },\n{ use = 'sticky', strict_wait = '0s' },\n", "", route)
}

fn chain(above: &str, settings: &str, route: &str) -> String {
    let comma = if settings.is_empty() { "" } else { ", " };
    format!(
        "[chain.main]\nsession = [\n{{ use = 'parse' }},\n{above}\
         {{ use = 'session-commands'{comma}{settings} }},\n{route},\n]\n\
         backend = [{{ use = 'catch-up' }}]\n"
    )
}
