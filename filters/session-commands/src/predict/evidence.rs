//! One command's reply, as it was given to the client, and as servers give it.

use super::{
    Memory, Template,
    entry::Sample,
    store::{Key, Place},
    template::{Difference, LONGEST},
};
use bytes::{Bytes, BytesMut};
use chain::{
    Answer, Frame, Reply, Server,
    counters::Counter,
    facts::{StateId, Verdict, Witness},
};
use smallvec::SmallVec;
use sql::session::Class;
use std::{
    fmt,
    num::NonZeroU64,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};
use wire::{capability::Capabilities, err::ErrPacket, packet::HEADER_LEN};

/// What is known of a session here.
#[derive(Debug)]
pub(crate) struct Me {
    pub(crate) memory: Arc<Memory>,
    pub(crate) id: AtomicU32,
    /// Its account, hashed.
    pub(crate) account: AtomicU64,
    /// All servers.
    pub(crate) servers: OnceLock<Box<[Avoiding]>>,
    /// Answers from memory that have turned out to be wrong.
    pub(crate) mismatches: AtomicU32,
}

/// One server.
#[derive(Debug)]
pub(crate) struct Avoiding {
    /// As a member of each of its hostgroups.
    pub(crate) ids: SmallVec<[u32; 2]>,
    /// Commands that it has been spared.
    pub(crate) avoided: Counter,
}

/// What a reply is to.
pub(crate) struct Subject {
    /// What it depends on, but for the server's version.
    pub(crate) base: StateId,
    pub(crate) class: Class,
    pub(crate) constant: bool,
    pub(crate) prepares: bool,
    /// An error is accepted: what the command names says it once more when it is used.
    pub(crate) may_fail: bool,
    pub(crate) stamp: u64,
    pub(crate) capabilities: Capabilities,
}

/// The reply to one command; the witness of its entry in the log. A session has many of them.
pub(crate) struct Evidence {
    me: Arc<Me>,
    pub(crate) subject: Subject,
    expected: OnceLock<Expected>,
    /// Once a server has executed it.
    executed: OnceLock<Box<Executed>>,
}

/// What servers have done with it.
#[derive(Default)]
struct Executed {
    /// Those that have been seen to execute it. Locked for one look.
    servers: Mutex<SmallVec<[u32; 4]>>,
    /// The ERR packet, without its header, that a server has given although another answer was
    /// given from memory.
    refusal: OnceLock<Box<[u8]>>,
}

/// What the client was told.
struct Expected {
    template: Arc<Template>,
    /// Of the server that has said so.
    profile: Option<NonZeroU64>,
    /// From memory.
    predicted: bool,
}

/// Errors that say nothing of the command: the statement was interrupted or timed out, the server
/// is about to end, there are too many connections.
const TRANSIENT: [u16; 10] = [1040, 1053, 1203, 1205, 1213, 1226, 1317, 1927, 1969, 3024];

impl Subject {
    /// Its key for servers of this profile: another one for each, and as secret as the base.
    pub(crate) fn key(&self, profile: Option<NonZeroU64>) -> Key {
        // Odd: no two products are the same.
        const SPREAD: u128 = 0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835;
        let StateId(base) = self.base;
        base ^ u128::from(profile.map_or(0, NonZeroU64::get)).wrapping_mul(SPREAD)
    }
}

impl Evidence {
    pub(crate) fn new(me: Arc<Me>, subject: Subject) -> Self {
        Self { me, subject, expected: OnceLock::new(), executed: OnceLock::new() }
    }

    /// Says what the client was told.
    pub(crate) fn expect(
        &self,
        template: Arc<Template>,
        profile: Option<NonZeroU64>,
        predicted: bool,
    ) {
        // It is told once.
        let _ = self.expected.set(Expected { template, profile, predicted });
    }

    /// Notes the server's reply while it passes.
    pub(crate) fn watch(self: &Arc<Self>, server: Arc<Server>, reply: Reply) -> Reply {
        let (this, mut seen) = (self.clone(), Some(BytesMut::new()));
        reply.map_body(|body| {
            body.map(move |frame| {
                match &frame {
                    Frame::Packets(run) => {
                        let room = seen.take().filter(|seen| seen.len() + run.len() <= LONGEST);
                        seen = room.map(|mut seen| {
                            seen.extend_from_slice(run);
                            seen
                        });
                    }
                    Frame::End(end) => {
                        let packets = seen.take().map(BytesMut::freeze);
                        let answer = packets.map(|packets| Answer { packets, end: end.clone() });
                        this.observe(&server, answer.as_ref());
                    }
                    Frame::Upload(_) => {}
                }
                frame
            })
        })
    }

    /// Takes in what a server has answered to the command itself; `None` if that was too long.
    fn observe(&self, server: &Server, answer: Option<&Answer>) {
        let error = answer.and_then(|answer| answer.end.error);
        if error.is_some_and(|code| TRANSIENT.contains(&code)) {
            return;
        }
        let template = answer.and_then(|answer| self.template(answer)).map(Arc::new);
        self.seen_by(server);
        let profile = server.profile.get();
        self.sample(profile, template.clone());
        if let Some(template) = template {
            self.expect(template, profile, false);
        }
    }

    fn place(&self, profile: Option<NonZeroU64>) -> Place {
        let account = self.me.account.load(Relaxed);
        Place { key: self.subject.key(profile), account, constant: self.subject.constant }
    }

    fn template(&self, answer: &Answer) -> Option<Template> {
        let Subject { prepares, capabilities, .. } = self.subject;
        let welcome = self.me.memory.store.settings().with_warnings;
        Template::of(answer, prepares, capabilities, welcome)
    }

