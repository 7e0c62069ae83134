//! From the connection to the first command.

use super::{Client, Login, channel::Channel};
use anyhow::{Result, bail};
use bytes::{Bytes, BytesMut};
use std::io::{self, ErrorKind, Read, Write};
use wire::{
    Capabilities, CommandCode, ErrPacket, Greeting, LoginRequest,
    auth::{
        self, Secret,
        client::{AuthError, ClientAuth, Step},
    },
    compress::Method,
    greeting::GreetingError,
    packet::{self, Message},
};

/// Large enough for anything before the first command.
const LARGEST: usize = 1 << 20;
/// What the client says it takes.
const MAX_PACKET: u32 = 1 << 30;

/// Connects and logs in; `seen` gets the first byte of each packet behind the greeting.
pub(super) fn connect(address: &str, login: &Login, seen: &mut Vec<u8>) -> Result<Client> {
    let mut channel = Channel::connect_from(login.source, address)?;
    channel.write_all(&login.header)?;
    let mut buffer = BytesMut::new();
    let first = next(&mut channel, &mut buffer)?;
    let greeting = match Greeting::decode(&first.payload()) {
        Ok(greeting) => greeting,
        Err(GreetingError::Refused(error)) => return Err(refusal(&error)),
        Err(error) => return Err(error.into()),
    };
    let mut sequence = first.next_seq;
    let capabilities = login.capabilities.intersection(greeting.capabilities);
    if let Some(tls) = &login.tls {
        if !capabilities.contains(Capabilities::SSL) {
            bail!("the server has no TLS");
        }
        let request = request(login, &auth(login, &greeting, auth::Channel::Tls), capabilities);
        let mut payload = BytesMut::new();
        request.ssl_request().encode(&mut payload);
        sequence = send(&mut channel, sequence, &payload)?;
        channel = channel.secure(tls.config()?, tls.name())?;
    }
    let mut auth = auth(login, &greeting, channel.kind()).capabilities(capabilities);
    let mut payload = BytesMut::new();
    request(login, &auth, capabilities).encode(&mut payload);
    send(&mut channel, sequence, &payload)?;
    let login_info = authenticate(&mut channel, &mut buffer, &mut auth, seen)?;
    // A level that there is not: the other side has let it in.
    let level = login.zstd_level.clamp(1, 22);
    if let Some(method) = Method::agreed(capabilities, level)? {
        channel = channel.compress(method, capabilities, buffer.split());
    }
    Ok(Client { channel, buffer, greeting, capabilities, login_info })
}

impl Client {
    /// COM_CHANGE_USER.
    pub fn change_user(&mut self, login: &Login) -> Result<()> {
        let kind = self.channel.kind();
        let mut auth = auth(login, &self.greeting, kind).capabilities(self.capabilities);
        let request = wire::command::change_user::ChangeUser {
            user: login.user.clone().into_bytes(),
            auth_response: auth.response(),
            schema: login.schema.clone().unwrap_or_default().into_bytes(),
            collation: login.collation.into(),
            plugin: Some(auth.plugin().clone()),
            attributes: login.attributes.clone(),
        };
        let mut payload = BytesMut::new();
        request.encode(&mut payload, self.capabilities);
        debug_assert_eq!(payload[0], CommandCode::CHANGE_USER.0);
        send(&mut self.channel, 0, &payload)?;
        let seen = &mut Vec::new();
        self.login_info = authenticate(&mut self.channel, &mut self.buffer, &mut auth, seen)?;
        Ok(())
    }
}

/// A login's packet for a nonce of zeroes.
pub(super) fn login_bytes(login: &Login) -> Vec<u8> {
    let greeting = Greeting {
        server_version: Vec::new(),
        thread_id: 0,
        nonce: [0; 20],
        capabilities: login.capabilities,
        collation: login.collation,
        status: wire::Status::AUTOCOMMIT,
        plugin: auth::Plugin::NativePassword,
    };
    let mut payload = BytesMut::new();
    request(login, &auth(login, &greeting, auth::Channel::Open), login.capabilities)
        .encode(&mut payload);
    let mut out = BytesMut::new();
    packet::put_packet(&mut out, 1, &payload);
    out.to_vec()
}

