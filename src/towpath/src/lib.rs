//! The `towpath` command line as a library: [`run`] is a whole `main`.
//!
//! What a binary adds to it is its list of filters, a [`chain::Registry`]; [`builtin`] holds the
//! list that the shipped executable has.
//!
//! | command | module |
//! |---|---|
//! | `towpath run FILE` | `serve` |
//! | `towpath reload`, `towpath drain` | `order`: told to the admin port of the one that runs |
//! | `towpath check FILE`, `towpath schema` | `check` |
//! | `towpath explain FILE ... SQL` | `explain` |
//! | `towpath demo` | `demo`: three real servers, the proxy in front, a tour |

use clap::Parser;
use std::process::ExitCode;

pub mod builtin;
mod check;
mod cli;
mod demo;
mod explain;
mod log;
mod notify;
mod order;
mod serve;
mod signals;
mod sockets;
mod watch;

use cli::{Cli, Command};

/// Reads the command line, does what it says with the filters of `registry`, and returns the
/// process's exit code: 0 done, 1 failed, 2 not started (wrong usage, or the demo may not install
/// what it needs), 130 interrupted.
pub fn run(registry: chain::Registry) -> ExitCode {
    match Cli::parse().command {
        Command::Run(options) => serve::run(&options, registry),
        Command::Reload(options) => order::reload(&options),
        Command::Drain(options) => order::drain(&options),
        Command::Check { file } => check::check(&file, &registry),
        Command::Explain(options) => explain::run(&options, &registry),
        Command::Schema => check::schema(&registry),
        Command::Demo(options) => demo::run(&options, &registry),
    }
}
