//! What is left of a session's log does to a new connection what all of the session's commands do.

use crate::modes;
use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Vendor,
    twin::{Bed, generator},
};
use std::collections::BTreeMap;

on_both_vendors!(a_compacted_log_does_the_same);

/// Sessions that are tried.
const SESSIONS: u64 = 40;

/// Variables that say which connection it is, or what it has done.
const OWN: &[&str] = &[
    "error_count",
    "gtid_",
    "identity",
    "in_transaction",
    "insert_id",
    "last_gtid",
    "last_insert_id",
    "proxy_user",
    "pseudo_thread_id",
    "rand_seed",
    "skip_parallel_replication",
    "statement_id",
    "timestamp",
    "warning_count",
];

/// Each variable of the session with its value.
fn variables(client: &mut Client) -> Result<BTreeMap<String, String>> {
    let rows = client.rows("SHOW /* hg=1 */ SESSION VARIABLES")?;
    let pair = |row: Vec<Option<String>>| {
        let mut cells = row.into_iter().map(Option::unwrap_or_default);
        Some((cells.next()?, cells.next()?))
    };
    let found: BTreeMap<_, _> = rows.into_iter().filter_map(pair).collect();
    ensure!(found.len() > 100, "only {} variables", found.len());
    Ok(found)
}

/// What else there is to see. What cannot be is an error, and the same one on both.
const LOOKS: [&str; 6] = [
    "SELECT /* hg=1 */ DATABASE(), CURRENT_ROLE()",
    "SELECT /* hg=1 */ @a, @b, @c, @d, @e, @old_mode",
    "SELECT /* hg=1 */ CHARSET(@a), COLLATION(@b), CHARSET(@c), HEX(@d), HEX(@e)",
    "EXECUTE /* hg=1 */ p",
    "EXECUTE /* hg=1 */ p USING @a",
    "SELECT /* hg=1 */ COUNT(*) FROM fixed",
];

fn a_compacted_log_does_the_same(vendor: Vendor) -> Result<()> {
    let bed = Bed::start(vendor)?;
    let mut behind = bed.servers.cluster.clone();
    behind.addresses.truncate(2);
    let proxy =
        e2e::Setup::of(&behind).user("twin_1", "one").append(&modes::by_comment("")).start()?;
    let replica = &behind.addresses[1];
    let mut compared = 0;
    for seed in 0..SESSIONS {
        let script = generator::settings(seed, vendor, 10 + 3 * (seed as usize % 25));
        let mut direct = Client::connect(replica, &bed.logins[0])?;
        let mut proxied = proxy.connect(&bed.logins[0])?;
        for text in script.queries() {
            // on the primary: the replica's connection is opened by the first look
            direct.query(text)?;
            proxied.query(text)?;
        }
        // what cannot be read ties a session to its connection
        if proxied.rows("SELECT /* hg=1 */ @@server_id")? != [[Some("2".to_owned())]] {
            continue;
        }
        compared += 1;
        let at = || format!("seed {seed}\n{script}");
        let (here, there) = (variables(&mut direct)?, variables(&mut proxied)?);
        let differs = |(name, value): &(&String, &String)| {
            there.get(*name) != Some(value) && !OWN.iter().any(|own| name.starts_with(own))
        };
        let different: Vec<_> = here.iter().filter(differs).collect();
        ensure!(different.is_empty(), "directly {different:?}\n{}", at());
        for look in LOOKS {
            // values: a variable's type is what was in it before NULL
            let seen = [&mut direct, &mut proxied].map(|client| {
                let reply = client.query(look)?;
                let error = reply.error_code();
                anyhow::Ok((error, error.is_none().then(|| reply.rows(client.capabilities).ok())))
            });
            let [direct, proxied] = seen;
            let (direct, proxied) = (direct?, proxied?);
            ensure!(direct == proxied, "{look}\n{direct:?}\n{proxied:?}\n{}", at());
        }
        direct.quit()?;
        proxied.quit().with_context(at)?;
    }
    ensure!(compared >= SESSIONS / 3, "only {compared} could be looked at");
    Ok(())
}
