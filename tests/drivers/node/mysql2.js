// A session by mysql2; prints all that the driver tells. usage: node mysql2.js NAME=VALUE... (names: ../README.md)
const fs = require("fs");
const mysql = require("mysql2/promise");
const c = require("./common");
const { given } = c;

const settings = {
  host: given.host, port: Number(given.port), user: given.user, password: given.password, database: given.schema,
  charset: "utf8mb4_unicode_ci", timezone: "Z", supportBigNumbers: true, bigNumberStrings: true, multipleStatements: true,
  flags: ["+LOCAL_FILES"], compress: given.compress === "zlib", connectTimeout: 30000,
  enableCleartextPlugin: given.cleartext === "on",
  infileStreamFactory: (path) => fs.createReadStream(path),
  ssl: given.tls === "on" ? { ca: fs.readFileSync(given.ca) } : undefined,
};
const connect = (more) => mysql.createConnection({ ...settings, ...more });

function show(rows, fields) {
  const header = (r) => c.short({ affected: r.affectedRows, id: r.insertId, info: r.info, status: r.serverStatus,
    warnings: r.warningStatus, changed: r.changedRows });
  if (!Array.isArray(rows)) return console.log("  ok", header(rows));
  if (Array.isArray(fields) && fields.some((f) => f === undefined || Array.isArray(f))) {
    return rows.forEach((one, n) => show(one, fields[n]));
  }
  console.log("  columns", c.short(fields.map((f) => [f.name, f.columnType, f.columnLength, f.flags, f.decimals, f.characterSet, f.orgTable])));
  rows.forEach((row) => console.log("  row", c.short(row)));
}

async function run(db, sql, values, how = "query") {
  console.log(sql.length < 300 ? sql : `${sql.slice(0, 300)}...`);
  try {
    const [rows, fields] = await db[how](sql, values);
    show(rows, fields);
  } catch (error) {
    c.failure(error);
  }
}

async function script(how) {
  const db = await connect();
  for (const sql of c.statements()) await run(db, sql, [], how);
  await db.end();
}

async function values(db, how) {
  await run(db, "DROP TABLE IF EXISTS filled");
  await run(db, c.filled);
  const insert = "INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  for (const row of [...c.values, c.values[0]]) await run(db, insert, row.map((v) => (typeof v === "bigint" ? String(v) : v)), how);
  await run(db, "SELECT * FROM filled WHERE id >= ? AND (t IS NULL OR t <> ?) ORDER BY id", [1, "nothing"], how);
  await run(db, "SELECT ? AS a, ? AS b, ? AS c, ? AS d", [1.5, "täxt", null, Buffer.from([0, 255])], how);
  await run(db, "UPDATE filled SET f = f + ? WHERE id = ?", [1, 2], how);
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
  for (const how of ["query", "execute"]) await run(db, "CALL two_results(20, @b)", [], how);
  await run(db, "SELECT @b AS b");
  await run(db, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3 AS d");
  await run(db, "SELECT 1; SELEC; SELECT 2");
  await run(db, "SELECT 'after' AS after_all");
}

async function upload(db) {
  await run(db, "DROP TABLE IF EXISTS uploaded");
  await run(db, "CREATE TABLE uploaded (id INT PRIMARY KEY, t VARCHAR(20)) CHARACTER SET utf8mb4");
  for (let n = 0; n < 2; n += 1) {
    await run(db, c.load, [given.rows]);
    await run(db, "SHOW WARNINGS");
  }
  await run(db, "SELECT * FROM uploaded ORDER BY id");
}

async function streaming(db) {
  let total = 0;
  for await (const row of db.connection.query(c.numbers).stream()) total += Number(row.i) + row.s.length;
  for await (const row of db.connection.execute(c.numbers).stream()) total += Number(row.i) + row.s.length;
  console.log("  streamed", total);
  const queued = await Promise.allSettled([db.query("SELECT 1 AS a"), db.query("BOGUS"), db.execute("SELECT ? AS b", [2]), db.ping()]);
  for (const one of queued) console.log("  queued", one.status, c.short(one.value?.[0] ?? one.reason?.sqlMessage ?? ""));
}

async function big(db, how) {
  const value = c.bigValue();
  console.log("  sent", c.digest(value));
  const [[row]] = await db[how]("SELECT ? AS v, LENGTH(?) AS l", [value, "short"]);
  console.log("  back", c.digest(row.v), row.l);
}

async function more(db) {
  await db.ping();
  await run(db, "SET @kept = 1");
  await db.changeUser({ user: given.user, password: given.password, database: given.schema });
  await run(db, "SELECT @kept, DATABASE()");
  const statement = await db.prepare("SELECT ? + 1 AS n");
  for (const n of [1, 2, "3"]) show(...await statement.execute([n]));
  await statement.close();
  if (db.reset) {
    await run(db, "SET @kept = 1");
    await db.reset();
    await run(db, "SELECT @kept");
  }
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
  for (const step of [transactions, several, upload, streaming, more]) {
    c.title(step.name);
    await step(db);
  }
  if (c.BIG) for (const how of ["query", "execute"]) { c.title(`big value ${how}`); await big(db, how); }
  await db.end();
  c.title("refused");
  await refused();
}

main().catch((error) => {
  console.error(error);
  process.exit(1); // an open connection would keep it alive
});
