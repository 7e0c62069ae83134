#!/usr/bin/perl
# A session by DBD::mysql or DBD::MariaDB; prints all that it tells.
# usage: session.pl mysql|MariaDB NAME=VALUE...   (names: ../README.md)
use strict;
use warnings;
use utf8;
use DBI qw(:sql_types);
use Digest::SHA qw(sha256_hex);
use Encode qw(encode_utf8);

binmode STDOUT, ':raw';
my $driver = shift @ARGV;
my %given = map { split /=/, $_, 2 } @ARGV;
my $prefix = lc $driver; # of the driver's own attributes
my $numbers = "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 900) "
  . "SELECT a.i, REPEAT('s', a.i) AS s FROM n a, n b WHERE b.i <= 9 ORDER BY a.i";

sub say_out { print map { utf8::is_utf8($_) ? encode_utf8($_) : $_ } @_, "\n" }
sub title { say_out "---- @_" }

# A value's text; of a long one its beginning, its length and a hash.
sub short {
  my ($value) = @_;
  return 'undef' unless defined $value;
  return '[' . join(', ', map { short($_) } @$value) . ']' if ref $value eq 'ARRAY';
  my $bytes = utf8::is_utf8($value) ? encode_utf8($value) : $value;
  (my $text = $bytes) =~ s/([\x00-\x1f\\])/sprintf '\\x%02x', ord $1/ge;
  return $text if length $text < 400;
  return substr($text, 0, 80) . ' ... ' . length($text) . ' ' . substr(sha256_hex($text), 0, 16);
}

sub digest { my $bytes = utf8::is_utf8($_[0]) ? encode_utf8($_[0]) : $_[0]; length($bytes) . ' bytes ' . sha256_hex($bytes) }

# $given{big} characters in which no piece repeats soon, so that a lost or doubled packet shows.
sub big_value {
  my $block = join '', map { sha256_hex($_) } 0 .. (1 << 14) - 1;
  return substr $block x (int($given{big} / length $block) + 1), 0, $given{big};
}

