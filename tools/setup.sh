#!/bin/sh
# Installs on Debian 12 what building and testing needs, where it is missing. Root, or sudo.
# usage: setup.sh [all]     all: also what tools/compilers.sh and the manual need
set -eu

packages="gcc g++ cmake ninja-build pkg-config python3 git llvm-19-dev libxxhash-dev libsleef3
    libcriterion-dev libmpfr-dev libpng-dev libtcc-dev clang-format-19"
if [ "${1-}" = all ]; then
    packages="$packages clang-14 clang-19 libclang-rt-14-dev libclang-rt-19-dev llvm-14-dev llvm-16-dev doxygen"
fi

missing=
for package in $packages; do
    state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
    [ "$state" = installed ] || missing="$missing $package"
done
[ "$missing" ] || exit 0

as_root=
[ "$(id -u)" = 0 ] || as_root=sudo
echo "Installing:$missing"
log=$(mktemp)
# The list of packages splits into words.
# shellcheck disable=SC2086
if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
    cat "$log" >&2
    rm -f "$log"
    exit 1
fi
rm -f "$log"
