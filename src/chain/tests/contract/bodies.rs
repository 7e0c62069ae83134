//! Replies: their frames, and the end that everybody who asked hears of exactly once.

use chain::{
    Answer, Body, End, Error, Frame, Origin, Reply, Result, Upload, body::Ending,
    reply::ANSWER_LIMIT, testing::Log,
};
use futures_util::{FutureExt, StreamExt, stream};
use std::sync::Arc;
use tokio::sync::mpsc;
use wire::status::Status;

fn packets(bytes: &'static str) -> Result<Frame> {
    Ok(Frame::Packets(bytes.into()))
}

fn done() -> Result<Frame> {
    Ok(Frame::End(end()))
}

fn end() -> End {
    End { packet: "ok".into(), status: Some(Status::AUTOCOMMIT), ..End::default() }
}

fn arriving(frames: Vec<Result<Frame>>) -> Body {
    Body::stream(stream::iter(frames))
}

fn now<F: Future>(future: F) -> F::Output {
    future.now_or_never().expect("nothing here waits")
}

/// The frames of a body, as text.
fn frames(body: Body) -> Vec<String> {
    let show = |frame: Result<Frame>| match frame {
        Ok(Frame::Packets(run)) => String::from_utf8_lossy(&run).into_owned(),
        Ok(Frame::End(end)) => format!("end {:?}", end.error),
        Ok(Frame::Upload(_)) => "upload".to_owned(),
        Err(error) => error.to_string(),
    };
    now(StreamExt::map(body, show).collect())
}

/// The body, and a log that gets a line at each call of its `on_end`.
fn watched(body: Body) -> (Body, Log) {
    let seen = Log::default();
    let log = seen.clone();
    let body = body.on_end(move |ending| {
        log.push(match ending {
            Ending::Done(end) => format!("done {:?}", end.error),
            Ending::Failed(error) => format!("failed: {}", error.message()),
            Ending::Abandoned => "abandoned".to_owned(),
        });
    });
    (body, seen)
}

#[test]
fn a_whole_reply_is_its_packets_and_its_end() {
    assert_eq!(frames(Body::whole("rows", end())), ["rows", "end None"]);
    assert_eq!(frames(Body::whole("", end())), ["end None"], "no empty frame");
    assert_eq!(frames(Body::end(end())), ["end None"]);
}

#[test]
fn the_end_is_heard_once() {
    for body in [Body::whole("rows", end()), arriving(vec![packets("rows"), done()])] {
        let (mut body, seen) = watched(body);
        now(body.frame()).unwrap().unwrap();
        assert!(seen.take().is_empty(), "it has not ended");
        now(body.frame()).unwrap().unwrap();
        assert_eq!(seen.take(), ["done None"], "heard with the last frame, not when it is dropped");
        assert!(now(body.frame()).is_none());
        drop(body);
        assert!(seen.take().is_empty());
    }
}

#[test]
fn a_servers_error_is_an_end_and_says_which() {
    let refused = End { error: Some(1064), ..End::default() };
    let (body, seen) = watched(Body::end(refused));
    assert_eq!(frames(body), ["end Some(1064)"]);
    assert_eq!(seen.take(), ["done Some(1064)"]);
}

#[test]
fn a_reply_that_breaks_has_failed_once() {
    let broken = vec![packets("rows"), Err(Error::backend("gone")), Err(Error::backend("again"))];
    let (body, seen) = watched(arriving(broken));
    assert_eq!(frames(body), ["rows", "backend: gone", "backend: again"]);
    assert_eq!(seen.take(), ["failed: gone"]);
}

#[test]
fn a_reply_that_nobody_reads_on_is_abandoned() {
    let bodies = [Body::whole("rows", end()), arriving(vec![packets("rows"), done()])];
    for (body, read) in bodies.into_iter().zip([0, 1]) {
        let (mut body, seen) = watched(body);
        for _ in 0..read {
            now(body.frame()).unwrap().unwrap();
        }
        drop(body);
        assert_eq!(seen.take(), ["abandoned"], "after {read} frames");
    }
}

#[test]
fn a_stream_that_stops_before_its_end_is_abandoned() {
    let (body, seen) = watched(arriving(vec![packets("rows")]));
    assert_eq!(frames(body), ["rows"]);
    assert_eq!(seen.take(), ["abandoned"]);
}

