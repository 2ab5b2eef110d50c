#!/usr/bin/env bash
# Prints two words: the version and the commit of this tree, as packages show them. VERSION and COMMIT in the
# environment go before.
#
# A commit with a tag v1.2.3 has the version 1.2.3. Any other commit has 0.0.0-dev.TIME, with the time of the commit in
# UTC: a later commit then upgrades an earlier one, and any release upgrades both.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

commit=${COMMIT:-$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)}
if [ -z "${COMMIT:-}" ] && [ "$commit" != unknown ] && ! git diff --quiet HEAD; then
  commit=$commit+ # files were changed
fi
version=${VERSION:-$(git describe --exact-match --tags --match 'v[0-9]*' 2>/dev/null || true)}
if [ -z "$version" ]; then
  version=0.0.0-dev.$(TZ=UTC git log -1 --format=%cd --date=format-local:%Y%m%d%H%M%S 2>/dev/null || echo 0)
fi
echo "${version#v} $commit"
