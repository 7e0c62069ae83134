//! What `rules` promises, without a socket.

mod actions;
mod loading;
mod prepared;
mod proxysql;
mod walk;

use chain::{
    Chain, Command, HostgroupId, Registry, Reply, Session,
    facts::RuleVerdict,
    testing::{self, Client},
};
use std::sync::{Arc, Mutex};
use wire::status::Status;

/// What reached the bottom: the text and the verdict.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<One>>>);

type One = (String, Option<RuleVerdict>);

impl Seen {
    pub(crate) fn push(&self, command: &Command) {
        let verdict = command.fact::<RuleVerdict>().cloned();
        self.0.lock().expect("no test panics with it held").push((testing::text(command), verdict));
    }

    pub(crate) fn take(&self) -> Vec<One> {
        std::mem::take(&mut self.0.lock().expect("no test panics with it held"))
    }
}

pub(crate) fn registry() -> Registry {
    Registry::default()
        .with::<testing::Statements>()
        .with::<rules::Factory>()
        .with_layer("cache", testing::passes)
        .with_layer("sticky", testing::passes)
        .with_layer("session-commands", testing::passes)
        .with_layer("fast-forward", testing::passes)
}

/// The chain of `settings` of the filter, or the mistakes in it.
pub(crate) fn try_chain(settings: &str) -> Result<Chain, String> {
    let text = format!(
        "session = [{{ use = 'parse' }},\n{{ use = 'rules',\n{settings}\n}},\n{{ use = 'cache' }}, {{ use = 'sticky' }}, \
         {{ use = 'session-commands' }}, {{ use = 'fast-forward' }}]"
    );
    testing::chain(&text, &registry()).map_err(|mistakes| mistakes.to_string())
}

pub(crate) fn chain(settings: &str) -> Chain {
    try_chain(settings).unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// A client of a chain with these rules, and what reaches the bottom of it.
pub(crate) fn client(rules: &str) -> (Client, Seen) {
    client_in(testing::session(), &format!("rules = [{rules}]"))
}

pub(crate) fn client_in(session: Session, settings: &str) -> (Client, Seen) {
    let seen = Seen::default();
    let note = seen.clone();
    let bottom = testing::answering(move |command| {
        note.push(&command);
        Ok(Reply::ok(&command, Status::AUTOCOMMIT))
    });
    (Client::with_session(chain(settings).session(bottom), session), seen)
}

/// Ids of the rules that match `sql`, and the hostgroup.
pub(crate) fn matched(session: Session, settings: &str, sql: &str) -> (Vec<u32>, Option<u32>) {
    let (mut client, seen) = client_in(session.clone(), settings);
    client.send(Command::query(session, sql)).expect("the bottom answers");
    let verdict = seen.take().remove(0).1.unwrap_or_default();
    (verdict.rules.to_vec(), verdict.hostgroup.map(|HostgroupId(id)| id))
}
