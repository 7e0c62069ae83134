//! Reading and writing without keeping memory where nothing happens.
//!
//! Whatever is read goes through a buffer of the worker thread, which all its sessions share: an
//! idle session or connection holds none. What little arrives is copied out of it; what fills much
//! of it takes it along, and another one takes its place until it comes back.

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

/// Bytes of a buffer: the most that is read at once. Servers write results in pieces of 16 KiB, and
/// the allocator takes memory in far larger steps for blocks over 64 KiB.
pub(crate) const BUFFER: usize = 60 * 1024;
/// From so many bytes on, a buffer is given away instead of copied.
const GIVE: usize = 4 * 1024;
/// Buffers a worker thread keeps for its next reads.
const SPARE: usize = 2;
/// Frames below this many bytes are gathered by copying, larger ones by their addresses.
const GATHER: usize = 16 * 1024;

thread_local! {
    static BUFFERS: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// Frames on their way out, in order.
pub(crate) type Frames = SmallVec<[Bytes; 4]>;

/// A buffer of the worker thread; goes to the spare ones of whatever thread drops it.
struct Buffer {
    bytes: Box<[u8]>,
    filled: usize,
}

impl Buffer {
    fn take() -> Self {
        let spare = BUFFERS.with_borrow_mut(Vec::pop);
        Self { bytes: spare.unwrap_or_else(|| vec![0; BUFFER].into()), filled: 0 }
    }

    /// Reads once; 0 is the end of the stream.
    fn poll_read(&mut self, io: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut into = ReadBuf::new(&mut self.bytes);
        ready!(Pin::new(io).poll_read(cx, &mut into))?;
        self.filled = into.filled().len();
        Poll::Ready(Ok(self.filled))
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that ends has no spare buffers any more.
        let _ = BUFFERS.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < SPARE {
                spare.push(bytes);
            }
        });
    }
}

/// Reads once and appends to `into`; 0 is the end of the stream. Large room in `into` is filled in
/// place.
pub(crate) fn poll_append(
    io: &mut Stream,
    cx: &mut Context<'_>,
    into: &mut BytesMut,
) -> Poll<io::Result<usize>> {
    if into.capacity() - into.len() >= GIVE {
        return poll_read_buf(Pin::new(io), cx, into);
    }
    let mut buffer = Buffer::take();
    let read = ready!(buffer.poll_read(io, cx))?;
    into.extend_from_slice(buffer.as_ref());
    Poll::Ready(Ok(read))
}

/// [`poll_append`] as a future. Cancelling it loses nothing.
pub(crate) async fn append(io: &mut Stream, into: &mut BytesMut) -> io::Result<usize> {
    poll_fn(|cx| poll_append(io, cx, into)).await
}

/// What has arrived, in one chunk; `None` at the end of the stream.
pub(crate) fn poll_chunk(io: &mut Stream, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
    let mut buffer = Buffer::take();
    Poll::Ready(Ok(match ready!(buffer.poll_read(io, cx))? {
        0 => None,
        read if read < GIVE => Some(Bytes::copy_from_slice(buffer.as_ref())),
        _ => Some(Bytes::from_owner(buffer)),
    }))
}

/// What became of one read.
pub(crate) enum Passed {
    /// Something was read. So much has gone out, the rest has not.
    Some {
        written: usize,
        rest: Bytes,
    },
    /// The end of the stream.
    End,
    Unread(io::Error),
    Unwritten(io::Error),
}

/// Reads once and writes what was read at once, as far as it is taken: nothing is kept of what goes
/// straight through. `see` sees it before it is written.
pub(crate) fn poll_pass(
    from: &mut Stream,
    to: &mut Stream,
    cx: &mut Context<'_>,
    see: impl FnOnce(&[u8]),
) -> Poll<Passed> {
    let mut buffer = Buffer::take();
    match ready!(buffer.poll_read(from, cx)) {
        Ok(0) => return Poll::Ready(Passed::End),
        Ok(_) => see(buffer.as_ref()),
        Err(error) => return Poll::Ready(Passed::Unread(error)),
    }
    let written = match Pin::new(to).poll_write(cx, buffer.as_ref()) {
        Poll::Ready(Ok(0)) => {
            return Poll::Ready(Passed::Unwritten(io::ErrorKind::WriteZero.into()));
        }
        Poll::Ready(Ok(written)) => written,
        Poll::Ready(Err(error)) => return Poll::Ready(Passed::Unwritten(error)),
        Poll::Pending => 0,
    };
    let rest = match buffer.filled - written {
        0 => Bytes::new(),
        few if few < GIVE => Bytes::copy_from_slice(&buffer.as_ref()[written..]),
        _ => Bytes::from_owner(buffer).slice(written..),
    };
    Poll::Ready(Passed::Some { written, rest })
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
