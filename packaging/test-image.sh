#!/usr/bin/env bash
# Builds the image of the Dockerfile, starts it and asks it how it is. Where no docker or podman runs, the test takes the
# steps of the Dockerfile by itself, and the image is a folder with chroot.
test=test-image
. "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

engine=
for e in docker podman; do
  if command -v $e >/dev/null && $e info >/dev/null 2>&1; then engine=$e; fi
done

if [ -n "$engine" ]; then
  step "$engine build"
  $engine build -q -t tidings-test --build-arg VERSION=1.2.3 --build-arg COMMIT=0123456789ab . >/dev/null
  container=
  clean() {
    [ -z "$container" ] || $engine rm -f -v "$container" >/dev/null
    $engine rmi -f tidings-test >/dev/null
  }
  step "$engine run"
  container=$($engine run -d --health-interval 1s tidings-test)
  for _ in $(seq 60); do
    health=$($engine inspect -f '{{.State.Health.Status}}' "$container")
    [ "$health" = healthy ] && break
    sleep 1
  done
  [ "$health" = healthy ] || { $engine logs "$container" >&2; fail "the container is $health"; }
  case $($engine exec "$container" tidings version) in "tidings 1.2.3 (commit 0123456789ab, go"*) ;; *) fail "the version lacks its stamps" ;; esac
  $engine exec "$container" tidings status | grep -q '^version  *1\.2\.3$' || fail "status does not show the version"
  step "$engine stop"
  $engine stop -t 40 "$container" >/dev/null
  [ "$($engine inspect -f '{{.State.ExitCode}}' "$container")" = 0 ] || fail "the node did not end in good order"
  step passed
  exit
fi

[ "$(id -u)" = 0 ] || skip "there is no docker or podman, and only root can use chroot instead"
for tool in file ldd chroot git; do
  command -v $tool >/dev/null || skip "$tool is not installed"
done

step "no docker or podman runs here: building by the Dockerfile's steps"
root=$work/root
mkdir "$root" "$work/src" "$work/out"
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' f; do
  if [ -e "$f" ]; then printf '%s\0' "$f"; fi # files that were removed are still listed
done | tar --null -T - -c | tar -x -C "$work/src"
words() { tr -d '[]",' <<<"$*"; } # of a JSON array without spaces within its texts
environment=() user='' healthcheck=() entrypoint=() arguments=() stage=''
while read -r instruction rest; do
  case $stage:$instruction in
  *: | *:\#* | *:ARG | *:EXPOSE | *:VOLUME) ;;
  *:FROM) case $rest in scratch) stage=image ;; *" AS build") stage=build ;; *) fail "FROM $rest: no such stage is known" ;; esac ;;
  build:WORKDIR | build:COPY) ;; # the source is there
  build:RUN)
    (cd "$work/src" && env -u TARGETVARIANT TARGETOS="$(go env GOOS)" TARGETARCH="$(go env GOARCH)" VERSION=1.2.3 COMMIT=0123456789ab \
      sh -euc "${rest//\/out\//"$work/out/"}") || fail "RUN $rest"
    ;;
  image:COPY)
    owner=0:0
    read -ra copy <<<"$rest"
    for word in "${copy[@]}"; do case $word in --chown=*) owner=${word#--chown=} ;; esac; done
    from=${copy[-2]} to=$root${copy[-1]}
    mkdir -p "$(dirname "$to")"
    cp -rL "${from/#\/out\//"$work/out/"}" "$to"
    chown -R "$owner" "$to"
    ;;
  image:ENV) environment+=("$rest") ;;
  image:USER) user=$rest ;;
  image:HEALTHCHECK) read -ra healthcheck < <(words "${rest#*CMD }") ;;
  image:ENTRYPOINT) read -ra entrypoint < <(words "$rest") ;;
  image:CMD) read -ra arguments < <(words "$rest") ;;
  *) fail "$instruction $rest: this test does not know how to do that" ;;
  esac
done <Dockerfile

case $(file "$root/usr/bin/tidings") in *"statically linked"*) ;; *) fail "the program is not static: $(file "$root/usr/bin/tidings")" ;; esac
if ldd "$root/usr/bin/tidings" >/dev/null 2>&1; then fail "the program needs libraries: $(ldd "$root/usr/bin/tidings")"; fi
grep -q 'BEGIN CERTIFICATE' "$root/etc/ssl/certs/ca-certificates.crt" || fail "the image has no certificates"
[ "${user%%:*}" -gt 0 ] || fail "the image runs as root"
[ "$(cd "$root" && find . -type f | sort | tr '\n' ' ')" = "./etc/ssl/certs/ca-certificates.crt ./usr/bin/tidings " ] ||
  fail "there is more in the image than belongs there: $(find "$root" -type f)"

clean() { [ -z "$node" ] || kill -KILL "$node"; }
environment+=("TIDINGS_HTTP=127.0.0.1:$(free_port)" TIDINGS_LISTEN=/ip4/127.0.0.1/tcp/0) # this is not a network of its own
image=(env -i "${environment[@]}" "$(command -v chroot)" --userspec="$user" --groups="${user#*:}" "$root")
step "${entrypoint[*]} ${arguments[*]}"
serve "${image[@]}" "${entrypoint[@]}" "${arguments[@]}"
step "${healthcheck[*]}"
[ "$("${image[@]}" "${healthcheck[@]}")" = ok ] || fail "the healthcheck does not say ok"
case $("${image[@]}" tidings version) in "tidings 1.2.3 (commit 0123456789ab, go"*) ;; *) fail "the version lacks its stamps" ;; esac
"${image[@]}" tidings status | grep -q '^version  *1\.2\.3$' || fail "status does not show the version"
stop
if "${image[@]}" "${healthcheck[@]}" 2>/dev/null; then fail "the healthcheck finds a node that has ended"; fi
step passed
