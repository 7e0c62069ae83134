#!/bin/bash
# mariadb-sid.sh PREFIX
# Puts Debian sid's MariaDB (server and client with their plugins) under PREFIX,
# as sid.sh does, for what Debian's stable one has not: parsec. With PREFIX/bin
# in front of PATH, and MARIADB_PLUGIN_DIR=PREFIX/plugin, mariadb-cluster.sh
# starts this one.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 PREFIX" >&2; exit 2; }
"${0%/*}/sid.sh" "$1" mariadb-server-core mariadb-client-core -- mariadb-server
PREFIX=$(cd "$1" && pwd); R=$PREFIX/root; B=$PREFIX/bin
clients=$(echo "$R"/usr/lib/*/libmariadb3/plugin)
# wrap NAME VARIABLES PROGRAM ARGUMENTS   PREFIX/bin/NAME: its own files, and not those of the machine's MariaDB
wrap() { rm -f "$B/$1"; printf '#!/bin/sh\n%s exec %s "$@" %s\n' "$2" "$3" "$4" > "$B/$1"; chmod +x "$B/$1"; }
wrap mariadbd '' "$R/usr/sbin/mariadbd" "--basedir=$R/usr"
wrap mariadb-install-db '' "$R/usr/bin/mariadb-install-db" "--basedir=$R/usr"
wrap mariadb "MARIADB_PLUGIN_DIR=$clients" "$R/usr/bin/mariadb" "--character-sets-dir=$R/usr/share/mysql/charsets"
ln -sfn "$R/usr/lib/mysql/plugin" "$PREFIX/plugin"
"$B/mariadbd" --no-defaults --version >&2
