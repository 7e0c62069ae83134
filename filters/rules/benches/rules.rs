//! What rules cost per query, the command's way through the filter included.
//!
//! The bar: 1,000 rules of which the last matches take at most 1.5 microseconds more than one rule
//! (`last_of` with 1000 less `last_of` with 1). `none` is the same stack without the filter.

use chain::{Chain, Command, Registry, Stack, testing};
use divan::{Bencher, black_box};
use std::{
    fmt::Write as _,
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

const QUERY: &str = "SELECT c FROM sbtest1 WHERE id = 4711";

/// Gives what `rules` needs and has its digest ready: what lexing costs is not measured here.
struct Statements;

impl chain::FilterFactory for Statements {
    const NAME: &'static str = "statements";
    const GIVES: &'static [&'static str] = &[<chain::facts::Statement as chain::facts::Fact>::NAME];
    type Config = Nothing;

    fn build(
        _: Nothing,
    ) -> Result<impl chain::registry::IntoLayer, Box<dyn std::error::Error + Send + Sync>> {
        let statement =
            chain::facts::Statement::new(QUERY.into(), sql::Dialect::default()).shared();
        statement.digest();
        Ok(tower::layer::layer_fn(move |below: Stack| {
            let statement = statement.clone();
            below.map_request(move |command: Command| command.with(statement.clone()))
        }))
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn chain(rules: &str) -> Chain {
    let text =
        format!("session = [{{ use = 'statements' }}, {{ use = 'rules', rules = [{rules}] }}]");
    let registry = Registry::default().with::<Statements>().with::<rules::Factory>();
    testing::chain(&text, &registry).expect("the rules are good")
}

/// `count` rules, each by what `predicate` makes of its number; the last one matches.
fn rules(count: usize, predicate: impl Fn(usize) -> String) -> Chain {
    let mut text = String::new();
    for number in 1..=count {
        let predicate = predicate(count - number + 1);
        let _ = write!(
            text,
            "{{ rule_id = {number}, {predicate}, destination_hostgroup = 1, apply = true }},"
        );
    }
    chain(&text)
}

fn drive(bencher: Bencher<'_, '_>, chain: &Chain) {
    let session = testing::session();
    let mut stack = chain.session(testing::answering(|command| {
        black_box(command.payload());
        Ok(chain::Reply::new(chain::Body::end(chain::End::default())))
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

/// No rule at all.
#[divan::bench(sample_size = SAMPLE)]
fn none(bencher: Bencher<'_, '_>) {
    drive(bencher, &chain(""));
}

/// By a regular expression on the digest, anchored.
#[divan::bench(args = [1, 100, 1000], sample_size = SAMPLE)]
fn last_of(bencher: Bencher<'_, '_>, count: usize) {
    let predicate = |n| format!("match_digest = '^SELECT c FROM sbtest{n} WHERE'");
    drive(bencher, &rules(count, predicate));
}

/// By a regular expression on the digest with gaps in it.
#[divan::bench(args = [1, 100, 1000], sample_size = SAMPLE)]
fn last_of_with_gaps(bencher: Bencher<'_, '_>, count: usize) {
    let predicate = |n| format!("match_digest = '^SELECT.*FROM sbtest{n} .*WHERE'");
    drive(bencher, &rules(count, predicate));
}

/// By a regular expression on the text.
#[divan::bench(args = [1, 100, 1000], sample_size = SAMPLE)]
fn last_of_texts(bencher: Bencher<'_, '_>, count: usize) {
    let predicate = |n| format!("match_pattern = 'FROM sbtest{n} WHERE'");
    drive(bencher, &rules(count, predicate));
}

/// By the digest's hash.
#[divan::bench(args = [1, 100, 1000], sample_size = SAMPLE)]
fn last_of_hashes(bencher: Bencher<'_, '_>, count: usize) {
    let hash = sql::digest(QUERY.as_bytes(), sql::Dialect::default(), 2048).hash.0;
    let predicate = |n: usize| format!("digest = '{:x}'", hash.wrapping_add(n as u64 - 1));
    drive(bencher, &rules(count, predicate));
}

/// By users: only the last rule is for this one.
#[divan::bench(args = [1, 100, 1000], sample_size = SAMPLE)]
fn last_of_users(bencher: Bencher<'_, '_>, count: usize) {
    let user = |n| if n == 1 { "app".to_owned() } else { format!("user{n}") };
    drive(bencher, &rules(count, |n| format!("username = '{}'", user(n))));
}

/// None matches.
#[divan::bench(args = [1, 100, 1000], sample_size = SAMPLE)]
fn no_match_in(bencher: Bencher<'_, '_>, count: usize) {
    drive(bencher, &rules(count, |n| format!("match_digest = '^SELECT c FROM t{n} WHERE'")));
}
