//! Leaving the chain: a backend for the session alone, and the command that has not been sent.

use bytes::Bytes;
use std::{any::Any, fmt, io};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};

/// A backend, ready for the triggering command, with nothing sent and nothing unread.
///
/// Forwarding consumes it: that the trigger goes out once, and that the session never comes back
/// to the chain, are properties of the type.
#[must_use = "dropping it closes the backend connection"]
pub struct Handover {
    backend: Box<dyn Io>,
    first: Bytes,
}

/// A byte stream in both directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin + Any {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + Any> Io for T {}

impl Handover {
    /// Hands `backend` over with `first`, the triggering command's packets, not yet sent.
    pub fn new(backend: impl Io, first: impl Into<Bytes>) -> Self {
        Self { backend: Box::new(backend), first: first.into() }
    }

    /// The backend and the triggering command's packets, for who knows a better way to forward a
    /// stream of type `T`; itself again if the backend is another.
    pub fn into_parts<T: Io>(self) -> Result<(Box<T>, Bytes), Self> {
        let Self { backend, first } = self;
        if !(&*backend as &dyn Any).is::<T>() {
            return Err(Self { backend, first });
        }
        let backend: Box<dyn Any> = backend;
        Ok((backend.downcast().expect("it is a T, as has been asked"), first))
    }

    /// Sends the triggering command, then what the client has sent since, and forwards bytes until
    /// both sides are done. Returns bytes sent up and down.
    pub async fn forward(
        mut self,
        client: &mut (impl AsyncRead + AsyncWrite + Unpin),
        read_ahead: &[u8],
    ) -> io::Result<(u64, u64)> {
        self.backend.write_all(&self.first).await?;
        self.backend.write_all(read_ahead).await?;
        self.backend.flush().await?;
        let (up, down) = copy_bidirectional(client, &mut self.backend).await?;
        Ok((up + (self.first.len() + read_ahead.len()) as u64, down))
    }
}

impl fmt::Debug for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Handover({} bytes first)", self.first.len())
    }
}
