//! A client's login: greeting, TLS, authentication, schema.

use super::{Client, Context, call, packet_too_large, refuse, stack, too_large};
use crate::{
    config::{Require, User},
    greeter::Greeter,
    stream::Stream,
    tls::{Acceptor, Watched},
    users::{Admitted, Users},
};
use bytes::{Bytes, BytesMut};
use chain::{
    Command, Error, HostgroupId, Origin, Outcome, Reply, Session, Stack,
    command::Asker,
    session::{Peer, View},
};
use std::sync::Arc;
use tokio_rustls::{TlsAcceptor, TlsStream};
use wire::{
    auth::{Plugin, Secret, ServerAuth, certificate_proof, random_nonce, server},
    capability::Capabilities,
    command::{ChangeUser, CommandCode},
    compress::{End, Method},
    err::{ErrPacket, ErrorCode, codes},
    greeting::Greeting,
    login::{LoginRequest, SslRequest},
    ok::OkPacket,
    packet::{HEADER_LEN, Header, Message},
    status::Status,
};

/// What a listener knows about logins.
pub(crate) struct Entrance {
    pub(crate) greeter: Greeter,
    pub(crate) users: Arc<Users>,
    pub(crate) tls: Option<Arc<Watched<Acceptor>>>,
    /// A client without TLS is refused.
    pub(crate) tls_required: bool,
    /// A client over TCP without a certificate is refused.
    pub(crate) certificate_required: bool,
    /// Longest packet before the login is complete, in bytes of payload.
    pub(crate) max_packet: usize,
    pub(crate) address: Arc<str>,
    pub(crate) port: u16,
}

/// A session whose client has been let in.
pub(crate) struct LoggedIn {
    pub(crate) session: Session,
    pub(crate) stack: Stack,
    greeted: Greeted,
    admitted: Admitted,
    /// Changes of user that were refused.
    refusals: u8,
}

/// What holds from the greeting on, for a change of user too.
#[derive(Clone)]
struct Greeted {
    greeting: Greeting,
    /// What the connection was secured with.
    tls: Option<Arc<Acceptor>>,
}

/// Who a client says it is, by a login or by COM_CHANGE_USER.
struct Claim {
    request: LoginRequest,
    /// The login's has 8 bits, COM_CHANGE_USER's 16.
    collation: u16,
    /// The sequence id of the next packet to the client.
    seq: u8,
}

/// Longest reply of a server to a change of schema, in bytes of payload.
const LIMIT: usize = 128 * 1024;

/// Who takes a session into its schema.
pub(crate) const LOGIN: Asker = Asker::Filter("login");

/// How often a change of user may be refused on a connection that goes on; MariaDB's number.
const REFUSALS: u8 = 3;

