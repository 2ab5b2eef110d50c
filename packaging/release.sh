#!/usr/bin/env bash
# Puts everything that a release consists of into dist/: archives, packages and their checksums. The same commit gives
# the same bytes, with the same release of Go.
#
#   packaging/release.sh [SYSTEM/ARCH…]      VERSION=1.2.3 names a release that has no tag yet
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 linux/armv7 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
command -v zip >/dev/null || { echo "release.sh: zip is not installed: archives for Windows need it" >&2; exit 1; }

read -r VERSION COMMIT < <(packaging/version.sh)
export VERSION COMMIT TZ=UTC
when=@$(git log -1 --format=%ct)
rm -rf dist
mkdir dist
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022

go build -o "$work/here" -buildvcs=false -ldflags "-X main.version=$VERSION -X main.commit=$COMMIT" ./cmd/tidings
packaging/docs.sh "$work/here" "$work/docs"

for target; do
  system=${target%/*} arch=${target#*/}
  echo "release.sh: $target"
  name=tidings-$VERSION-$system-$arch
  folder=$work/$name
  mkdir "$folder" "$folder/completions"
  program=$folder/tidings
  [ $system != windows ] || program+=.exe
  case $arch in
  armv7) GOOS=$system GOARCH=arm GOARM=7 packaging/build.sh "$program" ;;
  *) GOOS=$system GOARCH=$arch packaging/build.sh "$program" ;;
  esac
  cp README.md CHANGELOG.md "$folder"
  mkdir "$folder/docs"
  cp -r docs/guide "$folder/docs/guide" # where README.md links to
  cp "$work/docs/tidings.1" "$folder"
  cp "$work/docs/tidings.bash" "$work/docs/tidings.fish" "$work/docs/_tidings" "$folder/completions"
  case $system in
  linux)
    cp packaging/systemd/tidings.service packaging/firewalld/tidings.xml "$folder"
    for format in deb rpm; do
      packaging/package.sh $format "${arch/armv7/arm7}" "$program" "$work/docs" dist >/dev/null
    done
    ;;
  darwin) cp packaging/launchd/tidings.plist "$folder" ;;
  esac
  find "$folder" -exec touch -h -d "$when" {} +
  case $system in
  windows) (cd "$work" && find "$name" | LC_ALL=C sort | zip -q -X -@ "$OLDPWD/dist/$name.zip") ;;
  *) tar -C "$work" --sort=name --mtime="$when" --owner=0 --group=0 --numeric-owner -c "$name" | gzip -9n >"dist/$name.tar.gz" ;;
  esac
  rm -r "$folder"
done
cd dist
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
ls -l
