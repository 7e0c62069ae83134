//! Sessions that go on in another chain.

use chain::{
    Chain, Command, Error, Filter, Layer, Next, Registry, Reply, Result, Stack, each_session,
    testing::{self, Client, Log, Nothing, ok},
};
use tower::{Service, ServiceExt};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
struct Word {
    word: String,
}

/// Puts its word and a count before each statement, and forgets the count with its settings.
struct Forgets(String, u32);

/// The same, and goes on counting.
struct Remembers(String, u32);

fn says(mut command: Command, word: &str, count: &mut u32) -> Command {
    *count += 1;
    command.rewrite_sql(format!("{word}{count} {}", testing::text(&command)));
    command
}

impl Filter for Forgets {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        next.run(says(command, &self.0, &mut self.1)).await
    }
}

impl Filter for Remembers {
    async fn handle(&mut self, command: Command, next: Next<'_>) -> Result<Reply> {
        next.run(says(command, &self.0, &mut self.1)).await
    }

    fn inherit(&mut self, from: &mut Self, _: bool) {
        self.1 = from.1;
    }
}

fn chain(filters: &str) -> Chain {
    let registry = Registry::default()
        .with_layer("forgets", |Word { word }| Ok(each_session(move || Forgets(word.clone(), 0))))
        .with_layer("remembers", |Word { word }| {
            Ok(each_session(move || Remembers(word.clone(), 0)))
        })
        .with_layer("first", |Word { word }| {
            let layer = each_session(move || Remembers(word.clone(), 0));
            Ok(Layer::new(layer).from_login())
        })
        .with_layer("passes", testing::passes)
        .with_layer("opaque", |_: Nothing| {
            Ok(tower::layer::layer_fn(|below: Stack| below.map_request(|command: Command| command)))
        });
    testing::chain(&format!("session = [{filters}]"), &registry).expect("is good")
}

fn run(stack: Stack, sql: &str) -> Stack {
    let mut stack = stack;
    let reply = async { stack.ready().await?.call(Command::query(testing::session(), sql)).await };
    let reply = tokio_test::block_on(reply).expect("a reply");
    drop(reply);
    stack
}

/// What the bottom sees of a session that says one thing in a chain and another in the next.
fn moves(older: &str, newer: &str) -> Vec<String> {
    let (older, newer, log) = (chain(older), chain(newer), Log::default());
    assert!(newer.may_follow(&older));
    let mut stack = run(older.session(ok(log.clone())), "a");
    tokio_test::block_on(stack.ready()).expect("it is ready");
    let moved = newer.moved(&older, &mut stack, |bottom, same| {
        assert!(same && !bottom.is::<Forgets>());
        Some(ok(log.clone()))
    });
    drop(Client::new(moved.expect("it moves")).query("b"));
    log.take()
}

#[test]
fn what_a_filter_knows_goes_along() {
    let one = "{ use = 'forgets', word = 'x' }";
    assert_eq!(moves(one, one), ["x1 a", "x2 b"]);
    assert_eq!(moves(one, "{ use = 'forgets', word = 'y' }"), ["x1 a", "y1 b"]);
    let remembers = |word| format!("{{ use = 'remembers', word = '{word}' }}");
    assert_eq!(moves(&remembers('x'), &remembers('y')), ["x1 a", "y2 b"]);
}

#[test]
fn each_filter_inherits_from_the_one_of_its_name() {
    let (one, other) = ("{ use = 'remembers', word = 'x' }", "{ use = 'forgets', word = 'f' }");
    // In another order, with another one between them, without one.
    let (before, after) = (format!("{one}, {other}"), format!("{other}, {one}"));
    assert_eq!(moves(&before, &after), ["f1 x1 a", "x2 f2 b"]);
    assert_eq!(moves(one, &format!("{other}, {one}")), ["x1 a", "x2 f1 b"]);
    assert_eq!(moves(&before, one), ["f1 x1 a", "x2 b"]);
    // Of two, the first from the first.
    let twice = format!("{one}, {one}");
    assert_eq!(moves(one, &twice), ["x1 a", "x1 x2 b"]);
    assert_eq!(moves(&twice, one), ["x1 x1 a", "x2 b"]);
}

#[test]
fn where_something_would_be_lost_nobody_moves() {
    let (known, first) = ("{ use = 'forgets', word = 'x' }", "{ use = 'first', word = 'x' }");
    let may = |older: &str, newer: &str| chain(newer).may_follow(&chain(older));
    assert!(may(known, ""));
    assert!(!may("{ use = 'opaque' }", known) && !may(known, "{ use = 'opaque' }"));
    // It is no service of its own, but nobody can tell.
    assert!(!may("{ use = 'passes' }", known));
    assert!(!may(known, first), "it has not seen how the session began");
    assert!(may(first, first) && may(first, known));
    assert!(!may(first, &format!("{first}, {first}")), "the second has not");
}

#[test]
fn a_session_whose_bottom_stays_is_as_it_was() {
    let (older, newer, log) = (chain("{ use = 'forgets', word = 'x' }"), chain(""), Log::default());
    let mut stack = run(older.session(ok(log.clone())), "a");
    tokio_test::block_on(stack.ready()).expect("it is ready");
    assert!(newer.moved(&older, &mut stack, |_, _| None).is_none());
    drop(Client::new(stack).query("b"));
    assert_eq!(log.take(), ["x1 a", "x2 b"]);
}

#[test]
fn a_session_whose_command_is_at_work_stays() {
    let (older, newer) = (chain("{ use = 'forgets', word = 'x' }"), chain(""));
    let mut stack = older.session(testing::answering(|_| Err(Error::filter("never asked"))));
    tokio_test::block_on(stack.ready()).expect("it is ready");
    let working = stack.call(Command::query(testing::session(), "a"));
    let bottom = |_: &mut dyn std::any::Any, _| Some(ok(Log::default()));
    assert!(newer.moved(&older, &mut stack, bottom).is_none());
    drop(working);
}
