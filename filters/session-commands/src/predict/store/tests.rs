use super::{Census, Change, Place, Sample, Store};
use crate::predict::{settings::Settings, template::Template};
use bytes::{Bytes, BytesMut};
use chain::{Answer, End};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use wire::{
    capability::Capabilities, ok::OkPacket, packet::put_packet, session_state::Tracker,
    status::Status,
};

const CAPABILITIES: Capabilities = Capabilities::SESSION_TRACK;

fn template(name: &str) -> Arc<Template> {
    let status = Status(Status::AUTOCOMMIT.0 | Status::SESSION_STATE_CHANGED.0);
    let trackers = vec![Tracker::Schema(name.into())];
    let ok = OkPacket { status, trackers, ..OkPacket::default() };
    let (mut payload, mut packet) = (BytesMut::new(), BytesMut::new());
    ok.encode(&mut payload, CAPABILITIES);
    put_packet(&mut packet, 1, &payload);
    let end = End { packet: packet.freeze(), status: Some(status), ..End::default() };
    let answer = Answer { packets: Bytes::new(), end };
    Arc::new(Template::of(&answer, false, CAPABILITIES, false).expect("a plain OK"))
}

fn place(key: u128) -> Place {
    Place { key, account: 1, constant: true }
}

fn sample(name: &str, session: u32) -> Sample {
    Sample { template: Some(template(name)), session, stamp: 0 }
}

fn unfit(session: u32) -> Sample {
    Sample { template: None, session, stamp: 0 }
}

/// A store in which `place` is predictable.
fn learnt(settings: Settings, place: Place, now: Instant) -> Store {
    let store = Store::new(settings);
    for session in 0..5 {
        store.observe(place, &sample("d", session), now);
    }
    assert!(store.give(place.key, 0, now).is_some());
    store
}

#[test]
fn five_times_the_same_from_two_sessions() {
    let (store, now) = (Store::new(Settings::default()), Instant::now());
    for _ in 0..20 {
        assert_eq!(store.observe(place(1), &sample("d", 7), now), Change::None);
    }
    assert!(store.give(1, 0, now).is_none(), "one session alone");
    assert_eq!(store.observe(place(1), &sample("d", 8), now), Change::Promoted);
    assert_eq!(store.give(1, 0, now), Some(template("d")));
    let store = Store::new(Settings::default());
    for session in 0..4 {
        store.observe(place(1), &sample("d", session), now);
        assert!(store.give(1, 0, now).is_none(), "too few");
    }
}

/// H83: whatever the order, two different replies are no certainty.
#[test]
fn h83_another_reply_is_the_end_of_it() {
    let (now, settings) = (Instant::now(), Settings::default());
    let all = [sample("d", 1), sample("e", 2), unfit(3)];
    for (first, second) in [(0, 1), (1, 0), (0, 2), (2, 0)] {
        let store = Store::new(settings);
        store.observe(place(1), &all[first], now);
        assert_eq!(store.observe(place(1), &all[second], now), Change::Spoilt);
        for session in 0..50 {
            store.observe(place(1), &sample("d", session), now);
            assert!(store.give(1, 0, now).is_none());
        }
    }
    let store = learnt(settings, place(1), now);
    store.observe(place(1), &sample("e", 9), now);
    assert!(store.give(1, 0, now).is_none());
    assert!(store.give(1, 0, now + Duration::from_secs(1 << 30)).is_none(), "for good");
}

#[test]
fn errors_alone_are_forgotten_first() {
    let (store, now) = (Store::new(Settings::default()), Instant::now());
    for session in 0..50 {
        store.observe(place(1), &unfit(session), now);
    }
    assert_eq!(store.census().cold, 1);
    assert!(store.give(1, 0, now).is_none());
}

