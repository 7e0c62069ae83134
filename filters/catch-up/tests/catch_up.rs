//! One connection without a socket: what reaches it, and what becomes of its replies.

use bytes::Bytes;

use chain::{
    Answer, Body, Chain, Command, End, Error, Registry, Reply, Stack,
    error::{CatchUpFailed, CatchUpKilled},
    facts::{
        Adopted, Careful, Expected, LogEntry, Lsn, Renewal, SessionLog, StateId, Statement, This,
        Unprepared,
    },
    settings::{Mistakes, Settings},
    testing::{self, Client, Log, answering, session},
};
use futures_util::FutureExt;
use std::sync::Arc;
use tower::{Service, ServiceExt};
use wire::{
    command::{CommandCode, statement::statement_id},
    err::{ErrPacket, ErrorCode, codes},
    status::Status,
};

/// The chain's `backend` list, whatever is above it.
fn stack(bottom: Stack) -> Client {
    Client::new(with("", bottom))
}

/// The filter with these settings.
fn with(settings: &str, bottom: Stack) -> Stack {
    use chain::FilterFactory;
    use chain::registry::IntoLayer;
    let mut mistakes = Mistakes::default();
    let settings = Settings::parse("chain.toml", settings, &mut mistakes);
    let config = catch_up::Factory::read(&settings, &mut mistakes).expect("they are good");
    let layer = catch_up::Factory::build(config).expect("they are good").into_layer();
    tower::Layer::layer(&layer, bottom)
}

fn entry(lsn: Lsn, text: &str, expected: Expected) -> Arc<LogEntry> {
    let code = match expected {
        Expected::Statement { .. } => CommandCode::STMT_PREPARE,
        _ => CommandCode::QUERY,
    };
    Arc::new(LogEntry::new(lsn, code, Bytes::copy_from_slice(text.as_bytes()), expected))
}

fn log(entries: &[Arc<LogEntry>], this: Option<This>) -> SessionLog {
    let (entries, state) = (Arc::new(entries.to_vec()), Some(StateId(entries.len() as u128)));
    SessionLog { entries, this, state, ..SessionLog::default() }
}

fn query(text: &str, log: SessionLog) -> Command {
    Command::query(session(), text).with(log)
}

/// Answers OK, but ERR 1193 to what has `wrong` in it, and PREPARE with the id 7 and one parameter.
fn server(seen: Log) -> Stack {
    answering(move |command: Command| {
        let text = testing::text(&command);
        let line = match statement_id(command.whole()) {
            Some(id) => format!("{} {id}", command.code().name()),
            None => text.clone(),
        };
        seen.push(line);
        if text.contains("wrong") {
            return Ok(Reply::err(&command, &ErrPacket::new(codes::ER_UNKNOWN_STMT_HANDLER, "no")));
        }
        if let Some((code, sqlstate)) = match () {
            () if text.contains("lagging") => Some((1146, *b"42S02")),
            () if text.contains("killed") => Some((1317, *b"70100")),
            () => None,
        } {
            return Ok(Reply::err(&command, &ErrPacket::new(ErrorCode { code, sqlstate }, "no")));
        }
        if command.code() == CommandCode::STMT_PREPARE {
            let packet = [12, 0, 0, 1, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
            return Ok(Answer { packets: packet.to_vec().into(), end: End::default() }.into());
        }
        Ok(Reply::new(Body::end(End::default())))
    })
}

#[test]
fn what_is_missing_is_executed_once_and_in_order() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let entries = [entry(1, "SET @a=1", Expected::Success), entry(4, "USE d", Expected::Success)];
    client.send(query("SELECT 1", log(&entries, None))).unwrap();
    assert_eq!(seen.take(), ["SET @a=1", "USE d", "SELECT 1"]);
    client.send(query("SELECT 2", log(&entries, None))).unwrap();
    assert_eq!(seen.take(), ["SELECT 2"]);
    // The first entry has gone from the log; the connection is where it was.
    let more = [entries[1].clone(), entry(9, "SET @b=1", Expected::Success)];
    client.send(query("SELECT 3", log(&more, None))).unwrap();
    assert_eq!(seen.take(), ["SET @b=1", "SELECT 3"]);
}

