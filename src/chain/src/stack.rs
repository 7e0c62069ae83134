//! One session's chain, and the layers that it is made of, whatever their types.
//!
//! tower's own boxes would do, and did. These cost one allocation for each layer that has a future
//! of its own, none for a layer that passes on the future below, and no error is mapped twice.

use crate::{
    Command, Reply,
    counters::Family,
    error::{Error, Result},
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
    name: &'static str,
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
        Self { wrap, counters: Vec::new(), name: "" }
    }

    /// The same, with counters that the admin port shows.
    #[must_use]
    pub fn counting(mut self, families: impl IntoIterator<Item = Family>) -> Self {
        self.counters.extend(families);
        self
    }

    /// The same, of the filter with this name.
    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The filter's name in its chain; empty outside of one.
    pub(crate) fn name(&self) -> &'static str {
        self.name
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