/// MySQL's error for a client that must use TLS and does not.
const SECURE_TRANSPORT_REQUIRED: ErrorCode = ErrorCode { code: 3159, sqlstate: *b"HY000" };

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
        let greeting = self.greet(client, id).await?;
        let (request, tls, seq) = self.request(client, greeting.capabilities).await?;
        let agreed = request.capabilities.intersection(greeting.capabilities);
        let greeted = Greeted { greeting, tls };
        let Ok(compression) = Method::agreed(agreed, request.zstd_level) else {
            let text = "Invalid zstd compression level for algorithm 'zstd'.";
            let refusal = ErrPacket::new(WRONG_COMPRESSION_LEVEL, text);
            return Err(denied(client, seq, &refusal).await);
        };
        let claim = Claim { collation: request.collation.into(), request, seq };
        let entered = self.open(client, context, greeted, peer, claim).await?;
        if let Some(method) = compression {
            let method = match method {
                Method::Zstd { level } => Method::Zstd { level: level.min(MAX_ZSTD_LEVEL) },
                zlib => zlib,
            };
            // Both sides begin behind the OK.
            client.io.compress(method, End::Server, client.read.split());
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
            attributes: change.attributes,
            ..LoginRequest::default()
        };
        let collation = if change.collation == 0 { collation } else { change.collation };
        let claim = Claim { request, collation, seq: message.next_seq };
        let LoggedIn { session, stack: used, greeted, admitted, refusals } = before;
        // Whoever logs in gets no connection of the user before.
        drop(used);
        match self.open(client, context, greeted.clone(), peer, claim).await {
            // MySQL closes the connection then; MariaDB keeps it for the user before, reset, unless
            // that happens again and again.
            Err(error) if greeted.greeting.is_mariadb() && refusals < REFUSALS => {
                tracing::debug!(session = session.id, %error, "change of user refused");
                let stack = stack(context, &admitted.user().backend, session.id);
                let session = session.anew();
                Ok(LoggedIn { session, stack, greeted, admitted, refusals: refusals + 1 })
            }
            changed => changed,
        }
    }

    /// Checks who the client is and takes its session into its schema.
    async fn open(
        &self,
        client: &mut Client,
        context: &Context,
        greeted: Greeted,
        peer: Peer,
        claim: Claim,
    ) -> Result<LoggedIn, Error> {
        let Claim { request, collation, seq } = claim;
        let greeting = &greeted.greeting;
        let capabilities = request.capabilities.intersection(greeting.capabilities);
        let (admitted, seq) = self.admit(client, &request, greeting, peer, seq).await?;
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
            attributes: request.attributes,
            hostgroup: HostgroupId(user.hostgroup),
            topology: context.topology.clone(),
        });
        let mut stack = stack(context, &user.backend, session.id);
        let schema = request.schema;
        let info = greeted.proof(&user.account.password).unwrap_or_default();
        if schema.is_empty() {
            let mut payload = BytesMut::new();
            let ok = OkPacket { status: Status::AUTOCOMMIT, info, ..OkPacket::default() };
            ok.encode(&mut payload, capabilities);
            client.send(seq, &payload).await?;
        } else {
            enter(client, &mut session, &mut stack, schema, info, seq).await?;
        }
        Ok(LoggedIn { session, stack, greeted, admitted, refusals: 0 })
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

    /// Reads the login, under TLS where the client asks for it; also gives what that was secured
    /// with, and the sequence id that comes next.
    async fn request(
        &self,
        client: &mut Client,
        offered: Capabilities,
    ) -> Result<(LoginRequest, Option<Arc<Acceptor>>, u8), Error> {
        let mut secured = None;
        let mut message = client.said(1, self.max_packet).await?;
        let Ok(ssl) = SslRequest::decode(&message.payload()) else {
            return Err(bad_handshake(client, message.next_seq).await);
        };
        if ssl.is_some() {
            let Some(tls) = self.tls.as_ref().filter(|_| offered.contains(Capabilities::SSL))
            else {
                return Err(bad_handshake(client, message.next_seq).await);
            };
            let acceptor = tls.get();
            client.upgrade(&acceptor.tls).await?;
            secured = Some(acceptor);
            message = client.said(message.next_seq, self.max_packet).await?;
        } else if self.tls_required && !client.io.is_secure() {
            let text = "Connections using insecure transport are prohibited by this proxy";
            let refusal = ErrPacket::new(SECURE_TRANSPORT_REQUIRED, text);
            return Err(denied(client, message.next_seq, &refusal).await);
        }
        match LoginRequest::decode(&message.payload()) {
            Ok(request) => Ok((request, secured, message.next_seq)),
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
        let expected = server::Expected {
            password: user.map(|known| (*known.user().account.password).clone()),
            plugin: greeting.plugin.clone(),
            nonce: greeting.nonce,
            secure: client.io.is_secure(),
            // The scramble is enough: the proxy knows the password, and never asks for it.
            key: None,
            full: false,
        };
        let can_switch = request.capabilities.contains(Capabilities::PLUGIN_AUTH);
        let named = request.plugin().clone();
        if !can_switch && named != greeting.plugin {
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
                    let message = client.said(seq, self.max_packet).await?;
                    seq = message.next_seq;
                    auth.receive(&message.payload());
                }
                server::Step::Accept => break true,
                server::Step::Deny => break false,
            }
        };
        let name = String::from_utf8_lossy(&request.user);
        let accepted = accepted && user.is_some_and(|user| self.suffices(client, user.user()));
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
                let limit = user.user().max_connections;
                let text = format!(
                    "User '{name}' has exceeded the 'max_user_connections' resource \
                     (current value: {limit})"
                );
                let refusal = ErrPacket::new(codes::ER_USER_LIMIT_REACHED, text);
                Err(denied(client, seq, &refusal).await)
            }
        }
    }
}

