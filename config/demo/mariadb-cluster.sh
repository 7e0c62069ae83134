#!/bin/bash
# mariadb-cluster.sh up|down|destroy|status|stop-node N|start-node N|kill-node N  DIR
# A primary and two replicas of MariaDB (GTID replication, replicas read_only)
# under DIR, on 127.0.0.1:BASE_PORT..BASE_PORT+2 (23061..23063 unless BASE_PORT
# says otherwise); NODES=1 makes the primary alone. Nothing outside DIR is read or written: no system service,
# no /etc/mysql. Needs the programs mariadbd, mariadb-install-db, mariadb
# (packages mariadb-server-core, mariadb-client-core: no service comes with them) and openssl.
# After "up", DIR/env holds ports, users and paths for scripts to source.
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin
usage() { echo "usage: $0 up|down|destroy|status DIR | stop-node|start-node|kill-node DIR N" >&2; exit 2; }
[ $# -ge 2 ] || usage
CMD=$1; mkdir -p "$2"; DIR=$(cd "$2" && pwd); N=${3:-}
BASE_PORT=${BASE_PORT:-23061}; NODES=${NODES:-1 2 3}
if [ -f "$DIR/base_port" ]; then read -r BASE_PORT NODES < "$DIR/base_port"; fi
REPLICAS=${NODES#1}
PLUGINS=${MARIADB_PLUGIN_DIR:-/usr/lib/mysql/plugin}
port() { echo $((BASE_PORT + $1 - 1)); }
sql() { mariadb --no-defaults -uroot -S "$DIR/n$1/s.sock" --batch --skip-column-names; }
say() { echo "mariadb-cluster: $*"; }
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

users() { # run once, inside mariadb-install-db, before replication exists: all nodes get them
  cat <<'SQL'
FLUSH PRIVILEGES;
CREATE USER admin@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('adminpw');
GRANT ALL ON *.* TO admin@'%' WITH GRANT OPTION;
CREATE USER repl@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('replpw');
GRANT REPLICATION SLAVE ON *.* TO repl@'%';
CREATE USER monitor@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('monitorpw');
GRANT REPLICATION CLIENT, REPLICA MONITOR, PROCESS ON *.* TO monitor@'%';
CREATE DATABASE app;
CREATE DATABASE sbtest;
CREATE USER app@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('apppw');
GRANT ALL ON app.* TO app@'%';
CREATE USER app_ro@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('ropw');
GRANT SELECT ON app.* TO app_ro@'%';
CREATE USER app_nopw@'%';
GRANT ALL ON app.* TO app_nopw@'%';
CREATE USER app_ssl@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('sslpw') REQUIRE SSL;
GRANT ALL ON app.* TO app_ssl@'%';
CREATE USER app_x509@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('x509pw') REQUIRE X509;
GRANT ALL ON app.* TO app_x509@'%';
CREATE USER sbtest@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('sbtest');
GRANT ALL ON sbtest.* TO sbtest@'%';
SQL
  [ -f "$PLUGINS/auth_ed25519.so" ] && cat <<'SQL'
INSTALL SONAME 'auth_ed25519';
CREATE USER app_ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('edpw');
GRANT ALL ON app.* TO app_ed@'%';
SQL
  [ -f "$PLUGINS/auth_parsec.so" ] && cat <<'SQL'
INSTALL SONAME 'auth_parsec';
CREATE USER app_parsec@'%' IDENTIFIED VIA parsec USING PASSWORD('parsecpw');
GRANT ALL ON app.* TO app_parsec@'%';
SQL
  true
}

conf() { # my.cnf of node $1
  local d=$DIR/n$1
  cat > "$d/my.cnf" <<E
[mariadbd]
$AS_ROOT
datadir=$d/data
socket=$d/s.sock
pid-file=$d/pid
log-error=$d/err.log
port=$(port "$1")
bind-address=127.0.0.1
skip-name-resolve
plugin-dir=$PLUGINS
tmpdir=$d
server-id=$1
log-bin=bin
relay-log=relay
binlog-format=ROW
log-slave-updates
gtid-strict-mode=1
gtid-domain-id=0
report-host=127.0.0.1
report-port=$(port "$1")
slave-net-timeout=10
ssl-ca=$DIR/tls/ca.pem
ssl-cert=$DIR/tls/server-cert.pem
ssl-key=$DIR/tls/server-key.pem
local-infile=1
max-connections=1000
back-log=512
max-allowed-packet=64M
innodb-buffer-pool-size=48M
innodb-log-file-size=32M
innodb-flush-method=nosync
innodb-flush-log-at-trx-commit=0
innodb-doublewrite=0
innodb-buffer-pool-dump-at-shutdown=0
innodb-buffer-pool-load-at-startup=0
sync-binlog=0
sync-master-info=0
sync-relay-log=0
sync-relay-log-info=0
performance-schema=${MARIADB_PFS:-0}
aria-pagecache-buffer-size=8M
key-buffer-size=8M
${MARIADB_EXTRA:-}
E
  [ "$1" = 1 ] || echo "read-only=1" >> "$d/my.cnf"
}

alive() { # by pid, and by command line: after a restart of the machine the pid may be anybody's
  local p; p=$(cat "$DIR/n$1/pid" 2>/dev/null) && [ -n "$p" ] && grep -qsaF "$DIR/n$1/my.cnf" "/proc/$p/cmdline"
}
launch() { rm -f "$DIR/n$1/pid"; setsid nohup mariadbd --defaults-file="$DIR/n$1/my.cnf" </dev/null >>"$DIR/n$1/out.log" 2>&1 & echo $! > "$DIR/n$1/launched"; }
await() { # until node $1 answers
  local i p; p=$(cat "$DIR/n$1/launched")
  for i in $(seq 600); do
    mariadb --no-defaults -uroot -S "$DIR/n$1/s.sock" -e "DO 1" >/dev/null 2>&1 && return
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
    # a tmpdir of its own: a server that starts removes the temporary tables it finds in its tmpdir, whose they are
    mariadb-install-db --no-defaults ${AS_ROOT:+--user=root} --datadir="$DIR/n1/data" --tmpdir="$DIR/n1" --plugin-dir="$PLUGINS" \
      --auth-root-authentication-method=normal --skip-test-db --skip-name-resolve --force --extra-file="$DIR/users.sql" \
      --innodb-flush-method=nosync --innodb-log-file-size=32M --innodb-buffer-pool-size=48M --innodb-doublewrite=0 \
      --innodb-flush-log-at-trx-commit=0 --sync-frm=0 >"$DIR/install.log" 2>&1 ||
      { cat "$DIR/install.log" >&2; exit 1; }
    grep -E '^ERROR|ERROR [0-9]+ ' "$DIR/install.log" >&2 && exit 1
    for n in $REPLICAS; do cp -a "$DIR/n1/data" "$DIR/n$n/data"; done
    wait $cpid
  fi
  [ $new = 1 ] || for n in $NODES; do renew "$n"; done
  for n in $NODES; do alive "$n" || launch "$n"; done
  for n in $NODES; do await "$n"; done
  if [ $new = 1 ]; then
    for n in $REPLICAS; do sql "$n" <<SQL
SET GLOBAL gtid_slave_pos='';
CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=$(port 1), MASTER_USER='repl', MASTER_PASSWORD='replpw',
  MASTER_USE_GTID=slave_pos, MASTER_CONNECT_RETRY=1, MASTER_SSL=1, MASTER_SSL_CA='$DIR/tls/ca.pem';
START SLAVE;
SQL
    done
    {
      echo "KIND=mariadb"; echo "VERSION='$(echo 'select version()' | sql 1)'"
      echo "HOST=127.0.0.1"; for n in $NODES; do echo "PORT$n=$(port "$n")"; echo "SOCKET$n=$DIR/n$n/s.sock"; done
      echo "TLS_CA=$DIR/tls/ca.pem TLS_CERT=$DIR/tls/client-cert.pem TLS_KEY=$DIR/tls/client-key.pem"
      echo "USERS='admin:adminpw app:apppw app_ro:ropw app_nopw: app_ssl:sslpw app_x509:x509pw app_ed:edpw app_parsec:parsecpw monitor:monitorpw repl:replpw sbtest:sbtest'"
    } > "$DIR/env"
    # one write, seen on both replicas, is the proof of readiness
    echo "CREATE TABLE app.cluster_ready(i INT PRIMARY KEY); INSERT INTO app.cluster_ready VALUES(1);" | sql 1
    g=$(echo "SELECT @@gtid_binlog_pos" | sql 1)
    for n in $REPLICAS; do
      r=$(echo "SELECT MASTER_GTID_WAIT('$g', 20)" | sql "$n")
      [ "$r" = 0 ] || { echo "replica $n does not follow:" >&2; echo 'SHOW SLAVE STATUS\G' | mariadb --no-defaults -uroot -S "$DIR/n$n/s.sock" >&2; exit 1; }
    done
    : > "$DIR/ready"
  fi
  say "up: $(echo 'select version()' | sql 1) primary 127.0.0.1:$(port 1), replicas$(for n in $REPLICAS; do printf ' %s' "$(port "$n")"; done); source $DIR/env" ;;
down) for n in $NODES; do halt "$n" & done; wait; say down ;;
destroy) for n in $NODES; do halt "$n" -KILL & done; wait; rm -rf "$DIR"/n[1-9] "$DIR"/tls "$DIR"/{env,ready,users.sql,install.log,base_port}; rmdir "$DIR" 2>/dev/null || true; say destroyed ;;
status) for n in $NODES; do if alive "$n"; then say "node $n pid $(cat "$DIR/n$n/pid") port $(port "$n") read_only=$(echo 'select @@read_only' | sql "$n") gtid=$(echo 'select @@gtid_current_pos' | sql "$n")"; else say "node $n down"; fi; done ;;
stop-node) halt "$N" ;;
kill-node) halt "$N" -KILL ;;
start-node) alive "$N" || launch "$N"; await "$N" ;;
*) usage ;;
esac
