//! tower's own layers: those that work in a chain as they are, and why some others do not.

use super::readiness::{beyond_use, limited};
use chain::{
    Body, Command, End, Error, Origin, Registry, Reply, Stack,
    error::code,
    registry::IntoLayer,
    testing::{self, Log, ok, session},
};
use schemars::JsonSchema;
use serde::Deserialize;
use std::{future::pending, sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tokio_test::{assert_pending, assert_ready, task};
use tower::{
    Layer, Service, ServiceExt,
    buffer::BufferLayer,
    filter::FilterLayer,
    limit::{ConcurrencyLimitLayer, RateLimitLayer},
    load_shed::LoadShedLayer,
    service_fn,
    timeout::{TimeoutLayer, error::Elapsed},
    util::{AndThenLayer, MapRequestLayer, MapResponseLayer, ThenLayer},
};
use wire::command::CommandCode;

#[derive(Deserialize, JsonSchema)]
struct Milliseconds {
    milliseconds: u64,
}

fn query(sql: &str) -> Command {
    Command::query(session(), sql)
}

fn never() -> Stack {
    Stack::new(service_fn(|_: Command| pending::<chain::Result<Reply>>()))
}

#[tokio::test(start_paused = true)]
async fn timeout_ends_a_command_with_the_filters_error() {
    let registry = Registry::default().with_layer("timeout", |t: Milliseconds| {
        Ok(TimeoutLayer::new(Duration::from_millis(t.milliseconds)))
    });
    let text = "session = [{ use = 'timeout', milliseconds = 50 }]";
    let mut stack = testing::chain(text, &registry).unwrap().session(never());
    let error = stack.ready().await.unwrap().call(query("SELECT SLEEP(1)")).await.unwrap_err();
    assert_eq!((error.origin(), error.code()), (Origin::Filter, code::FILTER));
    assert_eq!(error.message(), "request timed out");
    assert!(error.cause::<Elapsed>().is_some(), "what it was can be found out");
}

#[tokio::test(start_paused = true)]
async fn timeout_does_not_bound_a_reply_that_has_begun() {
    let slow = Stack::new(service_fn(|_: Command| async {
        let rows = futures_util::stream::once(async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            Ok(chain::Frame::End(End::default()))
        });
        Ok::<_, Error>(Reply::new(Body::stream(rows)))
    }));
    let mut stack = TimeoutLayer::new(Duration::from_millis(50)).into_layer().layer(slow);
    let reply = stack.ready().await.unwrap().call(query("rows")).await.unwrap();
    reply.collect().await.unwrap();
}

#[tokio::test]
async fn errors_of_the_chain_pass_through_layers_that_box_them() {
    let bottom = testing::answering(|_| Err(Error::backend("gone").with_code(9001, *b"08S01")));
    let mut stack = TimeoutLayer::new(Duration::from_secs(60)).into_layer().layer(bottom);
    let error = stack.ready().await.unwrap().call(query("SELECT 1")).await.unwrap_err();
    assert_eq!((error.origin(), error.code(), &*error.message()), (Origin::Backend, 9001, "gone"));
}

#[tokio::test]
async fn map_request_and_map_response_work() {
    let log = Log::default();
    let down = MapRequestLayer::new(|mut command: Command| {
        command.rewrite_sql("SELECT 2");
        command
    });
    let noted = log.clone();
    let up = MapResponseLayer::new(move |reply: Reply| {
        noted.push("replied");
        reply
    });
    let stack = up.into_layer().layer(down.into_layer().layer(ok(log.clone())));
    testing::Client::new(stack).query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["SELECT 2", "replied"]);
}

#[tokio::test]
async fn filter_then_and_and_then_work() {
    let log = Log::default();
    let only_queries = FilterLayer::new(|command: Command| match command.sql() {
        Some(_) => Ok(command),
        None => Err(Error::filter("queries only")),
    });
    let (one, two) = (log.clone(), log.clone());
    let then = ThenLayer::new(move |reply: chain::Result<Reply>| {
        one.push(if reply.is_ok() { "replied" } else { "failed" });
        async { reply }
    });
    let and_then = AndThenLayer::new(move |reply: Reply| {
        two.push("and then");
        async { Ok::<_, Error>(reply) }
    });
    let stack = only_queries.into_layer().layer(ok(log.clone()));
    let mut client =
        testing::Client::new(and_then.into_layer().layer(then.into_layer().layer(stack)));
    client.query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["SELECT 1", "replied", "and then"]);
    let error = client.send(Command::new(session(), CommandCode::PING, "")).unwrap_err();
    assert_eq!((error.message(), log.take()), ("queries only".into(), vec!["failed".into()]));
}

/// A session has one command under way in any case, and each session gets a limit of its own.
#[tokio::test]
async fn concurrency_limit_limits_nothing() {
    let limit = ConcurrencyLimitLayer::new(1).into_layer();
    let (mut one, mut two) = (limit.layer(never()), limit.layer(never()));
    let mut first = task::spawn(one.ready().await.unwrap().call(query("one")));
    assert_pending!(first.poll());
    assert_ready!(task::spawn(two.ready()).poll()).unwrap();
}

/// It counts for each session by itself, so it works for that and for nothing else.
#[tokio::test(start_paused = true)]
async fn rate_limit_is_one_sessions() {
    let limit = RateLimitLayer::new(1, Duration::from_secs(60)).into_layer();
    let (mut one, mut two) = (limit.layer(ok(Log::default())), limit.layer(ok(Log::default())));
    for stack in [&mut one, &mut two] {
        stack
            .ready()
            .await
            .unwrap()
            .call(query("SELECT 1"))
            .await
            .unwrap()
            .collect()
            .await
            .unwrap();
    }
    assert_pending!(task::spawn(one.ready()).poll());
}

/// Where the limit is asked in `call`, there is nothing to see in `poll_ready`.
#[tokio::test]
async fn load_shed_sheds_nothing() {
    let permits = Arc::new(Semaphore::new(0));
    let mut stack = LoadShedLayer::new().into_layer().layer(limited(&permits, ok(Log::default())));
    let mut waiting = task::spawn(stack.ready().await.unwrap().call(query("SELECT 1")));
    assert_pending!(waiting.poll(), "it waits in the queue and is not refused");
}

/// `poll_ready` of a buffer says that there is room in its queue, not that the stack below is
/// alive. The session would go on without the connection that it has lost.
#[tokio::test]
async fn buffer_hides_that_the_stack_below_is_beyond_use() {
    assert!(beyond_use().ready().await.is_err());
    let mut stack = BufferLayer::<Command>::new(1).into_layer().layer(beyond_use());
    stack.ready().await.unwrap();
}

/// tower's `Retry`, `Hedge` and `AsyncFilter` clone what they wrap, and there is nothing to clone:
/// this does not compile where one of the two is `Clone`.
#[test]
fn neither_a_stack_nor_a_command_is_ever_cloned() {
    trait AmbiguousIfClone<A> {
        fn it_is_not() {}
    }
    struct IsClone;
    impl<T> AmbiguousIfClone<()> for T {}
    impl<T: Clone> AmbiguousIfClone<IsClone> for T {}

    <Stack as AmbiguousIfClone<_>>::it_is_not();
    <Command as AmbiguousIfClone<_>>::it_is_not();
}
