//! Servers that are killed, stopped, or without disk: what clients see, directly and through the
//! proxy, and that no command is sent twice.

use anyhow::{Context, Result, ensure};
use e2e::{Client, Cluster, Held, Login, Proxy, Scale, Setup, Throwaway, Vendor, skip, wait};
use std::time::{Duration, Instant};
use wire::CommandCode;

on_both_vendors!(
    killed_in_mid_result,
    killed_in_mid_commit,
    killed_while_idle,
    stopped_and_continued,
    without_disk,
);

/// SERVER_QUERY_WAS_SLOW in the second byte of the status flags.
const SLOW: u8 = 0x08;

/// A server of one's own and the proxy in front of it.
struct Bed {
    server: Throwaway,
    proxy: Proxy,
    held: Held,
}

impl Bed {
    fn new(vendor: Vendor) -> Result<Self> {
        let server = Throwaway::start(vendor)?;
        let mut client = server.cluster.direct()?;
        client.must("CREATE TABLE app.t (a INT PRIMARY KEY)")?;
        client.quit()?;
        let proxy = Setup::of(&server.cluster)
            .append("[backend]\nconnect_timeout = \"300ms\"\nconnect_budget = \"500ms\"")
            .start()?;
        let held = Held::at_start(&proxy)?;
        let bed = Self { server, proxy, held };
        bed.serves()?;
        Ok(bed)
    }

    fn login(&self) -> Login {
        self.server.cluster.admin()
    }

