//! `towpath sessions`: who is connected to a running proxy.

use crate::{
    ask::{Port, exit, print_json},
    cli::SessionsOptions,
    text::{self, Table, plain},
};
use anstyle::{AnsiColor, Style};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::{fmt::Write as _, process::ExitCode};

/// What is read of `GET /sessions`.
#[derive(Deserialize)]
pub(crate) struct Sessions {
    pub(crate) total: usize,
    pub(crate) sessions: Vec<Session>,
}

/// One of them.
#[derive(Deserialize)]
pub(crate) struct Session {
    pub(crate) id: u32,
    pub(crate) user: String,
    pub(crate) client: String,
    schema: Option<String>,
    chain: String,
    age_seconds: f64,
    commands: u64,
    pub(crate) running: bool,
    pub(crate) since_seconds: f64,
    in_transaction: bool,
    fast_forward: bool,
    connections: Vec<Connection>,
    pins: Vec<String>,
    sticky: String,
    sticky_servers: Vec<Sticky>,
}

#[derive(Deserialize)]
struct Connection {
    hostgroup: u32,
    server: String,
}

#[derive(Deserialize)]
struct Sticky {
    server: Option<String>,
}

pub(crate) fn run(options: &SessionsOptions) -> ExitCode {
    exit(shown(options))
}

fn shown(options: &SessionsOptions) -> Result<ExitCode> {
    let mut path = format!("/sessions?limit={}&busy={}", options.limit, options.busy);
    if let Some(user) = &options.user {
        path += "&user=";
        for byte in user.bytes() {
            let _ = write!(path, "%{byte:02X}");
        }
    }
    let answer: Value = Port::of(&options.ask)?.get(&path)?;
    if options.ask.json {
        print_json(&answer);
        return Ok(ExitCode::SUCCESS);
    }
    let sessions = Sessions::deserialize(&answer).context("an answer of another version")?;
    let mut table = Table::new(&[
        ">id",
        "user",
        "client",
        "schema",
        "chain",
        "doing",
        ">age",
        ">commands",
        "holds",
        "pins",
        "sticky",
    ]);
    for session in &sessions.sessions {
        table.row(vec![
            plain(session.id),
            plain(&session.user),
            plain(&session.client),
            plain(session.schema.as_deref().unwrap_or("-")),
            plain(session.chain()),
            session.doing(),
            plain(text::seconds(session.age_seconds)),
            plain(session.commands),
            plain(session.holds()),
            plain(session.pins()),
            plain(session.sticky()),
        ]);
    }
    anstream::print!("{}", table.text());
    let (shown, total) = (sessions.sessions.len(), sessions.total);
    if shown < total {
        anstream::println!("\n{shown} of {total}; --limit shows more");
    }
    Ok(ExitCode::SUCCESS)
}

impl Session {
    pub(crate) fn chain(&self) -> &str {
        if self.fast_forward { "fast-forward" } else { &self.chain }
    }

    /// What it does, and for how long.
    pub(crate) fn doing(&self) -> (String, Style) {
        let since = text::seconds(self.since_seconds);
        match (self.running, self.in_transaction) {
            (true, _) => (format!("runs {since}"), AnsiColor::Green.on_default()),
            (false, true) => (format!("idle {since}"), AnsiColor::Yellow.on_default()),
            (false, false) => (format!("idle {since}"), Style::new().dimmed()),
        }
    }

    /// Its connections, as server (hostgroup).
    pub(crate) fn holds(&self) -> String {
        let one = |Connection { hostgroup, server }: &Connection| format!("{server} ({hostgroup})");
        or_dash(self.connections.iter().map(one).collect::<Vec<_>>().join(", "))
    }

    pub(crate) fn pins(&self) -> String {
        let transaction = self.in_transaction.then_some("transaction");
        let pins = transaction.into_iter().chain(self.pins.iter().map(String::as_str));
        or_dash(pins.collect::<Vec<_>>().join(", "))
    }

    fn sticky(&self) -> String {
        if self.sticky == "off" {
            return "-".to_owned();
        }
        let servers = self.sticky_servers.iter();
        let servers = servers.map(|Sticky { server }| server.as_deref().unwrap_or("gone"));
        format!("{} {}", self.sticky, servers.collect::<Vec<_>>().join(", "))
    }
}

fn or_dash(text: String) -> String {
    if text.is_empty() { "-".to_owned() } else { text }
}
