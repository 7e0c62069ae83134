//! What is done with a command that rules match.

use crate::{chain, client, client_in};
use chain::{
    Command, Error, HostgroupId, Reply,
    facts::{Caching, Multiplex, RuleVerdict, Statement},
    testing::{self, Client, Log},
};
use sql::Class;
use std::time::Duration;
use tower::{Service, ServiceExt};
use wire::{
    command::CommandCode, err::ErrPacket, ok::OkPacket, packet::HEADER_LEN, status::Status,
};

/// The verdict about `SELECT 1`.
fn verdict(rules: &str) -> RuleVerdict {
    let (mut client, seen) = client(rules);
    client.query("SELECT 1").expect("the bottom answers");
    seen.take().remove(0).1.expect("a rule matches")
}

#[test]
fn what_others_do_is_in_the_verdict() {
    let found = verdict(
        "{ rule_id = 4, destination_hostgroup = 1, timeout = 1500, retries = 2,
           cache_ttl = 500, cache_empty_result = false, mirror_hostgroup = 2, multiplex = 2, sticky_conn = true, gtid_from_hostgroup = 3,
           log = false, attributes = '{\"switch_to_fast_forward\": true}' }",
    );
    let expected = RuleVerdict {
        rules: [4].into_iter().collect(),
        hostgroup: Some(HostgroupId(1)),
        timeout: Some(Duration::from_millis(1500)),
        retries: Some(2),
        mirror: Some(HostgroupId(2)),
        mirror_text: None,
        cache: Some(Caching { ttl: Duration::from_millis(500), empty: false }),
        multiplex: Some(Multiplex::IgnoreUserVariables),
        sticky: Some(true),
        gtid_from: Some(HostgroupId(3)),
        log: Some(false),
        switch_to_fast_forward: true,
    };
    assert_eq!(found, expected);
    assert!(verdict("{ rule_id = 1, cache_ttl = 1 }").cache.is_some_and(|cache| cache.empty));
    assert_eq!(verdict("{ rule_id = 1, multiplex = 0 }").multiplex, Some(Multiplex::Pin));
    assert_eq!(verdict("{ rule_id = 1, multiplex = 1 }").multiplex, Some(Multiplex::Allow));
}

#[test]
fn later_rules_overwrite_what_they_name_and_nothing_else() {
    let found = verdict(
        "{ rule_id = 1, destination_hostgroup = 1, timeout = 1, sticky_conn = true },
         { rule_id = 2, destination_hostgroup = 2, sticky_conn = false },
         { rule_id = 3 }",
    );
    assert_eq!(found.hostgroup, Some(HostgroupId(2)));
    assert_eq!((found.timeout, found.sticky), (Some(Duration::from_millis(1)), Some(false)));
}

#[test]
fn an_order_to_switch_is_not_taken_back() {
    for attributes in ["{ switch_to_fast_forward = false }", "'{}'", "{}"] {
        let found = verdict(&format!(
            "{{ rule_id = 1, attributes = {{ switch_to_fast_forward = true }}, flagOUT = 1 }},
             {{ rule_id = 2, flagIN = 1, attributes = {attributes}, flagOUT = 2 }},
             {{ rule_id = 3, flagIN = 2, destination_hostgroup = 5 }}"
        ));
        assert!(found.switch_to_fast_forward, "{attributes}");
        assert_eq!(found.hostgroup, Some(HostgroupId(5)));
    }
    let found = verdict("{ rule_id = 1, attributes = { switch_to_fast_forward = false } }");
    assert!(!found.switch_to_fast_forward);
}

#[test]
fn texts_are_rewritten_for_later_rules_and_for_the_server() {
    let (mut client, seen) = client(
        r#"{ rule_id = 1, match_pattern = 'from (\w+)', replace_pattern = 'FROM \1_old', flagOUT = 1 },
           { rule_id = 2, flagIN = 1, match_pattern = 't_old', destination_hostgroup = 2, flagOUT = 2 },
           { rule_id = 3, flagIN = 2, match_digest = 't$', match_pattern = 'a', re_modifiers = "CASELESS,GLOBAL", replace_pattern = 'b' }"#,
    );
    client.query("SELECT a, a FROM t").unwrap();
    client.query("SELECT 1").unwrap();
    let seen = seen.take();
    assert_eq!(seen[0].0, "SELECT b, b FROM t_old");
    assert_eq!(seen[0].1.as_ref().map(|verdict| verdict.rules.to_vec()), Some(vec![1, 2, 3]));
    assert_eq!(seen[1], ("SELECT 1".to_owned(), None));
}

