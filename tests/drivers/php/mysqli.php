<?php
// A session by mysqli; prints all that it tells. usage: php mysqli.php NAME=VALUE... (names: ../README.md)
require __DIR__ . '/common.php';

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);

function connect(array $more = []): mysqli
{
    global $given;
    $to = $more + $given;
    $db = mysqli_init();
    $db->options(MYSQLI_OPT_LOCAL_INFILE, 1);
    $flags = $given['compress'] === 'zlib' ? MYSQLI_CLIENT_COMPRESS : 0;
    if ($given['tls'] === 'on') {
        $db->ssl_set(null, null, $given['ca'], null, null);
        $flags |= MYSQLI_CLIENT_SSL | MYSQLI_CLIENT_SSL_DONT_VERIFY_SERVER_CERT;
    }
    $db->real_connect($to['host'], $to['user'], $to['password'], $to['schema'], (int) $to['port'], null, $flags);
    $db->set_charset('utf8mb4');
    return $db;
}

function failure(mysqli_sql_exception $error): void
{
    echo '  error ', $error->getCode(), ' ', $error->getSqlState(), ' ', short($error->getMessage()), "\n";
}

function show(mysqli $db, mysqli_result|bool $result): void
{
    if ($result instanceof mysqli_result) {
        foreach ($result->fetch_fields() as $field) {
            unset($field->max_length); // mysqlnd's own
            echo '  column ', short((array) $field), "\n";
        }
        while ($row = $result->fetch_row()) {
            echo '  row ', short($row), "\n";
        }
        $result->free();
    }
    echo "  affected $db->affected_rows, id $db->insert_id, warnings $db->warning_count, info ", short($db->info), "\n";
}

/** False when the driver cannot read the reply (mysqlnd 8.2 knows no vectors). */
function run(mysqli $db, string $sql): bool
{
    echo $sql, "\n";
    try {
        $db->multi_query($sql);
        do {
            show($db, $db->store_result());
        } while ($db->more_results() && $db->next_result());
    } catch (mysqli_sql_exception $error) {
        failure($error);
    } catch (Error $error) {
        return lost($error);
    }
    return true;
}

/** By a prepared statement; `$cursor` asks the server to keep the rows. */
function run_prepared(mysqli $db, string $sql, array $values = [], bool $cursor = false): bool
{
    echo $sql, "\n";
    try {
        $statement = $db->prepare($sql);
        if ($cursor) {
            $statement->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
        }
        if ($values) {
            $types = implode('', array_map(fn ($v) => is_int($v) || is_bool($v) ? 'i' : (is_float($v) ? 'd' : 's'), $values));
            $statement->bind_param($types, ...$values);
        }
        $statement->execute();
        do {
            show($db, $statement->get_result());
        } while ($statement->more_results() && $statement->next_result());
        echo "  statement: affected $statement->affected_rows, id $statement->insert_id, parameters $statement->param_count\n";
        $statement->close();
    } catch (mysqli_sql_exception $error) {
        failure($error);
    } catch (Error $error) {
        return lost($error);
    }
    return true;
}

function script(string $how): void
{
    $db = connect();
    foreach (statements() as $sql) {
        if (!$how($db, $sql)) {
            $db = connect(); // the old one has rows that nobody reads
        }
    }
    $db->close();
}

function fill(mysqli $db): void
{
    run($db, 'DROP TABLE IF EXISTS filled');
    run($db, FILLED);
    $insert = 'INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)';
    foreach ([...values(), values()[0]] as $row) {
        run_prepared($db, $insert, $row);
    }
    foreach ([false, true] as $cursor) {
        run_prepared($db, 'SELECT * FROM filled WHERE id >= ? AND (t IS NULL OR t <> ?) ORDER BY id', [1, 'nothing'], $cursor);
    }
    run_prepared($db, 'UPDATE filled SET f = f + ? WHERE id = ?', [1.5, 2]);
}

function transactions(mysqli $db): void
{
    $db->begin_transaction(MYSQLI_TRANS_START_WITH_CONSISTENT_SNAPSHOT | MYSQLI_TRANS_START_READ_WRITE);
    run($db, 'DELETE FROM filled');
    $db->rollback();
    $db->autocommit(false);
    run($db, 'DELETE FROM filled WHERE id = 3');
    $db->savepoint('s');
    run($db, 'DELETE FROM filled');
    run($db, 'ROLLBACK TO SAVEPOINT s');
    $db->commit();
    $db->autocommit(true);
    run($db, 'SELECT COUNT(*), @@autocommit FROM filled');
}

