//! What the documents show is so: their TOML loads, their links lead somewhere, the commands that
//! they name exist, and the table of filters is the registry's.

use chain::{
    Part, Registry,
    settings::{Mistakes, Settings},
};
use proxy::config::Config;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// What an example needs to be a whole configuration, by the table that it would stand in.
const BASE: [(&str, &str); 4] = [
    ("listener", "[[listener]]\naddress = '127.0.0.1:6033'\nchain = 'main'\n"),
    ("user", "[[user]]\nname = 'somebody'\npassword = ''\nhostgroup = 0\n"),
    ("server", "[[server]]\nhostgroup = 0\naddress = '127.0.0.1:3306'\n"),
    ("chain", "[chain.main]\nsession = [{ use = 'route' }]\n"),
];

/// Its examples name filters of a user's own: those of tests/plugin, where they are tested.
const TESTED_ELSEWHERE: &str = "docs/writing-a-filter.md";

#[test]
fn toml_examples_load() {
    let registry = towpath::builtin::registry();
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages().into_iter().filter(|page| shown(page) != TESTED_ELSEWHERE) {
        for (line, example) in blocks(&page, "toml") {
            count += 1;
            if let Err(mistakes) = load(&example, &registry) {
                wrong.push(format!("{}:{line}\n{mistakes}", shown(&page)));
            }
        }
    }
    assert!(count >= 15, "only {count} examples were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn an_example_with_a_mistake_is_noticed() {
    assert!(load("[backend]\nconnect_budged = '1s'\n", &towpath::builtin::registry()).is_err());
    assert!(
        load(
            "[chain.main]\nsession = [{ use = 'no-such-filter' }]\n",
            &towpath::builtin::registry()
        )
        .is_err()
    );
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    let mut count = 0;
    for page in pages() {
        let folder = page.parent().expect("a page is in a folder");
        for link in links(&text(&page)) {
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if file.is_empty() { page.clone() } else { folder.join(file) };
            count += 1;
            let leads = target.exists() && (anchor.is_empty() || has_heading(&target, anchor));
            if !leads {
                broken.push(format!("{}: {link}", shown(&page)));
            }
        }
    }
    assert!(count >= 20, "only {count} links were found");
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

#[test]
fn commands_exist() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        for (line, block) in blocks(&page, "sh") {
            for command in block.lines().filter(|command| is_ours(command)) {
                count += 1;
                if !accepted(command) {
                    wrong.push(format!("{}:{line}: {command}", shown(&page)));
                }
            }
        }
    }
    assert!(count >= 8, "only {count} commands were found");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(!accepted("towpath check --no-such-option x.toml"));
    assert!(!accepted("./tests/run --no-such-option"));
}

#[test]
fn the_table_of_filters_is_up_to_date() {
    let page = top().join("docs/filters.md");
    let made = table_of_filters(&towpath::builtin::registry());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&page, &made).expect("the page can be written");
    }
    assert!(
        fs::read_to_string(&page).unwrap_or_default() == made,
        "docs/filters.md is stale; `UPDATE=1 cargo test -p towpath --test documents` renews it"
    );
}

#[test]
fn every_filter_has_a_page() {
    for (name, _) in towpath::builtin::registry().iter() {
        let page = top().join("filters").join(name).join("README.md");
        assert!(page.exists(), "{} is missing", shown(&page));
        assert!(!blocks(&page, "toml").is_empty(), "{} has no example", shown(&page));
    }
}

fn top() -> PathBuf {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    fs::canonicalize(top).expect("the project has a top")
}

/// README and the other pages at the top, in docs, and of the filters.
fn pages() -> Vec<PathBuf> {
    let filters = entries(&top().join("filters"));
    let folders = [top(), top().join("docs"), top().join("docs/decisions")];
    let files = folders.iter().chain(&filters).flat_map(|folder| entries(folder));
    let mut pages: Vec<_> = files.filter(|file| file.extension() == Some("md".as_ref())).collect();
    pages.sort();
    pages
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.expect("it can be listed").path()).collect()
}

fn text(page: &Path) -> String {
    fs::read_to_string(page).expect("the page can be read")
}

fn shown(page: &Path) -> String {
    page.strip_prefix(top()).unwrap_or(page).display().to_string()
}

