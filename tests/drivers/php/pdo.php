<?php
// A session by PDO; prints all that it tells. usage: php pdo.php NAME=VALUE... (names: ../README.md)
require __DIR__ . '/common.php';

function connect(array $more = [], array $options = []): PDO
{
    global $given;
    $to = $more + $given;
    $options += [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::MYSQL_ATTR_LOCAL_INFILE => true,
        PDO::MYSQL_ATTR_COMPRESS => $given['compress'] === 'zlib',
    ];
    if ($given['tls'] === 'on') {
        $options += [PDO::MYSQL_ATTR_SSL_CA => $given['ca'], PDO::MYSQL_ATTR_SSL_VERIFY_SERVER_CERT => false];
    }
    return new PDO("mysql:host=$to[host];port=$to[port];dbname=$to[schema];charset=utf8mb4", $to['user'], $to['password'], $options);
}

function failure(PDOException $error): void
{
    echo '  error ', short($error->errorInfo ?? [$error->getCode()]), ' ', short($error->getMessage()), "\n";
}

function show(PDOStatement $result): void
{
    do {
        for ($n = 0; $n < $result->columnCount(); $n++) {
            echo '  column ', short($result->getColumnMeta($n)), "\n";
        }
        if ($result->columnCount()) {
            while ($row = $result->fetch(PDO::FETCH_NUM)) {
                echo '  row ', short($row), "\n";
            }
        }
        echo '  affected ', $result->rowCount(), "\n";
    } while ($result->nextRowset());
}

/** False when the driver cannot read the reply (mysqlnd 8.2 knows no vectors). */
function run(PDO $db, string $sql, ?array $values = null): bool
{
    echo $sql, "\n";
    try {
        if ($values === null) {
            show($db->query($sql));
        } else {
            $statement = $db->prepare($sql);
            foreach ($values as $n => $value) {
                $type = is_null($value) ? PDO::PARAM_NULL : (is_bool($value) ? PDO::PARAM_BOOL : (is_int($value) ? PDO::PARAM_INT : PDO::PARAM_STR));
                $statement->bindValue($n + 1, $value, $type);
            }
            $statement->execute();
            show($statement);
        }
        echo '  id ', $db->lastInsertId(), "\n";
    } catch (PDOException $error) {
        failure($error);
    } catch (Error $error) {
        return lost($error);
    }
    return true;
}

/** `$values` is null for the text protocol; PDO prepares all else. */
function script(?array $values): void
{
    $connect = fn () => connect([], [PDO::ATTR_EMULATE_PREPARES => $values === null]);
    $db = $connect();
    foreach (statements() as $sql) {
        if (!run($db, $sql, $values)) {
            $db = $connect(); // the old one has rows that nobody reads
        }
    }
}

function fill(PDO $db): void
{
    run($db, 'DROP TABLE IF EXISTS filled');
    run($db, FILLED);
    $insert = 'INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)';
    foreach ([...values(), values()[0]] as $row) {
        run($db, $insert, $row);
    }
    run($db, 'SELECT * FROM filled WHERE id >= ? AND (t IS NULL OR t <> ?) ORDER BY id', [1, 'nothing']);
    run($db, 'UPDATE filled SET f = f + ? WHERE id = ?', [1.5, 2]);
}

function transactions(PDO $db): void
{
    $db->beginTransaction();
    run($db, 'DELETE FROM filled');
    $db->rollBack();
    $db->setAttribute(PDO::ATTR_AUTOCOMMIT, false);
    run($db, 'DELETE FROM filled WHERE id = 3');
    $db->commit();
    $db->setAttribute(PDO::ATTR_AUTOCOMMIT, true);
    run($db, 'SELECT COUNT(*), @@autocommit FROM filled');
}

function several(PDO $db): void
{
    run($db, 'DROP PROCEDURE IF EXISTS two_results');
    run($db, PROCEDURE);
    run($db, 'CALL two_results(20, @b)');
    run($db, 'CALL two_results(?, @b)', [30]);
    run($db, 'SELECT @b');
    run($db, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3");
    run($db, 'SELECT 1; SELEC; SELECT 2');
    run($db, "SELECT 'after'");
}

function upload(PDO $db): void
{
    global $given;
    run($db, 'DROP TABLE IF EXISTS uploaded');
    run($db, UPLOADED);
    foreach ([$given['rows'], $given['rows']] as $file) {
        run($db, load($file));
        run($db, 'SHOW WARNINGS');
    }
    run($db, 'SELECT * FROM uploaded ORDER BY id');
}

function streaming(): void
{
    $total = 0;
    foreach ([true, false] as $emulated) {
        $db = connect([], [PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false, PDO::ATTR_EMULATE_PREPARES => $emulated]);
        $result = $db->prepare(NUMBERS);
        $result->execute();
        while ($row = $result->fetch(PDO::FETCH_NUM)) {
            $total += $row[0] + strlen($row[1]);
        }
        $result->execute();
        echo '  first ', short($result->fetch(PDO::FETCH_NUM)), "\n";
        $result->closeCursor();
        run($db, "SELECT 'after'");
    }
    echo "  streamed $total\n";
}

function big(PDO $db): void
{
    $value = big_value();
    echo '  sent ', digest($value), "\n";
    foreach ([true, false] as $emulated) {
        $db->setAttribute(PDO::ATTR_EMULATE_PREPARES, $emulated);
        $statement = $db->prepare('SELECT ? AS v, LENGTH(?) AS l');
        $statement->execute([$value, 'short']);
        echo '  back ', digest($statement->fetch(PDO::FETCH_NUM)[0]), "\n";
        $statement = null;
    }
}

function more(PDO $db): void
{
    foreach (['SERVER_VERSION', 'CLIENT_VERSION', 'AUTOCOMMIT'] as $name) {
        echo "  $name ", short($db->getAttribute(constant("PDO::ATTR_$name"))), "\n";
    }
    echo '  statistics ', preg_replace('/[0-9.]+/', 'N', $db->getAttribute(PDO::ATTR_SERVER_INFO)), "\n";
    echo '  quoted ', $db->quote("it's \\ \0"), "\n";
}

function refused(): void
{
    foreach ([['password' => 'wrong'], ['schema' => 'no_such_schema']] as $wrong) {
        try {
            connect($wrong);
            echo "  let in\n";
        } catch (PDOException $error) {
            failure($error);
        }
    }
}

$db = connect([], [PDO::ATTR_EMULATE_PREPARES => false]);
if ($given['steps'] === 'login') {
    run($db, 'SELECT CURRENT_USER(), DATABASE()');
    exit;
}
foreach ([null, []] as $values) {
    title($values === null ? 'script' : 'script, prepared');
    script($values);
}
foreach (['fill', 'transactions', 'several', 'upload'] as $step) {
    title($step);
    $step($db);
}
title('streaming');
streaming();
if ($big) {
    title('big');
    big($db);
}
title('more');
more($db);
title('refused');
refused();
