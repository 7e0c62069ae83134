//! Reading the hints of one statement.

use crate::{
    Shared,
    form::{Form, Pairs, Quoted},
    key::{Dialect, Key, Keys},
    maxscale::{Content, Named, Order},
    value::Asked,
};
use chain::Session;
use smallvec::SmallVec;
use sql::{Comments, Span};

/// What was found in a statement's comments.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) asked: Asked,
    /// Keys of hints that count.
    pub(crate) honoured: Keys,
    /// Keys of those whose value does not fit.
    pub(crate) ignored: Keys,
    /// Keys of those that this user may not use.
    pub(crate) denied: Keys,
    /// Where the comments with hints are, those that do not count included.
    pub(crate) comments: SmallVec<[Span; 2]>,
    /// A server may see no comment where one was found.
    pub(crate) doubtful: bool,
}

/// Who reads, and for whom.
pub(crate) struct Reader<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) session: &'a Session,
    pub(crate) allowed: Keys,
    pub(crate) named: &'a mut Named,
    /// Whether `prepare`, `begin` and `end` are done: once, not with each run of a statement.
    pub(crate) orders: bool,
}

impl Reader<'_> {
    /// Reads a statement's comments.
    pub(crate) fn read(mut self, text: &[u8], mut comments: Comments<'_>) -> Found {
        let mut found = Found::default();
        for comment in comments.by_ref() {
            if self.comment(&text[comment.inner], &mut found) {
                found.comments.push(comment.span);
            }
        }
        found.doubtful = comments.is_doubtful();
        for content in self.named.begun().iter().rev() {
            self.beneath(content.clone(), &mut found);
        }
        found.asked.settle();
        found
    }

    /// Reads one comment. False if there is no hint in it.
    fn comment(&mut self, inner: &[u8], found: &mut Found) -> bool {
        match Form::of(inner) {
            Form::Maxscale(text) if self.knows(Dialect::Maxscale) => {
                self.order(text, found);
                true
            }
            Form::Sqlcommenter(text) if self.knows(Dialect::Sqlcommenter) => {
                let among = |dialect| dialect == Dialect::Sqlcommenter;
                let mut any = false;
                for (key, value) in Quoted(text) {
                    any |= self.pair(Key::of(&key, among), &value, found);
                }
                any
            }
            Form::Pairs(text, only_proxysql) => {
                let among = |dialect| {
                    let fits = match dialect {
                        Dialect::Towpath => !only_proxysql,
                        Dialect::Proxysql => true,
                        Dialect::Maxscale | Dialect::Sqlcommenter => false,
                    };
                    fits && self.shared.knows(dialect)
                };
                let pairs: SmallVec<[_; 4]> =
                    Pairs(text).map(|(key, value)| (Key::of(key, among), value)).collect();
                let mut any = false;
                for (key, value) in pairs {
                    any |= self.pair(key, value, found);
                }
                any
            }
            _ => false,
        }
    }

    fn knows(&self, dialect: Dialect) -> bool {
        self.shared.knows(dialect)
    }

    /// False if the key is none of a hint.
    fn pair(&self, key: Option<Key>, value: &[u8], found: &mut Found) -> bool {
        let Some(key) = key else { return false };
        if !self.allowed.contains(key) {
            found.denied.insert(key);
        } else if found.asked.set(key, value, self.session).is_some() {
            found.honoured.insert(key);
        } else {
            found.ignored.insert(key);
        }
        true
    }

    /// Does what stands behind the word `maxscale`.
    fn order(&mut self, text: &[u8], found: &mut Found) {
        let order = match Order::read(text, &self.session.topology) {
            Ok(order) => order,
            Err(key) => return found.ignored.insert(key),
        };
        let key = order.content().map_or(Key::Maxscale, |content| content.key());
        let lasts = !matches!(order, Order::Once(_));
        if !self.allowed.contains(key) || lasts && !self.allowed.contains(Key::Maxscale) {
            return found.denied.insert(key);
        }
        let done = match order {
            Order::Once(content) => {
                content.put(&mut found.asked.hints);
                true
            }
            _ if !self.orders => return,
            Order::Prepare(name, content) => self.named.prepare(name, content),
            Order::Begin(content) => self.named.begin(content),
            Order::BeginNamed(name) => self.named.begin_named(name),
            Order::End => self.named.end(),
        };
        if done {
            found.honoured.insert(key);
        } else {
            found.ignored.insert(Key::Maxscale);
        }
    }

    /// What was begun earlier counts where the statement itself says nothing.
    fn beneath(&self, content: Content, found: &mut Found) {
        let hints = &mut found.asked.hints;
        let free = match content.key() {
            Key::Route => hints.route.is_none() && hints.hostgroup.is_none(),
            _ => hints.max_lag.is_none(),
        };
        if free {
            content.put(hints);
        }
    }
}
