//! Where statements go with read-write splitting: the table in `places/`, through the filters of the
//! shipped executable, and through variants of each statement.

use chain::{
    Chain, Command, HostgroupId, Reply, Server, Session, Topology,
    facts::{ServedBy, SessionLog, Statement, Target},
    testing::{self, Client},
    topology::Hostgroup,
};
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
};
use wire::status::Status;

/// Whose grammar: what the chain is told of its servers.
const VENDORS: [(&str, &str); 2] = [("mysql", "9.1.0"), ("mariadb", "10.11.6-MariaDB")];

#[test]
fn every_statement_goes_where_the_table_says() {
    let (mut count, mut wrong) = (0, BTreeSet::new());
    for (vendor, version) in VENDORS {
        let chain = chain(version);
        let rows = rows().filter(|row| row.vendor.is_none_or(|only| only == vendor));
        for Row { number, place, class, text, .. } in rows {
            for variant in variants(&text) {
                count += 1;
                let found = go(&chain, &variant);
                if found != (class.to_owned(), place.to_owned()) {
                    wrong.insert(format!("line {number}, {vendor}: {variant}: {found:?}"));
                }
            }
        }
    }
    let wrong: Vec<_> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(rows().count() >= 400, "only {} statements", rows().count());
}

struct Row {
    number: usize,
    place: &'static str,
    class: &'static str,
    vendor: Option<&'static str>,
    text: String,
}

fn rows() -> impl Iterator<Item = Row> {
    let mut heading = ("", "", None);
    let lines = include_str!("places/statements.txt").lines().enumerate().skip(3);
    lines.filter_map(move |(number, line)| {
        if let Some(text) = line.strip_prefix('[') {
            let (what, rest) = text.split_once(']').expect("a heading ends in ]");
            let (place, class) = what.split_once(' ').expect("a heading has a place and a class");
            heading = (place, class, rest.strip_prefix(" -- "));
            return None;
        }
        let (place, class, vendor) = heading;
        let text = line.replace("\\n", "\n");
        (!line.is_empty()).then_some(Row { number: number + 1, place, class, vendor, text })
    })
}

/// The same statement in other clothes. What a variant would make another statement of is left out:
/// comments do not nest, and a line comment swallows what follows.
fn variants(text: &str) -> Vec<String> {
    let swallows = text.contains("-- ") || text.contains('#');
    let mut variants = vec![
        text.to_owned(),
        format!(" \t\n{text}"),
        format!("/* hostgroup=1 */ {text}"),
        format!("/**/{text}"),
        format!("-- DELETE\n{text}"),
        format!("# SELECT 1\r\n{text}"),
        format!("{text} "),
        format!("{text} /* FOR UPDATE */"),
        format!("{text} -- ; DELETE FROM t"),
    ];
    if !swallows {
        variants.push(text.replace(' ', "\n\t"));
    }
    if !swallows && !text.contains("/*") {
        variants.push(text.replace(' ', " /* x */ "));
    }
    // MariaDB's `/*M!` has a capital letter.
    if !text.contains('\'') && !text.contains("/*M") {
        variants.push(text.to_uppercase());
        variants.push(text.to_lowercase());
        let letters = text.char_indices();
        let mixed =
            letters.map(
                |(at, c)| {
                    if at % 2 == 0 { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
                },
            );
        variants.push(mixed.collect());
    }
    if !text.ends_with(';') {
        variants.push(format!("{text};"));
        variants.push(format!("{text} ; "));
    }
    if !text.contains("/*") && !swallows {
        variants.push(format!("/*! {text} */"));
        variants.push(format!("/*!40100 {text} */"));
    }
    variants
}

/// The class of a statement, and where a session that has done nothing sends it.
fn go(chain: &Chain, text: &str) -> (String, String) {
    let seen: Arc<Mutex<(String, String)>> = Arc::default();
    let note = seen.clone();
    let bottom = testing::answering(move |command: Command| {
        let target = command.fact::<Target>().expect("route gives it").clone();
        let class = command.fact::<Statement>().map(|found| format!("{:?}", found.get().class));
        let logged = command.fact::<SessionLog>().is_some_and(|log| log.this.is_some());
        let place = match (&*target.server.name, logged) {
            ("primary", _) => "primary",
            (_, true) => "anywhere",
            _ => "replica",
        };
        *note.lock().expect("nobody panics") =
            (snake(&class.unwrap_or_default()), place.to_owned());
        Ok(Reply::ok(&command, Status::AUTOCOMMIT).with(ServedBy(target)))
    });
    let mut client = Client::with_session(chain.session(bottom), session());
    client.query(text).expect("the bottom answers");
    seen.lock().expect("nobody panics").clone()
}

/// `SetSession { .. }` as `set_session`.
fn snake(class: &str) -> String {
    let name = class.split(' ').next().unwrap_or_default();
    let letters = name.char_indices().flat_map(|(at, letter)| {
        let gap = (at > 0 && letter.is_uppercase()).then_some('_');
        gap.into_iter().chain(letter.to_lowercase())
    });
    letters.collect()
}

fn chain(version: &str) -> Chain {
    let text = format!(
        "session = [
           {{ use = 'parse', server = '{version}' }},
           {{ use = 'session-commands' }},
           {{ use = 'route', policy = 'read-write-split', primary = 0, replicas = 1 }},
         ]
         backend = [{{ use = 'catch-up' }}]"
    );
    testing::chain(&text, &towpath::builtin::registry()).expect("the chain is right")
}

fn session() -> Session {
    let group = |id, name: &str| Hostgroup {
        id: HostgroupId(id),
        name: None,
        servers: vec![Arc::new(Server::new(id + 1, name, 1))],
    };
    testing::session_of(Topology::new(vec![group(0, "primary"), group(1, "replica")]))
}