function several(mysqli $db): void
{
    run($db, 'DROP PROCEDURE IF EXISTS two_results');
    run($db, PROCEDURE);
    run($db, 'CALL two_results(20, @b)');
    run_prepared($db, 'CALL two_results(?, @b)', [30]);
    run($db, 'SELECT @b');
    run($db, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3");
    run($db, 'SELECT 1; SELEC; SELECT 2');
    run($db, "SELECT 'after'");
}

function upload(mysqli $db): void
{
    global $given;
    run($db, 'DROP TABLE IF EXISTS uploaded');
    run($db, UPLOADED);
    foreach ([$given['rows'], $given['rows']] as $file) {
        run($db, load($file));
        run($db, 'SHOW WARNINGS');
    }
    run($db, 'SELECT * FROM uploaded ORDER BY id');
    run($db, load($given['rows'] . '.missing'));
    run($db, "SELECT 'after'");
}

function streaming(mysqli $db): void
{
    $total = 0;
    foreach ($db->query(NUMBERS, MYSQLI_USE_RESULT) as $row) {
        $total += $row['i'] + strlen($row['s']);
    }
    $statement = $db->prepare(NUMBERS);
    $statement->execute();
    $statement->bind_result($i, $s);
    while ($statement->fetch()) {
        $total += $i + strlen($s);
    }
    $statement->close();
    echo "  streamed $total\n";
    $unread = $db->query(NUMBERS, MYSQLI_USE_RESULT);
    echo '  first ', short($unread->fetch_row()), "\n";
    $unread->free();
    run($db, "SELECT 'after'");
}

function big(mysqli $db): void
{
    $value = big_value();
    echo '  sent ', digest($value), "\n";
    echo '  text ', digest($db->query("SELECT '$value'")->fetch_row()[0]), "\n";
    $statement = $db->prepare('SELECT ? AS v, LENGTH(?) AS l');
    $statement->execute([$value, 'short']);
    echo '  prepared ', digest($statement->get_result()->fetch_row()[0]), "\n";
    // the same in pieces, ahead of the execution
    $null = null;
    $statement->bind_param('bs', $null, $value);
    foreach (str_split(substr($value, 0, 1 << 20), 100000) as $piece) {
        $statement->send_long_data(0, $piece);
    }
    $value = 'short';
    $statement->execute();
    echo '  in pieces ', digest($statement->get_result()->fetch_row()[0]), "\n";
}

function more(mysqli $db): void
{
    global $given;
    echo "  server $db->server_info $db->server_version protocol $db->protocol_version\n";
    echo '  charset ', short((array) $db->get_charset()), "\n";
    run($db, 'SELECT 1 / 0');
    for ($warning = $db->get_warnings(); $warning; ) {
        echo "  warning $warning->errno $warning->sqlstate $warning->message\n";
        if (!$warning->next()) {
            break;
        }
    }
    $db->select_db('information_schema');
    run($db, 'SET @kept = 1');
    $db->change_user($given['user'], $given['password'], $given['schema']);
    run($db, 'SELECT @kept, DATABASE()');
    echo '  debug info ', short($db->dump_debug_info()), "\n";
    echo '  statistics ', preg_replace('/[0-9.]+/', 'N', $db->stat()), "\n";
    try {
        $db->change_user($given['user'], 'wrong', $given['schema']);
    } catch (mysqli_sql_exception $error) {
        failure($error);
    }
}

function refused(): void
{
    foreach ([['password' => 'wrong'], ['schema' => 'no_such_schema']] as $wrong) {
        try {
            connect($wrong)->close();
            echo "  let in\n";
        } catch (mysqli_sql_exception $error) {
            failure($error);
        }
    }
}

$db = connect();
if ($given['steps'] === 'login') {
    run($db, 'SELECT CURRENT_USER(), DATABASE()');
    exit;
}
if ($given['steps'] === 'big') {
    big($db);
    exit;
}
foreach (['run', 'run_prepared'] as $how) {
    title("script $how");
    script($how);
}
foreach (['fill', 'transactions', 'several', 'upload', 'streaming'] as $step) {
    title($step);
    $step($db);
}
if ($big) {
    title('big');
    big($db);
}
title('more');
more($db);
title('refused');
refused();
