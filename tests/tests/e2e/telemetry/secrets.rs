//! No secret and no value of a statement comes out anywhere.

use super::{all_answers, end, with_rule_7};
use anyhow::{Result, ensure};
use e2e::{Cluster, Collector, Login, Throwaway, Vendor, wait};

on_both_vendors!(no_secret_and_no_value_comes_out);

/// What must not be seen, in every form in which it is sent.
const MARK: &str = "s3cr3tMark";

fn no_secret_and_no_value_comes_out(cluster: &Cluster) -> Result<()> {
    // Accounts and passwords of servers that others use are left alone.
    let server = Throwaway::start(cluster.vendor)?;
    let here = &server.cluster;
    let collector = Collector::start()?;
    let settings = "metrics_interval = \"50ms\"\n[trace]\nratio = 1.0\nslow = \"1ms\"\nlevel = \"debug\"\n\
                    parents = [\"attributes\", \"comments\"]\n\
                    [log]\nlevel = \"debug\"\nslow_queries = \"1ms\"";
    let proxy = with_rule_7(here, &collector, settings)?;
    let mut client = proxy.connect(&login(here))?;
    let new_password = match here.vendor {
        Vendor::MariaDb => format!("PASSWORD('{MARK}pw')"),
        Vendor::MySql => format!("'{MARK}pw'"),
    };
    for text in [
        format!("CREATE USER telemetry IDENTIFIED BY '{MARK}create'"),
        format!("SET PASSWORD FOR telemetry = {new_password}"),
        format!("ALTER USER telemetry IDENTIFIED BY '{MARK}alter'"),
        format!("SELECT '{MARK}', \"{MARK}\", N'{MARK}', _utf8mb4'{MARK}'"),
        format!("SELECT SLEEP(0.01), '{MARK}' /* {MARK} */ -- {MARK}"),
        format!("SET @a = '{MARK}'"),
        format!("PREPARE p FROM 'SELECT ''{MARK}'''"),
        "EXECUTE p".to_owned(),
        format!("SELECT '{MARK}' FROM no_schema.no_table"),
        format!("SELECT '{MARK} left open"),
        format!("INSERT INTO no_schema.t VALUES ('{MARK}')"),
        format!("SELECT 1 /*traceparent='{MARK}'*/"),
        format!("SELECT '{MARK}' INTO @b"),
    ] {
        // Whether the server takes it is not the question.
        client.query(&text)?;
    }
    let prepared = client.prepare(&format!("SELECT ?, '{MARK}'"))?;
    client.long_data(&prepared, 0, MARK.as_bytes())?;
    client.execute_with_long_data(&prepared)?;
    client.query("DROP USER telemetry")?;
    let wrong = Login::new("admin", &format!("{MARK}wrong"));
    ensure!(proxy.connect(&wrong).is_err());
    wait::until("metrics", || Ok((!collector.metrics().is_empty()).then_some(())))?;
    let answers = all_answers(&proxy)?;
    let proxy = end(proxy, client)?;
    ensure!(collector.spans().len() > 20, "{} spans", collector.spans().len());
    for (where_, said) in
        [("answers", answers), ("log", proxy.log()), ("collector", collector.everything())]
    {
        if let Some(at) = said.find(MARK) {
            let from = (0..=at.saturating_sub(300)).rev().find(|at| said.is_char_boundary(*at));
            anyhow::bail!("{where_}: {}", &said[from.unwrap_or(0)..at + MARK.len()]);
        }
    }
    Ok(())
}

fn login(here: &Cluster) -> Login {
    here.admin().attributes(&[("program_name", MARK), (MARK, "token")])
}
