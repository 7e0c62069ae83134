//! What the fuzz target does, as a plain function: no input makes a decoder panic or take more than
//! a frame may hold, and what it takes is the same however it is cut and when it is sent on.

use bytes::BytesMut;
use wire::{
    Capabilities,
    compress::{Codec, CompressError, Contexts, End, MAX_FRAME, Method, WHOLE},
};

pub(crate) fn compress(data: &[u8]) {
    let Some((flags, data)) = data.split_first() else { return };
    let method = if flags & 1 == 0 { Method::Zlib { level: 1 } } else { Method::ZSTD };
    let end = if flags & 2 == 0 {
        End::Server(Capabilities::EMPTY)
    } else {
        End::Client(Capabilities::EMPTY)
    };
    let mut contexts = Contexts::new();
    let (whole, error) = decode(&mut contexts, Codec::new(method, end), [data]);
    let single = decode(&mut contexts, Codec::new(method, end), data.chunks(1));
    assert!((&whole, error) == (&single.0, single.1), "it matters how the input is cut");
    sent_on(&mut contexts, method, &whole);
    sent_on(&mut contexts, method, data);
}

fn decode<'a>(
    contexts: &mut Contexts,
    mut codec: Codec,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, Option<CompressError>) {
    let (mut input, mut plain) = (BytesMut::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            match codec.decode(contexts, &mut input) {
                Ok(Some(more)) => {
                    assert!(more.len() <= MAX_FRAME + 4);
                    plain.extend(more);
                }
                Ok(None) => break,
                Err(error) => return (plain, Some(error)),
            }
        }
        assert!(Codec::missing(&input) > 0);
    }
    (plain, None)
}

/// A server's end sends it, and the client's end gets it: all but the packets' ids is the same, as
/// far as it goes out, and once it has its ids all is.
fn sent_on(contexts: &mut Contexts, method: Method, plain: &[u8]) {
    let mut pass = |plain: &[u8]| {
        let mut out = Vec::new();
        Codec::new(method, End::Server(Capabilities::EMPTY))
            .encode(contexts, plain, &mut out)
            .unwrap();
        let (heard, error) =
            decode(contexts, Codec::new(method, End::Client(Capabilities::EMPTY)), [&out[..]]);
        assert_eq!(error, None);
        heard
    };
    let heard = pass(plain);
    assert!(heard.len() <= plain.len() && plain.len() - heard.len() < WHOLE);
    assert!(pass(&heard) == heard);
}

#[cfg(test)]
mod tests {
    use super::compress;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
            compress(&data);
        }

        /// Frames that are in order, and stored or not.
        #[test]
        fn any_frames(
            flags: u8,
            bodies in prop::collection::vec((prop::collection::vec(0u8..4, 0..40), 0u8..4), 0..9),
        ) {
            let mut data = vec![flags];
            for (seq, (body, plain_len)) in (0_u8..).zip(bodies) {
                data.extend([body.len() as u8, 0, 0, seq, plain_len.saturating_sub(2), 0, 0]);
                data.extend(body);
            }
            compress(&data);
        }
    }

    /// The seeds that fuzzing begins with, and what it has found wrong before.
    #[test]
    fn seeds() {
        let seeds = concat!(env!("CARGO_MANIFEST_DIR"), "/fuzz/seeds/compress");
        let files: Vec<_> = std::fs::read_dir(seeds).unwrap().map(|f| f.unwrap().path()).collect();
        assert!(!files.is_empty());
        files.iter().for_each(|file| compress(&std::fs::read(file).unwrap()));
    }
}
