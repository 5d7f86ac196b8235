#!/bin/sh
# Builds with every compiler and the headers of every LLVM, warnings being errors. The first build
# runs all tests, the others those of the operations with the library that fits their headers.
# usage: compilers.sh [all]      all: each compiler with each LLVM (tools/setup.sh all installs them)
set -eu
cd "$(dirname "$0")/.."

build() { # compiler LLVM-version label-filter...
    compiler=$1 llvm=$2
    shift 2
    echo "== $compiler, LLVM $llvm"
    folder=build/compilers/$compiler-$llvm
    mkdir -p "$folder"
    if ! { cmake -S . -B "$folder" -G Ninja -DCMAKE_C_COMPILER="$compiler" -DJITC_WERROR=ON \
            -DCMAKE_BUILD_TYPE=RelWithDebInfo -DJITC_LLVM_VERSION="$llvm" &&
            cmake --build "$folder"; } >"$folder/log" 2>&1 </dev/null; then
        cat "$folder/log" >&2
        exit 1
    fi
    JITC_LIBLLVM=$(readlink -f "/usr/lib/llvm-$llvm/lib/libLLVM-$llvm.so") \
        ctest --test-dir "$folder" -j2 --output-on-failure --no-tests=error "$@" </dev/null
}

build gcc 19
build gcc 16 -L ops
build gcc 14 -L ops
build clang-19 19 -L ops
build clang-14 14 -L ops
[ "${1-}" = all ] || exit 0
build clang-19 16 -L ops
build clang-19 14 -L ops
build clang-14 19 -L ops
build clang-14 16 -L ops
