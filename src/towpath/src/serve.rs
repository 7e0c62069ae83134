//! `towpath run`: the proxy in the foreground until a signal ends it.

use crate::signals::{self, Second};
use crate::{check, log};
use anyhow::Result;
use proxy::Proxy;
use proxy::config::Config;
use std::path::Path;
use std::process::ExitCode;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Runs the proxy that `file` describes. What is wrong with the file is printed as `check` does.
pub(crate) fn run(file: &Path, registry: &chain::Registry) -> ExitCode {
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
    let proxy = Proxy::bind(config).await?;
    for address in proxy.addresses() {
        tracing::info!(%address, "listening");
    }
    tracing::info!(address = %proxy.admin_address(), "admin");
    proxy.serve(stop).await;
    Ok(())
}

fn until_signalled(config: Config) -> Result<()> {
    log::to_stderr(&config.log)?;
    Runtime::new()?.block_on(async {
        let stop = signals::stop(Second::Exits)?;
        serve(config, stop).await
    })
}