#[test]
fn the_layer_below_hears_of_the_end_first() {
    let log = Log::default();
    let (below, above) = (log.clone(), log.clone());
    let body = Body::end(end()).on_end(move |_| below.push("below"));
    drop(frames(body.on_end(move |_| above.push("above"))));
    assert_eq!(log.take(), ["below", "above"]);
}

#[test]
fn every_frame_can_be_changed() {
    let mask = |frame| match frame {
        Frame::Packets(run) => Frame::Packets(vec![b'*'; run.len()].into()),
        Frame::End(end) => Frame::End(End { error: Some(1), ..end }),
        upload => upload,
    };
    let bodies = [Body::whole("secret", end()), arriving(vec![packets("secret"), done()])];
    for body in bodies {
        assert_eq!(frames(body.map(mask)), ["******", "end Some(1)"]);
    }
    let broken = arriving(vec![Err(Error::backend("gone"))]);
    assert_eq!(frames(broken.map(mask)), ["backend: gone"], "errors pass");
}

#[test]
fn what_a_reply_holds_is_dropped_at_its_end() {
    let guard = Arc::new(());
    let mut body = arriving(vec![packets("rows"), done()]).hold(guard.clone());
    now(body.frame()).unwrap().unwrap();
    assert_eq!(Arc::strong_count(&guard), 2, "rows are still coming");
    now(body.frame()).unwrap().unwrap();
    assert_eq!(Arc::strong_count(&guard), 1, "the end has passed, though the body is there");
    drop(body);

    let body = Body::whole("rows", end()).hold(guard.clone());
    assert_eq!(Arc::strong_count(&guard), 2);
    drop(body);
    assert_eq!(Arc::strong_count(&guard), 1, "abandoned");
}

#[test]
fn a_reply_is_read_up_to_a_limit() {
    let body = || arriving(vec![packets("four"), packets("more"), done()]);
    let answer = now(body().collect(8)).unwrap();
    assert_eq!(answer, Answer { packets: "fourmore".into(), end: end() });

    let (beyond, seen) = watched(body());
    let error = now(beyond.collect(7)).unwrap_err();
    assert_eq!(error.message(), "a reply of more than 7 bytes");
    assert_eq!(seen.take(), ["abandoned"], "the rest is not waited for");
}

#[test]
fn a_filters_own_question_has_an_answer_of_limited_size() {
    let reply = |bytes: usize| Reply::new(Body::whole(vec![0; bytes], end()));
    assert_eq!(now(reply(ANSWER_LIMIT).collect()).unwrap().packets.len(), ANSWER_LIMIT);
    now(reply(ANSWER_LIMIT + 1).collect()).unwrap_err();
}

#[test]
fn reading_a_reply_that_breaks_or_stops_is_an_error() {
    let error = now(arriving(vec![packets("rows"), Err(Error::backend("gone"))]).collect(9));
    assert_eq!(error.unwrap_err().message(), "gone");
    let error = now(arriving(vec![packets("rows")]).collect(9)).unwrap_err();
    assert_eq!(
        (error.origin(), error.message()),
        (Origin::Backend, "the reply stopped before its end".into())
    );
}

#[test]
fn reading_a_reply_that_asks_for_a_file_is_an_error() {
    let (data, _file) = mpsc::channel(1);
    let upload = Frame::Upload(Upload { request: "name".into(), data });
    let error = now(arriving(vec![Ok(upload), done()]).collect(9)).unwrap_err();
    assert_eq!(error.origin(), Origin::Filter);
}

#[test]
fn an_answer_is_a_reply_again() {
    let answer = Answer { packets: "rows".into(), end: end() };
    assert_eq!(now(Reply::from(answer.clone()).collect()).unwrap(), answer);
}

#[test]
fn session_state_that_was_too_much_to_keep_is_not_known() {
    assert_eq!(end().trackers(), Some(vec![]), "nothing has changed");
    assert_eq!(End { tracked: true, ..end() }.trackers(), None, "anything may have");
    let cut_short = End { tracked: true, session_state: "\x01".into(), ..end() };
    assert_eq!(cut_short.trackers(), None);
}
