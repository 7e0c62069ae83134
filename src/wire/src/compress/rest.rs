//! The second frame of a packet that takes two.

use super::{CompressError, Contexts, HEADER_LEN, Header, flow::Flow};

/// A frame of which the length is known and the bytes come in pieces.
pub(super) struct Rest {
    header: Header,
    /// Plain bytes that have not come yet.
    left: usize,
    work: Option<Work>,
}

/// A frame that has to be compressed before its header can be written.
struct Work {
    flow: Flow,
    /// Room for the header, and what of the body is compressed.
    frame: Vec<u8>,
}

impl Rest {
    /// A frame of `len` plain bytes as they are: they go out as they come, behind the header.
    pub(super) fn stored(seq: u8, len: usize, out: &mut Vec<u8>) -> Self {
        let header = Header { len, seq, plain_len: 0 };
        out.extend(header.to_bytes());
        Self { header, left: len, work: None }
    }

    /// A compressed frame of `len` plain bytes: nothing goes out before all have come.
    pub(super) fn compressed(flow: Flow, seq: u8, len: usize) -> Self {
        let header = Header { len: 0, seq, plain_len: len };
        let work = Work { flow, frame: vec![0; HEADER_LEN] };
        Self { header, left: len, work: Some(work) }
    }

    /// Whether nothing of it has gone out.
    pub(super) fn is_waiting(&self) -> bool {
        self.work.is_some()
    }

    /// Takes the next piece; true if that was the last.
    pub(super) fn add(
        &mut self,
        contexts: &mut Contexts,
        piece: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, CompressError> {
        self.left -= piece.len();
        match &mut self.work {
            None => out.extend_from_slice(piece),
            Some(Work { flow, frame }) => flow.add(piece, frame)?,
        }
        if self.left > 0 {
            return Ok(false);
        }
        if let Some(Work { mut flow, mut frame }) = self.work.take() {
            flow.finish(&mut frame)?;
            contexts.give_back(flow);
            self.header.len = frame.len() - HEADER_LEN;
            frame[..HEADER_LEN].copy_from_slice(&self.header.to_bytes());
            if out.is_empty() {
                *out = frame;
            } else {
                out.extend_from_slice(&frame);
            }
        }
        Ok(true)
    }
}
