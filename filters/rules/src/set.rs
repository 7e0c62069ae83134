//! All active rules in their order, laid out so that those which cannot match cost nothing.
//!
//! ```text
//! label ──▶ its rules ─┐
//! session ─▶ eligible ─┤
//! digest's hash ───────┼─ and ─▶ the next rule that matches
//! digest's text ───────┤
//! text ────────────────┘
//! ```
//!
//! Each line is a set of bits, one for each rule. A rule is looked at when its bit is left in all of
//! them; the last three are computed when the first rule that is left needs them.

use crate::{bits::Bits, bits::Sparse, fast_routing::FastRouting, pattern::Patterns, rule::Rule};
use chain::Session;
use regex_automata::{PatternSet, util::pool::Pool};
use sql::DigestHash;
use std::{collections::HashMap, fmt};

/// The rules of one filter.
pub(crate) struct RuleSet {
    pub(crate) rules: Vec<Rule>,
    by_flag: HashMap<u32, Sparse>,
    hashes: Hashes,
    digests: Patterns,
    texts: Patterns,
    /// Rules that can match a command without a text.
    textless: Bits,
    pub(crate) fast_routing: FastRouting,
    /// How often a walk may begin again at the top.
    pub(crate) iterations: u32,
    scratch: Pool<Scratch, Box<dyn Fn() -> Scratch + Send + Sync>>,
}

/// `digest` of all rules.
#[derive(Debug)]
struct Hashes {
    by_hash: HashMap<DigestHash, Vec<usize>>,
    /// Rules that do not ask.
    without: Bits,
}

/// What is known of one command's text.
#[derive(Clone, Debug)]
pub(crate) struct Scratch {
    known: Known,
    hash: Bits,
    digest: Bits,
    text: Bits,
    found_digests: PatternSet,
    found_texts: PatternSet,
}

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    hash: bool,
    digest: bool,
    text: bool,
}

/// Where a command's text comes from.
pub(crate) trait Texts {
    /// Its digest.
    fn digest(&self) -> &sql::Digest;
    /// The text as it is now.
    fn text(&self) -> &[u8];
}

impl RuleSet {
    /// `rules` in the order of their ids.
    pub(crate) fn new(mut rules: Vec<Rule>, fast_routing: FastRouting, iterations: u32) -> Self {
        rules.sort_by_key(|rule| rule.id);
        let mut by_flag: HashMap<u32, Sparse> = HashMap::new();
        let mut by_hash: HashMap<DigestHash, Vec<usize>> = HashMap::new();
        for (at, rule) in rules.iter().enumerate() {
            by_flag.entry(rule.flag).or_default().push(at);
            if let Some(hash) = rule.text.hash {
                by_hash.entry(hash).or_default().push(at);
            }
        }
        let hashes = Hashes { by_hash, without: Bits::of(&rules, |rule| rule.text.hash.is_none()) };
        let placed = || rules.iter().enumerate();
        let digests = Patterns::new(
            rules.len(),
            placed()
                .filter_map(|(at, rule)| Some((at, rule.text.digest.as_ref()?, rule.text.negated))),
        );
        let texts = Patterns::new(
            rules.len(),
            placed().filter_map(|(at, rule)| {
                Some((at, rule.text.pattern.as_ref()?, rule.text.negated))
            }),
        );
        let empty = Scratch {
            known: Known::default(),
            hash: Bits::none(rules.len()),
            digest: Bits::none(rules.len()),
            text: Bits::none(rules.len()),
            found_digests: digests.scratch(),
            found_texts: texts.scratch(),
        };
        let make: Box<dyn Fn() -> Scratch + Send + Sync> = Box::new(move || empty.clone());
        let textless = Bits::of(&rules, |rule| rule.text.is_empty());
        let scratch = Pool::new(make);
        Self { rules, by_flag, hashes, digests, texts, textless, fast_routing, iterations, scratch }
    }

    /// Rules that are what they were keep their hits.
    pub(crate) fn hand_on_hits(older: &Self, newer: &Self) {
        for rule in &newer.rules {
            // By their ids, in that order.
            let same = older.rules.binary_search_by_key(&rule.id, |older| older.id);
            if let Ok(at) = same
                && older.rules[at].row == rule.row
            {
                rule.hits.add(older.rules[at].hits.get());
            }
        }
    }

    /// The rules whose predicates about the session hold.
    pub(crate) fn eligible(&self, session: &Session) -> Bits {
        Bits::of(&self.rules, |rule| rule.session.hold(session))
    }

    /// Whether no command can be decided about.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.fast_routing.is_empty()
    }

    /// Room for what is found out about one command.
    pub(crate) fn look(&self) -> Look<'_> {
        let mut scratch = self.scratch.get();
        scratch.known = Known::default();
        Look { set: self, scratch }
    }
}

/// What is found out about one command, as far as somebody has asked.
pub(crate) struct Look<'a> {
    set: &'a RuleSet,
    scratch:
        regex_automata::util::pool::PoolGuard<'a, Scratch, Box<dyn Fn() -> Scratch + Send + Sync>>,
}

impl Look<'_> {
    /// The first rule from place `from` on that matches with this label. `texts` is `None` for a
    /// command without a text.
    pub(crate) fn next(
        &mut self,
        from: usize,
        flag: u32,
        eligible: &Bits,
        texts: Option<&impl Texts>,
    ) -> Option<usize> {
        let set = self.set;
        let labelled = set.by_flag.get(&flag)?;
        let Some(texts) = texts else {
            return labelled.first_from(from, &[eligible, &set.textless]);
        };
        loop {
            let at = self.left(labelled, from, eligible)?;
            let (needed, scratch) = (&set.rules[at].text, &mut *self.scratch);
            let known = &mut scratch.known;
            if needed.hash.is_some() && !known.hash {
                scratch.hash.copy_from(&set.hashes.without);
                let with = set.hashes.by_hash.get(&texts.digest().hash);
                with.into_iter().flatten().for_each(|at| scratch.hash.insert(*at));
                known.hash = true;
            } else if needed.digest.is_some() && !known.digest {
                let text = texts.digest().text.as_ref();
                set.digests.find(text, &mut scratch.found_digests, &mut scratch.digest);
                known.digest = true;
            } else if needed.pattern.is_some() && !known.text {
                set.texts.find(texts.text(), &mut scratch.found_texts, &mut scratch.text);
                known.text = true;
            } else {
                return Some(at);
            }
        }
    }

    /// The text is another one.
    pub(crate) fn forget_text(&mut self) {
        self.scratch.known.text = false;
    }

    /// The first rule that is left by what is known.
    fn left(&self, labelled: &Sparse, from: usize, eligible: &Bits) -> Option<usize> {
        let Scratch { known, hash, digest, text, .. } = &*self.scratch;
        let or = |known, mask| if known { mask } else { eligible };
        let masks =
            [eligible, or(known.hash, hash), or(known.digest, digest), or(known.text, text)];
        labelled.first_from(from, &masks)
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RuleSet({} rules)", self.rules.len())
    }
}
