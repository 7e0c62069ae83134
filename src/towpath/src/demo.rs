//! `towpath demo`: three real servers, the proxy in front of them, and the end of all of it.
//!
//! ```text
//! packages ─▶ workspace ─▶ cluster ─▶ front ─┬─▶ guide, then wait ─┬─▶ front ends ─▶ workspace closes
//!                                            └─▶ tour (--once) ────┘                   ▲
//!                a signal, an error or a panic on the way ─────────────────────────────┘
//! ```
//!
//! Whatever is made, is made in the workspace or is a process of it; so its end is the one place
//! that cleans up.

mod client;
mod cluster;
mod front;
mod guide;
mod packages;
mod ports;
mod processes;
mod screen;
mod tour;
mod workspace;

use crate::cli::DemoOptions;
use crate::signals::{self, INTERRUPTED, Second};
use cluster::{Accounts, Cluster, Log, SCRIPT_NAME};
use front::Front;
use ports::Ports;
use screen::Screen;
use std::process::{ExitCode, Stdio};
use std::{env, io};
use tokio_util::sync::CancellationToken;
use workspace::Workspace;

/// Why a demo ends otherwise than well.
#[derive(Debug)]
enum Stop {
    /// By a signal, before it was ready or in the middle of the tour.
    Interrupted,
    /// Nothing was started: the text says what to do first.
    Refused(String),
    /// A statement of the tour ran on the wrong server, or had the wrong answer.
    Untrue,
    Failed(anyhow::Error),
}

impl From<anyhow::Error> for Stop {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.into())
    }
}

/// Runs the demo from beginning to end. When this returns, nothing that it started runs.
pub(crate) fn run(options: &DemoOptions, registry: &chain::Registry) -> ExitCode {
    let end = tokio::runtime::Runtime::new()
        .map_err(Stop::from)
        .and_then(|runtime| runtime.block_on(demo(options, registry, &Screen::new())));
    match end {
        Ok(()) => ExitCode::SUCCESS,
        Err(Stop::Interrupted) => {
            anstream::eprintln!("towpath demo: interrupted");
            ExitCode::from(INTERRUPTED)
        }
        Err(Stop::Refused(text)) => {
            anstream::eprintln!("towpath demo: {text}");
            ExitCode::from(2)
        }
        Err(Stop::Untrue) => {
            anstream::eprintln!("towpath demo: the tour is not as it should be");
            ExitCode::FAILURE
        }
        Err(Stop::Failed(error)) => {
            anstream::eprintln!("towpath demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn demo(
    options: &DemoOptions,
    registry: &chain::Registry,
    screen: &Screen,
) -> Result<(), Stop> {
    let stop = signals::stop(Second::Ignored)?;
    packages::ensure(options.yes, screen, &stop).await?;
    let ports = Ports::choose(options.port)?;
    let workspace = Workspace::create(options.dir.as_deref(), options.keep)?;
    let end = play(options, registry, &workspace, &ports, screen, &stop).await;
    match close(workspace, options.keep, screen) {
        Ok(()) => end,
        Err(error) if end.is_ok() => Err(error.into()),
        // The first reason is the one to report in the end; this one comes on top of it.
        Err(error) => {
            anstream::eprintln!("towpath demo: {error:#}");
            end
        }
    }
}

async fn play(
    options: &DemoOptions,
    registry: &chain::Registry,
    workspace: &Workspace,
    ports: &Ports,
    screen: &Screen,
    stop: &CancellationToken,
) -> Result<(), Stop> {
    let accounts = Accounts::new()?;
    // The tour reads the servers' logs by SQL, people follow them in a file.
    let log = if options.once { Log::Table } else { Log::File };
    let set_up = async {
        let cluster = Cluster::start(workspace, ports, &accounts, log, screen).await?;
        let front = Front::start(workspace, ports, &accounts, registry, screen).await?;
        Ok((cluster, front))
    };
    // Given up half-way, it leaves processes behind: the workspace knows them.
    let (cluster, mut front) = unless(stop, set_up).await?;
    let end = if options.once {
        let tour = tour::run(&cluster, ports.proxy, &accounts, screen);
        match unless(stop, async { Ok(tour.await?) }).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Stop::Untrue),
            Err(end) => Err(end),
        }
    } else {
        screen.line(&guide::text(ports, &accounts, workspace.dir()));
        tokio::select! {
            () = stop.cancelled() => Ok(()),
            error = front.failed() => Err(Stop::Failed(error)),
        }
    };
    front.end().await;
    end
}

/// `work`, given up at the next point where it waits when `stop` is cancelled.
async fn unless<T>(
    stop: &CancellationToken,
    work: impl Future<Output = Result<T, Stop>>,
) -> Result<T, Stop> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(Stop::Interrupted),
        result = work => result,
    }
}

fn close(workspace: Workspace, keep: bool, screen: &Screen) -> anyhow::Result<()> {
    let dir = workspace.dir().to_owned();
    let step = screen.step("stopping the servers");
    // Blocks this thread for as long as the servers take to end; nothing else is left to do.
    workspace.close()?;
    if keep {
        step.done("stopped the servers; to start them and the proxy again:");
        screen.line(&format!("  bash {0}/{SCRIPT_NAME} up {0}", dir.display()));
        screen.line(&format!("  towpath run {}/towpath.toml", dir.display()));
    } else {
        step.done("stopped the servers and removed everything");
    }
    Ok(())
}

/// A program to run unseen: no input, ended when abandoned, out of reach of the terminal's Ctrl-C
/// (so that it is this process that decides when it ends), and free of the settings that MySQL
/// clients take from the environment.
fn command(program: &str) -> tokio::process::Command {
    let mut command = tokio::process::Command::new(program);
    command.stdin(Stdio::null()).kill_on_drop(true).process_group(0).env("LC_ALL", "C");
    for name in ["MYSQL_PWD", "MYSQL_HOST", "MYSQL_TCP_PORT", "MYSQL_UNIX_PORT", "MYSQL_HOME"] {
        command.env_remove(name);
    }
    let path = env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"));
    command
}
