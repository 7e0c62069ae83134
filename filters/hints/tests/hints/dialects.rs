//! Where hints may stand, and in which form.

use crate::{Bed, in_hostgroup};
use chain::facts::{Hints, StickyMode};
use std::time::Duration;

#[test]
fn a_comment_counts_wherever_it_stands() {
    let mut bed = Bed::new("");
    for text in [
        "/* hostgroup=1 */ SELECT 1",
        "SELECT /* hostgroup=1 */ 1",
        "SELECT 1 /* hostgroup=1 */",
        "/*hostgroup=1*/SELECT 1",
        "SELECT 1 -- hostgroup=1",
        "-- hostgroup=1\nSELECT 1",
        "SELECT 1 # hostgroup=1\n + 1",
        "/* for people */ SELECT 1 /* a = b */ # hostgroup=1",
        "/*+ MAX_EXECUTION_TIME(9) */ SELECT /*! 1 + */ '/*' /* hostgroup=1 */",
        "BEGIN /* hostgroup=1 */",
        "/* hostgroup=1 */",
    ] {
        assert_eq!(bed.hints(text), in_hostgroup(1), "{text}");
    }
}

#[test]
fn what_is_no_comment_does_not_count() {
    let mut bed = Bed::new("");
    for text in [
        "SELECT '/* hostgroup=1 */'",
        "SELECT `# hostgroup=1`, \"-- hostgroup=1\"",
        "SELECT /*! /* hostgroup=1 */ */ 1",
        "SELECT /*!50000 1, hostgroup=1 */ /*M! hostgroup=1 */",
        "SELECT /*+ hostgroup=1 */ 1",
        "SELECT 1 /* hostgroup=1",
        "SELECT 1 --hostgroup=1",
        "/* hostgroup 1, for people */ SELECT 1",
        "/* application=billing */ SELECT 1",
    ] {
        let one = bed.query(text);
        assert_eq!((one.hints, &*one.text), (None, text));
    }
    for name in ["hints", "hints_ignored", "hints_denied"] {
        assert!(bed.counts(name).is_empty(), "{name}");
    }
}

#[test]
fn pairs_are_ours_and_proxysql_s() {
    let mut bed = Bed::new("");
    let both = Hints { sticky: Some(StickyMode::WhileAlive), ..in_hostgroup(1) };
    for text in [
        "/* hostgroup=1 sticky_backend=1 */ SELECT 1",
        "/* HOSTGROUP = 1 ; Sticky_Backend = 1; */ SELECT 1",
        "/* hostgroup=0; sticky_backend=1; hostgroup=1 */ SELECT 1",
        "/* sticky_backend=1 */ SELECT 1 # hostgroup=1",
        "/* see ticket=7 hostgroup=1 sticky_backend=1 please */ SELECT 1",
    ] {
        assert_eq!(bed.hints(text), both, "{text}");
    }
    let proxysql = Hints {
        cache_ttl: Some(Duration::from_millis(500)),
        timeout: Some(Duration::from_millis(90)),
        retries: Some(2),
        new_connection: true,
        ..in_hostgroup(1)
    };
    let keys = "hostgroup=1;cache_ttl=500;query_timeout=90;query_retries=2;create_new_connection=1";
    for text in [format!("/*;{keys}*/ SELECT 1"), format!("/* {keys} */ SELECT 1")] {
        assert_eq!(bed.hints(&text), proxysql, "{text}");
    }
    // Ours are not ProxySQL's.
    assert_eq!(bed.hints("/*;sticky_backend=1;hostgroup=1*/ SELECT 1"), in_hostgroup(1));
}

#[test]
fn sqlcommenter_s_pairs_are_decoded_and_are_only_for_traces() {
    let mut bed = Bed::new("");
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let text = format!(
        "SELECT 1 /*action='%2Fpay',route='replica',hostgroup='1',traceparent='{parent}',\
         tracestate='congo%3Dt61rcWkgMzE%2Crojo%3D00f067aa0ba902b7'*/"
    );
    let expected = Hints {
        traceparent: Some(parent.into()),
        tracestate: Some("congo=t61rcWkgMzE,rojo=00f067aa0ba902b7".into()),
        ..Hints::default()
    };
    assert_eq!(bed.hints(&text), expected);
    assert_eq!(bed.counts("hints"), ["traceparent=1", "tracestate=1"]);
}

#[test]
fn dialects_can_be_chosen() {
    let texts = [
        "/* sticky_backend=1 */ SELECT 1",
        "/*;query_retries=1*/ SELECT 1",
        "-- maxscale route to master\nSELECT 1",
        "/*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/ SELECT 1",
    ];
    for (at, dialect) in ["towpath", "proxysql", "maxscale", "sqlcommenter"].iter().enumerate() {
        let mut bed = Bed::new(&format!("dialects = ['{dialect}']"));
        let understood = texts.map(|text| bed.query(text).hints.is_some());
        let mut expected = [false; 4];
        expected[at] = true;
        assert_eq!(understood, expected, "{dialect}");
    }
    // What both know, either gives.
    for dialect in ["towpath", "proxysql"] {
        let mut bed = Bed::new(&format!("dialects = ['{dialect}']"));
        assert_eq!(bed.hints("/* hostgroup=1 */ SELECT 1"), in_hostgroup(1), "{dialect}");
    }
}