/// The code blocks of one language, each with the line that it begins after.
fn blocks(page: &Path, language: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut open: Option<(usize, bool, String)> = None;
    for (number, line) in text(page).lines().enumerate() {
        match (&mut open, line.trim_start().strip_prefix("```")) {
            (None, Some(begun)) => open = Some((number + 1, begun == language, String::new())),
            (Some(_), Some(_)) => {
                found.extend(open.take().filter(|(_, wanted, _)| *wanted).map(|(n, _, t)| (n, t)));
            }
            (Some((_, _, block)), None) => *block += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "{} has a block without an end", shown(page));
    found
}

/// Loads an example: the lists of a chain, or tables of a file together with those that it leaves
/// out.
fn load(example: &str, registry: &Registry) -> Result<(), Mistakes> {
    let there = Settings::parse("example", example, &mut Mistakes::default());
    if there.has("session") {
        return chain::testing::chain(example, registry).map(drop);
    }
    let missing = BASE.iter().filter(|(key, _)| !there.has(key));
    // Behind the example: a key that stands above all tables stays there.
    let whole: String = missing.fold(example.to_owned(), |text, (_, table)| text + "\n" + table);
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_named_files(folder.path());
    let path = folder.path().join("towpath.toml");
    fs::write(&path, whole).expect("the file can be written");
    let variable = |name: &str| match name.ends_with("TOKEN") {
        true => Some("a-long-enough-token".to_owned()),
        false => Some("6000".to_owned()),
    };
    Config::load_with(&path, registry, &variable).map(drop)
}

/// The files that examples name.
fn write_named_files(folder: &Path) {
    let made = rcgen::generate_simple_self_signed(["db1.example".to_owned()]);
    let made = made.expect("a certificate can be made");
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let files = [
        ("cert.pem", certificate.as_str()),
        ("ca.pem", &certificate),
        ("key.pem", &key),
        ("app.password", "x\n"),
        ("rules.toml", "[[rule]]\nrule_id = 1\n"),
        ("proxysql.cnf", "mysql_query_rules = ( { rule_id = 1, active = 1 } )\n"),
        ("users.toml", "[[user]]\nname = 'other'\npassword = ''\nhostgroup = 0\n"),
    ];
    for (name, content) in files {
        fs::write(folder.join(name), content).expect("the file can be written");
    }
}

/// The targets of links to other pages and files, those in code left out.
fn links(text: &str) -> Vec<String> {
    let mut in_block = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            let prose: String = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
            let targets = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
            let targets = targets.map(|(target, _)| target.to_owned());
            found.extend(targets.filter(|target| !target.contains("://")));
        }
    }
    found
}

/// Whether a page has the heading that an anchor names.
fn has_heading(page: &Path, anchor: &str) -> bool {
    let slug = |heading: &str| {
        let kept = heading.trim_start_matches('#').trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().replace(' ', "-")
    };
    text(page).lines().any(|line| line.starts_with('#') && slug(line) == anchor)
}

/// How the executable and the tests are called in shell examples.
const OURS: [(&str, &str); 3] = [
    ("towpath ", env!("CARGO_BIN_EXE_towpath")),
    ("cargo run --release -- ", env!("CARGO_BIN_EXE_towpath")),
    ("./tests/run", "tests/run"),
];

fn is_ours(command: &str) -> bool {
    OURS.iter().any(|(called, _)| command.starts_with(called))
}

/// Whether a command's options are understood: with `--help` behind them nothing is done, but a
/// wrong one before it is refused.
fn accepted(command: &str) -> bool {
    let said = command.split(['#', '>']).next().unwrap_or_default();
    OURS.iter().any(|(called, program)| {
        said.strip_prefix(called).is_some_and(|arguments| {
            let mut command = Command::new(top().join(program));
            let command = command.args(words(arguments)).arg("--help");
            command.output().expect("it can be started").status.success()
        })
    })
}

/// The words of a command line; blanks between two `'` are part of one.
fn words(line: &str) -> Vec<String> {
    let mut quoted = false;
    let split = line.split(|c: char| {
        quoted ^= c == '\'';
        c.is_whitespace() && !quoted
    });
    let words: Vec<_> = split.map(|word| word.replace('\'', "")).collect();
    words.into_iter().filter(|word| !word.is_empty()).collect()
}

fn table_of_filters(registry: &Registry) -> String {
    let mut page = String::from(
        "# Filters\n\n\
         The filters of the shipped executable. *Needs* and *gives* are facts: a filter that needs one stands below \
         one that\ngives it. *Part* is the list of a chain that a filter may stand in.\n\n\
         | filter | part | needs | gives |\n|---|---|---|---|\n",
    );
    let facts = |names: &[&str]| {
        let names: BTreeSet<_> = names.iter().map(|name| format!("`{name}`")).collect();
        names.into_iter().collect::<Vec<_>>().join(", ")
    };
    for (name, entry) in registry.iter() {
        let part = match entry.part {
            Part::Session => "`session`",
            Part::Backend => "`backend`",
            Part::Either => "either",
        };
        let (needs, gives) = (facts(entry.needs), facts(entry.gives));
        page +=
            &format!("| [{name}](../filters/{name}/README.md) | {part} | {needs} | {gives} |\n");
    }
    page += "\nDispatch, which is below the session filters, needs `target`. \
             [Writing a filter](writing-a-filter.md) says how to\nadd one of your own.\n";
    page
}
