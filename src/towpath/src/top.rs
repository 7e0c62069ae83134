//! `towpath top`: a running proxy, watched in a terminal.
//!
//! ```text
//! GET /overview, each second ──▶ Seen (rates, by what was there before) ──▶ screen
//! keys ─────────────────────────▶ which view
//! ```

mod screen;
mod seen;

use crate::{
    ask::{Port, exit, print_json},
    cli::AskOptions,
};
use anyhow::Result;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use screen::View;
use seen::Seen;
use std::{
    io::{IsTerminal, stdout},
    process::ExitCode,
    time::{Duration, Instant},
};

/// How often the proxy is asked.
const INTERVAL: Duration = Duration::from_secs(1);

pub(crate) fn run(options: &AskOptions) -> ExitCode {
    exit(shown(options))
}

fn shown(options: &AskOptions) -> Result<ExitCode> {
    let port = Port::of(options)?;
    if options.json || !stdout().is_terminal() {
        print_json(&port.get("/overview")?);
        return Ok(ExitCode::SUCCESS);
    }
    // Before the screen is taken: what is wrong at once is one line.
    let mut seen = Seen::default();
    seen.add(port.get("/overview")?);
    let mut terminal = ratatui::try_init()?;
    let watched = watch(&mut terminal, &port, &mut seen);
    ratatui::restore();
    watched.map(|()| ExitCode::SUCCESS)
}

fn watch(terminal: &mut ratatui::DefaultTerminal, port: &Port, seen: &mut Seen) -> Result<()> {
    let mut view = View::default();
    let mut next = Instant::now() + INTERVAL;
    loop {
        terminal.draw(|frame| screen::draw(frame, seen, view))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            match event::read()? {
                Event::Key(key) if key.kind == KeyEventKind::Press => match key.code {
                    KeyCode::Char('q') | KeyCode::Esc => return Ok(()),
                    KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                        return Ok(());
                    }
                    KeyCode::Tab | KeyCode::Right => view = view.next(1),
                    KeyCode::BackTab | KeyCode::Left => view = view.next(View::ALL.len() - 1),
                    _ => {}
                },
                _ => {}
            }
        }
        if Instant::now() >= next {
            next = Instant::now() + INTERVAL;
            match port.get("/overview") {
                Ok(overview) => seen.add(overview),
                Err(error) => seen.failed(format!("{error:#}")),
            }
        }
    }
}
