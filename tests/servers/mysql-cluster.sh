#!/bin/bash
# mysql-cluster.sh up|down|destroy|status DIR | stop-node|start-node|kill-node DIR N
# A primary and two replicas of MySQL (GTID replication, replicas super_read_only)
# under DIR, on 127.0.0.1:BASE_PORT.. (23071..23073 unless BASE_PORT says otherwise);
# NODES=1 makes the primary alone.
# MYSQL_PREFIX names the folder that mysql-sid.sh made. Nothing outside DIR is
# written. After "up", DIR/env holds ports, users and paths for scripts to source.
set -euo pipefail
usage() { echo "usage: $0 up|down|destroy|status DIR | stop-node|start-node|kill-node DIR N" >&2; exit 2; }
[ $# -ge 2 ] || usage
CMD=$1; mkdir -p "$2"; DIR=$(cd "$2" && pwd); N=${3:-}
. "${MYSQL_PREFIX:?name the folder that mysql-sid.sh made}/env.sh"; B=$MYSQL_PREFIX/bin; R=$MYSQL_ROOT
BASE_PORT=${BASE_PORT:-23071}; NODES=${NODES:-1 2 3}
if [ -f "$DIR/base_port" ]; then read -r BASE_PORT NODES < "$DIR/base_port"; fi
REPLICAS=${NODES#1}
port() { echo $((BASE_PORT + $1 - 1)); }
sql() { "$B/mysql" --no-defaults -uroot -S "$DIR/n$1/s.sock" --batch --skip-column-names; }
say() { echo "mysql-cluster: $*"; }
[ "${#DIR}" -lt 95 ] || { echo "DIR too long for a socket path" >&2; exit 1; }
[ "$(id -u)" = 0 ] && AS_ROOT="user=root" || AS_ROOT=""

certs() { # CA, server certificate, client certificate
  [ -s "$DIR/tls/server-cert.pem" ] && return; mkdir -p "$DIR/tls"; local t=$DIR/tls n ext
  { openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=test CA" \
      -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" -keyout "$t/ca-key.pem" -out "$t/ca.pem"
    for n in server client; do
      [ $n = server ] && ext="subjectAltName=DNS:localhost,IP:127.0.0.1
extendedKeyUsage=serverAuth" || ext="extendedKeyUsage=clientAuth"
      openssl req -newkey rsa:2048 -nodes -subj "/CN=test $n" -keyout "$t/$n-key.pem" -out "$t/$n.csr"
      openssl x509 -req -in "$t/$n.csr" -CA "$t/ca.pem" -CAkey "$t/ca-key.pem" -CAcreateserial -days 3650 \
        -extfile <(echo "$ext") -out "$t/$n-cert.pem"
    done; } >"$t/openssl.log" 2>&1 || { cat "$t/openssl.log" >&2; exit 1; }
}

users() { # run once, by mysqld --initialize's init-file: all nodes get them. One statement a line.
  cat <<'SQL'
CREATE USER admin@'%' IDENTIFIED WITH caching_sha2_password BY 'adminpw';
GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;
CREATE USER repl@'%' IDENTIFIED WITH caching_sha2_password BY 'replpw';
GRANT REPLICATION SLAVE ON *.* TO repl@'%';
CREATE USER monitor@'%' IDENTIFIED WITH caching_sha2_password BY 'monitorpw';
GRANT REPLICATION CLIENT, PROCESS ON *.* TO monitor@'%';
GRANT SELECT ON performance_schema.* TO monitor@'%';
CREATE DATABASE app;
CREATE DATABASE sbtest;
CREATE USER app@'%' IDENTIFIED WITH caching_sha2_password BY 'apppw';
GRANT ALL ON app.* TO app@'%';
CREATE USER app_ro@'%' IDENTIFIED WITH caching_sha2_password BY 'ropw';
GRANT SELECT ON app.* TO app_ro@'%';
CREATE USER app_nopw@'%' IDENTIFIED WITH caching_sha2_password BY '';
GRANT ALL ON app.* TO app_nopw@'%';
CREATE USER app_ssl@'%' IDENTIFIED WITH caching_sha2_password BY 'sslpw' REQUIRE SSL;
GRANT ALL ON app.* TO app_ssl@'%';
CREATE USER app_x509@'%' IDENTIFIED WITH caching_sha2_password BY 'x509pw' REQUIRE X509;
GRANT ALL ON app.* TO app_x509@'%';
CREATE USER app_sha256@'%' IDENTIFIED WITH sha256_password BY 'sha256pw';
GRANT ALL ON app.* TO app_sha256@'%';
CREATE USER sbtest@'%' IDENTIFIED WITH caching_sha2_password BY 'sbtest';
GRANT ALL ON sbtest.* TO sbtest@'%';
SQL
}

common() { cat <<E
$AS_ROOT
basedir=$R/usr
plugin-dir=$R/usr/lib/mysql/plugin
lc-messages-dir=$R/usr/share/mysql
character-sets-dir=$R/usr/share/mysql/charsets
innodb-buffer-pool-size=48M
innodb-redo-log-capacity=32M
innodb-flush-method=nosync
innodb-flush-log-at-trx-commit=0
innodb-doublewrite=OFF
innodb-use-native-aio=OFF
table-open-cache=512
table-definition-cache=600
host-cache-size=0
innodb-log-writer-threads=OFF
temptable-max-ram=64M
innodb-buffer-pool-dump-at-shutdown=OFF
innodb-buffer-pool-load-at-startup=OFF
sync-binlog=0
performance-schema=${MYSQL_PFS:-1}
E
}
conf() { # my.cnf of node $1
  local d=$DIR/n$1
  { cat <<E
[mysqld]
datadir=$d/data
socket=$d/s.sock
pid-file=$d/pid
log-error=$d/err.log
secure-file-priv=
port=$(port "$1")
mysqlx=OFF
bind-address=127.0.0.1
skip-name-resolve
tmpdir=$d
server-id=$1
log-bin=bin
relay-log=relay
binlog-format=ROW
gtid-mode=ON
enforce-gtid-consistency=ON
report-host=127.0.0.1
report-port=$(port "$1")
replica-net-timeout=10
skip-replica-start=OFF
ssl-ca=$DIR/tls/ca.pem
ssl-cert=$DIR/tls/server-cert.pem
ssl-key=$DIR/tls/server-key.pem
local-infile=1
max-connections=1000
innodb-fast-shutdown=2
event-scheduler=OFF
back-log=512
E
  common
  [ "$1" = 1 ] || printf 'read-only=ON\nsuper-read-only=ON\n'
  echo "${MYSQL_EXTRA:-}"; } > "$d/my.cnf"
}

alive() { # by pid, and by command line: after a restart of the machine the pid may be anybody's
  local p; p=$(cat "$DIR/n$1/pid" 2>/dev/null) && [ -n "$p" ] && grep -qsaF "$DIR/n$1/my.cnf" "/proc/$p/cmdline"
}
launch() { rm -f "$DIR/n$1/pid"; setsid nohup "$B/mysqld" --defaults-file="$DIR/n$1/my.cnf" </dev/null >>"$DIR/n$1/out.log" 2>&1 & echo $! > "$DIR/n$1/launched"; }
await() { # until node $1 answers
  local i p; p=$(cat "$DIR/n$1/launched")
  for i in $(seq 600); do
    "$B/mysqladmin" --no-defaults -uroot -S "$DIR/n$1/s.sock" ping >/dev/null 2>&1 && return
    kill -0 "$p" 2>/dev/null || { echo "node $1 died:" >&2; tail -q -n 20 "$DIR/n$1/err.log" "$DIR/n$1/out.log" >&2; exit 1; }
    sleep 0.05
  done; echo "node $1 not ready in 30 s" >&2; exit 1
}
halt() { # SIGTERM, then SIGKILL after 15 s
  local p i; alive "$1" || return 0; p=$(cat "$DIR/n$1/pid"); kill "${2:--TERM}" "$p"
  for i in $(seq 300); do kill -0 "$p" 2>/dev/null || return 0; sleep 0.05; done; kill -9 "$p" 2>/dev/null || true; sleep 0.2
}
renew() { # settings that are not those of node $1 take effect with a new start
  cp "$DIR/n$1/my.cnf" "$DIR/n$1/my.cnf.old"; conf "$1"
  cmp -s "$DIR/n$1/my.cnf" "$DIR/n$1/my.cnf.old" || halt "$1"
}

case $CMD in
up)
  new=0
  if [ ! -f "$DIR/ready" ]; then
    new=1; rm -rf "$DIR"/n[1-9]; for n in $NODES; do mkdir -p "$DIR/n$n"; done; echo "$BASE_PORT $NODES" > "$DIR/base_port"
    certs & cpid=$!
    for n in $NODES; do conf "$n"; done
    users > "$DIR/users.sql"
    # the initialised data folder is kept beside the binaries: later clusters copy it
    T=$MYSQL_PREFIX/template-$(cat "$MYSQL_PREFIX/VERSION")-$( { users; common; } | cksum | cut -d' ' -f1)
    if [ ! -f "$T/done" ]; then
      rm -rf "$T"; mkdir -p "$T"; { echo "[mysqld]"; common; echo "datadir=$T/data"; } > "$T/my.cnf"
      "$B/mysqld" --defaults-file="$T/my.cnf" --initialize-insecure --log-error-verbosity=2 --skip-log-bin --init-file="$DIR/users.sql" >"$T/init.log" 2>&1 || { cat "$T/init.log" >&2; exit 1; }
      grep -E '\[ERROR\]' "$T/init.log" >&2 && exit 1
      rm -f "$T/data/auto.cnf" "$T"/data/ib_buffer_pool; : > "$T/done"
    fi
    for n in $NODES; do cp -a --reflink=auto "$T/data" "$DIR/n$n/data" & done; wait
  fi
  [ $new = 1 ] || for n in $NODES; do renew "$n"; done
  for n in $NODES; do alive "$n" || launch "$n"; done
  for n in $NODES; do await "$n"; done
  if [ $new = 1 ]; then
    for n in $REPLICAS; do sql "$n" <<SQL
CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT=$(port 1), SOURCE_USER='repl', SOURCE_PASSWORD='replpw',
  SOURCE_AUTO_POSITION=1, SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=100000, SOURCE_SSL=1, SOURCE_SSL_CA='$DIR/tls/ca.pem';
START REPLICA;
SQL
    done
    {
      echo "KIND=mysql"; echo "VERSION='$(echo 'select version()' | sql 1)'"
      echo "HOST=127.0.0.1"; for n in $NODES; do echo "PORT$n=$(port "$n")"; echo "SOCKET$n=$DIR/n$n/s.sock"; done
      echo "TLS_CA=$DIR/tls/ca.pem TLS_CERT=$DIR/tls/client-cert.pem TLS_KEY=$DIR/tls/client-key.pem"
      echo "USERS='admin:adminpw app:apppw app_ro:ropw app_nopw: app_ssl:sslpw app_x509:x509pw app_sha256:sha256pw monitor:monitorpw repl:replpw sbtest:sbtest'"
    } > "$DIR/env"
    # one write, seen on both replicas, is the proof of readiness
    echo "CREATE TABLE app.cluster_ready(i INT PRIMARY KEY); INSERT INTO app.cluster_ready VALUES(1);" | sql 1
    g=$(echo "SELECT @@global.gtid_executed" | sql 1 | tr -d '\n\\')
    for n in $REPLICAS; do
      r=$(echo "SELECT WAIT_FOR_EXECUTED_GTID_SET('$g', 20)" | sql "$n")
      [ "$r" = 0 ] || { echo "replica $n does not follow:" >&2; echo 'SHOW REPLICA STATUS\G' | "$B/mysql" --no-defaults -uroot -S "$DIR/n$n/s.sock" >&2; exit 1; }
    done
    : > "$DIR/ready"
  fi
  say "up: $(echo 'select version()' | sql 1) primary 127.0.0.1:$(port 1), replicas$(for n in $REPLICAS; do printf ' %s' "$(port "$n")"; done); source $DIR/env" ;;
down) # replicas first: mysqld waits up to 8 s for the dump threads of connected replicas
  for n in $REPLICAS; do halt "$n" & done; wait; halt 1; say down ;;
destroy) for n in $NODES; do halt "$n" -KILL & done; wait; rm -rf "$DIR"/n[1-9] "$DIR"/tls "$DIR"/{env,ready,users.sql,base_port}; rmdir "$DIR" 2>/dev/null || true; say destroyed ;;
status) for n in $NODES; do if alive "$n"; then say "node $n pid $(cat "$DIR/n$n/pid") port $(port "$n") read_only=$(echo 'select @@read_only' | sql "$n") gtid=$(echo 'select @@global.gtid_executed' | sql "$n")"; else say "node $n down"; fi; done ;;
stop-node) halt "$N" ;;
kill-node) halt "$N" -KILL ;;
start-node) alive "$N" || launch "$N"; await "$N" ;;
*) usage ;;
esac
