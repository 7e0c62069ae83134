//! Bad files give the messages that stand on top of them; good files and the examples of the
//! documentation load; the schema in the tree is the one that the types give.

use chain::settings::{Mistakes, Settings};
use proxy::config::Config;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// A folder at the top of the project.
fn folder(name: &str) -> PathBuf {
    let top = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    fs::canonicalize(top).expect("the project has a top").join(name)
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder is there");
    let paths = entries.map(|entry| entry.expect("it can be listed").path());
    let mut files: Vec<_> =
        paths.filter(|path| path.extension() == Some("toml".as_ref())).collect();
    files.sort();
    files
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("the file can be read")
}

/// Loads a file in an environment where every variable is a port, but for one.
fn load(path: &Path) -> Result<Config, Mistakes> {
    let variable = |name: &str| (name != "TOWPATH_NO_SUCH_VARIABLE").then(|| port_for(name));
    Config::load_with(path, &towpath::builtin::registry(), &variable)
}

/// A port of its own for each name, so that no two addresses are the same.
fn port_for(name: &str) -> String {
    let sum = name.bytes().fold(0_u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    (20_000 + sum % 10_000).to_string()
}

/// The mistakes as the comments on top of a bad file have them.
fn as_comments(path: &Path, mistakes: &Mistakes) -> Vec<String> {
    let directory = format!("{}/", path.parent().expect("it is in a folder").display());
    let main = path.display().to_string();
    let comments = mistakes.iter().flat_map(|mistake| {
        let file = if mistake.file == main { "" } else { &format!("{}:", mistake.file) };
        let place = match mistake.line {
            0 => format!("{file}-"),
            line => format!("{file}{line}:{}", mistake.column),
        };
        let hint = mistake.hint.as_ref().map(|hint| format!("#! help: {hint}"));
        [Some(format!("#! expect: {place} {}", mistake.message)), hint]
    });
    comments.flatten().map(|line| line.replace(&directory, "")).collect()
}

#[test]
fn bad_files_give_their_messages() {
    let mut wrong = Vec::new();
    for path in toml_files(&folder("tests/wrong")) {
        let text = text(&path);
        let expected: Vec<_> = text.lines().take_while(|line| line.starts_with("#!")).collect();
        let found = match load(&path) {
            Ok(_) => vec!["no mistake".to_owned()],
            Err(mistakes) => {
                assert!(!mistakes.to_string().contains("secret-1"), "{}", path.display());
                as_comments(&path, &mistakes)
            }
        };
        if found != expected {
            wrong.push(format!("{} gives\n{}", path.display(), found.join("\n")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn there_is_a_bad_file_with_ten_mistakes() {
    let mistakes = load(&folder("tests/wrong").join("ten-at-once.toml")).expect_err("it is bad");
    assert!(mistakes.len() >= 10, "{mistakes}");
    let lines: Vec<_> = mistakes.iter().map(|mistake| (mistake.line, mistake.column)).collect();
    assert!(lines.is_sorted(), "{lines:?}");
}

#[test]
fn the_files_in_config_are_good() {
    let schema = Config::schema(&towpath::builtin::registry());
    for path in toml_files(&folder("config")) {
        load(&path).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        // What an editor sees must agree: it has the schema of the whole file only.
        let mut mistakes = Mistakes::default();
        let variable = |name: &str| Some(port_for(name));
        let name = path.display().to_string();
        let settings = Settings::parse_with(&name, &text(&path), &variable, &mut mistakes);
        settings.check(&schema, &mut mistakes);
        assert!(mistakes.is_empty(), "{mistakes}");
    }
}

/// What a configuration says, without where it is written and the prints of how it is written.
fn values(config: &Config) -> String {
    let said = format!("{config:?}");
    let said = said.split_once(", files: [").map_or(said.as_str(), |(values, _)| values);
    let mut parts = said.split("print: ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| all + part.trim_start_matches(|c: char| c.is_ascii_digit()))
}

#[test]
fn the_complete_file_has_every_key_with_its_default() {
    let complete = load(&folder("config").join("complete.toml")).expect("it is good");
    let minimal = load(&folder("config").join("minimal.toml")).expect("it is good");
    assert_eq!(values(&complete).replace("\"writers\"", ""), {
        let named = "hostgroups: [Hostgroup { id: 0, name:  }]";
        values(&minimal).replace("hostgroups: []", named)
    });

    let text = text(&folder("config").join("complete.toml"));
    let words: BTreeSet<_> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let schema = Config::schema(&towpath::builtin::registry());
    let tables = schema["$defs"].as_object().expect("the tables have definitions");
    let tables = tables.values().chain([&schema]);
    for key in tables.filter_map(|table| table["properties"].as_object()).flatten().map(|(k, _)| k)
    {
        assert!(words.contains(key.as_str()), "config/complete.toml does not have `{key}`");
    }
}

#[test]
fn the_schema_in_the_tree_is_up_to_date() {
    let made = format!("{:#}\n", Config::schema(&towpath::builtin::registry()));
    let kept = fs::read_to_string(folder("config").join("towpath.schema.json")).unwrap_or_default();
    assert!(
        kept == made,
        "config/towpath.schema.json is stale; `towpath schema > config/towpath.schema.json` renews it"
    );
}

fn towpath(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.current_dir(folder("")).args(arguments).env("APP_PASSWORD", "x");
    command.env_remove("TOWPATH_NO_SUCH_VARIABLE").output().expect("it can be started")
}

#[test]
fn check_says_that_a_good_file_is_good() {
    let output = towpath(&["check", "config/minimal.toml"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "config/minimal.toml is good: 1 listener, 1 chain, 1 user, 1 server\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn check_and_run_show_every_mistake_and_fail() {
    let name = "tests/wrong/unknown-key.toml";
    for command in ["check", "run"] {
        let output = towpath(&[command, name]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("error: unknown key `adress`\n"), "{said}");
        assert!(said.contains(&format!("--> {name}:")), "{said}");
        assert!(said.contains("| adress = \"127.0.0.1:6033\"\n"), "{said}");
        assert!(said.contains("= help: did you mean `address`?\n"), "{said}");
        assert!(said.ends_with("1 mistake\n"), "{said}");
        assert!(!said.contains('\u{1b}'), "no colours where there is no terminal: {said}");
    }
}

#[test]
fn schema_prints_the_schema() {
    let output = towpath(&["schema"]);
    let printed: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(printed == Config::schema(&towpath::builtin::registry()), "{printed:#}");
}
