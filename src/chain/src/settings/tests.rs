//! Each kind of mistake, its place and its hint; and what must never be shown.

use super::*;
use serde::Deserialize;
use std::{collections::BTreeMap, time::Duration};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "what is in them does not matter here")]
struct Sample {
    #[schemars(length(min = 1, max = 20))]
    name: Option<String>,
    #[schemars(regex(pattern = "^[a-z]+$"))]
    word: Option<String>,
    port: Option<u16>,
    count: Option<u32>,
    ratio: Option<f64>,
    flag: Option<bool>,
    #[serde(default)]
    list: Vec<u8>,
    mode: Option<Mode>,
    inner: Option<Inner>,
    after: Option<HumanDuration>,
    size: Option<ByteSize>,
    password: Option<String>,
    kind: Option<Tagged>,
    #[serde(default)]
    map: BTreeMap<String, u8>,
}

#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    /// One.
    ReadOnly,
    ReadWrite,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct Inner {
    needed: u8,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "kebab-case", deny_unknown_fields)]
#[expect(dead_code, reason = "what is in it does not matter here")]
enum Tagged {
    Near { meters: u8 },
    Far { miles: u8 },
}

fn read(text: &str) -> Result<Sample, Mistakes> {
    let variable = |name: &str| match name {
        "WORD" => Some("hidden-value".to_owned()),
        "PORT" => Some("3306".to_owned()),
        _ => None,
    };
    let mut mistakes = Mistakes::default();
    let settings = Settings::parse_with("f.toml", text, &variable, &mut mistakes);
    let value = settings.deserialize(&mut mistakes);
    mistakes.into_result(value)
}

fn refused(text: &str) -> Mistakes {
    read(text).expect_err("this text has mistakes")
}

/// `line:column message | hint` of the only mistake.
fn only(text: &str) -> String {
    let mistakes = refused(text);
    assert_eq!(mistakes.len(), 1, "{mistakes}");
    let all: Vec<_> = mistakes.iter().map(short).collect();
    all.concat()
}

fn short(Mistake { line, column, message, hint, .. }: &Mistake) -> String {
    let hint = hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
    format!("{line}:{column} {message}{hint}")
}

#[test]
fn good_values_are_read() {
    let text = "name = 'x'\nword = 'abc'\nport = 65535\ncount = 0x10\nratio = 2\nflag = true\n\
                list = [1, 2]\nmode = 'read-only'\ninner = { needed = 1 }\nafter = '1500 ms'\n\
                size = '64 MiB'\nkind = { is = 'far', miles = 3 }\nmap = { a = 1, b = 2 }\n";
    let sample = read(text).expect("all of it is good");
    assert_eq!(sample.port, Some(65535));
    assert_eq!(sample.count, Some(16));
    assert_eq!(sample.ratio, Some(2.0));
    assert_eq!(sample.list, [1, 2]);
    assert_eq!(sample.mode, Some(Mode::ReadOnly));
    assert_eq!(sample.inner.map(|inner| inner.needed), Some(1));
    assert_eq!(sample.after.map(|after| *after), Some(Duration::from_millis(1500)));
    assert_eq!(sample.size.map(|size| *size), Some(64 << 20));
    assert!(matches!(sample.kind, Some(Tagged::Far { miles: 3 })));
    assert_eq!(sample.map.len(), 2);
}

