//! The reading of every text in `table.txt`.

use crate::{
    spell::{dialects, spelled},
    texts::bytes,
};
use sql::session_command;

#[test]
fn every_text_has_its_reading() {
    let (mut count, mut wrong) = (0, String::new());
    for (number, expected, settings, line) in rows() {
        for dialect in dialects(settings) {
            let found = spelled(&session_command(&bytes(line), dialect));
            if found != expected {
                wrong += &format!("line {number}: {line}\n  is [{found}], not [{expected}]\n");
            }
        }
        count += 1;
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 350, "only {count} texts");
}

/// Line number, heading, dialect, text.
pub(crate) fn rows() -> impl Iterator<Item = (usize, &'static str, &'static str, &'static str)> {
    let (mut expected, mut settings) = ("", "");
    include_str!("table.txt").lines().enumerate().filter_map(move |(number, line)| {
        if let Some(heading) = line.strip_prefix('[') {
            let (reading, rest) = heading.rsplit_once(']').expect("a heading has an end");
            (expected, settings) = (reading, rest.strip_prefix(" -- ").unwrap_or_default());
            return None;
        }
        let skipped = line.is_empty() || (number < 3 && line.starts_with('#'));
        (!skipped).then_some((number + 1, expected, settings, line))
    })
}
