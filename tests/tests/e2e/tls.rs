//! TLS towards clients and towards servers.

use anyhow::{Context, Result};
use e2e::{Client, Cluster, Login, Proxy, Setup, Vendor, transcript::same, wait};
use std::fs;
use wire::auth::{certificate_proof, native_stored};

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
    certificates_that_change,
    certificates_that_clients_must_show,
    users_that_must_use_tls,
    a_server_without_tls_among_others,
    a_certificate_that_the_password_vouches_for,
);

/// The cipher of the connection between the proxy and the server, empty without TLS.
fn cipher(client: &mut Client) -> Result<String> {
    let rows = client.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")?;
    Ok(rows[0][1].clone().unwrap_or_default())
}

fn serves(proxy: &Proxy, login: &Login) -> Result<()> {
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

fn certificates_that_change(cluster: &Cluster) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (good, foreign) = (cluster.certificates.of_server(), foreign_authority()?);
    let (certificate, key) = (folder.path().join("cert.pem"), folder.path().join("key.pem"));
    let good = || -> Result<()> {
        fs::copy(&good.0, &certificate)?;
        Ok(fs::copy(&good.1, &key).map(drop)?)
    };
    good()?;
    let line =
        format!("tls = {{ mode = \"require\", certificate = {certificate:?}, key = {key:?} }}");
    let proxy = Setup::of(cluster).listener(&line).start()?;
    let verified = cluster.admin().tls_verified(&cluster.certificates.ca, "localhost");
    let mut early = proxy.connect(&verified)?;
    // a pair that cannot be used changes nothing
    fs::write(&certificate, "no certificate at all")?;
    wait::until("the broken one to be noticed", || {
        Ok(proxy.log().contains("the old ones stay").then_some(()))
    })?;
    serves(&proxy, &verified)?;
    // one that can be is used from the next client on
    fs::copy(foreign.path().join("ca.pem"), &certificate)?;
    fs::copy(foreign.path().join("key.pem"), &key)?;
    wait::until("the foreign certificate", || Ok(serves(&proxy, &verified).err()))?;
    serves(&proxy, &cluster.admin().tls())?;
    good()?;
    wait::until("the good certificate", || Ok(serves(&proxy, &verified).ok()))?;
    let read = |proxy: &Proxy| proxy.log().matches("certificates read again").count();
    let before = read(&proxy);
    proxy.signal("HUP")?;
    wait::until("SIGHUP to be heard", || Ok((read(&proxy) > before).then_some(())))?;
    early.must("SELECT 'still here'")?;
    early.quit()
}

/// A refused login is that of a server whose account has REQUIRE, to the letter.
fn refused_as(cluster: &Cluster, account: &str, proxy: &Proxy, login: &Login) -> Result<()> {
    let direct = Client::connect(&cluster.addresses[0], &cluster.login(account));
    let direct = direct.err().context("let in directly")?.to_string();
    let ours = serves(proxy, login).err().context("let in")?.to_string();
    assert_eq!(ours, direct.replace(account, &login.user));
    Ok(())
}

fn certificates_that_clients_must_show(cluster: &Cluster) -> Result<()> {
    let files = &cluster.certificates;
    let (certificate, key) = files.of_server();
    let line = format!(
        "tls = {{ certificate = {certificate:?}, key = {key:?}, client_ca = {:?}, client_certificate = \"required\" }}",
        files.ca
    );
    let proxy = Setup::of(cluster).listener(&line).start()?;
    serves(&proxy, &cluster.admin().tls().certificate(&files.certificate, &files.key))?;
    refused_as(cluster, "app_x509", &proxy, &cluster.admin().tls())?;
    refused_as(cluster, "app_x509", &proxy, &cluster.admin())?;
    // nobody can listen in there, and there is no TLS
    let socket = format!("unix:{}", proxy.socket.display());
    Client::connect(&socket, &cluster.admin())?.quit()
}

