<?php
// What the sessions of both PHP drivers share: arguments, the script's statements, printing.
error_reporting(E_ALL);
ini_set('display_errors', 'stderr');
ini_set('memory_limit', '-1');
ini_set('mysqli.allow_local_infile', '1');
ini_set('serialize_precision', '17');

$given = [];
foreach (array_slice($argv, 1) as $argument) {
    [$name, $value] = explode('=', $argument, 2);
    $given[$name] = $value;
}
$big = (int) $given['big'];

const FILLED = 'CREATE TABLE filled (id INT PRIMARY KEY, big BIGINT UNSIGNED, f DOUBLE, d DECIMAL(20,6), t VARCHAR(300), '
    . 'raw BLOB, day DATE, at DATETIME(6), span TIME(6), yes BOOL)';
const NUMBERS = 'WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) '
    . "SELECT a.i, REPEAT('s', a.i) AS s FROM n a, n b WHERE b.i <= 9 ORDER BY a.i";
const PROCEDURE = 'CREATE PROCEDURE two_results(IN a INT, OUT b INT) BEGIN SELECT a AS first; '
    . 'SELECT a + n AS second FROM (SELECT 1 AS n UNION SELECT 2) AS t; SET b = a * 2; END';
const UPLOADED = 'CREATE TABLE uploaded (id INT PRIMARY KEY, t VARCHAR(20)) CHARACTER SET utf8mb4';

function load(string $file): string
{
    return "LOAD DATA LOCAL INFILE '$file' INTO TABLE uploaded CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'";
}

function title(string $text): void
{
    echo "---- $text\n";
}

/** A statement ends with a semicolon at the end of a line. */
function statements(): array
{
    global $given;
    return array_filter(array_map('trim', explode(";\n", file_get_contents($given['file']))));
}

/** A value's text; of a long one its beginning, its length and a hash. */
function short(mixed $value): string
{
    $text = is_array($value)
        ? '[' . implode(', ', array_map(fn ($k, $v) => "$k: " . short($v), array_keys($value), $value)) . ']'
        : (is_string($value) ? '"' . addcslashes($value, "\0..\37\"\\\177") . '"' : var_export($value, true));
    return strlen($text) < 400 ? $text : substr($text, 0, 80) . ' ... ' . strlen($text) . ' ' . substr(hash('sha256', $text), 0, 16);
}

/** $big characters in which no piece repeats soon, so that a lost or doubled packet shows. */
function big_value(): string
{
    global $big;
    $block = '';
    for ($n = 0; $n < 1 << 14; $n++) {
        $block .= hash('sha256', (string) $n);
    }
    return substr(str_repeat($block, intdiv($big, strlen($block)) + 1), 0, $big);
}

/** The driver itself is at its end. */
function lost(Error $error): bool
{
    echo '  ', get_class($error), ' ', $error->getMessage() === '' ? '' : strtok($error->getMessage(), ','), "\n";
    return false;
}

function digest(string $value): string
{
    return strlen($value) . ' bytes ' . hash('sha256', $value);
}

function values(): array
{
    return [
        [1, '18446744073709551615', 1.5e300, '12345678901234.567891', "täxt 😀 ' \" \\ \0 ?", implode('', array_map('chr', range(0, 255))),
            '2024-02-29', '2024-02-29 10:11:12.345678', '-12:34:00.000005', true],
        [2, 0, -0.0, '-0.000001', '', '', '0001-01-01', '9999-12-31 23:59:59.999999', '00:00:00', false],
        [3, null, null, null, null, null, null, null, null, null],
    ];
}
