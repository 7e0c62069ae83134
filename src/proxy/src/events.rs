//! The log of events: a line of JSON for each command, in a file that does not grow for ever.
//!
//! ```text
//! a command that is over ──▶ a line ──▶ at most 8192 lines wait ──▶ a thread ──▶ FILE
//!                                        (one more is lost, and counted)          ├─▶ FILE.1, FILE.2, ...
//! ```

mod file;

use crate::{
    config::{EventText, Events, EventsOf},
    session::watch::Seen,
};
use file::Rotating;
use serde::Serialize;
use sql::Verb;
use std::{
    borrow::Cow,
    io,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
    time::{SystemTime, UNIX_EPOCH},
};

/// Where lines go.
pub(crate) struct EventLog {
    of: EventsOf,
    text: EventText,
    lines: Option<SyncSender<Vec<u8>>>,
    lost: Arc<AtomicU64>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// One line.
#[derive(Serialize)]
struct Event<'a> {
    /// Seconds since 1970, at the end of the reply.
    unix_time: f64,
    /// `done`, or `abandoned`.
    outcome: &'static str,
    session: u32,
    user: &'a str,
    client: String,
    schema: Option<Cow<'a, str>>,
    command: &'static str,
    digest: Option<String>,
    digest_text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    /// The rules that have matched, where one of them wanted the line.
    rules: &'a [u32],
    hostgroup: Option<u32>,
    server: Option<&'a str>,
    microseconds: u64,
    bytes: Option<u64>,
    error: Option<u16>,
}

/// Lines that wait for the disk.
const WAITING: usize = 8192;

/// How much of a statement's text a line has, in bytes.
const TEXT: usize = 16 << 10;

impl EventLog {
    /// Opens the file, if there is to be one.
    ///
    /// # Errors
    ///
    /// Its name, and why it cannot be written.
    pub(crate) fn open(events: &Events) -> Result<Option<Arc<Self>>, (String, io::Error)> {
        let Some(path) = &events.file else { return Ok(None) };
        let failed = |error| (path.display().to_string(), error);
        let file = Rotating::open(path, events.max_size, events.keep).map_err(failed)?;
        let (lines, waiting) = sync_channel(WAITING);
        let lost = Arc::<AtomicU64>::default();
        let writer = std::thread::Builder::new().name("events".to_owned());
        let counted = lost.clone();
        let writer = writer.spawn(move || write(file, &waiting, &counted)).map_err(failed)?;
        let (of, text, writer) = (events.commands, events.statement, Mutex::new(Some(writer)));
        Ok(Some(Arc::new(Self { of, text, lines: Some(lines), lost, writer })))
    }

    /// Notes a command that is over, if it is one of those that are to be noted.
    pub(crate) fn saw(&self, seen: &Seen<'_>) {
        if self.of == EventsOf::Rules && seen.logged.is_none() {
            return;
        }
        let (Ok(mut line), Some(lines)) = (serde_json::to_vec(&self.event(seen)), &self.lines)
        else {
            return;
        };
        line.push(b'\n');
        if lines.try_send(line).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    fn event<'a>(&self, seen: &'a Seen<'_>) -> Event<'a> {
        let digest = seen.digest();
        let schema = seen.session.current_schema.as_deref();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Event {
            unix_time: (now.as_secs_f64() * 1e6).round() / 1e6,
            outcome: seen.outcome(),
            session: seen.session.id,
            user: &seen.session.user,
            client: seen.session.peer.to_string(),
            schema: schema.map(String::from_utf8_lossy),
            command: seen.code.name(),
            digest: digest.map(|digest| digest.hash.to_string()),
            digest_text: digest.map(|digest| String::from_utf8_lossy(&digest.text)),
            text: if self.text == EventText::Text { text(seen) } else { None },
            rules: seen.logged.map_or(&[], |logged| &logged.rules),
            hostgroup: seen.target.map(|target| target.hostgroup.0),
            server: seen.target.map(|target| &*target.server.name),
            microseconds: seen.microseconds(),
            bytes: seen.ended.map(|ended| ended.bytes),
            error: seen.ended.and_then(|ended| ended.error),
        }
    }
}

/// A statement's text, of the kinds that have no password in them by their grammar.
fn text<'a>(seen: &'a Seen<'_>) -> Option<Cow<'a, str>> {
    let statement = seen.statement()?;
    let harmless = matches!(
        statement.get().verb,
        Verb::Select
            | Verb::Insert
            | Verb::Update
            | Verb::Delete
            | Verb::Replace
            | Verb::With
            | Verb::Call
            | Verb::Begin
            | Verb::Commit
            | Verb::Rollback
            | Verb::Use
    );
    let text = statement.text();
    // Several statements in one text, and what stands in executable comments.
    let lower = text.to_ascii_lowercase();
    let told = |word: &[u8]| memchr::memmem::find(&lower, word).is_some();
    let harmless = harmless && !told(b"password") && !told(b"identified");
    harmless.then(|| String::from_utf8_lossy(&text[..text.len().min(TEXT)]))
}

/// Writes until nobody is there who could send more.
fn write(mut file: Rotating, waiting: &Receiver<Vec<u8>>, lost: &AtomicU64) {
    let mut failing = false;
    while let Ok(line) = waiting.recv() {
        let missing = lost.swap(0, Relaxed);
        let note = format!("{{\"outcome\":\"lost\",\"lines\":{missing}}}\n");
        let note = if missing > 0 { note.as_bytes() } else { &[] };
        let more = waiting.try_iter().take(256);
        let mut lines = std::iter::once(line).chain(more);
        let written = file.append(note).and_then(|()| {
            lines.try_for_each(|line| file.append(&line))?;
            file.flush()
        });
        if let Err(error) = &written
            && !failing
        {
            tracing::error!(%error, "the log of events cannot be written");
        }
        failing = written.is_err();
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        // The writer ends when it has written what waits.
        self.lines = None;
        let writer = self.writer.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // It panics nowhere, and nobody would be told.
            let _ = writer.join();
        }
    }
}
