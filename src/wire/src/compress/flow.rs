//! Compressing what comes in pieces.

use super::CompressError;
use flate2::{Compress, FlushCompress, Status};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ResetDirective, SafeResult};

/// A context that works on one body.
pub(super) enum Flow {
    Zlib { level: u8, deflate: Compress },
    Zstd(CCtx<'static>),
}

/// Room that is made at once for what is compressed.
const STEP: usize = 16 * 1024;
/// How far back zstd looks, as a power of two: 512 KiB, so that the context does not grow with the
/// level.
const WINDOW_LOG: u32 = 19;

impl Flow {
    /// `len`: plain bytes of the body.
    pub(super) fn zstd(
        mut zstd: CCtx<'static>,
        level: u8,
        len: usize,
    ) -> Result<Self, CompressError> {
        done(zstd.reset(ResetDirective::SessionOnly))?;
        done(zstd.set_parameter(CParameter::CompressionLevel(level.clamp(1, 22).into())))?;
        done(zstd.set_parameter(CParameter::WindowLog(WINDOW_LOG)))?;
        done(zstd.set_pledged_src_size(Some(len as u64)))?;
        Ok(Self::Zstd(zstd))
    }

    /// Compresses the next piece, and appends to `body` as far as that goes.
    pub(super) fn add(&mut self, plain: &[u8], body: &mut Vec<u8>) -> Result<(), CompressError> {
        match self {
            Self::Zlib { deflate, .. } => {
                let mut rest = plain;
                while !rest.is_empty() {
                    body.reserve(STEP);
                    let before = deflate.total_in();
                    let status = deflate.compress_vec(rest, body, FlushCompress::None);
                    status.map_err(|_| CompressError::Failed)?;
                    let taken = usize::try_from(deflate.total_in() - before).unwrap_or(usize::MAX);
                    rest = rest.get(taken..).unwrap_or_default();
                }
            }
            Self::Zstd(zstd) => {
                let mut input = InBuffer::around(plain);
                while input.pos() < plain.len() {
                    let mut output = behind(body);
                    done(zstd.compress_stream(&mut output, &mut input))?;
                }
            }
        }
        Ok(())
    }

    /// Appends the rest of the body.
    pub(super) fn finish(&mut self, body: &mut Vec<u8>) -> Result<(), CompressError> {
        match self {
            Self::Zlib { deflate, .. } => loop {
                body.reserve(STEP);
                let status = deflate.compress_vec(&[], body, FlushCompress::Finish);
                if status.map_err(|_| CompressError::Failed)? == Status::StreamEnd {
                    return Ok(());
                }
            },
            Self::Zstd(zstd) => while done(zstd.end_stream(&mut behind(body)))? > 0 {},
        }
        Ok(())
    }
}

/// Room behind what is in `body`.
fn behind(body: &mut Vec<u8>) -> OutBuffer<'_, Vec<u8>> {
    body.reserve(STEP);
    let len = body.len();
    OutBuffer::around_pos(body, len)
}

fn done(result: SafeResult) -> Result<usize, CompressError> {
    result.map_err(|_| CompressError::Failed)
}
