//! The settings that random sessions run with.

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

/// All modes.
pub(crate) fn all() -> Vec<Mode> {
    let mut modes = Vec::new();
    for settings in [""] {
        for split in [false, true] {
            modes.push(mode(settings, split));
        }
    }
    modes
}

fn mode(settings: &str, split: bool) -> Mode {
    let comma = if settings.is_empty() { "" } else { ", " };
    let (rules, route) = if split {
        ("", "{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1 }")
    } else {
        (
            "{ use = 'rules', rules = [\n  { rule_id = 1, match_pattern = 'hg=1', \
             destination_hostgroup = 1, apply = true },\n] },\n",
            "{ use = 'route' }",
        )
    };
    let chain = format!(
        "[chain.main]\nsession = [\n{{ use = 'parse' }},\n{rules}\
         {{ use = 'session-commands'{comma}{settings} }},\n{route},\n]\n\
         backend = [{{ use = 'catch-up' }}]\n"
    );
    let reads = if split { "split" } else { "by comment" };
    Mode { name: format!("[{settings}] reads {reads}"), chain, split }
}
