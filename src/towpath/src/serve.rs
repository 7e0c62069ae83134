//! `towpath run`: the proxy in the foreground until a signal ends it.
//!
//! A file that is good may still not start: addresses may be taken and keys unreadable. Such a
//! reason is one line on standard error, like all that is not the log.

use crate::notify::Manager;
use crate::signals::{self, Second};
use crate::{check, log};
use anyhow::Result;
use proxy::Proxy;
use proxy::config::Config;
use proxy::telemetry::Telemetry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Runs the proxy that `file` describes. What is wrong with the file is printed as `check` does.
pub(crate) fn run(file: &Path, registry: &chain::Registry) -> ExitCode {
    // The allocator asks for huge pages. One of them holds what hundreds of idle sessions need, and
    // a kernel without the switch has none to give.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    raise_file_limit();
    let config = match check::load(file, registry) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match until_signalled(config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("towpath: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until `stop` is cancelled and the sessions have ended, at most for the configured grace.
pub(crate) async fn serve(config: Config, stop: CancellationToken) -> Result<()> {
    bind(config, None).await?.serve(stop).await;
    Ok(())
}

async fn bind(config: Config, telemetry: Option<Telemetry>) -> Result<Proxy> {
    let proxy = match telemetry {
        Some(telemetry) => Proxy::bind_with(config, telemetry).await?,
        None => Proxy::bind(config).await?,
    };
    // What wants to know when it is ready waits for these lines, or connects.
    for address in proxy.addresses() {
        tracing::info!(%address, "listening");
    }
    tracing::info!(address = %proxy.admin_address(), "admin");
    Ok(proxy)
}

fn until_signalled(config: Config) -> Result<()> {
    Runtime::new()?.block_on(async {
        let telemetry = Telemetry::new(&config)?;
        log::to_stderr(&config.log, &telemetry)?;
        let stop = signals::stop(Second::Exits)?;
        let proxy = bind(config, Some(telemetry)).await?;
        let manager = Arc::new(Manager::from_env());
        signals::on_hangup(proxy.renewal(), manager.clone())?;
        manager.ready();
        let told = async {
            stop.cancelled().await;
            manager.stopping();
        };
        tokio::join!(proxy.serve(stop.clone()), told);
        Ok(())
    })
}

/// Every client and every connection to a server is a file descriptor, and the limit that a shell
/// gives (1024) is for programs that may use select. As many as the administrator allows.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    // Where it cannot be raised, clients wait once it is reached, as they would have.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
