//! What becomes of commands that are noted, without any connection.

use super::*;
use chain::testing;

use wire::{
    login::LoginRequest,
    observe::{Event, Observer},
    packet::Message,
    status::Status,
};

/// A session that is observed, and what it notes.
struct Bed {
    observer: Observer<Instant>,
    noting: Box<Noting>,
    digests: Arc<Digests>,
    inbox: Option<Inbox>,
    unnoted: u32,
}

impl Bed {
    fn new() -> Self {
        let (notes, inbox) = Notes::new();
        let digests = Digests::of(1000).expect("there is room");
        let readers = Readers { digests: Some(digests.clone()), tracing: None };
        let session = testing::session();
        let noting = Noting::of(&notes, readers, &session, None, None).expect("it is wanted");
        let observer = Observer::new(session.capabilities).keeping_texts(TEXT);
        Self { observer, noting, digests, inbox: Some(inbox), unnoted: 0 }
    }

    fn note(&mut self, event: Event<Instant>) {
        let noted = match event {
            Event::Answered(asked, answer) => self.noting.note(asked, Some(answer), Instant::now()),
            _ => true,
        };
        self.unnoted += u32::from(!noted);
    }

    /// A command that is answered with OK and this status, or with an error.
    fn runs(&mut self, payload: &[u8], status: Option<Status>) {
        self.asks(payload);
        self.hears(status);
    }

    fn asks(&mut self, payload: &[u8]) {
        let command = Message::new(0, payload).framed;
        self.observer.client(&command, Instant::now(), |event| {
            assert!(matches!(event, Event::Asked(_)));
        });
    }

    fn hears(&mut self, status: Option<Status>) {
        let reply = match status {
            Some(status) => {
                let [low, high] = status.0.to_le_bytes();
                vec![0, 0, 0, low, high, 0, 0]
            }
            None => b"\xFF\x28\x04#42000it is wrong".to_vec(),
        };
        let (reply, mut events) = (Message::new(1, &reply).framed, Vec::new());
        self.observer.server(&reply, Instant::now(), |event| events.push(event));
        events.into_iter().for_each(|event| self.note(event));
    }

    /// All that the table has: user, text, calls and errors.
    async fn table(&mut self) -> Vec<(String, u64, u64)> {
        let stop = CancellationToken::new();
        stop.cancel();
        self.inbox.take().expect("it is asked once").run(stop).await;
        let all = self.digests.all().into_iter();
        let mut all: Vec<_> = all
            .map(|one| {
                let text = serde_json::to_value(&one).expect("it is a report");
                let (user, text) = (&text["user"], &text["text"]);
                let name = format!("{}: {}", user.as_str().unwrap_or_default(), text);
                (name, one.calls, one.errors)
            })
            .collect();
        all.sort();
        all
    }
}

fn row(text: &str, calls: u64, errors: u64) -> (String, u64, u64) {
    (text.to_owned(), calls, errors)
}

#[tokio::test]
async fn whose_a_statement_is_and_how_it_is_read() {
    let mut bed = Bed::new();
    let fine = Some(Status::AUTOCOMMIT);
    bed.runs(b"\x03SELECT 'a\\', 1", fine);
    bed.runs(b"\x03SET sql_mode = x", Some(Status::NO_BACKSLASH_ESCAPES));
    bed.runs(b"\x03SELECT 'a\\', 1", fine);
    bed.runs(b"\x0E", fine);
    let capabilities = testing::session().capabilities;
    let change = |user: &[u8]| {
        let mut payload = bytes::BytesMut::new();
        let change = ChangeUser {
            user: user.to_vec(),
            auth_response: LoginRequest::default().auth_response,
            schema: b"shop".to_vec(),
            collation: 28,
            plugin: None,
            attributes: Default::default(),
        };
        change.encode(&mut payload, capabilities);
        payload
    };
    bed.runs(&change(b"refused"), None);
    bed.runs(b"\x03SELECT 1, 2", None);
    bed.runs(&change(b"other"), fine);
    // In GBK, a quote behind this byte is the second half of a character.
    bed.runs(b"\x03SELECT '\xBF\\', 1", fine);
    assert_eq!(bed.noting.session.current_schema.as_deref(), Some(&b"shop"[..]));
    bed.runs(b"\x02one", fine);
    assert_eq!(bed.noting.session.current_schema.as_deref(), Some(&b"one"[..]));
    bed.runs(b"\x03USE two", fine);
    bed.runs(b"\x03USE three", None);
    assert_eq!(bed.noting.session.current_schema.as_deref(), Some(&b"two"[..]));
    let before = testing::session().user.to_string();
    let mut expected = vec![
        row(&format!("{before}: \"SELECT ?\""), 1, 0),
        row(&format!("{before}: \"SELECT ?,?\""), 2, 1),
        row(&format!("{before}: \"SET sql_mode = x\""), 1, 0),
        row("other: \"SELECT ?,?\"", 1, 0),
        row("other: \"USE three\"", 1, 1),
        row("other: \"USE two\"", 1, 0),
    ];
    expected.sort();
    assert_eq!(bed.table().await, expected);
    assert_eq!(bed.unnoted, 0);
}

#[tokio::test]
async fn what_finds_no_room_is_not_waited_for() {
    let mut bed = Bed::new();
    for _ in 0..ROOM + 7 {
        bed.runs(b"\x03DO 1", Some(Status::AUTOCOMMIT));
        bed.runs(b"\x0E", Some(Status::AUTOCOMMIT));
    }
    assert_eq!(bed.unnoted, 7);
    let calls = bed.table().await;
    assert_eq!(calls.iter().map(|(_, calls, _)| *calls).sum::<u64>(), ROOM as u64);
    // Nobody takes them any more.
    bed.runs(b"\x03DO 1", Some(Status::AUTOCOMMIT));
    assert_eq!(bed.unnoted, 8);
}

#[tokio::test]
async fn without_the_name_of_its_user_nothing_is_noted_of_a_session() {
    let mut bed = Bed::new();
    // So much waits that its name is not kept.
    for len in [TEXT, TEXT, TEXT, TEXT - 300] {
        bed.asks(&[&b"\x03DO 1 /* "[..], &vec![b'x'; len]].concat()[..len]);
    }
    bed.asks(&[&b"\x11other\0"[..], &[b'x'; 200]].concat());
    (0..5).for_each(|_| bed.hears(Some(Status::AUTOCOMMIT)));
    bed.runs(b"\x03SELECT 1", Some(Status::AUTOCOMMIT));
    assert_eq!(bed.unnoted, 2);
    let before = testing::session().user.to_string();
    assert_eq!(bed.table().await, [row(&format!("{before}: \"DO ?\""), 4, 0)]);
}

#[test]
fn nobody_notes_what_nobody_wants() {
    let (notes, _inbox) = Notes::new();
    let readers = Readers { digests: None, tracing: None };
    assert!(Noting::of(&notes, readers, &testing::session(), None, None).is_none());
}
