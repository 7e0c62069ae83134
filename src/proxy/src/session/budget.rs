//! Memory for large commands, of which all sessions together have a share.

use crate::backend::resize;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What large commands of all sessions may take.
#[derive(Clone)]
pub(crate) struct Budget(Arc<Semaphore>);

/// What one session has of it.
pub(crate) struct Share {
    budget: Budget,
    held: Option<OwnedSemaphorePermit>,
}

/// The budget is used up.
#[derive(Debug, thiserror::Error)]
#[error("the commands of all sessions together are beyond limits.max_buffered")]
pub(crate) struct UsedUp;

/// Commands up to this many bytes are free: there are as many of them as there are sessions.
const FREE: usize = 64 * 1024;
/// Bytes are counted in pieces of this many: permits are 32-bit numbers.
const PIECE: usize = 64 * 1024;

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(bytes: u64) -> Self {
        Self(Arc::new(Semaphore::new(pieces(bytes) as usize)))
    }

    /// Makes `to` bytes of a budget of `from`.
    pub(crate) fn resize(&self, from: u64, to: u64) {
        resize(&self.0, pieces(from), pieces(to));
    }

    /// A session's share; nothing yet.
    pub(crate) fn share(&self) -> Share {
        Share { budget: self.clone(), held: None }
    }
}

/// At most 1 TiB, so that 32 bits are enough.
fn pieces(bytes: u64) -> u32 {
    u32::try_from(bytes / PIECE as u64).unwrap_or(u32::MAX)
}

impl Share {
    /// Makes the share large enough for `bytes`.
    pub(crate) fn cover(&mut self, bytes: usize) -> Result<(), UsedUp> {
        if bytes <= FREE {
            return Ok(());
        }
        let held = self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Some(more) = bytes.div_ceil(PIECE).checked_sub(held).filter(|more| *more > 0) else {
            return Ok(());
        };
        let more = u32::try_from(more).map_err(|_| UsedUp)?;
        let more = self.budget.0.clone().try_acquire_many_owned(more).map_err(|_| UsedUp)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        Ok(())
    }

    /// Another share of the same budget; nothing yet.
    pub(crate) fn another(&self) -> Self {
        self.budget.share()
    }

    /// Gives all of it back.
    pub(crate) fn give_back(&mut self) {
        self.held = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_has_another_lacks() {
        let budget = Budget::new(1 << 20);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.cover(600_000).is_ok());
        assert!(other.cover(FREE).is_ok(), "small ones are free");
        assert!(other.cover(600_000).is_err());
        assert!(other.cover(300_000).is_ok());
        assert!(one.cover(600_000).is_ok(), "it has this already");
        one.give_back();
        assert!(other.cover(1 << 20).is_ok());
        drop(other);
        assert!(one.cover(1 << 20).is_ok());
        assert!(one.cover((1 << 20) + 1).is_err());
    }
}
