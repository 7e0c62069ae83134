//! A client's login: greeting, TLS, authentication, schema.

mod admission;
mod conversation;
mod entry;
mod greeted;
mod key;
mod opening;

pub(crate) use {conversation::broke_off, key::ProcessKey};
pub(super) use {
    conversation::{bad_handshake, denied},
    greeted::Greeted,
    opening::compression,
};

use super::{
    Client, Context,
    relay::{Relay, Relayed},
    stack,
};
use crate::{
    backend::released,
    config::ProxyProtocol,
    greeter::Greeter,
    tls::{Acceptor, Watched},
    users::{Admitted, Users},
};
use admission::Claim;
use bytes::BytesMut;
use chain::{
    Error, HostgroupId, Session, Stack,
    command::Asker,
    session::{Peer, View},
};
use entry::enter;
use std::{sync::Arc, time::Duration};
use wire::{
    auth::Plugin, command::ChangeUser, err::ErrorCode, login::LoginRequest, ok::OkPacket,
    packet::Message, status::Status,
};

/// What a listener knows about logins.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) greeter: Arc<Greeter>,
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
    /// From connecting until logged in.
    pub(crate) timeout: Duration,
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

/// Who takes a session into its schema.
pub(crate) const LOGIN: Asker = Asker::Filter("login");

/// How often a change of user may be refused on a connection that goes on; MariaDB's number.
const REFUSALS: u8 = 3;

/// MySQL's error for a client that must use TLS and does not.
pub(super) const SECURE_TRANSPORT_REQUIRED: ErrorCode =
    ErrorCode { code: 3159, sqlstate: *b"HY000" };

impl LoggedIn {
    /// Whether a server has let the client in.
    pub(crate) fn is_relayed(&self) -> bool {
        self.relayed.is_some()
    }
}

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
            client.compress(method, entered.session.capabilities);
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
        // Whoever logs in gets no connection of the user before, and finds none of its locks.
        released(used).await;
        match self.open(client, context, greeted.clone(), peer, claim).await {
            // MySQL closes the connection then; MariaDB keeps it for the user before, reset, unless
            // that happens again and again.
            Err(error) if greeted.greeting.is_mariadb() && refusals < REFUSALS => {
                let Some(user) = &admitted else { return Err(error) };
                tracing::debug!(session = session.id, %error, "change of user refused");
                let user = user.user();
                let stack = stack(context, &user.backend, user.multiplex, session.id);
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
        let (admitted, auth, seq) = self.admit(client, &claim, greeting, peer).await?;
        let info = greeted.proof(&auth).unwrap_or_default();
        drop(auth);
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
            sticky: user.sticky_backend,
            fast_forward: user.fast_forward,
            topology: context.topology.clone(),
        });
        let mut stack = stack(context, &user.backend, user.multiplex, session.id);
        let schema = request.schema;
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
}
