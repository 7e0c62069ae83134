//! Connections to servers go from session to session, and nothing of a session goes with them.

use anyhow::Result;
use e2e::{Client, Cluster, Login, Proxy, Setup, skip, transcript::same, wait};
use serde_json::Value;
use wire::{Capabilities, CommandCode};

on_both_vendors!(
    connections_are_used_again,
    nothing_is_left_of_a_session,
    other_capabilities_get_other_connections,
    one_session_uses_one_connection_for_a_hostgroup,
    a_broken_connection_is_not_used_again,
    change_user,
    change_user_leaves_no_lock,
    a_hint_asks_for_a_new_connection,
);

/// An account of the current test's own, so that the server's connections can be counted.
struct Account {
    login: Login,
    cluster: Cluster,
}

impl Account {
    fn new(cluster: &Cluster) -> Result<Self> {
        // a user's name has at most 32 characters
        let digest = cluster.ask(&format!("SELECT SHA2('{}', 224)", skip::test_name()))?;
        let login = Login::new(&format!("e2e_{}", &digest[..20]), "own");
        let mut direct = cluster.direct()?;
        direct.must(&format!("DROP USER IF EXISTS {}", login.user))?;
        direct.must(&format!("CREATE USER {} IDENTIFIED BY 'own'", login.user))?;
        direct.must(&format!("GRANT ALL ON *.* TO {}", login.user))?;
        Ok(Self { login, cluster: cluster.clone() })
    }

    fn setup(&self) -> Setup {
        Setup::of(&self.cluster).user(&self.login.user, &self.login.password)
    }

    /// How many connections the primary has of this account.
    fn connections(&self) -> Result<u64> {
        let user = &self.login.user;
        let sql =
            format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE USER = '{user}'");
        Ok(self.cluster.ask(&sql)?.parse()?)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if let Ok(mut direct) = self.cluster.direct() {
            let _ = direct.must(&format!("DROP USER IF EXISTS {}", self.login.user));
        }
    }
}

fn one(client: &mut Client, sql: &str) -> Result<Option<String>> {
    Ok(client.rows(sql)?.into_iter().flatten().next().flatten())
}

fn connections_are_used_again(cluster: &Cluster) -> Result<()> {
    let account = Account::new(cluster)?;
    let proxy = account.setup().start()?;
    for turn in 0..20 {
        let mut client = proxy.connect(&account.login)?;
        client.must("SELECT 1")?;
        assert_eq!(account.connections()?, 1, "turn {turn}");
        client.quit()?;
        wait_for_idle(&proxy)?;
    }
    Ok(())
}

/// Connections are counted where the server has them: those before this stay.
fn a_hint_asks_for_a_new_connection(cluster: &Cluster) -> Result<()> {
    let account = Account::new(cluster)?;
    let chain = |multiplex: bool| {
        format!(
            "[chain.main]\nmultiplex = {multiplex}\nsession = [{{ use = 'parse' }}, \
             {{ use = 'hints' }}, {{ use = 'session-commands' }}, {{ use = 'route' }}]\n\
             backend = [{{ use = 'catch-up' }}]"
        )
    };
    let hint = "/* create_new_connection=1 */";
    let proxy = account.setup().append(&chain(false)).start()?;
    for (text, connections) in [("SELECT 1", 1), (&*format!("{hint} SELECT 1"), 2), ("SELECT 1", 2)]
    {
        let mut client = proxy.connect(&account.login)?;
        client.must(text)?;
        assert_eq!(account.connections()?, connections, "{text}");
        // It has one.
        client.must(&format!("SELECT 2 {hint}"))?;
        assert_eq!(account.connections()?, connections, "{text}");
        client.quit()?;
        wait_for_idle(&proxy)?;
    }
    drop(proxy);
    wait::until("its connections to end", || Ok((account.connections()? == 0).then_some(())))?;
    // Sessions that share look for one with each statement.
    let proxy = account.setup().append(&chain(true)).start()?;
    let mut client = proxy.connect(&account.login)?;
    client.must("SET @a = 7")?;
    for (text, connections) in [("SELECT @a", 1), (&*format!("{hint} SELECT @a"), 2)] {
        assert_eq!(one(&mut client, text)?.as_deref(), Some("7"));
        assert_eq!(account.connections()?, connections, "{text}");
    }
    client.quit()?;
    drop(proxy);
    // An idle one makes way where there may be no more.
    let setup = account.setup().server("max_connections = 1");
    let proxy = setup.append(&chain(false)).start()?;
    for text in ["SELECT 1", &*format!("{hint} SELECT 1")] {
        let mut client = proxy.connect(&account.login)?;
        client.must(text)?;
        client.quit()?;
        wait_for_idle(&proxy)?;
    }
    Ok(())
}

/// Until a connection lies in the pool and no session holds one.
fn wait_for_idle(proxy: &Proxy) -> Result<()> {
    wait::until("an idle connection", || {
        let status: Value = serde_json::from_str(&proxy.get("/status")?)?;
        let sum = |field: &str| -> Option<u64> {
            status["servers"].as_array()?.iter().map(|server| server[field].as_u64()).sum()
        };
        Ok((sum("attached") == Some(0) && sum("idle") > Some(0)).then_some(()))
    })
}

