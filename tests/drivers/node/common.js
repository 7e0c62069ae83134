// What the sessions of both node drivers share: arguments, the script's statements, printing.
const fs = require("fs");
const crypto = require("crypto");

const given = Object.fromEntries(process.argv.slice(2).map((argument) => {
  const at = argument.indexOf("=");
  return [argument.slice(0, at), argument.slice(at + 1)];
}));
const BIG = Number(given.big);
const sha256 = (data) => crypto.createHash("sha256").update(data).digest("hex");
const digest = (value) => `${value.length} bytes ${sha256(value)}`;
const title = (text) => console.log("----", text);

// A statement ends with a semicolon at the end of a line.
const statements = () => fs.readFileSync(given.file, "utf8").split(";\n").map((part) => part.trim()).filter(Boolean);

// JSON knows neither numbers beyond 2^53 nor bytes nor dates that there are not.
function plain(value) {
  if (value === undefined) return "undefined";
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? "invalid date" : `date ${value.toISOString()}`;
  if (Buffer.isBuffer(value)) return `bytes ${value.toString("hex")}`;
  if (Array.isArray(value)) return value.map(plain);
  if (value && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, plain(v)]));
  return Object.is(value, -0) ? "-0" : value;
}

function short(value) {
  const text = JSON.stringify(plain(value));
  return text.length < 400 ? text : `${text.slice(0, 80)} ... ${text.length} ${sha256(text).slice(0, 16)}`;
}

// BIG characters in which no piece repeats soon, so that a lost or doubled packet shows.
function bigValue() {
  const pieces = [];
  for (let n = 0; n < 1 << 14; n += 1) pieces.push(sha256(String(n)));
  const block = pieces.join("");
  return block.repeat(Math.floor(BIG / block.length) + 1).slice(0, BIG);
}

function failure(error) {
  console.log("  error", error.errno, error.code, error.sqlState, short(error.sqlMessage ?? error.message));
}

const values = [
  [1, 18446744073709551615n, 1.5e300, "12345678901234.567891", "täxt 😀 ' \" \\ \0 ?", Buffer.from([...Array(256).keys()]),
    "2024-02-29", new Date(Date.UTC(2024, 1, 29, 10, 11, 12, 345)), "-12:34:00.000005", true],
  [2, 0, -0.0, "-0.000001", "", Buffer.alloc(0), "0001-01-01", "9999-12-31 23:59:59.999999", "00:00:00", false],
  [3, null, null, null, null, null, null, null, null, null],
];
const filled = "CREATE TABLE filled (id INT PRIMARY KEY, big BIGINT UNSIGNED, f DOUBLE, d DECIMAL(20,6), t VARCHAR(300), "
  + "raw BLOB, day DATE, at DATETIME(6), span TIME(6), yes BOOL)";
const numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
  + "SELECT a.i, REPEAT('s', a.i) AS s FROM n a, n b WHERE b.i <= 9 ORDER BY a.i";
const procedure = "CREATE PROCEDURE two_results(IN a INT, OUT b INT) BEGIN SELECT a AS first; "
  + "SELECT a + n AS second FROM (SELECT 1 AS n UNION SELECT 2) AS t; SET b = a * 2; END";
const load = "LOAD DATA LOCAL INFILE ? INTO TABLE uploaded CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'";

module.exports = { given, BIG, digest, title, statements, plain, short, bigValue, failure, values, filled, numbers, procedure, load };
