#!/bin/sh
# Runs random programs for a while, over all operations and types, and compares their results.
# usage: fuzz.sh [seconds [seed [folder of the build]]]
#        without a seed it begins where no run before did; "fuzz.sh 0 seed" repeats one program
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-60}
seed=${2:-$(date +%s)0000}
build=${3:-build/dev}
cmake --build "$build" --target fuzz_ops >/dev/null
exec "$build/tests/fuzz_ops" "$seconds" "$seed"