/// Answers a greeting with `bytes`, sends nothing more, and waits until the other side closes.
pub fn throw(address: &str, bytes: &[u8]) -> Result<()> {
    let mut channel = Channel::connect(address)?;
    next(&mut channel, &mut BytesMut::new())?;
    say_and_listen(&mut channel, bytes).map(drop)
}

/// Sends `bytes` and nothing more, below compression; gives all that still comes.
pub(super) fn say_and_listen(channel: &mut Channel, bytes: &[u8]) -> Result<Vec<u8>> {
    let sent = channel.write_below(bytes).and_then(|()| channel.close_sending());
    // it may close before all has been sent: that is an answer too
    if let Err(error) = sent
        && !is_closed(&error)
    {
        return Err(error.into());
    }
    let mut heard = Vec::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        match channel.read_below(&mut chunk) {
            Ok(0) => return Ok(heard),
            Ok(length) => heard.extend_from_slice(&chunk[..length]),
            Err(error) if is_closed(&error) => return Ok(heard),
            Err(error) => return Err(error.into()),
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    let closed = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe, ErrorKind::NotConnected];
    closed.contains(&error.kind())
}

fn auth(login: &Login, greeting: &Greeting, kind: auth::Channel) -> ClientAuth {
    let plugin = login.plugin.clone().unwrap_or_else(|| greeting.plugin.clone());
    ClientAuth::new(Secret::from(login.password.as_str()), plugin, greeting.nonce, kind)
}

fn request(login: &Login, auth: &ClientAuth, capabilities: Capabilities) -> LoginRequest {
    LoginRequest {
        capabilities,
        max_packet: MAX_PACKET,
        collation: login.collation,
        user: login.user.clone().into_bytes(),
        auth_response: auth.response(),
        schema: login.schema.clone().unwrap_or_default().into_bytes(),
        plugin: Some(login.plugin.clone().unwrap_or_else(|| auth.plugin().clone())),
        attributes: login.attributes.clone(),
        zstd_level: login.zstd_level,
    }
}

/// Goes on to the OK packet; gives its text.
fn authenticate(
    channel: &mut Channel,
    buffer: &mut BytesMut,
    auth: &mut ClientAuth,
    seen: &mut Vec<u8>,
) -> Result<Vec<u8>> {
    loop {
        let message = next(channel, buffer)?;
        let payload: Bytes = message.payload();
        seen.extend(payload.first());
        match auth.receive(&payload) {
            Ok(Step::Send(answer)) => {
                send(channel, message.next_seq, answer.expose())?;
            }
            Ok(Step::Read) => {}
            Ok(Step::Done(ok)) => return Ok(ok.info),
            Err(AuthError::Refused(error)) => return Err(refusal(&error)),
            Err(error) => return Err(error.into()),
        }
    }
}

fn refusal(error: &ErrPacket) -> anyhow::Error {
    let state = String::from_utf8_lossy(&error.sqlstate);
    anyhow::anyhow!("ERR {} ({state}): {}", error.code, error.message_lossy())
}

fn next(channel: &mut Channel, buffer: &mut BytesMut) -> Result<Message> {
    let mut chunk = [0; 4096];
    loop {
        if let Some(message) = packet::take_message(buffer, LARGEST)? {
            return Ok(message);
        }
        let length = channel.read(&mut chunk)?;
        if length == 0 {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        buffer.extend_from_slice(&chunk[..length]);
    }
}

fn send(channel: &mut Channel, sequence: u8, payload: &[u8]) -> Result<u8> {
    let mut out = BytesMut::new();
    let next = packet::put_packet(&mut out, sequence, payload);
    channel.write_all(&out)?;
    channel.flush()?;
    Ok(next)
}