#[test]
fn a_command_s_own_entry_is_not_executed_again_unless_it_failed() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let this = |lsn| Some(This { lsn, statement: None });
    client.send(query("SET @a=1", log(&[], this(1)))).unwrap();
    client
        .send(query("SET wrong=1", log(&[entry(1, "SET @a=1", Expected::Success)], this(2))))
        .unwrap();
    let entries =
        [entry(1, "SET @a=1", Expected::Success), entry(3, "SET @c=1", Expected::Success)];
    client.send(query("SELECT 1", log(&entries, None))).unwrap();
    assert_eq!(seen.take(), ["SET @a=1", "SET wrong=1", "SET @c=1", "SELECT 1"]);
}

#[test]
fn where_an_entry_fails_nothing_more_is_sent() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let entries =
        [entry(1, "SET wrong=1", Expected::Success), entry(2, "USE d", Expected::Success)];
    let error: Error =
        client.send(query("INSERT INTO t VALUES (1)", log(&entries, None))).unwrap_err();
    assert!(error.cause::<CatchUpFailed>().is_some());
    assert_eq!(
        (error.code(), error.message()),
        (1243, "deferred session command failed: no".into())
    );
    // What fails stops nothing that is in the same write, but the command is not.
    assert_eq!(seen.take(), ["SET wrong=1", "USE d"]);
    // Nor is anything from then on.
    assert!(client.query("SELECT 1").unwrap_err().cause::<CatchUpFailed>().is_some());
    assert_eq!(seen.take(), [""; 0]);
}

#[test]
fn after_a_failure_one_thing_goes_at_a_time() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let entries =
        [entry(1, "SET wrong=1", Expected::Success), entry(2, "USE d", Expected::Success)];
    let read = read("SELECT 1", log(&entries, None)).with(Careful);
    assert!(client.send(read).unwrap_err().cause::<CatchUpFailed>().is_some());
    assert_eq!(seen.take(), ["SET wrong=1"]);
}

/// As `parse` leaves it.
fn read(text: &str, log: SessionLog) -> Command {
    let statement = Statement::new(Bytes::copy_from_slice(text.as_bytes()), Default::default());
    query(text, log).with(statement)
}

/// What reached the server although its only entry failed: the command, if it was in one write.
fn behind_a_failure(settings: &str, command: Command) -> Vec<String> {
    let seen = Log::default();
    let mut client = Client::new(with(settings, server(seen.clone())));
    let error = client.send(command).expect_err("its only entry fails");
    assert!(error.cause::<CatchUpFailed>().is_some(), "{error}");
    seen.take().split_off(1)
}

#[test]
fn a_read_goes_with_what_is_missing_and_its_result_stays_if_that_fails() {
    let wrong = || log(&[entry(1, "SET wrong=1", Expected::Success)], None);
    for text in ["SELECT 1", "SELECT a FROM t WHERE b = 1", "SHOW TABLES"] {
        assert_eq!(behind_a_failure("", read(text, wrong())), [text]);
        assert_eq!(behind_a_failure("pipeline_reads = false", read(text, wrong())), [""; 0]);
    }
    for text in [
        "INSERT INTO t VALUES (1)",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a INTO @b FROM t",
        "SELECT @a := 1",
        "SELECT unknown(1)",
        "SELECT GET_LOCK('a', 1)",
        "SHOW WARNINGS",
        "SELECT FOUND_ROWS()",
        "SELECT 1; SELECT 2",
        "EXPLAIN SELECT 1",
        "BEGIN",
        "SET @a = 1",
        "CALL p()",
        "EXECUTE p",
    ] {
        assert_eq!(behind_a_failure("", read(text, wrong())), [""; 0], "{text}");
    }
    // Not in a transaction, nor where one would begin.
    for status in [Status::AUTOCOMMIT | Status::IN_TRANS, Status::EMPTY] {
        let mut session = session();
        session.set_status(status);
        let command = Command::query(session, "SELECT 1").with(wrong());
        let statement = Statement::new("SELECT 1".into(), Default::default());
        assert_eq!(behind_a_failure("", command.with(statement)), [""; 0]);
    }
    // Nor behind what nobody has understood.
    let unread = SessionLog { state: None, ..wrong() };
    assert_eq!(behind_a_failure("", read("SELECT 1", unread)), [""; 0]);
}

