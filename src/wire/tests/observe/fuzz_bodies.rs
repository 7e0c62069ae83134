//! What the fuzz targets do, as plain functions: no input makes them panic or lose a byte, and it
//! does not matter how the bytes are cut.
#![allow(dead_code)] // each fuzz target uses one

use wire::{
    Capabilities,
    observe::{Event, Observer},
    translate::Translate,
};

/// What one side says: whether it is the client, and its bytes.
type Piece<'a> = (bool, &'a [u8]);

/// Eight bytes of capabilities, one of step, then pieces of either side: the low bit of a byte says
/// whose, the rest how long.
fn talk(data: &[u8]) -> Option<(Capabilities, usize, Vec<Piece<'_>>)> {
    let (caps, data) = data.split_first_chunk()?;
    let (step, mut data) = data.split_first()?;
    let mut pieces = Vec::new();
    while let Some((head, rest)) = data.split_first() {
        let (piece, rest) = rest.split_at(rest.len().min(usize::from(*head >> 1)));
        pieces.push((head & 1 == 0, piece));
        data = rest;
    }
    Some((Capabilities(u64::from_le_bytes(*caps)), usize::from(*step).max(1), pieces))
}

/// Whole or cut, the same is seen; commands and answers are as many as they can be, and no text is
/// longer than it may be.
pub(crate) fn observe(data: &[u8]) {
    let Some((caps, step, pieces)) = talk(data) else { return };
    for limit in [0, 5, 1 << 14] {
        let whole = events(caps, &pieces, usize::MAX, limit);
        assert_eq!(whole, events(caps, &pieces, step, limit));
        let (mut asked, mut over) = (0, 0);
        for event in &whole {
            let text = match event {
                Event::Asked(_) => {
                    asked += 1;
                    continue;
                }
                Event::FileAsked => continue,
                Event::Answered(command, _) | Event::Unanswered(command) => &command.text,
            };
            over += 1;
            assert!(text.as_ref().is_none_or(|text| (1..=limit).contains(&text.payload().len())));
        }
        assert!(over <= asked);
    }
}

fn events(
    caps: Capabilities,
    pieces: &[Piece<'_>],
    step: usize,
    limit: usize,
) -> Vec<Event<usize>> {
    let (mut observer, mut events) = (Observer::new(caps).keeping_texts(limit), Vec::new());
    for (mark, (client, bytes)) in pieces.iter().enumerate() {
        for bytes in bytes.chunks(step) {
            let was_silent = observer.is_silent();
            let before = events.len();
            match client {
                true => observer.client(bytes, mark, |event| events.push(event)),
                false => observer.server(bytes, mark, |event| events.push(event)),
            }
            assert!(!was_silent || (observer.is_silent() && events.len() == before));
        }
    }
    observer.end(|event| events.push(event));
    events
}

/// All bytes arrive, in order; only ids are changed, and the same ones however the bytes are cut.
pub(crate) fn translate(data: &[u8]) {
    let Some((caps, step, pieces)) = talk(data) else { return };
    let client: Vec<u8> = pieces
        .iter()
        .filter(|(client, _)| *client)
        .flat_map(|(_, piece)| *piece)
        .copied()
        .collect();
    let nothing = translated(&[(0x0505_0505, 0x0505_0505)], caps, &pieces, step);
    assert_eq!(nothing, client);
    let pairs = [(0x0101_0101, 0x7070_7070), (0, 0x7171_7171)];
    let whole = translated(&pairs, caps, &pieces, usize::MAX);
    assert_eq!(whole, translated(&pairs, caps, &pieces, step));
    assert_eq!(whole.len(), nothing.len());
}

fn translated(
    ids: &[(u32, u32)],
    caps: Capabilities,
    pieces: &[Piece<'_>],
    step: usize,
) -> Vec<u8> {
    let (mut translate, mut out, mut asked) = (Translate::new(ids, caps), Vec::new(), 0);
    for (client, bytes) in pieces {
        for bytes in bytes.chunks(step) {
            match client {
                true => out.extend(translate.client(bytes)),
                false => translate.server(bytes),
            }
            asked += if *client { bytes.len() } else { 0 };
            assert!(asked - out.len() <= 8);
        }
    }
    out.extend(translate.rest());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packets of either side with small payloads that mean something.
    fn talks() -> impl Strategy<Value = Vec<u8>> {
        let first = prop::sample::select(vec![
            0u8, 1, 3, 0x11, 0x12, 0x16, 0x17, 0x19, 0x1C, 0x1F, 0xFB, 0xFE, 0xFF,
        ]);
        let packet =
            (any::<bool>(), 0u8..3, first, prop::collection::vec(0u8..2, 0..9), any::<bool>());
        let caps = prop::sample::select(vec![0x0200_u64, 0x0100_0200]);
        (caps, 1u8..9, prop::collection::vec(packet, 0..24)).prop_map(|(caps, step, packets)| {
            let mut out = [&caps.to_le_bytes()[..], &[step]].concat();
            for (client, seq, first, rest, cut) in packets {
                let mut packet = vec![rest.len() as u8 + 1, 0, 0, seq, first];
                packet.extend(&rest);
                packet.truncate(packet.len() - usize::from(cut && seq == 2));
                out.push((packet.len() as u8) << 1 | u8::from(!client));
                out.extend(packet);
            }
            out
        })
    }

    proptest! {
        #[test]
        fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
            observe(&data);
            translate(&data);
        }

        #[test]
        fn any_packets(data in talks()) {
            observe(&data);
            translate(&data);
        }
    }

    /// The seeds that fuzzing begins with, and what it has found wrong before.
    #[test]
    fn seeds() {
        type Target = (&'static str, fn(&[u8]));
        let targets: [Target; 2] = [("observe", observe), ("translate", translate)];
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds");
        for (name, body) in targets {
            let files = std::fs::read_dir(format!("{seeds}/{name}")).expect("a folder of seeds");
            let files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
            assert!(!files.is_empty(), "{name} has no seed");
            files.iter().for_each(|file| body(&std::fs::read(file).unwrap()));
        }
    }
}
