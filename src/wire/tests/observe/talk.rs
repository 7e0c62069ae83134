//! Both sides' packets, in order.

use std::fmt::Write;
use wire::{
    Capabilities, CommandCode,
    observe::{Event, Observer, Text},
    packet::Message,
};

/// As most clients log in.
pub(crate) const CAPS: Capabilities =
    Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF).union(Capabilities::LOCAL_FILES);

/// An OK without anything special.
pub(crate) const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];
/// An EOF in the form of an OK.
pub(crate) const END: &[u8] = &[0xFE, 0, 0, 2, 0, 0, 0];
/// ERR 1064.
pub(crate) const ERR: &[u8] = b"\xFF\x28\x04#42000it is wrong";

/// What one side says.
pub(crate) enum Said {
    Client(Vec<u8>),
    Server(Vec<u8>),
}

pub(crate) fn packet(seq: u8, payload: &[u8]) -> Vec<u8> {
    Message::new(seq, payload).framed.to_vec()
}

/// A command of the client's.
pub(crate) fn asks(command: CommandCode, body: &[u8]) -> Said {
    Said::Client(packet(0, &[&[command.0], body].concat()))
}

/// A reply whose packets are counted from 1.
pub(crate) fn answers(payloads: &[&[u8]]) -> Said {
    let packets = (1..).zip(payloads).map(|(seq, payload)| packet(seq, payload));
    Said::Server(packets.collect::<Vec<_>>().concat())
}

/// What an observer makes of it when the bytes come in pieces of `size`: one word an event.
pub(crate) fn seen(caps: Capabilities, talk: &[Said], size: usize) -> String {
    seen_by(&mut Observer::new(caps), talk, size)
}

/// The same, of an observer that may know something already. Texts that it keeps are in brackets.
pub(crate) fn seen_by(observer: &mut Observer<usize>, talk: &[Said], size: usize) -> String {
    let mut words = String::new();
    for (mark, said) in talk.iter().enumerate() {
        feed(observer, said, mark, size, |event| add(&mut words, event));
    }
    if observer.is_silent() {
        words.push_str(" silent");
    }
    words.trim_start().to_owned()
}

/// Writes an event.
pub(crate) fn add(words: &mut String, event: Event<usize>) {
    let text = |text: Option<Text>| {
        let text = text.map(|text| String::from_utf8_lossy(&text.payload()[1..]).into_owned());
        text.map_or(String::new(), |text| format!("[{text}]"))
    };
    match event {
        Event::Asked(command) => write!(words, " {}", &command.name()[4..]).unwrap(),
        Event::FileAsked => words.push_str(" file"),
        Event::Answered(asked, answer) => {
            let error = answer.error.map_or("ok".into(), |error| error.code.to_string());
            let (name, text) = (&asked.command.name()[4..], text(asked.text));
            write!(words, " {name}{text}@{}={error}", asked.mark).unwrap();
        }
        Event::Unanswered(asked) => {
            let (name, text) = (&asked.command.name()[4..], text(asked.text));
            write!(words, " {name}{text}@{}=nothing", asked.mark).unwrap();
        }
    }
}

/// Gives one side's bytes in pieces of `size`.
pub(crate) fn feed<M: Copy>(
    observer: &mut Observer<M>,
    said: &Said,
    mark: M,
    size: usize,
    mut tell: impl FnMut(Event<M>),
) {
    match said {
        Said::Client(bytes) => {
            bytes.chunks(size).for_each(|piece| observer.client(piece, mark, &mut tell));
        }
        Said::Server(bytes) => {
            bytes.chunks(size).for_each(|piece| observer.server(piece, mark, &mut tell));
        }
    }
}
