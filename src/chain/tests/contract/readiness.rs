//! What `poll_ready` promises, and what a permit must outlive.

use chain::{
    Body, Command, End, Error, Filter, Next, Reply, Result, Stack, each_session,
    registry::IntoLayer,
    testing::{Log, ok, session},
};
use std::{
    future::{Ready, ready},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_test::{assert_pending, assert_ready, task};
use tower::{
    Layer, Service, ServiceExt, layer::layer_fn, limit::concurrency::GlobalConcurrencyLimitLayer,
};

/// A bottom whose connection is gone.
pub(crate) fn beyond_use() -> Stack {
    struct Gone;
    impl Service<Command> for Gone {
        type Response = Reply;
        type Error = Error;
        type Future = Ready<Result<Reply>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
            Poll::Ready(Err(Error::backend("beyond use")))
        }

        fn call(&mut self, _: Command) -> Self::Future {
            ready(Err(Error::backend("called although it is not ready")))
        }
    }
    Stack::new(Gone)
}

/// Limits commands under way, all sessions together, until their replies have *ended*.
struct Limit<S> {
    inner: S,
    permits: Arc<Semaphore>,
}

impl<S> Service<Command> for Limit<S>
where
    S: Service<Command, Response = Reply, Error = Error>,
    S::Future: Send + 'static,
{
    type Response = Reply;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> Self::Future {
        // The permit belongs to the command, not to readiness, and to its whole reply.
        let (permits, reply) = (self.permits.clone(), self.inner.call(command));
        Box::pin(async move {
            let permit: OwnedSemaphorePermit =
                permits.acquire_owned().await.map_err(Error::filter)?;
            Ok(reply.await?.map_body(|body| body.hold(permit)))
        })
    }
}

pub(crate) fn limited(permits: &Arc<Semaphore>, bottom: Stack) -> Stack {
    let permits = permits.clone();
    layer_fn(move |inner: Stack| Limit { inner, permits: permits.clone() })
        .into_layer()
        .layer(bottom)
}

/// Answers without the rest of the chain.
struct Alone;

impl Filter for Alone {
    async fn handle(&mut self, _: Command, _: Next<'_>) -> Result<Reply> {
        Ok(Reply::new(Body::end(End::default())))
    }
}

fn query(sql: &str) -> Command {
    Command::query(session(), sql)
}

#[tokio::test]
async fn a_permit_lives_as_long_as_the_reply() {
    let permits = Arc::new(Semaphore::new(1));
    let mut one = limited(&permits, ok(Log::default()));
    let mut two = limited(&permits, ok(Log::default()));
    one.ready().await.unwrap();
    two.ready().await.unwrap();

    let reply = one.call(query("one")).await.unwrap();
    let mut second = task::spawn(two.call(query("two")));
    assert_pending!(second.poll(), "the first reply is still streaming");
    reply.collect().await.unwrap();
    assert!(second.is_woken());
    let reply = assert_ready!(second.poll()).unwrap();
    drop(reply);
    assert_eq!(permits.available_permits(), 1, "an abandoned reply gives its permit back too");
}

#[tokio::test]
async fn a_permit_that_was_waited_for_in_vain_is_not_lost() {
    let permits = Arc::new(Semaphore::new(1));
    let mut one = limited(&permits, ok(Log::default()));
    let mut two = limited(&permits, ok(Log::default()));
    let first = one.ready().await.unwrap().call(query("one")).await.unwrap();
    let mut second = task::spawn(two.ready().await.unwrap().call(query("two")));
    assert_pending!(second.poll());
    drop(first);
    drop(second);
    assert_eq!(permits.available_permits(), 1);
}

/// Why permits are not taken in `poll_ready`: tower's own limit, below a filter that answers alone.
#[tokio::test]
async fn a_permit_taken_in_poll_ready_stays_with_an_idle_session() {
    let limit = GlobalConcurrencyLimitLayer::new(1).into_layer();
    let stack = || each_session(|| Alone).into_layer().layer(limit.layer(ok(Log::default())));
    let (mut idle, mut other) = (stack(), stack());
    let answered_above = idle.ready().await.unwrap().call(query("SELECT 1")).await.unwrap();
    answered_above.collect().await.unwrap();

    idle.ready().await.unwrap();
    let mut waiting = task::spawn(other.ready());
    assert_pending!(waiting.poll(), "starved by a session that does nothing");
    drop(idle);
    assert!(waiting.is_woken(), "until that session ends");
}

/// The other half of it: the permit is given back when the future has resolved, and the reply has
/// hardly begun.
#[tokio::test]
async fn towers_limit_does_not_count_replies_that_stream() {
    let limit = GlobalConcurrencyLimitLayer::new(1).into_layer();
    let mut stacks = [limit.layer(ok(Log::default())), limit.layer(ok(Log::default()))];
    let mut streaming = Vec::new();
    for stack in &mut stacks {
        streaming.push(stack.ready().await.unwrap().call(query("rows")).await.unwrap());
    }
    assert_eq!(streaming.len(), 2, "two at once, although one is the limit");
}

#[tokio::test]
async fn an_error_below_is_heard_through_every_layer() {
    let permits = Arc::new(Semaphore::new(0));
    let mut stack = each_session(|| Alone).into_layer().layer(limited(&permits, beyond_use()));
    let error = stack.ready().await.map(drop).unwrap_err();
    assert_eq!(error.message(), "beyond use");
}
