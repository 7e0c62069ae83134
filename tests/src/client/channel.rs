//! The bytes' way: TCP, unix socket, TLS, compression.

use crate::wait;
use anyhow::{Context, Result};
use bytes::BytesMut;
use rustls::{ClientConfig, ClientConnection, StreamOwned, pki_types::ServerName};
use socket2::{Domain, Socket, Type};
use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream},
    os::unix::net::UnixStream,
    sync::Arc,
    time::Duration,
};
use wire::{
    Capabilities, auth,
    compress::{Codec, Contexts, End, Method},
};

/// A connection's two directions.
#[derive(Debug)]
pub(super) enum Channel {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
    Compressed(Box<Compressed>),
}

/// Compressed frames over another channel.
pub(super) struct Compressed {
    below: Channel,
    codec: Codec,
    contexts: Contexts,
    frames: BytesMut,
    plain: Vec<u8>,
}

impl Channel {
    /// Connects to `host:port` or `unix:/path`. Nothing is awaited longer than [`wait::LIMIT`].
    pub(super) fn connect(address: &str) -> Result<Self> {
        Self::connect_from(None, address)
    }

    /// Like [`Channel::connect`]; a TCP connection comes from `source`.
    pub(super) fn connect_from(source: Option<Ipv4Addr>, address: &str) -> Result<Self> {
        if let Some(path) = address.strip_prefix("unix:") {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(wait::LIMIT))?;
            return Ok(Self::Unix(stream));
        }
        let stream = match source {
            None => TcpStream::connect(address),
            Some(source) => bound(source, address),
        };
        let stream = stream.with_context(|| format!("no connection to {address}"))?;
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

    /// Goes on with compression; `frames` have been read already.
    pub(super) fn compress(
        self,
        method: Method,
        capabilities: Capabilities,
        frames: BytesMut,
    ) -> Self {
        Self::Compressed(Box::new(Compressed {
            below: self,
            codec: Codec::new(method, End::Client(capabilities)),
            contexts: Contexts::new(),
            frames,
            plain: Vec::new(),
        }))
    }

    /// What it lets others see.
    pub(super) fn kind(&self) -> auth::Channel {
        match self {
            Self::Compressed(over) => over.below.kind(),
            Self::Tcp(_) => auth::Channel::Open,
            Self::Unix(_) => auth::Channel::Socket,
            Self::Tls(_) => auth::Channel::Tls,
        }
    }

    /// The other side's certificate, in DER.
    pub(super) fn certificate(&self) -> Option<Vec<u8>> {
        match self {
            Self::Tls(stream) => Some(stream.conn.peer_certificates()?.first()?.to_vec()),
            Self::Compressed(over) => over.below.certificate(),
            Self::Tcp(_) | Self::Unix(_) => None,
        }
    }

    /// Writes what no compression has touched.
    pub(super) fn write_below(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Compressed(over) => over.below.write_all(bytes),
            other => other.write_all(bytes),
        }
    }

    /// Reads wait no longer than this.
    pub(super) fn read_timeout(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(limit)),
            Self::Unix(stream) => stream.set_read_timeout(Some(limit)),
            Self::Tls(stream) => stream.sock.set_read_timeout(Some(limit)),
            Self::Compressed(over) => over.below.read_timeout(limit),
        }
    }

    /// Reads what no compression has touched.
    pub(super) fn read_below(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Compressed(over) => over.below.read(buffer),
            other => other.read(buffer),
        }
    }

    /// Says that nothing more will be sent.
    pub(super) fn close_sending(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tls(stream) => stream.sock.shutdown(Shutdown::Write),
            Self::Compressed(over) => over.below.close_sending(),
        }
    }
}

impl Read for Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
            Self::Compressed(over) => over.read(buffer),
        }
    }
}

impl Write for Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
            Self::Compressed(over) => over.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
            Self::Compressed(over) => over.below.flush(),
        }
    }
}

impl Compressed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.plain.is_empty() {
            match self
                .codec
                .decode(&mut self.contexts, &mut self.frames)
                .map_err(io::Error::other)?
            {
                Some(plain) => self.plain = plain,
                None => {
                    let mut chunk = vec![0; 1 << 16];
                    let length = self.below.read(&mut chunk)?;
                    if length == 0 {
                        return Ok(0);
                    }
                    self.frames.extend_from_slice(&chunk[..length]);
                }
            }
        }
        let length = buffer.len().min(self.plain.len());
        buffer[..length].copy_from_slice(&self.plain[..length]);
        self.plain.drain(..length);
        Ok(length)
    }

    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        let mut frames = Vec::new();
        self.codec.encode(&mut self.contexts, plain, &mut frames).map_err(io::Error::other)?;
        self.below.write_all(&frames)?;
        Ok(plain.len())
    }
}

fn bound(source: Ipv4Addr, address: &str) -> io::Result<TcpStream> {
    let target: SocketAddr = address.parse().map_err(io::Error::other)?;
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::from((source, 0)).into())?;
    socket.connect(&target.into())?;
    Ok(socket.into())
}

/// The state of its direction is of no use to a person.
impl std::fmt::Debug for Compressed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressed").field("below", &self.below).finish_non_exhaustive()
    }
}
