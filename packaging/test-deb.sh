#!/usr/bin/env bash
# Installs the Debian package on this machine, starts the node as the unit says, upgrades it with data kept, removes it
# and purges it. systemd need not run. The test refuses to touch a machine on which tidings is installed.
test=test-deb
. "$(dirname "${BASH_SOURCE[0]}")/test-lib.sh"

[ "$(id -u)" = 0 ] || skip "only root can install packages"
for tool in dpkg dpkg-deb setpriv; do
  command -v $tool >/dev/null || skip "$tool is not installed"
done
if dpkg-query -W tidings >/dev/null 2>&1 || [ -e /var/lib/tidings ] || [ -e /etc/tidings ]; then
  fail "tidings is installed here already, or has left data: this test would remove it"
fi

step "building versions 0.0.1 and 0.0.2"
for version in 0.0.1 0.0.2; do
  VERSION=$version packaging/build.sh "$work/tidings-$version"
done
packaging/docs.sh "$work/tidings-0.0.1" "$work/docs"
for version in 0.0.1 0.0.2; do
  VERSION=$version packaging/package.sh deb "$(dpkg --print-architecture)" "$work/tidings-$version" "$work/docs" "$work" >/dev/null
done
old=$(echo "$work"/tidings_0.0.1_*.deb) new=$(echo "$work"/tidings_0.0.2_*.deb)

clean() {
  [ -z "$node" ] || kill -KILL "$node"
  dpkg -P tidings >/dev/null 2>&1
}
# dpkg_i FILE installs a package that needs others, which are there.
dpkg_i() { dpkg -i "$1" >"$work/dpkg" 2>&1 || { cat "$work/dpkg" >&2; fail "dpkg -i $1"; }; }

step "dpkg -i, on a machine without tidings"
dpkg_i "$old"
[ "$(tidings version)" = "$("$work/tidings-0.0.1" version)" ] || fail "another program was installed: $(tidings version)"
case $(tidings version) in "tidings 0.0.1 (commit "*", go"*")") ;; *) fail "the version lacks the build's stamps: $(tidings version)" ;; esac
[ ! -e /var/lib/tidings ] || fail "the package has made the data directory, which is systemd's business"
grep -q '^tidings: .*systemctl enable --now tidings$' "$work/dpkg" || fail "the installation does not say how to start the node"
enabled=/etc/systemd/system/multi-user.target.wants/tidings.service
[ ! -e $enabled ] || fail "the service is enabled before anybody has looked at its settings"
if command -v systemctl >/dev/null; then
  systemctl --quiet enable tidings
  [ -L $enabled ] || fail "the service cannot be enabled"
fi

# An administrator changes the settings, and systemd makes the data directory.
address=127.0.0.1:$(free_port)
config=/etc/tidings/config.toml
printf 'http = "%s"\nlisten = ["/ip4/127.0.0.1/tcp/0"]\n' "$address" >>$config
mkdir -m 0700 /var/lib/tidings
chown 61999:61999 /var/lib/tidings
service=(setpriv --reuid=61999 --regid=61999 --clear-groups --no-new-privs --bounding-set=-all
  env -i HOME=/var/lib/tidings STATE_DIRECTORY=/var/lib/tidings)
start=$(sed -n 's/^ExecStart=//p' /usr/lib/systemd/system/tidings.service)
read -ra start <<<"${start//'${STATE_DIRECTORY}'//var/lib/tidings}"
feed=https://blog.example/feed.xml

step "${start[*]}"
serve "${service[@]}" "${start[@]}"
[ "$(tidings healthcheck --config $config)" = ok ] || fail "healthcheck does not say ok"
tidings status --config $config | grep -q '^version  *0\.0\.1$' || fail "status does not show the version"
printf '<opml version="2.0"><body><outline type="rss" xmlUrl="%s"/></body></opml>' $feed | tidings opml import --config $config - >/dev/null
tidings list --config $config | grep -q blog.example || fail "the subscription is not in the list"
kill -HUP "$node"
[ "$(tidings healthcheck --config $config)" = ok ] || fail "the node does not answer after SIGHUP"
stop
if tidings healthcheck --config $config 2>/dev/null; then fail "healthcheck finds a node that has ended"; fi
identity=$(cksum </var/lib/tidings/identity.key)

step "dpkg -i, from 0.0.1 to 0.0.2"
dpkg_i "$new"
if command -v systemctl >/dev/null; then
  [ -L $enabled ] || fail "the upgrade has disabled the service"
fi
case $(tidings version) in "tidings 0.0.2 "*) ;; *) fail "the program was not replaced: $(tidings version)" ;; esac
grep -q "^http = \"$address\"" $config || fail "the upgrade has replaced the settings"
serve "${service[@]}" "${start[@]}"
tidings list --config $config | grep -q blog.example || fail "the upgrade has lost the subscription"
[ "$(cksum </var/lib/tidings/identity.key)" = "$identity" ] || fail "the node has another identity after the upgrade"
stop

step "dpkg -r, which keeps data and settings"
dpkg -r tidings >/dev/null
[ ! -e /usr/bin/tidings ] || fail "the program was not removed"
[ -e /var/lib/tidings/identity.key ] || fail "removal has taken the data"
[ -e $config ] || fail "removal has taken the settings"

step "dpkg -P, which keeps nothing"
private=yes # the data lies where systemd puts that of dynamic users
[ -e /var/lib/private ] || { private=; mkdir -m 0700 /var/lib/private; }
mv /var/lib/tidings /var/lib/private/tidings
ln -s private/tidings /var/lib/tidings
dpkg -P tidings >/dev/null
[ -n "$private" ] || rmdir /var/lib/private
left=$(
  dpkg-deb -c "$new" | awk '{ print substr($6, 2) }' | grep -v '/$' | while read -r path; do
    if [ -e "$path" ]; then echo "$path"; fi
  done
  find /etc/systemd /var/lib/systemd -name 'tidings*' 2>/dev/null || true
  for path in /etc/tidings /var/lib/tidings /var/lib/private/tidings; do
    if [ -e "$path" ] || [ -L "$path" ]; then echo "$path"; fi
  done
)
[ -z "$left" ] || fail "purge has left: $left"
if dpkg-query -W tidings >/dev/null 2>&1; then fail "dpkg still knows tidings"; fi
step "passed"
