//! CONNECTION_ID(): the id of the greeting, whichever server answers, in replies that are otherwise
//! a server's own.

use anyhow::{Context, Result};
use e2e::{
    Client, Cluster, Proxy, Vendor,
    client::Reply,
    transcript::{Transcript, same},
};
use wire::{Capabilities, CommandCode, command::statement::LAST_PREPARED};

on_both_vendors!(
    it_is_the_id_of_the_greeting,
    old_style_ends_of_results,
    prepared_statements,
    cursors,
    several_statements_in_one,
    files_of_the_client,
    an_id_of_the_clients_choice,
    with_what_has_servers_ids_it_is_the_servers,
    what_is_kept_is_the_servers,
    another_user_keeps_the_id,
);

/// Statements whose replies hold no id. `@id` is that of the greeting.
const STATEMENTS: &[&str] = &[
    "SELECT CONNECTION_ID() LIMIT 0",
    "SELECT CONNECTION_ID() = @id AS same",
    "SELECT CONNECTION_ID() = @id",
    "select Connection_Id ( ), connection_id(), CONNECTION_ID() , 1 LIMIT 0",
    "SELECT connection_id\n(\t) = @id, /*!50000 CONNECTION_ID() */ = @id",
    "SELECT CONNECTION_ID/* a */( /* b */ ) = @id",
    "SELECT `connection_id`() = @id, `CONNECTION_ID` ( ) = @id",
    "SELECT @@pseudo_thread_id LIMIT 0",
    "SELECT @@pseudo_thread_id = @id, @@session.pseudo_thread_id = @id",
    "SELECT @@LOCAL.`pseudo_thread_id` = CONNECTION_ID()",
    "SELECT CONNECTION_ID()+1, -CONNECTION_ID(), CONNECTION_ID() | 0, HEX(CONNECTION_ID()) LIMIT 0",
    "SELECT CONNECTION_ID() AS a, (CONNECTION_ID()) FROM (SELECT 1) AS t LIMIT 0",
    "SELECT IF(1, CONNECTION_ID(), NULL), CONCAT(CONNECTION_ID()), CONNECTION_ID()/3 LIMIT 0",
    "SELECT * FROM (SELECT CONNECTION_ID(), CONNECTION_ID() AS b) AS t LIMIT 0",
    "SELECT t.* FROM (SELECT CONNECTION_ID() = @id) AS t",
    "(SELECT CONNECTION_ID() UNION SELECT connection_id() + 0 LIMIT 0)",
    "SELECT 1 UNION ALL SELECT CONNECTION_ID() = @id ORDER BY 1",
    "WITH x AS (SELECT CONNECTION_ID() AS a) SELECT a = @id, a + 1 = @id + 1 FROM x",
    "SELECT 'CONNECTION_ID()', \"connection_id()\" -- CONNECTION_ID()",
    "SELECT CONNECTION_ID(1)",
    "SELECT CONNECTION_ID(), FROM x",
    "SELECT connection_id() FROM\n\n x y z",
    "SELECT CONNECTION_ID() FROM missing",
    "SELECT missing.connection_id()",
    "SELECT connection_id()\n+ CONNECTION_ID(), this, is, long, enough, to, be, cut, off, a WHERE syntax(",
    "CREATE TABLE t (a INT, b BIGINT UNSIGNED, KEY (b))",
    "INSERT INTO t VALUES (1, CONNECTION_ID()), (2, @@pseudo_thread_id), (3, 7)",
    "SELECT a, b = @id FROM t ORDER BY b DESC, a",
    "UPDATE t SET a = a + 1 WHERE b = CONNECTION_ID()",
    "SELECT a FROM t WHERE b IN (CONNECTION_ID(), 7) ORDER BY CONNECTION_ID(), a",
    "SELECT COUNT(*) FROM t GROUP BY CONNECTION_ID()",
    "DELETE FROM t WHERE b = CONNECTION_ID() ORDER BY CONNECTION_ID() LIMIT 1",
    "DO CONNECTION_ID()",
    "SET @a = CONNECTION_ID(), @b = @@pseudo_thread_id",
    "SELECT @a = @id, @b = @id",
    "SELECT CASE CONNECTION_ID() WHEN @id THEN 'same' ELSE 'other' END AS `case`",
    "CREATE TABLE connection_id (connection_id INT)",
    "INSERT INTO connection_id() VALUES ()",
    "SELECT connection_id FROM connection_id",
    "SELECT CONNECTION_ID",
];