fn nothing_is_left_of_a_session(cluster: &Cluster) -> Result<()> {
    let account = Account::new(cluster)?;
    let schema = cluster.schema()?;
    let proxy = account.setup().start()?;
    let login = account.login.clone().schema(&schema.name);
    let mut first = proxy.connect(&login)?;
    first.must(
        "SET @mine = 1, SESSION sql_mode = 'ANSI_QUOTES', autocommit = 0, time_zone = '+03:00'",
    )?;
    first.must("SET NAMES latin1")?;
    first.must("CREATE TEMPORARY TABLE scratch (a INT)")?;
    first.must("SELECT GET_LOCK(SHA2(DATABASE(), 224), 0)")?;
    first.must("PREPARE left_over FROM 'SELECT 1'")?;
    first.quit()?;
    wait_for_idle(&proxy)?;

    let mut fresh = cluster.direct()?;
    let mut second = proxy.connect(&login)?;
    for sql in [
        "SELECT @mine",
        "SELECT @@sql_mode",
        "SELECT @@autocommit",
        "SELECT @@time_zone",
        "SELECT @@character_set_client",
        "SELECT @@collation_connection",
    ] {
        assert_eq!(one(&mut second, sql)?, one(&mut fresh, sql)?, "{sql}");
    }
    assert_eq!(second.query("SELECT * FROM scratch")?.error_code(), Some(1146));
    assert_eq!(second.query("EXECUTE left_over")?.error_code(), Some(1243));
    fresh.must(&format!("USE {}", schema.name))?;
    assert_eq!(one(&mut fresh, "SELECT GET_LOCK(SHA2(DATABASE(), 224), 0)")?.as_deref(), Some("1"));
    assert_eq!(account.connections()?, 1);
    second.quit()
}

fn other_capabilities_get_other_connections(cluster: &Cluster) -> Result<()> {
    // FOUND_ROWS changes counts, and cannot be changed on an open connection
    let proxy = Proxy::start(cluster)?;
    let changes: [fn(Login) -> Login; 3] = [
        |login| login,
        |login| login.with(Capabilities::FOUND_ROWS),
        |login| login.without(Capabilities::DEPRECATE_EOF),
    ];
    // twice, so that the second round finds connections of the others in the pool
    for change in changes.iter().chain(&changes) {
        same(cluster, &proxy, &change(cluster.admin()), |client, transcript| {
            client.must("CREATE TABLE t (a INT)")?;
            client.must("INSERT INTO t VALUES (1), (2)")?;
            transcript.add("update", &client.query("UPDATE t SET a = 1")?);
            transcript.add("select", &client.query("SELECT * FROM t")?);
            Ok(())
        })?;
    }
    Ok(())
}

fn one_session_uses_one_connection_for_a_hostgroup(cluster: &Cluster) -> Result<()> {
    let account = Account::new(cluster)?;
    let proxy = account.setup().start()?;
    let mut clients = Vec::new();
    for n in 1..=5 {
        let mut client = proxy.connect(&account.login)?;
        client.must(&format!("SET @n = {n}"))?;
        clients.push(client);
        assert_eq!(account.connections()?, n);
    }
    for (client, n) in clients.iter_mut().zip(1..) {
        assert_eq!(one(client, "SELECT @n")?, Some(n.to_string()));
    }
    Ok(())
}

fn a_broken_connection_is_not_used_again(cluster: &Cluster) -> Result<()> {
    let account = Account::new(cluster)?;
    let proxy = account.setup().start()?;
    for _ in 0..3 {
        let mut client = proxy.connect(&account.login)?;
        client.must("SELECT 1")?;
        client.quit()?;
        wait_for_idle(&proxy)?;
        // the server ends the pooled connection
        let mut direct = cluster.direct()?;
        let sql = format!(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{}'",
            account.login.user
        );
        for row in direct.rows(&sql)? {
            direct.must(&format!("KILL {}", row[0].clone().unwrap_or_default()))?;
        }
        wait::until("the connection's end", || Ok((account.connections()? == 0).then_some(())))?;
        let mut client = proxy.connect(&account.login)?;
        client.must("SELECT 'served all the same'")?;
        client.quit()?;
        wait_for_idle(&proxy)?;
    }
    Ok(())
}

/// Also where the connection is fit for no other session.
fn change_user_leaves_no_lock(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut direct = cluster.direct()?;
    let mut client = proxy.connect(&cluster.admin())?;
    for turn in 0..200 {
        if turn % 2 == 1 {
            client.must("SET ROLE NONE")?;
        }
        let locked = one(&mut client, "SELECT GET_LOCK('change_user', 0)")?;
        assert_eq!(locked.as_deref(), Some("1"), "{turn}");
        client.change_user(&cluster.admin())?;
        assert_eq!(one(&mut direct, "SELECT IS_USED_LOCK('change_user')")?, None, "{turn}");
    }
    client.quit()
}

fn change_user(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    client.must("SET @mine = 1")?;
    client.change_user(&cluster.login("app").schema("app"))?;
    assert_eq!(one(&mut client, "SELECT CURRENT_USER()")?.as_deref(), Some("app@%"));
    assert_eq!(one(&mut client, "SELECT DATABASE()")?.as_deref(), Some("app"));
    assert_eq!(one(&mut client, "SELECT @mine")?, None);
    client.quit()?;

    // after a refusal one vendor closes the connection, the other does not
    let after_refusal = |mut client: Client| -> Result<(String, bool)> {
        let Err(refused) = client.change_user(&Login::new("app", "wrong")) else {
            panic!("a wrong password gets in")
        };
        Ok((refused.to_string(), client.command(CommandCode::PING, b"").is_ok()))
    };
    let proxied = after_refusal(proxy.connect(&cluster.admin())?)?;
    assert_eq!(proxied, after_refusal(cluster.direct()?)?);
    Ok(())
}
