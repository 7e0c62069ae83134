//! Questions to the admin port of a running proxy.

use crate::cli::AskOptions;
use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{process::ExitCode, time::Duration};
use ureq::{Agent, Body, http::Response};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long an order may take: a reload compiles rules and binds sockets.
const ORDER_PATIENCE: Duration = Duration::from_secs(60);

/// The variable that holds the token, where no file does.
const TOKEN: &str = "TOWPATH_TOKEN";

/// One proxy's admin port.
pub(crate) struct Port {
    agent: Agent,
    admin: String,
    token: Option<String>,
}

impl Port {
    /// Reads the token; asks nothing yet.
    pub(crate) fn of(options: &AskOptions) -> Result<Self> {
        let token = match &options.token_file {
            Some(file) => {
                let text = std::fs::read_to_string(file);
                let text = text.with_context(|| format!("cannot read {}", file.display()))?;
                Some(text.lines().next().unwrap_or_default().to_owned())
            }
            None => std::env::var(TOKEN).ok(),
        };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .proxy(None)
            .build()
            .into();
        Ok(Self { agent, admin: options.admin.clone(), token })
    }

    /// The answer to `GET path`.
    ///
    /// # Errors
    ///
    /// Nobody answers, or the answer is a refusal.
    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        let mut request = self.agent.get(format!("http://{}{path}", self.admin));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let answer = request.call().with_context(|| self.nobody())?;
        self.read(answer)
    }

    /// Status and body of the answer to `POST path`.
    ///
    /// # Errors
    ///
    /// Nobody answers, or the answer is no JSON.
    pub(crate) fn order(&self, path: &str) -> Result<(u16, Value)> {
        let request = self.agent.post(format!("http://{}{path}", self.admin));
        let request = request.config().timeout_global(Some(ORDER_PATIENCE)).build();
        let mut request = request.content_type("application/json");
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut answer = request.send("{}").with_context(|| self.nobody())?;
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_string();
        let body = body.with_context(|| self.nobody())?;
        let no_port = || format!("{} is no admin port of this version", self.admin);
        Ok((answer.status().as_u16(), serde_json::from_str(&body).with_context(no_port)?))
    }

    fn read<T: DeserializeOwned>(&self, mut answer: Response<Body>) -> Result<T> {
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(64 << 20).read_to_string();
        let body = body.with_context(|| self.nobody())?;
        if status.is_success() {
            return serde_json::from_str(&body)
                .with_context(|| format!("{} is no admin port of this version", self.admin));
        }
        let refusal = serde_json::from_str::<Value>(&body).unwrap_or_default();
        match refusal["error"].as_str() {
            Some(why) if status.as_u16() == 401 => {
                bail!("{}: {why}; --token-file or {TOKEN} give it", self.admin)
            }
            Some(why) => bail!("{}: {why}", self.admin),
            None => bail!("{}: {status}", self.admin),
        }
    }

    fn nobody(&self) -> String {
        format!("no answer from the admin port {}", self.admin)
    }
}

/// Prints an answer as it is.
pub(crate) fn print_json(answer: &Value) {
    anstream::println!("{answer:#}");
}

/// The exit code of what was done, with what went wrong on standard error.
pub(crate) fn exit(done: Result<ExitCode>) -> ExitCode {
    done.unwrap_or_else(|error| {
        anstream::eprintln!("towpath: {error:#}");
        ExitCode::FAILURE
    })
}
