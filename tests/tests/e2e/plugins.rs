//! Authentication plugins, towards servers that have them and towards clients.

use anyhow::Result;
use e2e::{Client, Cluster, Login, Proxy, Setup, cluster, program, skip};
use std::{path::Path, process::Command};

on_both_vendors!(
    the_listeners_plugin_is_what_lets_in,
    a_password_in_the_clear_is_for_closed_channels,
    a_proxy_logs_in_at_a_proxy,
);

/// What a listener can check besides the servers' defaults.
const SIGNING: [&str; 2] = ["ed25519", "parsec"];

fn listening(cluster: &Cluster, plugin: &str) -> Result<Proxy> {
    Setup::of(cluster)
        .listener(&format!("default_auth = {plugin:?}"))
        .listener_tls("prefer")
        .start()
}

fn the_listeners_plugin_is_what_lets_in(cluster: &Cluster) -> Result<()> {
    for plugin in SIGNING {
        let proxy = listening(cluster, plugin)?;
        for login in [cluster.admin(), cluster.admin().tls(), cluster.login("app_nopw")] {
            for theirs in [None, Some("caching_sha2_password"), Some("unheard_of")] {
                let login = theirs.map_or(login.clone(), |theirs| login.clone().plugin(theirs));
                let mut seen = Vec::new();
                let mut client = Client::connect_seeing(&proxy.address, &login, &mut seen)?;
                let salt: &[u8] = if plugin == "parsec" { b"P" } else { b"" };
                assert_eq!(seen, [b"\xFE", salt, b"\0"].concat(), "{plugin}: switch, salt, OK");
                client.must("SELECT 1")?;
                client.change_user(&cluster.login("app"))?;
                assert_eq!(client.rows("SELECT CURRENT_USER()")?, [[Some("app@%".to_owned())]]);
                client.quit()?;
            }
        }
        for wrong in [Login::new("admin", "wrong"), Login::new("nobody", "adminpw")] {
            let refused = proxy.connect(&wrong).expect_err("refused").to_string();
            assert!(refused.starts_with("ERR 1045 (28000): Access denied for user"), "{refused}");
        }
    }
    Ok(())
}

fn a_password_in_the_clear_is_for_closed_channels(cluster: &Cluster) -> Result<()> {
    let proxy = listening(cluster, "mysql_clear_password")?;
    let socket = format!("unix:{}", proxy.socket.display());
    for (address, login) in [(&proxy.address, cluster.admin().tls()), (&socket, cluster.admin())] {
        let mut client = Client::connect(address, &login)?;
        client.must("SELECT 1")?;
        client.quit()?;
        let mut wrong = login;
        wrong.password = "wrong".into();
        let refused = Client::connect(address, &wrong).expect_err("refused").to_string();
        assert!(refused.starts_with("ERR 1045 (28000): Access denied"), "{refused}");
    }
    let refused = proxy.connect(&cluster.admin()).expect_err("in the clear").to_string();
    assert!(refused.starts_with("ERR 3159 (HY000): Connections using insecure"), "{refused}");
    Ok(())
}

fn a_proxy_logs_in_at_a_proxy(cluster: &Cluster) -> Result<()> {
    for plugin in ["ed25519", "parsec", "mysql_clear_password"] {
        let inner = listening(cluster, plugin)?;
        let behind = Cluster { addresses: vec![inner.address.clone()], ..cluster.clone() };
        for tls in ["disable", "require"] {
            let setup = Setup::of(&behind).server(&format!("tls = {{ mode = {tls:?} }}"));
            let outer = setup.start()?;
            let mut client = outer.connect(&cluster.admin())?;
            let reply = client.query("SELECT CURRENT_USER()")?;
            if plugin == "mysql_clear_password" && tls == "disable" {
                assert_eq!(reply.error_code(), Some(3159), "{:?}", reply.error());
            } else {
                assert_eq!(reply.rows(client.capabilities)?, [[Some("admin@%".to_owned())]]);
            }
            client.quit()?;
        }
    }
    Ok(())
}

/// The server with MariaDB's ed25519 plugin, which the cluster does not have.
pub(crate) fn ed25519_server() -> Result<Option<Cluster>> {
    server_with("ed25519")
}

/// The newer MariaDB with parsec.
pub(crate) fn parsec_server() -> Result<Option<Cluster>> {
    server_with("parsec")
}

fn server_with(plugin: &str) -> Result<Option<Cluster>> {
    let file = cluster::cache().join(format!("mariadb-{plugin}/env"));
    if !file.exists() {
        skip::report(&format!("there is no MariaDB with auth_{plugin}; ./tests/run starts it"));
        return Ok(None);
    }
    Cluster::read(&file).map(Some)
}

