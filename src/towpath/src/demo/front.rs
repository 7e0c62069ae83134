//! Towpath itself, in front of the demo's servers.
//!
//! It runs in this process and by the way of `towpath run`: the filled-in `config/demo.toml` is
//! written to a file, read back and checked, so that what the demo shows is what the file says.

use super::client::Session;
use super::cluster::Accounts;
use super::ports::Ports;
use super::screen::Screen;
use super::workspace::Workspace;
use crate::{log, serve};
use anyhow::{Context, Result, anyhow};
use proxy::config::Config;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, interval, timeout};
use tokio_util::sync::CancellationToken;

const TEMPLATE: &str = include_str!("../../../../config/demo.toml");

/// How long the proxy may take until both accounts can run a statement through it.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// How long one attempt may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long sessions that are open may delay the end.
const GRACE: Duration = Duration::from_secs(3);

/// The proxy, running in this process.
#[derive(Debug)]
pub(super) struct Front {
    shutdown: CancellationToken,
    task: JoinHandle<Result<()>>,
}

impl Front {
    /// Starts it and returns when both accounts can run a statement through it.
    pub(super) async fn start(
        workspace: &Workspace,
        ports: &Ports,
        accounts: &Accounts,
        registry: &chain::Registry,
        screen: &Screen,
    ) -> Result<Self> {
        let step = screen.step("starting Towpath in front of them");
        let text = fill(TEMPLATE, &values(ports, accounts)).context("config/demo.toml")?;
        let file = workspace.write("towpath.toml", &text)?;
        let config = Config::load(&file, registry).map_err(|mistakes| anyhow!("{mistakes}"))?;
        log::to_file(&config.log, &workspace.dir().join("towpath.log"))?;
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(serve::serve(config, shutdown.clone()));
        let mut front = Self { shutdown, task };
        for (user, password) in [("app_writer", &accounts.writer), ("app_reader", &accounts.reader)]
        {
            front.await_account(ports.proxy, user, password).await?;
        }
        step.done("Towpath is ready");
        Ok(front)
    }

    /// Returns when the proxy has ended without being asked to, with the reason.
    pub(super) async fn failed(&mut self) -> anyhow::Error {
        match (&mut self.task).await {
            Ok(Ok(())) => anyhow!("the proxy has ended by itself"),
            Ok(Err(error)) => error,
            Err(error) => anyhow!("the proxy has ended: {error}"),
        }
    }

    /// Ends it; sessions that are still open then end with this process.
    pub(super) async fn end(mut self) {
        self.shutdown.cancel();
        // The file's own grace is shorter: this bounds a proxy that does not keep it.
        if !self.task.is_finished() && timeout(GRACE, &mut self.task).await.is_err() {
            self.task.abort();
        }
    }

    async fn await_account(&mut self, port: u16, user: &str, password: &str) -> Result<()> {
        let limit = Instant::now() + READY_WITHIN;
        let mut ticks = interval(Duration::from_millis(100));
        loop {
            ticks.tick().await;
            // A proxy that has ended will not answer any more, and its own reason says why.
            let error = tokio::select! {
                error = self.failed() => return Err(error),
                tried = timeout(PATIENCE, Session::open(port, user, password)) => match tried {
                    Ok(Ok(_)) => return Ok(()),
                    Ok(Err(error)) => error,
                    Err(_) => anyhow!("no answer within {PATIENCE:?}"),
                },
            };
            if Instant::now() > limit {
                return Err(error.context(format!("{user} cannot use the proxy")));
            }
        }
    }
}

fn values(ports: &Ports, accounts: &Accounts) -> [(&'static str, String); 7] {
    [
        ("PROXY_PORT", ports.proxy.to_string()),
        ("ADMIN_PORT", ports.admin.to_string()),
        ("PRIMARY_PORT", ports.server(1).to_string()),
        ("REPLICA1_PORT", ports.server(2).to_string()),
        ("REPLICA2_PORT", ports.server(3).to_string()),
        ("WRITER_PASSWORD", accounts.writer.clone()),
        ("READER_PASSWORD", accounts.reader.clone()),
    ]
}

/// Replaces each `${NAME}` outside comment lines, as the configuration does from the environment.
/// A name without a value is an error, and so is one that is not closed.
fn fill(template: &str, values: &[(&str, String)]) -> Result<String> {
    let mut text = String::new();
    for line in template.split_inclusive('\n') {
        let mut rest = line;
        while !line.starts_with('#')
            && let Some((before, after)) = rest.split_once("${")
        {
            let (name, behind) = after.split_once('}').context("`${` without `}`")?;
            let value = values.iter().find(|(known, _)| *known == name);
            let (_, value) = value.with_context(|| format!("${{{name}}} has no value"))?;
            text += before;
            text += value;
            rest = behind;
        }
        text += rest;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_everywhere() {
        let values = [("A", "1".to_owned()), ("B", "${A}".to_owned())];
        assert_eq!(fill("x${A}y${B}${A}", &values).unwrap(), "x1y${A}1");
        assert_eq!(fill("none", &values).unwrap(), "none");
        assert_eq!(fill("# ${C}\n${A}\n", &values).unwrap(), "# ${C}\n1\n");
    }

    #[tokio::test]
    async fn proxy_that_ends_by_itself_is_noticed_and_can_be_ended() {
        let task = tokio::spawn(async { Err(anyhow!("no room")) });
        let mut front = Front { shutdown: CancellationToken::new(), task };
        assert_eq!(front.failed().await.to_string(), "no room");
        front.end().await;
    }

    #[tokio::test]
    async fn proxy_is_asked_to_end() {
        let shutdown = CancellationToken::new();
        let asked = shutdown.clone();
        let task = tokio::spawn(async move {
            asked.cancelled().await;
            Ok(())
        });
        Front { shutdown, task }.end().await;
    }

    #[test]
    fn unknown_and_open_names_are_errors() {
        assert!(fill("${C}", &[]).unwrap_err().to_string().contains("${C}"));
        assert!(fill("${C", &[]).is_err());
    }

    #[test]
    fn shipped_file_needs_exactly_these_values() {
        let ports = Ports { proxy: 1, admin: 2, primary: 3 };
        let accounts = Accounts { writer: "w1".to_owned(), reader: "r1".to_owned() };
        let values = values(&ports, &accounts);
        fill(TEMPLATE, &values).unwrap();
        for (name, _) in values {
            assert!(TEMPLATE.contains(&format!("${{{name}}}")), "{name} is not in the file");
        }
    }
}
