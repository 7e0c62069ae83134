//! `GET /overview`: all that a person wants to see at once; `GET /overview/stream` again and again.

use super::{
    Facts, Status, chains,
    chains::{ChainReport, RuleReport},
    digests,
    guard::{Refusal, Refused, refuse},
    servers::{PoolReport, Servers, pool_reports},
    sessions::{PinReport, SessionList, busiest, pinned},
};
use crate::{backend::health::report::Happened, digests::DigestReport, metrics::Totals};
use axum::{
    Extension, Json,
    extract::State,
    http::StatusCode,
    response::sse::{Event, KeepAlive, Sse},
};
use futures_util::{Stream, StreamExt, stream};
use serde::Serialize;
use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Interval, MissedTickBehavior},
};
use tokio_util::sync::CancellationToken;
use utoipa::ToSchema;

/// All that a person wants to see at once.
#[derive(Serialize, ToSchema)]
pub(super) struct Overview {
    /// Seconds since 1970.
    unix_time: f64,
    status: Status,
    totals: Totals,
    servers: Servers,
    pools: Vec<PoolReport>,
    /// Those at work first, at most 50.
    sessions: SessionList,
    pins: Vec<PinReport>,
    chains: Vec<ChainReport>,
    /// At most 200.
    rules: Vec<RuleReport>,
    /// Those that took most time, at most 50; `null` if they are not counted.
    digests: Option<Vec<DigestReport>>,
    /// The last 50 of all servers, the newest first.
    events: Vec<ServerEvent>,
}

/// Something that has happened to a server.
#[derive(Serialize, ToSchema)]
struct ServerEvent {
    server: Arc<str>,
    #[serde(flatten)]
    event: Happened,
}

/// Who is sent overviews.
#[derive(Clone)]
pub(super) struct Streams {
    places: Arc<Semaphore>,
    ended: CancellationToken,
}

/// How many may be sent overviews at once.
const PLACES: usize = 16;

/// How often.
const INTERVAL: Duration = Duration::from_secs(1);

impl Streams {
    /// Nobody yet. All streams end when `ended` is cancelled.
    pub(super) fn new(ended: CancellationToken) -> Self {
        Self { places: Arc::new(Semaphore::new(PLACES)), ended }
    }
}

/// What there is, all at once
#[utoipa::path(get, path = "/overview", tag = "seeing", responses((status = 200, body = Overview)))]
pub(super) async fn once(State(facts): State<Arc<Facts>>) -> Json<Overview> {
    Json(Overview::of(&facts))
}

/// What there is, each second, as server-sent events
#[utoipa::path(get, path = "/overview/stream", tag = "seeing", responses(
    (status = 200, description = "An overview in each event", content_type = "text/event-stream", body = Overview),
    (status = 503, description = "16 are sent to already", body = Refusal),
))]
pub(super) async fn stream(
    State(facts): State<Arc<Facts>>,
    Extension(streams): Extension<Streams>,
) -> Result<Sse<impl Stream<Item = Result<Event, Infallible>>>, Refused> {
    let Ok(place) = streams.places.try_acquire_owned() else {
        let text = format!("{PLACES} overviews are being watched already");
        return Err(refuse(StatusCode::SERVICE_UNAVAILABLE, text));
    };
    let mut interval = tokio::time::interval(INTERVAL);
    interval.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let overviews = stream::unfold((facts, interval, place), next);
    let overviews = overviews.take_until(streams.ended.cancelled_owned());
    Ok(Sse::new(overviews).keep_alive(KeepAlive::default()))
}

type Watching = (Arc<Facts>, Interval, OwnedSemaphorePermit);

async fn next(mut watching: Watching) -> Option<(Result<Event, Infallible>, Watching)> {
    let (facts, interval, _) = &mut watching;
    interval.tick().await;
    let event = Event::default().json_data(Overview::of(facts)).ok()?;
    Some((Ok(event), watching))
}

impl Overview {
    fn of(facts: &Facts) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let servers = Servers::of(facts);
        let happened = servers.servers.iter().flat_map(|server| {
            let event = |event: &Happened| ServerEvent {
                server: server.name.clone(),
                event: event.clone(),
            };
            server.events.iter().map(event)
        });
        let mut events: Vec<_> = happened.collect();
        events.sort_by(|one, other| other.event.unix_time.total_cmp(&one.event.unix_time));
        events.truncate(50);
        let mut rules = chains::hits(facts);
        rules.truncate(200);
        Self {
            unix_time: now.as_secs_f64(),
            status: Status::of(facts),
            totals: facts.metrics.totals(),
            pools: pool_reports(facts),
            sessions: busiest(facts, 50),
            pins: pinned(facts),
            chains: chains::reports(facts),
            rules,
            digests: digests::most(facts, digests::By::Time, 50),
            events,
            servers,
        }
    }
}
