//! A client's login: greeting, TLS, authentication, schema.

use super::{
    Client, Context, call, refuse,
    relay::{Relay, Relayed},
    stack,
};
use crate::{
    greeter::Greeter,
    stream::Stream,
    users::{Admitted, Users},
};
use bytes::{Bytes, BytesMut};
use chain::{
    Command, Error, HostgroupId, Outcome, Reply, Session, Stack,
    command::Asker,
    session::{Peer, View},
};
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsStream};
use wire::{
    auth::{Plugin, ServerAuth, random_nonce, server},
    capability::Capabilities,
    command::{ChangeUser, CommandCode},
    compress::{End, Method},
    err::{ErrPacket, ErrorCode, codes},
    greeting::Greeting,
    login::{LoginRequest, SslRequest},
    ok::OkPacket,
    packet::{HEADER_LEN, Message},
    status::Status,
};

/// What a listener knows about logins.
pub(crate) struct Entrance {
    pub(crate) greeter: Greeter,
    pub(crate) users: Arc<Users>,
    /// Where logins are checked, if not here.
    pub(crate) relay: Option<Relay>,
    pub(crate) tls: Option<TlsAcceptor>,
    /// A client without TLS is refused.
    pub(crate) tls_required: bool,
    pub(crate) address: Arc<str>,
    pub(crate) port: u16,
}

/// A session whose client has been let in.
pub(crate) struct LoggedIn {
    pub(crate) session: Session,
    pub(crate) stack: Stack,
    /// What the client was greeted with: a change of user is tested against the same nonce.
    pub(super) greeting: Greeting,
    /// None where a server has let the client in.
    pub(super) admitted: Option<Admitted>,
    /// Changes of user that were refused.
    pub(super) refusals: u8,
    pub(super) relayed: Option<Relayed>,
}

/// Who a client says it is, by a login or by COM_CHANGE_USER.
struct Claim {
    request: LoginRequest,
    /// The login's has 8 bits, COM_CHANGE_USER's 16.
    collation: u16,
    /// The sequence id of the next packet to the client.
    seq: u8,
}

/// Longest packet before the login is complete, in bytes of payload.
pub(super) const LIMIT: usize = 128 * 1024;

/// Who takes a session into its schema.
pub(crate) const LOGIN: Asker = Asker::Filter("login");

/// How often a change of user may be refused on a connection that goes on; MariaDB's number.
const REFUSALS: u8 = 3;

/// MySQL's error for a client that must use TLS and does not.
pub(super) const SECURE_TRANSPORT_REQUIRED: ErrorCode =
    ErrorCode { code: 3159, sqlstate: *b"HY000" };

/// A client that asks for more gets this: the highest levels take tens of milliseconds for a frame,
/// for which other sessions would have to wait.
const MAX_ZSTD_LEVEL: u8 = 9;

/// MySQL's error for a level of zstd that there is not.
const WRONG_COMPRESSION_LEVEL: ErrorCode = ErrorCode { code: 3923, sqlstate: *b"HY000" };

impl Entrance {
    /// Lets a client in, or tells it why not and gives the reason.
    pub(crate) async fn login(
        &self,
        client: &mut Client,
        context: &Context,
        peer: Peer,
        id: u32,
    ) -> Result<LoggedIn, Error> {
        if let Some(relay) = &self.relay {
            return self.relayed(relay, client, context, peer, id).await;
        }
        let greeting = self.greet(client, id).await?;
        let (request, seq) = self.request(client, greeting.capabilities).await?;
        let compression = compression(client, &request, &greeting, seq).await?;
        let claim = Claim { collation: request.collation.into(), request, seq };
        let entered = self.open(client, context, greeting, peer, claim).await?;
        if let Some(method) = compression {
            client.compress(method);
        }
        Ok(entered)
    }

