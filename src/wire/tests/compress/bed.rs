//! Both ends of a connection, and frames made by hand.

use bytes::BytesMut;
use wire::{
    Capabilities,
    compress::{Codec, CompressError, Contexts, End, Method},
    packet::put_packet,
};

pub(crate) const METHODS: [Method; 4] =
    [Method::Zlib { level: 1 }, Method::ZLIB, Method::ZSTD, Method::Zstd { level: 19 }];

/// One end, and the bytes that have come to it.
pub(crate) struct Side {
    codec: Codec,
    contexts: Contexts,
    input: BytesMut,
}

impl Side {
    pub(crate) fn new(method: Method, end: End) -> Self {
        Self { codec: Codec::new(method, end), contexts: Contexts::new(), input: BytesMut::new() }
    }

    /// The frames of `plain`, given in one piece.
    pub(crate) fn send(&mut self, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.codec.encode(&mut self.contexts, plain, &mut out).unwrap();
        out
    }

    /// The frames of `plain` if nothing may wait, and what was asked for.
    pub(crate) fn send_without_room(&mut self, plain: &[u8]) -> (Vec<u8>, Vec<usize>) {
        let (mut out, mut asked) = (Vec::new(), Vec::new());
        let room = |bytes| {
            asked.push(bytes);
            false
        };
        self.codec.encode_within(&mut self.contexts, plain, &mut out, room).unwrap();
        assert!(!self.codec.is_waiting());
        (out, asked)
    }

    /// Whether a frame waits for more.
    pub(crate) fn is_waiting(&self) -> bool {
        self.codec.is_waiting()
    }

    /// The plain packets of as many frames as are whole.
    pub(crate) fn receive(&mut self, frames: &[u8]) -> Result<Vec<u8>, CompressError> {
        self.input.extend_from_slice(frames);
        let mut plain = Vec::new();
        while let Some(piece) = self.codec.decode(&mut self.contexts, &mut self.input)? {
            plain.extend(piece);
        }
        Ok(plain)
    }

    /// Whether nothing has come that has not come whole.
    pub(crate) fn is_done(&self) -> bool {
        self.input.is_empty() && self.codec.is_between_messages()
    }
}

pub(crate) fn pair(method: Method) -> (Side, Side) {
    (
        Side::new(method, End::Client(Capabilities::EMPTY)),
        Side::new(method, End::Server(Capabilities::EMPTY)),
    )
}

/// Packets with these payloads, counted from `seq` on.
pub(crate) fn packets<'a>(seq: u8, payloads: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = BytesMut::new();
    payloads.into_iter().fold(seq, |seq, payload| put_packet(&mut out, seq, payload));
    out.to_vec()
}

pub(crate) fn query(sql: &[u8]) -> Vec<u8> {
    packets(0, [&[b"\x03", sql].concat()[..]])
}

/// A frame by its parts.
pub(crate) fn frame(seq: u8, plain_len: usize, body: &[u8]) -> Vec<u8> {
    let [a, b, c, ..] = body.len().to_le_bytes();
    let [d, e, f, ..] = plain_len.to_le_bytes();
    [&[a, b, c, seq, d, e, f][..], body].concat()
}

/// Sequence id, length and uncompressed length of each frame.
pub(crate) fn headers(mut frames: &[u8]) -> Vec<(u8, usize, usize)> {
    let mut found = Vec::new();
    while let [a, b, c, seq, d, e, f, rest @ ..] = frames {
        let int = |bytes| u32::from_le_bytes(bytes) as usize;
        let len = int([*a, *b, *c, 0]);
        found.push((*seq, len, int([*d, *e, *f, 0])));
        frames = &rest[len..];
    }
    assert!(frames.is_empty(), "a frame is cut");
    found
}

/// Bytes that no algorithm makes shorter.
pub(crate) fn noise(len: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Sequence id and plain bytes of each frame, as they are in it.
pub(crate) fn contents(method: Method, mut frames: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut found = Vec::new();
    for (seq, len, plain_len) in headers(frames) {
        let body = &frames[7..7 + len];
        frames = &frames[7 + len..];
        let mut plain = Vec::with_capacity(plain_len);
        match method {
            _ if plain_len == 0 => plain = body.to_vec(),
            Method::Zlib { .. } => {
                let finish = flate2::FlushDecompress::Finish;
                let status = flate2::Decompress::new(true).decompress_vec(body, &mut plain, finish);
                assert_eq!(status.unwrap(), flate2::Status::StreamEnd);
            }
            Method::Zstd { .. } => {
                let promised = zstd_safe::get_frame_content_size(body).unwrap();
                assert_eq!(promised, Some(plain_len as u64), "some clients go by that");
                zstd_safe::decompress(&mut plain, body).unwrap();
            }
        }
        assert!(plain_len == 0 || plain.len() == plain_len);
        found.push((seq, plain));
    }
    found
}

/// How long each packet in `plain` is, with its header; the last one as far as it is there.
pub(crate) fn lengths(mut plain: &[u8]) -> Vec<usize> {
    let mut found = Vec::new();
    while let Some(&[a, b, c, _]) = plain.first_chunk() {
        let len = (4 + u32::from_le_bytes([a, b, c, 0]) as usize).min(plain.len());
        found.push(len);
        plain = &plain[len..];
    }
    assert!(plain.is_empty(), "a header is cut");
    found
}
