//! What the chain costs per command, per frame and per session.
//!
//! The bar: eight boxed layers add at most 0.3 microseconds to a command (`boxed` with 8 less
//! `boxed` with 0). The machine's noise only ever adds, so the column to read is `fastest`.

use chain::{
    Body, Command, End, Filter, Frame, Layer, Next, Reply, Result, Session, Stack, each_session,
    facts::{ServedBy, Target},
    lend::Lend,
    registry::IntoLayer,
    testing::{Bottom, session},
};
use divan::{Bencher, black_box};
use futures_util::FutureExt;
use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};
use tower::{Layer as _, Service, ServiceExt};

/// As in the shipped executable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    divan::main();
}

/// Commands that are timed together, so that reading the clock does not count.
const SAMPLE: u32 = 100;

/// Frames of one streaming reply.
const FRAMES: u32 = 1000;

/// Counts, and passes on: the cheapest filter there can be.
struct Pass<S> {
    inner: S,
    seen: u64,
}

#[derive(Clone)]
struct PassLayer;

impl<S> tower::Layer<S> for PassLayer {
    type Service = Pass<S>;

    fn layer(&self, inner: S) -> Pass<S> {
        Pass { inner, seen: 0 }
    }
}

impl<S: Service<Command>> Service<Command> for Pass<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> S::Future {
        self.seen += 1;
        self.inner.call(command)
    }
}

/// The same through the easy door.
#[derive(Default)]
struct EasyPass {
    seen: u64,
}

impl Filter for EasyPass {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        self.seen += 1;
        next.run(command).await
    }
}

fn answer(command: Command) -> Result<Reply> {
    black_box(command.payload());
    Ok(Reply::new(Body::end(End::default())))
}

fn bottom() -> Stack {
    Stack::new(Bottom(answer))
}

fn pass() -> Layer {
    PassLayer.into_layer()
}

fn easy_pass() -> Layer {
    each_session(EasyPass::default).into_layer()
}

fn wrap(layer: &Layer, layers: usize) -> Stack {
    (0..layers).fold(bottom(), |inner, _| layer.layer(inner))
}

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing here waits"),
    }
}

fn command(session: &Session) -> Command {
    Command::query(session.clone(), "SELECT c FROM sbtest1 WHERE id = 4711")
}

fn drive(bencher: Bencher<'_, '_>, mut stack: Stack) {
    let session = session();
    bencher.with_inputs(|| command(&session)).bench_local_values(|command| {
        drop(black_box(now(async { stack.ready().await?.call(command).await })));
    });
}

/// A command through layers that are a box each.
#[divan::bench(args = [0, 1, 8], sample_size = SAMPLE)]
fn boxed(bencher: Bencher<'_, '_>, layers: usize) {
    drive(bencher, wrap(&pass(), layers));
}

/// A command through filters of one async method each.
#[divan::bench(args = [0, 1, 8], sample_size = SAMPLE)]
fn easy_door(bencher: Bencher<'_, '_>, layers: usize) {
    drive(bencher, wrap(&easy_pass(), layers));
}

/// A command with one fact on its way down and one on its reply's way up; compare `boxed` with 1.
#[divan::bench(sample_size = SAMPLE)]
fn facts(bencher: Bencher<'_, '_>) {
    let target = target();
    let served = target.clone();
    let bottom = Bottom(move |command: Command| {
        black_box(command.fact::<Target>());
        Ok(answer(command)?.with(ServedBy(served.clone())))
    });
    drive(
        bencher,
        Stack::new(
            Stack::new(bottom).map_request(move |command: Command| command.with(target.clone())),
        ),
    );
}

/// Reading a fact that stands behind three others.
#[divan::bench]
fn fact_read(bencher: Bencher<'_, '_>) {
    let session = session();
    let statement = chain::facts::Statement::new("SELECT 1".into(), sql::Dialect::default());
    let command = command(&session).with(statement).with(target());
    bencher.bench_local(|| black_box(&command).fact::<Target>().is_some());
}

/// A reply of a thousand frames through bodies that watch for its end.
#[divan::bench(args = [0, 1, 8])]
fn frames_watched(bencher: Bencher<'_, '_>, watchers: usize) {
    let inputs = || (0..watchers).fold(frames(), |body, _| body.on_end(|_| {}));
    bencher.counter(FRAMES).with_inputs(inputs).bench_local_values(|mut body| {
        while let Some(frame) = now(body.frame()) {
            drop(black_box(frame));
        }
    });
}

fn frames() -> Body {
    let run = || Ok(Frame::Packets(bytes::Bytes::from_static(b"rows")));
    let rows = std::iter::repeat_with(run).take(FRAMES as usize);
    let end = std::iter::once(Ok(Frame::End(End::default())));
    Body::stream(futures_util::stream::iter(rows.chain(end)))
}

/// State that is lent, changed and taken home.
#[divan::bench]
fn loan(bencher: Bencher<'_, '_>) {
    let mut state = Lend::new(0_u64);
    bencher.bench_local(|| {
        *state.lend() += 1;
        let home = std::future::poll_fn(|cx| state.poll_home(cx).map(|home| home.is_ok()));
        home.now_or_never()
    });
}

/// A session's stack, built and dropped.
#[divan::bench(args = [1, 8])]
fn session_boxed(layers: usize) -> Stack {
    wrap(&pass(), layers)
}

/// The same of filters through the easy door.
#[divan::bench(args = [1, 8])]
fn session_easy_door(layers: usize) -> Stack {
    wrap(&easy_pass(), layers)
}

fn target() -> Target {
    let session = session();
    let group = &session.topology.hostgroups()[0];
    Target { hostgroup: group.id, server: group.servers[0].clone() }
}
