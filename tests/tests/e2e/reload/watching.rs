//! `[reload] watch`: files that change by themselves.

use super::server;
use anyhow::{Result, ensure};
use e2e::{Client, Cluster, Proxy, Setup, wait};

on_both_vendors!(files_are_watched,);

const CHAIN: &str = "[reload]\nwatch = true\n\n[chain.main]\nsession = [\n{ use = \"parse\" },\n\
    { use = \"rules\", rules = \"rules.toml\" },\n{ use = \"route\" },\n]\n";

fn rule(hostgroup: u32) -> String {
    format!(
        "[[rule]]\nrule_id = 1\nmatch_digest = \"AS one\"\ndestination_hostgroup = {hostgroup}\n"
    )
}

fn goes_to_a_replica(client: &mut Client, expected: bool) -> Result<()> {
    wait::until("the rules to change", || {
        let is = server(client, "SELECT @@server_id AS one")? != "1";
        Ok((is == expected).then_some(()))
    })
}

fn files_are_watched(cluster: &Cluster) -> Result<()> {
    let inline = CHAIN.replace("\"rules.toml\"", "[]");
    let proxy = Setup::of(cluster).append(&inline).start()?;
    let mut client = proxy.connect(&cluster.admin())?;
    let rules = proxy.file("rules.toml");
    std::fs::write(&rules, rule(1))?;
    // An editor's way: another file in the place of the old one.
    proxy.edit(|text| text.replace("rules = []", "rules = \"rules.toml\""))?;
    goes_to_a_replica(&mut client, true)?;
    // Written in place, and a file that the main one names.
    std::fs::write(&rules, rule(0))?;
    goes_to_a_replica(&mut client, false)?;
    std::fs::write(&rules, "[[rule]]\nrule_id = 'one'\n")?;
    wait::until("the mistake to be told", || {
        Ok(proxy.log().contains("not reloaded, nothing has changed").then_some(()))
    })?;
    ensure!(proxy.log().contains("rules.toml:2:11"), "{}", proxy.log());
    goes_to_a_replica(&mut client, false)?;
    std::fs::write(&rules, rule(1))?;
    goes_to_a_replica(&mut client, true)?;
    // Not any more.
    proxy.edit(|text| text.replace("watch = true", "watch = false"))?;
    wait::until("the last reload", || Ok((reloads(&proxy) == 4).then_some(())))?;
    std::fs::write(&rules, rule(0))?;
    proxy.reload()?;
    goes_to_a_replica(&mut client, false)?;
    ensure!(reloads(&proxy) == 5, "{}", proxy.log());
    client.quit()
}

fn reloads(proxy: &Proxy) -> usize {
    proxy.log().matches("\"message\":\"reloaded\"").count()
}
