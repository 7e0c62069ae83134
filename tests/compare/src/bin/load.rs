//! One load on one address; prints one line of JSON. `tests/compare/run` calls it.

use anyhow::Result;
use clap::{Parser, Subcommand};
use compare::{
    beginnings,
    client::Account,
    crowd::{Crowd, crowd},
    load,
};
use std::{
    io::{Read, Write},
    net::SocketAddr,
};

/// One load on one address; prints one line of JSON: count (statements, connections, MiB or
/// sessions) and seconds, and for connections the percentiles of their latency.
#[derive(Parser)]
struct Arguments {
    /// The server's or the proxy's address.
    #[arg(long)]
    address: SocketAddr,
    #[arg(long)]
    user: String,
    #[arg(long, default_value = "")]
    password: String,
    #[command(subcommand)]
    load: Load,
}

#[derive(Subcommand)]
enum Load {
    /// Run statements one by one.
    Sql { statements: Vec<String> },
    /// Connect, run one statement, quit; again and again.
    Connects {
        sql: String,
        /// How many do so at once.
        #[arg(long)]
        sessions: usize,
        #[arg(long)]
        seconds: f64,
    },
    /// Read one result, several times.
    Result {
        sql: String,
        #[arg(long, default_value_t = 1)]
        times: usize,
    },
    /// Send a file with LOAD DATA LOCAL INFILE.
    Upload {
        sql: String,
        #[arg(long)]
        mebibytes: u64,
    },
    /// Send statements of 8 MiB.
    Commands {
        #[arg(long)]
        mebibytes: u64,
    },
    /// Connect, set five things, run one statement, quit; again and again. Told in round trips.
    Begins {
        sql: String,
        /// Where the server is reached without a proxy.
        #[arg(long)]
        far: SocketAddr,
        #[arg(long)]
        seconds: f64,
    },
    /// Prepare the same statement again and again.
    Prepares {
        #[arg(long)]
        seconds: f64,
    },
    /// Run transactions in many sessions, which think between two.
    Crowd {
        schema: String,
        #[arg(long)]
        sessions: usize,
        #[arg(long)]
        seconds: f64,
        /// In milliseconds.
        #[arg(long, default_value_t = 0)]
        think: u64,
    },
    /// Open sessions, print the line, and close them when standard input ends.
    Idle {
        #[arg(long)]
        sessions: usize,
        /// What each runs once.
        #[arg(long)]
        sql: Option<String>,
        /// How many statements each prepares.
        #[arg(long, default_value_t = 0)]
        prepare: usize,
    },
}

fn main() -> Result<()> {
    let Arguments { address, user, password, load } = Arguments::parse();
    let account = Account { address, user, password };
    let counted = match load {
        Load::Sql { statements } => load::sql(&account, &statements)?,
        Load::Connects { sql, sessions, seconds } => {
            load::connects(&account, &sql, sessions, seconds)?
        }
        Load::Result { sql, times } => load::result(&account, &sql, times)?,
        Load::Upload { sql, mebibytes } => load::upload(&account, &sql, mebibytes)?,
        Load::Commands { mebibytes } => load::commands(&account, mebibytes)?,
        Load::Begins { sql, far, seconds } => beginnings::begins(&account, far, &sql, seconds)?,
        Load::Prepares { seconds } => beginnings::prepares(&account, seconds)?,
        Load::Crowd { schema, sessions, seconds, think } => {
            crowd(&account, &schema, Crowd { sessions, seconds, think })?
        }
        Load::Idle { sessions, sql, prepare } => {
            return load::idle(&account, sql.as_deref(), prepare, sessions, |counted| {
                print(&counted)?;
                std::io::stdin().read_to_end(&mut Vec::new())?;
                Ok(())
            });
        }
    };
    print(&counted)
}

fn print(counted: &serde_json::Value) -> Result<()> {
    let mut out = std::io::stdout();
    writeln!(out, "{counted}")?;
    Ok(out.flush()?)
}
