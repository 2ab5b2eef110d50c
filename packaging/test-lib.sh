# What the tests of packages share. Sourced by them, with the name of the test in $test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# fail WORDS… ends the test.
fail() { echo "$test: $*" >&2; exit 1; }
# skip WORDS… leaves a test out that cannot run on this machine. In CI everything is to be there.
skip() {
  [ "${CI:-}" = true ] && fail "cannot run, and CI is to run it: $*"
  echo "$test: skipped: $*"
  exit 0
}
# step WORDS… says what is tried next.
step() { echo "$test: $*"; }

# clean is called when the test ends, however it does. Tests add to it.
clean() { :; }
work=$(mktemp -d)
chmod 755 "$work"
trap 'status=$?; trap - EXIT; set +e; clean; rm -rf "$work"; exit $status' EXIT
trap 'exit 1' INT TERM

# free_port prints a port of 127.0.0.1 at which nothing listens.
free_port() {
  local port
  while port=$((20000 + RANDOM % 10000)); (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do :; done
  echo "$port"
}

# serve COMMAND… runs a node, and returns when it serves. Then $node is its process.
node=
serve() {
  local line out
  exec {out}< <(exec "$@" 2>"$work/log")
  node=$!
  while read -r line <&"$out"; do
    case $line in reader*) return ;; esac
  done
  node=
  cat "$work/log" >&2
  fail "the node has ended instead of serving"
}

# stop ends the node as a service manager does, and fails unless it ends in good order.
stop() {
  local of=$node
  node=
  kill -TERM "$of"
  wait "$of" || { cat "$work/log" >&2; fail "the node ended with code $?"; }
}
