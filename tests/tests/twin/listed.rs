//! Each row of the hazard table has a test before servers that bears its number.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// Rows of the table.
const ROWS: u32 = 92;

/// Numbers in a test's name: `h7_h8_words`, `h12_to_h16_words`, `h01_words`.
fn numbers(name: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut to = false;
    for part in name.split('_') {
        let number = part.strip_prefix('h').and_then(|digits| digits.parse::<u32>().ok());
        match number {
            Some(number) if to => {
                let from = found.last().map_or(number, |last| last + 1);
                found.extend(from..=number);
                to = false;
            }
            Some(number) => found.push(number),
            None if part == "to" && !found.is_empty() => to = true,
            None => break,
        }
    }
    found
}

/// Names of the functions in a file.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix("fn ")?;
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
    })
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if !path.ends_with("target") {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_row_has_a_test() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let mut files = Vec::new();
    sources(&top.join("tests/tests"), &mut files);
    let mut tested = BTreeSet::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        functions(&text).for_each(|name| tested.extend(numbers(name)));
    }
    let missing: Vec<u32> = (1..=ROWS).filter(|row| !tested.contains(row)).collect();
    assert!(missing.is_empty(), "no test bears the number of these rows: {missing:?}");
}

#[test]
fn names_are_read() {
    assert_eq!(numbers("h7_h8_variables"), [7, 8]);
    assert_eq!(numbers("h12_to_h16_autocommit_and_h3"), [12, 13, 14, 15, 16]);
    assert_eq!(numbers("h01_a_set"), [1]);
    assert_eq!(numbers("handlers_h2"), [] as [u32; 0]);
}