fn id(client: &Client) -> u32 {
    client.greeting.thread_id
}

/// Makes `@id` what the greeting said.
fn note_id(client: &mut Client) -> Result<()> {
    let set = format!("SET @id = {}", id(client));
    client.must(&set)
}

fn statements(cluster: &Cluster, capabilities: Capabilities) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin().without(capabilities), |client, transcript| {
        note_id(client)?;
        for sql in STATEMENTS {
            transcript.add(sql, &client.query(sql)?);
        }
        Ok(())
    })
}

fn it_is_the_id_of_the_greeting(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let greeted = id(&client);
    assert!(greeted >= 1 << 31);
    let rows = client.rows("SELECT CONNECTION_ID(), @@pseudo_thread_id")?;
    assert_eq!(rows, [vec![Some(greeted.to_string()); 2]]);
    statements(cluster, Capabilities::default())
}

fn old_style_ends_of_results(cluster: &Cluster) -> Result<()> {
    statements(cluster, Capabilities::DEPRECATE_EOF)
}

/// The row of a binary reply as it stands in the packet, behind its header and NULL bitmap.
fn binary_row(reply: &Reply, client: &Client, columns: usize) -> Result<Vec<u8>> {
    let ends = usize::from(!client.capabilities.contains(Capabilities::DEPRECATE_EOF));
    let packets = reply.packets();
    let row = packets.get(1 + columns + ends).context("no row")?;
    Ok(row.get(1 + (columns + 9) / 8..).context("a short row")?.to_vec())
}

fn prepared_statements(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let mut client = proxy.connect(&cluster.admin())?;
    let statement = client.prepare("SELECT CONNECTION_ID(), 'x'")?;
    for _ in 0..2 {
        let reply = client.execute(&statement, 0, &[])?;
        let row = binary_row(&reply, &client, 2)?;
        let expected = match cluster.vendor {
            Vendor::MariaDb => id(&client).to_le_bytes().to_vec(),
            Vendor::MySql => u64::from(id(&client)).to_le_bytes().to_vec(),
        };
        assert_eq!(row, [&expected[..], b"\x01x"].concat());
    }
    for capabilities in [Capabilities::default(), Capabilities::DEPRECATE_EOF] {
        let login = cluster.admin().without(capabilities);
        same(cluster, &proxy, &login, |client, transcript| {
            note_id(client)?;
            let mut kept = Vec::new();
            for sql in [
                "SELECT CONNECTION_ID() = @id, connection_id() + 1, ? FROM (SELECT 1) AS t LIMIT 0",
                "SELECT CONNECTION_ID() = @id, ? AS given, @@pseudo_thread_id = @id",
                "SELECT 1, ?",
                "SELECT CONNECTION_ID(), ? FROM",
                "SELECT CONNECTION_ID(?)",
            ] {
                let statement = client.prepare(sql)?;
                transcript.add(sql, &statement.reply);
                if statement.reply.end.error.is_none() {
                    kept.push((sql, statement));
                }
            }
            for (sql, statement) in kept.iter().chain(&kept) {
                transcript.add(sql, &client.execute(statement, 0, &[Some(b"text")])?);
            }
            if cluster.vendor == Vendor::MariaDb {
                for sql in ["SELECT connection_id() = @id", "SELECT 'another'"] {
                    client.prepare(sql)?;
                    let last = [&LAST_PREPARED.to_le_bytes()[..], &[0, 1, 0, 0, 0]].concat();
                    transcript.add(sql, &client.command(CommandCode::STMT_EXECUTE, &last)?);
                }
            }
            for (_, statement) in kept {
                client.close_statement(&statement)?;
            }
            // ids of statements begin anew
            transcript.add("reset", &client.command(CommandCode::RESET_CONNECTION, b"")?);
            let statement = client.prepare("SELECT 1 AS `(a|0 )`, ?")?;
            transcript.add("other", &client.execute(&statement, 0, &[Some(b"text")])?);
            Ok(())
        })?;
    }
    Ok(())
}

fn cursors(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        note_id(client)?;
        let sql = "SELECT CONNECTION_ID() = @id FROM (SELECT 1 UNION ALL SELECT 2) AS t";
        let statement = client.prepare(sql)?;
        transcript.add("prepare", &statement.reply);
        transcript.add("execute", &client.execute(&statement, 1, &[])?);
        transcript.add("fetch", &client.fetch(&statement, 10)?);
        Ok(())
    })
}

