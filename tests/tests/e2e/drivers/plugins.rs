//! Every driver with each plugin that it has beside the servers' defaults: asked for by a listener,
//! and by a server that checks the logins itself.

use super::{
    bed::{Bed, Case, To},
    languages::{
        ALL, ASYNCMY, CONNECTOR_PYTHON, DIESEL, Driver, MYSQL_ASYNC, MYSQLCLIENT, NODE_MARIADB,
        PERL_DBD_MARIADB, PERL_DBD_MYSQL, PYMYSQL, Program,
    },
};
use anyhow::{Result, ensure};
use e2e::{
    Cluster, Login, Setup, Vendor,
    program::{self, Output},
    skip,
};
use std::process::Command;

on_both_vendors!(the_password_itself);

/// Who connects.
#[derive(Clone, Copy)]
enum Client {
    Driver(&'static Driver),
    /// The command line `mariadb`.
    MariaDb,
    /// The command line `mysql`.
    MySql,
}

/// Who has MariaDB's ed25519. MySQL's own have not, PHP's mysqlnd, go-sql-driver as Debian has it,
/// mysql2 and sqlx neither.
const ED25519: &[Client] = &[
    Client::MariaDb,
    Client::Driver(&PYMYSQL),
    Client::Driver(&MYSQLCLIENT),
    Client::Driver(&ASYNCMY),
    Client::Driver(&NODE_MARIADB),
    Client::Driver(&PERL_DBD_MYSQL),
    Client::Driver(&PERL_DBD_MARIADB),
    Client::Driver(&MYSQL_ASYNC),
    Client::Driver(&DIESEL),
];

/// Who has MariaDB's parsec. Its C library, as Debian 12 has it, has not.
const PARSEC: &[Client] = &[Client::Driver(&NODE_MARIADB)];

/// Who has no `sha256_password`.
const NO_SHA256: &[&Driver] = &[&MYSQL_ASYNC];

/// Who does not encrypt a password with RSA, and so sends none itself without TLS.
const NO_RSA: &[&Driver] = &[&CONNECTOR_PYTHON];

const BOTH: &[bool] = &[false, true];
const TLS: &[bool] = &[true];

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::Driver(driver) => driver.name,
            Self::MariaDb => "the mariadb command line",
            Self::MySql => "the mysql command line",
        }
    }

    /// Ready to send the password itself where it is asked for it; `None` where it is not installed.
    fn program(self) -> Option<Program> {
        let path = match self {
            Self::Driver(driver) => {
                let mut program = driver.program()?;
                program.words.push("cleartext=on".into());
                program.environment.push(("RUST_BACKTRACE", "0".into()));
                return Some(program);
            }
            Self::MariaDb => program::mariadb()?,
            Self::MySql => program::mysql()?,
        };
        Some(Program { words: vec![path.into()], environment: Vec::new() })
    }

    /// Says who it is then, or why it was refused.
    fn log_in(self, program: &Program, to: &To<'_>) -> Result<Output> {
        let tls: &[&str] = match (self, to.case.tls) {
            (Self::Driver(_), _) => return to.attempt(program, 0, "login").map(masked),
            (Self::MariaDb, true) => &["--ssl"],
            (Self::MariaDb, false) => &["--skip-ssl"],
            (Self::MySql, true) => &["--ssl-mode=REQUIRED", "--enable-cleartext-plugin"],
            (Self::MySql, false) => &["--ssl-mode=DISABLED", "--get-server-public-key"],
        };
        let mut command = Command::new(&program.words[0]);
        command.args(["--no-defaults", "--protocol=tcp", "-h", to.host, "-P", to.port]).args(tls);
        command.args(["-u", &to.login.user, &format!("-p{}", to.login.password), to.schema]);
        program::run(command.args(["-e", "SELECT CURRENT_USER(), DATABASE()"]), "")
    }
}