#[test]
fn h77_a_kill_in_the_midst_ends_the_command_and_the_connection() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let entries = [
        entry(1, "SET killed=1", Expected::Anything),
        entry(2, "SELECT killed", Expected::Statement { id: ID, parameters: 0 }),
    ];
    for entry in entries {
        let mut client = Client::new(with("", server(seen.clone())));
        let error = client.send(query("INSERT", log(&[entry], None))).unwrap_err();
        assert!(error.cause::<CatchUpKilled>().is_some());
        assert_eq!((error.code(), error.sqlstate()), (1317, *b"70100"));
        assert_eq!(seen.take().len(), 1);
        assert!(client.query("SELECT 1").is_err());
    }
    client.query("SELECT 1").unwrap();
}

#[test]
fn what_may_fail_may_fail() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let entries = [entry(1, "DEALLOCATE PREPARE wrong", Expected::Anything)];
    client.send(query("SELECT 1", log(&entries, None))).unwrap();
    assert_eq!(seen.take().len(), 2);
}

const ID: u32 = (1 << 31) + 5;

fn about(code: CommandCode, id: u32, log: SessionLog) -> Command {
    let body = [&id.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
    Command::new(session(), code, body).with(log)
}

#[test]
fn statements_have_the_server_s_ids_below_and_the_session_s_above() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let this = Some(This { lsn: 1, statement: Some(ID) });
    let prepare =
        Command::new(session(), CommandCode::STMT_PREPARE, "SELECT ?").with(log(&[], this));
    let answer = client.send(prepare).unwrap();
    assert_eq!(answer.packets[5..9], ID.to_le_bytes());
    let entries = [entry(1, "SELECT ?", Expected::Statement { id: ID, parameters: 1 })];
    let execute = |id| about(CommandCode::STMT_EXECUTE, id, log(&entries, None));
    client.send(execute(ID)).unwrap();
    assert_eq!(seen.take(), ["SELECT ?", "COM_STMT_EXECUTE 7"]);
    // The server's own id is not the client's to use.
    assert_eq!(client.send(execute(7)).unwrap().end.error, Some(1243));
    // An id that nobody has is the server's to refuse.
    client.send(execute(8)).unwrap();
    assert_eq!(seen.take(), ["COM_STMT_EXECUTE 8"]);
    client.send(about(CommandCode::STMT_CLOSE, ID, log(&[], None))).unwrap();
    client.send(about(CommandCode::STMT_CLOSE, ID, log(&[], None))).unwrap();
    assert_eq!(seen.take(), ["COM_STMT_CLOSE 7"]);
}

