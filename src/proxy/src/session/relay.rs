//! Logins that a server checks: what client and server say to each other is passed on.
//!
//! The server is connected to before the client is greeted, since the client's answer is made from
//! the server's nonce. The session has that one connection, and no other.

use super::{
    Client, Context,
    login::{
        Entrance, Greeted, LoggedIn, SECURE_TRANSPORT_REQUIRED, bad_handshake, compression, denied,
    },
    refuse,
};
use crate::{
    backend::{
        connect::ConnectError,
        dispatch::Dispatch,
        identity,
        link::Link,
        relay::{Far, Home, Met, Unmet},
    },
    config::Account,
};
use bytes::{Bytes, BytesMut};
use chain::{
    Error, Hostgroup, HostgroupId, Session, Stack, Topology,
    error::code,
    facts::{Fact, FastForward, StickyMode, Target},
    session::{Peer, View},
};
use std::sync::Arc;
use wire::{
    auth::{
        Channel, Plugin, RelayAuth, Secret,
        relay::{self, RelayError},
    },
    capability::Capabilities,
    command::ChangeUser,
    err::{ErrPacket, ErrorCode, codes},
    login::LoginRequest,
    ok::OkPacket,
    packet::Message,
    status::Status,
};

/// What a listener whose logins are the servers' to check knows.
#[derive(Clone)]
pub(crate) struct Relay {
    pub(crate) hostgroup: HostgroupId,
}

/// What stays of a relayed login for as long as its session.
pub(crate) struct Relayed {
    home: Home,
    target: Target,
}

impl Entrance {
    /// Lets in whom the server lets in.
    pub(super) async fn relayed(
        &self,
        relay: &Relay,
        client: &mut Client,
        context: &Context,
        peer: Peer,
        id: u32,
    ) -> Result<LoggedIn, Error> {
        let mut server = self.met(relay, client, context, peer).await?;
        let offers_tls = self.tls.is_some() && !client.io.is_secure();
        let greeting = self.greeter.relayed(&server.greeting, id, offers_tls);
        let mut payload = BytesMut::new();
        greeting.encode(&mut payload);
        client.send(0, &payload).await?;
        let (request, tls, seq) = self.request(client, greeting.capabilities).await?;
        let compression = compression(client, &request, &greeting, seq).await?;
        let capabilities = request.capabilities.intersection(greeting.capabilities);
        let target = Target { hostgroup: relay.hostgroup, server: server.backend.server.clone() };
        let mut session = Session::new(View {
            id,
            user: name(&request.user),
            schema: schema(request.schema.clone()),
            current_schema: schema(request.schema.clone()),
            peer,
            destination: client.destination,
            listener: self.address.clone(),
            port: self.port,
            capabilities,
            collation: request.collation.into(),
            attributes: request.attributes.clone(),
            hostgroup: relay.hostgroup,
            transaction_persistent: true,
            sticky: StickyMode::Off,
            fast_forward: false,
            topology: Arc::new(alone(&target)),
        });
        let (plugin, response) = (request.plugin().clone(), request.auth_response.clone());
        let mut login = LoginRequest { attributes: identity::attributes(&session), ..request };
        let told = !context.shared.chain.gives(FastForward::NAME);
        if let Err(error) = server.prepare(&mut login, told).await {
            return Err(fail(client, seq, error).await);
        }
        let hops = self.hops(client, server.channel()).await;
        let auth = RelayAuth::new(hops, plugin, greeting.nonce);
        let verdict = self.converse(client, seq, auth, &response, server.log_in(login)).await?;
        session.set_status(accepted(&verdict, capabilities)?);

        let user = session.user.clone();
        let account = Account { user, password: Arc::default() };
        let home = Home::default();
        let link = server.enter(&session, &account, &home);
        let stack = bottom(context, link, account, id, &target);
        if let Some(method) = compression {
            client.compress(method, capabilities);
        }
        let relayed = Some(Relayed { home, target });
        let greeted = Greeted { greeting, tls };
        Ok(LoggedIn { session, stack, greeted, admitted: None, refusals: 0, relayed })
    }

    /// COM_CHANGE_USER: the server checks the new user as well. After a refusal the server closes
    /// the connection or keeps it, and the session ends or goes on with it.
    pub(super) async fn change_relayed(
        &self,
        client: &mut Client,
        context: &Context,
        before: LoggedIn,
        message: &Message,
    ) -> Result<LoggedIn, Error> {
        let LoggedIn { session, stack: used, greeted, relayed, .. } = before;
        let capabilities = session.capabilities;
        let Ok(mut change) = ChangeUser::decode(&message.payload(), capabilities) else {
            return Err(bad_handshake(client, message.next_seq).await);
        };
        // Brings the connection home.
        drop(used);
        let home = relayed.and_then(|relayed| Some((relayed.home.take()?, relayed)));
        let Some((mut link, relayed)) = home else {
            return Err(Error::backend("the connection to the server was lost"));
        };
        let before = session.anew();
        let mut session = before.clone();
        session.update(|view| {
            view.user = name(&change.user);
            view.schema = schema(change.schema.clone());
            view.current_schema = view.schema.clone();
            view.attributes = change.attributes.clone();
            if change.collation != 0 {
                view.collation = change.collation;
            }
        });
        change.attributes = identity::attributes(&session);
        let hops = self.hops(client, link.io.channel()).await;
        let plugin = change.plugin.clone().unwrap_or(Plugin::NativePassword);
        let auth = RelayAuth::new(hops, plugin, greeted.greeting.nonce);
        let response = change.auth_response.clone();
        let (mut read, mut seq) = (BytesMut::new(), 0);
        let far = Far::change(&mut link, change, &mut read, &mut seq);
        let verdict = self.converse(client, message.next_seq, auth, &response, far).await?;
        match accepted(&verdict, capabilities) {
            Ok(status) => session.set_status(status),
            Err(error) => {
                tracing::debug!(session = session.id, %error, "change of user refused");
                session = before;
            }
        }
        let account = Account { user: session.user.clone(), password: Arc::default() };
        let stack = bottom(context, link, account, session.id, &relayed.target);
        let (admitted, relayed) = (None, Some(relayed));
        Ok(LoggedIn { session, stack, greeted, admitted, refusals: 0, relayed })
    }

