//! What the algorithms need to work, kept from one frame to the next.

use super::{CompressError, Method, flow::Flow};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::io;
use zstd_safe::{CCtx, DCtx};

/// The working memory of the algorithms, some hundred kilobytes for each that was used.
///
/// Making one takes longer than compressing a short frame; nothing of a frame stays in it. So all
/// connections of a thread share one.
#[derive(Default)]
pub struct Contexts {
    /// One for each level in use: changing a level costs more than keeping both.
    deflate: Vec<(u8, Compress)>,
    inflate: Option<Decompress>,
    zstd: Option<CCtx<'static>>,
    unzstd: Option<DCtx<'static>>,
    /// The body that was compressed last.
    body: Vec<u8>,
}

/// A body larger than this is not kept.
const KEEP: usize = 256 * 1024;

impl Contexts {
    /// Without anything: memory is taken on first use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// `plain` compressed; `None` if that would not be shorter.
    pub(super) fn compress(&mut self, method: Method, plain: &[u8]) -> Option<&[u8]> {
        self.body.clear();
        if self.body.capacity() > KEEP {
            self.body = Vec::new();
        }
        // No room for a body that is not shorter: both algorithms give up then.
        self.body.reserve_exact(plain.len().saturating_sub(1));
        match method {
            Method::Zlib { level } => {
                let deflate = deflate(&mut self.deflate, level);
                deflate.reset();
                let status = deflate.compress_vec(plain, &mut self.body, FlushCompress::Finish);
                (status.ok()? == Status::StreamEnd).then_some(())?;
            }
            Method::Zstd { level } => {
                let zstd = self.zstd.get_or_insert_with(CCtx::create);
                zstd.compress(&mut self.body, plain, i32::from(level.clamp(1, 22))).ok()?;
            }
        }
        (self.body.len() < plain.len()).then_some(&self.body)
    }

    /// A context for one body of `len` plain bytes that come in pieces. Other connections of
    /// the thread do without it until it is given back.
    pub(super) fn lend(&mut self, method: Method, len: usize) -> Result<Flow, CompressError> {
        match method {
            Method::Zlib { level } => {
                let kept = self.deflate.iter().position(|(of, _)| *of == level);
                let mut deflate =
                    kept.map_or_else(|| new_deflate(level), |at| self.deflate.swap_remove(at).1);
                deflate.reset();
                Ok(Flow::Zlib { level, deflate })
            }
            Method::Zstd { level } => {
                let zstd = self.zstd.take().or_else(CCtx::try_create);
                Flow::zstd(zstd.ok_or(CompressError::Failed)?, level, len)
            }
        }
    }

    /// Takes a lent context back, unless there is another one by now.
    pub(super) fn give_back(&mut self, flow: Flow) {
        match flow {
            Flow::Zlib { level, deflate } => {
                if self.deflate.iter().all(|(of, _)| *of != level) {
                    self.deflate.push((level, deflate));
                }
            }
            Flow::Zstd(zstd) => self.zstd = Some(zstd),
        }
    }

    /// A body uncompressed, which has to give `len` bytes; with zlib it may give less, and more may
    /// stand behind its end, since servers look at neither. Takes no more memory than those.
    pub(super) fn uncompress(
        &mut self,
        method: Method,
        body: &[u8],
        len: usize,
    ) -> Result<Vec<u8>, CompressError> {
        let mut plain = Vec::new();
        plain.try_reserve_exact(len).map_err(|_| CompressError::Length { promised: len })?;
        match method {
            Method::Zlib { .. } => self.inflate(body, &mut plain, len)?,
            Method::Zstd { .. } => {
                let unzstd = self.unzstd.get_or_insert_with(DCtx::create);
                unzstd.decompress(&mut plain, body).map_err(|_| CompressError::Corrupt)?;
                if plain.len() != len {
                    return Err(CompressError::Length { promised: len });
                }
            }
        }
        // What was promised and is not there is not kept.
        plain.shrink_to_fit();
        Ok(plain)
    }

    fn inflate(
        &mut self,
        body: &[u8],
        plain: &mut Vec<u8>,
        len: usize,
    ) -> Result<(), CompressError> {
        let inflate = self.inflate.get_or_insert_with(|| Decompress::new(true));
        inflate.reset(true);
        let status = inflate.decompress_vec(body, plain, FlushDecompress::Finish);
        match status.map_err(io::Error::from) {
            Ok(Status::StreamEnd) => Ok(()),
            // It is cut, or there is no room for all that it gives.
            Ok(_) => Err(CompressError::Length { promised: len }),
            Err(_) => Err(CompressError::Corrupt),
        }
    }
}

fn deflate(kept: &mut Vec<(u8, Compress)>, level: u8) -> &mut Compress {
    let at = kept.iter().position(|(of, _)| *of == level).unwrap_or_else(|| {
        kept.push((level, new_deflate(level)));
        kept.len() - 1
    });
    &mut kept[at].1
}

fn new_deflate(level: u8) -> Compress {
    Compress::new(Compression::new(u32::from(level.clamp(1, 9))), true)
}
