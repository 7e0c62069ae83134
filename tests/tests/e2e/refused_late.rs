//! Accounts that a server does not let in, where the proxy has found that out late: it has checked
//! the password by itself, and opens a connection when one is needed.

use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Login, Setup, Vendor, wait};

on_both_vendors!(who_was_never_let_in_is_sent_away, who_was_let_in_elsewhere_goes_on);

const CHAINS: [&str; 3] = [
    "[chain.main]\nsession = [{ use = 'parse' }, { use = 'route' }]",
    "[chain.main]
session = [{ use = 'parse' }, { use = 'session-commands', mode = 'predict' }, { use = 'route' }]
backend = [{ use = 'catch-up' }]",
    "[chain.main]
multiplex = true
session = [{ use = 'parse' }, { use = 'session-commands' }, { use = 'route' }]
backend = [{ use = 'catch-up' }]",
];

/// The proxy knows an account that the server does not.
fn who_was_never_let_in_is_sent_away(cluster: &Cluster) -> Result<()> {
    for chain in CHAINS {
        let proxy = Setup::of(cluster).user("e2e_denied_stranger", "pw").append(chain).start()?;
        let stranger = Login::new("e2e_denied_stranger", "pw");
        let mut client = Client::connect(&proxy.address, &stranger)?;
        let refused = client.query("INSERT INTO app.nowhere VALUES (1)")?;
        ensure!(refused.error_code() == Some(1045), "{chain}: {:?}", refused.error());
        ensure!(client.query("SELECT 1").is_err(), "{chain}: the session goes on");
    }
    Ok(())
}

/// Another server has let it in before.
fn who_was_let_in_elsewhere_goes_on(cluster: &Cluster) -> Result<()> {
    let name = format!("e2e_denied_{}", std::process::id());
    let chain = CHAINS[2].replace(
        "{ use = 'session-commands' }",
        "{ use = 'rules', rules = [{ rule_id = 1, match_pattern = 'hg=1', \
         destination_hostgroup = 1, apply = true }] }, { use = 'session-commands' }",
    );
    let mut admin = cluster.direct()?;
    admin.must(&format!("CREATE USER {name} IDENTIFIED BY 'pw'"))?;
    let outcome = || -> Result<()> {
        let login = Login::new(&name, "pw").tls();
        let proxy = Setup::of(cluster).user(&name, "pw").append(&chain).start()?;
        let mut client = Client::connect(&proxy.address, &login)?;
        client.must("SELECT 1")?;
        cluster.direct()?.must(&format!("ALTER USER {name} ACCOUNT LOCK"))?;
        let locked = match cluster.vendor {
            Vendor::MariaDb => 4151,
            Vendor::MySql => 3118,
        };
        for address in &cluster.addresses[1..] {
            wait::until("the lock on each replica", || {
                let refused = Client::connect(address, &login).err();
                let code = format!("ERR {locked}");
                Ok(refused.filter(|error| error.to_string().starts_with(&code)))
            })?;
        }
        let refused = client.query("SELECT /* hg=1 */ 1")?.error_code();
        ensure!(refused == Some(locked), "{refused:?}");
        client.must("SELECT 2")
    };
    let outcome = outcome();
    admin.must(&format!("DROP USER {name}"))?;
    outcome
}
