//! One blocking connection that does as little as a client can: what it costs is missing to the
//! server and the proxy, which share the machine with it.

use anyhow::{Context, Result, bail, ensure};
use bytes::BytesMut;
use socket2::{Domain, Socket, Type};
use std::{
    io::{ErrorKind, Read, Write},
    net::{IpAddr, SocketAddr, TcpStream},
};
use wire::{
    Capabilities, CommandCode, Greeting, LoginRequest, ReplyScanner, Scan,
    auth::{
        Secret,
        client::{AuthError, ClientAuth, Step},
    },
    greeting::GreetingError,
    packet::{self, Message},
};

/// Bytes that one read asks for.
const CHUNK: usize = 256 * 1024;
/// Bytes of one packet of an uploaded file: what the vendors' own clients send.
const FILE_CHUNK: usize = 16 * 1024;
/// Large enough for anything before the first command.
const LARGEST: usize = 1 << 20;
/// What the client says it takes.
const MAX_PACKET: u32 = 1 << 30;
/// utf8mb4_general_ci.
const COLLATION: u8 = 45;

/// Where to connect, and as whom.
#[derive(Clone, Debug)]
pub struct Account {
    /// The server's or the proxy's address.
    pub address: SocketAddr,
    /// User name.
    pub user: String,
    /// Password.
    pub password: String,
}

/// A connection that has logged in, without a schema.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    capabilities: Capabilities,
    /// Read, and not yet used: allocated by the first command.
    chunk: Vec<u8>,
}

/// How much a reply was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// Bytes received, headers included.
    pub received: u64,
    /// Bytes of a file sent, without headers.
    pub sent: u64,
}

impl Connection {
    /// Connects from `source`, if one is given, and logs in.
    ///
    /// # Errors
    /// No connection, or the login is refused: the error then has the server's number and text.
    pub fn open(account: &Account, source: Option<IpAddr>) -> Result<Self> {
        let mut stream = dial(account.address, source)
            .with_context(|| format!("no connection to {}", account.address))?;
        let mut buffer = BytesMut::new();
        let first = next(&mut stream, &mut buffer)?;
        let greeting = match Greeting::decode(&first.payload()) {
            Ok(greeting) => greeting,
            Err(GreetingError::Refused(error)) => {
                bail!("{}: {}", error.code, error.message_lossy())
            }
            Err(error) => return Err(error.into()),
        };
        let capabilities = wanted().intersection(greeting.capabilities);
        let secret = Secret::from(account.password.as_str());
        let plugin = greeting.plugin.clone();
        let mut auth =
            ClientAuth::new(secret, plugin, greeting.nonce, false).capabilities(capabilities);
        let request = LoginRequest {
            capabilities,
            max_packet: MAX_PACKET,
            collation: COLLATION,
            user: account.user.clone().into_bytes(),
            auth_response: auth.response(),
            schema: Vec::new(),
            plugin: Some(auth.plugin().clone()),
            attributes: wire::Attributes::default(),
            zstd_level: 0,
        };
        let mut payload = BytesMut::new();
        request.encode(&mut payload);
        send(&mut stream, first.next_seq, &payload)?;
        authenticate(&mut stream, &mut buffer, &mut auth)?;
        Ok(Self { stream, capabilities, chunk: Vec::new() })
    }

    /// COM_QUERY; reads the whole reply and forgets it. `file` answers a server that asks for one.
    ///
    /// # Errors
    /// The connection breaks, or the reply is an error.
    pub fn query(&mut self, sql: &[u8], file: Option<File>) -> Result<Size> {
        self.ask(CommandCode::QUERY, sql, file)
    }

