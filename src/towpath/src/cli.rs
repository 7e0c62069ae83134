//! What may stand on the command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Towpath stands between an application and its MySQL or MariaDB servers.
///
/// What happens to a command on its way (which server it goes to, and what is done with it) is a
/// chain of filters written down in one TOML file.
#[derive(Debug, Parser)]
#[command(name = "towpath", version, arg_required_else_help = true, after_long_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  towpath demo                       three real servers with the proxy in front, to play with
  towpath demo --yes --once          the same as a scripted tour: which server ran what
  towpath check towpath.toml         every mistake in the file, with its line
  towpath explain towpath.toml --user app 'SELECT 1'   which rules match, where it goes
  towpath run towpath.toml           the proxy; Ctrl-C or SIGTERM ends it gracefully
  towpath top                        what a running proxy does, in a terminal
  towpath sessions --busy --json     the same for scripts: who has something under way
  towpath reload                     the one that runs reads its file again
  towpath schema > schema.json       for editors that complete and check TOML";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the proxy that FILE describes
    ///
    /// Runs in the foreground and logs to standard error. SIGINT (Ctrl-C) and SIGTERM end it
    /// gracefully: no new clients, and those that are there have `shutdown.grace` to finish. A
    /// second signal ends it at once. SIGHUP has the configuration read again.
    Run(RunOptions),
    /// Have a proxy that runs read its configuration again
    ///
    /// Everything is checked first: a file with mistakes changes nothing, and they are printed.
    /// Exits 0 when the new configuration is in use and 1 when it is not.
    Reload(AskOptions),
    /// End a proxy that runs, gracefully
    ///
    /// As SIGTERM does: it takes no new clients, and those that are there have `shutdown.grace` to
    /// finish. Returns when that has begun.
    Drain(AskOptions),
    /// Say everything that is wrong with FILE
    ///
    /// Nothing is started. Exits 0 when the file is good and 1 when it is not; each mistake is
    /// shown with its file, line, column, the line itself, and a hint.
    Check {
        /// The configuration, in TOML
        file: PathBuf,
    },
    /// Say what the chain of FILE does with a statement
    ///
    /// Takes the statement through the real filters, and answers it with OK where a server would
    /// have been asked: no server is needed and nothing is sent. Shows the digest, what the
    /// statement is, which rules matched and what each set, and where it would go.
    Explain(ExplainOptions),
    /// Print the JSON Schema of the configuration file
    Schema,
    /// What a running proxy has: listeners, servers, connections
    ///
    /// Asks its admin port. Exits 0 if it answers and no server is out of use, 1 otherwise.
    Status(AskOptions),
    /// Who is connected to a running proxy, and what each holds
    ///
    /// Those whose command has run longest come first, then those that were at work last.
    Sessions(SessionsOptions),
    /// Watch a running proxy: traffic, servers, sessions, statements
    ///
    /// Takes the whole terminal and asks again each second. Tab or the arrows change the view, q
    /// ends it. With --json, or where there is no terminal, it prints what it would show once.
    Top(AskOptions),
    /// Try it: a real primary, two replicas, and the proxy in front of them
    ///
    /// Starts a MariaDB primary and two replicas with Towpath in front, and removes them at the
    /// end. The servers live in a directory of their own and listen on free loopback ports; no
    /// service, no file and no data of this machine's is touched. Ctrl-C stops and removes all of
    /// it (so do SIGTERM and a closed terminal; only SIGKILL leaves the servers behind).
    ///
    /// Where MariaDB's programs are missing, the distribution's packages mariadb-server-core,
    /// mariadb-client-core and openssl are installed, which start no service. It asks first.
    #[command(after_long_help = DEMO_EXAMPLES)]
    Demo(DemoOptions),
}

/// How the proxy is to begin.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunOptions {
    /// The configuration, in TOML
    pub(crate) file: PathBuf,
    /// Take the listening sockets of the process that runs, which drains once this one serves
    ///
    /// It is found at the unix socket that `[shutdown] take_over` names. No connection attempt is
    /// refused or reset meanwhile. Where nobody runs this one begins by itself.
    #[arg(long)]
    pub(crate) take_over: bool,
}