    /// COM_CHANGE_USER: the session ends, and another begins on the same connection. The password
    /// is the proxy's to check, so no server sees the command.
    pub(crate) async fn change_user(
        &self,
        client: &mut Client,
        context: &Context,
        before: LoggedIn,
        message: &Message,
    ) -> Result<LoggedIn, Error> {
        if let Some(relay) = &self.relay {
            return self.change_relayed(relay, client, context, before, message).await;
        }
        let View { peer, capabilities, collation, .. } = *before.session;
        let Ok(change) = ChangeUser::decode(&message.payload(), capabilities) else {
            return Err(bad_handshake(client, message.next_seq).await);
        };
        let request = LoginRequest {
            capabilities,
            user: change.user,
            auth_response: change.auth_response,
            schema: change.schema,
            plugin: change.plugin,
            ..LoginRequest::default()
        };
        let collation = if change.collation == 0 { collation } else { change.collation };
        let claim = Claim { request, collation, seq: message.next_seq };
        let LoggedIn { session, stack: used, greeting, admitted, refusals, relayed } = before;
        // Whoever logs in gets no connection of the user before.
        drop(used);
        match self.open(client, context, greeting.clone(), peer, claim).await {
            // MySQL closes the connection then; MariaDB keeps it for the user before, reset, unless
            // that happens again and again.
            Err(error) if greeting.is_mariadb() && refusals < REFUSALS => {
                let Some(user) = &admitted else { return Err(error) };
                tracing::debug!(session = session.id, %error, "change of user refused");
                let stack = stack(context, &user.user().backend, session.id);
                let (session, refusals) = (session.anew(), refusals + 1);
                Ok(LoggedIn { session, stack, greeting, admitted, refusals, relayed })
            }
            changed => changed,
        }
    }

    /// Checks who the client is and takes its session into its schema.
    async fn open(
        &self,
        client: &mut Client,
        context: &Context,
        greeting: Greeting,
        peer: Peer,
        claim: Claim,
    ) -> Result<LoggedIn, Error> {
        let Claim { request, collation, seq } = claim;
        let capabilities = request.capabilities.intersection(greeting.capabilities);
        let (admitted, seq) = self.admit(client, &request, &greeting, peer, seq).await?;
        let user = admitted.user();
        let mut session = Session::new(View {
            id: greeting.thread_id,
            user: user.account.user.clone(),
            schema: None,
            peer,
            listener: self.address.clone(),
            port: self.port,
            capabilities,
            collation,
            hostgroup: HostgroupId(user.hostgroup),
            topology: context.topology.clone(),
        });
        let mut stack = stack(context, &user.backend, session.id);
        let schema = request.schema;
        if schema.is_empty() {
            let mut payload = BytesMut::new();
            let ok = OkPacket { status: Status::AUTOCOMMIT, ..OkPacket::default() };
            ok.encode(&mut payload, capabilities);
            client.send(seq, &payload).await?;
        } else {
            enter(client, &mut session, &mut stack, schema, seq).await?;
        }
        let admitted = Some(admitted);
        Ok(LoggedIn { session, stack, greeting, admitted, refusals: 0, relayed: None })
    }

    /// Sends the greeting.
    async fn greet(&self, client: &mut Client, id: u32) -> Result<Greeting, Error> {
        let secure = client.io.is_secure();
        let greeting =
            match self.greeter.greeting(random_nonce(), id, self.tls.is_some() && !secure).await {
                Ok(greeting) => greeting,
                Err(refusal) => {
                    let mut payload = BytesMut::new();
                    refusal.encode_before_login(&mut payload);
                    client.send(0, &payload).await?;
                    return Err(Error::backend(refusal.message_lossy().into_owned()));
                }
            };
        let mut payload = BytesMut::new();
        greeting.encode(&mut payload);
        client.send(0, &payload).await?;
        Ok(greeting)
    }

