//! A filter that panics ends its command; what else shares the stack is whole.

use chain::{
    Command, End, Filter, Next, Reply, Result,
    body::Body,
    each_session,
    registry::IntoLayer,
    testing::{self, Client, Log, ok, session},
};
use std::{panic::AssertUnwindSafe, task::Poll};
use tokio_test::{assert_ready, task};
use tower::{Layer, Service, ServiceExt};

/// Panics where it is told to.
#[derive(Default)]
struct Clumsy {
    handled: u32,
}

impl Filter for Clumsy {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        self.handled += 1;
        let text = testing::text(&command);
        assert!(text != "PANIC", "{} handled", self.handled);
        next.run(command).await
    }
}

#[test]
fn the_filters_state_is_home_again() {
    let log = Log::default();
    let mut stack = each_session(Clumsy::default).into_layer().layer(ok(log.clone()));
    assert_ready!(task::spawn(stack.ready()).poll()).unwrap();
    let reply = stack.call(Command::query(session(), "PANIC"));
    let panic = std::panic::catch_unwind(AssertUnwindSafe(|| task::spawn(reply).poll()));
    assert!(panic.is_err());

    let ready = task::spawn(stack.ready()).poll().map(|ready| ready.is_ok());
    assert_eq!(ready, Poll::Ready(true));
    Client::new(stack).query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["SELECT 1"]);
}

#[test]
fn a_reply_that_is_dropped_in_a_panic_is_abandoned() {
    let seen = Log::default();
    let log = seen.clone();
    let body = Body::end(End::default()).on_end(move |ending| log.push(format!("{ending:?}")));
    let panic = std::panic::catch_unwind(AssertUnwindSafe(move || {
        let _body = body;
        panic!("a filter's");
    }));
    assert!(panic.is_err());
    assert_eq!(seen.take(), ["Abandoned"]);
}