#[test]
fn what_depends_on_the_environment_gets_another_chance() {
    let (now, settings) = (Instant::now(), Settings::default());
    let place = Place { constant: false, ..place(1) };
    let store = learnt(settings, place, now);
    let mut at = now;
    for pause in [600, 1200, 2400] {
        store.spoil(place, at);
        let before = at + Duration::from_secs(pause - 1);
        for session in 0..10 {
            store.observe(place, &sample("d", session), before);
        }
        assert!(store.give(1, 0, before).is_none(), "{pause}");
        at += Duration::from_secs(pause);
        for session in 0..10 {
            store.observe(place, &sample("d", session), at);
        }
        assert!(store.give(1, 0, at).is_some(), "{pause}");
    }
}

#[test]
fn a_reply_that_nobody_confirms_is_asked_for() {
    let now = Instant::now();
    let store = learnt(Settings::default(), place(1), now);
    let later = now + Duration::from_secs(3599);
    assert!(store.give(1, 0, later).is_some());
    store.observe(place(1), &sample("d", 9), later);
    assert!(store.give(1, 0, later + Duration::from_secs(3599)).is_some());
    assert!(store.give(1, 0, later + Duration::from_secs(3600)).is_none());
}

#[test]
fn one_of_so_many_is_asked_for_all_the_same() {
    let now = Instant::now();
    let settings = Settings { audit_rate: 4, ..Settings::default() };
    let store = learnt(settings, place(1), now);
    // `learnt` has taken one.
    let given: Vec<_> = (0..8).map(|_| store.give(1, 0, now).is_some()).collect();
    assert_eq!(given, [true, true, false, true, true, true, false, true]);
}

#[test]
fn what_it_depended_on_has_changed() {
    let now = Instant::now();
    let store = learnt(Settings::default(), place(1), now);
    assert!(store.give(1, 5, now).is_none());
    assert!(store.give(1, 5, now).is_none());
    for session in 0..5 {
        store.observe(place(1), &Sample { stamp: 5, ..sample("e", session) }, now);
    }
    assert_eq!(store.give(1, 5, now), Some(template("e")));
}

#[test]
fn it_stays_below_its_limits() {
    let settings = Settings { max_keys: 1600, max_bytes: 1 << 20, ..Settings::default() };
    let (store, now) = (Store::new(settings), Instant::now());
    for key in 0..20_000_u128 {
        let place = Place { account: key as u64 % 3, ..place(key << 64 | key) };
        store.observe(place, &sample("a schema", 1), now);
    }
    let Census { cold, bytes, .. } = store.census();
    assert!((800..=1600).contains(&cold), "{cold}");
    assert!(bytes <= 1 << 20, "{bytes}");
}

#[test]
fn what_is_sure_outlives_what_is_not() {
    let settings = Settings { max_keys: 1600, ..Settings::default() };
    let now = Instant::now();
    let sure = place(1);
    let store = learnt(settings, sure, now);
    for key in 2..20_000_u128 {
        store.observe(place(key), &sample("d", 1), now);
    }
    assert!(store.give(1, 0, now).is_some());
    assert!(store.census().cold < 200);
}

#[test]
fn an_account_that_floods_the_store_flushes_its_own() {
    let settings = Settings { max_keys: 160_000, max_bytes: 1 << 20, ..Settings::default() };
    let now = Instant::now();
    let store = Store::new(settings);
    // Others have learnt something, within their shares.
    let others: Vec<_> =
        (0..10_u128).map(|key| Place { key, account: 100 + key as u64, constant: true }).collect();
    for place in &others {
        for session in 0..5 {
            store.observe(*place, &sample("d", session), now);
        }
    }
    for key in 1000..30_000_u128 {
        for session in 0..5 {
            store.observe(place(key), &sample("d", session), now);
        }
    }
    for place in others {
        assert!(store.give(place.key, 0, now).is_some());
    }
    assert!(store.census().bytes <= 1 << 20);
}

#[test]
fn the_queues_do_not_grow_with_what_becomes_of_an_entry() {
    let (store, now) = (Store::new(Settings::default()), Instant::now());
    for stamp in 0..10_000 {
        for session in 0..5 {
            store.observe(place(1), &Sample { stamp, ..sample("d", session) }, now);
        }
    }
    let part = super::lock(&store.parts[0]);
    assert!(part.room.queued() < 200, "{}", part.room.queued());
}
