//! Opening a connection to a server, up to the end of its login.

mod error;

pub(crate) use error::ConnectError;

use super::{
    Backend, Key,
    lasting::Lasting,
    link::{Link, read_message},
    schema::Schema,
};
use crate::{
    config::{self, Account, Address, ServerTlsMode},
    listen::tune,
    stream::Stream,
    tls::{self, Check, TlsError, Watched},
};
use bytes::BytesMut;
use rustls::pki_types::ServerName;
use std::{io, path::PathBuf, sync::Arc, time::Instant};
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, UnixStream},
    sync::OwnedSemaphorePermit,
};
use tokio_rustls::{TlsConnector, TlsStream};
use wire::{
    attributes::Attributes,
    auth::{ClientAuth, client},
    capability::Capabilities,
    compress::{End, Method},
    greeting::Greeting,
    login::LoginRequest,
    packet::put_packet,
    proxy_protocol::{self, Source},
};

/// Where a server is and how it is spoken to.
pub(crate) struct Endpoint {
    place: Place,
    tcp: config::Tcp,
    tls: Option<Tls>,
    pub(super) compression: Option<Method>,
    /// Each connection begins with a header that says whose it is.
    pub(super) sends_header: bool,
}

enum Place {
    Tcp(String),
    Unix(PathBuf),
}

struct Tls {
    connector: Watched<TlsConnector>,
    name: ServerName<'static>,
    /// Without TLS there is no connection.
    required: bool,
}

/// Who made the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vendor {
    MariaDb,
    MySql,
}

/// A greeting or an answer to a login is short.
pub(super) const LIMIT: usize = 1 << 20;

/// What every login of ours says besides the client's own.
const LOGIN: Capabilities = Capabilities::PROTOCOL_41
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA);

impl Endpoint {
    pub(crate) fn new(server: &config::Server, tcp: &config::Tcp) -> Result<Self, TlsError> {
        let tcp = tcp.clone();
        let config::Server { address, tls, .. } = server;
        let (compression, sends_header) = (server.compression_method(), server.send_proxy_protocol);
        let place = match address {
            Address::Tcp(address) => Place::Tcp(address.clone()),
            Address::Unix(path) => Place::Unix(path.clone()),
        };
        let check = match tls.mode {
            ServerTlsMode::Disable => {
                return Ok(Self { place, tcp, tls: None, compression, sends_header });
            }
            ServerTlsMode::Prefer | ServerTlsMode::Require => Check::None,
            ServerTlsMode::VerifyCa => Check::Authority,
            ServerTlsMode::VerifyIdentity => Check::Identity,
        };
        let (files, made) = ([&tls.ca, &tls.certificate, &tls.key], tls.clone());
        let files = files.into_iter().flatten().map(PathBuf::as_path);
        let connector = Watched::new(server.name.clone(), files, move || {
            let pair = made.certificate.as_deref().zip(made.key.as_deref());
            tls::connector(check, made.ca.as_deref(), pair)
        })?;
        let host = address.host().unwrap_or("localhost").to_owned();
        let name = ServerName::try_from(host)
            .map_err(|_| TlsError::ServerAuthority("the address has no name to check".into()))?;
        let required = tls.mode != ServerTlsMode::Prefer;
        let tls = Some(Tls { connector, name, required });
        Ok(Self { place, tcp, tls, compression, sends_header })
    }

    /// Reads certificates again, if they have changed or that is asked for.
    pub(super) fn renew(&self, asked: bool) {
        if let Some(tls) = &self.tls {
            tls.connector.renew(asked);
        }
    }

    /// Its host and port, or its path, as configured.
    pub(super) fn place(&self) -> (String, Option<u16>) {
        match &self.place {
            Place::Unix(path) => (path.display().to_string(), None),
            Place::Tcp(address) => match address.rsplit_once(':') {
                Some((host, port)) => (host.trim_matches(['[', ']']).to_owned(), port.parse().ok()),
                None => (address.clone(), None),
            },
        }
    }

    /// Connects for whoever `source` says.
    pub(super) async fn connect(&self, source: Source) -> io::Result<Stream> {
        let mut io: Stream = match &self.place {
            Place::Tcp(address) => {
                let io = TcpStream::connect(address.as_str()).await?;
                tune(&io, &self.tcp)?;
                io.into()
            }
            Place::Unix(path) => UnixStream::connect(path).await?.into(),
        };
        if self.sends_header {
            let mut header = BytesMut::new();
            proxy_protocol::encode(source, &mut header);
            io.write_all(&header).await?;
        }
        Ok(io)
    }

    /// Connects, reads the greeting and goes away again.
    pub(crate) async fn greeting(&self) -> Result<Greeting, ConnectError> {
        let mut io = self.connect(Source::Own).await?;
        let greeting = read_message(&mut io, &mut BytesMut::new(), LIMIT).await?;
        Ok(Greeting::decode(&greeting.payload())?)
    }
}

impl Backend {
    /// Finds out what the server greets with.
    pub(crate) async fn ask_greeting(&self) -> Result<(), ConnectError> {
        let timeout = self.connect_timeout();
        let greeting = tokio::time::timeout(timeout, self.endpoint.greeting());
        let greeting = greeting.await.unwrap_or(Err(ConnectError::Timeout(timeout)));
        self.tried(&greeting);
        let greeting = greeting?;
        self.note_greeting(&greeting);
        Ok(())
    }
}