#[test]
fn each_kind_of_mistake_has_its_place_and_hint() {
    let cases = [
        ("\nprot = 1", "2:1 unknown key `prot` | did you mean `port`?"),
        ("port = 'x'", "1:8 expected an integer, found a string"),
        ("port = 65536", "1:8 65536 is too large: at most 65535"),
        ("port = -1", "1:8 -1 is too small: at least 0"),
        ("count = 4294967296", "1:9 4294967296 is too large: at most 4294967295"),
        ("ratio = 'much'", "1:9 expected a number, found a string"),
        ("flag = 1", "1:8 expected true or false, found an integer"),
        ("name = 1979-05-27", "1:8 expected a string, found a date or time"),
        ("list = [1, 256, 2]", "1:12 256 is too large: at most 255"),
        ("list = 1", "1:8 expected a list, found an integer"),
        ("word = 'Abc'", "1:8 \"Abc\" is not a string of the form ^[a-z]+$"),
        ("mode = 'read-onyl'", "1:8 \"read-onyl\" is not known here | did you mean `read-only`?"),
        ("name = ''", "1:8 this must not be empty"),
        ("name = 'abcdefghijklmnopqrstu'", "1:8 this is too long: at most 20 characters"),
        ("mode = 'x'", "1:8 \"x\" is not known here | one of: read-only, read-write"),
        ("mode = 1", "1:8 expected a string, found an integer | one of: read-only, read-write"),
        ("inner = {}", "1:9 missing key `needed`"),
        ("inner = { needed = 1, x = 2 }", "1:23 unknown key `x` | known keys: needed"),
        ("inner = 3", "1:9 expected a table, found an integer"),
        (
            "after = '10 parsecs'",
            "1:9 \"10 parsecs\" is not a duration | for example \"500ms\" or \"10s\"",
        ),
        (
            "after = 10",
            "1:9 expected a duration, found an integer | for example \"500ms\" or \"10s\"",
        ),
        ("after = '9999999h'", "1:9 too long: at most a hundred years"),
        ("size = '1 TiB'", "1:8 \"1 TiB\" is not a size | for example \"64 MiB\" or 1048576"),
        ("kind = { is = 'far', feet = 3 }", "1:22 unknown key `feet` | known keys: is, miles"),
        ("map = { a = 1, b = 256 }", "1:20 256 is too large: at most 255"),
        (
            "port = 99999999999999999999",
            "1:8 this integer does not fit into 64 bits | TOML's integers go up to 9223372036854775807",
        ),
        (
            "name = '${NONE}'",
            "1:8 the environment has no variable NONE | set NONE, or write $${ for the characters ${",
        ),
        (
            "name = '${1X}'",
            "1:8 ${ without the name of a variable and } | write ${NAME} for a variable of the environment, $${ for the characters ${",
        ),
    ];
    for (text, expected) in cases {
        if text.starts_with("kind") {
            let all: Vec<_> = refused(text).iter().map(short).collect();
            assert!(all.contains(&expected.to_owned()), "{text}: {all:?}");
        } else {
            assert_eq!(only(text), expected, "{text}");
        }
    }
}

