//! Sessions of a chain that a reload has put another in the place of.

use super::{Chain, Entered, wrap};
use crate::{
    Command, Error, Reply, Result, Stack,
    facts::{Fact, SessionLog},
    moving::Moves,
};
use std::{
    any::Any,
    future::{Ready, ready},
    task::{Context, Poll},
};
use tower::Service;

impl Chain {
    /// Whether sessions of `older` can move here while they go on.
    ///
    /// Not where something would be needed that nobody has noted: what the session has set, if only
    /// one of the chains keeps a log of that; all that it has done, if a filter that is new here
    /// needs to have seen it. Nor where somebody's service does not say what it keeps.
    pub fn may_follow(&self, older: &Self) -> bool {
        let logs = |chain: &Self| chain.gives(SessionLog::NAME);
        let is_new = |(entered, from): (&Entered, Option<usize>)| {
            from.is_none() && entered.layer.is_from_login()
        };
        self.shares == older.shares
            && logs(self) == logs(older)
            && !self.session.iter().zip(self.heirs(older)).any(is_new)
            && [self, older].iter().all(|chain| chain.is_open())
    }

    /// The stack here of a session whose `stack` is of `older`. It has what the session's filters
    /// know, and the `bottom` that is made of its old one; whether the filters around its connections
    /// are the same here as there is said with it. `None`, and nothing has changed, if a command
    /// is at work or there is no bottom.
    ///
    /// Only if [`Self::may_follow`], and after the stack has said that it is ready. What such a
    /// session's filters take is not measured.
    pub fn moved(
        &self,
        older: &Self,
        stack: &mut Stack,
        bottom: impl FnOnce(&mut dyn Any, bool) -> Option<Stack>,
    ) -> Option<Stack> {
        let same = self.backend.len() == older.backend.len()
            && self.backend.iter().zip(&older.backend).all(|(one, other)| one.is_same(other));
        let bottom = bottom(stack.part(older.session.len())?.as_any(), same)?;
        let mut moved = wrap(&self.session, self.timed, bottom);
        for (at, from) in self.heirs(older).enumerate() {
            let Some(from) = from else { continue };
            // What can change under sessions may have.
            let fixed = !self.session[at].layer.can_become(&older.session[from].layer);
            let unchanged = fixed && self.session[at].is_same(&older.session[from]);
            // Both are there: everything down to the bottom was.
            if let (Some(heir), Some(from)) = (moved.part(at), stack.part(from)) {
                heir.inherit(from.as_any(), unchanged);
            }
        }
        Some(moved)
    }

    /// For each filter of the session's list, where the one is that it inherits from: of several
    /// with its name, the first from the first.
    fn heirs(&self, older: &Self) -> impl Iterator<Item = Option<usize>> {
        let mut left: Vec<_> = older.session.iter().map(|entered| Some(&*entered.name)).collect();
        self.session.iter().map(move |entered| {
            let from = left.iter().position(|name| *name == Some(&*entered.name));
            from.inspect(|from| left[*from] = None)
        })
    }

    /// Whether each filter of the session's list says what it keeps.
    fn is_open(&self) -> bool {
        let mut probe = wrap(&self.session, self.timed, Stack::moving(Nothing));
        let bottom = probe.part(self.session.len());
        bottom.is_some_and(|bottom| bottom.as_any().is::<Nothing>())
    }
}

impl Entered {
    fn is_same(&self, other: &Self) -> bool {
        (&self.name, self.print) == (&other.name, other.print)
    }
}

/// A bottom that is never sent anything.
struct Nothing;

impl Moves for Nothing {
    fn inherit(&mut self, _: &mut Self, _: bool) {}

    fn below(&mut self) -> Option<&mut Stack> {
        None
    }
}

impl Service<Command> for Nothing {
    type Response = Reply;
    type Error = Error;
    type Future = Ready<Result<Reply>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Command) -> Self::Future {
        ready(Err(Error::filter("nothing is below")))
    }
}
