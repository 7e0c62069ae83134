//! Who a connection says it is for: connection attributes, and the login on a connection that has
//! one.

use super::{
    connect::{ConnectError, authenticate},
    link::Link,
    schema::Schema,
};
use crate::config::Account;
use bytes::BytesMut;
use chain::{Session, session::Peer};
use std::net::SocketAddr;
use tokio::io::AsyncWriteExt;
use wire::{
    attributes::Attributes, auth::ClientAuth, command::ChangeUser, packet::put_packet,
    proxy_protocol::Source,
};

/// What a server is told about a session: the client's own attributes, and then the proxy's. All
/// of the proxy's are the same for every session of a client's host: one more that is not, and no
/// connection could be used again without a login.
pub(crate) fn attributes(session: &Session) -> Attributes {
    let ours = [
        ("_towpath_version", env!("CARGO_PKG_VERSION").to_owned()),
        ("_towpath_client_host", session.peer.to_string()),
    ];
    session.attributes.joined(&ours.into_iter().collect())
}

/// Whose a connection is, for servers that are told by a header in front of it. A client on a unix
/// socket has no address but the proxy's own.
pub(crate) fn source(peer: Peer, destination: Option<SocketAddr>) -> Source {
    match (peer, destination) {
        (Peer::Tcp(ip, port), Some(to)) => Source::Tcp { from: SocketAddr::new(ip, port), to },
        _ => Source::Own,
    }
}

impl Link {
    /// Whether the connection can be the session's without a login of its own. Nothing but a login
    /// tells other attributes, or takes a schema away.
    pub(super) fn fits(&self, session: &Session, attributes: &Attributes) -> bool {
        self.attributes == *attributes && (session.schema.is_some() || self.schema == Schema::None)
    }

    /// COM_CHANGE_USER to the account that the connection has already: it is as new, with these
    /// attributes.
    pub(super) async fn log_in_anew(
        &mut self,
        account: &Account,
        attributes: Attributes,
    ) -> Result<(), ConnectError> {
        let password = (*account.password).clone();
        let channel = self.io.channel();
        let mut auth = ClientAuth::new(password, self.plugin.clone(), self.nonce, channel)
            .capabilities(self.capabilities);
        let change = ChangeUser {
            user: account.user.as_bytes().to_vec(),
            auth_response: auth.response(),
            schema: Vec::new(),
            collation: self.key.collation,
            plugin: Some(auth.plugin().clone()),
            attributes: attributes.clone(),
        };
        let (mut payload, mut packet) = (BytesMut::new(), BytesMut::new());
        change.encode(&mut payload, self.capabilities);
        put_packet(&mut packet, 0, &payload);
        self.io.write_all(&packet).await?;
        self.io.flush().await?;
        authenticate(&mut self.io, &mut BytesMut::new(), &mut auth).await?;
        self.attributes = attributes;
        self.schema = Schema::None;
        (self.was_reset, self.is_named) = (false, false);
        Ok(())
    }
}
