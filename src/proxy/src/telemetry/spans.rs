//! Spans of what was noted, named as OpenTelemetry's conventions for databases have it.
//!
//! Source: OpenTelemetry, "Semantic conventions for database client spans" (stable), and those of
//! MySQL and MariaDB.

use super::{
    sampling::Tracing,
    trail::{Ended, Exchange, Record},
};
use crate::{backend::connect::Vendor, config::QueryText};
use chain::{
    Origin, Session,
    command::Asker,
    facts::{Lag, SessionCommand},
    session::Peer,
};
use opentelemetry::{
    Array, Context, KeyValue, Value,
    trace::{
        Event, Span as _, SpanBuilder, SpanContext, SpanKind, Status, TraceContextExt, Tracer,
    },
};
use sql::{DIGEST_LIMIT, Dialect, SUMMARY_LIMIT, Verb};
use std::{
    borrow::Cow,
    time::{Instant, SystemTime},
};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use wire::command::CommandCode;

/// Tells the collector of a command: in the span `live` where there is one, else in a new one.
pub(super) fn tell(
    tracing: &Tracing,
    record: &Record,
    parent: Option<&SpanContext>,
    live: Option<&tracing::Span>,
) {
    let texts = Texts::of(record, tracing.text);
    let (attributes, status) = (server_attributes(record, &texts), status(record));
    let over = record.time(record.over.unwrap_or(record.began.1));
    let context = match live {
        Some(live) => {
            let context = live.context();
            context.span().update_name(texts.summary.clone());
            attributes.into_iter().for_each(|it| live.set_attribute(it.key, it.value));
            live.set_status(status);
            for Event { name, timestamp, .. } in events(record) {
                live.add_event_with_timestamp(name, timestamp, Vec::new());
            }
            context
        }
        None => {
            let above = Context::new();
            let above = match parent {
                Some(parent) => above.with_remote_span_context(parent.clone()),
                None => above,
            };
            let builder = SpanBuilder::from_name(texts.summary.clone())
                .with_kind(SpanKind::Server)
                .with_start_time(record.began.0)
                .with_attributes(attributes)
                .with_events(events(record));
            let mut span = tracing.tracer.build_with_context(builder, &above);
            span.set_status(status);
            // Its children have to know it; it ends behind them.
            above.with_span(span)
        }
    };
    let child = |builder: SpanBuilder, status: Status, end: SystemTime| {
        let mut span = tracing.tracer.build_with_context(builder, &context);
        span.set_status(status);
        span.end_with_timestamp(end);
    };
    for checkout in &record.checkouts {
        let server = checkout.server.iter();
        let builder = SpanBuilder::from_name("checkout")
            .with_kind(SpanKind::Client)
            .with_start_time(record.time(checkout.began))
            .with_attributes(server.map(|name| KeyValue::new("towpath.server", name.to_string())));
        let failed = || Status::error("no connection");
        let status = checkout.server.as_ref().map_or_else(failed, |_| Status::Unset);
        child(builder, status, record.time(checkout.ended));
    }
    for exchanges in record.exchanges.chunk_by(belong_together) {
        let (builder, status, end) = exchange(record, exchanges, &texts);
        child(builder, status, end);
    }
    if live.is_none() {
        context.span().end_with_timestamp(over);
    }
}

/// What may be told of a command's text.
struct Texts {
    summary: Cow<'static, str>,
    query: Option<String>,
}

