//! A script said to one address.

use super::script::{Script, Step};
use crate::{
    Client, Login,
    client::{Reply, Statement},
};
use anyhow::Result;
use std::collections::HashMap;
use wire::CommandCode;

/// The proxy's own.
const PINNED_ELSEWHERE: u16 = 9006;
/// Cursors of COM_STMT_EXECUTE are read-only.
const CURSOR: u8 = 1;
/// A transaction that may not write, and a server that may not: which one says so depends on where the
/// transaction is.
const READ_ONLY: [u16; 2] = [1290, 1792];
/// The same of an account that may not write, which a server says first that may.
const DENIED: [&[u8]; 3] =
    [b"INSERT command denied", b"UPDATE command denied", b"DELETE command denied"];
/// What stands before a statement's id in errors, and in the warnings that show them.
const IDS: [&[u8]; 2] = [b"nknown prepared statement handler (", b"The statement ("];

/// What came back for one step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Said {
    /// The step, for a person.
    pub step: String,
    /// Its replies, ids masked.
    pub bytes: Vec<u8>,
}

impl Said {
    /// Whether a statement was refused that needs what is on two connections.
    pub fn is_pinned_elsewhere(&self) -> bool {
        let [low, high] = PINNED_ELSEWHERE.to_le_bytes();
        self.bytes.windows(3).any(|part| part == [0xFF, low, high])
    }
}

/// A session under way.
struct Session<'a> {
    address: &'a str,
    login: &'a Login,
    accounts: &'a [Login],
    client: Client,
    statements: HashMap<usize, Statement>,
}

/// Says `script` to `address`; gives what came back, and the connections' ids as the other side gave
/// them. A connection that the other side ends is the last thing that came back.
///
/// # Errors
/// No connection at the begin.
pub fn say(
    address: &str,
    logins: &[Login],
    accounts: &[Login],
    script: &Script,
) -> Result<(Vec<Said>, Vec<u32>)> {
    let login = &logins[script.login % logins.len()];
    let client = Client::connect(address, login)?;
    let mut ids = vec![client.greeting.thread_id];
    let mut session = Session { address, login, accounts, client, statements: HashMap::new() };
    let mut said = Vec::new();
    for step in &script.steps {
        let bytes = match session.step(step) {
            Ok(bytes) => bytes,
            Err(error) => {
                let bytes = format!("ended: {}", kind(&error)).into_bytes();
                said.push(Said { step: step.to_string(), bytes });
                return Ok((said, ids));
            }
        };
        if *step == Step::Again {
            ids.push(session.client.greeting.thread_id);
        }
        said.push(Said { step: step.to_string(), bytes });
    }
    session.client.quit()?;
    Ok((said, ids))
}

/// A closed connection is one, whether by FIN or by RST.
fn kind(error: &anyhow::Error) -> String {
    match error.downcast_ref::<std::io::Error>() {
        Some(error) if error.kind() == std::io::ErrorKind::WouldBlock => "no reply".to_owned(),
        Some(_) => "closed".to_owned(),
        None => error.to_string(),
    }
}

