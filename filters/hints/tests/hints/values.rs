//! What fits, who may ask, and what becomes of the rest.

use crate::{Bed, in_hostgroup, session};
use chain::{
    Command,
    command::Asker,
    facts::{Explain, Hints, RouteTo, StickyMode},
};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[test]
fn each_key_sets_its_own() {
    let mut bed = Bed::new("");
    let ms = |ms| Some(Duration::from_millis(ms));
    let none = Hints::default;
    for (hint, expected) in [
        ("sticky_backend=0", Hints { sticky: Some(StickyMode::Off), ..none() }),
        ("sticky_backend=2", Hints { sticky: Some(StickyMode::Strict), ..none() }),
        ("affinity_key=req-7", Hints { affinity_key: Some((*b"req-7").into()), ..none() }),
        ("route=primary", Hints { route: Some(RouteTo::Primary), ..none() }),
        ("route=REPLICA", Hints { route: Some(RouteTo::Replica), ..none() }),
        ("route=db3", Hints { route: Some(RouteTo::Named("db3".into())), ..none() }),
        ("route=readers", Hints { route: Some(RouteTo::Named("readers".into())), ..none() }),
        ("timeout_ms=1500", Hints { timeout: ms(1500), ..none() }),
        ("max_lag_ms=0", Hints { max_lag: ms(0), ..none() }),
        ("min_gtid=0-1-42", Hints { min_gtid: Some("0-1-42".into()), ..none() }),
        ("cache_ttl_ms=7", Hints { cache_ttl: ms(7), ..none() }),
        ("retries=3", Hints { retries: Some(3), ..none() }),
        ("mirror=1", Hints { mirror: in_hostgroup(1).hostgroup, ..none() }),
    ] {
        assert_eq!(bed.hints(&format!("/* {hint} */ SELECT 1")), expected, "{hint}");
    }
    let set =
        "3E11FA47-71CA-11E1-9E33-C80AA9429562:1-5,3e11fa47-71ca-11e1-9e33-c80aa9429563:tag_a:7";
    let expected = Hints { min_gtid: Some(set.into()), ..none() };
    assert_eq!(bed.hints(&format!("/* min_gtid={set} */ SELECT 1")), expected);
}

#[test]
fn an_epoch_is_how_old_data_may_be() {
    let mut bed = Bed::new("");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    let minute = Duration::from_secs(60);
    let ago = (now - minute).as_millis();
    let lag = bed.hints(&format!("/*;min_epoch_ms={ago}*/ SELECT 1")).max_lag.expect("a lag");
    assert!(lag >= minute, "{lag:?}");
    let soon = (now + 10 * minute).as_millis();
    let lag = bed.hints(&format!("/*;min_epoch_ms={soon}*/ SELECT 1")).max_lag;
    assert_eq!(lag, Some(Duration::ZERO));
    // The stricter of two.
    let lag = bed.hints(&format!("/*;max_lag_ms=9;min_epoch_ms={ago}*/ SELECT 1")).max_lag;
    assert_eq!(lag, Some(Duration::from_millis(9)));
}

#[test]
fn a_value_that_does_not_fit_is_ignored_and_counted() {
    let mut bed = Bed::new("");
    let wrong = [
        "sticky_backend=3",
        "sticky_backend=on",
        "sticky_backend=",
        "sticky_backend=-1",
        "affinity_key=",
        "hostgroup=2",
        "hostgroup=readers",
        "hostgroup=+1",
        "hostgroup=4294967296",
        "route=db4",
        "route=",
        "timeout_ms=0",
        "timeout_ms=1s",
        "max_lag_ms=x",
        "min_gtid=0-1-1'",
        "min_gtid=",
        "cache_ttl_ms=1.5",
        "retries=1001",
        "traceparent=00-0-0-01",
        "traceparent=00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "traceparent=ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "traceparent=00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "traceparent=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
        "tracestate=",
        "cache_ttl=-1",
        "query_delay=soon",
        "query_retries=x",
        "query_timeout=0",
        "mirror=9",
        "min_epoch_ms=then",
        "create_new_connection=2",
    ];
    for hint in wrong {
        assert_eq!(bed.hints(&format!("/* {hint} */ SELECT 1")), Hints::default(), "{hint}");
    }
    assert!(bed.counts("hints").is_empty());
    let counts = bed.counts("hints_ignored");
    for expected in ["sticky_backend=4", "hostgroup=4", "traceparent=5", "mirror=1"] {
        assert!(counts.iter().any(|count| count == expected), "{counts:?}");
    }
    // What was said before it stands, and others count.
    let text = "/* hostgroup=1 retries=many hostgroup=7 */ SELECT 1";
    assert_eq!(bed.hints(text), in_hostgroup(1));
}

#[test]
fn only_what_is_allowed_counts() {
    let mut bed = Bed::new("allow = ['sticky_backend', 'hostgroup']");
    let text = "/* hostgroup=1 route=primary retries=x */ SELECT 1";
    assert_eq!(bed.hints(text), in_hostgroup(1));
    assert_eq!(bed.counts("hints"), ["hostgroup=1"]);
    assert_eq!(bed.counts("hints_denied"), ["route=1", "retries=1"]);
    assert!(bed.counts("hints_ignored").is_empty());
}

