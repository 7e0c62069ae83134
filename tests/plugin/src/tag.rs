//! `tag`: says in a comment whose statement it is, and which one of its session.
//!
//! Slow-query logs and `SHOW PROCESSLIST` of the server show it.

use chain::{
    Command, Filter, FilterFactory, Next, Reply, Result, each_session, registry::IntoLayer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use tower::BoxError;

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Stands in the comment. Letters, digits, `-` and `_`.
    application: String,
}

impl FilterFactory for Factory {
    const NAME: &'static str = "tag";
    type Config = Config;

    fn build(Config { application }: Config) -> Result<impl IntoLayer, BoxError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        if application.is_empty() || !application.chars().all(plain) {
            return Err("`application` takes letters, digits, - and _".into());
        }
        let application: Arc<str> = application.into();
        Ok(each_session(move || Tag { application: application.clone(), sent: 0 }))
    }
}

/// The filter, in one session.
struct Tag {
    application: Arc<str>,
    sent: u64,
}

impl Filter for Tag {
    async fn handle(&mut self, mut command: Command, next: Next<'_>) -> Result<Reply> {
        if let Some(sql) = command.sql() {
            self.sent += 1;
            let comment = format!("/* {} {} */ ", self.application, self.sent);
            command.rewrite_sql([comment.as_bytes(), &sql].concat());
        }
        next.run(command).await
    }
}

#[cfg(test)]
mod tests {
    use super::Factory;
    use chain::{
        Registry,
        testing::{self, Client, Log},
    };

    fn chain(settings: &str) -> Result<chain::Chain, String> {
        let text = format!("session = [{{ use = 'tag', {settings} }}]");
        testing::chain(&text, &Registry::default().with::<Factory>()).map_err(|e| e.to_string())
    }

    #[test]
    fn statements_are_numbered_in_each_session() {
        let (log, chain) = (Log::default(), chain("application = 'billing'").unwrap());
        for _ in 0..2 {
            let mut client = Client::new(chain.session(testing::ok(log.clone())));
            client.query("SELECT 1").unwrap();
            client.query("SELECT 2").unwrap();
            assert_eq!(log.take(), ["/* billing 1 */ SELECT 1", "/* billing 2 */ SELECT 2"]);
        }
    }

    #[test]
    fn what_would_end_the_comment_is_refused() {
        for application in ["*/ DROP TABLE t; /*", "", "ä"] {
            let mistakes = chain(&format!("application = '{application}'")).unwrap_err();
            assert!(mistakes.contains("takes letters, digits, - and _"), "{mistakes}");
        }
    }
}
