//! What read-write splitting promises, without a socket.

mod causal;
mod from;
mod places;
mod wishes;

use chain::{
    Chain, Command, Filter, FilterFactory, Hostgroup, HostgroupId, Next, Registry, Reply, Result,
    Server, Session, Stack, Topology, each_session,
    facts::{
        Affinity, Executed, Fact, Hints, Near, Pin, RuleVerdict, ServedBy, SessionLog, Statement,
        Target, This, Tied,
    },
    registry::IntoLayer,
    sql::{self, Dialect},
    testing::{self, Client, Log},
    topology::Cluster,
};
use std::{cell::RefCell, sync::Arc};
use tower::BoxError;
use wire::status::Status;

/// Facts that the filters above would give with the next command.
#[derive(Clone, Default)]
pub(crate) struct Above {
    pub(crate) pin: Option<Pin>,
    pub(crate) tied: bool,
    pub(crate) log: Option<SessionLog>,
    pub(crate) hints: Option<Hints>,
    pub(crate) verdict: Option<RuleVerdict>,
    pub(crate) affinity: Option<Affinity>,
    pub(crate) executed: Option<&'static str>,
}

thread_local! {
    static GIVEN: RefCell<Above> = RefCell::new(Above::default());
}

/// Says what the commands from now on carry.
pub(crate) fn given(above: Above) {
    GIVEN.with(|given| *given.borrow_mut() = above);
}

/// Stands for the filters above.
struct Upper;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl FilterFactory for Upper {
    const NAME: &'static str = "upper";
    const GIVES: &'static [&'static str] = &[SessionLog::NAME, Pin::NAME, Statement::NAME];
    type Config = Nothing;

    fn build(_: Nothing) -> Result<impl IntoLayer, BoxError> {
        Ok(each_session(|| Upper))
    }
}

impl Filter for Upper {
    async fn handle(&mut self, mut command: Command, next: Next<'_>) -> Result<Reply> {
        let above = GIVEN.with(|given| given.borrow().clone());
        if let Some(text) = command.sql() {
            command.note(Statement::new(text, Dialect::default()));
        }
        if let Some(text) = above.executed {
            command.note(Executed(sql::statement(text.as_bytes(), Dialect::default())));
        }
        if above.tied {
            command.note(Tied { by: Some("a temporary table"), ends: false, again: false });
        }
        note(&mut command, above.pin);
        note(&mut command, above.log);
        note(&mut command, above.hints);
        note(&mut command, above.verdict);
        note(&mut command, above.affinity);
        next.run(command).await
    }
}

fn note<F: Fact>(command: &mut Command, fact: Option<F>) {
    if let Some(fact) = fact {
        command.note(fact);
    }
}

/// The log of a session that has set something; `this`: the command is a session command.
pub(crate) fn log(this: bool) -> SessionLog {
    let this = this.then_some(This { lsn: 1, statement: None });
    SessionLog { this, ..SessionLog::default() }
}

/// A session of a cluster: hostgroup 0 has the primary `p`, 1 the replicas `r1` and `r2`; each
/// hostgroup names all three servers. Hostgroup 7, of no cluster, has `x` and `y`.
pub(crate) fn session() -> Session {
    let mut ids = 1..;
    let mut group = |id, names: &[(&str, bool)]| {
        let servers = names.iter().map(|(name, member)| {
            let server = Server::new(ids.next().expect("there is a next number"), *name, 1);
            server.standing.set_member(*member);
            Arc::new(server)
        });
        Hostgroup {
            id: HostgroupId(id),
            name: Some(format!("g{id}").into()),
            servers: servers.collect(),
        }
    };
    let topology = Topology::new(vec![
        group(0, &[("p", true), ("r1", false), ("r2", false)]),
        group(1, &[("p", false), ("r1", true), ("r2", true)]),
        group(7, &[("x", true), ("y", true)]),
    ]);
    let cluster = Cluster { name: "main".into(), writer: HostgroupId(0), reader: HostgroupId(1) };
    testing::session_of(topology.with_clusters(vec![cluster]))
}

pub(crate) fn server(session: &Session, hostgroup: u32, name: &str) -> Arc<Server> {
    let group = session.topology.hostgroup(HostgroupId(hostgroup)).expect("it is there");
    let found = group.servers.iter().find(|server| &*server.name == name);
    found.expect("the test names one that is there").clone()
}

pub(crate) fn target(session: &Session, hostgroup: u32, name: &str) -> Target {
    Target { hostgroup: HostgroupId(hostgroup), server: server(session, hostgroup, name) }
}

pub(crate) fn chain(settings: &str) -> Chain {
    let text = format!(
        "session = [{{ use = 'upper' }}, {{ use = 'route', policy = 'read-write-split'{settings} }}]"
    );
    testing::chain(&text, &registry()).expect("right settings")
}

pub(crate) fn registry() -> Registry {
    Registry::default().with::<Upper>().with::<route::Factory>()
}

/// One session, and what reached the servers: their names, behind a colon what route has asked.
pub(crate) struct Split {
    pub(crate) session: Session,
    pub(crate) client: Client,
    pub(crate) log: Log,
    chain: Chain,
}

impl Split {
    /// One whose servers answer OK. The replicas take turns.
    pub(crate) fn new(settings: &str) -> Self {
        Self::of(settings, |command| Ok(Reply::ok(command, status(command))))
    }

    pub(crate) fn of(
        settings: &str,
        mut answer: impl FnMut(&Command) -> Result<Reply> + Send + 'static,
    ) -> Self {
        let (session, seen) = (session(), Log::default());
        let reached = seen.clone();
        let bottom: Stack = testing::answering(move |command: Command| {
            let target = command.fact::<Target>().expect("route gives it").clone();
            let own = command.asker() != chain::command::Asker::Client;
            let text = if own { format!(": {}", testing::text(&command)) } else { String::new() };
            let near = command.fact().map(|Near(limit)| format!(" within {limit:?}"));
            reached.push(format!("{}{text}{}", target.server.name, near.unwrap_or_default()));
            Ok(answer(&command)?.with(ServedBy(target)))
        });
        let chain = chain(&format!(", balance = 'round-robin'{settings}"));
        let client = Client::with_session(chain.session(bottom), session.clone());
        given(Above { log: Some(log(false)), ..Above::default() });
        Self { session, client, log: seen, chain }
    }

    /// Hints that were not followed, by reason; those with a count.
    pub(crate) fn ignored(&self) -> Vec<(String, u64)> {
        let family = self.chain.counters().find(|family| family.name() == "route_hints_ignored");
        let counts = family.expect("the chain has it").counts();
        counts.into_iter().filter(|(_, count)| *count > 0).collect()
    }

    /// Where a statement went.
    pub(crate) fn sends(&mut self, text: &str) -> String {
        self.client.query(text).expect("the bottom answers");
        self.log.take().join(" ")
    }
}

/// As a server would say: a transaction is open behind BEGIN, until COMMIT.
pub(crate) fn status(command: &Command) -> Status {
    let text = testing::text(command).to_lowercase();
    let before = command.session().status();
    let begins = text.starts_with("begin") || text.starts_with("start");
    let read_only = text.contains("read only");
    match text.as_str() {
        "commit" | "rollback" => Status::AUTOCOMMIT,
        "set autocommit=0" => Status::EMPTY,
        _ if begins && read_only => {
            Status::AUTOCOMMIT | Status::IN_TRANS | Status::IN_TRANS_READONLY
        }
        _ if begins => Status::AUTOCOMMIT | Status::IN_TRANS,
        _ => before,
    }
}
