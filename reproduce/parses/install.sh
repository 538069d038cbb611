#!/usr/bin/env bash
# Unpacks Debian's Link Grammar and what it needs into a folder; needs no root, installs nothing.
#
# Usage: reproduce/parses/install.sh FOLDER
set -euo pipefail
target=${1:?usage: install.sh FOLDER}
packages=(liblink-grammar5 link-grammar-dictionaries-en libhunspell-1.7-0 libpcre2-8-0 libsqlite3-0)

for tool in apt-get dpkg-deb; do
  if ! command -v "$tool" > /dev/null; then
    echo "Link Grammar comes from Debian packages, and there is no $tool here." >&2
    exit 1
  fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"
apt-get download --quiet --quiet "${packages[@]}"
mkdir root
for package in *.deb; do
  dpkg-deb --extract "$package" root
done
mkdir -p "$(dirname "$target")"
rm -rf "$target"
mv root "$target"
