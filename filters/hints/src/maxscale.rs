//! MaxScale's hints, with its named ones and their stack.
//!
//! MaxScale documentation, "Hintfilter": "Hint Syntax", "Hint stack".

use crate::{form::first_word, key::Key, value::named};
use chain::{
    Topology,
    facts::{Hints, RouteTo},
};
use std::time::Duration;

/// The most hints that a session may have prepared, and the most that it may have begun.
const MOST: usize = 64;

/// What a hint says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Route(RouteTo),
    MaxLag(Duration),
}

/// What stands behind the word `maxscale`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order<'a> {
    /// For this statement.
    Once(Content),
    /// Keeps it under a name.
    Prepare(&'a [u8], Content),
    /// From here on.
    Begin(Content),
    /// From here on, what is kept under a name.
    BeginNamed(&'a [u8]),
    /// No more what was begun last.
    End,
}

/// The named hints of one session.
#[derive(Debug, Default)]
pub(crate) struct Named {
    prepared: Vec<(Box<[u8]>, Content)>,
    /// Those that are in effect; the last one wins.
    begun: Vec<Content>,
}

impl Content {
    /// What it is a value of.
    pub(crate) fn key(&self) -> Key {
        match self {
            Self::Route(_) => Key::Route,
            Self::MaxLag(_) => Key::MaxSlaveReplicationLag,
        }
    }

    /// Puts it in place of what was said before.
    pub(crate) fn put(self, hints: &mut Hints) {
        match self {
            Self::Route(to) => hints.route = Some(to),
            Self::MaxLag(lag) => hints.max_lag = Some(lag),
        }
    }

    /// `route to master`, `route to server NAME`, `max_slave_replication_lag=N` (in seconds). What
    /// is wrong is told by its key.
    fn read(text: &[u8], topology: &Topology) -> Result<Self, Key> {
        let (first, rest) = first_word(text);
        if first.eq_ignore_ascii_case(b"route") {
            return route(rest, topology).map(Self::Route).ok_or(Key::Route);
        }
        let (key, value) = halves(text).ok_or(Key::Maxscale)?;
        let lag = Key::MaxSlaveReplicationLag;
        if !key.eq_ignore_ascii_case(lag.name().as_bytes()) {
            return Err(Key::Maxscale);
        }
        let seconds = std::str::from_utf8(value).ok().filter(|text| !text.starts_with('+'));
        let seconds = seconds.and_then(|text| text.parse::<u32>().ok()).ok_or(lag)?;
        Ok(Self::MaxLag(Duration::from_secs(seconds.into())))
    }
}

/// What stands before and behind a `=`.
fn halves(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = text.iter().position(|byte| *byte == b'=')?;
    Some((text[..at].trim_ascii(), text[at + 1..].trim_ascii()))
}

/// Behind `route`.
fn route(text: &[u8], topology: &Topology) -> Option<RouteTo> {
    let (to, rest) = first_word(text);
    let (whom, rest) = first_word(rest);
    if !to.eq_ignore_ascii_case(b"to") {
        return None;
    }
    match (whom.to_ascii_lowercase().as_slice(), rest) {
        (b"master", b"") => Some(RouteTo::Primary),
        (b"slave", b"") => Some(RouteTo::Replica),
        (b"last", b"") => Some(RouteTo::Last),
        (b"server", name) => named(name, topology),
        _ => None,
    }
}

impl<'a> Order<'a> {
    /// Reads what stands behind the word `maxscale`. What is wrong is told by its key.
    pub(crate) fn read(text: &'a [u8], topology: &Topology) -> Result<Self, Key> {
        let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
        let (first, rest) = first_word(text);
        let (second, content) = first_word(rest);
        if is(first, "end") && rest.is_empty() {
            Ok(Self::End)
        } else if is(first, "begin") {
            Content::read(rest, topology).map(Self::Begin)
        } else if is(second, "prepare") {
            Content::read(content, topology).map(|content| Self::Prepare(first, content))
        } else if is(second, "begin") && content.is_empty() {
            Ok(Self::BeginNamed(first))
        } else if is(second, "begin") {
            Content::read(content, topology).map(Self::Begin)
        } else {
            Content::read(text, topology).map(Self::Once)
        }
    }

    /// What the hint says, where it says so itself.
    pub(crate) fn content(&self) -> Option<&Content> {
        match self {
            Self::Once(content) | Self::Prepare(_, content) | Self::Begin(content) => Some(content),
            Self::BeginNamed(_) | Self::End => None,
        }
    }
}

impl Named {
    /// Keeps a hint under a name, in place of one that has it already. False if there are too many.
    #[must_use]
    pub(crate) fn prepare(&mut self, name: &[u8], content: Content) -> bool {
        let known = self.prepared.iter().position(|(known, _)| known.eq_ignore_ascii_case(name));
        match known {
            Some(at) => self.prepared[at].1 = content,
            None if self.prepared.len() < MOST => self.prepared.push((name.into(), content)),
            None => return false,
        }
        true
    }

    /// False if there are too many.
    #[must_use]
    pub(crate) fn begin(&mut self, content: Content) -> bool {
        let fits = self.begun.len() < MOST;
        if fits {
            self.begun.push(content);
        }
        fits
    }

    /// False if there is none of this name, or there are too many.
    #[must_use]
    pub(crate) fn begin_named(&mut self, name: &[u8]) -> bool {
        let kept = self.prepared.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        kept.map(|(_, content)| content.clone()).is_some_and(|content| self.begin(content))
    }

    /// False if nothing has been begun.
    #[must_use]
    pub(crate) fn end(&mut self) -> bool {
        self.begun.pop().is_some()
    }

    /// Those that are in effect; the last one wins.
    pub(crate) fn begun(&self) -> &[Content] {
        &self.begun
    }
}
