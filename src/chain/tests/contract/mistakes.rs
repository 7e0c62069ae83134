//! Chains that cannot work are refused, with every mistake at its place.

use super::lists::registry;
use chain::{
    Registry,
    settings::Mistakes,
    testing::{self, Log},
};
use schemars::JsonSchema;
use serde::Deserialize;
use tower::layer::util::Identity;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Depth {
    depth: u8,
}

/// The filters of [`registry`] and one with settings, which refuses 0.
fn with_settings() -> Registry {
    registry(&Log::default()).with_layer("deep", |settings: Depth| match settings.depth {
        0 => Err("not deep at all".into()),
        _ => Ok(Identity::new()),
    })
}

fn mistakes(text: &str) -> Mistakes {
    testing::chain(text, &with_settings()).map(drop).expect_err("it cannot work")
}

/// The only mistake of `text`: line, column, what is wrong, what to do.
fn mistake(text: &str) -> (usize, usize, String, String) {
    let mistakes = mistakes(text);
    assert_eq!(mistakes.len(), 1, "{mistakes}");
    let mistake = mistakes.iter().next().expect("there is one").clone();
    (mistake.line, mistake.column, mistake.message, mistake.hint.unwrap_or_default())
}

#[test]
fn an_unknown_filter_with_what_may_have_been_meant() {
    let (line, column, message, hint) = mistake("session = [\n  { use = 'gifes' },\n]");
    assert_eq!((line, column, &*message), (2, 11, "there is no filter \"gifes\""));
    assert!(hint.contains("gives"), "{hint}");
    assert!(!hint.contains("needs"), "{hint}");
}

#[test]
fn an_unknown_filter_like_no_other_with_all_there_are() {
    let (.., hint) = mistake("session = [{ use = 'xylophone' }]");
    for name in ["backend-only", "deep", "gives", "needs", "one", "routes", "three", "two"] {
        assert!(hint.contains(name), "{hint}");
    }
}

#[test]
fn a_need_that_is_given_below_with_where_to_put_it() {
    let (_, column, message, hint) = mistake("session = [{ use = 'needs' }, { use = 'gives' }]");
    assert_eq!(column, 20);
    assert_eq!(message, "needs needs `weather`, which no filter above it gives");
    assert_eq!(hint, "put { use = \"gives\" } above it");
}

#[test]
fn a_filter_in_the_wrong_list_with_the_right_one() {
    let (.., message, hint) = mistake("session = [{ use = 'gives' }, { use = 'backend-only' }]");
    assert_eq!(message, "backend-only does not work in `session`");
    assert_eq!(hint, "move it to the chain's `backend` list");
    let (.., message, hint) = mistake("backend = [{ use = 'routes' }]");
    assert_eq!(message, "routes does not work in `backend`");
    assert_eq!(hint, "move it to the chain's `session` list");
}

#[test]
fn an_entry_without_a_name() {
    let (.., message, hint) = mistake("session = [{ depth = 3 }]");
    assert_eq!(message, "which filter? the key `use` is missing");
    assert!(hint.starts_with("{ use ="), "{hint}");
}

#[test]
fn settings_that_the_filter_does_not_have_or_does_not_get() {
    let (.., message, _) = mistake("session = [{ use = 'deep', depth = 1, width = 2 }]");
    assert!(message.contains("width"), "{message}");
    let (.., message, _) = mistake("session = [{ use = 'deep' }]");
    assert!(message.contains("depth"), "{message}");
    let (.., message, _) = mistake("session = [{ use = 'one', depth = 1 }]");
    assert!(message.contains("depth"), "{message}");
}

#[test]
fn settings_that_the_filter_refuses_in_its_own_words() {
    let (line, _, message, _) = mistake("session = [\n  { use = 'deep', depth = 0 },\n]");
    assert_eq!((line, &*message), (2, "deep: not deep at all"));
}

#[test]
fn a_list_that_is_none() {
    assert!(!mistakes("session = 'one'").is_empty());
    assert!(!mistakes("session = ['one']").is_empty());
    assert!(!mistakes("session = [{ use = 3 }]").is_empty());
}

#[test]
fn all_at_once_in_the_order_of_the_file() {
    let mistakes = mistakes(
        "session = [
           { use = 'needs' },
           { use = 'gifes' },
           { use = 'deep', depth = 0 },
           { use = 'deep', depth = 'x' },
         ]
         backend = [{ use = 'routes' }]",
    );
    let lines: Vec<_> = mistakes.iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 7], "{mistakes}");
}
