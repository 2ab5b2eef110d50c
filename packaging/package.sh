#!/usr/bin/env bash
# Builds a Debian or Fedora package from a built program and its documents (packaging/docs.sh).
#
#   packaging/package.sh deb|rpm ARCH PROGRAM DOCS DIR      ARCH as Go has it: amd64, arm64, arm7
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# = 5 ] || { echo "usage: packaging/package.sh deb|rpm ARCH PROGRAM DOCS DIR" >&2; exit 2; }

read -r VERSION _ < <(packaging/version.sh)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s) # so that the same tree gives the same package
export ARCH=$2 PROGRAM=$3 DOCS=$4 VERSION SOURCE_DATE_EPOCH
go tool -modfile=tools/go.mod nfpm package --config packaging/nfpm.yaml --packager "$1" --target "$5"
