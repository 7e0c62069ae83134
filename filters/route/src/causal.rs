//! Reads that see what their session has written before.
//!
//! What a session has written has a GTID. Servers tell it behind a write if they are asked to
//! (`session_track_gtids = OWN_GTID` of MySQL, `last_gtid` among MariaDB's
//! `session_track_system_variables`); else the server that was written to is asked when the session
//! reads next. A replica is asked to wait until it has applied that.
//!
//! Sources: MySQL manual, "Functions Used with Global Transaction Identifiers (GTIDs)"; MariaDB
//! manual, "MASTER_GTID_WAIT" and "Global Transaction ID".

use crate::settings::{AfterWrite, Split};
use chain::{
    Answer, Command, End, Next, Reply, Result,
    body::Ending,
    facts::{ServedBy, Target},
    wire::{
        packet::{HEADER_LEN, Header},
        row::{Value, decode_text},
        session_state::Tracker,
        status::Status,
    },
};
use smallvec::SmallVec;
use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

/// What a session has written, and who has it.
#[derive(Debug, Default)]
pub(crate) struct Causal {
    written: Written,
    /// There are more in a transaction whose end has not been seen.
    open: bool,
    /// Where and when the last write was sent.
    last: Option<(Target, Instant)>,
    /// Replicas that have applied it, by [`chain::Server::id`].
    reached: SmallVec<[u32; 4]>,
    /// The write whose reply may still be on its way.
    pending: Option<Arc<OnceLock<Seen>>>,
}

/// What is known of a session's writes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Written {
    #[default]
    Nothing,
    /// There were some; which GTIDs they have is not known.
    Something,
    /// All of them have these GTIDs.
    Gtids(Box<str>),
}

/// How a write's reply has ended.
#[derive(Debug)]
struct Seen {
    /// Nothing is committed yet.
    open: bool,
    gtids: Option<Box<str>>,
}

/// Longest list of GTIDs that is kept; beyond it the server is asked.
const LONGEST: usize = 1024;

impl Causal {
    /// Of a session that has used this server; what it has written there is not known.
    pub(crate) fn since(used: Target) -> Self {
        let (written, last) = (Written::Something, Some((used, Instant::now())));
        Self { written, last, ..Self::default() }
    }

    /// Notes that a write is sent to `target`.
    pub(crate) fn writes(&mut self, target: &Target) {
        self.settle();
        self.last = Some((target.clone(), Instant::now()));
        self.reached.clear();
    }

    /// Reads in a write's reply what it has written.
    pub(crate) fn watch(&mut self, reply: Reply) -> Reply {
        let seen: Arc<OnceLock<Seen>> = Arc::default();
        self.pending = Some(seen.clone());
        reply.map_body(|body| {
            body.on_end(move |ending| {
                if let Ending::Done(end) = ending {
                    // There is one end.
                    let _ = seen.set(Seen::of(end));
                }
            })
        })
    }

    /// Whether the session reads on the primary because it has written.
    pub(crate) fn on_primary(&self, split: &Split) -> bool {
        let fresh = |sent: &Instant| split.window.is_none_or(|window| sent.elapsed() < window);
        split.after_write == AfterWrite::Primary
            && self.last.as_ref().is_some_and(|(_, sent)| fresh(sent))
    }

    /// The server written to last, if reads must wait for what was written there.
    pub(crate) fn awaited(&mut self) -> Option<Target> {
        self.settle();
        if std::mem::take(&mut self.open) {
            self.written = Written::Something;
        }
        let (target, _) = self.last.as_ref()?;
        (self.written != Written::Nothing).then(|| target.clone())
    }

    /// Whether a replica is known to have all.
    pub(crate) fn is_at(&self, server: u32) -> bool {
        self.reached.contains(&server)
    }

    /// Notes that a replica has all.
    pub(crate) fn reached(&mut self, server: u32) {
        self.reached.push(server);
    }

    /// The GTIDs of all that was written; asks `written_to` if they are not known. `None` if they
    /// cannot be known. `shares`: its connection may be another than the one that wrote.
    pub(crate) async fn gtids(
        &mut self,
        command: &Command,
        written_to: Target,
        shares: bool,
        next: &mut Next<'_>,
    ) -> Option<Box<str>> {
        if let Written::Gtids(known) = &self.written {
            return Some(known.clone());
        }
        let gtids = position(command, written_to, shares, next).await?;
        self.written = Written::Gtids(gtids.clone());
        Some(gtids)
    }

    /// Takes in what the write before has written.
    fn settle(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let seen = pending.get();
        self.open = seen.is_some_and(|seen| seen.open);
        if self.open {
            return;
        }
        self.written = match seen.and_then(|seen| seen.gtids.as_ref()) {
            Some(new) => self.written.and(new),
            // It broke, or the server does not say.
            None => Written::Something,
        };
    }
}

