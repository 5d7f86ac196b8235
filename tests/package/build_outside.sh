#!/bin/sh
# Builds the program in outside/ against an installed jitc, and runs it.
# usage: build_outside.sh cmake|pkgconfig PREFIX BUILD_DIR BACKEND     (CC, CFLAGS: as for the library)
set -eu
way=$1 prefix=$2 build=$3 backend=$4
source=$(cd "$(dirname "$0")/outside" && pwd)
dlpack=$(cd "$(dirname "$0")/../../src/export" && pwd)/dlpack_abi.h # a program brings its own
rm -rf "$build"
mkdir -p "$build"

case $way in
cmake)
    cmake -S "$source" -B "$build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix"
    cmake --build "$build"
    ;;
pkgconfig)
    pc=$(find "$prefix" -name jitc.pc)
    PKG_CONFIG_PATH=$(dirname "$pc")
    export PKG_CONFIG_PATH
    # The words are flags: they have to split.
    # shellcheck disable=SC2046,SC2086
    printf '#include "%s"\n#include <jit/view.h>\n' "$dlpack" |
        "$CC" -std=c17 -xc -fsyntax-only $(pkg-config --cflags jitc) -
    # shellcheck disable=SC2046,SC2086
    "$CC" -std=c17 $CFLAGS "$source/main.c" -o "$build/outside" $(pkg-config --cflags --libs jitc) \
        -Wl,-rpath,"$(pkg-config --variable=libdir jitc)"
    ;;
esac
"$build/outside" "$backend"