fn users_that_must_use_tls(cluster: &Cluster) -> Result<()> {
    let files = &cluster.certificates;
    let (certificate, key) = files.of_server();
    let line = format!(
        "tls = {{ certificate = {certificate:?}, key = {key:?}, client_ca = {:?} }}",
        files.ca
    );
    let admin = cluster.admin();
    let user = |name: &str, require: &str| {
        format!(
            "[[user]]\nname = {name:?}\npassword = \"pw\"\nhostgroup = 0\nrequire = {require:?}\n\
             backend_user = {:?}\nbackend_password = {:?}\n",
            admin.user, admin.password
        )
    };
    let users = user("by_tls", "ssl") + &user("by_certificate", "x509");
    let proxy = Setup::of(cluster).listener(&line).append(&users).start()?;
    let (tls, x509) = (Login::new("by_tls", "pw"), Login::new("by_certificate", "pw"));
    refused_as(cluster, "app_ssl", &proxy, &tls)?;
    serves(&proxy, &tls.tls())?;
    refused_as(cluster, "app_x509", &proxy, &x509)?;
    refused_as(cluster, "app_x509", &proxy, &x509.clone().tls())?;
    serves(&proxy, &x509.tls().certificate(&files.certificate, &files.key))
}

/// A listener of the proxy's own stands in for a server without TLS.
fn a_server_without_tls_among_others(cluster: &Cluster) -> Result<()> {
    let without = Setup::of(cluster).listener("tls = { mode = \"disable\" }").start()?;
    let mut both = cluster.clone();
    both.addresses = vec![without.address.clone()];
    let more = format!(
        "[[server]]\nhostgroup = 0\naddress = {:?}\ntls = {{ mode = \"require\" }}\n",
        cluster.addresses[0]
    );
    let tls = "tls = { mode = \"require\" }";
    let proxy = Setup::of(&both).server(tls).append(&more).start()?;
    for _ in 0..4 {
        let mut client = proxy.connect(&cluster.admin())?;
        assert!(!cipher(&mut client)?.is_empty());
        client.quit()?;
    }
    let alone = Setup::of(&both).server(tls).start()?;
    let refused = serves(&alone, &cluster.admin()).err().context("served without TLS")?;
    assert!(refused.to_string().contains("9002"), "{refused}");
    Ok(())
}

/// Clients of MariaDB 11.4 and later take a self-signed certificate when the OK of the login shows
/// that whoever has it knows the password.
fn a_certificate_that_the_password_vouches_for(cluster: &Cluster) -> Result<()> {
    let made = Setup::of(cluster).start()?;
    let given = Setup::of(cluster).listener_tls("prefer").start()?;
    let newer = Setup::of(cluster)
        .listener_tls("prefer")
        .listener("server_version = \"11.4.2-MariaDB\"")
        .start()?;
    let maria = cluster.vendor == Vendor::MariaDb;
    let stored = |login: &Login| {
        Some(native_stored(login.password.as_bytes())).filter(|_| !login.password.is_empty())
    };
    let schema = cluster.schema()?;
    for (proxy, login, expected) in [
        (&made, cluster.admin().tls(), maria),
        (&made, cluster.admin().tls().schema(&schema.name), maria),
        (&made, cluster.admin(), false),
        (&made, cluster.login("app_nopw").tls(), false),
        (&given, cluster.admin().tls(), false),
        (&newer, cluster.admin().tls(), maria),
    ] {
        let mut client = proxy.connect(&login)?;
        let proof = client.certificate().zip(stored(&login)).map(|(certificate, stored)| {
            certificate_proof(&stored, &client.greeting.nonce, &certificate)
        });
        let said = Some(client.login_info.clone()).filter(|info| !info.is_empty());
        assert_eq!(said, proof.filter(|_| expected), "{login:?}");
        client.must("SELECT 1")?;
        client.quit()?;
    }
    Ok(())
}
