//! A filter as one async method.

use chain::{
    Answer, Body, Command, Error, Filter, Next, Outcome, Reply, Result, Stack,
    command::Asker,
    each_session,
    registry::IntoLayer,
    testing::{self, Client, Log, answering, ok, session},
};
use std::{
    future::{pending, poll_fn},
    task::Poll,
};
use tokio_test::{assert_pending, assert_ready, task};
use tower::{Layer, Service, ServiceExt, service_fn};

fn query(sql: &str) -> Command {
    Command::query(session(), sql)
}

fn wrap<F: Filter>(make: impl Fn() -> F + Clone + Send + Sync + 'static, bottom: Stack) -> Stack {
    each_session(make).into_layer().layer(bottom)
}

/// Numbers the statements of a session.
#[derive(Default)]
struct Number(u32);

impl Filter for Number {
    async fn handle(&mut self, mut command: Command, next: Next<'_>) -> Result<Reply> {
        self.0 += 1;
        command.rewrite_sql(format!("{} {}", self.0, testing::text(&command)));
        next.run(command).await
    }
}

#[test]
fn each_session_has_a_filter_of_its_own() {
    let (log, layer) = (Log::default(), each_session(Number::default).into_layer());
    let mut one = Client::new(layer.layer(ok(log.clone())));
    let mut two = Client::new(layer.layer(ok(log.clone())));
    for client in [&mut one, &mut two] {
        client.query("a").unwrap();
        client.query("b").unwrap();
    }
    assert_eq!(log.take(), ["1 a", "2 b", "1 a", "2 b"]);
}

/// Answers without the rest of the chain.
struct Alone;

impl Filter for Alone {
    async fn handle(&mut self, command: Command, _: Next<'_>) -> Result<Reply> {
        Ok(Reply::ok(&command, command.session().status()))
    }
}

#[test]
fn a_filter_may_answer_alone() {
    let log = Log::default();
    let answer = Client::new(wrap(|| Alone, ok(log.clone()))).query("SELECT 1").unwrap();
    assert!(log.take().is_empty());
    assert_eq!(answer.end.status, Some(session().status()));
    assert_eq!(answer.end.packet[3..5], [1, 0], "an OK packet behind a command of one packet");
}

/// Asks two things of its own before it sends the command on.
struct Asks;

impl Filter for Asks {
    async fn handle(&mut self, command: Command, mut next: Next<'_>) -> Result<Reply> {
        for sql in ["SET a = 1", "SET b = 2"] {
            let question = Command::query(command.session().clone(), sql);
            let question = question.asked_by(Asker::Filter("asks"));
            let Answer { packets, .. } = next.ask(question).await?;
            assert_eq!(packets, "rows", "read to its end before the next one goes out");
        }
        next.run(command).await
    }
}

#[test]
fn a_filter_asks_questions_of_its_own() {
    let seen = Log::default();
    let log = seen.clone();
    let bottom = answering(move |command| {
        log.push(format!("{:?}: {}", command.asker(), testing::text(&command)));
        Ok(Reply::new(Body::whole("rows", chain::End::default())))
    });
    Client::new(wrap(|| Asks, bottom)).query("SELECT 1").unwrap();
    let asks = format!("{:?}", Asker::Filter("asks"));
    let asked =
        [format!("{asks}: SET a = 1"), format!("{asks}: SET b = 2"), "Client: SELECT 1".into()];
    assert_eq!(seen.take(), asked);
}

/// Tries once more after an error.
struct Again;

impl Filter for Again {
    async fn handle(&mut self, command: Command, mut next: Next<'_>) -> Result<Reply> {
        let again = Command::query(command.session().clone(), testing::text(&command));
        match next.by_ref().run(command).await {
            Err(_) => next.run(again).await,
            reply => reply,
        }
    }
}

#[test]
fn a_filter_may_try_again_after_an_error() {
    let log = Log::default();
    let (seen, mut failures) = (log.clone(), 1);
    let mut client = Client::new(wrap(
        || Again,
        answering(move |command| {
            seen.push(testing::text(&command));
            failures -= 1;
            match failures {
                0 => Err(Error::backend("the first one fails")),
                _ => Ok(Reply::new(Body::end(chain::End::default()))),
            }
        }),
    ));
    client.query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["SELECT 1", "SELECT 1"]);
}

#[test]
fn an_error_below_reaches_the_client_as_it_is() {
    let bottom = answering(|_| Err(Error::backend("gone").with_code(9001, *b"08S01")));
    let error = Client::new(wrap(Number::default, bottom)).query("SELECT 1").unwrap_err();
    assert_eq!((error.code(), error.message()), (9001, "gone".into()));
}

#[test]
fn a_command_that_is_dropped_brings_the_filter_home() {
    let log = Log::default();
    let seen = log.clone();
    let bottom = service_fn(move |command: Command| {
        let text = testing::text(&command);
        seen.push(text.clone());
        async move {
            match text.contains("SLEEP") {
                true => pending().await,
                false => Ok(Reply::new(Body::end(chain::End::default()))),
            }
        }
    });
    let mut stack = wrap(Number::default, Stack::new(bottom));
    assert_ready!(task::spawn(stack.ready()).poll()).unwrap();
    let mut sleeping = task::spawn(stack.call(query("SLEEP")));
    assert_pending!(sleeping.poll());
    assert_pending!(task::spawn(stack.ready()).poll(), "its state is away");
    drop(sleeping);
    Client::new(stack).query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["1 SLEEP", "2 SELECT 1"], "and with it what it had counted");
}

#[test]
fn a_command_that_is_never_polled_costs_nothing() {
    let log = Log::default();
    let mut stack = wrap(Number::default, ok(log.clone()));
    assert_ready!(task::spawn(stack.ready()).poll()).unwrap();
    drop(stack.call(query("never sent")));
    Client::new(stack).query("SELECT 1").unwrap();
    assert_eq!(log.take(), ["1 SELECT 1"]);
}

#[test]
fn what_is_below_decides_whether_the_filter_is_ready() {
    let mut stack = wrap(Number::default, super::readiness::beyond_use());
    let error = assert_ready!(task::spawn(stack.ready()).poll()).map(drop).unwrap_err();
    assert_eq!(error.message(), "beyond use");
}

#[test]
fn the_reply_may_stream_when_the_filter_has_returned() {
    let bottom = answering(|_| {
        let never = futures_util::stream::poll_fn(|_| Poll::Pending);
        Ok(Reply::new(Body::stream(never)))
    });
    let mut stack = wrap(Number::default, bottom);
    assert_ready!(task::spawn(stack.ready()).poll()).unwrap();
    let reply = assert_ready!(task::spawn(stack.call(query("rows"))).poll()).unwrap();
    let Outcome::Body(mut body) = reply.into_outcome() else { panic!("a body was sent") };
    assert_pending!(task::spawn(body.frame()).poll());
    let ready = poll_fn(|cx| stack.poll_ready(cx));
    assert_ready!(task::spawn(ready).poll()).unwrap();
}
