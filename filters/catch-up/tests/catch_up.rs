//! One connection without a socket: what reaches it, and what becomes of its replies.

use bytes::Bytes;

use chain::{
    Answer, Body, Chain, Command, End, Error, Registry, Reply, Stack,
    error::CatchUpFailed,
    facts::{Expected, LogEntry, Lsn, SessionLog, This},
    settings::{Mistakes, Settings},
    testing::{self, Client, Log, answering, session},
};
use std::sync::Arc;
use wire::{
    command::{CommandCode, statement::statement_id},
    err::{ErrPacket, codes},
};

/// The chain's `backend` list, whatever is above it.
fn stack(bottom: Stack) -> Client {
    use chain::FilterFactory;
    use chain::registry::IntoLayer;
    let mut mistakes = Mistakes::default();
    let settings = Settings::parse("chain.toml", "", &mut mistakes);
    let config = catch_up::Factory::read(&settings, &mut mistakes).expect("it has no settings");
    let layer = catch_up::Factory::build(config).expect("it has no settings").into_layer();
    Client::new(tower::Layer::layer(&layer, bottom))
}

fn entry(lsn: Lsn, text: &str, expected: Expected) -> Arc<LogEntry> {
    let code = match expected {
        Expected::Statement { .. } => CommandCode::STMT_PREPARE,
        _ => CommandCode::QUERY,
    };
    Arc::new(LogEntry::new(lsn, code, Bytes::copy_from_slice(text.as_bytes()), expected))
}

fn log(entries: &[Arc<LogEntry>], this: Option<This>) -> SessionLog {
    SessionLog { entries: Arc::new(entries.to_vec()), this, ..SessionLog::default() }
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
    assert_eq!(seen.take(), ["SET wrong=1"]);
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