/// Connects and logs in, without a schema.
pub(super) async fn open(
    backend: &Arc<Backend>,
    key: Key,
    account: &Account,
    source: Source,
    attributes: Attributes,
    room: OwnedSemaphorePermit,
) -> Result<Link, ConnectError> {
    let leash = backend.leashes.tie();
    let mut io = backend.endpoint.connect(source).await?;
    let mut read = BytesMut::new();
    let message = read_message(&mut io, &mut read, LIMIT).await?;
    let greeting = Greeting::decode(&message.payload())?;
    backend.note_greeting(&greeting);
    let lacking = key.capabilities.intersection(Capabilities::WIRE_FORMAT);
    let lacking = lacking.difference(greeting.capabilities);
    if !lacking.is_empty() {
        return Err(ConnectError::Capabilities(lacking));
    }
    let mut login = LoginRequest {
        capabilities: key.capabilities.intersection(greeting.capabilities).union(LOGIN),
        max_packet: 1 << 30,
        // The server's default for one that the handshake has no room for.
        collation: u8::try_from(key.collation).unwrap_or(0),
        user: account.user.as_bytes().to_vec(),
        attributes: attributes.clone(),
        ..LoginRequest::default()
    };
    let offered = |method: &Method| greeting.capabilities.contains(method.capability());
    let compression = backend.endpoint.compression.filter(offered);
    if let Some(method) = compression {
        login.capabilities = login.capabilities.union(method.capability());
        login.zstd_level = method.level();
    }
    let mut seq = message.next_seq;
    (io, seq) = secured(backend, io, &greeting, &mut login, seq).await?;
    let mut auth = ClientAuth::new(
        (*account.password).clone(),
        greeting.plugin.clone(),
        greeting.nonce,
        io.channel(),
    )
    .capabilities(login.capabilities);
    login.auth_response = auth.response();
    login.plugin = Some(auth.plugin().clone());
    let mut payload = BytesMut::new();
    login.encode(&mut payload);
    send(&mut io, seq, &payload).await?;
    authenticate(&mut io, &mut read, &mut auth).await?;
    if let Some(method) = compression {
        io.compress(method, End::Client(login.capabilities), read);
    }
    let lasting = Lasting::of(key.capabilities);
    let vendor = if greeting.is_mariadb() { Vendor::MariaDb } else { Vendor::MySql };
    Ok(Link {
        io,
        backend: backend.clone(),
        key,
        account: account.clone(),
        source,
        vendor,
        version: sql::Server::from_version(&greeting.version()),
        nonce: greeting.nonce,
        plugin: greeting.plugin,
        capabilities: login.capabilities,
        attributes,
        thread_id: greeting.thread_id,
        seat: Arc::default(),
        schema: Schema::None,
        opened: Instant::now(),
        was_reset: false,
        is_named: false,
        home: None,
        lasting,
        leash,
        _room: room,
    })
}

/// Takes a login that has been sent to its end.
pub(super) async fn authenticate(
    io: &mut Stream,
    read: &mut BytesMut,
    auth: &mut ClientAuth,
) -> Result<(), ConnectError> {
    loop {
        let message = read_message(io, read, LIMIT).await?;
        match auth.receive(&message.payload())? {
            client::Step::Send(payload) => {
                send(io, message.next_seq, payload.expose()).await?;
            }
            client::Step::Read => {}
            client::Step::Done(_) => return Ok(()),
        }
    }
}

/// The stream under TLS, if both sides want it, and the sequence id that comes next. A unix socket
/// needs none.
pub(super) async fn secured(
    backend: &Backend,
    mut io: Stream,
    greeting: &Greeting,
    login: &mut LoginRequest,
    seq: u8,
) -> Result<(Stream, u8), ConnectError> {
    let Some(tls) = &backend.endpoint.tls else { return Ok((io, seq)) };
    if io.is_secure() {
        return Ok((io, seq));
    }
    if !greeting.capabilities.contains(Capabilities::SSL) {
        return if tls.required { Err(ConnectError::NoTls) } else { Ok((io, seq)) };
    }
    login.capabilities = login.capabilities.union(Capabilities::SSL);
    let mut payload = BytesMut::new();
    login.ssl_request().encode(&mut payload);
    let seq = send(&mut io, seq, &payload).await?;
    let connector = tls.connector.get();
    let io = connector.connect(tls.name.clone(), io).await.map_err(handshake_failed)?;
    Ok((TlsStream::from(io).into(), seq))
}

/// What rustls finds wrong will be wrong again; that the connection broke may pass.
fn handshake_failed(error: io::Error) -> ConnectError {
    match error.kind() {
        io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::Other => {
            ConnectError::Tls(error)
        }
        _ => ConnectError::Io(error),
    }
}

pub(super) async fn send(io: &mut Stream, seq: u8, payload: &[u8]) -> io::Result<u8> {
    let mut packet = BytesMut::with_capacity(payload.len() + 8);
    let next = put_packet(&mut packet, seq, payload);
    io.write_all(&packet).await?;
    io.flush().await?;
    Ok(next)
}
