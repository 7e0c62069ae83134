//! One session's chain, and the layers that it is made of, whatever their types.
//!
//! tower's own boxes would do, and did. These cost one allocation for each layer that has a future
//! of its own, none for a layer that passes on the future below, and no error is mapped twice.

use crate::{
    Command, Reply,
    counters::Family,
    error::{Error, Result},
    live::{Changes, Known, Live},
};
use std::{
    any::Any,
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tower::Service;

/// One session's chain, or the rest of it seen from inside. Uniquely owned, never cloned.
pub struct Stack(Box<dyn Erased>);

/// A command on its way.
pub type Calling = Pin<Box<dyn Future<Output = Result<Reply>> + Send>>;

/// A configured filter: made once per entry of the chain, wraps every session's stack.
#[derive(Clone)]
pub struct Layer {
    wrap: Arc<dyn Fn(Stack) -> Stack + Send + Sync>,
    counters: Vec<Family>,
    live: Option<Arc<dyn Changes>>,
}

impl Stack {
    /// A stack of this service.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Command, Response = Reply, Error = Error, Future: Send> + Send + 'static,
    {
        Self(Box::new(service))
    }
}

impl Service<Command> for Stack {
    type Response = Reply;
    type Error = Error;
    type Future = Calling;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, command: Command) -> Calling {
        self.0.call(command)
    }
}

impl Layer {
    /// Any tower layer that fits into a chain.
    pub fn new<L>(layer: L) -> Self
    where
        L: tower::Layer<Stack> + Send + Sync + 'static,
        L::Service:
            Service<Command, Response = Reply, Error: Into<Error>, Future: Send> + Send + 'static,
    {
        let mut layer = Some(layer);
        if let Some(already) = (&mut layer as &mut dyn Any).downcast_mut::<Option<Self>>() {
            return already.take().expect("it was put there above");
        }
        let layer = layer.expect("only a layer of this type has been taken out");
        let wrap = Arc::new(move |below| Stack(Box::new(layer.layer(below))));
        Self { wrap, counters: Vec::new(), live: None }
    }

    /// The same, with counters that the admin port shows.
    #[must_use]
    pub fn counting(mut self, families: impl IntoIterator<Item = Family>) -> Self {
        self.counters.extend(families);
        self
    }

    /// The same, with settings that a reload changes under its sessions. `bequeath` is called with
    /// the older ones and the newer, which no session has seen yet.
    #[must_use]
    pub fn live<T: Send + Sync + 'static>(mut self, live: &Live<T>, bequeath: fn(&T, &T)) -> Self {
        self.live = Some(Arc::new(Known { live: live.clone(), bequeath }));
        self
    }

    /// Whether `newer` can take its place under sessions that are there.
    pub(crate) fn can_become(&self, newer: &Self) -> bool {
        matches!((&self.live, &newer.live), (Some(live), Some(newer)) if live.fits(&**newer))
    }

    /// Hands on what is kept beyond a reload.
    pub(crate) fn bequeath(&self, newer: &Self) {
        if let (Some(live), Some(newer)) = (&self.live, &newer.live) {
            live.bequeath(&**newer);
        }
    }

    /// This layer with the settings and the counters of `newer`.
    pub(crate) fn becoming(&self, newer: Self) -> Self {
        if let (Some(live), Some(newer)) = (&self.live, &newer.live) {
            live.follow(&**newer);
        }
        Self { counters: newer.counters, ..self.clone() }
    }

    /// What it counts.
    pub fn counters(&self) -> &[Family] {
        &self.counters
    }
}

impl tower::Layer<Stack> for Layer {
    type Service = Stack;

    fn layer(&self, below: Stack) -> Stack {
        (self.wrap)(below)
    }
}

/// A service without its type.
trait Erased: Send {
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>>;
    fn call(&mut self, command: Command) -> Calling;
}

impl<S> Erased for S
where
    S: Service<Command, Response = Reply, Error: Into<Error>, Future: Send> + Send + 'static,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Service::poll_ready(self, cx).map_err(Into::into)
    }

    fn call(&mut self, command: Command) -> Calling {
        boxed(Service::call(self, command))
    }
}

/// Boxes a future that is not boxed already.
fn boxed<E: Into<Error>>(
    future: impl Future<Output = Result<Reply, E>> + Send + 'static,
) -> Calling {
    let mut future = Some(future);
    let any: &mut dyn Any = &mut future;
    if let Some(already) = any.downcast_mut::<Option<Calling>>().and_then(Option::take) {
        return already;
    }
    let future = future.expect("only a boxed future has been taken out");
    Box::pin(async move { future.await.map_err(Into::into) })
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stack")
    }
}

impl fmt::Debug for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Layer")
    }
}
