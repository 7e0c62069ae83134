//! TLS towards clients and towards servers.

use anyhow::{Context, Result};
use e2e::{Client, Cluster, Proxy, Setup, transcript::same};

on_both_vendors!(
    preferred,
    required,
    disabled,
    a_certificate_made_at_start,
    a_certificate_that_clients_verify,
    clients_with_certificates,
    the_same_replies_with_tls,
    towards_servers,
    a_server_that_is_not_the_one,
    accounts_that_require_tls,
);

/// The cipher of the connection between the proxy and the server, empty without TLS.
fn cipher(client: &mut Client) -> Result<String> {
    let rows = client.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
    Ok(rows[0][1].clone().unwrap_or_default())
}

fn serves(proxy: &Proxy, login: &e2e::Login) -> Result<()> {
    let mut client = proxy.connect(login)?;
    client.must("SELECT 1")?;
    client.quit()
}

fn preferred(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener_tls("prefer").start()?;
    serves(&proxy, &cluster.admin())?;
    serves(&proxy, &cluster.admin().tls())
}

fn required(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener_tls("require").start()?;
    serves(&proxy, &cluster.admin().tls())?;
    let error = serves(&proxy, &cluster.admin()).err().context("plain text gets in")?;
    assert!(error.to_string().contains("3159"), "require_secure_transport: {error}");
    Ok(())
}

fn disabled(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener("tls = { mode = \"disable\" }").start()?;
    serves(&proxy, &cluster.admin())?;
    assert!(serves(&proxy, &cluster.admin().tls()).is_err());
    Ok(())
}

fn a_certificate_made_at_start(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener("tls = { mode = \"require\" }").start()?;
    serves(&proxy, &cluster.admin().tls())
}

fn a_certificate_that_clients_verify(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).listener_tls("require").start()?;
    let ca = &cluster.certificates.ca;
    serves(&proxy, &cluster.admin().tls_verified(ca, "localhost"))?;
    assert!(serves(&proxy, &cluster.admin().tls_verified(ca, "elsewhere.invalid")).is_err());
    let made = Setup::of(cluster).listener("tls = { mode = \"require\" }").start()?;
    assert!(serves(&made, &cluster.admin().tls_verified(ca, "localhost")).is_err());
    Ok(())
}

fn clients_with_certificates(cluster: &Cluster) -> Result<()> {
    let files = &cluster.certificates;
    let (certificate, key) = files.of_server();
    let line = format!(
        "tls = {{ mode = \"require\", certificate = {certificate:?}, key = {key:?}, client_ca = {:?} }}",
        files.ca
    );
    let proxy = Setup::of(cluster).listener(&line).start()?;
    serves(&proxy, &cluster.admin().tls().certificate(&files.certificate, &files.key))?;
    // as with a server: whoever shows one must show the right one
    serves(&proxy, &cluster.admin().tls())?;
    let foreign = foreign_authority()?;
    let (certificate, key) = (foreign.path().join("ca.pem"), foreign.path().join("key.pem"));
    let served = serves(&proxy, &cluster.admin().tls().certificate(&certificate, &key));
    assert!(served.is_err(), "a client with a foreign certificate gets in");
    Ok(())
}

fn the_same_replies_with_tls(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster)
        .listener_tls("require")
        .server("tls = { mode = \"require\" }")
        .start()?;
    same(cluster, &proxy, &cluster.admin().tls(), |client, transcript| {
        client.must("CREATE TABLE t (a INT, b LONGTEXT)")?;
        // records of TLS hold 16 kB: values around that, and one of many records
        for length in [0, 1, 16_000, 16_383, 16_384, 16_385, 1_000_000] {
            let sql = format!("INSERT INTO t VALUES ({length}, '{}')", "x".repeat(length));
            transcript.add("insert", &client.query(&sql)?);
        }
        transcript.add("select", &client.query("SELECT * FROM t ORDER BY a")?);
        Ok(())
    })
}

fn towards_servers(cluster: &Cluster) -> Result<()> {
    let ca = &cluster.certificates.ca;
    for (line, encrypted) in [
        ("tls = { mode = \"disable\" }".to_owned(), false),
        ("tls = { mode = \"prefer\" }".to_owned(), true),
        ("tls = { mode = \"require\" }".to_owned(), true),
        (format!("tls = {{ mode = \"verify-ca\", ca = {ca:?} }}"), true),
        (format!("tls = {{ mode = \"verify-identity\", ca = {ca:?} }}"), true),
    ] {
        let proxy = Setup::of(cluster).server(&line).start()?;
        let mut client = proxy.connect(&cluster.admin())?;
        assert_eq!(!cipher(&mut client)?.is_empty(), encrypted, "{line}");
        client.quit()?;
    }
    Ok(())
}

/// A folder with `ca.pem` and its `key.pem`: an authority that has signed nothing here.
fn foreign_authority() -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let mut openssl = std::process::Command::new("openssl");
    openssl
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"])
        .args(["-subj", "/CN=other CA", "-addext", "basicConstraints=critical,CA:TRUE"])
        .args(["-keyout", "key.pem", "-out", "ca.pem"])
        .current_dir(folder.path());
    e2e::program::run(&mut openssl, "")?.good()?;
    Ok(folder)
}

fn a_server_that_is_not_the_one(cluster: &Cluster) -> Result<()> {
    let foreign = foreign_authority()?;
    let ca = foreign.path().join("ca.pem");
    for mode in ["verify-ca", "verify-identity"] {
        let proxy = Setup::of(cluster)
            .server(&format!("tls = {{ mode = {mode:?}, ca = {ca:?} }}"))
            .append("[backend]\nconnect_budget = \"1s\"")
            .start()?;
        let served = serves(&proxy, &cluster.admin());
        assert!(served.is_err(), "{mode}: a server with a foreign certificate is used");
    }
    Ok(())
}

fn accounts_that_require_tls(cluster: &Cluster) -> Result<()> {
    let files = &cluster.certificates;
    let proxy = Setup::of(cluster).server("tls = { mode = \"require\" }").start()?;
    serves(&proxy, &cluster.login("app_ssl"))?;
    let (certificate, key) = (&files.certificate, &files.key);
    let line =
        format!("tls = {{ mode = \"require\", certificate = {certificate:?}, key = {key:?} }}");
    let proxy = Setup::of(cluster).server(&line).start()?;
    serves(&proxy, &cluster.login("app_x509"))
}
