#!/usr/bin/env bash
# Writes the manual page and the completions into a folder, by a program that runs on this machine.
#
#   packaging/docs.sh PROGRAM DIR
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# = 2 ] || { echo "usage: packaging/docs.sh PROGRAM DIR" >&2; exit 2; }
program=$1 dir=$2

mkdir -p "$dir"
date=$(git log -1 --format=%cs 2>/dev/null || date -u +%F)
"$program" manual --date "$date" >"$dir/tidings.1.md"
go tool -modfile=tools/go.mod go-md2man -in "$dir/tidings.1.md" -out "$dir/tidings.1"
rm "$dir/tidings.1.md"
gzip -9nc "$dir/tidings.1" >"$dir/tidings.1.gz" # packages have it packed
"$program" completion bash >"$dir/tidings.bash"
"$program" completion zsh >"$dir/_tidings"
"$program" completion fish >"$dir/tidings.fish"
