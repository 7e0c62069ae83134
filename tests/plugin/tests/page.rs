//! What `docs/writing-a-filter.md` quotes is what stands here: its blocks marked `rs` and `toml`.
//! Those marked `rust` are doc tests.

const PAGE: &str = include_str!("../../../docs/writing-a-filter.md");

/// The files that it quotes.
const FILES: &[&str] = &[
    include_str!("../Cargo.toml"),
    include_str!("../plugin.toml"),
    include_str!("../src/audit.rs"),
    include_str!("../src/lib.rs"),
    include_str!("../src/main.rs"),
    include_str!("../src/tag.rs"),
];

/// The blocks between fences: what stands behind the opening one, and the text.
fn blocks(page: &str) -> Vec<(&str, &str)> {
    let mut parts = page.split("```").skip(1);
    let mut found = Vec::new();
    while let (Some(block), Some(_)) = (parts.next(), parts.next()) {
        found.extend(block.split_once('\n'));
    }
    found
}

#[test]
fn quotes_are_true() {
    let quotes: Vec<_> =
        blocks(PAGE).into_iter().filter(|(kind, _)| ["rs", "toml"].contains(kind)).collect();
    assert!(quotes.len() >= 4, "{quotes:?}");
    for (kind, quote) in quotes {
        assert!(FILES.iter().any(|file| file.contains(quote)), "{kind}: in no file:\n{quote}");
    }
}

#[test]
fn every_block_is_a_quote_a_test_or_a_picture() {
    for (kind, text) in blocks(PAGE) {
        let known = ["rust", "rs", "toml", "text"];
        assert!(known.contains(&kind), "{kind}:\n{text}");
    }
}
