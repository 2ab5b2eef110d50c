#!/usr/bin/env bash
# Builds the program as packages have it: static, without paths of this machine, and with its version and commit.
#
#   GOOS=linux GOARCH=arm64 packaging/build.sh FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# = 1 ] || { echo "usage: packaging/build.sh FILE" >&2; exit 2; }

read -r version commit < <(packaging/version.sh)
CGO_ENABLED=0 go build -trimpath -buildvcs=false \
  -ldflags "-s -w -X main.version=$version -X main.commit=$commit" -o "$1" ./cmd/tidings
