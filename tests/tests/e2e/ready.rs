//! Whether clients should be sent here: `/ready`.

use anyhow::{Result, ensure};
use e2e::{Cluster, Proxy, Setup, Throwaway, Vendor, wait};

on_both_vendors!(ready_until_it_drains);

/// Waits until `/ready` answers so.
fn until(proxy: &Proxy, status: u16) -> Result<String> {
    wait::until(&format!("/ready to answer {status}"), || {
        let (found, body) = proxy.ask("/ready")?;
        Ok((found == status).then_some(body))
    })
}

fn ready_until_it_drains(cluster: &Cluster) -> Result<()> {
    let mut proxy = Proxy::start(cluster)?;
    assert_eq!(proxy.ask("/ready")?, (200, r#"{"ready":true,"causes":[]}"#.to_owned()));
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("BEGIN")?;
    client.must("SELECT 1")?;
    proxy.signal("TERM")?;
    let body = until(&proxy, 503)?;
    ensure!(body.contains("draining"), "{body}");
    assert_eq!(proxy.ask("/live")?.0, 200);
    client.must("COMMIT")?;
    ensure!(proxy.ended()?.success());
    Ok(())
}

mod servers {
    #[test]
    fn that_go_and_come_back() -> anyhow::Result<()> {
        crate::with(e2e::Vendor::MariaDb, |_| super::servers_that_go_and_come_back())
    }
}

fn servers_that_go_and_come_back() -> Result<()> {
    let server = Throwaway::start(Vendor::MariaDb)?;
    let budget = "[backend]\nconnect_budget = \"200ms\"";
    let proxy = Setup::of(&server.cluster).append(budget).start()?;
    until(&proxy, 200)?;
    server.kill()?;
    // That it has gone is noticed by the next one who wants a connection.
    let mut client = proxy.connect(&server.cluster.admin())?;
    ensure!(client.query("DO 1")?.error_code() == Some(9001));
    let body = until(&proxy, 503)?;
    ensure!(body.contains("hostgroup 0") && body.contains("Connection refused"), "{body}");
    server.start_again()?;
    until(&proxy, 200)?;
    client.must("DO 1")
}
