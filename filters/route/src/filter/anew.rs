//! What leaves a transaction that only reads on a replica: one that may write begins, or the text
//! ends it and goes on.

use super::{
    Route,
    choose::{Decision, Wanted},
};
use crate::{
    causal::ask,
    place::{self, Place},
};
use chain::{
    Command, Next, Reply, Result,
    facts::{Explain, Pin, Target},
};

impl Route {
    /// On the primary, if `command` begins a transaction that may write while one is open on the
    /// replica `last`, or ends that one and goes on: a server would end it first, and has nothing of
    /// it to lose.
    pub(super) fn anew(&mut self, command: &Command, last: &Target) -> Result<Option<Decision>> {
        // Of MySQL, what does not say READ WRITE is read-only like the one before.
        let stays = |read_only| match read_only {
            Some(read_only) => read_only,
            None => last.server.profile.is_mariadb() != Some(true),
        };
        let leaves = place::ends(command) || !place::begins(command).is_none_or(stays);
        if command.fact::<Pin>().is_some() || !leaves {
            return Ok(None);
        }
        let Some(pair) = self.shared.replicas_of(command.session(), last) else { return Ok(None) };
        match place::place(command, &mut self.access) {
            (Place::Primary, why) => {
                let decision = self.in_group(command, pair.primary, Wanted::PRIMARY, why)?;
                Ok(Some(Decision { ends: Some(last.clone()), ..decision }))
            }
            _ => Ok(None),
        }
    }

    /// Ends the transaction there, as the server would have. What it says if it cannot.
    pub(super) async fn end(
        command: &Command,
        at: Target,
        next: &mut Next<'_>,
    ) -> Result<Option<Reply>> {
        if command.fact::<Explain>().is_some() {
            return Ok(None);
        }
        let (answer, _) = ask(command, ENDS, at, next).await?;
        Ok(answer.end.error.is_some().then(|| answer.into()))
    }
}

/// Whatever `completion_type` says.
const ENDS: &str = "COMMIT AND NO CHAIN NO RELEASE";
