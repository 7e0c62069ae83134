//! One rule's checks, and the rule made of it.

use crate::{
    address::{Clients, Listener},
    pattern::{Pattern, Replacement},
    row::{Attributes, Row, WrittenAttributes},
    rule::{Actions, Exit, OfSession, OfText, Rule},
};
use chain::{
    HostgroupId,
    counters::Family,
    facts::{Caching, Multiplex},
    settings::{Mistake, Settings},
};
use std::time::Duration;

/// What was found in a row besides its rule.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) mistakes: Vec<Mistake>,
    /// Hostgroups that it names, each with the mistake that it is if there is none.
    pub(crate) hostgroups: Vec<(HostgroupId, Mistake)>,
}

/// The rule of a row, or `None` if something is wrong with it.
pub(crate) fn rule(row: Row, table: &Settings, hits: &Family, found: &mut Found) -> Option<Rule> {
    let mut check = Check { row: &row, table, found };
    let (caseless, everywhere) = check.modifiers();
    let text = check.text(caseless);
    let replacement = check.replacement(text.pattern.as_ref(), everywhere);
    let session = check.session();
    let attributes = check.attributes();
    let exit = check.exit(&attributes);
    let actions = check.actions(&attributes);
    if !found.mistakes.is_empty() {
        return None;
    }
    let hits = if row.active { hits.counter(row.rule_id.to_string()) } else { Default::default() };
    let (id, flag) = (row.rule_id, row.flag_in);
    Some(Rule { id, row, flag, session, text, replacement, exit, actions, hits })
}

/// The mistake of naming a hostgroup that is not there.
pub(crate) fn missing(table: &Settings, key: &str, HostgroupId(id): HostgroupId) -> Mistake {
    table.mistake_at(key, format!("hostgroup {id} has no server"))
}

struct Check<'a> {
    row: &'a Row,
    table: &'a Settings,
    found: &'a mut Found,
}

