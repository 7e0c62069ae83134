//! Compression towards clients and towards servers, each by itself: no reply depends on it.

use anyhow::{Result, ensure};
use e2e::{
    Client, Cluster, Login, Proxy, Scale, Setup, Vendor, program, skip,
    transcript::{Transcript, same},
};
use std::{path::PathBuf, process::Command};
use wire::{Capabilities, CommandCode, packet::MAX_PAYLOAD};

on_both_vendors!(
    any_session_in_every_combination,
    large_values_both_ways,
    a_file_of_many_packets,
    over_tls,
    changes_of_user,
    what_is_offered,
    zlib_wins,
    towards_servers,
    levels_of_zstd,
    idle_sessions,
    sessions_of_other_clients,
    command_lines,
);

/// What the vendor has, as a server's setting.
pub(crate) fn algorithms(cluster: &Cluster) -> &'static [&'static str] {
    match cluster.vendor {
        Vendor::MariaDb => &["none", "zlib"],
        Vendor::MySql => &["none", "zlib", "zstd"],
    }
}

pub(crate) fn login(login: Login, algorithm: &str) -> Login {
    match algorithm {
        "zlib" => login.zlib(),
        "zstd" => login.zstd(3),
        _ => login,
    }
}

fn compressed(algorithm: &str) -> String {
    format!("compression = {algorithm:?}")
}

/// Runs `script` with every algorithm on the client's side and every one on the server's.
fn combinations(
    cluster: &Cluster,
    script: impl Fn(&mut Client, &mut Transcript) -> Result<()>,
) -> Result<()> {
    for server in algorithms(cluster) {
        let proxy = Setup::of(cluster).server(&compressed(server)).start()?;
        for client in algorithms(cluster) {
            let base = cluster.admin().with(Capabilities::LOCAL_FILES);
            let base = base.with(Capabilities::MULTI_STATEMENTS);
            let context = || anyhow::anyhow!("client {client}, server {server}");
            same(cluster, &proxy, &login(base, client), &script)
                .map_err(|e| e.context(context()))?;
        }
    }
    Ok(())
}

/// Whether the proxy's connection to the server is compressed.
fn server_side(client: &mut Client) -> Result<String> {
    let rows = client.rows("SHOW SESSION STATUS LIKE 'Compression%'")?;
    let mut values = rows.into_iter().map(|row| row[1].clone().unwrap_or_default());
    Ok(values.by_ref().take(2).collect::<Vec<_>>().join(" "))
}

fn any_session_in_every_combination(cluster: &Cluster) -> Result<()> {
    combinations(cluster, |client, transcript| {
        let big: String = (0..30_000).map(|n| format!("{n},line {n}\n")).collect();
        for sql in [
            "CREATE TABLE t (a INT, b VARCHAR(20))",
            "INSERT INTO t VALUES (1, 'one'), (2, NULL), (3, REPEAT('x', 20))",
            "SELECT * FROM t",
            "SELECT 1; SELEC",
            "SELECT 1; SELECT REPEAT('y', 100000), a FROM t; DO 1; SELECT 2",
            "SELECT SHA2('a', 512), SHA2('b', 512)",
            "SELECT * FROM missing",
            "BEGIN",
            "UPDATE t SET b = 'two' WHERE a = 2",
            "ROLLBACK",
            "SELECT x.a, y.a, z.a, REPEAT('w', 50 * x.a) FROM t x, t y, t z ORDER BY 1, 2, 3",
        ] {
            transcript.add(sql, &client.query(sql)?);
        }
        let sql = "LOAD DATA LOCAL INFILE 'rows' INTO TABLE t FIELDS TERMINATED BY ','";
        for data in ["7,seven\n", "", &big] {
            transcript.add(sql, &client.upload(sql, data.as_bytes())?);
        }
        transcript.add("count", &client.query("SELECT COUNT(*), SUM(a) FROM t")?);

        let statement = client.prepare("SELECT ? AS v, a FROM t WHERE a < 4 ORDER BY a")?;
        transcript.add("prepare", &statement.reply);
        for value in [&b"short"[..], &[b'l'; 70_000]] {
            client.long_data(&statement, 0, value)?;
            transcript.add("long data", &client.execute_with_long_data(&statement)?);
            transcript.add("execute", &client.execute(&statement, 0, &[Some(value)])?);
        }
        client.close_statement(&statement)?;
        for code in [CommandCode::PING, CommandCode::RESET_CONNECTION, CommandCode(0x50)] {
            transcript.add(code.name(), &client.command(code, b"")?);
        }

        let statements = ["SELECT 'first'", "SELEC", "SELECT REPEAT('last', 9000)", "DO 1"];
        for sql in statements {
            client.send_command(CommandCode::QUERY, sql.as_bytes())?;
        }
        for sql in statements {
            transcript.add(sql, &client.receive(CommandCode::QUERY)?);
        }
        Ok(())
    })
}

