//! What frameworks say when they connect, and around their work: the same as directly, and the
//! session is not kept on one connection by it.

use crate::modes;
use anyhow::{Context, Result, ensure};
use e2e::{
    Client, Proxy, Vendor,
    twin::{Bed, Script, Step},
    wait,
};

on_both_vendors!(
    applications_start_as_directly_and_stay_free,
    applications_give_their_connections_back,
);

/// Each with its name.
const APPLICATIONS: [(&str, &str); 6] = [
    ("Laravel", include_str!("applications/laravel.txt")),
    ("Django", include_str!("applications/django.txt")),
    ("Rails", include_str!("applications/rails.txt")),
    ("Hibernate", include_str!("applications/hibernate.txt")),
    ("SQLAlchemy", include_str!("applications/sqlalchemy.txt")),
    ("Entity Framework", include_str!("applications/entity-framework.txt")),
];

/// A line is a query, or a command by its name; `#` begins a comment.
fn script(text: &str, vendor: Vendor) -> Result<Script> {
    let mut steps = Vec::new();
    let mut login = 1;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = match line.split_once(": ") {
            Some(("mysql", rest)) if vendor == Vendor::MySql => rest,
            Some(("mariadb", rest)) if vendor == Vendor::MariaDb => rest,
            Some(("mysql" | "mariadb", _)) => continue,
            _ => line,
        };
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let slot = || -> Result<(usize, String)> {
            let (slot, rest) = rest.split_once(' ').unwrap_or((rest, ""));
            Ok((slot.parse()?, rest.to_owned()))
        };
        steps.push(match word {
            "#" => continue,
            "several-statements" => {
                login = 3;
                continue;
            }
            "COM_INIT_DB" => Step::Schema(rest.to_owned()),
            "COM_PING" => Step::Ping,
            "COM_RESET_CONNECTION" => Step::Reset,
            "COM_STMT_PREPARE" => slot().map(|(slot, text)| Step::Prepare(slot, text))?,
            "COM_STMT_EXECUTE" => slot().map(|(slot, values)| {
                let values = values.split('|').map(|value| Some(value.to_owned()));
                Step::Execute(slot, values.collect())
            })?,
            "COM_STMT_RESET" => Step::ResetStatement(slot()?.0),
            "COM_STMT_CLOSE" => Step::Close(slot()?.0),
            _ => Step::Query(line.to_owned()),
        });
    }
    Ok(Script { login, steps })
}

fn applications_start_as_directly_and_stay_free(vendor: Vendor) -> Result<()> {
    let mut bed = Bed::start(vendor)?;
    let proxies: Vec<(String, Proxy)> = modes::all()
        .into_iter()
        .filter(|mode| mode.split && !mode.shares)
        .map(|mode| Ok((mode.name, bed.proxy(&mode.chain)?)))
        .collect::<Result<_>>()?;
    for (name, text) in APPLICATIONS {
        let script = script(text, vendor).with_context(|| name.to_owned())?;
        for (mode, proxy) in &proxies {
            // several times: what is known by then is answered from memory
            for _ in 0..4 {
                let difference = bed.difference(proxy, &script)?;
                ensure!(difference.is_none(), "{name}, {mode}: {}", difference.unwrap_or_default());
            }
            free(&bed, proxy, &script).with_context(|| format!("{name}, {mode}"))?;
        }
    }
    Ok(())
}

/// After all of it the session reads from a replica, and writes to the primary.
fn free(bed: &Bed, proxy: &Proxy, script: &Script) -> Result<()> {
    let mut client = played(bed, proxy, script)?;
    let server = |rows: Vec<Vec<Option<String>>>| rows[0][0].clone().unwrap_or_default();
    let read = server(client.rows("SELECT @@server_id")?);
    let write = server(client.rows(
        "SELECT @@server_id FROM twin_a.w RIGHT JOIN (SELECT 1) AS one ON TRUE LIMIT 1 FOR UPDATE",
    )?);
    ensure!(read != "1", "its reads are kept on the primary");
    ensure!(write == "1", "its writes are not on the primary");
    client.quit()
}

/// A session that has done what the script says.
fn played(bed: &Bed, proxy: &Proxy, script: &Script) -> Result<Client> {
    let mut client = proxy.connect(&bed.logins[script.login])?;
    let mut statements = std::collections::HashMap::new();
    for step in &script.steps {
        match step {
            Step::Query(text) => drop(client.query(text)?),
            Step::Schema(name) => {
                client.command(wire::CommandCode::INIT_DB, name.as_bytes())?;
            }
            Step::Reset => drop(client.command(wire::CommandCode::RESET_CONNECTION, b"")?),
            Step::Prepare(slot, text) => {
                statements.insert(*slot, client.prepare(text)?);
            }
            Step::Execute(slot, values) => {
                let statement = statements.get(slot).context("not prepared")?;
                let values: Vec<_> =
                    values.iter().map(|value| value.as_deref().map(str::as_bytes)).collect();
                client.execute(statement, 0, &values[..usize::from(statement.parameters())])?;
            }
            _ => {}
        }
    }
    Ok(client)
}

/// Where sessions share connections, nothing that an application says keeps one: between two
/// commands the session has none.
fn applications_give_their_connections_back(vendor: Vendor) -> Result<()> {
    let mut bed = Bed::start(vendor)?;
    let known = "mode = 'predict', predict = { min_observations = 2, min_sessions = 1 }";
    for settings in ["mode = 'defer'", known] {
        let proxy = bed.proxy(&modes::shared(settings))?;
        for (name, text) in APPLICATIONS {
            let script = script(text, vendor).with_context(|| name.to_owned())?;
            for _ in 0..3 {
                let difference = bed.difference(&proxy, &script)?;
                ensure!(difference.is_none(), "{name}: {}", difference.unwrap_or_default());
            }
            let client = played(&bed, &proxy, &script)?;
            let path = format!("/sessions/{}", client.greeting.thread_id);
            let shown = wait::until("the connections' return", || {
                let shown: serde_json::Value = serde_json::from_str(&proxy.get(&path)?)?;
                let none = |what: &str| shown[what].as_array().is_some_and(Vec::is_empty);
                let free = none("connections") && none("pins");
                Ok(free.then_some(()))
            });
            shown.with_context(|| format!("{name}: {}", proxy.get(&path).unwrap_or_default()))?;
            client.quit()?;
        }
    }
    Ok(())
}
