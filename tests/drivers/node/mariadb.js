// A session by MariaDB's own driver; prints all that it tells. usage: node mariadb.js NAME=VALUE... (names: ../README.md)
const fs = require("fs");
const mariadb = require("mariadb");
const c = require("./common");
const { given } = c;

const settings = {
  host: given.host, port: Number(given.port), user: given.user, password: given.password, database: given.schema,
  timezone: "Z", checkDuplicate: false, multipleStatements: true, permitLocalInfile: true, metaAsArray: true,
  compress: given.compress === "zlib", allowPublicKeyRetrieval: true, prepareCacheLength: 5,
  connectTimeout: 30000,
  ssl: given.tls === "on" ? { ca: fs.readFileSync(given.ca), checkServerIdentity: () => undefined } : false,
};
const connect = (more) => mariadb.createConnection({ ...settings, ...more });

function show(rows, meta) {
  if (rows === undefined || !Array.isArray(rows)) return console.log("  ok", c.short(rows));
  if (Array.isArray(meta) && meta.some((m) => Array.isArray(m) || m === undefined)) {
    return rows.forEach((one, n) => show(one, meta[n]));
  }
  if (meta) console.log("  columns", c.short(meta.map((m) => [m.name(), m.columnType, m.columnLength, m.flags, m.scale, m.collation?.name, m.orgTable()])));
  rows.forEach((row) => console.log("  row", c.short(row)));
}

async function run(db, sql, values, how = "query") {
  console.log(sql.length < 300 ? sql : `${sql.slice(0, 300)}...`);
  try {
    const answer = await db[how]({ sql }, values);
    if (Array.isArray(answer) && answer.length === 2 && Array.isArray(answer[1])) show(...answer);
    else show(answer);
  } catch (error) {
    c.failure(error);
  }
}

async function script(how) {
  const db = await connect();
  for (const sql of c.statements()) await run(db, sql, undefined, how);
  await db.end();
}

async function values(db, how) {
  await run(db, "DROP TABLE IF EXISTS filled");
  await run(db, c.filled);
  const insert = "INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  for (const row of [...c.values, c.values[0]]) await run(db, insert, row, how);
  await run(db, "SELECT * FROM filled WHERE id >= ? AND (t IS NULL OR t <> ?) ORDER BY id", [1, "nothing"], how);
  await run(db, "SELECT ? AS a, ? AS b, ? AS c, ? AS d", [1.5, "täxt", null, Buffer.from([0, 255])], how);
  await run(db, "UPDATE filled SET f = f + ? WHERE id = ?", [1, 2], how);
}

async function batches(db) {
  const rows = [...Array(200).keys()].map((n) => [n + 100, `text é ${n}`, Buffer.alloc(n, n)]);
  await run(db, "INSERT INTO filled (id, t, raw) VALUES (?, ?, ?)", rows, "batch");
  await run(db, "INSERT INTO filled (id, t, raw) VALUES (?, ?, ?)", [[1000, "new", null], [100, "again", null]], "batch");
  await run(db, "SELECT COUNT(*) AS n, SUM(LENGTH(raw)) AS l, MAX(t) AS t FROM filled");
  await run(db, "UPDATE filled SET t = ? WHERE id = ?", [["x", 100], ["y", 101], ["z", 5000]], "batch");
  await run(db, "DELETE FROM filled WHERE id >= ?", [[1000], [100]], "batch");
}

async function transactions(db) {
  await db.beginTransaction();
  await run(db, "DELETE FROM filled");
  await db.rollback();
  await db.beginTransaction();
  await run(db, "DELETE FROM filled WHERE id = 3");
  await db.commit();
  await run(db, "SELECT COUNT(*) AS n FROM filled");
}

async function several(db) {
  await run(db, "DROP PROCEDURE IF EXISTS two_results");
  await run(db, c.procedure);
  for (const how of ["query", "execute"]) await run(db, "CALL two_results(20, @b)", undefined, how);
  await run(db, "SELECT @b AS b");
  await run(db, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3 AS d");
  await run(db, "SELECT 1; SELEC; SELECT 2");
  await run(db, "SELECT 'after' AS after_all");
}

async function upload(db) {
  await run(db, "DROP TABLE IF EXISTS uploaded");
  await run(db, "CREATE TABLE uploaded (id INT PRIMARY KEY, t VARCHAR(20)) CHARACTER SET utf8mb4");
  const load = c.load.replace("?", `'${given.rows}'`);
  for (let n = 0; n < 2; n += 1) {
    await run(db, load);
    await run(db, "SHOW WARNINGS");
  }
  await run(db, "SELECT * FROM uploaded ORDER BY id");
  await run(db, c.load.replace("?", `'${given.rows}.missing'`));
  await run(db, "SELECT 'after' AS after_all");
}

async function streaming(db) {
  let total = 0;
  for await (const row of db.queryStream(c.numbers)) total += Number(row.i) + row.s.length;
  const statement = await db.prepare(c.numbers);
  for await (const row of statement.executeStream()) total += Number(row.i) + row.s.length;
  statement.close();
  console.log("  streamed", total);
  const queued = await Promise.allSettled([db.query("SELECT 1 AS a"), db.query("BOGUS"), db.execute("SELECT ? AS b", [2]), db.ping()]);
  for (const one of queued) console.log("  queued", one.status, c.short(one.value?.[0] ?? one.reason?.sqlMessage ?? ""));
}

async function big(db, how) {
  const value = c.bigValue();
  console.log("  sent", c.digest(value));
  const [rows] = await db[how]("SELECT ? AS v, LENGTH(?) AS l", [value, "short"]);
  console.log("  back", c.digest(rows[0].v), rows[0].l);
}

async function more(db) {
  console.log("  server", db.serverVersion());
  await db.ping();
  await run(db, "SET @kept = 1");
  await db.changeUser({ user: given.user, password: given.password, database: given.schema });
  await run(db, "SELECT @kept, DATABASE()");
  await run(db, "SET @kept = 1");
  try {
    await db.reset();
  } catch (error) {
    c.failure(error);
  }
  await run(db, "SELECT @kept");
}

async function refused() {
  for (const wrong of [{ password: "wrong" }, { database: "no_such_schema" }]) {
    try {
      await (await connect(wrong)).end();
      console.log("  let in");
    } catch (error) {
      c.failure(error);
    }
  }
}

async function main() {
  const db = await connect();
  if (given.steps === "login") {
    await run(db, "SELECT CURRENT_USER() AS who, DATABASE() AS d");
    return db.end();
  }
  for (const how of ["query", "execute"]) {
    c.title(`script ${how}`);
    await script(how);
    c.title(`values ${how}`);
    await values(db, how);
  }
  for (const step of [batches, transactions, several, upload, streaming, more]) {
    c.title(step.name);
    await step(db);
  }
  if (c.BIG) for (const how of ["query", "execute"]) { c.title(`big value ${how}`); await big(db, how); }
  await db.end();
  c.title("refused");
  await refused();
}

main().catch((error) => { console.error(error); process.exitCode = 1; });
