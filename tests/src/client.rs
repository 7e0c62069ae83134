//! A client that keeps every byte it received.
//!
//! Blocking, one command at a time unless the test says otherwise, and never in the way: what a
//! driver would hide (headers, sequence ids, flags) is what the tests compare.

mod channel;
mod handshake;
mod login;
mod reply;
mod statement;

pub use handshake::throw;
pub use login::Login;
pub use reply::Reply;
pub use statement::Statement;

use anyhow::{Result, bail};
use bytes::BytesMut;
use channel::Channel;
use std::{
    io::{ErrorKind, Read, Write},
    net::{Ipv4Addr, TcpStream},
    time::Duration,
};
use wire::{Capabilities, CommandCode, Greeting, ReplyScanner, Scan, packet};

/// Bytes that one read asks for.
const CHUNK: usize = 256 * 1024;

/// A connection that has logged in.
#[derive(Debug)]
pub struct Client {
    channel: Channel,
    /// What has been read and belongs to nothing yet.
    buffer: BytesMut,
    /// The server's first packet.
    pub greeting: Greeting,
    /// What both sides agreed on.
    pub capabilities: Capabilities,
    /// The text of the OK packet that let the client in.
    pub login_info: Vec<u8>,
}

impl Client {
    /// Connects to `host:port` or `unix:/path` and logs in.
    ///
    /// # Errors
    /// No connection, or an ERR packet: the error's text is then `ERR code (SQLSTATE): message`.
    pub fn connect(address: &str, login: &Login) -> Result<Self> {
        handshake::connect(address, login, &mut Vec::new())
    }

    /// A TCP connection from this loopback address, without a login.
    pub fn connect_raw(address: &str, source: Ipv4Addr) -> Result<TcpStream> {
        match Channel::connect_from(Some(source), address)? {
            Channel::Tcp(stream) => Ok(stream),
            _ => bail!("{address} is not TCP's"),
        }
    }

    /// Like [`Client::connect`]; notes the first byte of each packet that came after the greeting.
    pub fn connect_seeing(address: &str, login: &Login, seen: &mut Vec<u8>) -> Result<Self> {
        handshake::connect(address, login, seen)
    }

    /// The certificate that the other side has shown, in DER.
    pub fn certificate(&self) -> Option<Vec<u8>> {
        self.channel.certificate()
    }

    /// A login as it goes over the wire, for a nonce that nobody has sent.
    pub fn login_bytes(login: &Login) -> Vec<u8> {
        handshake::login_bytes(login)
    }

    /// A command's packets.
    pub fn framed(&self, code: CommandCode, body: &[u8]) -> Vec<u8> {
        let mut out = BytesMut::new();
        packet::put_packet(&mut out, 0, &[&[code.0], body].concat());
        out.to_vec()
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.channel.write_all(bytes)?;
        Ok(self.channel.flush()?)
    }