#[test]
fn a_statement_without_parameters_and_columns_has_an_id_of_the_session_s_too() {
    let mut client = stack(answering(|_| {
        let packet = Bytes::from_static(&[12, 0, 0, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        Ok(Reply::new(Body::end(End { packet, ..End::default() })))
    }));
    let this = Some(This { lsn: 1, statement: Some(ID) });
    let prepare = Command::new(session(), CommandCode::STMT_PREPARE, "DO 1").with(log(&[], this));
    assert_eq!(client.send(prepare).unwrap().end.packet[5..9], ID.to_le_bytes());
}

#[test]
fn a_statement_that_is_refused_here_says_so_when_it_is_executed() {
    for (text, parameters) in [("SELECT wrong", 1), ("SELECT 1", 2)] {
        let seen = Log::default();
        let mut client = stack(server(seen.clone()));
        let entries = [entry(1, text, Expected::Statement { id: ID, parameters })];
        let execute = about(CommandCode::STMT_EXECUTE, ID, log(&entries, None));
        assert_eq!(client.send(execute).unwrap().end.error, Some(1243), "{text}");
        client.send(query("SELECT 2", log(&entries, None))).unwrap();
        assert_eq!(seen.take(), [text, "SELECT 2"]);
    }
}

#[test]
fn h44_what_a_replica_lacks_is_said_with_the_command_that_was_not_sent() {
    for (text, elsewhere) in [("SELECT lagging", true), ("SELECT wrong", false)] {
        let seen = Log::default();
        let mut stack = with("", server(seen.clone()));
        let entries = [entry(1, text, Expected::Statement { id: ID, parameters: 1 })];
        for code in [CommandCode::STMT_EXECUTE, CommandCode::STMT_SEND_LONG_DATA] {
            let run = async {
                let command = about(code, ID, log(&entries, None));
                stack.ready().await.unwrap().call(command).await.unwrap()
            };
            let reply = run.now_or_never().expect("nothing here waits");
            let unprepared = reply.fact::<Unprepared>();
            let sent = unprepared.map(|it| statement_id(it.command.whole()));
            assert_eq!(sent, elsewhere.then_some(Some(ID)), "{text}");
        }
        // It is not asked again at once.
        assert_eq!(seen.take(), [text]);
    }
}

#[test]
fn a_reset_takes_the_statements_with_it() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    let prepared = entry(1, "SELECT ?", Expected::Statement { id: ID, parameters: 1 });
    client.send(query("SELECT 1", log(&[prepared], None))).unwrap();
    let code = CommandCode::RESET_CONNECTION;
    let reset = Arc::new(LogEntry::new(2, code, Bytes::new(), Expected::Success));
    seen.take();
    let execute = about(CommandCode::STMT_EXECUTE, ID, log(&[reset], None));
    client.send(execute).unwrap();
    assert_eq!(seen.take().last().unwrap(), &format!("COM_STMT_EXECUTE {ID}"));
}

fn prepared(lsn: Lsn, id: u32, text: &str, context: u128) -> Arc<LogEntry> {
    let expected = Expected::Statement { id, parameters: 1 };
    let entry = LogEntry::new(
        lsn,
        CommandCode::STMT_PREPARE,
        Bytes::copy_from_slice(text.as_bytes()),
        expected,
    );
    Arc::new(LogEntry { context: Some(StateId(context)), ..entry })
}

fn adopted(equal: bool) -> Adopted {
    let renewal = [
        Renewal { code: CommandCode::RESET_CONNECTION, payload: Bytes::new() },
        Renewal { code: CommandCode::QUERY, payload: "SET NAMES utf8mb4".into() },
    ];
    Adopted { equal, renewal: renewal.into() }
}

/// A connection on which a session has set something and prepared two statements.
fn used(seen: &Log, settings: &str) -> Client {
    let mut client = Client::new(with(settings, server(seen.clone())));
    let entries = [
        entry(7, "SET @a=1", Expected::Success),
        prepared(8, ID, "SELECT ?", 1),
        prepared(9, ID + 1, "SELECT CONNECTION_ID() + ?", 2),
    ];
    client.send(query("SELECT 1", log(&entries, None))).expect("nothing of it fails");
    seen.take();
    client
}

#[test]
fn another_session_in_the_same_state_takes_the_connection_as_it_is() {
    let seen = Log::default();
    let mut client = used(&seen, "");
    let entries = [entry(1, "SET @a=1", Expected::Success), prepared(2, ID + 5, "SELECT ?", 1)];
    let execute = about(CommandCode::STMT_EXECUTE, ID + 5, log(&entries, None));
    client.send(execute.with(adopted(true))).unwrap();
    // What depends on the session that prepared it is closed.
    assert_eq!(seen.take(), ["COM_STMT_CLOSE 7", "COM_STMT_EXECUTE 7"]);
    // The statements of the session before are not the new one's, by neither id.
    for id in [ID, ID + 1, 7] {
        let execute = about(CommandCode::STMT_EXECUTE, id, log(&entries, None));
        let ids: Vec<String> = match client.send(execute) {
            Ok(answer) if answer.end.error.is_some() => Vec::new(),
            _ => seen.take(),
        };
        assert!(!ids.contains(&"COM_STMT_EXECUTE 7".to_owned()), "{id}: {ids:?}");
    }
}

#[test]
fn a_session_in_another_state_begins_with_a_reset() {
    let seen = Log::default();
    let mut client = used(&seen, "");
    let entries = [entry(1, "SET @b=1", Expected::Success), prepared(2, ID, "SELECT ?", 1)];
    let write = query("INSERT", log(&entries, None)).with(adopted(false));
    client.send(write).unwrap();
    assert_eq!(seen.take(), ["", "SET NAMES utf8mb4", "SET @b=1", "SELECT ?", "INSERT"]);
    client.send(query("INSERT", log(&entries, None))).unwrap();
    assert_eq!(seen.take(), ["INSERT"]);
    // Without a log: as after a login.
    client.send(Command::query(session(), "INSERT").with(adopted(false))).unwrap();
    assert_eq!(seen.take(), ["", "SET NAMES utf8mb4", "INSERT"]);
}

#[test]
fn what_a_statement_would_take_from_the_connection_must_be_as_it_was() {
    let seen = Log::default();
    let mut client = used(&seen, "");
    // Prepared before the last SET: now it would be another statement.
    let entries = [prepared(1, ID, "SELECT \"a\"", 5), entry(2, "SET @a=1", Expected::Success)];
    client.send(query("INSERT", log(&entries, None)).with(adopted(true))).unwrap();
    assert_eq!(seen.take()[..2], ["", "SET NAMES utf8mb4"]);
    // Behind it, it is prepared where it is.
    let entries = [entries[1].clone(), prepared(3, ID, "SELECT \"a\"", 6)];
    client.send(query("INSERT", log(&entries, None)).with(adopted(true))).unwrap();
    assert_eq!(seen.take(), ["SELECT \"a\"", "INSERT"]);
}

#[test]
fn few_statements_are_kept_for_sessions_to_come() {
    for (settings, closed) in [("spare_statements = 1", 1), ("spare_statements = 0", 2), ("", 1)] {
        let seen = Log::default();
        let mut client = used(&seen, settings);
        client.send(Command::query(session(), "SELECT 2").with(adopted(true))).unwrap();
        let closes = vec!["COM_STMT_CLOSE 7".to_owned(); closed];
        assert_eq!(seen.take(), [closes, vec!["SELECT 2".to_owned()]].concat(), "{settings}");
        // Nobody reaches those that are kept by the server's id.
        let guess = client.send(about(CommandCode::STMT_EXECUTE, 7, log(&[], None)));
        let kept = closed < 2;
        assert_eq!(guess.unwrap().end.error, kept.then_some(1243), "{settings}");
        seen.take();
    }
}

#[test]
fn without_a_log_nothing_is_done() {
    let seen = Log::default();
    let mut client = stack(server(seen.clone()));
    client.query("SELECT 1").unwrap();
    assert_eq!(seen.take(), ["SELECT 1"]);
}

#[test]
fn neither_half_works_alone() {
    fn chain(text: &str) -> Result<Chain, Mistakes> {
        testing::chain(text, &Registry::default().with::<catch_up::Factory>())
    }
    let mistakes = chain("session = []\nbackend = [{ use = 'catch-up' }]").unwrap_err().to_string();
    assert!(mistakes.contains("session-log"), "{mistakes}");
}