    /// Directly, then through the proxy.
    fn addresses(&self) -> [(&'static str, String); 2] {
        let direct = self.server.cluster.addresses[0].clone();
        [("direct", direct), ("proxied", self.proxy.address.clone())]
    }

    fn serves(&self) -> Result<()> {
        let mut client = self.proxy.connect(&self.login())?;
        client.must("SELECT 'served'")?;
        client.quit()
    }

    /// The server is gone: new sessions are told so; once it is back they are served. Nothing is
    /// left of those that it took along.
    fn comes_back(&self) -> Result<()> {
        let mut client = self.proxy.connect(&self.login())?;
        ensure!(client.query("SELECT 1")?.error_code() == Some(9001));
        self.server.start_again()?;
        client.must("SELECT 'the session that was told goes on'")?;
        client.quit()?;
        self.serves()?;
        self.held.until_again(&self.proxy)
    }
}

/// How a command ended that has no reply.
fn is_closed<T>(reply: Result<T>) -> bool {
    reply.is_err_and(|error| error.is::<std::io::Error>())
}

fn killed_in_mid_result(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut clients = Vec::new();
    for (way, address) in bed.addresses() {
        let mut client = Client::connect(&address, &bed.login())?;
        let sql = format!(
            "/* {way} */ SELECT REPEAT('x', 1000000) FROM information_schema.COLLATIONS a, information_schema.COLLATIONS b"
        );
        client.send_command(CommandCode::QUERY, sql.as_bytes())?;
        client.read_some()?;
        clients.push(client);
    }
    bed.server.kill()?;
    for mut client in clients {
        // no ERR in the middle of a row: the end
        ensure!(is_closed(until_the_end(&mut client)));
    }
    bed.comes_back()?;
    given_once(&bed)
}

/// Reads all that comes; an error at its end.
fn until_the_end(client: &mut Client) -> Result<()> {
    loop {
        client.read_some()?;
    }
}

/// What was marked by its way was given to the server once.
fn given_once(bed: &Bed) -> Result<()> {
    for (way, _) in bed.addresses() {
        let times = bed.server.times_given(&format!("/* {way} */"))?;
        ensure!(times == 1, "{way}: given {times} times");
    }
    Ok(())
}

fn killed_in_mid_commit(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut lock = bed.server.cluster.direct()?;
    let mut clients = Vec::new();
    for (row, (_, address)) in (1..).zip(bed.addresses()) {
        let mut client = Client::connect(&address, &bed.login())?;
        client.must("BEGIN")?;
        client.must(&format!("INSERT INTO app.t VALUES ({row})"))?;
        clients.push(client);
    }
    lock.must("FLUSH TABLES WITH READ LOCK")?;
    for (client, (way, _)) in clients.iter_mut().zip(bed.addresses()) {
        client.send_command(CommandCode::QUERY, format!("COMMIT /* {way} */").as_bytes())?;
    }
    wait::until("both to be in their COMMIT", || {
        let sql = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
                   WHERE INFO LIKE 'COMMIT%' AND STATE LIKE 'Waiting for%lock'";
        Ok((lock.rows(sql)? == [[Some("2".to_owned())]]).then_some(()))
    })?;
    bed.server.kill()?;
    let [direct, proxied] = &mut clients[..] else { unreachable!("two ways") };
    ensure!(is_closed(direct.receive(CommandCode::QUERY)));
    // whether it is committed is not known, and nobody says it is
    ensure!(proxied.receive(CommandCode::QUERY)?.error_code() == Some(9007));
    ensure!(is_closed(proxied.command(CommandCode::PING, b"")));
    bed.comes_back()?;
    let rows = bed.server.cluster.ask("SELECT COUNT(*) FROM app.t")?;
    ensure!(rows == "0", "a COMMIT that did not end is done: {rows} rows");
    given_once(&bed)
}

fn killed_while_idle(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut clients = Vec::new();
    for (_, address) in bed.addresses() {
        let mut idle = Client::connect(&address, &bed.login())?;
        idle.must("SET @mine = 1")?;
        let mut in_transaction = Client::connect(&address, &bed.login())?;
        in_transaction.must("BEGIN")?;
        in_transaction.must("SELECT * FROM app.t")?;
        clients.extend([idle, in_transaction]);
    }
    // and one in the pool
    bed.serves()?;
    bed.server.kill()?;
    for client in &mut clients {
        ensure!(is_closed(client.query("SELECT @mine")), "a session went on without its state");
    }
    bed.comes_back()
}

fn stopped_and_continued(cluster: &Cluster) -> Result<()> {
    let bed = Bed::new(cluster.vendor)?;
    let mut clients = Vec::new();
    for (_, address) in bed.addresses() {
        let mut client = Client::connect(&address, &bed.login())?;
        client.must("USE app")?;
        clients.push(client);
    }
    // an idle connection for one, none for the other
    bed.serves()?;
    let mut reusing = bed.proxy.connect(&bed.login())?;
    let mut connecting = bed.proxy.connect(&bed.server.cluster.login("app"))?;
    bed.server.stop()?;
    let stopped = Instant::now();

    for (row, (client, (way, _))) in (1..).zip(clients.iter_mut().zip(bed.addresses())) {
        let sql = format!("INSERT INTO t VALUES ({row}) /* {way} */");
        client.send_command(CommandCode::QUERY, sql.as_bytes())?;
    }
    ensure!(connecting.query("SELECT 1")?.error_code() == Some(9001));
    reusing.send_command(CommandCode::QUERY, b"SELECT 'reused'")?;
    let long = Duration::from_secs(if Scale::of_this_run() == Scale::Full { 30 } else { 0 });
    while stopped.elapsed() < long {
        wait::pause();
    }
    bed.server.go_on()?;

    let replies: Vec<Vec<u8>> = clients
        .iter_mut()
        .map(|client| {
            let mut raw = client.receive(CommandCode::QUERY)?.raw;
            // whether the server's clock says that it was slow depends on when it was stopped
            raw[8] &= !SLOW;
            Ok(raw)
        })
        .collect::<Result<_>>()?;
    ensure!(replies[0] == replies[1], "what waited is answered as directly: {replies:?}");
    let reused = reusing.receive(CommandCode::QUERY)?;
    ensure!(reused.error_code().is_none_or(|code| code == 9001), "{:?}", reused.error());
    reusing.must("SELECT 'goes on'")?;
    connecting.must("SELECT 'goes on'")?;
    given_once(&bed)?;
    let rows = bed.server.cluster.ask("SELECT COUNT(*) FROM app.t")?;
    ensure!(rows == "2", "{rows} rows");
    for client in clients.into_iter().chain([reusing, connecting]) {
        client.quit()?;
    }
    bed.held.until_again(&bed.proxy)
}

/// Every error is the server's, word for word, and the session goes on when there is room again.
fn without_disk(cluster: &Cluster) -> Result<()> {
    let Some(server) = Throwaway::start_with_small_disk(cluster.vendor)? else {
        skip::report("a small disk needs the right to mount one");
        return Ok(());
    };
    let proxy = Proxy::start(&server.cluster)?;
    let addresses = [server.cluster.addresses[0].clone(), proxy.address.clone()];
    let mut clients: Vec<Client> = addresses
        .iter()
        .map(|address| Client::connect(address, &server.cluster.admin().schema("app")))
        .collect::<Result<_>>()?;
    let disk = server.disk()?.display().to_string();
    for client in &mut clients {
        let sql = format!("CREATE TABLE IF NOT EXISTS t (b VARCHAR(250)) DATA DIRECTORY '{disk}'");
        client.must(&sql)?;
        client.must("SET max_heap_table_size = 16384, tmp_table_size = 16384")?;
        client.must("SET sort_buffer_size = 32768")?;
    }
    server.fill_disk()?;
    // rows, and not one long value: MariaDB 10.11 aborts when the disk gets full in one
    let collations = "information_schema.COLLATIONS a, information_schema.COLLATIONS b";
    let mut seen = Vec::new();
    for sql in [
        format!("INSERT INTO t SELECT REPEAT('x', 250) FROM {collations}"),
        format!("CREATE TABLE another (a INT) DATA DIRECTORY '{disk}'"),
        format!(
            "SELECT REPEAT(SHA2(CONCAT(a.ID, b.ID), 512), 9) AS w FROM {collations} ORDER BY w"
        ),
        format!("SELECT DISTINCT REPEAT(SHA2(CONCAT(a.ID, b.ID), 512), 9) AS w FROM {collations}"),
        "SELECT 'what needs no disk'".to_owned(),
    ] {
        let errors = clients.iter_mut().map(|client| {
            let reply = client.query(&sql).with_context(|| sql.clone())?;
            Ok(reply.error().map(|error| without_names(&error.to_string())))
        });
        let errors = errors.collect::<Result<Vec<_>>>()?;
        ensure!(errors[0] == errors[1], "{sql}: {errors:?}");
        seen.extend(errors.into_iter().next().flatten());
    }
    let codes = match cluster.vendor {
        Vendor::MariaDb => ["ERR 1114 ", "ERR 1005 ", "ERR 1021 "],
        Vendor::MySql => ["ERR 1114 ", "ERR 3675 ", "ERR 3 "],
    };
    for code in codes {
        ensure!(seen.iter().any(|error| error.starts_with(code)), "no {code}: {seen:?}");
    }
    server.empty_disk()?;
    for client in &mut clients {
        client.must("INSERT INTO t VALUES ('x')").context("with room again")?;
    }
    clients.into_iter().try_for_each(Client::quit)
}

/// Temporary files have names that nobody chose.
fn without_names(text: &str) -> String {
    text.split('\'')
        .map(|part| if part.starts_with('/') || part.contains("#sql") { "..." } else { part })
        .collect::<Vec<_>>()
        .join("'")
}