    /// Connects to a server, or tells the client why there is none.
    async fn met(
        &self,
        relay: &Relay,
        client: &mut Client,
        context: &Context,
        peer: Peer,
    ) -> Result<Met, Error> {
        let none = || Error::backend(format!("hostgroup {} has no server", relay.hostgroup));
        let group = context.topology.hostgroup(relay.hostgroup).ok_or_else(none)?;
        let shared = &context.shared;
        let source = identity::source(peer, client.destination);
        let refusal = match shared.backends.greet(group, &shared.settings.load_full(), source).await
        {
            Ok(greeted) => return Ok(greeted),
            Err(Unmet::Refused(refusal)) => refusal,
            Err(Unmet::Failed(error)) => packet(&error),
        };
        let mut payload = BytesMut::new();
        refusal.encode_before_login(&mut payload);
        client.send(0, &payload).await?;
        Err(Error::backend(refusal.message_lossy().into_owned()))
    }

    /// Passes on what both sides say until the server has decided, and gives its verdict, which the
    /// client has heard.
    async fn converse(
        &self,
        client: &mut Client,
        mut seq: u8,
        mut auth: RelayAuth,
        response: &Secret,
        mut server: Far<'_>,
    ) -> Result<Bytes, Error> {
        let mut step = auth.client(response.expose());
        loop {
            // Whether the client has been asked something. Until then what it says is for later.
            let mut asked = false;
            match step {
                Ok(relay::Step::Server(payload)) => {
                    if let Err(error) = server.send(&payload).await {
                        return Err(fail(client, seq, error).await);
                    }
                }
                Ok(relay::Step::Client(payload)) => {
                    seq = client.send(seq, &payload).await?;
                    asked = true;
                }
                Ok(relay::Step::Tell(payload)) => seq = client.send(seq, &payload).await?,
                Ok(relay::Step::Verdict(payload)) => {
                    client.send(seq, &payload).await?;
                    return Ok(payload);
                }
                Err(error) => return Err(denied(client, seq, &refusal(&error)).await),
            }
            step = tokio::select! {
                biased;
                payload = server.receive() => match payload {
                    Ok(payload) => auth.server(&payload),
                    Err(error) => return Err(fail(client, seq, error).await),
                },
                message = client.said(seq, self.max_packet), if asked => {
                    let message = message?;
                    seq = message.next_seq;
                    auth.client(&message.payload())
                }
            };
        }
    }

    /// What the two ways let others see, and the key for a client that needs one.
    async fn hops(&self, client: &Client, server: Channel) -> relay::Hops {
        let client = client.io.channel();
        let needed = client != Channel::Tls && server == Channel::Tls;
        // Without it, a client that needs it is told that its password cannot be read.
        let key = if needed { self.key.get().await } else { None };
        relay::Hops { client, server, key }
    }
}

/// The status that the server lets the session in with.
fn accepted(verdict: &[u8], capabilities: Capabilities) -> Result<Status, Error> {
    match ErrPacket::decode(verdict) {
        Ok(refusal) => {
            Err(Error::client(format!("the server refuses the login: error {}", refusal.code)))
        }
        Err(_) => Ok(OkPacket::decode(verdict, capabilities).map_err(Error::backend)?.status),
    }
}

/// The stack on the session's connection, which is the only one that it gets.
fn bottom(context: &Context, link: Link, account: Account, id: u32, target: &Target) -> Stack {
    let dispatch = Dispatch::on(context.shared.clone(), account, id, target.clone(), link);
    context.shared.chain.session(dispatch)
}

/// All servers that such a session can use.
fn alone(target: &Target) -> Topology {
    let servers = vec![target.server.clone()];
    Topology::new(vec![Hostgroup { id: target.hostgroup, name: None, servers }])
}

fn name(user: &[u8]) -> Arc<str> {
    String::from_utf8_lossy(user).into()
}

fn schema(name: Vec<u8>) -> Option<Bytes> {
    (!name.is_empty()).then(|| name.into())
}

/// Tells the client that the server is lost to it.
async fn fail(client: &mut Client, seq: u8, error: ConnectError) -> Error {
    let error = Error::backend(error.to_string()).with_code(code::CONNECT_FAILED, *b"08S01");
    // That the client may not hear it changes nothing.
    let _ = refuse(client, seq, &packet(&error)).await;
    error
}

fn packet(error: &Error) -> ErrPacket {
    let code = ErrorCode { code: error.code(), sqlstate: error.sqlstate() };
    ErrPacket::new(code, error.message())
}

fn refusal(error: &RelayError) -> ErrPacket {
    let code = match error {
        RelayError::Exposed(_) => SECURE_TRANSPORT_REQUIRED,
        RelayError::Foreign | RelayError::Key(_) => {
            ErrorCode { code: code::CONNECT_FAILED, sqlstate: *b"08S01" }
        }
        RelayError::Malformed(_) | RelayError::Endless => codes::ER_HANDSHAKE_ERROR,
    };
    ErrPacket::new(code, error.to_string())
}
