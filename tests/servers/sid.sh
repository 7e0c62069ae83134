#!/bin/bash
# sid.sh PREFIX PACKAGE... [-- PACKAGE...]
# Puts packages of Debian sid and the libraries they need, glibc included, under
# PREFIX on an older Debian, touching nothing else on the machine. Those after
# "--" come without what they depend on. PREFIX/bin/* are wrappers that run the
# binaries through the prefix's own ld.so. Takes whatever version sid has and
# writes that of the first package to PREFIX/VERSION. Debian packages already in
# PREFIX/debs are reused. Needs: apt, dpkg-deb. No root needed.
set -euo pipefail
[ $# -ge 2 ] || { echo "usage: $0 PREFIX PACKAGE... [-- PACKAGE...]" >&2; exit 2; }
mkdir -p "$1"; PREFIX=$(cd "$1" && pwd); shift
pkgs=(); while [ $# -gt 0 ] && [ "$1" != -- ]; do pkgs+=("$1"); shift; done
[ $# = 0 ] || shift
alone=("$@")
SUITES=${MYSQL_SUITES:-sid testing} # the first whose packages install is taken
ARCH=$(dpkg --print-architecture)
say() { echo "sid: $*" >&2; }
t0=$(date +%s.%N); lap() { awk -v a="$t0" -v b="$(date +%s.%N)" 'BEGIN{printf "%.1f s", b-a}'; }

# 1. the mirror: the machine's own URI for this release's main archive
code=$(. /etc/os-release; echo "${VERSION_CODENAME}")
uri=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(IDENTIFIER)' |
      awk -v c="$code" '$2==c && $3=="main" && $4=="Packages" {print $1; exit}')
[ -n "$uri" ] || { say "no apt source for $code main on this machine"; exit 1; }

# 2. an apt of its own: own sources, lists, cache, and an empty package status,
# so that the whole library closure is resolved inside the suite (perl, which
# only scripts of the packages use, is stubbed: the host's perl serves)
A=$PREFIX/.apt; mkdir -p "$A"/{lists/partial,cache,empty} "$PREFIX/debs/partial"
key=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$key" ] && key="signed-by=$key" || key=""
for p in perl perl-base; do
  printf 'Package: %s\nStatus: install ok installed\nVersion: 99:1\nArchitecture: %s\nMulti-Arch: allowed\nMaintainer: none <none@localhost>\nDescription: stub\n' "$p" "$ARCH"
  echo
done > "$A/status"
OPT=(-q -o Dir::Etc::sourcelist="$A/sources.list" -o Dir::Etc::sourceparts="$A/empty"
     -o Dir::Etc::preferencesparts="$A/empty" -o Dir::Etc::preferences="$A/none"
     -o Dir::State="$A" -o Dir::State::lists="$A/lists" -o Dir::State::status="$A/status"
     -o Dir::Cache="$A/cache" -o Dir::Cache::archives="$PREFIX/debs"
     -o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin
     -o APT::Sandbox::User=root -o APT::Install-Recommends=0 -o APT::Architecture="$ARCH"
     -o APT::Architectures="$ARCH" -o Acquire::Retries=5 -o Debug::NoLocking=1)

# 3. download the closure
ok=""; for SUITE in $SUITES; do
  echo "deb [arch=$ARCH lang=none target=Packages $key] $uri $SUITE main" > "$A/sources.list"
  apt-get "${OPT[@]}" update >"$A/update.log" 2>&1 || { tail -n 5 "$A/update.log" >&2; continue; }
  say "index of $SUITE read ($(lap))"
  apt-get "${OPT[@]}" -y install --download-only "${pkgs[@]}" >"$A/download.log" 2>&1 && { ok=1; break; }
  tail -n 20 "$A/download.log" >&2
done; [ -n "$ok" ] || { say "no suite of '$SUITES' has an installable ${pkgs[0]}"; exit 1; }
# (-s prints "Inst NAME (VERSION ...) [ARCH]"; a file's name in the cache is NAME_VERSION_ARCH.deb)
files=$(apt-get "${OPT[@]}" -s install "${pkgs[@]}" | sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*\[([a-z0-9]+)\]\).*/\1_\2_\3.deb/p' | sed 's/:/%3a/')
[ -n "$files" ] || { say "apt chose no package"; exit 1; }
for p in ${alone[@]+"${alone[@]}"}; do
  v=$(apt-cache "${OPT[@]}" policy "$p" | awk '/Candidate:/{print $2}'); f=${p}_${v/:/%3a}_$ARCH.deb
  [ -s "$PREFIX/debs/$f" ] || (cd "$PREFIX/debs" && apt-get "${OPT[@]}" -qq download "$p")
  files="$files $f"
done
say "$(echo $files | wc -w) packages, $(cd "$PREFIX/debs" && du -cb $files | tail -1 | cut -f1) bytes in hand ($(lap))"

# 4. unpack (of the test suite, not the archived old data folders nor the other engines' suites)
rm -rf "$PREFIX/root" "$PREFIX/bin"; mkdir -p "$PREFIX/root" "$PREFIX/bin"
unpack() { case $1 in
  mysql-testsuite_*) dpkg-deb --fsys-tarfile "$1" | tar -x -C "$2" --exclude='*/std_data/*.zip' --exclude='*/std_data/*.lz4' \
      --exclude='*/suite/ndb*' --exclude='*/suite/group_replication*' --exclude='*/suite/engines' ;;
  *) dpkg-deb -x "$1" "$2" ;; esac; }