    /// Reads the login, under TLS where the client asks for it; also gives the sequence id that
    /// comes next.
    pub(super) async fn request(
        &self,
        client: &mut Client,
        offered: Capabilities,
    ) -> Result<(LoginRequest, u8), Error> {
        let mut message = client.required_message(LIMIT).await?;
        let malformed = |_| Error::client("a malformed login");
        if SslRequest::decode(&message.payload()).map_err(malformed)?.is_some() {
            let Some(tls) = self.tls.as_ref().filter(|_| offered.contains(Capabilities::SSL))
            else {
                return Err(bad_handshake(client, message.next_seq).await);
            };
            client.upgrade(tls).await?;
            message = client.required_message(LIMIT).await?;
        } else if self.tls_required && !client.io.is_secure() {
            let text = "Connections using insecure transport are prohibited by this proxy";
            let refusal = ErrPacket::new(SECURE_TRANSPORT_REQUIRED, text);
            return Err(denied(client, message.next_seq, &refusal).await);
        }
        match LoginRequest::decode(&message.payload()) {
            Ok(request) => Ok((request, message.next_seq)),
            Err(_) => Err(bad_handshake(client, message.next_seq).await),
        }
    }

    /// Finds out whether the client is who it says it is, and has room for it.
    async fn admit(
        &self,
        client: &mut Client,
        request: &LoginRequest,
        greeting: &Greeting,
        peer: Peer,
        mut seq: u8,
    ) -> Result<(Admitted, u8), Error> {
        let user = self.users.find(&request.user);
        let plugin = self.greeter.plugin(greeting);
        if plugin == Plugin::ClearPassword && !client.io.is_secure() {
            let text = "Connections using insecure transport are prohibited by this proxy: \
                        mysql_clear_password is taken over TLS or a unix socket only";
            let refusal = ErrPacket::new(SECURE_TRANSPORT_REQUIRED, text);
            return Err(denied(client, seq, &refusal).await);
        }
        let expected = server::Expected {
            password: user.map(|known| (*known.user().account.password).clone()),
            plugin: plugin.clone(),
            nonce: greeting.nonce,
            channel: client.io.channel(),
            // The scramble is enough: the proxy knows the password, and never asks for it.
            key: None,
            full: false,
        };
        let can_switch = request.capabilities.contains(Capabilities::PLUGIN_AUTH);
        let named = request.plugin().clone();
        if !can_switch && (named != plugin || plugin.signs()) {
            let text = "Client does not support authentication protocol requested by server; \
                        consider upgrading MySQL client";
            let refusal = ErrPacket::new(codes::ER_NOT_SUPPORTED_AUTH_MODE, text);
            return Err(denied(client, seq, &refusal).await);
        }
        let mut auth =
            ServerAuth::new(expected, &named, can_switch, request.auth_response.expose());
        let accepted = loop {
            match auth.step() {
                server::Step::Send(payload) => seq = client.send(seq, &payload).await?,
                server::Step::Read => {
                    let message = client.required_message(LIMIT).await?;
                    seq = message.next_seq;
                    auth.receive(&message.payload());
                }
                server::Step::Accept => break true,
                server::Step::Deny => break false,
            }
        };
        let name = String::from_utf8_lossy(&request.user);
        let Some(user) = user.filter(|_| accepted) else {
            let using = if request.auth_response.expose().iter().all(|byte| *byte == 0) {
                "NO"
            } else {
                "YES"
            };
            let text =
                format!("Access denied for user '{name}'@'{peer}' (using password: {using})");
            let refusal = ErrPacket::new(codes::ER_ACCESS_DENIED_ERROR, text);
            return Err(denied(client, seq, &refusal).await);
        };
        match user.admit() {
            Some(admitted) => Ok((admitted, seq)),
            None => {
                let text = format!(
                    "User {name} already has more than 'max_user_connections' active connections"
                );
                let refusal = ErrPacket::new(codes::ER_TOO_MANY_USER_CONNECTIONS, text);
                Err(denied(client, seq, &refusal).await)
            }
        }
    }
}