impl Check<'_> {
    fn refuse(&mut self, key: &str, message: impl Into<String>, hint: &str) {
        let mistake = self.table.mistake_at(key, message);
        self.found.mistakes.push(if hint.is_empty() { mistake } else { mistake.hint(hint) });
    }

    /// CASELESS and GLOBAL.
    fn modifiers(&mut self) -> (bool, bool) {
        let (mut caseless, mut everywhere) = (false, false);
        let words = self.row.re_modifiers.split(',').map(str::trim).filter(|word| !word.is_empty());
        for word in words {
            match word.to_ascii_uppercase().as_str() {
                "CASELESS" => caseless = true,
                "GLOBAL" => everywhere = true,
                _ => {
                    let hint = "CASELESS, GLOBAL, \"CASELESS,GLOBAL\" or \"\"";
                    self.refuse("re_modifiers", "this is not a modifier", hint);
                }
            }
        }
        (caseless, everywhere)
    }

    fn text(&mut self, caseless: bool) -> OfText {
        let row = self.row;
        let hash = row.digest.as_deref().and_then(|text| {
            let hash = sql::DigestHash::parse(text);
            if hash.is_none() {
                let hint = "64 bits in hexadecimal, as in \"0x1C46AE529DD5A40E\"";
                self.refuse("digest", "this is not a digest", hint);
            }
            hash
        });
        let digest = self.pattern("match_digest", row.match_digest.as_deref(), caseless);
        let pattern = self.pattern("match_pattern", row.match_pattern.as_deref(), caseless);
        let negated = row.negate_match_pattern;
        if negated && row.match_digest.is_none() && row.match_pattern.is_none() {
            let message = "negate_match_pattern without a pattern";
            self.refuse("negate_match_pattern", message, "add match_digest or match_pattern");
        }
        OfText { hash, digest, pattern, negated }
    }

    fn pattern(&mut self, key: &str, text: Option<&str>, caseless: bool) -> Option<Pattern> {
        match Pattern::new(text?, caseless) {
            Ok(pattern) => Some(pattern),
            Err(why) => {
                let hint = "the syntax is RE2's, without look-around and backreferences";
                self.refuse(key, format!("this is not a regular expression: {why}"), hint);
                None
            }
        }
    }

    fn replacement(&mut self, pattern: Option<&Pattern>, everywhere: bool) -> Option<Replacement> {
        let (key, template) = ("replace_pattern", self.row.replace_pattern.as_deref()?);
        if self.row.match_pattern.is_none() {
            let hint = "add match_pattern: what it finds is replaced";
            self.refuse(key, "replace_pattern without match_pattern", hint);
        } else if self.row.negate_match_pattern {
            let message = "with negate_match_pattern nothing is found that could be replaced";
            self.refuse(key, message, "");
        } else {
            match Replacement::read(template, pattern?, everywhere) {
                Ok(replacement) => return Some(replacement),
                Err(why) => {
                    let hint = "\\1 to \\9 are groups, \\0 is the whole match, \\\\ a backslash";
                    self.refuse(key, why, hint);
                }
            }
        }
        None
    }

    fn session(&mut self) -> OfSession {
        let row = self.row;
        let clients = row.client_addr.as_deref().map(Clients::read);
        let clients = clients.transpose().unwrap_or_else(|why| {
            let hint = "for example \"10.1.2.3\", \"10.0.0.0/8\", \"10.1.%\" or \"localhost\"";
            self.refuse("client_addr", format!("this is not an address: {why}"), hint);
            None
        });
        let listener = row.proxy_addr.as_deref().map(Listener::read);
        let listener = listener.transpose().unwrap_or_else(|why| {
            let hint = "for example \"127.0.0.1\"; the port has a column of its own, proxy_port";
            self.refuse("proxy_addr", format!("this is not an address: {why}"), hint);
            None
        });
        OfSession {
            user: row.username.clone(),
            schema: row.schemaname.clone(),
            clients,
            listener,
            port: row.proxy_port,
        }
    }

    fn attributes(&mut self) -> Attributes {
        match &self.row.attributes {
            None => Attributes::default(),
            Some(WrittenAttributes::Table(attributes)) => attributes.clone(),
            Some(WrittenAttributes::Json(text)) => {
                serde_json::from_str(text).unwrap_or_else(|why| {
                    let why = why.to_string();
                    // serde quotes values in some of its messages.
                    let shown = self.table.may_quote("attributes");
                    let why = if shown { &why } else { "it does not fit" };
                    let hint = "for example '{\"switch_to_fast_forward\": true}', or a table";
                    self.refuse("attributes", format!("wrong JSON: {why}"), hint);
                    Attributes::default()
                })
            }
        }
    }

    fn exit(&mut self, attributes: &Attributes) -> Exit {
        let row = self.row;
        let flags: Vec<_> =
            attributes.flag_outs.iter().map(|flag| (flag.id, flag.weight)).collect();
        let can_choose = flags.iter().any(|(_, weight)| *weight > 0);
        if !flags.is_empty() && !can_choose {
            self.refuse("attributes", "flagOUTs: all weights are 0", "give one of them 1 or more");
        }
        if !flags.is_empty() && row.flag_out.is_some() {
            let hint = "remove one of the two";
            self.refuse("flagOUT", "flagOUT beside flagOUTs in the attributes", hint);
        }
        match (row.apply, row.flag_out) {
            (true, _) => Exit::Apply,
            (false, _) if can_choose => Exit::Weighted(flags),
            (false, Some(flag)) => Exit::Flag(flag),
            (false, None) => Exit::On,
        }
    }

    fn actions(&mut self, attributes: &Attributes) -> Actions {
        let row = self.row;
        let milliseconds = |ms: Option<u32>| ms.map(|ms| Duration::from_millis(ms.into()));
        let cache = milliseconds(row.cache_ttl)
            .map(|ttl| Caching { ttl, empty: row.cache_empty_result.unwrap_or(true) });
        let multiplex = row.multiplex.map(|value| match value {
            0 => Multiplex::Pin,
            1 => Multiplex::Allow,
            _ => Multiplex::IgnoreUserVariables,
        });
        Actions {
            hostgroup: self.hostgroup("destination_hostgroup", row.destination_hostgroup),
            cache,
            timeout: milliseconds(row.timeout),
            retries: row.retries,
            delay: milliseconds(row.delay),
            next_flag: row.next_query_flag_in,
            mirror: self.hostgroup("mirror_hostgroup", row.mirror_hostgroup),
            mirror_flag: row.mirror_flag_out,
            error: row.error_msg.as_deref().map(Into::into),
            ok: row.ok_msg.as_deref().map(Into::into),
            sticky: row.sticky_conn,
            multiplex,
            gtid_from: self.hostgroup("gtid_from_hostgroup", row.gtid_from_hostgroup),
            log: row.log,
            switch: attributes.switch_to_fast_forward == Some(true),
        }
    }

    fn hostgroup(&mut self, key: &str, id: Option<u32>) -> Option<HostgroupId> {
        let id = HostgroupId(id?);
        self.found.hostgroups.push((id, missing(self.table, key, id)));
        Some(id)
    }
}