    fn sample(&self, profile: Option<NonZeroU64>, template: Option<Arc<Template>>) {
        let (session, stamp) = (self.me.id.load(Relaxed), self.subject.stamp);
        let sample = Sample { template, session, stamp };
        let change = self.me.memory.store.observe(self.place(profile), &sample, Instant::now());
        self.me.memory.count(change);
    }

    /// Whether this server has not been seen to execute it before.
    fn seen_by(&self, server: &Server) -> bool {
        let executed = self.executed.get_or_init(Box::default);
        // A panic while locked leaves a list of whole entries.
        let mut servers = executed.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let new = !servers.contains(&server.id) && servers.len() < 64;
        if new {
            servers.push(server.id);
        }
        new
    }

    /// The error that a server has given in place of what the client was told.
    pub(crate) fn refusal(&self) -> Option<ErrPacket> {
        ErrPacket::decode(self.executed.get()?.refusal.get()?).ok()
    }

    /// What was given from memory was not so.
    pub(crate) fn was_wrong(&self) {
        if let Some(expected) = self.expected.get() {
            self.mismatch(expected, expected.profile, true);
        }
    }

    fn mismatch(&self, expected: &Expected, profile: Option<NonZeroU64>, hard: bool) {
        let (store, now) = (&self.me.memory.store, Instant::now());
        self.count_wrong(hard);
        for profile in [profile, expected.profile] {
            self.me.memory.count(store.spoil(self.place(profile), now));
        }
        if hard && expected.predicted {
            self.me.mismatches.fetch_add(1, Relaxed);
            self.verified(profile, false);
        }
    }

    fn count_wrong(&self, hard: bool) {
        let counters = &self.me.memory.counters;
        if hard {
            counters.hard.add_one()
        } else {
            counters.soft.add_one()
        }
        counters.wrong.counter(self.subject.class.as_str()).add_one();
    }

    fn verified(&self, profile: Option<NonZeroU64>, right: bool) {
        let Memory { breaker, store, counters, .. } = &*self.me.memory;
        if breaker.verified(profile, right, store.settings().trip_rate, Instant::now()) {
            counters.tripped.add_one();
            tracing::warn!("too many answers from memory were wrong: there are none for a while");
        }
    }

    /// The verdict on what a server answers to a command whose reply the client has. `new`: the first
    /// time that it does, which is the one that counts.
    fn judge(
        &self,
        expected: &Expected,
        server: &Server,
        answer: &Answer,
        new: bool,
    ) -> Option<Verdict> {
        let profile = server.profile.get();
        let Subject { prepares, may_fail, capabilities, .. } = self.subject;
        if answer.end.error.is_some_and(|code| TRANSIENT.contains(&code)) {
            return None;
        }
        if answer.end.error.is_some() {
            if expected.predicted {
                // A statement that cannot be prepared says so when it is executed.
                self.mismatch(expected, profile, !prepares && !may_fail);
                let error = answer.end.packet.get(HEADER_LEN..).unwrap_or_default();
                // The first one is as good as any.
                let _ = self.executed.get_or_init(Box::default).refusal.set(error.into());
            } else if new {
                self.sample(profile, None);
            }
            return None;
        }
        let Some(template) = self.template(answer) else {
            self.mismatch(expected, profile, false);
            return None;
        };
        let template = Arc::new(template);
        match expected.template.compare(&template, capabilities) {
            Difference::Same => {
                if new {
                    self.sample(profile, Some(template));
                }
                if expected.predicted {
                    self.verified(profile, true);
                }
                None
            }
            Difference::Ambient => None,
            // A statement with other parameters cannot be executed, which is seen without this.
            Difference::Soft | Difference::Parameters => {
                self.mismatch(expected, profile, false);
                None
            }
            Difference::Values => {
                let hard = expected.predicted && expected.profile == profile;
                self.mismatch(expected, profile, hard);
                hard.then(|| Verdict::Other(Bytes::new()))
            }
            Difference::Columns => {
                let kept =
                    Capabilities::CACHE_METADATA.0 | Capabilities::OPTIONAL_RESULTSET_METADATA.0;
                if capabilities.0 & kept != 0 && expected.predicted {
                    self.mismatch(expected, profile, true);
                    return Some(Verdict::Other(Bytes::new()));
                }
                self.count_wrong(false);
                let key = self.subject.key(profile);
                self.me.memory.store.replace(key, template, Instant::now());
                None
            }
        }
    }
}

impl Witness for Evidence {
    fn saw(&self, server: &Server, answer: &Answer) -> Option<Verdict> {
        self.me.memory.counters.replayed.add_one();
        let new = self.seen_by(server);
        self.judge(self.expected.get()?, server, answer, new)
    }
}

/// What nobody has executed by then never will be.
impl Drop for Evidence {
    fn drop(&mut self) {
        let Some(Expected { predicted, .. }) = self.expected.get() else { return };
        let counters = &self.me.memory.counters;
        if *predicted && self.executed.get().is_none() {
            counters.avoided.add_one();
        }
        let executed = self.executed.take();
        let executed =
            executed.map(|it| it.servers.into_inner().unwrap_or_else(PoisonError::into_inner));
        let executed = executed.unwrap_or_default();
        for server in self.me.servers.get().into_iter().flatten() {
            if !server.ids.iter().any(|id| executed.contains(id)) {
                server.avoided.add_one();
            }
        }
    }
}

/// Neither keys nor replies are shown.
impl fmt::Debug for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Evidence")
    }
}