impl Texts {
    fn of(record: &Record, told: QueryText) -> Self {
        let statement = record.statement.as_ref();
        // The statement may be one that was prepared earlier.
        let text = record.text.as_ref().or(statement.map(|statement| statement.text()));
        let dialect = statement.map_or(Dialect::default(), |statement| statement.dialect());
        let summary = text.map(|text| sql::summary(text, dialect)).filter(|it| !it.is_empty());
        let query = text.and_then(|text| match (told, statement) {
            (QueryText::None, _) => None,
            (QueryText::Full, _) => Some(lossy(text)),
            (QueryText::Digest, Some(statement)) => Some(lossy(&statement.digest().text)),
            (QueryText::Digest, None) => {
                Some(lossy(&sql::digest(text, dialect, DIGEST_LIMIT).text))
            }
        });
        let name = || Cow::Borrowed(record.code.name());
        Self { summary: summary.map_or_else(name, Cow::Owned), query }
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

/// What one connection lacked of one log, with what that needs.
fn belong_together(one: &Exchange, other: &Exchange) -> bool {
    is_catch_up(one) && is_catch_up(other) && one.server == other.server && other.lag.is_none()
}

fn is_catch_up(exchange: &Exchange) -> bool {
    exchange.asker == Asker::Filter("catch-up")
}

/// How many session commands were brought to connections that lacked them.
fn deferred(record: &Record) -> i64 {
    let lags = record.exchanges.iter().filter_map(|exchange| exchange.lag);
    i64::try_from(lags.map(|lag| lag.entries).sum::<usize>()).unwrap_or(i64::MAX)
}

fn server_attributes(record: &Record, texts: &Texts) -> Vec<KeyValue> {
    let Record { session, .. } = record;
    let vendor = record.exchanges.last().map(|exchange| exchange.vendor);
    let vendor = vendor.or_else(|| vendor_of(session)).unwrap_or(Vendor::MySql);
    let mut all = common(record, texts, vendor);
    if let Peer::Tcp(address, port) = session.peer {
        all.push(KeyValue::new("client.address", address.to_string()));
        all.push(KeyValue::new("client.port", i64::from(port)));
    }
    all.push(KeyValue::new("towpath.session.id", i64::from(session.id)));
    all.push(KeyValue::new("towpath.command", record.code.name()));
    all.push(KeyValue::new("towpath.deferred", deferred(record)));
    all.push(KeyValue::new("towpath.predicted", record.predicted));
    if let Some(SessionCommand { class, lsn }) = record.session_command {
        let lsn = i64::try_from(lsn).unwrap_or(i64::MAX);
        all.push(KeyValue::new("towpath.session_command.class", class.as_str()));
        all.push(KeyValue::new("towpath.session_command.lsn", lsn));
    }
    all.push(KeyValue::new("towpath.fast_forward", record.fast_forward || record.forwarded));
    if !record.rules.is_empty() {
        let rules = record.rules.iter().map(|&rule| i64::from(rule)).collect();
        all.push(KeyValue::new("towpath.rule_ids", Value::Array(Array::I64(rules))));
    }
    if let Some(target) = &record.target {
        all.push(KeyValue::new("towpath.hostgroup", i64::from(target.hostgroup.0)));
        all.push(KeyValue::new("towpath.server", target.server.name.to_string()));
    }
    if let Some(mode) = record.sticky {
        all.push(KeyValue::new("towpath.sticky.mode", mode.name()));
    }
    if let Some(cause) = record.pin {
        all.push(KeyValue::new("towpath.pin", cause));
    }
    if record.left_out > 0 {
        let left_out = i64::try_from(record.left_out).unwrap_or(i64::MAX);
        all.push(KeyValue::new("towpath.exchanges_left_out", left_out));
    }
    match record.ended {
        Some(Ended::Reply { error, bytes }) => {
            all.extend(error.into_iter().flat_map(error_code));
            let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
            all.push(KeyValue::new("towpath.reply.bytes", bytes));
        }
        Some(Ended::Failed { origin, code }) => {
            all.push(KeyValue::new("db.response.status_code", code.to_string()));
            all.push(KeyValue::new("error.type", origin_name(origin)));
        }
        None if !record.fast_forward => all.push(KeyValue::new("error.type", "abandoned")),
        None => {}
    }
    all
}

/// Who has made the servers that a session begins at, if one of them has greeted.
fn vendor_of(session: &Session) -> Option<Vendor> {
    let hostgroup = session.topology.hostgroup(session.hostgroup)?;
    let is_mariadb = hostgroup.servers.iter().find_map(|server| server.profile.is_mariadb())?;
    Some(if is_mariadb { Vendor::MariaDb } else { Vendor::MySql })
}

/// What spans of both kinds say.
fn common(record: &Record, texts: &Texts, vendor: Vendor) -> Vec<KeyValue> {
    let system = match vendor {
        Vendor::MariaDb => "mariadb",
        Vendor::MySql => "mysql",
    };
    let mut all = vec![KeyValue::new("db.system.name", system)];
    if let Some(schema) = &record.session.current_schema {
        all.push(KeyValue::new("db.namespace", lossy(schema)));
    }
    if record.text.is_some() || record.statement.is_some() {
        all.push(KeyValue::new("db.query.summary", texts.summary.to_string()));
        let operation = texts.summary.split(' ').next().unwrap_or_default();
        all.push(KeyValue::new("db.operation.name", operation.to_owned()));
    }
    all.extend(texts.query.clone().map(|text| KeyValue::new("db.query.text", text)));
    all.extend(batch(record).map(|size| KeyValue::new("db.operation.batch.size", size)));
    all
}

/// How many statements its text has, where there are several.
fn batch(record: &Record) -> Option<i64> {
    let statement = record.statement.as_ref().filter(|statement| statement.get().multi)?;
    if matches!(statement.get().verb, Verb::Create | Verb::Alter) {
        // The semicolons may be those of a routine.
        return None;
    }
    let mut counted = (0, false);
    for token in sql::Lexer::new(statement.text(), statement.dialect()).filter(|it| it.is_code()) {
        let ends = token.kind == sql::Kind::Semicolon;
        counted = (counted.0 + i64::from(!ends && !counted.1), !ends);
    }
    Some(counted.0).filter(|size| *size > 1)
}

fn error_code(code: u16) -> [KeyValue; 2] {
    let text = code.to_string();
    [KeyValue::new("db.response.status_code", text.clone()), KeyValue::new("error.type", text)]
}

fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Client => "client",
        Origin::Backend => "backend",
        _ => "filter",
    }
}