fn large_values_both_ways(cluster: &Cluster) -> Result<()> {
    if !Scale::is_for_load() {
        return Ok(());
    }
    let value: Vec<u8> =
        (0..20_u32 << 20).map(|n| b'a' + (n.wrapping_mul(n) >> 7) as u8 % 26).collect();
    let value = String::from_utf8(value)?;
    combinations(cluster, |client, transcript| {
        transcript.add("up", &client.query(&format!("SET @v = '{value}'"))?);
        transcript.add("down", &client.query("SELECT @v, LENGTH(@v)")?);
        transcript
            .add("border", &client.query(&format!("SELECT REPEAT('y', {})", MAX_PAYLOAD - 4))?);
        transcript.add("after", &client.query("SELECT 'after'")?);
        Ok(())
    })
}

/// Packets and frames of one exchange come to the end of their ids, and begin anew.
fn a_file_of_many_packets(cluster: &Cluster) -> Result<()> {
    combinations(cluster, |client, transcript| {
        client.must("CREATE TABLE t (a INT)")?;
        let sql = "LOAD DATA LOCAL INFILE 'rows' INTO TABLE t";
        client.send_command(CommandCode::QUERY, sql.as_bytes())?;
        client.read_some()?;
        for sequence in 2..=700_u32 {
            client.send(&[2, 0, 0, sequence as u8, b'1', b'\n'])?;
        }
        client.send(&[0, 0, 0, (701_u32 % 256) as u8])?;
        transcript.add("loaded", &client.receive(CommandCode::QUERY)?);
        transcript.add("count", &client.query("SELECT COUNT(*) FROM t")?);
        Ok(())
    })
}

fn over_tls(cluster: &Cluster) -> Result<()> {
    for algorithm in algorithms(cluster) {
        let proxy = Setup::of(cluster)
            .listener_tls("require")
            .server("tls = { mode = \"require\" }")
            .server(&compressed(algorithm))
            .start()?;
        same(cluster, &proxy, &login(cluster.admin().tls(), algorithm), |client, transcript| {
            transcript.add("small", &client.query("SELECT 1")?);
            transcript.add("large", &client.query("SELECT REPEAT('ab', 300000)")?);
            Ok(())
        })?;
    }
    Ok(())
}

fn changes_of_user(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin().zlib())?;
    for user in ["app", "admin", "app"] {
        client.change_user(&cluster.login(user))?;
        let name = client.rows("SELECT CURRENT_USER(), REPEAT('x', 400)")?[0][0].clone();
        assert!(name.is_some_and(|name| name.starts_with(user)));
    }
    client.quit()
}

fn what_is_offered(cluster: &Cluster) -> Result<()> {
    let both = Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION_ALGORITHM;
    let of_server = cluster.direct()?.greeting.capabilities & both;
    for (line, offered) in [
        ("", both),
        ("compression = [\"zlib\"]", Capabilities::COMPRESS),
        ("compression = [\"zstd\"]", Capabilities::ZSTD_COMPRESSION_ALGORITHM),
        ("compression = []", Capabilities::EMPTY),
    ] {
        let proxy = Setup::of(cluster).listener(line).start()?;
        // Whoever asks for what is not offered goes on without.
        let mut client = proxy.connect(&cluster.admin().zlib().zstd(3))?;
        assert_eq!(client.greeting.capabilities & both, of_server & offered, "{line}");
        client.must("SELECT REPEAT('x', 400)")?;
        client.quit()?;
    }
    Ok(())
}

/// A client that asks for both gets zlib, and its level of zstd means nothing.
fn zlib_wins(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin().zlib().zstd(99), |client, transcript| {
        transcript.add("long", &client.query("SELECT REPEAT('zlib', 400)")?);
        Ok(())
    })
}

fn towards_servers(cluster: &Cluster) -> Result<()> {
    for (line, mariadb, mysql) in [
        ("", "OFF", "OFF "),
        ("compression = \"none\"", "OFF", "OFF "),
        ("compression = \"zlib\"", "ON", "ON zlib"),
        ("compression = \"zlib\"\ncompression_level = 1", "ON", "ON zlib"),
        // what a server does not have is not used
        ("compression = \"zstd\"\ncompression_level = 7", "OFF", "ON zstd"),
    ] {
        let proxy = Setup::of(cluster).server(line).start()?;
        let mut client = proxy.connect(&cluster.admin())?;
        client.must("SELECT REPEAT('x', 400)")?;
        let expected = if cluster.vendor == Vendor::MariaDb { mariadb } else { mysql };
        assert_eq!(server_side(&mut client)?, expected, "{line}");
        client.quit()?;
        // The connection that the next session takes over is compressed as it was.
        let mut client = proxy.connect(&cluster.admin())?;
        assert_eq!(server_side(&mut client)?, expected, "{line}");
        client.quit()?;
    }
    Ok(())
}

