#!/bin/sh
# clang-tidy over the library. Slow, so no test runs it.
# usage: tidy.sh [file-regex]      (apt-get install clang-tidy-19)
set -eu
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release >/dev/null
run-clang-tidy-19 -quiet -p build/release "${1:-$PWD/(src|backends)/}"