impl Written {
    /// These and `new` ones, which came later.
    fn and(&self, new: &str) -> Self {
        match self {
            Self::Gtids(old) => match (domain(old), domain(new)) {
                // Of one domain's GTIDs the last one stands for all before it.
                (Some(old), Some(new_domain)) if old == new_domain => Self::Gtids(new.into()),
                (None, None) if old.len() + new.len() < LONGEST => {
                    Self::Gtids(format!("{old},{new}").into())
                }
                _ => Self::Something,
            },
            Self::Nothing => Self::Gtids(new.into()),
            Self::Something => Self::Something,
        }
    }
}

impl Seen {
    fn of(end: &End) -> Self {
        let open = end.status.is_some_and(|status| status.contains(Status::IN_TRANS));
        let mut gtids = None;
        for tracker in end.trackers().unwrap_or_default() {
            let found = match tracker {
                Tracker::Gtids(gtids) => gtids,
                Tracker::SystemVariable { name, value } if name == b"last_gtid" => value,
                _ => continue,
            };
            gtids = String::from_utf8(found).ok().filter(|gtids| is_gtids(gtids));
        }
        Self { open, gtids: gtids.map(Into::into) }
    }
}

/// Whether a text is nothing but GTIDs: it becomes part of a statement.
pub(crate) fn is_gtids(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-:,_ \n".contains(&byte);
    text.len() <= 1 << 16
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().all(fits)
}

/// Whether GTIDs are written as MySQL writes them: `uuid:number`, where MariaDB's are
/// `domain-server-number`.
fn are_of_mysql(gtids: &str) -> bool {
    gtids.contains(':')
}

/// The domain of one GTID of MariaDB's.
fn domain(gtids: &str) -> Option<&str> {
    let single = !are_of_mysql(gtids) && !gtids.contains(',');
    gtids.split_once('-').filter(|_| single).map(|(domain, _)| domain)
}

/// All that a server has committed, or on MariaDB the last that this session has.
async fn position(
    command: &Command,
    at: Target,
    shares: bool,
    next: &mut Next<'_>,
) -> Option<Box<str>> {
    const MARIADB: &str = "SELECT IF(@@last_gtid = '', @@gtid_binlog_pos, @@last_gtid)";
    // The last of a connection that is shared is some session's.
    const SHARED: &str = "SELECT @@gtid_binlog_pos";
    const MYSQL: &str = "SELECT @@GLOBAL.gtid_executed";
    let mariadb = if shares { SHARED } else { MARIADB };
    let questions = match at.server.profile.is_mariadb() {
        Some(true) => &[mariadb][..],
        Some(false) => &[MYSQL],
        None => &[mariadb, MYSQL],
    };
    for sql in questions {
        let (answer, _) = ask(command, sql, at.clone(), next).await.ok()?;
        if answer.end.error.is_none() {
            return value(&answer).filter(|gtids| is_gtids(gtids)).map(Into::into);
        }
    }
    None
}

/// Waits on a replica until it has applied these. The server that has, which may have stood in for
/// the one that was named; `None` if it has not within `limit`.
pub(crate) async fn wait(
    command: &Command,
    gtids: &str,
    limit: Duration,
    at: Target,
    next: &mut Next<'_>,
) -> Option<Target> {
    let seconds = limit.as_secs_f64();
    let sql = match (are_of_mysql(gtids), limit.is_zero()) {
        // MySQL takes 0 for no limit.
        (true, true) => format!("SELECT NOT GTID_SUBSET('{gtids}', @@GLOBAL.gtid_executed)"),
        (true, false) => format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtids}', {seconds})"),
        (false, _) => format!("SELECT MASTER_GTID_WAIT('{gtids}', {seconds})"),
    };
    let (answer, server) = ask(command, &sql, at.clone(), next).await.ok()?;
    (value(&answer)? == "0").then(|| server.unwrap_or(at))
}

/// Asks a server something of route's own; what it answers, and which has.
pub(crate) async fn ask(
    command: &Command,
    sql: &str,
    at: Target,
    next: &mut Next<'_>,
) -> Result<(Answer, Option<Target>)> {
    let question = command.aside_query("route", sql).with(at);
    let reply = next.by_ref().run(question).await?;
    let server = reply.fact::<ServedBy>().map(|served| served.0.clone());
    Ok((reply.collect().await?, server))
}

/// The first value of the only row of a result set: the last packet before its end.
fn value(answer: &Answer) -> Option<String> {
    if answer.end.error.is_some() {
        return None;
    }
    let (mut rest, mut last) = (&answer.packets[..], None);
    while let Some(header) = Header::parse(rest) {
        let end = HEADER_LEN + header.len;
        last = Some(rest.get(HEADER_LEN..end)?);
        rest = &rest[end..];
    }
    match decode_text(last?, 1).ok()?[..] {
        [Value::Bytes(value)] => String::from_utf8(value.to_vec()).ok(),
        _ => None,
    }
}