/// Logs in directly and through a proxy, by all ways to the server, with the password that is right
/// and with one that is not.
fn logs_in(cluster: &Cluster, user: &str) -> Result<()> {
    let (address, login) = (&cluster.addresses[0], cluster.login(user));
    let socket = format!("unix:{}", cluster.sockets[0].display());
    let whoami = [[Some(format!("{user}@%"))]];
    for (address, login) in
        [(address, login.clone()), (address, login.clone().tls()), (&socket, login.clone())]
    {
        let mut client = Client::connect(address, &login)?;
        assert_eq!(client.rows("SELECT CURRENT_USER()")?, whoami);
        client.quit()?;
    }
    let wrong = Login::new(user, "wrong");
    let direct = Client::connect(address, &wrong).expect_err("a wrong password").to_string();
    for (address, tls) in [(address, "disable"), (address, "require"), (&socket, "disable")] {
        let mut behind = Cluster { addresses: vec![address.clone()], ..cluster.clone() };
        let tls = format!("tls = {{ mode = {tls:?} }}");
        let proxy = Setup::of(&behind).server(&tls).start()?;
        let mut client = proxy.connect(&login)?;
        assert_eq!(client.rows("SELECT CURRENT_USER()")?, whoami);
        client.quit()?;
        behind.users = vec![(user.to_owned(), "wrong".to_owned())];
        let proxy = Setup::of(&behind).server(&tls).start()?;
        let mut client = proxy.connect(&wrong)?;
        let error = client.query("SELECT 1")?.error().map(|error| error.to_string());
        // A server that has a name for its socket's host says that one.
        let expected = direct.replace("127.0.0.1", "localhost");
        assert_eq!(error.map(|text| text.replace("127.0.0.1", "localhost")), Some(expected));
        client.quit()?;
    }
    Ok(())
}

#[test]
fn a_server_with_ed25519() -> Result<()> {
    let Some(cluster) = ed25519_server()? else { return Ok(()) };
    logs_in(&cluster, "app_ed")?;
    // Another nonce each time, also one that ends in a NUL.
    for _ in 0..600 {
        Client::connect(&cluster.addresses[0], &cluster.login("app_ed"))?.quit()?;
    }
    Ok(())
}

#[test]
fn a_server_with_parsec() -> Result<()> {
    parsec_server()?.map_or(Ok(()), |cluster| logs_in(&cluster, "app_parsec"))
}

#[test]
fn a_server_with_sha256_password() -> Result<()> {
    crate::with(e2e::Vendor::MySql, |cluster| logs_in(cluster, "app_sha256"))
}

/// MariaDB's own client, with its own plugins, at a listener that asks for them.
#[test]
fn mariadbs_client() -> Result<()> {
    crate::with(e2e::Vendor::MariaDb, |cluster| {
        for plugin in ["ed25519", "mysql_clear_password"] {
            let proxy = listening(cluster, plugin)?;
            whoami_by(Path::new("mariadb"), &proxy, cluster, "app", &["--ssl"])?;
        }
        Ok(())
    })
}

/// MariaDB's client of today. It verifies certificates: one that nobody has signed, by the password.
#[test]
fn a_newer_mariadbs_client() -> Result<()> {
    let Some(program) = program::newer_mariadb() else {
        skip::report("there is no MariaDB of Debian's sid; ./tests/run unpacks it");
        return Ok(());
    };
    crate::with(e2e::Vendor::MariaDb, |cluster| {
        for plugin in ["ed25519", "parsec", "mysql_clear_password"] {
            let proxy = listening(cluster, plugin)?;
            whoami_by(&program, &proxy, cluster, "app", &["--skip-ssl-verify-server-cert"])?;
            if plugin != "mysql_clear_password" {
                whoami_by(&program, &proxy, cluster, "app", &["--skip-ssl"])?;
            }
        }
        // nobody has signed this certificate, and the client has no authority
        for plugin in ["mysql_native_password", "ed25519", "parsec"] {
            let listener = format!("default_auth = {plugin:?}");
            let proxy = Setup::of(cluster).listener(&listener).start()?;
            whoami_by(&program, &proxy, cluster, "app", &[])?;
        }
        Ok(())
    })?;
    let Some(cluster) = parsec_server()? else { return Ok(()) };
    for plugin in ["mysql_native_password", "parsec"] {
        let proxy = listening(&cluster, plugin)?;
        for options in [&["--skip-ssl"][..], &[]] {
            whoami_by(&program, &proxy, &cluster, "app_parsec", options)?;
        }
    }
    let relaying = Setup::of(&cluster).no_users().listener("login = \"server\"\nhostgroup = 0");
    whoami_by(&program, &relaying.start()?, &cluster, "app_parsec", &["--skip-ssl"])
}

/// `program` logs in, and is who it says; with another password it is refused.
fn whoami_by(
    program: &Path,
    proxy: &Proxy,
    cluster: &Cluster,
    user: &str,
    options: &[&str],
) -> Result<()> {
    let (host, port) = proxy.host_and_port();
    let run = |password: &str| {
        let mut command = Command::new(program);
        command.args(["--no-defaults", "--batch", "--skip-column-names", "-h", host, "-P", port]);
        command.args(["-u", user, &format!("-p{password}")]).args(options);
        program::run(command.args(["-e", "SELECT CURRENT_USER()"]), "")
    };
    let output = run(&cluster.login(user).password)?;
    assert_eq!(output.stdout.trim(), format!("{user}@%"), "{options:?}: {}", output.stderr);
    let output = run("wrong")?;
    assert!(output.stderr.contains("ERROR 1045 (28000)"), "{options:?}: {output:?}");
    Ok(())
}
