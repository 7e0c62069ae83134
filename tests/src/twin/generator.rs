//! A script for a seed.

use super::{
    script::{Script, Step},
    templates::{BLOCKS, GROUPS, NAMES, PREPARED, REPEATABLE, SEVERAL, STATE, STRINGS},
};
use crate::Vendor;
use fastrand::Rng;

/// Prepared statements that a session has at the same time.
const SLOTS: usize = 3;

/// What scripts are for.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Whose servers.
    pub vendor: Vendor,
    /// Reads go to replicas by themselves; where not, a comment says so.
    pub split: bool,
    /// Logins to choose from.
    pub logins: usize,
    /// Of these, the ones from here on may send several statements in one text.
    pub several_from: usize,
    /// Accounts to choose from.
    pub accounts: usize,
}

/// A script under way.
struct Maker {
    rng: Rng,
    plan: Plan,
    steps: Vec<Step>,
    /// Statements that have a number of their own, so far.
    numbered: usize,
    /// No commits by themselves from here on, perhaps: a read would begin a transaction where it goes.
    stays: bool,
    several: bool,
}

/// The script of this seed.
pub fn script(seed: u64, plan: Plan) -> Script {
    let mut rng = Rng::with_seed(seed);
    let login = rng.usize(..plan.logins);
    let several = login >= plan.several_from;
    let mut maker = Maker { rng, plan, steps: Vec::new(), numbered: 0, stays: false, several };
    let length = 4 + maker.rng.usize(..12);
    while maker.steps.len() < length {
        maker.more();
    }
    for _ in 0..3 {
        let text = maker.choose(STATE);
        maker.query(text);
    }
    Script { login, steps: maker.steps }
}

/// What would cut what is looked at, what ties a session to its connection, and a SET that MySQL gives
/// a variable that is NULL another collation for, as soon as it is prepared.
const UNFIT: [&str; 7] = [
    "sql_select_limit",
    "/*!99999",
    "FROM @",
    "IMMEDIATE",
    "SET STATEMENT",
    "EXECUTE q USING",
    "'SET @{v}",
];

/// So many session commands for this seed, none of which has to run on one server alone.
pub fn settings(seed: u64, vendor: Vendor, length: usize) -> Script {
    let plan = Plan { vendor, split: true, logins: 1, several_from: 1, accounts: 1 };
    let rng = Rng::with_seed(seed);
    let mut maker =
        Maker { rng, plan, steps: Vec::new(), numbered: 0, stays: false, several: false };
    while maker.steps.len() < length {
        let group = REPEATABLE[maker.rng.usize(..REPEATABLE.len())];
        let text = maker.choose(group);
        let unfit = UNFIT.iter().any(|part| text.contains(part));
        if !unfit && !text.starts_with("SELECT") {
            maker.query(text);
        }
    }
    Script { login: 0, steps: maker.steps }
}

impl Maker {
    fn more(&mut self) {
        match self.rng.u32(..100) {
            0..60 => {
                let text = self.single();
                self.query(text);
            }
            60..70 => {
                let block = BLOCKS[self.rng.usize(..BLOCKS.len())];
                block.iter().for_each(|text| self.query(text));
            }
            70..74 => {
                let mut texts = Vec::new();
                for _ in 0..2 + self.rng.usize(..3) {
                    let text = self.single();
                    texts.extend(self.fill(text));
                }
                self.steps.push(Step::Together(texts));
            }
            74..77 if self.several => {
                let text = self.choose(SEVERAL);
                self.query(text);
            }
            77..91 => self.prepared(),
            _ => {
                let step = self.command();
                self.steps.push(step);
            }
        }
    }

    /// A command that is no statement.
    fn command(&mut self) -> Step {
        match self.rng.u32(..10) {
            0..2 => Step::Schema(["twin_a", "twin_b", "nosuch"][self.rng.usize(..3)].to_owned()),
            2 | 3 => Step::Reset,
            4 => Step::User(self.rng.usize(..self.plan.accounts)),
            5 | 6 => Step::Again,
            7 => {
                self.several = self.rng.bool();
                Step::SeveralStatements(self.several)
            }
            _ => Step::Ping,
        }
    }

