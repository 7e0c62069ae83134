//! What a demo shows: lines, and steps with a spinner on a terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

const FRAMES: [char; 10] = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];

/// Standard output: colours and a spinner on a terminal, plain lines otherwise.
#[derive(Debug, Clone, Copy)]
pub(super) struct Screen {
    terminal: bool,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self { terminal: io::stdout().is_terminal() }
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Prints one line, or several.
    pub(super) fn line(&self, text: &str) {
        write(&format!("{text}\n"));
    }

    /// Prints a question; the answer comes on the same line.
    pub(super) fn ask(&self, question: &str) -> io::Result<()> {
        let mut out = anstream::stdout().lock();
        out.write_all(question.as_bytes())?;
        out.flush()
    }

    /// Begins a step. One that is dropped before [`Step::done`] is shown as failed.
    pub(super) fn step(&self, text: &str) -> Step {
        let state = Arc::new(Mutex::new(State { text: text.to_owned(), over: false }));
        let spinner = self.terminal.then(|| tokio::spawn(spin(Arc::clone(&state))));
        if !self.terminal {
            self.line(&format!("...   {text}"));
        }
        Step { screen: *self, state, spinner, began: Instant::now() }
    }
}

/// Something that takes a while.
#[derive(Debug)]
pub(super) struct Step {
    screen: Screen,
    state: Arc<Mutex<State>>,
    spinner: Option<JoinHandle<()>>,
    began: Instant,
}

/// Locked for the time of drawing one line, so that the spinner cannot draw over a step's end.
#[derive(Debug)]
struct State {
    text: String,
    over: bool,
}

impl Step {
    /// Says what the step is at now; nothing if it was at that already.
    pub(super) fn update(&self, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.text != text {
            text.clone_into(&mut state.text);
            if !self.screen.terminal {
                self.screen.line(&format!("...   {text}"));
            }
        }
    }

    /// Ends the step.
    pub(super) fn done(self, text: &str) {
        let seconds = self.began.elapsed().as_secs_f32();
        self.end(Mark::Good, &format!("{text} ({seconds:.1} s)"));
    }

    fn end(&self, mark: Mark, text: &str) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.over = true;
        let clear = if self.screen.terminal { "\r\x1b[2K" } else { "" };
        write(&format!("{clear}{} {text}\n", mark.shown(self.screen.terminal)));
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            // Takes effect where it waits next; until then `over` keeps it from drawing.
            spinner.abort();
        }
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (over, text) = (state.over, state.text.clone());
        drop(state);
        if !over {
            self.end(Mark::Bad, &text);
        }
    }
}

/// Whether something is as it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    Good,
    Bad,
}

impl Mark {
    /// A coloured tick or cross on a terminal, a word otherwise.
    pub(super) fn shown(self, terminal: bool) -> &'static str {
        match (self, terminal) {
            (Self::Good, true) => "\x1b[32m✓\x1b[0m",
            (Self::Bad, true) => "\x1b[31m✗\x1b[0m",
            (Self::Good, false) => "ok   ",
            (Self::Bad, false) => "BAD  ",
        }
    }
}

async fn spin(state: Arc<Mutex<State>>) {
    let mut ticks = tokio::time::interval(Duration::from_millis(100));
    for frame in FRAMES.iter().cycle() {
        ticks.tick().await;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.over {
            return;
        }
        write(&format!("\r\x1b[2K{frame} {}", state.text));
    }
}

/// A closed standard output must not keep a demo from cleaning up.
fn write(text: &str) {
    let mut out = anstream::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
