//! Whether a client is who it says it is, and may connect as it does.

use super::{Entrance, SECURE_TRANSPORT_REQUIRED, denied};
use crate::{
    config::{Require, User},
    session::Client,
    users::Admitted,
};
use chain::{Error, session::Peer};
use wire::{
    auth::{Plugin, ServerAuth, random_nonce, server},
    capability::Capabilities,
    err::{ErrPacket, codes},
    greeting::Greeting,
    login::LoginRequest,
};

/// Who a client says it is, by a login or by COM_CHANGE_USER.
pub(super) struct Claim {
    pub(super) request: LoginRequest,
    /// The login's has 8 bits, COM_CHANGE_USER's 16.
    pub(super) collation: u16,
    /// A COM_CHANGE_USER. Servers do not look at the response that it carries and ask anew.
    pub(super) again: bool,
    /// The sequence id of the next packet to the client.
    pub(super) seq: u8,
}

impl Entrance {
    /// Finds out whether the client is who it says it is, and has room for it. With what it has
    /// shown, and the sequence id of the next packet to it.
    pub(super) async fn admit(
        &self,
        client: &mut Client,
        claim: &Claim,
        greeting: &Greeting,
        peer: Peer,
    ) -> Result<(Admitted, ServerAuth, u8), Error> {
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
        let mut auth = if anew {
            ServerAuth::switched(expected)
        } else {
            ServerAuth::new(expected, &named, can_switch, request.auth_response.expose())
        };
        let (accepted, using) = self.ask(client, &mut auth, &mut seq).await?;
        let name = String::from_utf8_lossy(&request.user);
        let accepted = accepted && user.is_some_and(|user| self.suffices(client, user.user()));
        let Some(user) = user.filter(|_| accepted) else {
            let text =
                format!("Access denied for user '{name}'@'{peer}' (using password: {using})");
            let refusal = ErrPacket::new(codes::ER_ACCESS_DENIED_ERROR, text);
            return Err(denied(client, seq, &refusal).await);
        };
        match user.admit() {
            Some(admitted) => Ok((admitted, auth, seq)),
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

    /// Asks the client for what its plugin takes. Whether it is who it says it is, and whether it
    /// has used a password, in the words of ERR 1045.
    async fn ask(
        &self,
        client: &mut Client,
        auth: &mut ServerAuth,
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
