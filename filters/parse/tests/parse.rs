//! The filter, without sockets.

use chain::{
    Answer, Body, Command, End, Registry, Reply, Result, Session,
    facts::Statement,
    testing::{self, Client},
};
use parse::Parse;
use sql::Class;
use std::sync::{Arc, Mutex};
use wire::{capability::Capabilities, command::CommandCode, status::Status};

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
            *note.lock().expect("no test panics with it held") =
                command.fact().map(|fact: &Statement| fact.get().class);
            Ok(ok(Status::AUTOCOMMIT))
        });
        let chain = testing::chain(PLAIN, &Registry::default().with::<Parse>()).unwrap();
        let mut client = Client::with_session(chain.session(bottom), session.clone());
        client.send(Command::query(session, text)).unwrap();
        assert_eq!(seen.lock().unwrap().take(), Some(class), "collation {collation}");
    }
}

/// The class of the last of these texts in one session whose bottom answers all but those that
/// begin with `SET FAILS` with OK.
fn class_behind(settings: &str, texts: &[&str]) -> Class {
    let seen = Seen::default();
    let note = seen.clone();
    let bottom = testing::answering(move |command: Command| {
        *note.lock().expect("no test panics with it held") =
            command.fact().map(|fact: &Statement| fact.get().class);
        let fails = testing::text(&command).contains("fails");
        let end = End { error: fails.then_some(1231), ..End::default() };
        Ok(if fails { Reply::new(Body::end(end)) } else { ok(Status::AUTOCOMMIT) })
    });
    let chain = testing::chain(settings, &Registry::default().with::<Parse>()).expect("is right");
    let mut session = testing::session();
    session.update(|view| view.capabilities = view.capabilities | Capabilities::MULTI_STATEMENTS);
    let mut client = Client::with_session(chain.session(bottom), session);
    for text in texts {
        if *text == "reset" {
            client
                .send(Command::new(testing::session(), CommandCode::RESET_CONNECTION, []))
                .expect("the bottom answers");
        } else {
            client.query(text).expect("the bottom answers");
        }
    }
    seen.lock().expect("the bottom answers").take().expect("a text")
}

#[test]
fn what_a_session_sets_is_read_off_its_statements() {
    let name = r#"SELECT "a\" FROM t FOR UPDATE -- ""#; // a write if the quotes are a name's
    let (on, off) = ("SET sql_mode = 'ANSI_QUOTES'", "SET sql_mode = ''");
    for (texts, class) in [
        (&[name][..], Class::Read),
        (&[on, name], Class::Write),
        (&[on, off, name], Class::Read),
        (&[on, "reset", name], Class::Read),
        (&["SET sql_mode = 'ANSI_QUOTES', fails = 1", name], Class::Read),
        (&["SET GLOBAL sql_mode = 'ANSI_QUOTES'", name], Class::Read),
        (&["SELECT 1; SET sql_mode = 'ANSI_QUOTES'", name], Class::Write),
    ] {
        assert_eq!(class_behind(PLAIN, texts), class, "{texts:?}");
    }
    let ansi = "session = [{ use = 'parse', ansi_quotes = true }]";
    assert_eq!(class_behind(ansi, &[name]), Class::Write);
    assert_eq!(class_behind(ansi, &[off, name]), Class::Read);
    assert_eq!(class_behind(ansi, &[off, "SET sql_mode = DEFAULT", name]), Class::Write);
}

