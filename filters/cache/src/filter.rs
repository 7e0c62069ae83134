//! One session's filter.

use crate::{
    kept::Store,
    key::{self, Key},
    seat::Seat,
};
use chain::{
    Body, Command, End, Filter, Frame, Next, Reply, Result,
    command::Asker,
    counters::{Counter, Family},
    facts::{Caching, Explain, FastForward, Hints, Pin, RuleVerdict, Statement},
};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;
use wire::{
    capability::Capabilities,
    command::CommandCode,
    eof::EofPacket,
    ok::OkPacket,
    packet::{HEADER_LEN, Header},
    status::Status,
};

/// Answers what it may from memory.
pub(crate) struct Cache {
    store: Arc<Store>,
    counted: Counted,
    max_result: usize,
    seat: Seat,
}

/// What has become of statements that were to be answered from memory.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    hit: Counter,
    miss: Counter,
    /// Not asked: the statement, or the session's state, forbids it.
    unfit: Counter,
}

impl Counted {
    pub(crate) fn new(lookups: &Family) -> Self {
        let [hit, miss, unfit] = ["hit", "miss", "unfit"].map(|result| lookups.counter(result));
        Self { hit, miss, unfit }
    }
}

impl Cache {
    pub(crate) fn new(store: Arc<Store>, counted: Counted, max_result: usize, seat: Seat) -> Self {
        Self { store, counted, max_result, seat }
    }
}

impl Filter for Cache {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        self.seat.sees(&command);
        let Some(asked) = asked(&command) else { return next.run(command).await };
        let unfit = self.unfit(&command);
        if let Some(explain) = command.fact::<Explain>() {
            let ttl = u64::try_from(asked.ttl.as_millis()).unwrap_or(u64::MAX);
            explain.note("cache", json!({ "ttl_ms": ttl, "not_because": unfit }));
            return next.run(command).await;
        }
        let statement = command.fact::<Statement>().filter(|_| unfit.is_none());
        let Some(key) = statement.and_then(|statement| key::key(&command, statement)) else {
            self.counted.unfit.add_one();
            return next.run(command).await;
        };
        if let Some(answer) = self.store.get(&key, asked.ttl) {
            self.counted.hit.add_one();
            return Ok(answer.into());
        }
        self.counted.miss.add_one();
        let capabilities = command.session().capabilities;
        let lasting = key::lasting(command.session().status());
        let since = Instant::now();
        let reply = next.run(command).await?;
        let gather = Gather {
            store: self.store.clone(),
            key: Some(key),
            packets: Vec::new(),
            limit: self.max_result,
            empty: asked.empty,
            capabilities,
            lasting,
            since,
        };
        Ok(reply.map_body(|body| gather.watch(body)))
    }

    fn inherit(&mut self, from: &mut Self, _: bool) {
        self.seat = from.seat;
    }
}

/// What a rule or a hint wants, for a command of the client's that runs a text.
fn asked(command: &Command) -> Option<Caching> {
    if command.code() != CommandCode::QUERY || command.asker() != Asker::Client {
        return None;
    }
    let ruled = command.fact::<RuleVerdict>().and_then(|verdict| verdict.cache);
    let asked = match command.fact::<Hints>() {
        Some(Hints { cache_ttl: Some(ttl), beats_rules, .. })
            if *beats_rules || ruled.is_none() =>
        {
            Caching { ttl: *ttl, empty: ruled.is_none_or(|rule| rule.empty) }
        }
        _ => ruled?,
    };
    (asked.ttl > Duration::ZERO).then_some(asked)
}

