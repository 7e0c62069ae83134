//! The bytes' way: TCP, unix socket, TLS.

use crate::wait;
use anyhow::{Context, Result};
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    sync::Arc,
};

/// A connection's two directions.
#[derive(Debug)]
pub(super) enum Channel {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Channel {
    /// Connects to `host:port` or `unix:/path`. Nothing is awaited longer than [`wait::LIMIT`].
    pub(super) fn connect(address: &str) -> Result<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(wait::LIMIT))?;
            return Ok(Self::Unix(stream));
        }
        let stream =
            TcpStream::connect(address).with_context(|| format!("no connection to {address}"))?;
        stream.set_read_timeout(Some(wait::LIMIT))?;
        stream.set_write_timeout(Some(wait::LIMIT))?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

    /// Goes on with TLS.
    pub(super) fn secure(self, config: ClientConfig, name: &str) -> Result<Self> {
        let Self::Tcp(mut stream) = self else { anyhow::bail!("TLS is for TCP") };
        let name = ServerName::try_from(name.to_owned())?;
        let mut session = ClientConnection::new(Arc::new(config), name)?;
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        Ok(Self::Tls(Box::new(StreamOwned::new(session, stream))))
    }

    /// Whether nobody can listen in.
    pub(super) fn is_secure(&self) -> bool {
        !matches!(self, Self::Tcp(_))
    }

    /// Says that nothing more will be sent.
    pub(super) fn close_sending(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(stream) => stream.sock.shutdown(Shutdown::Write),
        }
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
