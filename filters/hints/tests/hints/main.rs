//! What `hints` promises, without a socket.

mod dialects;
mod maxscale;
mod page;
mod prepared;
mod values;

use chain::{
    Chain, Command, Hostgroup, HostgroupId, Registry, Reply, Server, Session, Topology,
    facts::{Hints, Statement},
    testing::{self, Client},
};
use std::sync::{Arc, Mutex};
use wire::status::Status;

/// What reached the bottom: the text, the fact's text, and the hints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<One>>>);

#[derive(Clone, Debug)]
pub(crate) struct One {
    pub(crate) text: String,
    pub(crate) statement: Option<Statement>,
    pub(crate) hints: Option<Hints>,
}

impl Seen {
    fn push(&self, command: &Command) {
        let (hints, statement) = (command.fact().cloned(), command.fact().cloned());
        let one = One { text: testing::text(command), statement, hints };
        self.0.lock().expect("no test panics with it held").push(one);
    }

    /// The only command since the last call.
    pub(crate) fn one(&self) -> One {
        let mut all = std::mem::take(&mut *self.0.lock().expect("no test panics with it held"));
        assert_eq!(all.len(), 1);
        all.remove(0)
    }
}

pub(crate) fn registry() -> Registry {
    Registry::default()
        .with::<testing::Statements>()
        .with::<hints::Factory>()
        .with_layer("route", testing::passes)
}

/// The chain with these settings of the filter, or the mistakes in it.
pub(crate) fn try_chain(settings: &str) -> Result<Chain, String> {
    let text = format!("session = [{{ use = 'parse' }},\n{{ use = 'hints',\n{settings}\n}}]");
    testing::chain(&text, &registry()).map_err(|mistakes| mistakes.to_string())
}

/// Hostgroup 0 with `db1`, hostgroup 1 `readers` with `db2` and `db3`.
pub(crate) fn session() -> Session {
    let servers = |names: &[&str], first: u32| {
        names.iter().zip(first..).map(|(name, id)| Arc::new(Server::new(id, *name, 1))).collect()
    };
    testing::session_of(Topology::new(vec![
        Hostgroup { id: HostgroupId(0), name: None, servers: servers(&["db1"], 1) },
        Hostgroup {
            id: HostgroupId(1),
            name: Some("readers".into()),
            servers: servers(&["db2", "db3"], 2),
        },
    ]))
}

/// A session of a chain with these settings.
pub(crate) struct Bed {
    pub(crate) session: Session,
    pub(crate) chain: Chain,
    pub(crate) seen: Seen,
    client: Client,
}

impl Bed {
    pub(crate) fn new(settings: &str) -> Self {
        Self::of(settings, session())
    }

    pub(crate) fn of(settings: &str, session: Session) -> Self {
        let chain = try_chain(settings).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        let seen = Seen::default();
        let note = seen.clone();
        let bottom = testing::answering(move |command| {
            note.push(&command);
            Ok(Reply::ok(&command, Status::AUTOCOMMIT))
        });
        let client = Client::with_session(chain.session(bottom), session.clone());
        Self { session, chain, seen, client }
    }

    pub(crate) fn send(&mut self, command: Command) -> One {
        self.client.send(command).expect("the bottom answers");
        self.seen.one()
    }

    pub(crate) fn query(&mut self, sql: &str) -> One {
        self.send(Command::query(self.session.clone(), sql))
    }

    /// What a query asks for; nothing where there is no fact.
    pub(crate) fn hints(&mut self, sql: &str) -> Hints {
        let hints = self.query(sql).hints.unwrap_or_default();
        Hints { beats_rules: false, ..hints }
    }

    /// `label=count` of a counter, those that are 0 left out.
    pub(crate) fn counts(&self, name: &str) -> Vec<String> {
        let family = self.chain.counters().find(|family| family.name() == name);
        let counts = family.expect("there is one of this name").counts().into_iter();
        let counts = counts.filter(|(_, count)| *count > 0);
        counts.map(|(label, count)| format!("{label}={count}")).collect()
    }
}

pub(crate) fn in_hostgroup(id: u32) -> Hints {
    Hints { hostgroup: Some(HostgroupId(id)), ..Hints::default() }
}