impl Cache {
    /// Why the answer must be a server's, and must not be anybody else's.
    fn unfit(&self, command: &Command) -> Option<&'static str> {
        let session = command.session();
        let switches = |verdict: &RuleVerdict| verdict.switch_to_fast_forward;
        if session.in_transaction() || !session.status().contains(Status::AUTOCOMMIT) {
            return Some("a transaction is open, or begins with any statement");
        }
        if command.fact::<FastForward>().is_some()
            || command.fact::<RuleVerdict>().is_some_and(switches)
        {
            return Some("the session leaves the chain with it");
        }
        if command.fact::<Pin>().is_some() {
            return Some("the session has state that only one connection has");
        }
        if !self.seat.is_known() {
            return Some("the session has set something that is in no log above this filter");
        }
        let statement = command.fact::<Statement>()?;
        let fits = statement.get().any_server()
            && !statement.get().multi
            && sql::is_repeatable(statement.text(), statement.dialect());
        (!fits).then_some("it is no read that any server would answer the same way, at any time")
    }
}

/// Keeps a result as it passes.
struct Gather {
    store: Arc<Store>,
    /// Taken once the result is known to be none that is kept.
    key: Option<Key>,
    packets: Vec<u8>,
    limit: usize,
    empty: bool,
    capabilities: Capabilities,
    lasting: Status,
    since: Instant,
}

impl Gather {
    fn watch(mut self, body: Body) -> Body {
        body.map(move |frame| {
            match &frame {
                Frame::Packets(run) if self.key.is_some() => {
                    if self.packets.len() + run.len() > self.limit {
                        self.key = None;
                        self.packets = Vec::new();
                    } else {
                        self.packets.extend_from_slice(run);
                    }
                }
                Frame::End(end) => self.end(end),
                Frame::Packets(_) => {}
                Frame::Upload(_) => self.key = None,
            }
            frame
        })
    }

    fn end(&mut self, end: &End) {
        let Some(key) = self.key.take() else { return };
        let packets = std::mem::take(&mut self.packets);
        if self.is_whole(&packets, end) {
            let end = End { packet: bytes::Bytes::copy_from_slice(&end.packet), ..end.clone() };
            self.store.put(key, packets, end, self.since);
        }
    }

    /// Whether this is one result set, numbered as any reply to COM_QUERY is, whose end says
    /// nothing but that it is over: no error, no warning, no change of the session, and the state
    /// that the session was in before.
    fn is_whole(&self, packets: &[u8], end: &End) -> bool {
        let deprecates_eof = self.capabilities.contains(Capabilities::DEPRECATE_EOF);
        let Some(payload) = end.packet.get(HEADER_LEN..) else { return false };
        let warnings = if deprecates_eof {
            OkPacket::decode(payload, self.capabilities).map(|ok| (ok.warnings, ok.status))
        } else {
            EofPacket::decode(payload).map(|eof| (eof.warnings, eof.status))
        };
        let Ok((0, status)) = warnings else { return false };
        let other = Status::IN_TRANS
            | Status::IN_TRANS_READONLY
            | Status::MORE_RESULTS_EXISTS
            | Status::CURSOR_EXISTS;
        end.error.is_none()
            && !end.tracked
            && !status.intersects(other)
            && key::lasting(status) == self.lasting
            && Header::parse(packets).is_some_and(|first| first.seq == 1)
            && (self.empty || rows(packets, deprecates_eof) > 0)
    }
}

/// The number of rows in a result set without its last packet; 0 if it cannot be told.
fn rows(packets: &[u8], deprecates_eof: bool) -> usize {
    let mut count = 0_usize;
    let mut columns = 0;
    let mut rest = packets;
    while let Some(header) = Header::parse(rest) {
        let Some(payload) = rest.get(HEADER_LEN..HEADER_LEN + header.len) else { break };
        if count == 0 {
            // At most 4,096 columns: one byte, or 0xFC and two.
            columns = match *payload {
                [0xFC, low, high, ..] => usize::from(u16::from_le_bytes([low, high])),
                [one, ..] => usize::from(one),
                [] => return 0,
            };
        }
        count += 1;
        rest = &rest[HEADER_LEN + payload.len()..];
    }
    count.saturating_sub(1 + columns + usize::from(!deprecates_eof))
}