fn several_statements_in_one(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().with(Capabilities::MULTI_STATEMENTS);
    for capabilities in [Capabilities::default(), Capabilities::DEPRECATE_EOF] {
        same(cluster, &proxy, &login.clone().without(capabilities), |client, transcript| {
            note_id(client)?;
            for sql in [
                "SELECT 1; SELECT CONNECTION_ID() = @id; DO 1; SELECT connection_id() = @id, 'x'",
                "SELECT CONNECTION_ID() LIMIT 0; SELECT CONNECTION_ID() FROM missing",
                "SELECT CONNECTION_ID() = @id, REPEAT('x', 200000); SELECT CONNECTION_ID() LIMIT 0",
                "CREATE TABLE t (a INT); SELECT CONNECTION_ID() = @id AS left_alone WHERE 1 = 0",
            ] {
                transcript.add(sql, &client.query(sql)?);
            }
            Ok(())
        })?;
    }
    Ok(())
}

fn files_of_the_client(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    let login = cluster.admin().with(Capabilities::LOCAL_FILES);
    same(cluster, &proxy, &login, |client, transcript| {
        note_id(client)?;
        client.must("CREATE TABLE t (a INT, b BIGINT UNSIGNED)")?;
        let sql = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t (a) SET b = CONNECTION_ID()";
        transcript.add(sql, &client.upload(sql, b"1\n2\n")?);
        transcript.add("rows", &client.query("SELECT a, b = @id FROM t")?);
        Ok(())
    })
}

fn an_id_of_the_clients_choice(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        note_id(client)?;
        for sql in [
            "SET pseudo_thread_id = 'x'",
            "SELECT CONNECTION_ID() = @id",
            "SET @@session.pseudo_thread_id = 77",
            "SELECT CONNECTION_ID(), @@pseudo_thread_id",
        ] {
            transcript.add(sql, &client.query(sql)?);
        }
        transcript.add("reset", &client.command(CommandCode::RESET_CONNECTION, b"")?);
        note_id(client)?;
        transcript.add("after", &client.query("SELECT CONNECTION_ID() = @id AS same")?);
        Ok(())
    })?;
    // without the privilege nothing changes
    let mut client = proxy.connect(&cluster.login("app"))?;
    let refused = client.query("SET pseudo_thread_id = 77")?;
    assert_eq!(refused.error_code(), Some(1227));
    let rows = client.rows("SELECT CONNECTION_ID()")?;
    assert_eq!(rows, [[Some(id(&client).to_string())]]);
    Ok(())
}

fn each(client: &mut Client, transcript: &mut Transcript, texts: &[&str]) -> Result<()> {
    for sql in texts {
        transcript.add(sql, &client.query(sql)?);
    }
    Ok(())
}

fn with_what_has_servers_ids_it_is_the_servers(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        each(
            client,
            transcript,
            &[
                "SELECT INFO FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()",
                "SELECT GET_LOCK('e2e_ids', 0), IS_USED_LOCK('e2e_ids') = CONNECTION_ID()",
                "SELECT COUNT(*) FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID()",
            ],
        )
    })
}

fn what_is_kept_is_the_servers(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        each(
            client,
            transcript,
            &[
                "CREATE VIEW v AS SELECT CONNECTION_ID() AS id, connection_id()",
                "SHOW CREATE VIEW v",
                "SELECT COUNT(*) FROM v WHERE id = 0",
                "CREATE PROCEDURE p() BEGIN SELECT CONNECTION_ID() < 0; END",
                "CALL p()",
                "CREATE TABLE c AS SELECT CONNECTION_ID() AS id, CONNECTION_ID()",
                "SHOW CREATE TABLE c",
            ],
        )
    })
}

fn another_user_keeps_the_id(cluster: &Cluster) -> Result<()> {
    let proxy = Proxy::start(cluster)?;
    same(cluster, &proxy, &cluster.admin(), |client, transcript| {
        for _ in 0..2 {
            client.change_user(&cluster.login("app"))?;
            note_id(client)?;
            transcript.add("id", &client.query("SELECT CONNECTION_ID() = @id")?);
        }
        Ok(())
    })
}
