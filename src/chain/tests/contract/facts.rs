//! What filters tell each other.

use chain::{
    Body, Command, End, HostgroupId, Reply,
    command::Asker,
    facts::{Fact, ServedBy, Statement, Target},
    testing::session,
};
use wire::command::CommandCode;

#[derive(Debug, PartialEq)]
struct Mood(&'static str);

impl Fact for Mood {
    const NAME: &'static str = "mood";
}

fn target() -> Target {
    let session = session();
    let server = session.topology.hostgroups()[0].servers[0].clone();
    Target { hostgroup: HostgroupId(0), server }
}

#[test]
fn a_command_carries_one_fact_of_each_type() {
    let mut command = Command::query(session(), "SELECT 1").with(Mood("bad")).with(target());
    assert_eq!(command.fact(), Some(&Mood("bad")));
    command.note(Mood("good"));
    assert_eq!(command.fact(), Some(&Mood("good")), "the later one counts");
    assert_eq!(&*command.fact::<Target>().unwrap().server.name, "db1");
    assert!(command.fact::<ServedBy>().is_none());
}

#[test]
fn a_reply_carries_facts_of_its_own() {
    let reply = Reply::new(Body::end(End::default())).with(ServedBy(target())).with(Mood("good"));
    let reply = reply.map_body(|body| body.hold(()));
    assert_eq!(&*reply.fact::<ServedBy>().unwrap().0.server.name, "db1");
    assert_eq!(reply.fact(), Some(&Mood("good")), "whatever becomes of the body");
}

#[test]
fn facts_survive_a_rewrite_and_a_change_of_asker() {
    let mut command = Command::query(session(), "SELECT 1").with(Mood("good"));
    command.rewrite_sql("SELECT 2");
    let command = command.asked_by(Asker::Filter("test"));
    assert_eq!(command.fact(), Some(&Mood("good")));
}

#[test]
fn a_filters_own_command_begins_without_facts() {
    let command = Command::query(session(), "SELECT 1").with(Mood("good"));
    let aside = command.aside("test", CommandCode::QUERY, "SET a = 1");
    assert!(aside.fact::<Mood>().is_none());
    assert_eq!(aside.asker(), Asker::Filter("test"));
    assert_eq!(aside.session().id, command.session().id);
}

#[test]
fn a_statement_is_looked_at_when_somebody_asks() {
    let command = Command::query(session(), "x");
    let command = command.with(Statement::new("SELECT 1".into(), sql::Dialect::default()));
    let statement = command.fact::<Statement>().unwrap();
    assert!(!statement.is_lexed());
    let first: *const _ = statement.get();
    assert!(statement.is_lexed());
    assert!(std::ptr::eq(first, statement.get()), "once");
}

#[test]
fn nothing_shows_a_statements_text() {
    let secret = "SET PASSWORD = 'hunter2'";
    let command = Command::query(session(), secret);
    let statement = Statement::new(secret.into(), sql::Dialect::default());
    for shown in [format!("{command:?}"), format!("{statement:?}")] {
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("bytes"), "{shown}");
    }
}
