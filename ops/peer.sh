#!/bin/bash
# Matches keyword subscriptions with PostgreSQL beside tidings, in the same run (Debian 12 and later):
# installs the server and, where Debian has it, the RUM extension; runs a cluster that is gone afterwards.
#
#   ops/peer.sh [--subs 1000000] [any other flag of tidings-lab bench match]
set -euo pipefail
cd "$(dirname "$0")/.."

root=()
[ "$(id -u)" = 0 ] || root=(sudo)
if ! command -v pg_virtualenv >/dev/null || ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends postgresql postgresql-common
fi
version=$(ls /usr/lib/postgresql | sort -V | tail -1)
if [ ! -e "/usr/share/postgresql/$version/extension/rum.control" ]; then
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y "postgresql-$version-rum" ||
    echo "there is no RUM for PostgreSQL $version: the btree layout alone is measured" >&2
fi

mkdir -p bin
go -C lab build -o ../bin/tidings-lab .
exec pg_virtualenv -v "$version" bin/tidings-lab bench match --peer "$@"
