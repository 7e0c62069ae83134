//! What naming a server costs per command, the command's way through the filter included.
//!
//! `none` is the same stack without the filter. The statement has been lexed above, as
//! `session-commands` does.

use chain::{
    Chain, Command, Hostgroup, HostgroupId, Registry, Server, Session, Stack, Topology,
    facts::{Fact, ServedBy, SessionLog, Statement, Target},
    testing,
};
use divan::{Bencher, black_box};
use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tower::{Service, ServiceExt};

/// As in the shipped executable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// Commands that are timed together, so that reading the clock does not count.
const SAMPLE: u32 = 100;

const QUERY: &str = "SELECT c FROM sbtest1 WHERE id = 4711";

/// Gives what the filters above route give, its statement lexed.
struct Above;

impl chain::FilterFactory for Above {
    const NAME: &'static str = "above";
    const GIVES: &'static [&'static str] = &[Statement::NAME, SessionLog::NAME];
    type Config = Nothing;

    fn build(
        _: Nothing,
    ) -> Result<impl chain::registry::IntoLayer, Box<dyn std::error::Error + Send + Sync>> {
        let statement = Statement::new(QUERY.into(), sql::Dialect::default()).shared();
        statement.get();
        Ok(tower::layer::layer_fn(move |below: Stack| {
            let statement = statement.clone();
            below.map_request(move |command: Command| command.with(statement.clone()))
        }))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn chain(route: &str) -> Chain {
    let text = format!("session = [{{ use = 'above' }}{route}]");
    let registry = Registry::default().with::<Above>().with::<route::Factory>();
    testing::chain(&text, &registry).expect("the settings are good")
}

/// A session whose hostgroup 0 has one server, and 1 has so many.
fn session(replicas: u32) -> Session {
    let server = |id: u32| Arc::new(Server::new(id, format!("db{id}"), 1 + id % 3));
    let group = |id, servers| Hostgroup { id: HostgroupId(id), name: None, servers };
    testing::session_of(Topology::new(vec![
        group(0, vec![server(1)]),
        group(1, (2..2 + replicas).map(server).collect()),
    ]))
}

fn drive(bencher: Bencher<'_, '_>, chain: &Chain, replicas: u32) {
    let session = session(replicas);
    let mut stack = chain.session(testing::answering(|command| {
        let reply = chain::Reply::new(chain::Body::end(chain::End::default()));
        Ok(match command.fact::<Target>() {
            Some(target) => reply.with(ServedBy(black_box(target).clone())),
            None => reply,
        })
    }));
    let inputs = || Command::query(session.clone(), QUERY);
    bencher.with_inputs(inputs).bench_local_values(|command| {
        let mut call = pin!(async { stack.ready().await?.call(command).await });
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => drop(black_box(reply)),
            Poll::Pending => unreachable!("nothing here waits"),
        }
    });
}

/// Without the filter.
#[divan::bench(sample_size = SAMPLE)]
fn none(bencher: Bencher<'_, '_>) {
    drive(bencher, &chain(""), 1);
}

/// A session that has its server.
#[divan::bench(sample_size = SAMPLE)]
fn known(bencher: Bencher<'_, '_>) {
    drive(bencher, &chain(", { use = 'route' }"), 1);
}

/// A read that is balanced over so many replicas.
#[divan::bench(args = [1, 2, 3, 8], sample_size = SAMPLE)]
fn split(bencher: Bencher<'_, '_>, replicas: u32) {
    let settings = "policy = 'read-write-split', primary = 0, replicas = 1";
    drive(bencher, &chain(&format!(", {{ use = 'route', {settings} }}")), replicas);
}

/// The same, with the other ways of choosing.
#[divan::bench(args = ["weighted-random", "round-robin", "lowest-latency"], sample_size = SAMPLE)]
fn split_over_3(bencher: Bencher<'_, '_>, balance: &str) {
    let settings =
        format!("policy = 'read-write-split', primary = 0, replicas = 1, balance = '{balance}'");
    drive(bencher, &chain(&format!(", {{ use = 'route', {settings} }}")), 3);
}
