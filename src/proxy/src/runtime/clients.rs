//! Clients, from the moment that they connect.

mod proxied;

use super::{Common, Door};
use crate::{
    backend::{identity, relay::Unmet, sessions::Killed},
    forward::{self, Grace, Parting, Start, forward},
    session::{
        Client, Context, Ended, Place,
        login::{LoggedIn, broke_off},
        serve,
    },
};
use chain::{HostgroupId, session::Peer};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{sync::OwnedSemaphorePermit, time::Instant};
use wire::err::{ErrPacket, ErrorCode, codes};

/// How long accepting pauses when the process has no file descriptors left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Accepts clients until the proxy drains.
pub(super) async fn accept(door: Arc<Door>, common: Arc<Common>) {
    let Some(acceptor) = door.acceptor() else { return };
    loop {
        let tcp = door.tcp.load_full();
        let accepted = tokio::select! {
            biased;
            () = common.draining.given() => return door.close(),
            () = door.closing.given() => return door.close(),
            accepted = acceptor.accept(&tcp) => accepted,
        };
        match accepted {
            Ok((io, peer)) => {
                common.metrics.accepted.inc();
                let client = Client::new(io, &common.budget);
                let place = Place::new(&door.context);
                common.sessions.spawn(arrive(client, peer, place, common.clone()));
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A client that has connected and has said nothing yet.
struct Arrived {
    client: Client,
    peer: Peer,
    /// Whether logins that break off count against the peer.
    blamed: bool,
    /// Its login must be complete by then.
    deadline: Instant,
    room: OwnedSemaphorePermit,
}

/// One client from its first byte to its last, if there is a place for it.
async fn arrive(mut client: Client, mut peer: Peer, place: Place, common: Arc<Common>) {
    let entrance = &place.context.entrance;
    let Ok(room) = common.room.clone().try_acquire_owned() else {
        return client.turn_away(&too_many()).await;
    };
    let deadline = Instant::now() + entrance.timeout;
    let mut blamed = true;
    if entrance.proxied.expects_header(peer) {
        let waits = entrance.timeout;
        let named = proxied::named(&mut client, peer, &common, deadline, waits).await;
        let Some(named) = named else { return };
        blamed = named.is_some();
        peer = named.unwrap_or(peer);
    }
    if blamed && common.hosts.refuse(peer) {
        common.metrics.hosts_refused.inc();
        return client.turn_away(&entrance.greeter.host_is_blocked(peer)).await;
    }
    if let Some(hostgroup) = entrance.untouched {
        let _held = (room, common.metrics.session());
        return untouched(client, peer, hostgroup, &place.context, &common).await;
    }
    session(Arrived { client, peer, blamed, deadline, room }, place, common).await;
}

/// A client's session, from its login on.
async fn session(arrived: Arrived, mut place: Place, common: Arc<Common>) {
    let Arrived { mut client, peer, blamed, deadline, room } = arrived;
    let Ok(pending) = common.pending.try_acquire() else {
        return client.turn_away(&too_many()).await;
    };
    let counted = common.metrics.session();
    let id = common.ids.new_id();
    let (context, entrance) = (place.context.clone(), place.context.entrance.clone());
    let login = entrance.login(&mut client, &context, peer, id);
    let login = tokio::time::timeout_at(deadline, login).await;
    drop(pending);
    let mut logged_in = match login {
        Ok(Ok(logged_in)) => logged_in,
        Ok(Err(error)) => {
            if blamed && broke_off(&error) {
                common.hosts.broke_off(peer);
            }
            return not_logged_in(client, &common, id, peer, error.to_string()).await;
        }
        Err(_) => {
            if blamed {
                common.hosts.broke_off(peer);
            }
            entrance.timed_out(&mut client).await;
            let reason = format!("no login within {:?}", entrance.timeout);
            return not_logged_in(client, &common, id, peer, reason).await;
        }
    };
    common.hosts.logged_in(peer);
    let on_roll = common.roll.enter(&logged_in.session, context.shared.chain.name());
    let live = on_roll.live();
    client.live = Some(live.clone());
    drop((context, entrance));
    let ended = loop {
        let LoggedIn { session, stack, .. } = &mut logged_in;
        let ended = tokio::select! {
            biased;
            // What comes behind an operator's word is not begun.
            () = live.ended.given() => Ended::Backend(chain::Error::backend(Killed)),
            ended = serve(&mut client, &mut place, session, stack) => ended,
            () = common.cut.given() => Ended::Drained,
        };
        let Ended::ChangesUser(message) = ended else { break ended };
        if !logged_in.is_relayed() {
            place.renew();
        }
        let context = place.context.clone();
        match context.entrance.change_user(&mut client, &context, logged_in, &message).await {
            Ok(changed) => logged_in = changed,
            Err(error) => {
                tracing::debug!(session = id, %peer, %error, "change of user failed");
                return client.close().await;
            }
        }
    };
    let ended = match ended {
        Ended::Forwarded(parting) => {
            let LoggedIn { stack, session, admitted, .. } = logged_in;
            // The chain and all that it knew of the session.
            drop((stack, session));
            let grace = Grace(place.context.shared.settings.load().grace_close);
            drop(place);
            live.forwarded.store(true, Relaxed);
            let ended = tokio::select! {
                biased;
                () = live.ended.given() => Ended::Drained,
                ended = forwarded(&mut client, &common, *parting, grace) => ended,
            };
            drop((admitted, room, counted));
            ended
        }
        ended => {
            // Its place is free, whatever its client does.
            drop((logged_in, room, counted));
            ended
        }
    };
    over(client, id, peer, ended).await;
}

/// Closes the connection of a client whose session has ended, where it is still open.
async fn over(mut client: Client, id: u32, peer: Peer, ended: Ended) {
    match &ended {
        Ended::Client(error) | Ended::Backend(error) => {
            tracing::debug!(session = id, %peer, %error, "session ended");
            client.close().await;
        }
        // What the client sends at this moment does not reset the connection.
        Ended::Drained => client.close().await,
        _ => {}
    }
}

/// A client that is not let in, and has been told.
async fn not_logged_in(mut client: Client, common: &Common, id: u32, peer: Peer, reason: String) {
    common.metrics.login_failures.inc();
    tracing::debug!(session = id, %peer, reason, "login failed");
    client.close().await;
}

/// A client of which nothing is read: its bytes go to a server of `hostgroup`, and back.
async fn untouched(
    mut client: Client,
    peer: Peer,
    hostgroup: HostgroupId,
    context: &Context,
    common: &Common,
) {
    let shared = &context.shared;
    let Some(group) = context.topology.hostgroup(hostgroup) else { return };
    let source = identity::source(peer, client.destination);
    let settings = shared.settings.load_full();
    let reached = match shared.backends.reach(group, &settings, source).await {
        Ok(reached) => reached,
        Err(Unmet::Refused(refusal)) => return client.turn_away(&refusal).await,
        Err(Unmet::Failed(error)) => {
            common.metrics.error(error.origin());
            let code = ErrorCode { code: error.code(), sqlstate: error.sqlstate() };
            return client.turn_away(&ErrPacket::new(code, error.message())).await;
        }
    };
    let (mut io, offline) = (reached.io, &reached.leash.forwarded());
    let metrics = &common.metrics.forwarded;
    metrics.sessions.inc();
    let grace = Grace(settings.grace_close);
    let joined = forward::join(&mut client, &mut io, Start::default(), offline, grace, metrics);
    tokio::select! {
        biased;
        ended = joined => tracing::debug!(?ended, "untouched session ended"),
        () = common.cut.given() => {}
    }
    metrics.sessions.dec();
}

/// The rest of a session that has left the chain.
async fn forwarded(client: &mut Client, common: &Common, parting: Parting, grace: Grace) -> Ended {
    let metrics = &common.metrics.forwarded;
    metrics.sessions.inc();
    let forwarding = forward(client, parting, grace, metrics);
    let ended = tokio::select! {
        biased;
        ended = forwarding => ended,
        () = common.cut.given() => Ok(forward::Ended::Offline),
    };
    metrics.sessions.dec();
    match ended {
        Ok(forward::Ended::Closed) => Ended::Left,
        Ok(forward::Ended::Offline) => Ended::Drained,
        Ok(forward::Ended::Late) => {
            Ended::Client(chain::Error::client("it has not read in time what its server had sent"))
        }
        Err(error) => Ended::Backend(chain::Error::backend(error)),
    }
}

/// The refusal of a client for whom there is no place.
fn too_many() -> ErrPacket {
    ErrPacket::new(codes::ER_CON_COUNT_ERROR, "Too many connections")
}
