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
    /// Sessions share connections.
    pub(crate) shares: bool,
}

/// Where replies are answered from memory, they are soon.
const SOON: &str = "predict = { min_observations = 2, min_sessions = 1 }";
/// A line of the chain: sessions share connections.
const SHARED: &str = "multiplex = true";

/// Settings of the chain, and of `session-commands`, that random sessions run with.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("", "off", "lazy"),
    ("", "defer", "lazy"),
    ("", "defer", "last-used"),
    ("", "defer", "eager"),
    ("", "predict", "lazy"),
    ("", "predict", "last-used"),
    ("", "predict", "eager"),
    (SHARED, "off", "lazy"),
    (SHARED, "defer", "lazy"),
    (SHARED, "predict", "last-used"),
    (SHARED, "predict", "eager"),
];

/// All modes; where the environment names settings, those alone.
pub(crate) fn all() -> Vec<Mode> {
    let asked = |name: &str| std::env::var(name).ok();
    let (chain, settings) = (asked("TOWPATH_TWIN_CHAIN"), asked("TOWPATH_TWIN_SETTINGS"));
    if chain.is_some() || settings.is_some() {
        return both(&chain.unwrap_or_default(), &settings.unwrap_or_default()).into();
    }
    let settings = |mode, propagate| format!("mode = '{mode}', propagate = '{propagate}', {SOON}");
    let each = SETTINGS.iter();
    each.flat_map(|(chain, mode, propagate)| both(chain, &settings(mode, propagate))).collect()
}

fn both(of_chain: &str, settings: &str) -> [Mode; 2] {
    [(false, "by comment"), (true, "split")].map(|(split, reads)| {
        let chain = if split { self::split(settings) } else { by_comment(settings) };
        let chain = chain.replacen('\n', &format!("\n{of_chain}\n"), 1);
        let name = format!("[{of_chain} {settings}] reads {reads}");
        Mode { name, chain, split, shares: of_chain.contains(SHARED) }
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