    /// Sends bytes as they are, below compression.
    pub fn send_below(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.channel.write_below(bytes)?)
    }

    /// Sends `bytes` below compression and nothing more; gives all that still comes, up to the end.
    pub fn last_words(mut self, bytes: &[u8]) -> Result<Vec<u8>> {
        handshake::say_and_listen(&mut self.channel, bytes)
    }

    /// Waits no longer than this for what must come.
    pub fn patience(&self, limit: Duration) -> Result<()> {
        Ok(self.channel.read_timeout(limit)?)
    }

    /// Closes the sending side: the other one sees the end of the stream, and can still answer.
    pub fn close_sending(&mut self) -> Result<()> {
        Ok(self.channel.close_sending()?)
    }

    /// The next bytes below compression; an error at the end of the stream.
    pub fn read_below(&mut self) -> Result<Vec<u8>> {
        let mut chunk = vec![0; CHUNK];
        let length = self.channel.read_below(&mut chunk)?;
        if length == 0 {
            return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        chunk.truncate(length);
        Ok(chunk)
    }

    /// Sends a command and does not wait for the reply.
    pub fn send_command(&mut self, code: CommandCode, body: &[u8]) -> Result<()> {
        let bytes = self.framed(code, body);
        self.send(&bytes)
    }

    /// Reads the whole reply to `code`.
    pub fn receive(&mut self, code: CommandCode) -> Result<Reply> {
        self.scan(ReplyScanner::new(code, self.capabilities), None)
    }

    /// Sends a command and reads the whole reply.
    pub fn command(&mut self, code: CommandCode, body: &[u8]) -> Result<Reply> {
        self.send_command(code, body)?;
        self.receive(code)
    }

    /// COM_QUERY.
    pub fn query(&mut self, sql: &str) -> Result<Reply> {
        self.command(CommandCode::QUERY, sql.as_bytes())
    }

    /// COM_QUERY of `LOAD DATA LOCAL INFILE`: `data` is the file, whatever its name.
    pub fn upload(&mut self, sql: &str, data: &[u8]) -> Result<Reply> {
        self.send_command(CommandCode::QUERY, sql.as_bytes())?;
        self.scan(ReplyScanner::new(CommandCode::QUERY, self.capabilities), Some(data))
    }

    /// COM_QUERY that must not give an error.
    pub fn must(&mut self, sql: &str) -> Result<()> {
        let reply = self.query(sql)?;
        if let Some(error) = reply.error() {
            bail!("{error} for {}", sql.chars().take(200).collect::<String>());
        }
        Ok(())
    }

    /// The rows of a COM_QUERY's first result, as text.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Vec<Option<String>>>> {
        let reply = self.query(sql)?;
        if let Some(error) = reply.error() {
            bail!("{error} for {sql}");
        }
        reply.rows(self.capabilities)
    }

    /// COM_QUIT, then waits until the other side has closed the connection.
    pub fn quit(mut self) -> Result<()> {
        self.send_command(CommandCode::QUIT, b"")?;
        // closed with bytes of ours unread, or without TLS's own goodbye
        let closed = [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof];
        match self.channel.read(&mut [0; 64]) {
            Ok(0) => Ok(()),
            Ok(_) => bail!("a reply to COM_QUIT"),
            Err(error) if closed.contains(&error.kind()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The next bytes, whatever they are.
    pub fn read_some(&mut self) -> Result<BytesMut> {
        if self.buffer.is_empty() {
            let mut chunk = BytesMut::zeroed(CHUNK);
            let length = self.channel.read(&mut chunk)?;
            if length == 0 {
                return Err(std::io::Error::from(ErrorKind::UnexpectedEof).into());
            }
            chunk.truncate(length);
            return Ok(chunk);
        }
        Ok(self.buffer.split())
    }

    /// Reads to the end that `scanner` finds; `file` is for a server that asks for one.
    fn scan(&mut self, mut scanner: ReplyScanner, file: Option<&[u8]>) -> Result<Reply> {
        let mut raw = Vec::new();
        loop {
            let mut chunk = self.read_some()?;
            match scanner.scan(&chunk)? {
                Scan::More => raw.extend_from_slice(&chunk),
                Scan::Upload { at } => {
                    raw.extend_from_slice(&chunk.split_to(at));
                    self.buffer = chunk;
                    let Some(file) = file else { bail!("a file is asked for") };
                    self.send_file(raw[raw.len() - at + 3], file)?;
                }
                Scan::End { at, end } => {
                    raw.extend_from_slice(&chunk.split_to(at));
                    self.buffer = chunk;
                    return Ok(Reply { raw, end, prepared: scanner.prepared() });
                }
            }
        }
    }

    /// The file's packets and the empty one behind them, counted on from the request's.
    fn send_file(&mut self, request: u8, file: &[u8]) -> Result<()> {
        let mut out = BytesMut::new();
        let mut sequence = request.wrapping_add(1);
        for chunk in file.chunks(CHUNK) {
            sequence = packet::put_packet(&mut out, sequence, chunk);
        }
        packet::put_packet(&mut out, sequence, b"");
        self.send(&out)
    }
}
