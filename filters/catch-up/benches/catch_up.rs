//! What the filter costs per command on a connection that lacks nothing, the command's way through
//! it included.
//!
//! `none` is the same stack without the filter; `without_a_log` and `at_the_head` should be no
//! further from it than one more box (22 ns).

use bytes::Bytes;
use chain::{
    Body, Command, End, FilterFactory, Reply, Stack,
    facts::{Expected, LogEntry, SessionLog},
    registry::IntoLayer,
    testing,
};
use divan::{Bencher, black_box};
use std::{
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};
use tower::{Layer, Service, ServiceExt};
use wire::command::CommandCode;

/// As in the shipped executable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// Commands that are timed together, so that reading the clock does not count.
const SAMPLE: u32 = 100;

const QUERY: &str = "SELECT c FROM sbtest1 WHERE id = 4711";

/// A session's statement, as its client knows it.
const ID: u32 = 1 << 31;

fn bottom() -> Stack {
    testing::answering(|command| {
        black_box(command.payload());
        if command.code() == CommandCode::STMT_PREPARE {
            let packet = Bytes::from_static(&[12, 0, 0, 1, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            return Ok(Reply::new(Body::whole(packet, End::default())));
        }
        Ok(Reply::new(Body::end(End::default())))
    })
}

fn filtered() -> Stack {
    let layer = catch_up::Factory::build(catch_up::Config::default()).expect("the defaults");
    layer.into_layer().layer(bottom())
}

fn log() -> SessionLog {
    let text = |lsn, code, text: &'static str, expected| {
        Arc::new(LogEntry::new(lsn, code, text.into(), expected))
    };
    let entries = vec![
        text(1, CommandCode::QUERY, "SET NAMES utf8mb4", Expected::Success),
        text(2, CommandCode::STMT_PREPARE, QUERY, Expected::Statement { id: ID, parameters: 0 }),
    ];
    SessionLog { entries: Arc::new(entries), ..SessionLog::default() }
}

fn drive(bencher: Bencher<'_, '_>, mut stack: Stack, command: impl Fn() -> Command) {
    let mut run = |command: Command| {
        let mut call = pin!(async { stack.ready().await?.call(command).await });
        match call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(reply) => drop(black_box(reply)),
            Poll::Pending => unreachable!("nothing here waits"),
        }
    };
    run(command());
    bencher.with_inputs(command).bench_local_values(run);
}

fn query() -> Command {
    Command::query(testing::session(), QUERY)
}

fn execute() -> Command {
    let body = [&ID.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
    Command::new(testing::session(), CommandCode::STMT_EXECUTE, body)
}

#[divan::bench(sample_size = SAMPLE)]
fn none(bencher: Bencher<'_, '_>) {
    drive(bencher, bottom(), query);
}

#[divan::bench(sample_size = SAMPLE)]
fn without_a_log(bencher: Bencher<'_, '_>) {
    drive(bencher, filtered(), query);
}

#[divan::bench(sample_size = SAMPLE)]
fn at_the_head(bencher: Bencher<'_, '_>) {
    let log = log();
    drive(bencher, filtered(), move || query().with(log.clone()));
}

#[divan::bench(sample_size = SAMPLE)]
fn none_execute(bencher: Bencher<'_, '_>) {
    drive(bencher, bottom(), execute);
}

#[divan::bench(sample_size = SAMPLE)]
fn execute_at_the_head(bencher: Bencher<'_, '_>) {
    let log = log();
    drive(bencher, filtered(), move || execute().with(log.clone()));
}