/// Takes the session into its schema, on a server: only that one knows whether the schema is there
/// and may be used. The server's reply is the reply to the login.
async fn enter(
    client: &mut Client,
    session: &mut Session,
    stack: &mut Stack,
    schema: Vec<u8>,
    seq: u8,
) -> Result<(), Error> {
    let schema = Bytes::from(schema);
    session.update(|view| view.schema = Some(schema.clone()));
    let command = Command::new(session.clone(), CommandCode::INIT_DB, &schema);
    let command = command.asked_by(LOGIN);
    let answer = match call(stack, command).await.map(Reply::into_outcome) {
        Ok(Outcome::Body(body)) => body.collect(LIMIT).await,
        Ok(Outcome::Handover(_)) => Err(Error::filter("handed over before the login was complete")),
        Err(error) => Err(error),
    };
    match answer {
        Ok(answer) => {
            client.send(seq, answer.end.packet.get(HEADER_LEN..).unwrap_or_default()).await?;
            if let Some(code) = answer.end.error {
                return Err(Error::client(format!("the server refuses the schema: error {code}")));
            }
            session.set_status(answer.end.status.unwrap_or(Status::AUTOCOMMIT));
            Ok(())
        }
        Err(error) => {
            let code = ErrorCode { code: error.code(), sqlstate: error.sqlstate() };
            refuse(client, seq, &ErrPacket::new(code, error.message())).await?;
            Err(error)
        }
    }
}

/// How both sides compress, if they do. A level that there is not is refused.
pub(super) async fn compression(
    client: &mut Client,
    request: &LoginRequest,
    greeting: &Greeting,
    seq: u8,
) -> Result<Option<Method>, Error> {
    let agreed = request.capabilities.intersection(greeting.capabilities);
    match Method::agreed(agreed, request.zstd_level) {
        Ok(method) => Ok(method),
        Err(_) => {
            let text = "Invalid zstd compression level for algorithm 'zstd'.";
            let refusal = ErrPacket::new(WRONG_COMPRESSION_LEVEL, text);
            Err(denied(client, seq, &refusal).await)
        }
    }
}

pub(super) async fn bad_handshake(client: &mut Client, seq: u8) -> Error {
    denied(client, seq, &ErrPacket::new(codes::ER_HANDSHAKE_ERROR, "Bad handshake")).await
}

/// Tells the client why it is not let in. That it may not hear it changes nothing.
pub(super) async fn denied(client: &mut Client, seq: u8, refusal: &ErrPacket) -> Error {
    let _ = refuse(client, seq, refusal).await;
    Error::client(format!("login refused: error {}", refusal.code))
}

impl Client {
    /// The next message of a conversation that is not over.
    pub(super) async fn required_message(&mut self, limit: usize) -> Result<Message, Error> {
        let message = self.message(limit).await?;
        message.ok_or_else(|| Error::client("the client closed during the login"))
    }

    /// Goes on with compression, behind the OK.
    pub(super) fn compress(&mut self, method: Method) {
        let method = match method {
            Method::Zstd { level } => Method::Zstd { level: level.min(MAX_ZSTD_LEVEL) },
            zlib => zlib,
        };
        self.io.compress(method, End::Server, self.read.split());
    }

    /// Goes on under TLS. Whatever came behind the request is part of the TLS handshake: nothing of
    /// it is taken for the client's words.
    async fn upgrade(&mut self, tls: &TlsAcceptor) -> Result<(), Error> {
        let ahead = self.read.split().freeze();
        let plain = std::mem::replace(&mut self.io, Stream::Closed).put_back(ahead);
        let secured = tls.accept(plain).await;
        let secured = secured.map_err(|e| Error::client(format!("TLS: {e}")))?;
        self.io = TlsStream::from(secured).into();
        Ok(())
    }
}