fn status(record: &Record) -> Status {
    match record.ended {
        Some(Ended::Reply { error: Some(code), .. }) => Status::error(format!("error {code}")),
        Some(Ended::Failed { origin, code }) => {
            Status::error(format!("error {code} of the proxy's own ({})", origin_name(origin)))
        }
        None if !record.fast_forward => Status::error("nobody waited for the reply"),
        _ => Status::Unset,
    }
}

/// The reply's first and last bytes, as they came from the server that ran the command.
fn events(record: &Record) -> Vec<Event> {
    let own = record.exchanges.iter().rev().find(|exchange| exchange.asker == Asker::Client);
    own.into_iter().flat_map(|own| bytes_of(record, own)).collect()
}

fn bytes_of(record: &Record, exchange: &Exchange) -> impl Iterator<Item = Event> {
    let event = |name: &'static str, at: Option<Instant>| {
        Some(Event::new(name, record.time(at?), Vec::new(), 0))
    };
    let (first, last) = (event("first_byte", exchange.first), event("last_byte", exchange.ended));
    first.into_iter().chain(last)
}

/// The span of one exchange, or of several that belong together.
fn exchange(
    record: &Record,
    exchanges: &[Exchange],
    texts: &Texts,
) -> (SpanBuilder, Status, SystemTime) {
    let (first, last) = (&exchanges[0], &exchanges[exchanges.len() - 1]);
    let name = match first.asker {
        Asker::Client => texts.summary.clone(),
        Asker::Filter(filter) => filter.into(),
    };
    let mut attributes = match first.asker {
        Asker::Client => common(record, texts, first.vendor),
        Asker::Filter(_) => {
            let none = Texts { summary: "".into(), query: None };
            let mut all = common(record, &none, first.vendor);
            all.retain(|it| {
                !it.key.as_str().starts_with("db.query") && it.key.as_str() != "db.operation.name"
            });
            all.push(KeyValue::new("towpath.command", first.code.name()));
            all
        }
    };
    let (host, port) = &first.address;
    attributes.push(KeyValue::new("server.address", host.clone()));
    attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
    if let Some(peer) = first.peer {
        attributes.push(KeyValue::new("network.peer.address", peer.ip().to_string()));
        attributes.push(KeyValue::new("network.peer.port", i64::from(peer.port())));
    }
    attributes.push(KeyValue::new("towpath.server", first.server.to_string()));
    if is_catch_up(first) {
        let sent = i64::try_from(exchanges.len()).unwrap_or(i64::MAX);
        let bytes: usize = exchanges.iter().map(|one| one.bytes).sum();
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new("towpath.catch_up.commands", sent));
        attributes.push(KeyValue::new("towpath.catch_up.bytes", bytes));
    }
    if let Some(Lag { entries, piped }) = first.lag {
        let entries = i64::try_from(entries).unwrap_or(i64::MAX);
        attributes.push(KeyValue::new("towpath.catch_up.lag", entries));
        attributes.push(KeyValue::new("towpath.catch_up.piped", piped));
    }
    let lost = last.ended.is_none() && last.code != CommandCode::STMT_CLOSE;
    let status = match last.error {
        Some(code) => Status::error(format!("error {code}")),
        None if lost => Status::error("no reply"),
        None => Status::Unset,
    };
    attributes.extend(last.error.into_iter().flat_map(error_code));
    let end = last.ended.or(record.over).unwrap_or(last.began);
    let builder = SpanBuilder::from_name(name)
        .with_kind(SpanKind::Client)
        .with_start_time(record.time(first.began))
        .with_attributes(attributes)
        .with_events(exchanges.iter().flat_map(|one| bytes_of(record, one)).collect());
    (builder, status, record.time(end))
}

const _: () = assert!(SUMMARY_LIMIT <= 255, "the conventions have it so");
