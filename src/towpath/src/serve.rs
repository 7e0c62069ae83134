//! `towpath run`: the proxy in the foreground until a signal ends it.
//!
//! A file that is good may still not start: addresses may be taken and keys unreadable. Such a
//! reason is one line on standard error, like all that is not the log.

use crate::cli::RunOptions;
use crate::notify::Manager;
use crate::signals::{self, Second};
use crate::{check, log, sockets, watch};
use anyhow::{Context, Result, bail};
use chain::Registry;
use proxy::config::Config;
use proxy::telemetry::Telemetry;
use proxy::{Inherited, Proxy};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Runs the proxy that `options` describe. What is wrong with the file is printed as `check` does.
pub(crate) fn run(options: &RunOptions, registry: Registry) -> ExitCode {
    // The allocator asks for huge pages. One of them holds what hundreds of idle sessions need, and
    // a kernel without the switch has none to give.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    raise_file_limit();
    let config = match check::load(&options.file, &registry) {
        Ok(config) => config,
        Err(code) => return code,
    };
    match until_signalled(config, options, registry) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            anstream::eprintln!("towpath: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Serves until `stop` is cancelled and the sessions have ended, at most for the configured grace.
pub(crate) async fn serve(config: Config, stop: CancellationToken) -> Result<()> {
    let telemetry = Telemetry::new(&config)?;
    bind(config, Inherited::default(), telemetry).await?.serve(stop).await;
    Ok(())
}

async fn bind(config: Config, inherited: Inherited, telemetry: Telemetry) -> Result<Proxy> {
    let proxy = Proxy::bind_with(config, inherited, telemetry).await?;
    // What wants to know when it is ready waits for these lines, or connects.
    for address in proxy.addresses() {
        tracing::info!(%address, "listening");
    }
    tracing::info!(address = %proxy.admin_address(), "admin");
    Ok(proxy)
}

fn until_signalled(config: Config, options: &RunOptions, registry: Registry) -> Result<()> {
    // Before there is another thread, as it changes the environment.
    let mut inherited = sockets::from_manager();
    let claim = match (options.take_over, &config.shutdown.take_over) {
        (false, _) => None,
        (true, None) => bail!("--take-over: [shutdown] take_over names no socket"),
        (true, Some(path)) => sockets::claim(path, &mut inherited)?,
    };
    Runtime::new()?.block_on(async {
        let telemetry = Telemetry::new(&config)?;
        log::to_stderr(&config.log, &telemetry)?;
        let stop = signals::stop(Second::Exits)?;
        let proxy = bind(config, inherited, telemetry).await?;
        let control = proxy.control();
        let (file, registry) = (options.file.clone(), Arc::new(registry));
        let path = file.clone();
        control.read_by(Arc::new(move || Config::load(&path, &registry)));
        let manager = Arc::new(Manager::from_env());
        signals::on_hangup(control.clone(), manager.clone())?;
        control.offer().context("[shutdown] take_over")?;
        tokio::spawn(watch::run(control.clone(), file));
        let told = async {
            stop.cancelled().await;
            manager.stopping();
        };
        let begun = async {
            manager.ready();
            if let Some(claim) = claim
                && let Err(error) = claim.ready()
            {
                tracing::warn!(%error, "the process before has gone already");
            }
        };
        // Polled in this order: listeners accept before the process before is told to go.
        tokio::join!(proxy.serve(stop.clone()), begun, told);
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