fn levels_of_zstd(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    for address in [&cluster.addresses[0], &proxy.address] {
        for level in [1, 22] {
            let mut client = Client::connect(address, &cluster.admin().zstd(level))?;
            assert_eq!(client.rows("SELECT REPEAT('z', 400)")?[0][0], Some("z".repeat(400)));
            client.quit()?;
        }
    }
    if cluster.vendor == Vendor::MySql {
        // The client's own codec has no such level either: what counts is what the server says.
        for level in [0, 23] {
            let login = cluster.admin().zstd(level);
            let refused =
                |address| Client::connect(address, &login).expect_err("no such level").to_string();
            assert_eq!(refused(&proxy.address), refused(&cluster.addresses[0]));
            assert!(refused(&proxy.address).contains("ERR 3923 (HY000)"));
        }
    }
    Ok(())
}

/// A session that has used compression on both sides keeps nothing of it but a few numbers.
fn idle_sessions(cluster: &Cluster) -> Result<()> {
    const SESSIONS: u64 = 150;
    let proxy = Setup::of(cluster).server("compression = \"zlib\"").start()?;
    let session = || -> Result<Client> {
        let mut client = proxy.connect(&cluster.admin().zlib())?;
        client.must("SELECT REPEAT('idle', 100000)")?;
        Ok(client)
    };
    let mut sessions = Vec::new();
    let mut growths = Vec::new();
    for _ in 0..4 {
        let (_, before) = proxy.memory()?;
        for _ in 0..SESSIONS {
            sessions.push(session()?);
        }
        growths.push(proxy.memory()?.1.saturating_sub(before) / SESSIONS);
    }
    // the allocator takes memory ahead now and then; what sessions keep, they keep every time
    ensure!(growths.iter().any(|each| *each <= 16 << 10), "{growths:?} bytes for each session");
    Ok(())
}

/// The drivers' session by a client that compresses, its output directly and through the proxy.
fn outputs(cluster: &Cluster, proxy: &Proxy, program: &PathBuf, options: &[&str]) -> Result<()> {
    let session = concat!(env!("CARGO_MANIFEST_DIR"), "/drivers/session.sql");
    let script = std::fs::read_to_string(session)?;
    let schema = cluster.schema()?;
    let admin = cluster.admin();
    let run = |address: &str| -> Result<program::Output> {
        schema.clear()?;
        let (host, port) = address.split_once(':').unwrap_or((address, ""));
        let mut command = Command::new(program);
        command.args(["--no-defaults", "--force", "--table", "-h", host, "-P", port]);
        command.args(["-u", &admin.user, &format!("-p{}", admin.password)]);
        command.args(["--local-infile=1", "--default-character-set=utf8mb4"]);
        program::run(command.args(options).arg(&schema.name), &script)
    };
    let (direct, proxied) = (run(&cluster.addresses[0])?, run(&proxy.address)?);
    ensure!(direct.stdout.lines().count() > 60, "the session broke off early: {direct:?}");
    assert_eq!(direct, proxied, "{options:?}");
    Ok(())
}

fn sessions_of_other_clients(cluster: &Cluster) -> Result<()> {
    let proxy = Setup::of(cluster).server("compression = \"zlib\"").start()?;
    match program::mariadb() {
        Some(program) => outputs(cluster, &proxy, &program, &["--compress"]),
        None => {
            skip::report("the mariadb command line is not installed");
            Ok(())
        }
    }
}

fn command_lines(cluster: &Cluster) -> Result<()> {
    let Some(program) = program::mysql() else {
        skip::report("the mysql command line is not installed");
        return Ok(());
    };
    for server in algorithms(cluster) {
        // no connection is used again: this is about compression
        let setup = Setup::of(cluster).append("[backend]\npool_max_idle = 0");
        let proxy = setup.server(&compressed(server)).start()?;
        for options in [
            &["--compression-algorithms=zlib"][..],
            &["--compression-algorithms=zstd,zlib"],
            &["--compression-algorithms=zstd,uncompressed", "--zstd-compression-level=9"],
        ] {
            outputs(cluster, &proxy, &program, options)?;
        }
    }
    Ok(())
}