#[test]
fn all_mistakes_are_found_at_once_and_in_order() {
    let text = "name = 1\nport = 70000\nword = 'A'\nx = 2\nmode = 'no'\ninner = { needed = 'a' }\n";
    let lines: Vec<_> = refused(text).iter().map(|mistake| mistake.line).collect();
    assert_eq!(lines, [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_misspelt_key_is_not_missing_as_well() {
    assert_eq!(only("inner = { neded = 1 }"), "1:11 unknown key `neded` | did you mean `needed`?");
    assert_eq!(refused("inner = { xyz = 1 }").len(), 2);
}

#[test]
fn syntax_errors_have_their_place_and_hide_nothing_else() {
    let mistakes = refused("port = 70000\nname = \nprot = 1\n");
    let lines: Vec<_> = mistakes.iter().map(|mistake| mistake.line).collect();
    assert!(lines.contains(&1) && lines.contains(&2) && lines.contains(&3), "{mistakes}");
}

#[test]
fn a_mistake_is_shown_with_its_line_and_a_caret() {
    let shown = refused("# first\n\tport = 70000 # no\n").to_string();
    let expected = "error: 70000 is too large: at most 65535\n \
                    --> f.toml:2:9\n  |\n2 | \tport = 70000 # no\n  | \t       ^^^^^";
    assert_eq!(shown, expected);
    let hint = refused("prot = 1").to_string();
    assert!(hint.ends_with("\n  | ^^^^\n  = help: did you mean `port`?"), "{hint}");
}

#[test]
fn a_file_that_is_no_toml_has_a_bounded_number_of_mistakes() {
    let mut mistakes = Mistakes::default();
    Settings::parse("f.toml", &"= ?\n".repeat(10_000), &mut mistakes);
    assert!((10..=100).contains(&mistakes.len()), "{}", mistakes.len());
}

#[test]
fn control_characters_do_not_reach_the_terminal() {
    let mistakes = refused("# \u{9b}\nname = 1 # \u{9b}31m\n\"\\u001b[2J\" = 1\n");
    let shown = mistakes.to_string();
    assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
}

#[test]
fn columns_count_characters() {
    assert_eq!(
        only("inner = { needed = 1, \"é\" = 2 }"),
        "1:23 unknown key `é` | known keys: needed"
    );
    assert_eq!(only("map = { \"é\" = 1, b = 256 }"), "1:22 256 is too large: at most 255");
}

#[test]
fn variables_are_put_into_strings() {
    let sample = read("list = []\nname = 'a${WORD}$${W}$c'").expect("it is good");
    assert_eq!(sample.name.as_deref(), Some("ahidden-value${W}$c"));
}

#[test]
fn a_variable_that_is_not_set_makes_one_mistake_only() {
    assert!(only("word = '${NONE}'").contains("no variable NONE"));
}

#[test]
fn secrets_are_never_shown() {
    let texts = [
        "prot = 1\npassword = 'hunter2'\n",
        "password = ['hunter2']\n",
        "password = { a = 'hunter2' }\n",
        "inner = { needed = 1, password = 'hunter2', other = 2 }\n",
        "password = 'hunter2\n",
        "password = hunter2\n",
        "password = \"\"\"\nhunter2\"\"\"\nport = \n",
        "\"password\" = '''\nhunter2''' x\n",
        "name = { db_token = 'hunter2', name = 1 }\n",
        "pasword = 'hunter2'\n",
        "backend_passwrd = 'hunter2'\n",
        "Password = 'hunter2'\n",
        "{ name = 1, pasword = 'hunter2' }",
        "name = [{ db_password = 'hunter2' }, 3]\n",
    ];
    for text in texts {
        let mistakes = refused(text);
        assert!(!format!("{mistakes} {mistakes:?}").contains("hunter2"), "{text}: {mistakes}");
    }
    assert!(refused("password_file = 'a/b'\n").to_string().contains("a/b"));
    let beside = refused("inner = { needed = 1, password = 'hunter2', other = 2 }\n");
    let last = beside.iter().last().expect("there are two");
    assert_eq!(last.source_line, "inner = { needed = 1, password = ***, other = 2 }");
    assert_eq!((last.indent.len(), last.width, last.column), (38, 5, 45));
}

#[test]
fn values_from_the_environment_are_not_quoted() {
    let shown = refused("word = '${WORD}'\nmode = '${WORD}'\nafter = '${WORD}'").to_string();
    assert!(!shown.contains("hidden-value"), "{shown}");
    assert!(shown.contains("this value is not a duration"), "{shown}");
}

#[test]
fn debug_of_settings_names_keys_only() {
    let settings = Settings::parse("f.toml", "password = 'hunter2'", &mut Mistakes::default());
    assert_eq!(format!("{settings:?}"), "{\"password\"}");
}

#[test]
fn parts_are_taken_out_with_their_places() {
    let text = "[[item]]\nuse = 'a'\n[[item]]\nuse = 2\n[named.x]\n[named.y]\nuse = 'b'\n";
    let mut mistakes = Mistakes::default();
    let settings = Settings::parse("f.toml", text, &mut mistakes);
    let items = settings.tables("item", &mut mistakes);
    assert_eq!(items[0].text("use", &mut mistakes).as_deref(), Some("a"));
    assert_eq!(items[1].text("use", &mut mistakes), None);
    let named = settings.table("named", &mut mistakes).expect("it is a table");
    let named = named.named_tables(&mut mistakes);
    assert_eq!(named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["x", "y"]);
    assert!(!named[1].1.without("use").has("use"));
    assert_eq!(items[1].mistake("").line, 3);
    assert_eq!(named[0].1.mistake("").line, 5);
    assert_eq!(settings.mistake("").line, 0);
    assert_eq!(named[1].1.mistake_at("use", "").line, 7);
    settings.allow_keys(&["item"], &mut mistakes);
    let found: Vec<_> = mistakes.iter().map(short).collect();
    assert_eq!(
        found,
        ["4:7 expected a string, found an integer", "5:2 unknown key `named` | known keys: item"]
    );
}

#[test]
fn a_list_of_tables_is_read_each_by_itself() {
    let text = "[[item]]\nneeded = 1\n[[item]]\n[[item]]\nneeded = 3\n";
    let mut mistakes = Mistakes::default();
    let settings = Settings::parse("f.toml", text, &mut mistakes);
    let items = settings.deserialize_all::<Inner>("item", &mut mistakes);
    let values: Vec<_> = items.iter().map(|(_, inner)| inner.as_ref().map(|i| i.needed)).collect();
    assert_eq!(values, [Some(1), None, Some(3)]);
    assert_eq!(mistakes.iter().map(short).collect::<Vec<_>>(), ["3:1 missing key `needed`"]);
}

#[test]
fn units_are_shown_as_they_are_written() {
    let shown = |text: &str| String::from(HumanDuration::try_from(text.to_owned()).expect("good"));
    assert_eq!(
        ["90s", "120s", "3600s", "0s", "1500ms"].map(shown),
        ["90s", "2m", "1h", "0ms", "1500ms"]
    );
    assert_eq!(String::from(ByteSize(64 << 20)), "64 MiB");
    assert_eq!(String::from(ByteSize(1000)), "1000 B");
}
