//! A client's login: greeting, TLS, authentication, schema.

mod conversation;
mod greeted;
mod key;

pub(crate) use {conversation::broke_off, key::ProcessKey};
pub(super) use {
    conversation::{bad_handshake, denied},
    greeted::Greeted,
};

use super::{
    Client, Context, call, refuse,
    relay::{Relay, Relayed},
    stack,
};
use crate::{
    config::{ProxyProtocol, Require, User},
    greeter::Greeter,
    tls::{Acceptor, Watched},
    users::{Admitted, Users},
};
use bytes::{Bytes, BytesMut};
use chain::{
    Command, Error, HostgroupId, Outcome, Reply, Session, Stack,
    command::Asker,
    session::{Peer, View},
};
use std::sync::Arc;
use wire::{
    auth::{Plugin, ServerAuth, random_nonce, server},
    capability::Capabilities,
    command::{ChangeUser, CommandCode},
    compress::Method,
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
    /// Clients whose bytes go to this hostgroup unread.
    pub(crate) untouched: Option<HostgroupId>,
    /// Where connections begin with a header that says whose they are.
    pub(crate) proxied: ProxyProtocol,
    pub(crate) key: Arc<ProcessKey>,
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
    pub(super) greeted: Greeted,
    /// None where a server has let the client in.
    pub(crate) admitted: Option<Admitted>,
    /// Changes of user that were refused.
    pub(super) refusals: u8,
    pub(super) relayed: Option<Relayed>,
}

