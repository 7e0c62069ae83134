//! What `rules` promises, without a socket.

mod actions;
mod loading;
mod prepared;
mod proxysql;
mod walk;

use chain::{
    Chain, Command, FilterFactory, HostgroupId, Registry, Reply, Session, Stack,
    facts::{Fact, RuleVerdict, Statement},
    registry::IntoLayer,
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

/// Gives what `parse` gives to queries and statements to be prepared; filters know no others.
struct Statements;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl FilterFactory for Statements {
    const NAME: &'static str = "statements";
    const GIVES: &'static [&'static str] = &[Statement::NAME];
    type Config = Nothing;

    fn build(_: Nothing) -> Result<impl IntoLayer, tower::BoxError> {
        Ok(tower::layer::layer_fn(|below: Stack| {
            tower::ServiceExt::map_request(below, |mut command: Command| {
                if let Some(text) = command.sql() {
                    command.note(Statement::new(text, sql::Dialect::default()));
                }
                command
            })
        }))
    }
}

pub(crate) fn registry() -> Registry {
    let passes = |_: Nothing| Ok(tower::layer::layer_fn(|below: Stack| below));
    Registry::default()
        .with::<Statements>()
        .with::<rules::Factory>()
        .with_layer("cache", passes)
        .with_layer("sticky", passes)
}

/// The chain of `settings` of the filter, or the mistakes in it.
pub(crate) fn try_chain(settings: &str) -> Result<Chain, String> {
    let text = format!(
        "session = [{{ use = 'statements' }},\n{{ use = 'rules',\n{settings}\n}},\n{{ use = 'cache' }}, {{ use = 'sticky' }}]"
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