    /// A step or more with a prepared statement.
    fn prepared(&mut self) {
        let slot = self.rng.usize(..SLOTS);
        let values = |maker: &mut Self| {
            let value = |maker: &mut Self| {
                let values = [Some("1"), Some("3"), Some("x y"), None];
                values[maker.rng.usize(..values.len())].map(str::to_owned)
            };
            vec![value(maker), value(maker)]
        };
        let step = match self.rng.u32(..12) {
            0..5 => {
                let text = self.choose(PREPARED);
                let Some(text) = self.fill(text) else { return };
                self.steps.push(Step::Prepare(slot, text));
                if self.rng.u32(..4) == 0 {
                    return;
                }
                Step::Execute(slot, values(self))
            }
            5..8 => Step::Execute(slot, values(self)),
            8 => Step::Cursor(slot, 1 + self.rng.u32(..3)),
            9 => [Step::Fetch(slot, 2), Step::ResetStatement(slot)][self.rng.usize(..2)].clone(),
            10 => Step::LongData(slot, "long data".to_owned()),
            _ => Step::Close(slot),
        };
        self.steps.push(step);
    }

    fn single(&mut self) -> &'static str {
        let all: u32 = GROUPS.iter().map(|group| group.weight).sum();
        let mut at = self.rng.u32(..all);
        for group in GROUPS {
            if at < group.weight {
                return self.choose(group.texts);
            }
            at -= group.weight;
        }
        "DO 0"
    }

    fn choose(&mut self, texts: &'static [&'static str]) -> &'static str {
        texts[self.rng.usize(..texts.len())]
    }

    fn query(&mut self, template: &str) {
        if let Some(text) = self.fill(template) {
            self.steps.push(Step::Query(text));
        }
    }

    /// A template's text; `None` where it is the other vendor's.
    fn fill(&mut self, template: &str) -> Option<String> {
        let (of, template) = match template.split_at_checked(3) {
            Some(("my:", rest)) => (Vendor::MySql, rest),
            Some(("ma:", rest)) => (Vendor::MariaDb, rest),
            _ => (self.plan.vendor, template),
        };
        if of != self.plan.vendor {
            return None;
        }
        self.stays |= template.contains("autocommit = 0");
        let mut text = String::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}')?;
            text.push_str(before);
            let value = self.value(name);
            text.push_str(&value);
            rest = after;
        }
        Some(text + rest)
    }

    fn value(&mut self, name: &str) -> String {
        let anywhere = !self.plan.split && !self.stays && self.rng.bool();
        match name {
            "n" | "r" => {
                self.numbered += 1;
                let there = if name == "r" && anywhere { "hg=1 " } else { "" };
                format!("/* w{} {there}*/", self.numbered)
            }
            "h" => if anywhere { "/* hg=1 */ " } else { "" }.to_owned(),
            "l" => if self.plan.split || self.rng.bool() { " FOR UPDATE" } else { "" }.to_owned(),
            "i" => (1 + self.rng.u32(..5)).to_string(),
            "s" => STRINGS[self.rng.usize(..STRINGS.len())].to_owned(),
            _ => NAMES[self.rng.usize(..NAMES.len())].to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, script};
    use crate::Vendor;

    #[test]
    fn a_seed_has_one_script() {
        let vendor = Vendor::MariaDb;
        let plan = Plan { vendor, split: false, logins: 3, several_from: 2, accounts: 2 };
        for seed in 0..500 {
            let made = script(seed, plan);
            assert_eq!(made, script(seed, plan));
            assert!(made.steps.len() >= 5);
            assert!(!made.queries().chain(made.prepared()).any(|text| text.contains('{')));
            assert!(!made.mentions("my:"));
        }
    }
}
