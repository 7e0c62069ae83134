//! One session's chain, and the layers that it is made of, whatever their types.
//!
//! tower's own boxes would do, and did. These cost one allocation for each layer that has a future
//! of its own, none for a layer that passes on the future below, and no error is mapped twice.

use crate::{
    Command, Reply,
    counters::Family,
    error::{Error, Result},
    live::{Changes, Known, Live},
    moving::{self, Around, Moves, Opaque, Part, Place, Thin},
};
use std::{
    any::Any,
    fmt,
    marker::PhantomData,
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
    shown: Option<Arc<serde_json::Value>>,
    live: Option<Arc<dyn Changes>>,
    from_login: bool,
}

impl Stack {
    /// A stack of this service, whose session stays in its chain for as long as it goes on.
    pub fn new<S>(service: S) -> Self
    where
        S: Service<Command, Response = Reply, Error = Error, Future: Send> + Send + 'static,
    {
        Self::boxed::<S, Opaque>(service)
    }

    /// A stack of a service that can hand on what it knows, so that a reload can give the session
    /// another chain.
    pub fn moving<S>(service: S) -> Self
    where
        S: Service<Command, Response = Reply, Error = Error, Future: Send> + Moves,
    {
        Self::boxed::<S, moving::Known>(service)
    }

    /// A stack of something that is no filter.
    pub(crate) fn around<S>(service: S) -> Self
    where
        S: Service<Command, Response = Reply, Error = Error, Future: Send>
            + Around
            + Send
            + 'static,
    {
        Self::boxed::<S, Thin>(service)
    }

    fn boxed<S, K>(service: S) -> Self
    where
        S: Service<Command, Response = Reply, Error: Into<Error>, Future: Send> + Send + 'static,
        K: moving::Kind<S> + 'static,
    {
        Self(Box::new(Boxed::<S, K>(service, PhantomData)))
    }

    /// The filter at that place, the first one at 0, or the bottom behind them. `None` beyond it,
    /// and below something that does not say what it keeps.
    pub(crate) fn part(&mut self, at: usize) -> Option<&mut dyn Part> {
        match (self.0.place(), at.checked_sub(1)) {
            (Place::Part(part), None) => Some(part),
            (Place::Part(part), Some(at)) => part.below()?.part(at),
            (Place::Around(inner), _) => inner.part(at),
            (Place::Unknown, _) => None,
        }
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
        let wrap = Arc::new(move |below| stack(layer.layer(below)));
        Self { wrap, counters: Vec::new(), shown: None, live: None, from_login: false }
    }

    /// The same, for a filter that has to have seen all that a session has done: one that goes on
    /// gets no chain in which the filter is new.
    #[must_use]
    pub fn from_login(mut self) -> Self {
        self.from_login = true;
        self
    }

    /// Whether it has to have seen a session from its login on.
    pub(crate) fn is_from_login(&self) -> bool {
        self.from_login
    }

    /// The same, with counters that the admin port shows.
    #[must_use]
    pub fn counting(mut self, families: impl IntoIterator<Item = Family>) -> Self {
        self.counters.extend(families);
        self
    }

    /// The same, with something of its settings that the admin port shows, such as the list of its
    /// rules. Nothing secret.
    #[must_use]
    pub fn showing(mut self, what: serde_json::Value) -> Self {
        self.shown = Some(Arc::new(what));
        self
    }

    /// What it shows of its settings.
    pub fn shown(&self) -> Option<&serde_json::Value> {
        self.shown.as_deref()
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
        Self { counters: newer.counters, shown: newer.shown, ..self.clone() }
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
    fn place(&mut self) -> Place<'_>;
}

/// A service, and what it is to a session that moves.
struct Boxed<S, K>(S, PhantomData<K>);

impl<S, K> Erased for Boxed<S, K>
where
    S: Service<Command, Response = Reply, Error: Into<Error>, Future: Send> + Send + 'static,
    K: moving::Kind<S>,
{
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.0.poll_ready(cx).map_err(Into::into)
    }

    fn call(&mut self, command: Command) -> Calling {
        boxed(self.0.call(command))
    }

    fn place(&mut self) -> Place<'_> {
        K::place(&mut self.0)
    }
}

/// A stack of what a layer has made, which may be one already.
fn stack<S>(service: S) -> Stack
where
    S: Service<Command, Response = Reply, Error: Into<Error>, Future: Send> + Send + 'static,
{
    let mut service = Some(service);
    let any: &mut dyn Any = &mut service;
    if let Some(already) = any.downcast_mut::<Option<Stack>>().and_then(Option::take) {
        return already;
    }
    let service = service.expect("only a stack has been taken out");
    Stack::boxed::<S, Opaque>(service)
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
