//! One command for each way in which it can end, against a chain without sockets.

use super::*;
use chain::{Body, End, Error, testing};
use tower::ServiceExt;

type Bottom = testing::Bottom<fn(Command) -> chain::Result<Reply>>;

/// Done, refused, failed, abandoned; of one session over `bottom` that `act` has used.
async fn counted<F: Future<Output = ()>>(
    bottom: fn(Command) -> chain::Result<Reply>,
    act: impl FnOnce(Audit<Bottom>) -> F,
) -> [u64; 4] {
    let audit = AuditLayer.layer(testing::Bottom(bottom));
    let counts = audit.counts.clone();
    act(audit).await;
    [&counts.done, &counts.refused, &counts.failed, &counts.abandoned]
        .map(|count| count.load(Relaxed))
}

fn query() -> Command {
    Command::query(testing::session(), "SELECT 1")
}

fn ok(_: Command) -> chain::Result<Reply> {
    Ok(Reply::new(Body::whole("rows", End::default())))
}

async fn read_to_the_end(mut audit: Audit<Bottom>) {
    let reply = audit.ready().await.unwrap().call(query()).await.unwrap();
    let _ = reply.collect().await;
}

#[tokio::test]
async fn a_reply_that_was_read_is_done() {
    assert_eq!(counted(ok, read_to_the_end).await, [1, 0, 0, 0]);
}

#[tokio::test]
async fn a_servers_error_is_a_refusal() {
    let refuses = |_| {
        let end = End { error: Some(1064), ..End::default() };
        Ok(Reply::new(Body::end(end)))
    };
    assert_eq!(counted(refuses, read_to_the_end).await, [0, 1, 0, 0]);
}

#[tokio::test]
async fn no_reply_at_all_is_a_failure() {
    let fails = |_| Err(Error::backend("gone"));
    let act = |mut audit: Audit<Bottom>| async move {
        audit.ready().await.unwrap().call(query()).await.unwrap_err();
    };
    assert_eq!(counted(fails, act).await, [0, 0, 1, 0]);
}

#[tokio::test]
async fn a_reply_that_nobody_read_is_abandoned() {
    let act = |mut audit: Audit<Bottom>| async move {
        drop(audit.ready().await.unwrap().call(query()).await.unwrap());
    };
    assert_eq!(counted(ok, act).await, [0, 0, 0, 1]);
}

#[tokio::test]
async fn a_command_that_nobody_waited_for_is_abandoned() {
    let act = |mut audit: Audit<Bottom>| async move {
        drop(audit.ready().await.unwrap().call(query()));
    };
    assert_eq!(counted(ok, act).await, [0, 0, 0, 1]);
}