#[test]
fn what_a_statement_is_follows_its_new_text_and_its_digest_the_old_one() {
    let bottom = testing::answering(|command| {
        let statement = command.fact::<Statement>().expect("it is there");
        assert_eq!(statement.get().class, Class::Write);
        assert_eq!(statement.digest().hash.0, 0x1C46_AE52_9DD5_A40E);
        assert_eq!(statement.text().as_ref(), b"DELETE FROM t");
        Ok(Reply::ok(&command, Status::AUTOCOMMIT))
    });
    let rules =
        "rules = [{ rule_id = 1, match_pattern = '.*', replace_pattern = 'DELETE FROM t' }]";
    Client::new(chain(rules).session(bottom)).query("SELECT 1").unwrap();
}

#[test]
fn a_text_that_would_grow_beyond_bounds_is_refused() {
    let (mut client, seen) =
        client(r"{ rule_id = 1, match_pattern = '(.*)', replace_pattern = '\1\1\1\1\1\1\1\1\1' }");
    let error = client.query(&"x".repeat(8 << 20)).unwrap_err();
    assert_eq!(error.code(), 1153);
    assert!(seen.take().is_empty());
}

#[test]
fn error_msg_refuses_statements() {
    let (mut client, seen) =
        client("{ rule_id = 1, match_digest = '^DROP', error_msg = 'not so' }");
    for code in [CommandCode::QUERY, CommandCode::STMT_PREPARE] {
        let answer = client.send(Command::new(testing::session(), code, "DROP TABLE t")).unwrap();
        let err = ErrPacket::decode(&answer.end.packet[HEADER_LEN..]).unwrap();
        assert_eq!((err.code, err.sqlstate), (1148, *b"42000"));
        assert_eq!(err.message, b"not so");
        assert_eq!(answer.end.packet[3], 1, "the first packet after the command's");
    }
    assert!(seen.take().is_empty());
}

#[test]
fn ok_msg_answers_and_comes_first() {
    let (mut client, seen) = client("{ rule_id = 1, error_msg = 'no', OK_msg = 'done' }");
    let mut session = testing::session();
    session.set_status(Status::IN_TRANS | Status::LAST_ROW_SENT | Status::AUTOCOMMIT);
    let answer = client.send(Command::query(session.clone(), "SELECT 1")).unwrap();
    let ok = OkPacket::decode(&answer.end.packet[HEADER_LEN..], session.capabilities).unwrap();
    assert_eq!(ok.info, b"done");
    assert_eq!(ok.status, Status::IN_TRANS | Status::AUTOCOMMIT, "the session is where it was");
    assert_eq!(answer.end.status, Some(ok.status));
    assert!(seen.take().is_empty());
    // An OK would not be what a client expects that prepares.
    let prepare = Command::new(session, CommandCode::STMT_PREPARE, "SELECT 1");
    client.send(prepare).unwrap();
    assert_eq!(seen.take().len(), 1);
}

#[test]
fn an_answer_of_a_rule_is_decided_by_the_last_one() {
    let (mut client, _) =
        client("{ rule_id = 1, error_msg = 'first' }, { rule_id = 2, error_msg = 'second' }");
    let answer = client.query("SELECT 1").unwrap();
    assert!(answer.end.packet.ends_with(b"second"));
}

