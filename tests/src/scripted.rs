//! A server that says what a test wants it to say: for answers that no real one gives twice.
//!
//! Lets everybody in, answers each command in its turn, and notes what it was asked.

use crate::{Cluster, Vendor, cluster::Certificates};
use anyhow::{Context, Result};
use bytes::BytesMut;
use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
};
use wire::{
    Capabilities, CommandCode, ErrPacket, Greeting, OkPacket, Status,
    answer::Answer,
    auth::{NONCE_LEN, Plugin},
    column::Column,
    command::{Query, statement::statement_id},
    err::ErrorCode,
    login::LoginRequest,
    packet,
};

/// What it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// On which of its connections, counted from 1 in the order of their logins.
    pub connection: u32,
    /// The command.
    pub code: CommandCode,
    /// The statement's text; of what names a statement its id; else what follows the command byte.
    pub text: String,
}

/// What it says to that.
#[derive(Clone, Debug)]
pub enum Say {
    /// OK, or nothing where the command has no reply.
    Ok,
    /// OK with these status flags.
    Status(Status),
    /// ERR with the SQLSTATE HY000.
    Err(u16),
    /// One row with one value.
    Row(String),
    /// A statement with this id and so many parameters, and no columns.
    Prepared(u32, u16),
    /// These bytes, and then nothing more.
    Cut(Vec<u8>),
}

/// A server on a loopback port of its own, until the test ends.
#[derive(Debug)]
pub struct Scripted {
    /// `host:port` where it listens.
    pub address: String,
    shared: Arc<Shared>,
}

type Script = dyn Fn(&Heard) -> Say + Send + Sync;

struct Shared {
    script: Box<Script>,
    heard: Mutex<Vec<Heard>>,
    connections: AtomicU32,
    version: &'static str,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("heard", &self.heard).finish_non_exhaustive()
    }
}

/// What real servers of today and the tests' client have in common, but for session tracking.
const CAPABILITIES: [Capabilities; 9] = [
    Capabilities::LONG_PASSWORD,
    Capabilities::LONG_FLAG,
    Capabilities::PROTOCOL_41,
    Capabilities::TRANSACTIONS,
    Capabilities::SECURE_CONNECTION,
    Capabilities::MULTI_RESULTS,
    Capabilities::PS_MULTI_RESULTS,
    Capabilities::PLUGIN_AUTH,
    Capabilities::DEPRECATE_EOF,
];

impl Scripted {
    /// A server of `vendor` that answers by `script`. Called by several connections at once.
    pub fn start(
        vendor: Vendor,
        script: impl Fn(&Heard) -> Say + Send + Sync + 'static,
    ) -> Result<Self> {
        let version = match vendor {
            Vendor::MariaDb => "5.5.5-10.11.19-MariaDB-scripted",
            Vendor::MySql => "8.4.9-scripted",
        };
        Self::start_as(version, script)
    }

    /// [`Scripted::start`] that greets as this version.
    pub fn start_as(
        version: &'static str,
        script: impl Fn(&Heard) -> Say + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?.to_string();
        let shared = Arc::new(Shared {
            script: Box::new(script),
            heard: Mutex::default(),
            connections: AtomicU32::new(0),
            version,
        });
        let server = Arc::clone(&shared);
        // It ends with the test's process.
        thread::spawn(move || {
            for io in listener.incoming().flatten() {
                let server = Arc::clone(&server);
                thread::spawn(move || serve(&server, io));
            }
        });
        Ok(Self { address, shared })
    }

    /// What it was asked since the last call.
    pub fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut *lock(&self.shared.heard))
    }

    /// The texts of what it was asked since the last call; pings and the like left out.
    pub fn texts(&self) -> Vec<String> {
        let told = [CommandCode::PING, CommandCode::QUIT];
        let heard = self.take().into_iter().filter(|heard| !told.contains(&heard.code));
        heard.map(|heard| heard.text).collect()
    }

    /// These servers as a cluster: the first is its primary, the others are its replicas.
    pub fn cluster(vendor: Vendor, servers: &[&Self]) -> Cluster {
        let nothing = std::path::PathBuf::default;
        Cluster {
            vendor,
            version: String::new(),
            addresses: servers.iter().map(|server| server.address.clone()).collect(),
            sockets: Vec::new(),
            certificates: Certificates { ca: nothing(), certificate: nothing(), key: nothing() },
            users: vec![("admin".into(), "adminpw".into())],
        }
    }
}

