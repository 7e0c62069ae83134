//! A session whose client is silent.
//!
//! A stack is asked whether it is ready before each command, and while a session waits for its next
//! one. Only in between is it worth giving connections back: a client that has sent its next command
//! already would want them again at once.

use std::cell::Cell;

thread_local! {
    static RESTS: Cell<bool> = const { Cell::new(false) };
}

/// Polls a stack of a session whose client is silent.
pub(crate) fn resting<T>(poll: impl FnOnce() -> T) -> T {
    // Back to what it was also if a filter panics.
    struct Awake;
    impl Drop for Awake {
        fn drop(&mut self) {
            RESTS.set(false);
        }
    }
    RESTS.set(true);
    let _awake = Awake;
    poll()
}

/// Whether the session that is polled just now has a silent client.
pub(crate) fn rests() -> bool {
    RESTS.get()
}
