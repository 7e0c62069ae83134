//! What `parse` costs a session that nobody asks about: one query, and one run of a prepared
//! statement. `none` is the same stack without the filter.

use chain::{Body, Command, End, Registry, Reply, testing};
use divan::{Bencher, black_box};
use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};
use tower::{Service, ServiceExt};
use wire::command::CommandCode;

/// As in the shipped executable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// Commands that are timed together, so that reading the clock does not count.
const SAMPLE: u32 = 100;

fn drive(bencher: Bencher<'_, '_>, chain: &str, command: impl Fn() -> Command) {
    let chain = testing::chain(chain, &Registry::default().with::<parse::Parse>());
    let mut stack = chain.expect("it is right").session(testing::answering(|command| {
        black_box(command.payload());
        Ok(Reply::new(Body::end(End::default())))
    }));
    bencher.with_inputs(command).bench_local_values(|command| {
        let mut call = pin!(async { stack.ready().await?.call(command).await });
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => drop(black_box(reply)),
            Poll::Pending => unreachable!("nothing here waits"),
        }
    });
}

#[divan::bench(sample_size = SAMPLE)]
fn none(bencher: Bencher<'_, '_>) {
    let session = testing::session();
    drive(bencher, "session = []", || Command::query(session.clone(), "SELECT c FROM t"));
}

#[divan::bench(sample_size = SAMPLE)]
fn query(bencher: Bencher<'_, '_>) {
    let session = testing::session();
    let chain = "session = [{ use = 'parse' }]";
    drive(bencher, chain, || Command::query(session.clone(), "SELECT c FROM t"));
}

#[divan::bench(sample_size = SAMPLE)]
fn ping(bencher: Bencher<'_, '_>) {
    let session = testing::session();
    let chain = "session = [{ use = 'parse' }]";
    drive(bencher, chain, || Command::new(session.clone(), CommandCode::PING, ""));
}

#[divan::bench(sample_size = SAMPLE)]
fn run_of_another_session_s(bencher: Bencher<'_, '_>) {
    let session = testing::session();
    let chain = "session = [{ use = 'parse' }]";
    let run = || Command::new(session.clone(), CommandCode::STMT_EXECUTE, [1; 9]);
    drive(bencher, chain, run);
}
