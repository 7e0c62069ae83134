//! What the bottom of a connection's stack and the session that has it both see.

use super::{lasting::Lasting, schema::Schema, sessions::Lease};
use arc_swap::ArcSwapOption;
use chain::End;
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use tokio::sync::oneshot;
use wire::{ok::OkPacket, packet::HEADER_LEN, status::Status};

/// A connection's place for one session after the other.
#[derive(Default)]
pub(crate) struct Seat {
    /// The session that has the connection is found by it.
    lease: ArcSwapOption<Lease>,
    /// Its sessions share it: what replies leave is noted.
    shared: AtomicBool,
    /// See [`Lasting`].
    lasting: AtomicBool,
    in_schema: AtomicBool,
    /// Locked when a reply ends and when the next command is sent: by one side at a time.
    left: Mutex<Left>,
    /// Whom the connection owes what LAST_INSERT_ID() says there. Locked as [`Self::left`] is.
    debt: Mutex<Option<oneshot::Sender<u64>>>,
}

/// What the last reply has left on its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// `None` behind an error of the first statement.
    pub(crate) status: Option<Status>,
    /// There are warnings, or an error.
    pub(crate) warned: bool,
    pub(crate) failed: bool,
    /// What ROW_COUNT() says.
    pub(crate) row_count: i64,
    /// What FOUND_ROWS() says, if it was a result.
    pub(crate) found_rows: Option<u64>,
    /// The first id that was generated; 0 if there is none.
    pub(crate) insert_id: u64,
}

impl Seat {
    /// Gives the connection to a session.
    pub(crate) fn take(&self, lease: Arc<Lease>, shared: bool) {
        self.shared.store(shared, Relaxed);
        self.lease.store(Some(lease));
    }

    /// The connection is nobody's any more.
    pub(crate) fn vacate(&self) -> Option<Arc<Lease>> {
        self.lease.swap(None)
    }

    pub(crate) fn lease(&self) -> arc_swap::Guard<Option<Arc<Lease>>> {
        self.lease.load()
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Relaxed)
    }

    /// Notes what is known of the connection, for those who do not have it.
    pub(crate) fn note(&self, schema: &Schema, lasting: &Lasting) {
        self.in_schema.store(*schema != Schema::None, Relaxed);
        self.lasting.store(lasting.differs(), Relaxed);
    }

    /// Something outlives a reset of the connection.
    pub(crate) fn is_lasting(&self) -> bool {
        self.lasting.load(Relaxed)
    }

    /// The connection has a default schema, or may have one.
    pub(crate) fn is_in_schema(&self) -> bool {
        self.in_schema.load(Relaxed)
    }

    /// Notes how a reply has ended, on a connection that is shared.
    pub(crate) fn ended(&self, end: &End, warnings: u16, rows: u64) {
        *lock(&self.left) = Left::by(end, warnings, rows);
    }

    /// What the last reply has left. Asked a second time: nothing.
    pub(crate) fn left(&self) -> Option<Left> {
        let mut left = lock(&self.left);
        (*left != Left::default()).then(|| std::mem::take(&mut *left))
    }

    /// From here on the connection owes the session what LAST_INSERT_ID() says there.
    pub(crate) fn owe(&self, session: oneshot::Sender<u64>) {
        *lock(&self.debt) = Some(session);
    }

    /// Whether it owes that to a session that may yet want to know.
    pub(crate) fn owes(&self) -> bool {
        lock(&self.debt).as_ref().is_some_and(|session| !session.is_closed())
    }

    /// Whom the connection owes it. Asked a second time: nobody.
    pub(crate) fn debt(&self) -> Option<oneshot::Sender<u64>> {
        lock(&self.debt).take().filter(|session| !session.is_closed())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing panics while it is locked.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Left {
    fn by(end: &End, warnings: u16, rows: u64) -> Self {
        let payload = end.packet.get(HEADER_LEN..).unwrap_or_default();
        let is_result = payload.first() != Some(&0);
        let numbers = OkPacket::numbers(payload).filter(|_| !is_result).unwrap_or_default();
        let (affected, insert_id) = numbers;
        Self {
            status: end.status,
            warned: warnings > 0 || end.error.is_some(),
            failed: end.error.is_some(),
            row_count: if is_result { -1 } else { affected.cast_signed() },
            found_rows: (is_result && end.error.is_none()).then_some(rows),
            insert_id,
        }
    }
}
