#!/usr/bin/env bash
# Has systemd check the unit, and man the manual page.
test=test-unit
. "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

command -v systemd-analyze >/dev/null || skip "systemd-analyze is not installed"
command -v man >/dev/null || skip "man is not installed"

unit=packaging/systemd/tidings.service
step "systemd-analyze verify and security"
go build -o "$work/tidings" ./cmd/tidings
sed "s|/usr/bin/tidings|$work/tidings|" $unit >"$work/tidings.service" # verify looks whether the program is there
words=$(systemd-analyze verify --man=no "$work/tidings.service" 2>&1) || fail "verify: $words"
[ -z "$words" ] || fail "verify: $words"
words=$(systemd-analyze security --offline=true --threshold=30 --no-pager $unit 2>&1) || fail "more exposed than 3.0: $words"
step "${words##*→ }"

step "man tidings"
packaging/docs.sh "$work/tidings" "$work/docs"
words=$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$work/docs/tidings.1" 2>&1 >"$work/page")
[ -z "$words" ] || fail "man warns: $words"
grep -q '^NAME' "$work/page" && grep -q 'tidings opml import' "$work/page" || fail "the page lacks what it is to have"
step passed
