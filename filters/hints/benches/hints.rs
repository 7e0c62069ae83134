//! What hints cost per query, the command's way through the filter included.
//!
//! The bar: a statement without a comment takes at most 30 ns more with the filter than with a layer
//! that does nothing (`without` less `layer`); `searched` is the search alone.

use chain::{
    Command, FilterFactory, Registry, Stack,
    facts::{Fact, Statement},
    registry::IntoLayer,
    stack::Calling,
    testing,
};
use divan::{Bencher, black_box};
use std::{
    pin::pin,
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

const POINT: &str = "SELECT c FROM sbtest1 WHERE id = 4711";
const LONG: &str = "SELECT o.id, o.created_at, c.name, SUM(i.price * i.amount) AS total FROM orders o \
JOIN customers c ON c.id = o.customer_id JOIN items i ON i.order_id = o.id WHERE o.state IN ('open', \
'paid') AND o.created_at > '2024-01-01' GROUP BY o.id ORDER BY total LIMIT 5";
const HINTED: &str = "/* hostgroup=0 */ SELECT c FROM sbtest1 WHERE id = 4711";
const PLAIN: &str = "/* for the front page */ SELECT c FROM sbtest1 WHERE id = 4711";

fn drive(bencher: Bencher<'_, '_>, chain: &str, sql: &'static str) {
    let registry = Registry::default().with::<Given>().with::<Passing>().with::<hints::Factory>();
    let text = format!("session = [{chain}]");
    let chain = testing::chain(&text, &registry).expect("the chain is right");
    let bottom = testing::answering(|command| {
        black_box(command.payload());
        Ok(chain::Reply::new(chain::Body::end(chain::End::default())))
    });
    let mut stack = chain.session(bottom);
    let session = testing::session();
    let statement = Statement::new(sql.into(), sql::Dialect::default()).shared();
    let inputs = || Command::query(session.clone(), sql).with(statement.clone());
    bencher.with_inputs(inputs).bench_local_values(|command| {
        let mut call = pin!(async { stack.ready().await?.call(command).await });
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => drop(black_box(reply)),
            Poll::Pending => unreachable!("nothing here waits"),
        }
    });
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Stands where `parse` does, and passes on: the commands have the fact already.
struct Given;

impl FilterFactory for Given {
    const NAME: &'static str = "given";
    const GIVES: &'static [&'static str] = &[Statement::NAME];
    type Config = Nothing;

    fn build(_: Nothing) -> Result<impl IntoLayer, tower::BoxError> {
        Ok(tower::layer::layer_fn(|below: Stack| below))
    }
}

/// A layer that does nothing.
struct Passing;

impl FilterFactory for Passing {
    const NAME: &'static str = "passing";
    type Config = Nothing;

    fn build(_: Nothing) -> Result<impl IntoLayer, tower::BoxError> {
        Ok(tower::layer::layer_fn(Pass))
    }
}

struct Pass(Stack);

impl Service<Command> for Pass {
    type Response = chain::Reply;
    type Error = chain::Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<chain::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> Calling {
        self.0.call(command)
    }
}

#[divan::bench(args = [POINT, LONG], sample_size = SAMPLE)]
fn layer(bencher: Bencher<'_, '_>, sql: &'static str) {
    drive(bencher, "{ use = 'passing' }", sql);
}

#[divan::bench(args = [POINT, LONG], sample_size = SAMPLE)]
fn none(bencher: Bencher<'_, '_>, sql: &'static str) {
    drive(bencher, "", sql);
}

#[divan::bench(args = [POINT, LONG], sample_size = SAMPLE)]
fn without(bencher: Bencher<'_, '_>, sql: &'static str) {
    drive(bencher, "{ use = 'given' }, { use = 'hints' }", sql);
}

#[divan::bench(args = [HINTED, PLAIN], sample_size = SAMPLE)]
fn with(bencher: Bencher<'_, '_>, sql: &'static str) {
    drive(bencher, "{ use = 'given' }, { use = 'hints' }", sql);
}

#[divan::bench(args = [POINT, LONG], sample_size = 1000)]
fn searched(bencher: Bencher<'_, '_>, sql: &'static str) {
    let text = sql.as_bytes();
    bencher.bench(|| sql::comments(black_box(text), sql::Dialect::default()).count());
}
