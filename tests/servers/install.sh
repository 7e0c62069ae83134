#!/bin/bash
# install.sh [PACKAGE...]   the Debian packages that the test bed needs, and those named.
# No service is started, whatever init the machine has: mariadb-server-core and
# -client-core have no maintainer scripts at all; for those that do (haproxy) a policy-rc.d
# that says no stands for the time of the install, if the machine has none. Needs root.
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive
PACKAGES=(mariadb-server-core mariadb-client-core openssl sysbench haproxy "$@")
missing=()
for p in "${PACKAGES[@]}"; do
  dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing+=("$p")
done
[ ${#missing[@]} = 0 ] && exit 0
[ "$(id -u)" = 0 ] || { echo "not root; as root: apt-get install --no-install-recommends ${missing[*]}" >&2; exit 1; }
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
  chmod +x /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
APT=(apt-get -qq -o DPkg::Lock::Timeout=300 -o Acquire::Retries=5)
"${APT[@]}" update
"${APT[@]}" -y --no-install-recommends install "${missing[@]}"
