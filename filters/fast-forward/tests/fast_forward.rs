//! What the filter promises, without a socket.

use chain::{
    Chain, Command, HostgroupId, Registry, Reply, Session, Stack,
    command::Asker,
    facts::{FastForward, RuleVerdict, ServedBy, Target},
    testing::{self, Client, Log},
};
use wire::{command::CommandCode, status::Status};

fn chain(settings: &str) -> Chain {
    let registry = Registry::default().with::<fast_forward::Factory>();
    let text = format!("session = [{{ use = 'fast-forward'{settings} }}]");
    testing::chain(&text, &registry).expect("right settings")
}

/// A bottom that notes what it was told, and obeys no order.
fn noting(log: &Log) -> Stack {
    let log = log.clone();
    testing::answering(move |command| {
        let order = command.fact::<FastForward>().map(|order| order.stays);
        let target = command.fact::<Target>().cloned();
        log.push(format!("{order:?} {:?}", target.as_ref().map(|target| &*target.server.name)));
        let reply = Reply::ok(&command, Status::AUTOCOMMIT);
        Ok(match target {
            Some(target) => reply.with(ServedBy(target)),
            None => reply,
        })
    })
}

fn run(chain: &Chain, session: &Session, commands: Vec<Command>) -> Vec<String> {
    let log = Log::default();
    let mut client = Client::with_session(chain.session(noting(&log)), session.clone());
    for command in commands {
        client.send(command).expect("the bottom answers");
    }
    log.take()
}

fn query(session: &Session) -> Command {
    Command::query(session.clone(), "SELECT 1")
}

#[test]
fn a_rule_switches_and_nothing_else_does() {
    let session = testing::session();
    let ruled = |switch| {
        let verdict = RuleVerdict { switch_to_fast_forward: switch, ..RuleVerdict::default() };
        query(&session).with(verdict)
    };
    let commands = vec![query(&session), ruled(false), ruled(true)];
    assert_eq!(run(&chain(""), &session, commands), ["None None", "None None", "Some(false) None"]);
}

#[test]
fn a_user_switches_but_not_what_is_asked_for_it() {
    let mut session = testing::session();
    session.update(|view| view.fast_forward = true);
    let login = query(&session).asked_by(Asker::Filter("login"));
    let commands = vec![login, query(&session)];
    assert_eq!(run(&chain(""), &session, commands), ["None None", "Some(false) None"]);
}

#[test]
fn a_binlog_reader_stays_where_it_is() {
    let session = testing::session();
    for code in
        [CommandCode::REGISTER_SLAVE, CommandCode::BINLOG_DUMP, CommandCode::BINLOG_DUMP_GTID]
    {
        let commands = vec![Command::new(session.clone(), code, [0; 10])];
        assert_eq!(run(&chain(""), &session, commands), ["Some(true) None"]);
    }
}

#[test]
fn always_chooses_one_server_for_all_that_the_session_asks() {
    let session = testing::session();
    let login = || {
        Command::new(session.clone(), CommandCode::INIT_DB, "d").asked_by(Asker::Filter("login"))
    };
    let chain = chain(", always = true, balance = 'round-robin'");
    for (server, order) in [("db1", "Some(false)"), ("db2", "Some(false)")] {
        let seen = run(&chain, &session, vec![login(), query(&session)]);
        assert_eq!(seen, [format!("None Some({server:?})"), format!("{order} Some({server:?})")]);
    }
}

#[test]
fn always_in_a_hostgroup_without_a_server_is_an_error() {
    let session = testing::session();
    assert!(session.topology.hostgroup(HostgroupId(9)).is_none());
    let made = chain(", always = true, hostgroup = 9");
    let mut client = Client::with_session(made.session(noting(&Log::default())), session.clone());
    let error = client.send(query(&session)).expect_err("there is nobody");
    assert_eq!(error.code(), chain::error::code::SERVER_OFFLINE);
}