/// One connection, to its end. A peer that goes is no mistake here.
fn serve(server: &Shared, mut io: TcpStream) {
    let _ = converse(server, &mut io);
}

fn converse(server: &Shared, io: &mut TcpStream) -> Result<()> {
    let connection = server.connections.fetch_add(1, Relaxed) + 1;
    let greeting = Greeting {
        server_version: server.version.into(),
        thread_id: connection,
        nonce: [b'n'; NONCE_LEN],
        capabilities: CAPABILITIES.into_iter().fold(Capabilities::EMPTY, |all, one| all | one),
        collation: 45,
        status: Status::AUTOCOMMIT,
        plugin: Plugin::NativePassword,
    };
    let (mut read, mut out) = (BytesMut::new(), BytesMut::new());
    greeting.encode(&mut out);
    io.write_all(&packet::Message::new(0, &out).framed)?;
    let login = message(io, &mut read)?;
    let capabilities = LoginRequest::decode(&login.payload())?.capabilities;
    let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
    io.write_all(&Answer::new(capabilities, login.next_seq).ok(&ok).finish())?;
    loop {
        let whole = message(io, &mut read)?.payload();
        let code = CommandCode(*whole.first().context("an empty command")?);
        if code == CommandCode::QUIT {
            return Ok(());
        }
        let text = match (code, statement_id(&whole)) {
            (_, Some(id)) => format!("{} {id}", code.name()),
            (CommandCode::QUERY, _) => {
                String::from_utf8_lossy(Query::decode(&whole, capabilities)?.sql).into_owned()
            }
            _ => String::from_utf8_lossy(&whole[1..]).into_owned(),
        };
        let heard = Heard { connection, code, text };
        lock(&server.heard).push(heard.clone());
        let (said, goes_on) = spoken((server.script)(&heard), code, capabilities);
        io.write_all(&said)?;
        if !goes_on {
            return Ok(());
        }
    }
}

/// The bytes of it, and whether the connection stays open.
fn spoken(say: Say, code: CommandCode, capabilities: Capabilities) -> (Vec<u8>, bool) {
    let answer = Answer::new(capabilities, 1);
    let status = Status::AUTOCOMMIT;
    let answer = match say {
        Say::Ok if !code.has_reply() => return (Vec::new(), true),
        Say::Ok => answer.ok(&OkPacket { status, ..OkPacket::default() }),
        Say::Status(status) => answer.ok(&OkPacket { status, ..OkPacket::default() }),
        Say::Err(code) => {
            let code = ErrorCode { code, sqlstate: *b"HY000" };
            answer.err(&ErrPacket::new(code, "as it is written"))
        }
        Say::Row(value) => answer.text_rows(&[Column::text("v")], [[Some(value)]], status),
        Say::Prepared(id, parameters) => {
            let mut head = vec![0];
            head.extend(id.to_le_bytes());
            head.extend([0, 0]);
            head.extend(parameters.to_le_bytes());
            head.extend([0; 3]);
            let definition = (0..parameters).map(|_| {
                let mut column = BytesMut::new();
                Column::text("?").encode(&mut column, capabilities);
                column
            });
            definition.fold(answer.payload(&head), |answer, column| answer.payload(&column))
        }
        Say::Cut(bytes) => return (bytes, false),
    };
    (answer.finish().to_vec(), true)
}

fn message(io: &mut TcpStream, read: &mut BytesMut) -> Result<packet::Message> {
    loop {
        if let Some(message) = packet::take_message(read, 1 << 24)? {
            return Ok(message);
        }
        let mut chunk = [0; 64 * 1024];
        let taken = io.read(&mut chunk)?;
        anyhow::ensure!(taken > 0, "the other side has closed");
        read.extend_from_slice(&chunk[..taken]);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