/// Without connections' ids, which node's mariadb tells, and without the drivers' own lines of code:
/// another plugin is another way through a driver to the same error.
fn masked(mut output: Output) -> Output {
    let code = |line: &&str| !line.starts_with("    ") && !line.starts_with("  File ");
    let lines = output.stderr.lines().filter(code).map(|line| match line.split_once("(conn:") {
        Some((head, tail)) => {
            format!("{head}(conn:N{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()))
        }
        None => line.to_owned(),
    });
    output.stderr = lines.collect::<Vec<_>>().join("\n");
    output
}

/// Each client gets in with the password that `login` makes, and with another one gets the error
/// that it gets directly. What is asked for directly may be another plugin.
fn same(
    bed: &Bed<'_>,
    clients: &[Client],
    hops: &[bool],
    login: impl Fn() -> Result<Login>,
) -> Result<()> {
    let mut failed = Vec::new();
    for client in clients {
        let Some(program) = client.program() else {
            skip::report(&format!("{} is not installed", client.name()));
            continue;
        };
        for tls in hops {
            let case = Case { tls: *tls, compress: "none" };
            for wrong in [false, true] {
                let compared = bed.same_as(&login()?, &case, |to| {
                    // anew for each way, so that no server knows the password from the other
                    let mut login = login()?;
                    if wrong {
                        login.password = "wrong".into();
                        let to = To { schema: "app", login: &login, ..to };
                        let output = client.log_in(&program, &to)?;
                        let said = [output.stdout.as_str(), &output.stderr].concat();
                        ensure!(said.contains("Access denied for user"), "{}: {said}", to.port);
                        return Ok(output);
                    }
                    let to = To { schema: "app", login: &login, ..to };
                    client.log_in(&program, &to)?.good()
                });
                if let Err(error) = compared {
                    failed.push(format!("{}, wrong password {wrong}: {error:#}", client.name()));
                }
            }
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

fn asked_by_the_listener<'a>(cluster: &'a Cluster, plugin: &str) -> Result<Bed<'a>> {
    Bed::with(cluster, &format!("default_auth = {plugin:?}"))
}

fn the_password_itself(cluster: &Cluster) -> Result<()> {
    let bed = asked_by_the_listener(cluster, "mysql_clear_password")?;
    same(&bed, &all_but(&[]), TLS, || Ok(cluster.login("app")))
}

#[test]
fn parsec() -> Result<()> {
    let Some(cluster) = crate::plugins::parsec_server()? else { return Ok(()) };
    let bed = asked_by_the_listener(&cluster, "parsec")?;
    same(&bed, PARSEC, BOTH, || Ok(cluster.login("app_parsec")))?;
    same(&checked_by_the_server(&cluster)?, PARSEC, BOTH, || Ok(cluster.login("app_parsec")))
}

#[test]
fn ed25519() -> Result<()> {
    let Some(cluster) = crate::plugins::ed25519_server()? else { return Ok(()) };
    let bed = asked_by_the_listener(&cluster, "ed25519")?;
    same(&bed, ED25519, BOTH, || Ok(cluster.login("app_ed")))?;
    same(&checked_by_the_server(&cluster)?, ED25519, BOTH, || Ok(cluster.login("app_ed")))
}

/// The server asks for what its account has, and the proxy passes it on.
fn checked_by_the_server(cluster: &Cluster) -> Result<Bed<'_>> {
    let setup = Setup::of(cluster).no_users().listener("login = \"server\"\nhostgroup = 0");
    Bed::of(cluster, setup)
}

/// An account of the test's own, whose password no server has seen: MySQL wants the password itself.
fn fresh(cluster: &Cluster, plugin: &str) -> Result<Login> {
    let name = format!("e2e_{plugin}");
    let identified = match cluster.vendor {
        Vendor::MariaDb => format!("VIA {plugin} USING PASSWORD('fresh')"),
        Vendor::MySql => format!("WITH {plugin} BY 'fresh'"),
    };
    let mut admin = cluster.direct()?;
    admin.must(&format!("DROP USER IF EXISTS {name}"))?;
    admin.must(&format!("CREATE USER {name} IDENTIFIED {identified}"))?;
    admin.must(&format!("GRANT SELECT ON app.* TO {name}"))?;
    admin.quit()?;
    Ok(Login::new(&name, "fresh"))
}

/// Everyone but those who `cannot` at all, and those who can `by_tls` only.
fn at_the_server(
    vendor: Vendor,
    plugin: &str,
    cannot: &[&'static Driver],
    by_tls: &[&'static Driver],
) -> Result<()> {
    crate::with(vendor, |cluster| {
        let bed = checked_by_the_server(cluster)?;
        let outcome =
            same(&bed, &all_but(&[cannot, by_tls].concat()), BOTH, || fresh(cluster, plugin))
                .and_then(|()| {
                    let clients: Vec<_> =
                        by_tls.iter().map(|driver| Client::Driver(driver)).collect();
                    same(&bed, &clients, TLS, || fresh(cluster, plugin))
                });
        let mut admin = cluster.direct()?;
        admin.must(&format!("DROP USER IF EXISTS e2e_{plugin}"))?;
        admin.quit()?;
        outcome
    })
}

fn all_but(left_out: &[&Driver]) -> Vec<Client> {
    let left_out = |driver: &Driver| left_out.iter().any(|other| other.name == driver.name);
    let drivers = ALL.iter().filter(|driver| !left_out(driver));
    let drivers = drivers.map(|driver| Client::Driver(driver));
    [Client::MariaDb, Client::MySql].into_iter().chain(drivers).collect()
}

#[test]
fn native_at_the_server() -> Result<()> {
    at_the_server(Vendor::MariaDb, "mysql_native_password", &[], &[])
}

#[test]
fn caching_sha2_at_the_server() -> Result<()> {
    at_the_server(Vendor::MySql, "caching_sha2_password", &[], NO_RSA)
}

#[test]
fn sha256_at_the_server() -> Result<()> {
    at_the_server(Vendor::MySql, "sha256_password", NO_SHA256, NO_RSA)
}