impl Entrance {
    /// Whether the user may connect like this.
    fn suffices(&self, client: &Client, user: &User) -> bool {
        let certificate = client.io.peer_certificate();
        let by_tcp = !client.io.is_unix();
        let required = match user.require {
            Require::None => true,
            Require::Ssl => client.io.is_secure() && by_tcp,
            Require::X509 => certificate,
        };
        required && (certificate || !(self.certificate_required && by_tcp))
    }
}

impl Greeted {
    /// What the OK of a login says about the certificate. Servers of MariaDB 11.4 and later say it
    /// always; for a certificate that was made here it is said in front of others too, for without
    /// it their clients would not connect.
    fn proof(&self, password: &Secret) -> Option<Vec<u8>> {
        let Self { greeting, tls } = self;
        let tls = tls.as_ref()?;
        let version = greeting.version();
        let mut numbers = version.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
        let proves = (numbers.next(), numbers.next()) >= (Some(11), Some(4));
        let asked = greeting.is_mariadb() && greeting.plugin == Plugin::NativePassword;
        (asked && (proves || tls.self_made))
            .then(|| certificate_proof(password, &greeting.nonce, &tls.certificate))
            .flatten()
    }
}

/// Takes the session into its schema, on a server: only that one knows whether the schema is there
/// and may be used. The server's reply is the reply to the login.
async fn enter(
    client: &mut Client,
    session: &mut Session,
    stack: &mut Stack,
    schema: Vec<u8>,
    info: Vec<u8>,
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
            let payload = answer.end.packet.get(HEADER_LEN..).unwrap_or_default();
            match OkPacket::decode(payload, session.capabilities) {
                Ok(ok) if !info.is_empty() => {
                    let mut payload = BytesMut::new();
                    OkPacket { info, ..ok }.encode(&mut payload, session.capabilities);
                    client.send(seq, &payload).await?;
                }
                _ => {
                    client.send(seq, payload).await?;
                }
            }
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

async fn bad_handshake(client: &mut Client, seq: u8) -> Error {
    denied(client, seq, &ErrPacket::new(codes::ER_HANDSHAKE_ERROR, "Bad handshake")).await
}

/// Tells the client why it is not let in. That it may not hear it changes nothing.
async fn denied(client: &mut Client, seq: u8, refusal: &ErrPacket) -> Error {
    let _ = refuse(client, seq, refusal).await;
    Error::client(Denied(refusal.code))
}

/// A client was told why it is not let in.
#[derive(Debug, thiserror::Error)]
#[error("login refused: error {0}")]
struct Denied(u16);

/// Whether a login that failed like this has broken off or made no sense, in contrast to one that
/// was understood and refused.
pub(crate) fn broke_off(error: &Error) -> bool {
    error.origin() == Origin::Client
        && error.cause().is_none_or(|Denied(code)| HANDSHAKE_ERRORS.contains(code))
}

/// Refusals of what is no login.
const HANDSHAKE_ERRORS: [u16; 3] = [
    codes::ER_HANDSHAKE_ERROR.code,
    codes::ER_NET_PACKETS_OUT_OF_ORDER.code,
    codes::ER_NET_PACKET_TOO_LARGE.code,
];

impl Client {
    /// The next message of a login, which has the sequence id `seq`. Like a server, it does not
    /// wait for the rest of a packet whose header is wrong.
    async fn said(&mut self, seq: u8, limit: usize) -> Result<Message, Error> {
        while self.read.len() < HEADER_LEN {
            if self.fill().await? == 0 {
                return Err(Error::client("the client closed during the login"));
            }
        }
        if Header::parse(&self.read).is_none_or(|header| header.seq != seq) {
            let text = "Got packets out of order";
            let refusal = ErrPacket::new(codes::ER_NET_PACKETS_OUT_OF_ORDER, text);
            return Err(denied(self, seq, &refusal).await);
        }
        match self.message(limit).await {
            Ok(message) => message.ok_or_else(|| Error::client("the client has closed")),
            Err(error) if too_large(&error) => {
                Err(denied(self, seq.wrapping_add(1), &packet_too_large()).await)
            }
            Err(error) => Err(error),
        }
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