#[tokio::test(start_paused = true)]
async fn a_delay_holds_the_command_back_and_the_session_stays_usable() {
    let log = Log::default();
    let rules = "rules = [{ rule_id = 1, match_digest = 'slow', delay = 60000 }]";
    let mut stack = chain(rules).session(testing::ok(log.clone()));
    let session = testing::session();
    let slow = || Command::query(session.clone(), "SELECT slow");
    let began = tokio::time::Instant::now();
    let mut call = stack.ready().await.unwrap().call(slow());
    tokio::select! {
        biased;
        _ = &mut call => panic!("it waits"),
        () = tokio::time::sleep(Duration::from_millis(59_999)) => {}
    }
    assert!(log.take().is_empty());
    call.await.unwrap().collect().await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_secs(60));
    assert_eq!(log.take(), ["SELECT slow"]);

    // A client that leaves in the meantime takes its command with it.
    let abandoned = stack.ready().await.unwrap().call(slow());
    let abandoned = tokio::time::timeout(Duration::from_secs(1), abandoned).await;
    assert!(abandoned.is_err());
    let quick = Command::query(session.clone(), "SELECT 1");
    stack.ready().await.unwrap().call(quick).await.unwrap().collect().await.unwrap();
    assert_eq!(log.take(), ["SELECT 1"]);
}

#[test]
fn a_copy_is_sent_where_a_walk_of_its_own_leads() {
    let rules = |mirror: &str| {
        format!(
            "{{ rule_id = 1, destination_hostgroup = 1, {mirror} }},
             {{ rule_id = 2, flagIN = 5, match_digest = '^SELECT', destination_hostgroup = 6,
                attributes = {{ switch_to_fast_forward = true }} }}"
        )
    };
    for (mirror, expected) in [
        ("mirror_flagOUT = 5", 6),
        ("mirror_flagOUT = 7", 1),
        ("mirror_flagOUT = 7, mirror_hostgroup = 4", 4),
        ("mirror_hostgroup = 4", 4),
    ] {
        let found = verdict(&rules(mirror));
        assert_eq!(found.mirror, Some(HostgroupId(expected)), "{mirror}");
        assert_eq!((found.hostgroup, found.switch_to_fast_forward), (Some(HostgroupId(1)), false));
    }
}

#[test]
fn a_copy_has_a_text_of_its_own_or_none_is_sent() {
    let rules = |copied: &str| {
        format!(
            "{{ rule_id = 1, mirror_flagOUT = 5 }},
             {{ rule_id = 2, flagIN = 5, match_pattern = '1', {copied} }}"
        )
    };
    let found = verdict(&rules("replace_pattern = 'other'"));
    assert_eq!(found.mirror_text.as_deref(), Some(&b"SELECT other"[..]));
    assert!(found.mirror.is_some());
    for answered in ["error_msg = 'no'", "OK_msg = 'yes'"] {
        let found = verdict(&rules(answered));
        assert_eq!((found.mirror, found.mirror_text), (None, None), "{answered}");
    }
}

#[test]
fn hits_are_counted_once_for_each_command_and_rule() {
    let chain = chain(
        "iterations = 5, rules = [
            { rule_id = 1, flagOUT = 0 },
            { rule_id = 2, match_digest = '^SELECT' },
            { rule_id = 3, active = false },
            { rule_id = 4, match_digest = 'x', error_msg = 'no' },
        ]",
    );
    let mut client = Client::new(chain.session(testing::ok(Log::default())));
    for sql in ["SELECT 1", "DELETE FROM t", "SELECT x"] {
        client.query(sql).unwrap();
    }
    let families: Vec<_> = chain.counters().collect();
    assert_eq!(families.len(), 1);
    assert_eq!((families[0].name(), families[0].label()), ("rule_hits", "rule_id"));
    let counts = families[0].counts();
    let expected = [("1", 3), ("2", 2), ("4", 1)].map(|(id, hits)| (id.to_owned(), hits));
    assert_eq!(counts, expected);
}

#[test]
fn what_cannot_be_reached_below_is_not_the_rules_to_hide() {
    let bottom = testing::answering(|_| Err(Error::backend("gone")));
    let rules = "rules = [{ rule_id = 1, log = true }]";
    let error = Client::new(chain(rules).session(bottom)).query("SELECT 1").unwrap_err();
    assert_eq!(error.message(), "gone");
}

#[test]
fn an_easy_session_has_an_empty_list_of_rules() {
    let (mut client, seen) = client_in(testing::session(), "rules = []");
    client.query("SELECT 1").unwrap();
    assert_eq!(seen.take().len(), 1);
}
