//! The settings, and the page about them.

use crate::{registry, try_chain};
use chain::testing;

#[test]
fn wrong_settings_are_refused_with_what_is_right() {
    for (setting, said) in [
        ("allow = ['hostgruop']", "hostgroup"),
        ("allow = { app = 'hostgroup' }", "allow"),
        ("precedence = 'hint'", "hints"),
        ("strip = 1", "strip"),
        ("dialects = ['proxy-sql']", "proxysql"),
        ("allowed = []", "allow"),
    ] {
        let mistakes = try_chain(setting).unwrap_err();
        assert!(mistakes.contains(said), "{setting}: {mistakes}");
    }
}

#[test]
fn it_stands_below_what_gives_statements() {
    let mistakes = testing::chain("session = [{ use = 'hints' }]", &registry()).unwrap_err();
    assert!(mistakes.to_string().contains("hints needs `statement`"), "{mistakes}");
}

/// Every TOML block of the page is a chain that can be built.
#[test]
fn the_pages_examples_are_right() {
    let page = include_str!("../../README.md");
    let examples: Vec<_> = page.split("```toml\n").skip(1).collect();
    assert!(!examples.is_empty());
    for example in examples {
        let text = example.split("```").next().expect("the fence is closed");
        let text = text.replace("[chain.main]\n", "");
        testing::chain(&text, &registry()).map_err(|e| e.to_string()).unwrap();
    }
}