#[test]
fn where_a_value_cannot_be_read_texts_that_depend_on_it_are_writes() {
    let unsure = "SET sql_mode = @old";
    for (texts, class) in [
        (&[unsure, r#"SELECT "a""#][..], Class::Write),
        (&[unsure, "SELECT 'a'"], Class::Read),
        (&[unsure, "SET sql_mode = ''", r#"SELECT "a""#], Class::Read),
        (&["SET sql_mode = 'ANSI'; SET fails = 1", r#"SELECT "a""#], Class::Write),
        (&["SET NAMES DEFAULT", "SELECT '\u{e4}'"], Class::Write),
        (&["SET NAMES DEFAULT", "SELECT 'a'"], Class::Read),
        (&["SET NAMES DEFAULT", "SET NAMES utf8mb4", "SELECT '\u{e4}'"], Class::Read),
    ] {
        assert_eq!(class_behind(PLAIN, texts), class, "{texts:?}");
    }
}

#[test]
fn a_charset_that_a_session_sets_is_used() {
    // With gbk the backslash is half a character, and what follows is code.
    let sets = |name: &str| format!("SET NAMES {name}");
    for (name, class) in [("gbk", Class::Write), ("utf8mb4", Class::Read)] {
        let seen = Seen::default();
        let note = seen.clone();
        let bottom = testing::answering(move |command| {
            *note.lock().expect("no test panics with it held") =
                command.fact().map(|fact: &Statement| fact.get().class);
            Ok(ok(Status::AUTOCOMMIT))
        });
        let chain = testing::chain(PLAIN, &Registry::default().with::<Parse>()).unwrap();
        let mut client = Client::new(chain.session(bottom));
        client.query(&sets(name)).unwrap();
        let text: &[u8] = b"SELECT '\xbf\\' FROM t FOR UPDATE -- '";
        client.send(Command::query(testing::session(), text)).unwrap();
        assert_eq!(seen.lock().unwrap().take(), Some(class), "{name}");
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

/// A session whose bottom answers COM_STMT_PREPARE with `prepared` and all else with OK, and notes
/// the text of each command's statement.
fn preparing(prepared: impl Fn() -> Body + Send + 'static) -> (Client, Arc<Mutex<Vec<String>>>) {
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let note = seen.clone();
    let bottom = testing::answering(move |command| {
        let fact = command.fact::<Statement>();
        let text = fact.map(|fact| String::from_utf8_lossy(fact.text()).into_owned());
        note.lock().expect("no test panics with it held").push(text.unwrap_or_default());
        if command.code() == CommandCode::STMT_PREPARE {
            return Ok(Reply::new(prepared()));
        }
        Ok(ok(Status::AUTOCOMMIT))
    });
    let chain = testing::chain(PLAIN, &Registry::default().with::<Parse>()).expect("is right");
    (Client::new(chain.session(bottom)), seen)
}

/// The reply that gives a statement this id, in one frame.
fn prepared(id: u8) -> Body {
    let packet = [12, 0, 0, 1, 0, id, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0];
    Body::whole(packet.to_vec(), End::default())
}

/// The same as it may come off the wire: a byte at a time.
fn prepared_in_pieces(id: u8) -> Body {
    let packet = [12, 0, 0, 1, 0, id, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0];
    let pieces = packet.map(|byte| Ok(chain::Frame::Packets(vec![byte].into())));
    let end = Ok(chain::Frame::End(End::default()));
    Body::stream(futures_util::stream::iter(pieces.into_iter().chain([end])))
}

fn of_statement(code: CommandCode, id: u32) -> Command {
    let rest = [id.to_le_bytes().as_slice(), &[0, 1, 0, 0, 0]].concat();
    Command::new(testing::session(), code, rest)
}

const ID: u32 = 0x8000_0005;

#[test]
fn a_prepared_statement_is_known_by_the_id_in_its_reply() {
    for body in [prepared, prepared_in_pieces] {
        let (mut client, seen) = preparing(move || body(5));
        let prepare = Command::new(testing::session(), CommandCode::STMT_PREPARE, "SELECT ?");
        client.send(prepare).unwrap();
        for code in [
            CommandCode::STMT_EXECUTE,
            CommandCode::STMT_BULK_EXECUTE,
            CommandCode::STMT_FETCH,
            CommandCode::STMT_SEND_LONG_DATA,
            CommandCode::STMT_RESET,
        ] {
            client.send(of_statement(code, ID)).unwrap();
            client.send(of_statement(code, u32::MAX)).unwrap();
            client.send(of_statement(code, 5)).unwrap();
            client.send(Command::new(testing::session(), code, [5, 0])).unwrap();
        }
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen[0], "SELECT ?");
        for four in seen[1..].chunks(4) {
            assert_eq!(four, ["SELECT ?", "SELECT ?", "", ""]);
        }
    }
}

#[test]
fn a_statement_that_is_closed_or_reset_away_is_forgotten() {
    for (code, id) in [(CommandCode::STMT_CLOSE, ID), (CommandCode::RESET_CONNECTION, 0)] {
        let (mut client, seen) = preparing(|| prepared(5));
        let prepare = Command::new(testing::session(), CommandCode::STMT_PREPARE, "SELECT ?");
        client.send(prepare).unwrap();
        client.send(of_statement(code, id)).unwrap();
        client.send(of_statement(CommandCode::STMT_EXECUTE, ID)).unwrap();
        let closes = code == CommandCode::STMT_CLOSE;
        let expected = ["SELECT ?", if closes { "SELECT ?" } else { "" }, ""];
        assert_eq!(*seen.lock().unwrap(), expected, "{code:?}");
    }
}

#[test]
fn a_statement_that_the_server_refuses_is_not_known() {
    let (mut client, seen) = preparing(|| {
        let packet = vec![9, 0, 0, 1, 0xFF, 5, 0, 0, 0x80, 0, 0, 0, 0];
        Body::end(End { packet: packet.into(), error: Some(5), ..End::default() })
    });
    for _ in 0..2 {
        let prepare = Command::new(testing::session(), CommandCode::STMT_PREPARE, "SELEC ?");
        client.send(prepare).unwrap();
        client.send(of_statement(CommandCode::STMT_EXECUTE, ID)).unwrap();
        client.send(of_statement(CommandCode::STMT_EXECUTE, u32::MAX)).unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), ["SELEC ?", "", "", "SELEC ?", "", ""]);
}

#[test]
fn the_last_statement_is_none_after_one_that_was_refused() {
    let good = std::sync::atomic::AtomicBool::new(true);
    let (mut client, seen) = preparing(move || {
        if good.swap(false, std::sync::atomic::Ordering::Relaxed) {
            return prepared(5);
        }
        Body::end(End { packet: vec![1, 0, 0, 1, 0xFF].into(), error: Some(5), ..End::default() })
    });
    for sql in ["SELECT 1", "SELEC 2"] {
        client.send(Command::new(testing::session(), CommandCode::STMT_PREPARE, sql)).unwrap();
        client.send(of_statement(CommandCode::STMT_EXECUTE, u32::MAX)).unwrap();
    }
    client.send(of_statement(CommandCode::STMT_EXECUTE, ID)).unwrap();
    assert_eq!(*seen.lock().unwrap(), ["SELECT 1", "SELECT 1", "SELEC 2", "", "SELECT 1"]);
}

#[test]
fn an_id_that_is_given_again_is_the_later_statement_s() {
    let (mut client, seen) = preparing(|| prepared(5));
    for sql in ["SELECT 1", "SELECT 2"] {
        client.send(Command::new(testing::session(), CommandCode::STMT_PREPARE, sql)).unwrap();
        client.send(of_statement(CommandCode::STMT_EXECUTE, ID)).unwrap();
    }
    assert_eq!(*seen.lock().unwrap(), ["SELECT 1", "SELECT 1", "SELECT 2", "SELECT 2"]);
}

#[test]
fn runs_share_what_was_found_out_when_the_statement_was_prepared() {
    let bottom = testing::answering(|command| {
        let fact = command.fact::<Statement>().expect("both have it");
        if command.code() == CommandCode::STMT_PREPARE {
            fact.digest();
            return Ok(Reply::new(prepared(5)));
        }
        assert!(fact.is_digested());
        Ok(ok(Status::AUTOCOMMIT))
    });
    let chain = testing::chain(PLAIN, &Registry::default().with::<Parse>()).unwrap();
    let mut client = Client::new(chain.session(bottom));
    let prepare = Command::new(testing::session(), CommandCode::STMT_PREPARE, "SELECT ?");
    client.send(prepare).unwrap();
    client.send(of_statement(CommandCode::STMT_EXECUTE, ID)).unwrap();
}

#[test]
fn a_digest_is_as_long_as_the_setting_says() {
    for (chain, length) in [(PLAIN, 2048), ("session = [{ use = 'parse', digest_limit = 8 }]", 8)] {
        let bottom = testing::answering(move |command| {
            let digest = command.fact::<Statement>().expect("it is there").digest();
            assert!(digest.text.len() <= length && digest.text.len() > length / 2);
            Ok(ok(Status::AUTOCOMMIT))
        });
        let chain = testing::chain(chain, &Registry::default().with::<Parse>()).unwrap();
        let long = format!("SELECT {}", "abc, ".repeat(1000));
        Client::new(chain.session(bottom)).query(&long).unwrap();
    }
}
