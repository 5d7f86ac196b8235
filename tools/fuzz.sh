#!/bin/sh
# Runs random programs for a while, and compares their results: "ops" over all operations and types,
# "streams" over several threads, streams and devices, "programs" over whole arrays, with loops,
# branches and calls; or random tensors: "dlpack", led by libFuzzer to what it has not seen where
# there is a clang, in a build of its own, build/fuzz.
# usage: fuzz.sh [ops|streams|programs|dlpack] [seconds [seed [folder of the build]]]
#        without a seed it begins where no run before did; "fuzz.sh ops 0 seed" repeats one program
set -eu
cd "$(dirname "$0")/.."
kind=ops
case ${1-} in
    ops | streams | programs | dlpack) kind=$1 && shift ;;
esac
seconds=${1:-60}
for clang in clang-19 clang-14 clang; do
    [ "$kind" = dlpack ] && [ $# -le 1 ] && command -v $clang >/dev/null || continue
    cmake -S . -B build/fuzz -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=$clang \
        -DJITC_SANITIZE=address,undefined,fuzzer-no-link ${CMAKE_ARGUMENTS-} >/dev/null
    cmake --build build/fuzz --target fuzz_dlpack_guided >/dev/null
    mkdir -p build/fuzz/corpus
    exec build/fuzz/tests/fuzz_dlpack_guided -max_total_time="$seconds" -max_len=400 \
        -artifact_prefix=build/fuzz/ -print_final_stats=1 build/fuzz/corpus
done
seed=${2:-$(date +%s)0000}
build=${3:-build/dev}
cmake --build "$build" --target "fuzz_$kind" >/dev/null
exec "$build/tests/fuzz_$kind" "$seconds" "$seed"
