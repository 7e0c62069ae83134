//! `towpath explain`: what the chain does with one statement, without a server.
//!
//! The filters are the real ones. The command carries the fact [`Explain`], to which they add what
//! they do, and what reaches the bottom of the chain is answered with OK.

mod report;

use crate::{check, cli::ExplainOptions};
use bytes::Bytes;
use chain::{
    Chain, Command, HostgroupId, Outcome, Registry, Reply, Session,
    facts::{Explain, FastForward, Note, RuleVerdict, ServedBy, Statement, Target},
    session::{Peer, View},
    testing,
};
use proxy::config::{Config, Listener};
use report::Report;
use std::{
    net::{IpAddr, Ipv4Addr},
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
};
use tower::{Service, ServiceExt};
use wire::{
    attributes::Attributes, capability::Capabilities, command::CommandCode, err::ErrPacket,
    ok::OkPacket, packet::HEADER_LEN, status::Status,
};

/// The collation of a client that asks for utf8mb4.
const UTF8MB4_GENERAL_CI: u16 = 45;

/// Prints what becomes of the statement.
pub(crate) fn run(options: &ExplainOptions, registry: &Registry) -> ExitCode {
    let config = match check::load(&options.file, registry) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match explain(options, &config) {
        Ok(report) if options.json => anstream::println!("{:#}", report.as_json()),
        Ok(report) => anstream::print!("{report}"),
        Err(why) => {
            anstream::eprintln!("towpath: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn explain(options: &ExplainOptions, config: &Config) -> Result<Report, String> {
    let listener = listener(options, config)?;
    let chain = config.chains.get(&listener.chain).ok_or("this listener has no chain")?;
    let session = session(options, config, listener)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.map_err(|e| e.to_string())?;
    Ok(runtime.block_on(take_through(chain, session, &options.sql)))
}

fn listener<'a>(options: &ExplainOptions, config: &'a Config) -> Result<&'a Listener, String> {
    let mut listeners = config.listeners.iter();
    match (options.port, options.listener) {
        (Some(port), _) => listeners
            .find(|listener| listener.address.port() == Some(port))
            .ok_or_else(|| format!("no listener has the port {port}")),
        (None, number) => {
            let place = number.unwrap_or(1).checked_sub(1);
            let count = config.listeners.len();
            let found = place.and_then(|place| listeners.nth(place));
            found.ok_or_else(|| format!("--listener counts from 1 to {count}"))
        }
    }
}

/// The session of a client that has logged in and done nothing.
fn session(
    options: &ExplainOptions,
    config: &Config,
    listener: &Listener,
) -> Result<Session, String> {
    let user = config.users.iter().find(|user| *user.account.user == *options.user);
    let hostgroup = user.map(|user| user.hostgroup).or(listener.hostgroup);
    let hostgroup = hostgroup.ok_or_else(|| format!("the file has no user {:?}", options.user))?;
    let schema = options.schema.as_ref().map(|name| Bytes::copy_from_slice(name.as_bytes()));
    let peer = match (listener.address.host(), options.client) {
        (None, None) => Peer::Unix,
        (_, client) => Peer::Tcp(client.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), 0),
    };
    Ok(Session::new(View {
        id: 1 << 31,
        user: options.user.as_str().into(),
        schema: schema.clone(),
        current_schema: schema,
        peer,
        destination: None,
        listener: listener.address.to_string().into(),
        port: listener.address.port().unwrap_or(0),
        capabilities: Capabilities::PROTOCOL_41 | Capabilities::TRANSACTIONS,
        collation: UTF8MB4_GENERAL_CI,
        attributes: Attributes::default(),
        hostgroup: HostgroupId(hostgroup),
        transaction_persistent: user.is_none_or(|user| user.transaction_persistent),
        sticky: user.map(|user| user.sticky_backend).unwrap_or_default(),
        fast_forward: user.is_some_and(|user| user.fast_forward),
        topology: Arc::new(config.topology()),
    }))
}

/// What the bottom of the chain saw.
#[derive(Default)]
struct Arrived {
    statement: Option<Statement>,
    text: Option<Bytes>,
    target: Option<Target>,
    verdict: Option<RuleVerdict>,
    switches: bool,
}

async fn take_through(chain: &Chain, session: Session, sql: &str) -> Report {
    let arrived: Arc<Mutex<Option<Arrived>>> = Arc::default();
    let note = arrived.clone();
    let bottom = testing::answering(move |command| {
        let mut reply = Reply::ok(&command, Status::AUTOCOMMIT);
        if let Some(target) = command.fact::<Target>() {
            reply = reply.with(ServedBy(target.clone()));
        }
        // Other commands are filters' own.
        if command.fact::<Explain>().is_some() {
            *note.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arrived::of(&command));
        }
        Ok(reply)
    });
    let explain = Explain::default();
    let command = Command::query(session.clone(), sql).with(explain.clone());
    let mut stack = chain.session(bottom);
    let reply = async { stack.ready().await?.call(command).await }.await;
    let arrived = arrived.lock().unwrap_or_else(PoisonError::into_inner).take();
    let answer = if arrived.is_none() { answer(reply, &session).await } else { None };
    let arrived = arrived.unwrap_or_default();
    let statement = arrived.statement.unwrap_or_else(|| {
        Statement::new(Bytes::copy_from_slice(sql.as_bytes()), chain::sql::Dialect::default())
    });
    let digest = statement.digest();
    Report {
        digest: digest.hash.to_string(),
        digest_text: String::from_utf8_lossy(&digest.text).into_owned(),
        class: format!("{:?}", statement.get().class),
        notes: explain.notes(),
        text: arrived.text.filter(|text| text.as_ref() != sql.as_bytes()),
        verdict: arrived.verdict,
        hostgroup: arrived.target.map(|target| target.hostgroup),
        switches: arrived.switches,
        answer,
    }
}

impl Arrived {
    fn of(command: &Command) -> Self {
        Self {
            statement: command.fact::<Statement>().cloned(),
            text: if command.code() == CommandCode::QUERY { command.sql() } else { None },
            target: command.fact::<Target>().cloned(),
            verdict: command.fact::<RuleVerdict>().cloned(),
            switches: command.fact::<FastForward>().is_some(),
        }
    }
}

/// How the chain has answered by itself.
async fn answer(reply: chain::Result<Reply>, session: &Session) -> Option<String> {
    let body = match reply.map(Reply::into_outcome) {
        Err(error) => return Some(format!("ERR {}: {}", error.code(), error.message())),
        Ok(Outcome::Handover(_)) => return None,
        Ok(Outcome::Body(body)) => body,
    };
    let end = body.collect(1 << 20).await.ok()?.end;
    let payload = end.packet.get(HEADER_LEN..)?;
    match ErrPacket::decode(payload) {
        Ok(err) => Some(format!("ERR {}: {}", err.code, String::from_utf8_lossy(&err.message))),
        Err(_) => {
            let ok = OkPacket::decode(payload, session.capabilities).ok()?;
            Some(format!("OK: {}", String::from_utf8_lossy(&ok.info)))
        }
    }
}
