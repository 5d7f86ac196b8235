#!/bin/sh
# Lays out all C files as .clang-format says; lint.format checks it.
set -eu
cd "$(dirname "$0")/.."
find include src backends tests benchmarks examples python -name '*.[ch]' -exec clang-format-19 -i {} +
