//! What is made of servers' answers to what the client was told.

use super::{SET, World, err, ok, tracks};
use bytes::{Bytes, BytesMut};
use chain::{Answer, Command, End, facts::Verdict, testing::Client};
use wire::{command::CommandCode, ok::OkPacket, packet::put_packet};

#[test]
fn v0_a_server_does_the_same() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    assert_eq!(world.verdict(SET, 1, &ok(OkPacket::default())), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 0));
    assert_eq!(world.counted("replayed"), 1);
}

#[test]
fn v1_only_warnings_differ() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let warned = ok(OkPacket { warnings: 1, ..OkPacket::default() });
    assert_eq!(world.verdict(SET, 1, &warned), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 1));
    assert_eq!(world.run(SET), 5, "it is volatile");
}

#[test]
fn v2_the_session_has_another_value_there() {
    let world = World::new("");
    world.answers(tracks("time_zone", "+01:00"));
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    let other = tracks("time_zone", "+02:00");
    assert_eq!(world.verdict(SET, 1, &other), Some(Verdict::Other(Bytes::new())));
    assert_eq!((world.counted("hard"), world.counted("volatile")), (1, 1));
    // What a server has answered itself was no lie.
    assert_eq!(world.verdict(SET, 1, &other), None);
    // Compacted, what it depended on may be gone from the log.
    let other = "SET time_zone = '+03:00'";
    assert_eq!((world.run(other), world.run(other)), (5, 0));
    assert_eq!(world.verdict(other, 1, &ok(OkPacket::default())), None);
    assert_eq!(world.run(other), 0);
}

#[test]
fn v3_a_server_refuses_it() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    assert_eq!(world.verdict(SET, 1, &err(1231)), None, "the entry itself must succeed");
    assert_eq!((world.counted("hard"), world.counted("volatile")), (1, 1));
    assert_eq!(world.run(SET), 5);
}

#[test]
fn three_wrong_answers_are_enough_for_a_session() {
    let world = World::new("");
    let texts: Vec<_> = (0..4).map(|n| format!("SET @v{n} = 1")).collect();
    // In one session each is known by what went before it.
    world.log.take();
    for _ in 0..5 {
        let mut client = world.connect();
        texts.iter().for_each(|text| drop(client.query(text).expect("an answer")));
    }
    assert_eq!(world.log.take().len(), 20);
    let mut client = world.connect();
    for text in &texts[..3] {
        client.query(text).expect("an answer");
    }
    assert_eq!(world.log.take().len(), 0);
    client.query("SELECT 1").expect("an answer");
    for entry in world.entries.lock().expect("no panic").iter() {
        let witness = entry.witness.as_ref().expect("it has a witness");
        witness.saw(&world.servers[0], &err(1231));
    }
    world.log.take();
    client.query(&texts[3]).expect("an answer");
    assert_eq!(world.log.take().len(), 1);
    let mut client = world.connect();
    client.query(&texts[3]).expect("an answer");
    assert_eq!(world.log.take().len(), 0, "others go on");
}

#[test]
fn too_many_wrong_answers_stop_them_all() {
    let world = World::new("");
    assert_eq!((world.run(SET), world.run(SET)), (5, 0));
    for n in 0..5 {
        let text = format!("SET @v{n} = 1");
        assert_eq!((world.run(&text), world.run(&text)), (5, 0));
        world.verdict(&text, 1, &err(1231));
    }
    assert_eq!(world.counted("tripped"), 1);
    assert_eq!(world.run(SET), 5);
}

/// A statement: the id, no columns, `parameters` parameters without definitions (which the test has
/// no use for), `warnings`.
fn prepared(id: u32, parameters: u8, name: &[u8]) -> Answer {
    let mut packets = BytesMut::new();
    let mut head = vec![0];
    head.extend(id.to_le_bytes());
    head.extend([0, 0, parameters, 0, 0, 0, 0]);
    let seq = put_packet(&mut packets, 1, &head);
    put_packet(&mut packets, seq, name);
    Answer { packets: packets.freeze(), end: End::default() }
}

#[test]
fn v6_v7_statements() {
    let world = World::new("");
    world.answers(prepared(7, 1, b"column"));
    let text = "SELECT ?";
    let prepare = |client: &mut Client| {
        client
            .send(Command::new(world.session(), CommandCode::STMT_PREPARE, text))
            .expect("an answer")
    };
    for _ in 0..5 {
        prepare(&mut world.connect());
    }
    world.log.take();
    let mut client = world.connect();
    let first = prepare(&mut client);
    let second = prepare(&mut client);
    assert_eq!(world.log.take().len(), 0);
    let id = |answer: &Answer| u32::from_le_bytes(*answer.packets[5..].first_chunk().expect("4"));
    assert_eq!((id(&first), id(&second)), (1 << 31, (1 << 31) + 1));
    assert_eq!(first.packets[9..], prepared(7, 1, b"column").packets[9..]);
    client.query("SELECT 1").expect("an answer");
    let entries = world.entries.lock().expect("no panic").clone();
    let saw = |entry: usize, answer: &Answer| {
        let witness = entries[entry].witness.as_ref().expect("it has a witness");
        witness.saw(&world.servers[1], answer)
    };
    // V6: other columns are the statement's own business, and known from then on.
    assert_eq!(saw(0, &prepared(3, 1, b"other")), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 1));
    world.log.take();
    let now = prepare(&mut world.connect());
    assert_eq!(world.log.take().len(), 0);
    assert_eq!(now.packets[9..], prepared(3, 1, b"other").packets[9..]);
    // V7: with other parameters it is another statement.
    assert_eq!(saw(1, &prepared(3, 2, b"column")), None);
    assert_eq!((world.counted("hard"), world.counted("soft")), (0, 2));
    prepare(&mut world.connect());
    assert_eq!(world.log.take().len(), 1);
}

#[test]
fn without_the_setting_nothing_is_given() {
    let world = World::new(", predict.prepare = false");
    world.answers(prepared(7, 0, b"column"));
    for _ in 0..10 {
        let command = Command::new(world.session(), CommandCode::STMT_PREPARE, "SELECT 1");
        world.connect().send(command).expect("an answer");
    }
    assert_eq!(world.log.take().len(), 10);
}