#[test]
fn each_user_has_a_list() {
    let lists = "allow = { app = ['route'], '*' = ['hostgroup'], nobody = [] }";
    let alone = "allow = { app = ['route'] }";
    for (settings, user, hostgroup, route) in [
        (lists, "app", false, true),
        (lists, "other", true, false),
        (lists, "nobody", false, false),
        (alone, "other", false, false),
        ("", "other", true, true),
    ] {
        let mut session = session();
        session.update(|view| view.user = user.into());
        let hints = Bed::of(settings, session).hints("/* hostgroup=1 route=primary */ SELECT 1");
        let found = (hints.hostgroup.is_some(), hints.route.is_some());
        assert_eq!(found, (hostgroup, route), "{user} of {settings}");
    }
}

#[test]
fn precedence_is_told() {
    for (settings, first) in
        [("", true), ("precedence = 'hints'", true), ("precedence = 'rules'", false)]
    {
        let hints = Bed::new(settings).query("/* hostgroup=1 */ SELECT 1").hints;
        assert_eq!(hints.map(|hints| hints.beats_rules), Some(first), "{settings}");
    }
}

#[test]
fn a_filter_s_own_commands_have_no_hints() {
    let mut bed = Bed::new("");
    let command = Command::query(bed.session.clone(), "/* hostgroup=1 */ SELECT 1");
    assert_eq!(bed.send(command.asked_by(Asker::Filter("login"))).hints, None);
}

#[test]
fn comments_with_hints_are_taken_out_where_that_is_wanted() {
    let mut bed = Bed::new("strip = true");
    for (text, sent) in [
        ("/* hostgroup=1 */ SELECT 1", "SELECT 1"),
        ("SELECT/*;hostgroup=1*/1 /* for people */", "SELECT 1 /* for people */"),
        ("/* hostgroup=9 */ SELECT 1", "SELECT 1"),
        ("-- maxscale route to master\nSELECT 1", "SELECT 1"),
        ("/* a=b */ SELECT /*+ x */ 1", "/* a=b */ SELECT /*+ x */ 1"),
        ("SELECT 1", "SELECT 1"),
        // Whether that is code is for the server to say.
        ("SELECT /*!80000 1 */ /* hostgroup=1 */", "SELECT /*!80000 1 */ /* hostgroup=1 */"),
    ] {
        let one = bed.query(text);
        assert_eq!(one.text, sent);
        let statement = one.statement.expect("it has one");
        assert_eq!(statement.text().as_ref(), sent.as_bytes());
        let digest = sql::digest(text.as_bytes(), sql::Dialect::default(), sql::DIGEST_LIMIT);
        assert_eq!(statement.digest().hash, digest.hash, "{text}");
    }
    let mut bed = Bed::new("");
    let text = "/* hostgroup=1 */ SELECT 1";
    assert_eq!(bed.query(text).text, text);
}

#[tokio::test(start_paused = true)]
async fn a_delay_is_waited_for_unless_somebody_explains() {
    let bed = Bed::new("");
    let mut stack = bed.chain.session(chain::testing::ok(chain::testing::Log::default()));
    let started = tokio::time::Instant::now();
    let text = "/*;query_delay=250*/ SELECT 1";
    for (explained, waited) in [(true, 0), (false, 250)] {
        let mut command = Command::query(bed.session.clone(), text);
        if explained {
            command.note(Explain::default());
        }
        let stack = tower::ServiceExt::ready(&mut stack).await.expect("it is ready");
        tower::Service::call(stack, command)
            .await
            .expect("the bottom answers")
            .collect()
            .await
            .expect("OK");
        assert_eq!(started.elapsed().as_millis(), waited);
    }
}

#[test]
fn whoever_explains_is_told_which_keys_count() {
    let mut bed = Bed::new("allow = ['hostgroup', 'retries']");
    let explain = Explain::default();
    let text = "/* hostgroup=1 retries=x route=primary */ SELECT 1";
    bed.send(Command::query(bed.session.clone(), text).with(explain.clone()));
    let notes = explain.notes();
    assert_eq!(notes[0].filter, "hints");
    let expected = serde_json::json!({
        "honoured": ["hostgroup"], "ignored": ["retries"], "denied": ["route"],
    });
    assert_eq!(notes[0].what, expected);
}

#[test]
fn any_text_is_read_and_what_is_stripped_means_the_same() {
    const PIECES: [&str; 24] = [
        "/*",
        "*/",
        "/*!",
        "/*M!",
        "/*+",
        "#",
        "-- ",
        "\n",
        " ",
        "'",
        "\"",
        "`",
        "\\",
        "=",
        ";",
        "1",
        "hostgroup",
        "traceparent",
        "maxscale",
        "begin",
        "end",
        "SELECT",
        "=1",
        "%4",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut bed = Bed::new("strip = true");
    for _ in 0..20_000 {
        let text: String =
            (0..random.usize(1..24)).map(|_| PIECES[random.usize(..PIECES.len())]).collect();
        let one = bed.query(&text);
        let digest = |text: &str| sql::digest(text.as_bytes(), sql::Dialect::default(), 2048);
        assert_eq!(digest(&one.text).hash, digest(&text).hash, "{text:?} became {:?}", one.text);
    }
    assert!(!bed.counts("hints").is_empty());
}
