//! Whether a session command has done on this connection what it did where it was executed first.

use bytes::Bytes;
use chain::{
    Answer,
    facts::{Expected, LogEntry, Verdict},
};
use wire::{capability::Capabilities, command::statement::PrepareOk, packet::HEADER_LEN};

/// The ERR packet of an answer, without its header; what there is if it is none.
pub(crate) fn error_of(answer: &Answer) -> Bytes {
    answer.end.packet.get(HEADER_LEN..).map(Bytes::copy_from_slice).unwrap_or_default()
}

/// Compares a reply with what the log expects.
pub(crate) fn verify(entry: &LogEntry, answer: &Answer) -> Verdict {
    let error = || error_of(answer);
    let failed = answer.end.error.is_some();
    match entry.expected {
        Expected::Anything => Verdict::Same,
        Expected::Success if failed => Verdict::Other(error()),
        Expected::Success => Verdict::Same,
        Expected::Statement { id, .. } if failed => Verdict::Broken { id, error: error() },
        Expected::Statement { id, parameters } => {
            let first =
                [&answer.packets, &answer.end.packet].into_iter().find(|run| !run.is_empty());
            let payload = first.and_then(|run| run.get(HEADER_LEN..)).unwrap_or_default();
            match PrepareOk::decode(payload, Capabilities::EMPTY) {
                Ok(ok) if ok.parameters == parameters => Verdict::Prepared { id, server: ok.id },
                _ => Verdict::Broken { id, error: Bytes::new() },
            }
        }
    }
}