/// Who a client says it is, by a login or by COM_CHANGE_USER.
struct Claim {
    request: LoginRequest,
    /// The login's has 8 bits, COM_CHANGE_USER's 16.
    collation: u16,
    /// A COM_CHANGE_USER. Servers do not look at the response that it carries and ask anew.
    again: bool,
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
pub(super) const SECURE_TRANSPORT_REQUIRED: ErrorCode =
    ErrorCode { code: 3159, sqlstate: *b"HY000" };

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
        let (request, tls, seq) = self.request(client, greeting.capabilities).await?;
        let compression = compression(client, &request, &greeting, seq).await?;
        let greeted = Greeted { greeting, tls };
        let claim = Claim { collation: request.collation.into(), again: false, request, seq };
        let entered = self.open(client, context, greeted, peer, claim).await?;
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
        if self.relay.is_some() {
            return self.change_relayed(client, context, before, message).await;
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
            attributes: change.attributes,
            ..LoginRequest::default()
        };
        let collation = if change.collation == 0 { collation } else { change.collation };
        let claim = Claim { request, collation, again: true, seq: message.next_seq };
        let LoggedIn { session, stack: used, greeted, admitted, refusals, relayed } = before;
        // Whoever logs in gets no connection of the user before.
        drop(used);
        match self.open(client, context, greeted.clone(), peer, claim).await {
            // MySQL closes the connection then; MariaDB keeps it for the user before, reset, unless
            // that happens again and again.
            Err(error) if greeted.greeting.is_mariadb() && refusals < REFUSALS => {
                let Some(user) = &admitted else { return Err(error) };
                tracing::debug!(session = session.id, %error, "change of user refused");
                let stack = stack(context, &user.user().backend, session.id);
                let (session, refusals) = (session.anew(), refusals + 1);
                Ok(LoggedIn { session, stack, greeted, admitted, refusals, relayed })
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
        let greeting = &greeted.greeting;
        let capabilities = claim.request.capabilities.intersection(greeting.capabilities);
        let (admitted, seq) = self.admit(client, &claim, greeting, peer).await?;
        let Claim { request, collation, .. } = claim;
        let user = admitted.user();
        let mut session = Session::new(View {
            id: greeting.thread_id,
            user: user.account.user.clone(),
            schema: None,
            current_schema: None,
            peer,
            destination: client.destination,
            listener: self.address.clone(),
            port: self.port,
            capabilities,
            collation,
            attributes: request.attributes,
            hostgroup: HostgroupId(user.hostgroup),
            transaction_persistent: user.transaction_persistent,
            fast_forward: user.fast_forward,
            topology: context.topology.clone(),
        });
        let mut stack = stack(context, &user.backend, session.id);
        let schema = request.schema;
        let plugin = self.greeter.plugin(&greeted.greeting);
        let info = greeted.proof(&user.account.password, &plugin).unwrap_or_default();
        if schema.is_empty() {
            let mut payload = BytesMut::new();
            let ok = OkPacket { status: Status::AUTOCOMMIT, info, ..OkPacket::default() };
            ok.encode(&mut payload, capabilities);
            client.send(seq, &payload).await?;
        } else {
            enter(client, &mut session, &mut stack, schema, info, seq).await?;
        }
        let admitted = Some(admitted);
        Ok(LoggedIn { session, stack, greeted, admitted, refusals: 0, relayed: None })
    }

    /// Whether a client may have to encrypt its password, so that the key had better be there.
    pub(crate) fn may_need_key(&self) -> bool {
        let plugin = self.greeter.asks_for();
        let caching = plugin.is_none_or(|plugin| *plugin == Plugin::CachingSha2Password);
        self.relay.is_none() && !self.tls_required && caching
    }

    /// The login has taken too long. MySQL says so; MariaDB closes without a word.
    pub(crate) async fn timed_out(&self, client: &mut Client) {
        if self.greeter.is_mariadb() {
            return;
        }
        let seq = if client.read.is_empty() { 1 } else { 2 };
        let text = "Got timeout reading communication packets";
        let _ = refuse(client, seq, &ErrPacket::new(codes::ER_NET_READ_INTERRUPTED, text)).await;
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
    pub(super) async fn request(
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
        claim: &Claim,
        greeting: &Greeting,
        peer: Peer,
    ) -> Result<(Admitted, u8), Error> {
        let &Claim { ref request, again, mut seq, .. } = claim;
        let user = self.users.find(&request.user);
        let plugin = self.greeter.plugin(greeting);
        if plugin == Plugin::ClearPassword && !client.io.is_secure() {
            let text = "Connections using insecure transport are prohibited by this proxy: \
                        mysql_clear_password is taken over TLS or a unix socket only";
            let refusal = ErrPacket::new(SECURE_TRANSPORT_REQUIRED, text);
            return Err(denied(client, seq, &refusal).await);
        }
        let can_switch = request.capabilities.contains(Capabilities::PLUGIN_AUTH);
        let named = request.plugin().clone();
        if !can_switch && (named != plugin || plugin.signs()) {
            let text = "Client does not support authentication protocol requested by server; \
                        consider upgrading MySQL client";
            let refusal = ErrPacket::new(codes::ER_NOT_SUPPORTED_AUTH_MODE, text);
            return Err(denied(client, seq, &refusal).await);
        }
        let anew = can_switch && again;
        let expected = server::Expected {
            password: user.map(|known| (*known.user().account.password).clone()),
            plugin,
            // MariaDB asks anew with the nonce of the greeting.
            nonce: match anew && !greeting.is_mariadb() {
                true => random_nonce(),
                false => greeting.nonce,
            },
            channel: client.io.channel(),
            key: None,
            // The scramble is enough: the proxy knows the password.
            full: false,
        };
        let auth = if anew {
            ServerAuth::switched(expected)
        } else {
            ServerAuth::new(expected, &named, can_switch, request.auth_response.expose())
        };
        let (accepted, using) = self.ask(client, auth, &mut seq).await?;
        let name = String::from_utf8_lossy(&request.user);
        let accepted = accepted && user.is_some_and(|user| self.suffices(client, user.user()));
        let Some(user) = user.filter(|_| accepted) else {
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
    /// Asks the client for what its plugin takes. Whether it is who it says it is, and whether it
    /// has used a password, in the words of ERR 1045.
    async fn ask(
        &self,
        client: &mut Client,
        mut auth: ServerAuth,
        seq: &mut u8,
    ) -> Result<(bool, &'static str), Error> {
        let accepted = loop {
            match auth.step() {
                server::Step::Send(payload) => *seq = client.send(*seq, &payload).await?,
                server::Step::Read => {
                    let message = client.said(*seq, self.max_packet).await?;
                    *seq = message.next_seq;
                    if auth.needs_key()
                        && let Some(key) = self.key.get().await
                    {
                        auth.give_key(key);
                    }
                    auth.receive(&message.payload());
                }
                server::Step::Accept => break true,
                server::Step::Deny => break false,
            }
        };
        Ok((accepted, if auth.password_used() { "YES" } else { "NO" }))
    }

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
    session.update(|view| {
        view.schema = Some(schema.clone());
        view.current_schema = Some(schema.clone());
    });
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
