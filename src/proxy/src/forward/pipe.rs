//! One direction of a forwarded session.

use crate::{
    buffer::{Passed, poll_chunk, poll_pass},
    stream::Stream,
};
use bytes::{Buf, Bytes};
use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};
use tokio::io::AsyncWrite;
use wire::translate::Translate;

/// What was read and has not been written yet, and how far the direction has come.
#[derive(Debug, Default)]
pub(super) struct Pipe {
    waiting: Bytes,
    state: State,
    /// Something was written that has not been flushed.
    flush: bool,
    /// Bytes written so far.
    pub(super) moved: u64,
    /// What is read has to be changed.
    pub(super) translate: Option<Box<Translate>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// The source has closed: what waits goes out, then the sink is closed in its direction.
    Ending,
    Over,
    /// The sink takes nothing more. What the source says is of no use to anybody.
    Broken,
}

/// How a direction stands.
#[derive(Debug)]
pub(super) enum Flow {
    Waits,
    Over,
    Broken(io::Error),
}

impl Pipe {
    /// A direction in which `first` goes before anything that is read.
    pub(super) fn beginning_with(first: Bytes, translate: Option<Box<Translate>>) -> Self {
        Self { waiting: first, translate, ..Self::default() }
    }

    /// Bytes that were read and not written.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Whether all that the source had to say has been read.
    pub(super) fn source_is_over(&self) -> bool {
        matches!(self.state, State::Ending | State::Over)
    }

    /// Moves bytes until one of the sides has to be waited for. `see` sees what is read, as it came
    /// and before it goes on.
    pub(super) fn poll(
        &mut self,
        from: &mut Stream,
        to: &mut Stream,
        cx: &mut Context<'_>,
        see: impl FnMut(&[u8]),
    ) -> Flow {
        match self.poll_move(from, to, cx, see) {
            Poll::Pending => Flow::Waits,
            Poll::Ready(Ok(())) => Flow::Over,
            Poll::Ready(Err(error)) => {
                self.state = State::Broken;
                Flow::Broken(error)
            }
        }
    }

    fn poll_move(
        &mut self,
        from: &mut Stream,
        to: &mut Stream,
        cx: &mut Context<'_>,
        mut see: impl FnMut(&[u8]),
    ) -> Poll<io::Result<()>> {
        loop {
            while !self.waiting.is_empty() {
                let Poll::Ready(written) = Pin::new(&mut *to).poll_write(cx, &self.waiting) else {
                    return Poll::Pending;
                };
                match written? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => self.wrote(written),
                }
            }
            match self.state {
                State::Over => return Poll::Ready(Ok(())),
                State::Broken => return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into())),
                State::Ending => {
                    std::task::ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Over;
                }
                State::Open => match self.poll_read(from, to, cx, &mut see) {
                    Poll::Ready(Passed::End) => self.end(),
                    Poll::Ready(Passed::Some { written, rest }) => {
                        if written > 0 {
                            self.wrote(written);
                        }
                        self.waiting = rest;
                    }
                    Poll::Ready(Passed::Unread(error)) => {
                        // As if it had closed: what was read before has gone out.
                        tracing::debug!(%error, "a forwarded connection broke");
                        self.end();
                    }
                    Poll::Ready(Passed::Unwritten(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        if self.flush {
                            std::task::ready!(Pin::new(&mut *to).poll_flush(cx))?;
                            self.flush = false;
                        }
                        return Poll::Pending;
                    }
                },
            }
        }
    }

    fn poll_read(
        &mut self,
        from: &mut Stream,
        to: &mut Stream,
        cx: &mut Context<'_>,
        see: &mut impl FnMut(&[u8]),
    ) -> Poll<Passed> {
        let Some(translate) = &mut self.translate else { return poll_pass(from, to, cx, see) };
        let passed = match std::task::ready!(poll_chunk(from, cx)) {
            Ok(Some(chunk)) => {
                see(&chunk);
                Passed::Some { written: 0, rest: translate.client(&chunk).freeze() }
            }
            Ok(None) => Passed::End,
            Err(error) => Passed::Unread(error),
        };
        self.translate.take_if(|translate| translate.is_done());
        Poll::Ready(passed)
    }

    /// The source says nothing more.
    fn end(&mut self) {
        if let Some(translate) = &mut self.translate {
            self.waiting = translate.rest().freeze();
        }
        self.state = State::Ending;
    }

    fn wrote(&mut self, bytes: usize) {
        self.waiting.advance(bytes.min(self.waiting.len()));
        self.moved += bytes as u64;
        self.flush = true;
    }
}