impl Session<'_> {
    fn step(&mut self, step: &Step) -> Result<Vec<u8>> {
        let client = &mut self.client;
        let reply = match step {
            Step::Query(text) => client.query(text)?,
            Step::Together(texts) => return self.together(texts),
            Step::Schema(name) => {
                without_warnings(client.command(CommandCode::INIT_DB, name.as_bytes())?)
            }
            Step::Reset => client.command(CommandCode::RESET_CONNECTION, b"")?,
            Step::User(number) => {
                client.change_user(&self.accounts[number % self.accounts.len()])?;
                return Ok(client.login_info.clone());
            }
            Step::Again => {
                let client = Client::connect(self.address, self.login)?;
                std::mem::replace(&mut self.client, client).quit()?;
                self.statements.clear();
                return Ok(Vec::new());
            }
            Step::Ping => without_warnings(client.command(CommandCode::PING, b"")?),
            Step::SeveralStatements(on) => {
                without_warnings(client.command(CommandCode::SET_OPTION, &[u8::from(!on), 0])?)
            }
            Step::Prepare(slot, text) => {
                let statement = client.prepare(text)?;
                let reply = statement.reply.clone();
                if reply.error().is_none() {
                    self.statements.insert(*slot, statement);
                }
                reply
            }
            Step::Execute(slot, _)
            | Step::Cursor(slot, _)
            | Step::Fetch(slot, _)
            | Step::LongData(slot, _)
            | Step::ResetStatement(slot)
            | Step::Close(slot) => return self.statement(*slot, step),
        };
        Ok(masked(reply))
    }

    fn together(&mut self, texts: &[String]) -> Result<Vec<u8>> {
        let client = &mut self.client;
        let framed = texts.iter().map(|text| client.framed(CommandCode::QUERY, text.as_bytes()));
        let bytes = framed.collect::<Vec<_>>().concat();
        client.send(&bytes)?;
        let mut received = Vec::new();
        for _ in texts {
            received.extend(masked(client.receive(CommandCode::QUERY)?));
        }
        Ok(received)
    }

    /// What is done with a prepared statement; nothing, where there is none of that number.
    fn statement(&mut self, slot: usize, step: &Step) -> Result<Vec<u8>> {
        let (client, statements) = (&mut self.client, &mut self.statements);
        let Some(statement) = statements.get(&slot) else { return Ok(Vec::new()) };
        let reply = match step {
            Step::Execute(_, values) => {
                let wanted = usize::from(statement.parameters());
                let values = values.iter().map(|value| value.as_deref().map(str::as_bytes));
                let mut values: Vec<_> = values.take(wanted).collect();
                values.resize(wanted, None);
                client.execute(statement, 0, &values)?
            }
            Step::Cursor(_, rows) => {
                let values = vec![None; usize::from(statement.parameters())];
                let executed = client.execute(statement, CURSOR, &values)?;
                let cursor =
                    executed.end.status.is_some_and(|s| s.contains(wire::Status::CURSOR_EXISTS));
                let mut bytes = masked(executed);
                if cursor {
                    bytes.extend(masked(client.fetch(statement, *rows)?));
                }
                return Ok(bytes);
            }
            Step::Fetch(_, rows) => client.fetch(statement, *rows)?,
            Step::LongData(_, data) => {
                for parameter in 0..statement.parameters() {
                    let (head, tail) = data.as_bytes().split_at(data.len() / 2);
                    client.long_data(statement, parameter, head)?;
                    client.long_data(statement, parameter, tail)?;
                }
                client.execute_with_long_data(statement)?
            }
            Step::ResetStatement(_) => {
                client.statement_command(CommandCode::STMT_RESET, statement)?
            }
            _ => {
                client.close_statement(statement)?;
                return Ok(Vec::new());
            }
        };
        Ok(masked(reply))
    }
}

/// The OK or EOF packet of a command that is no statement: in it MySQL counts the warnings of the
/// statement before, wherever that was.
fn without_warnings(mut reply: Reply) -> Reply {
    if reply.error().is_none() {
        let at = if reply.raw.len() == 4 + 5 { 5 } else { 9 };
        reply.raw.iter_mut().skip(at).take(2).for_each(|byte| *byte = 0);
    }
    reply
}

/// What the column of a variable that was never set is like changes once a statement has read it on this
/// connection, and back: by MariaDB, and by MySQL.
const TRACES: [(&[u8], &[u8]); 2] = [
    (b"\x0c?\x00\xff\xff\xff\x00\xfb\x80\x00'", b"\x0c?\x00\x00\x00\x00\x01\xfb\x80\x00'"),
    (b"\x0c-\x00\xf0\xff\xff\x0f\xfb\x00\x00\x1f", b"\x0c?\x00\xfc\xff\x00\x00\xfd\x80\x00\x1f"),
];

fn without_traces(mut raw: Vec<u8>) -> Vec<u8> {
    for (read, never) in TRACES {
        let mut at = 0;
        while let Some(found) = raw[at..].windows(read.len()).position(|part| part == read) {
            at += found;
            raw[at..at + read.len()].copy_from_slice(never);
        }
    }
    raw
}

/// A reply's bytes; where a statement's id is in it, the error's code.
fn masked(reply: Reply) -> Vec<u8> {
    let shows = |mark: &[u8]| reply.raw.windows(mark.len()).position(|part| part == mark);
    let denied = DENIED.iter().any(|verb| shows(verb).is_some());
    if denied || reply.error_code().is_some_and(|code| READ_ONLY.contains(&code)) {
        return b"read only".to_vec();
    }
    let Some(at) = IDS.iter().find_map(|mark| shows(mark).map(|at| at + mark.len())) else {
        return without_traces(reply.raw);
    };
    let behind = reply.raw[at..].iter().skip_while(|byte| byte.is_ascii_digit());
    let mut bytes = format!("{:?} ", reply.error_code()).into_bytes();
    // which function of the server has found out
    bytes.extend(behind.take_while(|byte| **byte != b')'));
    bytes
}