# A statement ends with a semicolon at the end of a line.
sub statements {
  open my $file, '<:encoding(UTF-8)', $given{file} or die "$given{file}: $!";
  local $/;
  return grep { length } map { s/^\s+|\s+$//gr } split /;\n/, <$file>;
}

sub connection {
  my (%more) = @_;
  my %to = (%given, %more);
  my $source = "DBI:$driver:database=$to{schema};host=$to{host};port=$to{port};${prefix}_local_infile=1;${prefix}_multi_statements=1";
  $source .= ";${prefix}_compression=1" if $to{compress} eq 'zlib';
  $source .= ";${prefix}_ssl=1;${prefix}_ssl_ca_file=$to{ca};${prefix}_ssl_verify_server_cert=0" if $to{tls} eq 'on';
  # without a check of the proxy's name they do not insist on TLS; a server that requires it shows that it is used
  $source .= ";${prefix}_ssl_optional=1" if $to{tls} eq 'on';
  my %options = (RaiseError => 0, PrintError => 0, AutoCommit => 1);
  $options{mysql_enable_utf8mb4} = 1 if $driver eq 'mysql';
  $options{"${prefix}_server_prepare"} = $to{prepare} ? 1 : 0;
  return DBI->connect($source, $to{user}, $to{password}, \%options);
}

sub failure { say_out '  error ', $_[0]->err, ' ', $_[0]->state, ' ', short($_[0]->errstr) }

sub show {
  my ($db, $statement) = @_;
  while (1) {
    if ($statement->{NUM_OF_FIELDS}) {
      for my $name (qw(NAME TYPE PRECISION SCALE NULLABLE), map { "${prefix}_$_" } qw(type_name length is_blob is_key is_auto_increment table)) {
        my $values = $statement->{$name};
        say_out "  $name ", short([map { $_ // 'undef' } @{ $values // [] }]);
      }
      while (my $row = $statement->fetchrow_arrayref) { say_out '  row ', short($row) }
      failure($statement) if $statement->err;
    }
    say_out '  affected ', $statement->rows, ', warnings ', $statement->{"${prefix}_warning_count"} // 'undef',
      ', id ', $statement->{"${prefix}_insertid"} // 'undef', ', info ', short($db->{"${prefix}_info"});
    last unless $statement->more_results;
  }
}

sub run {
  my ($db, $sql, @values) = @_;
  say_out length $sql < 300 ? $sql : substr($sql, 0, 300) . '...';
  my $statement = $db->prepare($sql) or return failure($db);
  for my $n (1 .. @values) {
    my $value = $values[$n - 1];
    my @type = ref $value ? ($value->[0], $value->[1]) : ($value, SQL_VARCHAR);
    $statement->bind_param($n, @type);
  }
  $statement->execute or return failure($statement);
  show($db, $statement);
  $statement->finish;
}

sub script {
  my ($prepare) = @_;
  my $db = connection(prepare => $prepare);
  run($db, $_) for statements();
  $db->disconnect;
}

sub values_of_all_types {
  my ($prepare) = @_;
  my $db = connection(prepare => $prepare);
  run($db, 'DROP TABLE IF EXISTS filled');
  run($db, 'CREATE TABLE filled (id INT PRIMARY KEY, big BIGINT UNSIGNED, f DOUBLE, d DECIMAL(20,6), t VARCHAR(300), '
    . 'raw BLOB, day DATE, at DATETIME(6), span TIME(6), yes BOOL)');
  my $insert = 'INSERT INTO filled VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)';
  my @rows = (
    [[1, SQL_INTEGER], '18446744073709551615', [1.5e300, SQL_DOUBLE], '12345678901234.567891', "täxt 😀 ' \" \\ \0 ?",
      [join('', map { chr } 0 .. 255), SQL_BLOB], '2024-02-29', '2024-02-29 10:11:12.345678', '-12:34:00.000005', [1, SQL_INTEGER]],
    [[2, SQL_INTEGER], [0, SQL_BIGINT], [-0.5, SQL_DOUBLE], '-0.000001', '', ['', SQL_BLOB], '0001-01-01', '9999-12-31 23:59:59.999999', '00:00:00', [0, SQL_INTEGER]],
    [[3, SQL_INTEGER], (undef) x 9],
  );
  run($db, $insert, @$_) for @rows, $rows[0];
  run($db, 'SELECT * FROM filled WHERE id >= ? AND (t IS NULL OR t <> ?) ORDER BY id', [1, SQL_INTEGER], 'nothing');
  run($db, 'UPDATE filled SET f = f + ? WHERE id = ?', [1.5, SQL_DOUBLE], [2, SQL_INTEGER]);
  $db->disconnect;
}

sub transactions {
  my ($db) = @_;
  $db->begin_work;
  run($db, 'DELETE FROM filled');
  $db->rollback;
  $db->{AutoCommit} = 0;
  run($db, 'DELETE FROM filled WHERE id = 3');
  $db->commit;
  $db->{AutoCommit} = 1;
  run($db, 'SELECT COUNT(*), @@autocommit FROM filled');
}

sub several {
  my ($db) = @_;
  run($db, 'DROP PROCEDURE IF EXISTS two_results');
  run($db, 'CREATE PROCEDURE two_results(IN a INT, OUT b INT) BEGIN SELECT a AS first; '
    . 'SELECT a + n AS second FROM (SELECT 1 AS n UNION SELECT 2) AS t; SET b = a * 2; END');
  run($db, 'CALL two_results(20, @b)');
  run($db, 'SELECT @b');
  run($db, "SELECT 1 AS a; SELECT 'b' AS b, 2 AS c; DO 1; SELECT 3");
  run($db, 'SELECT 1; SELEC; SELECT 2');
  run($db, "SELECT 'after'");
}

sub upload {
  my ($db) = @_;
  run($db, 'DROP TABLE IF EXISTS uploaded');
  run($db, 'CREATE TABLE uploaded (id INT PRIMARY KEY, t VARCHAR(20)) CHARACTER SET utf8mb4');
  for my $file ($given{rows}, $given{rows}, "$given{rows}.missing") {
    run($db, "LOAD DATA LOCAL INFILE '$file' INTO TABLE uploaded CHARACTER SET utf8mb4 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '\"'");
    run($db, 'SHOW WARNINGS');
  }
  run($db, 'SELECT * FROM uploaded ORDER BY id');
}

sub streaming {
  my $total = 0;
  for my $prepare (0, 1) {
    my $db = connection(prepare => $prepare);
    $db->{"${prefix}_use_result"} = 1 unless $prepare;
    my $statement = $db->prepare($numbers);
    $statement->execute;
    while (my $row = $statement->fetchrow_arrayref) { $total += $row->[0] + length $row->[1] }
    $statement->execute;
    say_out '  first ', short($statement->fetchrow_arrayref);
    $statement->finish;
    run($db, "SELECT 'after'");
    $db->disconnect;
  }
  say_out "  streamed $total";
}

sub big {
  my $value = big_value();
  say_out '  sent ', digest($value);
  for my $prepare (0, 1) {
    my $db = connection(prepare => $prepare);
    my $row = $db->selectrow_arrayref('SELECT ? AS v, LENGTH(?) AS l', { "${prefix}_server_prepare" => $prepare }, $value, 'short');
    say_out '  back ', $row ? digest($row->[0]) : $db->errstr;
    $db->disconnect;
  }
}

sub more {
  my ($db) = @_;
  say_out "  $_ ", short($db->{"${prefix}_$_"}) for qw(serverinfo serverversion protoinfo);
  say_out '  ping ', $db->ping, ' quoted ', $db->quote("it's \\ \0");
  (my $statistics = $db->{"${prefix}_stat"}) =~ s/[0-9.]+/N/g;
  say_out "  statistics $statistics";
}

sub refused {
  for my $wrong ([password => 'wrong'], [schema => 'no_such_schema']) {
    say_out connection(@$wrong) ? '  let in' : "  error $DBI::err " . ($DBI::state || '') . " $DBI::errstr";
  }
}

my $db = connection(prepare => 0) or die "$DBI::err $DBI::errstr\n";
if ($given{steps} eq 'login') {
  run($db, 'SELECT CURRENT_USER(), DATABASE()');
  $db->disconnect;
  exit;
}
for my $prepare (0, 1) {
  title "script, prepared $prepare";
  script($prepare);
  title "values, prepared $prepare";
  values_of_all_types($prepare);
}
title 'transactions'; transactions($db);
title 'several'; several($db);
title 'upload'; upload($db);
title 'streaming'; streaming();
if ($given{big} > 0) { title 'big'; big() }
title 'more'; more($db);
$db->disconnect;
title 'refused'; refused();
