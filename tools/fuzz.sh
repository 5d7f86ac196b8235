#!/bin/sh
# Runs random programs for a while, and compares their results: "ops" over all operations and types,
# "streams" over several threads, streams and devices.
# usage: fuzz.sh [ops|streams] [seconds [seed [folder of the build]]]
#        without a seed it begins where no run before did; "fuzz.sh ops 0 seed" repeats one program
set -eu
cd "$(dirname "$0")/.."
kind=ops
case ${1-} in
    ops | streams) kind=$1 && shift ;;
esac
seconds=${1:-60}
seed=${2:-$(date +%s)0000}
build=${3:-build/dev}
cmake --build "$build" --target "fuzz_$kind" >/dev/null
exec "$build/tests/fuzz_$kind" "$seconds" "$seed"