/// Whose statement it is.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExplainOptions {
    /// The configuration, in TOML
    pub(crate) file: PathBuf,
    /// The statement
    pub(crate) sql: String,
    /// Who sends it
    #[arg(long, value_name = "NAME")]
    pub(crate) user: String,
    /// The schema that the session is in
    #[arg(long, value_name = "NAME")]
    pub(crate) schema: Option<String>,
    /// The listener with this port
    #[arg(long, value_name = "PORT", conflicts_with = "listener")]
    pub(crate) port: Option<u16>,
    /// The listener by its place in the file, from 1
    #[arg(long, value_name = "N")]
    pub(crate) listener: Option<usize>,
    /// The client's address; without it, 127.0.0.1
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) client: Option<std::net::IpAddr>,
    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which proxy is asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct AskOptions {
    /// Its admin port, as `[admin] address` of its file
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:6032")]
    pub(crate) admin: String,
    /// A file whose first line is the token, as `[admin] token_file` [default: what the variable
    /// TOWPATH_TOKEN holds, if it is there]
    #[arg(long, value_name = "FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Print the answer as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which sessions are shown.
#[derive(Debug, Clone, Args)]
pub(crate) struct SessionsOptions {
    #[command(flatten)]
    pub(crate) ask: AskOptions,
    /// Of this user only
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// With a command or a transaction under way only
    #[arg(long)]
    pub(crate) busy: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) limit: usize,
}

/// How the demo is to run.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoOptions {
    /// Install missing packages without asking
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Run a scripted tour through the proxy instead of waiting for Ctrl-C
    ///
    /// Prints which server ran which statement, read from the servers' own logs. Exits 0 only if
    /// every statement ran where it should have.
    #[arg(long)]
    pub(crate) once: bool,
    /// The proxy's port on 127.0.0.1 [default: 6033, or a free one if that is taken]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Where the servers live; must not exist yet [default: among the temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Leave the directory (data, logs, configuration) behind at the end
    ///
    /// The servers are stopped in any case.
    #[arg(long)]
    pub(crate) keep: bool,
}

const DEMO_EXAMPLES: &str = "\
Examples:
  towpath demo                       asks before it installs anything
  towpath demo --yes --once          for scripts: exit code 0 when all went as it should
  towpath demo --dir ./demo --keep   look at data, logs and configuration afterwards

Exit codes:
  0    all well (without --once: ended by Ctrl-C or SIGTERM while running)
  1    something failed, or the tour found a statement on the wrong server
  2    packages are missing and may not be installed; the command to do so is printed
  130  interrupted before it was ready";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn help(path: &[&str]) -> String {
        let mut command = Cli::command();
        command.build();
        let found = path.iter().fold(&mut command, |c, name| {
            c.find_subcommand_mut(name).expect("the subcommand is declared above")
        });
        found.render_long_help().to_string()
    }

    #[test]
    fn declaration_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_says_what_matters() {
        let top = help(&[]);
        for word in ["run", "check", "schema", "demo", "--version", "Examples:", "--yes --once"] {
            assert!(top.contains(word), "{word:?} is not in:\n{top}");
        }
        let demo = help(&["demo"]);
        for word in [
            "--yes",
            "--once",
            "--port",
            "--dir",
            "--keep",
            "primary",
            "two replicas",
            "Ctrl-C",
            "mariadb-server-core",
            "6033",
            "Exit codes:",
            "no service",
        ] {
            assert!(demo.contains(word), "{word:?} is not in:\n{demo}");
        }
        let run = help(&["run"]);
        assert!(run.contains("SIGTERM") && run.contains("<FILE>"), "{run}");
    }

    #[test]
    fn port_zero_and_surplus_words_are_refused() {
        assert!(Cli::try_parse_from(["towpath", "demo", "--port", "0"]).is_err());
        assert!(Cli::try_parse_from(["towpath", "demo", "--port", "70000"]).is_err());
        assert!(Cli::try_parse_from(["towpath", "run"]).is_err());
        assert!(Cli::try_parse_from(["towpath", "run", "a.toml", "b.toml"]).is_err());
        assert!(Cli::try_parse_from(["towpath", "demo", "-y", "--port", "6033"]).is_ok());
    }
}
