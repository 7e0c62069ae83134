//! Reading and writing without keeping memory where nothing happens.
//!
//! Small reads go through one buffer per worker thread, so that an idle session or connection
//! holds none. Bulk is read in place, and handed on without a copy.

use crate::stream::Stream;
use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;
use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio_util::io::poll_read_buf;

/// Bytes of the buffer that all sessions of a worker thread share.
pub(crate) const SCRATCH: usize = 64 * 1024;
/// Bytes a connection reads at once after a read that filled the shared buffer.
const BULK: usize = 256 * 1024;
/// Frames below this many bytes are gathered by copying, larger ones by their addresses.
const GATHER: usize = 16 * 1024;

thread_local! {
    static SCRATCH_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into());
}

/// Frames on their way out, in order.
pub(crate) type Frames = SmallVec<[Bytes; 4]>;

/// Reads once and appends to `into`; 0 is the end of the stream. Large room in `into` is filled in
/// place.
pub(crate) fn poll_append(
    io: &mut Stream,
    cx: &mut Context<'_>,
    into: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    if into.capacity() - into.len() >= SCRATCH {
        return poll_read_buf(Pin::new(io), cx, into);
    }
    SCRATCH_BUFFER.with_borrow_mut(|scratch| {
        let mut scratch = ReadBuf::new(scratch);
        ready!(Pin::new(io).poll_read(cx, &mut scratch))?;
        into.extend_from_slice(scratch.filled());
        Poll::Ready(Ok(scratch.filled().len()))
    })
}

/// [`poll_append`] as a future. Cancelling it loses nothing.
pub(crate) async fn append(io: &mut Stream, into: &mut BytesMut) -> io::Result<usize> {
    poll_fn(|cx| poll_append(io, cx, into)).await
}

/// Takes what has arrived as one chunk, with as few copies as its size deserves.
#[derive(Debug, Default)]
pub(crate) struct ChunkReader {
    /// Where bulk is read to.
    buffer: BytesMut,
    /// The last read filled its buffer: read the next one in place.
    bulk: bool,
}

impl ChunkReader {
    /// The next chunk; `None` at the end of the stream.
    pub(crate) fn poll_chunk(
        &mut self,
        io: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Bytes>>> {
        if !self.bulk {
            return self.poll_small(io, cx);
        }
        // The memory of the chunk before is used again if its reader has let it go.
        self.buffer.reserve(BULK);
        let read = ready!(poll_read_buf(Pin::new(io), cx, &mut self.buffer))?;
        if read < SCRATCH {
            self.bulk = false;
            return Poll::Ready(Ok((read > 0).then(|| std::mem::take(&mut self.buffer).freeze())));
        }
        Poll::Ready(Ok(Some(self.buffer.split().freeze())))
    }

    fn poll_small(
        &mut self,
        io: &mut Stream,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<Option<Bytes>>> {
        SCRATCH_BUFFER.with_borrow_mut(|scratch| {
            let mut scratch = ReadBuf::new(scratch);
            ready!(Pin::new(io).poll_read(cx, &mut scratch))?;
            let read = scratch.filled();
            self.bulk = read.len() == SCRATCH;
            Poll::Ready(Ok((!read.is_empty()).then(|| Bytes::copy_from_slice(read))))
        })
    }
}

/// Writes all frames, in one system call where the socket takes it, and empties the list.
pub(crate) async fn write_frames(io: &mut Stream, frames: &mut Frames) -> io::Result<()> {
    let total: usize = frames.iter().map(Bytes::len).sum();
    match frames.as_slice() {
        [] => return Ok(()),
        [one] => io.write_all(one).await?,
        _ if total <= GATHER => {
            let gathered: Vec<u8> = frames.concat();
            io.write_all(&gathered).await?;
        }
        _ => write_gathered(io, frames).await?,
    }
    frames.clear();
    io.flush().await
}

async fn write_gathered(io: &mut Stream, frames: &mut Frames) -> io::Result<()> {
    frames.retain(|frame| !frame.is_empty());
    while !frames.is_empty() {
        let written = poll_fn(|cx| {
            let slices: SmallVec<[io::IoSlice<'_>; 16]> =
                frames.iter().take(16).map(|frame| io::IoSlice::new(frame)).collect();
            Pin::new(&mut *io).poll_write_vectored(cx, &slices)
        });
        let mut written = written.await?;
        if written == 0 {
            return Err(io::ErrorKind::WriteZero.into());
        }
        frames.retain(|frame| {
            let gone = written.min(frame.len());
            written -= gone;
            bytes::Buf::advance(frame, gone);
            !frame.is_empty()
        });
    }
    Ok(())
}

/// Writes what is in `data` and flushes; `data` keeps what has not gone out yet.
pub(crate) fn poll_write_all(
    io: &mut Stream,
    cx: &mut Context<'_>,
    data: &mut Bytes,
) -> Poll<io::Result<()>> {
    while !data.is_empty() {
        let written = ready!(Pin::new(&mut *io).poll_write(cx, data))?;
        if written == 0 {
            return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
        }
        bytes::Buf::advance(data, written);
    }
    Pin::new(io).poll_flush(cx)
}
