//! `towpath status`: what a running proxy has.

use crate::{
    ask::{Port, exit, print_json},
    cli::AskOptions,
    text::{self, Table, plain},
};
use anstyle::Style;
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::process::ExitCode;

/// What is read of `GET /status`.
#[derive(Deserialize)]
struct Status {
    version: String,
    uptime_seconds: f64,
    state: String,
    sessions: i64,
    listeners: Vec<Listener>,
    servers: Vec<Server>,
}

#[derive(Deserialize)]
struct Listener {
    address: String,
    chain: String,
}

#[derive(Deserialize)]
struct Server {
    hostgroup: u32,
    name: String,
    weight: u32,
    state: String,
    member: bool,
    attached: u32,
    idle: u32,
    outstanding: u32,
}

pub(crate) fn run(options: &AskOptions) -> ExitCode {
    exit(shown(options))
}

fn shown(options: &AskOptions) -> Result<ExitCode> {
    let answer: Value = Port::of(options)?.get("/status")?;
    let status = Status::deserialize(&answer).context("an answer of another version")?;
    if options.json {
        print_json(&answer);
    } else {
        anstream::print!("{}", status.text());
    }
    let well = status.servers.iter().all(|server| server.state == "online");
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Status {
    fn text(&self) -> String {
        let bold = Style::new().bold();
        let (state, colour) = text::state(&self.state);
        let up = text::seconds(self.uptime_seconds);
        let Self { version, sessions, .. } = self;
        let mut out = format!(
            "{bold}towpath {version}{bold:#}: {colour}{state}{colour:#} for {up}, {sessions} clients\n\n"
        );
        let mut listeners = Table::new(&["listener", "chain"]);
        for Listener { address, chain } in &self.listeners {
            listeners.row(vec![plain(address), plain(chain)]);
        }
        out += &listeners.text();
        out.push('\n');
        let mut servers = Table::new(&[
            ">hostgroup",
            "server",
            "state",
            "member",
            ">weight",
            ">attached",
            ">idle",
            ">outstanding",
        ]);
        for server in &self.servers {
            servers.row(vec![
                plain(server.hostgroup),
                plain(&server.name),
                text::state(&server.state),
                plain(if server.member { "yes" } else { "no" }),
                plain(server.weight),
                plain(server.attached),
                plain(server.idle),
                plain(server.outstanding),
            ]);
        }
        out + &servers.text()
    }
}