export -f unpack
(cd "$PREFIX/debs" && printf '%s\n' $files | xargs -P "$(nproc)" -I{} bash -c 'unpack "$0" "$1"' {} "$PREFIX/root")
R=$PREFIX/root
ld=$(find "$R" -name 'ld-linux-*.so.*' | head -1); [ -n "$ld" ] || { say "no ld.so unpacked"; exit 1; }
libs=$(find "$R" -name 'lib*.so*' -not -path '*/plugin/*' -not -path '*/gconv/*' -not -path '*/auto-load/*' -printf '%h\n' | sort -u | grep -vE 'engines-3|ossl-modules|/sasl2' | paste -sd:)

# 5. each program is replaced in place by a wrapper, the binary moved to .elf/
# beside it: scripts of the packages (mysql-test-run) find working programs where
# they look. --inhibit-cache: not the host's ld.so.cache. --argv0: programs that
# find their files from argv[0] (mysqlrouter) see their usual path.
for b in "$R"/usr/sbin/* "$R"/usr/bin/* "$R"/usr/lib/mysql-test/bin/*; do
  [ -f "$b" ] && [ ! -L "$b" ] && [ -x "$b" ] && head -c4 "$b" | grep -q ELF || continue
  d=${b%/*}; n=${b##*/}; mkdir -p "$d/.elf"; mv "$b" "$d/.elf/$n"
  printf '#!/bin/sh\nLIBMYSQL_PLUGIN_DIR=${LIBMYSQL_PLUGIN_DIR:-%s} exec %s --inhibit-cache --library-path %s --argv0 %s %s "$@"\n' "$R/usr/lib/mysql/plugin" "$ld" "$libs" "$b" "$d/.elf/$n" > "$b"
  chmod +x "$b"; ln -sf "$b" "$PREFIX/bin/$n"
done
cat > "$PREFIX/env.sh" <<E
MYSQL_PREFIX=$PREFIX
MYSQL_ROOT=$R
MYSQL_LD=$ld
MYSQL_LIBS=$libs
E
(cd "$PREFIX/debs" && dpkg-deb -f "$(ls "${pkgs[0]}"_*.deb | sort -V | tail -1)" Version) > "$PREFIX/VERSION"
say "${pkgs[0]} $(cat "$PREFIX/VERSION") ready under $PREFIX ($(lap))"
