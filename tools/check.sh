#!/bin/sh
# Installs what is missing, builds, and runs all tests under AddressSanitizer and
# UndefinedBehaviorSanitizer. The same as "cmake --workflow --preset check", but quieter.
# With the libraries of Python: sh tools/interop.sh && sh tools/check.sh -DJITC_INTEROP=ON
# usage: check.sh [-D...]     options for CMake
set -eu
cd "$(dirname "$0")/.."
log=build/check.log

quietly() {
    if ! "$@" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        exit 1
    fi
}

mkdir -p build
sh tools/setup.sh
quietly cmake --preset dev "$@"
quietly cmake --build --preset dev
ctest --preset dev </dev/null