    /// Another command that has a reply; reads the whole of it and forgets it.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn command(&mut self, code: CommandCode, payload: &[u8]) -> Result<Size> {
        self.ask(code, payload, None)
    }

    /// COM_STMT_PREPARE; the statement's id.
    ///
    /// # Errors
    /// As [`Connection::query`].
    pub fn prepare(&mut self, sql: &str) -> Result<u32> {
        self.command(CommandCode::STMT_PREPARE, sql.as_bytes())?;
        // the reply is in the buffer yet: a header, 0, the id
        let id = self.chunk.get(5..9).context("no id")?;
        Ok(u32::from_le_bytes(id.try_into()?))
    }

    /// COM_STMT_CLOSE, which has no reply.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn close_statement(&mut self, id: u32) -> Result<()> {
        send(&mut self.stream, 0, &[&[CommandCode::STMT_CLOSE.0], &id.to_le_bytes()[..]].concat())
    }

    fn ask(&mut self, code: CommandCode, payload: &[u8], file: Option<File>) -> Result<Size> {
        send(&mut self.stream, 0, &[&[code.0], payload].concat())?;
        let mut scanner = ReplyScanner::new(code, self.capabilities);
        let mut size = Size::default();
        self.chunk.resize(CHUNK, 0);
        loop {
            let length = self.stream.read(&mut self.chunk)?;
            ensure!(length > 0, "the connection was closed in a reply");
            size.received += length as u64;
            match scanner.scan(&self.chunk[..length])? {
                Scan::More => {}
                Scan::Upload { at } => {
                    let Some(file) = file else { bail!("a file is asked for") };
                    // the request's header stands in front of 0xFB and the name
                    let sequence = self.chunk.get(3).copied().filter(|_| at == length);
                    size.sent +=
                        self.upload(sequence.context("an odd request for a file")?, file)?;
                }
                Scan::End { end, .. } => {
                    if let Some(error) = end.error {
                        bail!("error {} for {}", error.code, head(payload));
                    }
                    return Ok(size);
                }
            }
        }
    }

    /// Gives back the memory that the last reply needed: for sessions that now sit idle.
    pub fn forget(&mut self) {
        self.chunk = Vec::new();
    }

    /// COM_QUIT, then waits until the other side has closed.
    ///
    /// # Errors
    /// The connection breaks, or a reply comes.
    pub fn quit(mut self) -> Result<()> {
        send(&mut self.stream, 0, &[CommandCode::QUIT.0])?;
        match self.stream.read(&mut [0; 16]) {
            Ok(0) => Ok(()),
            Ok(_) => bail!("a reply to COM_QUIT"),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The file's packets and the empty one behind them. Returns the bytes sent.
    fn upload(&mut self, request: u8, file: File) -> Result<u64> {
        let mut line = vec![b'x'; file.line - 1];
        line.push(b'\n');
        let body = line.repeat((FILE_CHUNK / file.line).max(1));
        let (mut sent, mut sequence) = (0, request.wrapping_add(1));
        let mut out = BytesMut::new();
        while sent < file.bytes {
            out.clear();
            sequence = packet::put_packet(&mut out, sequence, &body);
            self.stream.write_all(&out)?;
            sent += body.len() as u64;
        }
        send(&mut self.stream, sequence, b"")?;
        Ok(sent)
    }
}

/// A file of equal lines.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// How long it is at least.
    pub bytes: u64,
    /// Bytes of a line, its end included.
    pub line: usize,
}

/// What drivers of today ask for, and LOAD DATA LOCAL.
fn wanted() -> Capabilities {
    [
        Capabilities::LONG_PASSWORD,
        Capabilities::LONG_FLAG,
        Capabilities::LOCAL_FILES,
        Capabilities::PROTOCOL_41,
        Capabilities::TRANSACTIONS,
        Capabilities::SECURE_CONNECTION,
        Capabilities::MULTI_RESULTS,
        Capabilities::PS_MULTI_RESULTS,
        Capabilities::PLUGIN_AUTH,
        Capabilities::PLUGIN_AUTH_LENENC_CLIENT_DATA,
        Capabilities::DEPRECATE_EOF,
    ]
    .into_iter()
    .fold(Capabilities::EMPTY, Capabilities::union)
}

fn dial(address: SocketAddr, source: Option<IpAddr>) -> Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    if let Some(source) = source {
        socket.bind(&SocketAddr::new(source, 0).into())?;
    }
    socket.connect(&address.into())?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

fn authenticate(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    auth: &mut ClientAuth,
) -> Result<()> {
    loop {
        let message = next(stream, buffer)?;
        match auth.receive(&message.payload()) {
            Ok(Step::Send(answer)) => send(stream, message.next_seq, answer.expose())?,
            Ok(Step::Read) => {}
            Ok(Step::Done(_)) => return Ok(()),
            Err(AuthError::Refused(error)) => bail!("{}: {}", error.code, error.message_lossy()),
            Err(error) => return Err(error.into()),
        }
    }
}

fn next(stream: &mut TcpStream, buffer: &mut BytesMut) -> Result<Message> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(message) = packet::take_message(buffer, LARGEST)? {
            return Ok(message);
        }
        let length = stream.read(&mut chunk)?;
        ensure!(length > 0, "the connection was closed during the login");
        buffer.extend_from_slice(&chunk[..length]);
    }
}

fn send(stream: &mut TcpStream, sequence: u8, payload: &[u8]) -> Result<()> {
    let mut out = BytesMut::new();
    packet::put_packet(&mut out, sequence, payload);
    Ok(stream.write_all(&out)?)
}

/// The beginning of a statement, for messages.
fn head(sql: &[u8]) -> String {
    String::from_utf8_lossy(&sql[..sql.len().min(200)]).into_owned()
}
