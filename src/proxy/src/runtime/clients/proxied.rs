//! Clients of load balancers, which say whose a connection is before it begins.

use super::{Common, too_many};
use crate::session::{Client, header::is_bad};
use chain::session::Peer;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use wire::{
    err::{ErrPacket, codes},
    proxy_protocol::Source,
};

/// Reads the header that a connection from `balancer` must begin with, and notes whose the
/// connection is: a peer, or `Some(None)` if it is the load balancer's own, as its checks are. Those
/// may break off as often as they like. `None` if there is no good header by the deadline; the
/// other side has been told then.
pub(super) async fn named(
    client: &mut Client,
    balancer: Peer,
    common: &Common,
    deadline: Instant,
    waited: Duration,
) -> Option<Option<Peer>> {
    let Ok(pending) = common.pending.try_acquire() else {
        client.turn_away(&too_many()).await;
        return None;
    };
    let header = timeout_at(deadline, client.header()).await;
    drop(pending);
    let reason = match header {
        Ok(Ok(Source::Own)) => return Some(None),
        Ok(Ok(Source::Tcp { from, to })) => {
            client.destination = Some(to);
            return Some(Some(Peer::Tcp(from.ip(), from.port())));
        }
        Ok(Err(error)) => {
            if is_bad(&error) {
                client.turn_away(&bad_handshake(&error.message())).await;
            }
            error.to_string()
        }
        Err(_) => {
            let reason = format!("no PROXY protocol header within {waited:?}");
            client.turn_away(&bad_handshake(&reason)).await;
            reason
        }
    };
    common.metrics.login_failures.inc();
    tracing::debug!(peer = %balancer, reason, "not whose connection it says");
    None
}

/// For whoever has connected without the load balancer in between.
fn bad_handshake(reason: &str) -> ErrPacket {
    let text = format!(
        "Bad handshake: {reason}; connections from this address must begin with one, as \
         proxy_protocol of the listener says"
    );
    ErrPacket::new(codes::ER_HANDSHAKE_ERROR, text)
}
