#!/bin/bash
# mysql-sid.sh PREFIX [testsuite]
# Puts Debian sid's MySQL (server, client, router; with "testsuite" also
# mysql-test-run) under PREFIX, as sid.sh does. PREFIX/VERSION says which.
set -euo pipefail
[ $# -ge 1 ] || { echo "usage: $0 PREFIX [testsuite]" >&2; exit 2; }
more=(); [ "${2:-}" = testsuite ] && more=(-- mysql-testsuite)
"${0%/*}/sid.sh" "$1" mysql-server-core mysql-client-core mysql-router ${more[@]+"${more[@]}"}
"$1/bin/mysqld" --no-defaults --version >&2
