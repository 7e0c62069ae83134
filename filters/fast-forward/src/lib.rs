//! `fast-forward`: takes a session out of the chain, for good.
//!
//! It only says that a command switches, and why; the command then goes the normal way, so that
//! routing, transactions and session state hold. The connection at the end of that way answers with
//! itself in place of a reply, and the session loop forwards bytes from then on.

use chain::{
    Command, Error, Filter, FilterFactory, HostgroupId, Next, Reply, Result,
    balance::{Balance, Choice},
    command::Asker,
    counters::{Counter, Family},
    each_session,
    error::code,
    facts::{Fact, FastForward, Forwarding, RuleVerdict, ServedBy, Target},
    registry::IntoLayer,
    stack::Layer,
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::sync::Arc;
use tower::BoxError;
use wire::command::CommandCode;

/// Names this filter in a registry.
#[derive(Debug)]
pub struct Factory;

/// The filter's settings.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Every session of this chain is forwarded from its first command on. Such a chain needs no
    /// other filter: the server is chosen here.
    #[serde(default)]
    always: bool,
    /// With `always`: the hostgroup for every session, instead of the user's own.
    hostgroup: Option<u32>,
    /// With `always`: which server of the hostgroup a session gets.
    balance: Option<Balance>,
    /// Commands and replies of forwarded sessions are counted and timed, from copies of their bytes;
    /// where digests or traces are on, they have those too.
    #[serde(default)]
    observe: bool,
    /// What becomes of the ids of statements that were prepared before the switch.
    #[serde(default)]
    prepared_statements: PreparedStatements,
}

/// Ids in what the client sends after the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum PreparedStatements {
    /// The session's own become the server's, until the last of these statements is closed.
    #[default]
    Translate,
    /// They pass as they are; a server that has not given them answers with error 1243.
    Raw,
}

impl FilterFactory for Factory {
    const NAME: &'static str = "fast-forward";
    const GIVES: &'static [&'static str] = &[FastForward::NAME];
    type Config = Config;

    fn gives(config: &Config) -> &'static [&'static str] {
        match (config.always, config.observe) {
            (false, false) => Self::GIVES,
            (false, true) => &[FastForward::NAME, Forwarding::NAME],
            (true, false) => &[FastForward::NAME, Target::NAME],
            (true, true) => &[FastForward::NAME, Forwarding::NAME, Target::NAME],
        }
    }

    fn build(config: Config) -> Result<impl IntoLayer, BoxError> {
        let Config { always, hostgroup, balance, observe, prepared_statements } = config;
        if !always && (hostgroup.is_some() || balance.is_some()) {
            return Err("`hostgroup` and `balance` go with `always = true`; without it `route` \
                        chooses the server"
                .into());
        }
        let choice = Arc::new(Choice::new(balance.unwrap_or_default()));
        let switches = Family::new("fast_forward", "Sessions that left the chain", "cause");
        let counters = Causes::of(&switches);
        let make = move || Switch {
            always: always.then(|| choice.clone()),
            hostgroup: hostgroup.map(HostgroupId),
            chosen: None,
            how: Forwarding { observe, raw_ids: prepared_statements == PreparedStatements::Raw },
            counters: counters.clone(),
        };
        let layer = Layer::new(each_session(make)).counting([switches]);
        // It would take sessions to servers that have nothing of what they have set.
        Ok(if always { layer.from_login() } else { layer })
    }
}

/// The filter, in one session.
struct Switch {
    /// With `always`: chooses the server.
    always: Option<Arc<Choice>>,
    hostgroup: Option<HostgroupId>,
    /// With `always`: the server that the session has.
    chosen: Option<Target>,
    how: Forwarding,
    counters: Causes,
}

/// Why a session leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Always,
    User,
    Rule,
    /// It asks for a binlog.
    Binlog,
}

/// One counter for each cause.
#[derive(Clone)]
struct Causes([Counter; 4]);

impl Causes {
    fn of(family: &Family) -> Self {
        Self(["always", "user", "rule", "binlog"].map(|cause| family.counter(cause)))
    }

    fn count(&self, cause: Cause) {
        self.0[cause as usize].add_one();
    }
}

impl Filter for Switch {
    async fn handle(&mut self, mut command: Command, next: Next<'_>) -> Result<Reply> {
        if self.always.is_some() {
            command.note(self.target(&command)?);
        }
        let cause = self.cause(&command);
        if let Some(cause) = cause {
            command.note(FastForward { stays: cause == Cause::Binlog });
        }
        let mut reply = next.run(command).await?;
        if let Some(cause) = cause.filter(|_| reply.is_handover()) {
            self.counters.count(cause);
            reply = reply.with(self.how);
        }
        if self.always.is_some()
            && let Some(ServedBy(target)) = reply.fact()
        {
            self.chosen = Some(target.clone());
        }
        Ok(reply)
    }

    fn inherit(&mut self, from: &mut Self, _: bool) {
        self.chosen = from.chosen.take();
    }
}

impl Switch {
    /// With `always`: the server that the session has, or one chosen for it. The login may have
    /// asked for one, to enter a schema.
    fn target(&self, command: &Command) -> Result<Target> {
        if let Some(chosen) = &self.chosen {
            return Ok(chosen.clone());
        }
        let session = command.session();
        let hostgroup = self.hostgroup.unwrap_or(session.hostgroup);
        let group = session.topology.hostgroup(hostgroup);
        let server =
            self.always.as_ref().zip(group).and_then(|(choice, group)| choice.server(group));
        let server = server.ok_or_else(|| {
            let error = Error::backend(format!("hostgroup {hostgroup} has no server to choose"));
            error.with_code(code::SERVER_OFFLINE, *b"08S01")
        })?;
        Ok(Target { hostgroup, server })
    }

    /// Why the session leaves with this command, if it does.
    fn cause(&self, command: &Command) -> Option<Cause> {
        // What the proxy and its filters ask for themselves has a reply that they wait for.
        if command.asker() != Asker::Client {
            return None;
        }
        if self.always.is_some() {
            return Some(Cause::Always);
        }
        if command.session().fast_forward {
            return Some(Cause::User);
        }
        if command.fact::<RuleVerdict>().is_some_and(|verdict| verdict.switch_to_fast_forward) {
            return Some(Cause::Rule);
        }
        let binlog =
            [CommandCode::REGISTER_SLAVE, CommandCode::BINLOG_DUMP, CommandCode::BINLOG_DUMP_GTID];
        binlog.contains(&command.code()).then_some(Cause::Binlog)
    }
}
