//! The walk of one command through the rules.

use crate::{
    bits::Bits,
    pattern::TooLong,
    rule::{Exit, Outcome, Rule},
    set::{Look, RuleSet, Texts},
};
use bytes::Bytes;
use chain::{
    Session,
    facts::{Explain, Statement},
};
use std::sync::Arc;

/// What one session keeps between its commands.
#[derive(Debug)]
pub(crate) struct Seat {
    /// `next_query_flagIN` of the last rule that had one.
    pub(crate) next_flag: u32,
    eligible: Option<Eligible>,
    random: fastrand::Rng,
}

/// The rules whose predicates about the session hold, and what they were asked about.
#[derive(Debug)]
struct Eligible {
    rules: Bits,
    user: Arc<str>,
    schema: Option<Bytes>,
}

/// A command, as the walk sees it.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) session: &'a Session,
    /// `None` for a command without a text.
    pub(crate) statement: Option<&'a Statement>,
    /// Whether the rules that match count it.
    pub(crate) counts: bool,
    pub(crate) explain: Option<&'a Explain>,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self { next_flag: 0, eligible: None, random: fastrand::Rng::new() }
    }

    /// The rules are others now.
    pub(crate) fn ask_anew(&mut self) {
        self.eligible = None;
    }
}

impl RuleSet {
    /// What the rules decide about a command. `None` if they have nothing to say.
    pub(crate) fn decide(&self, asked: Asked<'_>, seat: &mut Seat) -> Option<Outcome> {
        if self.is_empty() {
            return None;
        }
        let first = seat.next_flag;
        let mut outcome = self.walk(asked, first, seat)?;
        if let Some(flag) = outcome.mirror_flag {
            let copy = self.walk(asked, flag, seat).unwrap_or_default();
            let own = copy.verdict.hostgroup;
            let is_answered = copy.ok.is_some() || copy.error.is_some() || copy.too_long;
            let verdict = &mut outcome.verdict;
            let default = verdict.mirror.or(verdict.hostgroup).unwrap_or(asked.session.hostgroup);
            verdict.mirror = (!is_answered).then(|| own.unwrap_or(default));
            verdict.mirror_text = copy.text.map(Arc::from);
        }
        if let Some(flag) = outcome.next_flag {
            seat.next_flag = flag;
        }
        Some(outcome)
    }

    fn walk(&self, asked: Asked<'_>, flag: u32, seat: &mut Seat) -> Option<Outcome> {
        let Seat { eligible, random, .. } = seat;
        let mut walk = Walk {
            set: self,
            asked,
            look: self.look(),
            eligible: eligible_now(self, asked.session, eligible),
            flag,
            outcome: None,
        };
        let applied = walk.run(random);
        let (flag, mut outcome) = (walk.flag, walk.outcome);
        if !applied && let Some(hostgroup) = self.fast_routing.find(asked.session, flag) {
            outcome.get_or_insert_default().verdict.hostgroup = Some(hostgroup);
            if let Some(explain) = asked.explain {
                let what = serde_json::json!({ "fast_routing": hostgroup.0 });
                explain.note(crate::NAME, what);
            }
        }
        outcome
    }
}

/// Asks the rules about the session again only when it is in another schema, or another user's.
fn eligible_now<'a>(
    set: &RuleSet,
    session: &Session,
    eligible: &'a mut Option<Eligible>,
) -> &'a Bits {
    let is_current =
        |known: &Eligible| known.schema == session.current_schema && known.user == session.user;
    if !eligible.as_ref().is_some_and(is_current) {
        let (user, schema) = (session.user.clone(), session.current_schema.clone());
        *eligible = Some(Eligible { rules: set.eligible(session), user, schema });
    }
    &eligible.as_ref().expect("it was put there above").rules
}

struct Walk<'a> {
    set: &'a RuleSet,
    asked: Asked<'a>,
    look: Look<'a>,
    eligible: &'a Bits,
    flag: u32,
    outcome: Option<Outcome>,
}

/// A statement's digest, and its text as the rules so far have made it.
struct Now<'a> {
    statement: &'a Statement,
    rewritten: Option<&'a [u8]>,
}

impl Texts for Now<'_> {
    fn digest(&self) -> &sql::Digest {
        self.statement.digest()
    }

    fn text(&self) -> &[u8] {
        self.rewritten.unwrap_or(self.statement.text())
    }
}

impl Walk<'_> {
    /// Walks to the end; true if a rule with `apply` was it.
    fn run(&mut self, random: &mut fastrand::Rng) -> bool {
        let (mut from, mut restarts) = (0, self.set.iterations);
        while let Some(at) = self.next(from) {
            let rule = &self.set.rules[at];
            self.matched(rule);
            if let Exit::Apply = rule.exit {
                self.explain(rule, None);
                return true;
            }
            from = at + 1;
            let flag = rule.flag_out(random);
            self.explain(rule, flag);
            if let Some(flag) = flag {
                self.flag = flag;
                if restarts > 0 {
                    (from, restarts) = (0, restarts - 1);
                }
            }
        }
        false
    }

    fn next(&mut self, from: usize) -> Option<usize> {
        let rewritten = self.outcome.as_ref().and_then(|outcome| outcome.text.as_deref());
        let now = self.asked.statement.map(|statement| Now { statement, rewritten });
        self.look.next(from, self.flag, self.eligible, now.as_ref())
    }

    fn matched(&mut self, rule: &Rule) {
        let outcome = self.outcome.get_or_insert_default();
        if !outcome.verdict.rules.contains(&rule.id) {
            outcome.verdict.rules.push(rule.id);
            if self.asked.counts {
                rule.hits.add_one();
            }
        }
        rule.actions.put(outcome);
        let (Some(replacement), Some(pattern)) = (&rule.replacement, &rule.text.pattern) else {
            return;
        };
        let Some(statement) = self.asked.statement else { return };
        let now = outcome.text.as_deref().unwrap_or(statement.text());
        match replacement.apply(pattern, now) {
            Ok(text) => outcome.text = Some(text),
            Err(TooLong) => outcome.too_long = true,
        }
        self.look.forget_text();
    }

    fn explain(&self, rule: &Rule, flag_out: Option<u32>) {
        if let Some(explain) = self.asked.explain {
            explain.note(crate::NAME, rule.explained(flag_out));
        }
    }
}
