//! The filter, without sockets.

use chain::{
    Answer, Body, Command, End, Registry, Reply, Result, Session,
    facts::Statement,
    testing::{self, Client},
};
use parse::Parse;
use sql::Class;
use std::sync::{Arc, Mutex};
use wire::{command::CommandCode, status::Status};

/// What the bottom of the chain made of the last command.
type Seen = Arc<Mutex<Option<Class>>>;

/// A session through `chain`, whose bottom looks at the fact and answers with `status`.
fn client(chain: &str, session: Session, status: Status) -> (Client, Seen) {
    let seen = Seen::default();
    let note = seen.clone();
    let bottom = testing::answering(move |command| {
        let fact = command.fact::<Statement>();
        if let Some(fact) = fact {
            assert!(!fact.is_lexed(), "nobody has looked yet");
            assert_eq!(fact.text().as_ref(), testing::text(&command).as_bytes());
        }
        *note.lock().expect("no test panics with it held") = fact.map(|fact| fact.get().class);
        assert!(fact.is_none_or(Statement::is_lexed));
        Ok(ok(status))
    });
    let chain =
        testing::chain(chain, &Registry::default().with::<Parse>()).expect("the chain is right");
    (Client::with_session(chain.session(bottom), session), seen)
}

fn ok(status: Status) -> Reply {
    Reply::new(Body::end(End { status: Some(status), ..End::default() }))
}

fn class_of(sql: &str, chain: &str) -> Option<Class> {
    let (mut client, seen) = client(chain, testing::session(), Status::AUTOCOMMIT);
    client.query(sql).expect("the bottom answers");
    seen.lock().expect("no test panics with it held").take()
}

const PLAIN: &str = "session = [{ use = 'parse' }]";

#[test]
fn says_what_a_query_is_when_somebody_asks() {
    assert_eq!(class_of("SELECT 1", PLAIN), Some(Class::Read));
    assert_eq!(class_of("DELETE FROM t", PLAIN), Some(Class::Write));
    assert_eq!(class_of("", PLAIN), Some(Class::Unknown));
}

#[test]
fn says_what_is_prepared_and_nothing_of_other_commands() {
    let session = testing::session();
    let (mut client, seen) = client(PLAIN, session.clone(), Status::AUTOCOMMIT);
    let mut send = |code, payload: &[u8]| -> Result<Answer> {
        client.send(Command::new(session.clone(), code, payload))
    };
    send(CommandCode::STMT_PREPARE, b"UPDATE t SET a = ?").unwrap();
    assert_eq!(seen.lock().unwrap().take(), Some(Class::Write));
    send(CommandCode::PING, b"").unwrap();
    assert_eq!(seen.lock().unwrap().take(), None);
    send(CommandCode::INIT_DB, b"SELECT 1").unwrap();
    assert_eq!(seen.lock().unwrap().take(), None);
}

#[test]
fn looks_at_nothing_that_nobody_asks_about() {
    let looked = Arc::new(Mutex::new(true));
    let note = looked.clone();
    let bottom = testing::answering(move |command| {
        *note.lock().unwrap() = command.fact::<Statement>().unwrap().is_lexed();
        Ok(ok(Status::AUTOCOMMIT))
    });
    let chain = testing::chain(PLAIN, &Registry::default().with::<Parse>()).unwrap();
    Client::new(chain.session(bottom)).query("SELECT 1").unwrap();
    assert!(!*looked.lock().unwrap());
}

#[test]
fn sends_the_command_on_as_it_came() {
    let session = testing::session();
    let sent = Command::query(session.clone(), "/* a */ SELECT 1").packets();
    let arrived = Arc::new(Mutex::new(None));
    let note = arrived.clone();
    let bottom = testing::answering(move |command| {
        *note.lock().unwrap() = Some(command.packets());
        Ok(ok(Status::AUTOCOMMIT))
    });
    let chain = testing::chain(PLAIN, &Registry::default().with::<Parse>()).unwrap();
    Client::with_session(chain.session(bottom), session).query("/* a */ SELECT 1").unwrap();
    assert_eq!(*arrived.lock().unwrap(), Some(sent));
}

#[test]
fn reads_as_the_session_s_sql_mode_says() {
    for (status, text) in [
        (Status::NO_BACKSLASH_ESCAPES, r"SELECT 'a\' FROM t FOR UPDATE -- '"),
        (Status::ANSI_QUOTES, r#"SELECT "a\" FROM t FOR UPDATE -- ""#),
    ] {
        let (mut client, seen) = client(PLAIN, testing::session(), status);
        client.query(text).unwrap();
        assert_eq!(seen.lock().unwrap().take(), Some(Class::Read), "not known yet: {text}");
        client.query(text).unwrap();
        assert_eq!(seen.lock().unwrap().take(), Some(Class::Write), "{text}");
    }
}

#[test]
fn reads_in_the_charset_of_the_handshake() {
    let text: &[u8] = b"SELECT '\xbf\\' FROM t FOR UPDATE -- '";
    for (collation, class) in [(45, Class::Read), (28, Class::Write)] {
        let mut session = testing::session();
        session.update(|view| view.collation = collation);
        let seen = Seen::default();
        let note = seen.clone();
        let bottom = testing::answering(move |command| {
            *note.lock().unwrap() = command.fact().map(|fact: &Statement| fact.get().class);
            Ok(ok(Status::AUTOCOMMIT))
        });
        let chain = testing::chain(PLAIN, &Registry::default().with::<Parse>()).unwrap();
        let mut client = Client::with_session(chain.session(bottom), session.clone());
        client.send(Command::query(session, text)).unwrap();
        assert_eq!(seen.lock().unwrap().take(), Some(class), "collation {collation}");
    }
}

#[test]
fn settings_say_what_replies_do_not() {
    let mariadb = "session = [{ use = 'parse', server = '10.11.6-MariaDB' }]";
    let mysql = "session = [{ use = 'parse', server = '8.4.3' }]";
    let nvl = "SELECT NVL(a, b) FROM t";
    assert_eq!(class_of(nvl, PLAIN), Some(Class::Write));
    assert_eq!(class_of(nvl, mysql), Some(Class::Write));
    assert_eq!(class_of(nvl, mariadb), Some(Class::Read));

    let ansi = "session = [{ use = 'parse', ansi_quotes = true }]";
    let text = r#"SELECT "a\" FROM t FOR UPDATE -- ""#;
    assert_eq!(class_of(text, PLAIN), Some(Class::Read));
    assert_eq!(class_of(text, ansi), Some(Class::Write));
}

#[test]
fn wrong_settings_are_refused_with_the_reason() {
    for (settings, reason) in [
        ("server = 'new'", "\"new\" is not a server's version"),
        ("server = 8", "server"),
        ("sever = '8.4.3'", "sever"),
    ] {
        let text = format!("session = [{{ use = 'parse', {settings} }}]");
        let refused = testing::chain(&text, &Registry::default().with::<Parse>()).unwrap_err();
        assert!(refused.to_string().contains(reason), "{settings}: {refused}");
    }
}

#[test]
fn the_example_in_the_page_works() {
    let page = include_str!("../README.md");
    let example = page.split("```toml").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(class_of("SELECT NVL(a, b)", example.unwrap()), Some(Class::Read));
}
