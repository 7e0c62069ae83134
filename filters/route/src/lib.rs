//! `route`: which server a command goes to.
//!
//! It names a server and opens nothing. The first of these that applies: the server of an open
//! transaction, the one that state pins the session to, the hostgroup that a rule names, the
//! policy. A session keeps the server it was given in a hostgroup.

use chain::{
    Command, Error, Filter, FilterFactory, HostgroupId, Next, Reply, Result,
    balance::{Balance, Choice},
    each_session,
    error::code,
    facts::{Fact, FastForward, Pin, RuleVerdict, ServedBy, Target},
    registry::IntoLayer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use smallvec::SmallVec;
use std::sync::Arc;
use tower::BoxError;

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// What decides.
    #[serde(default)]
    policy: Policy,
    /// Which server of the hostgroup a session gets.
    #[serde(default)]
    balance: Balance,
    /// The hostgroup for every session of this chain, instead of the user's own.
    hostgroup: Option<u32>,
}

/// What decides where a command goes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The user's default hostgroup, or the one named by `hostgroup` here.
    #[default]
    Hostgroup,
}

impl FilterFactory for Factory {
    const NAME: &'static str = "route";
    const GIVES: &'static [&'static str] = &[Target::NAME];
    type Config = Config;

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        let Config { policy: Policy::Hostgroup, balance, hostgroup } = config;
        let hostgroup = hostgroup.map(HostgroupId);
        let choice = Arc::new(Choice::new(balance));
        Ok(each_session(move || Route {
            hostgroup,
            choice: choice.clone(),
            known: SmallVec::new(),
            last: None,
        }))
    }
}

/// The filter, in one session.
struct Route {
    hostgroup: Option<HostgroupId>,
    choice: Arc<Choice>,
    /// The session's server in each hostgroup that it has used.
    known: SmallVec<[Target; 2]>,
    /// Where the last command ran.
    last: Option<Target>,
}

impl Filter for Route {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        let target = self.target(&command)?;
        let reply = next.run(command.with(target)).await?;
        if let Some(ServedBy(target)) = reply.fact() {
            self.served_by(target);
        }
        Ok(reply)
    }
}

impl Route {
    fn target(&self, command: &Command) -> Result<Target> {
        let session = command.session();
        let ruled = command.fact::<RuleVerdict>().and_then(|verdict| verdict.hostgroup);
        let stays = session.in_transaction() && (session.transaction_persistent || ruled.is_none())
            || command.fact::<FastForward>().is_some_and(|order| order.stays);
        if stays && let Some(last) = &self.last {
            return Ok(last.clone());
        }
        if let Some(pin) = command.fact::<Pin>() {
            return Ok(pin.target.clone());
        }
        let hostgroup = ruled.or(self.hostgroup).unwrap_or(session.hostgroup);
        if let Some(known) = self.known.iter().find(|known| known.hostgroup == hostgroup) {
            return Ok(known.clone());
        }
        let group = session.topology.hostgroup(hostgroup);
        let server = group.and_then(|group| self.choice.server(group)).ok_or_else(|| {
            let error = Error::backend(format!("hostgroup {hostgroup} has no server to choose"));
            error.with_code(code::SERVER_OFFLINE, *b"08S01")
        })?;
        Ok(Target { hostgroup, server })
    }

    /// The dispatcher may have taken another server of the hostgroup than the one that was named.
    fn served_by(&mut self, target: &Target) {
        let is_last = |last: &Target| last.server.id == target.server.id;
        if self.last.as_ref().is_some_and(is_last) {
            return;
        }
        self.known.retain(|known| known.hostgroup != target.hostgroup);
        self.known.push(target.clone());
        self.last = Some(target.clone());
    }
}
