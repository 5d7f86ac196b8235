#!/bin/sh
# Measures this library beside its peers, and writes build/release/benchmarks/<name>.json.
#   sh benchmarks/run.sh all|trace|eval|compile|start|throughput|lanes|combine|scatter|cuda|dlpack|sync_modes
#                        [--budget SECONDS] [--only TEXT] [--long]
# all: those of the CPU alone. dlpack: the CPU and, where there is one, the GPU. sync_modes also writes its report
# and plots, into the folder results beside. Peers are optional: sh benchmarks/peers/setup.sh installs them;
# BENCH_PYTHON names another Python that has them, as machines with a GPU do. Run nothing else meanwhile.
set -eu
cd "$(dirname "$0")/.."
names=${1:-all}
[ $# -eq 0 ] || shift
[ "$names" != all ] || names="trace eval compile start throughput lanes"
build=build/release

cmake --preset release -DJITC_BENCHMARKS=ON >/dev/null
cmake --build --preset release --target benchmarks >/dev/null

# Kernels that an earlier run has left on disk would be found, so each run has a home of its own; in
# memory, because the time to create a file depends on what the disk has been through.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
llvm=${DRJIT_LIBLLVM_PATH:-$(cat $build/benchmarks/llvm_library)}
export HOME="$home" JITC_CACHE_DIR="$home/jitc" DRJIT_LIBLLVM_PATH="$llvm"
export BENCH_SOURCE="$PWD/benchmarks" BENCH_PEERS="${BENCH_PEERS:-$PWD/build/peers}"
BENCH_REVISION=$(git describe --always --dirty 2>/dev/null || echo unknown)
export BENCH_REVISION

for name in $names; do
  if [ -e "benchmarks/$name/peer.cu" ] && nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc); then
    "$nvcc" -O3 -std=c++17 -arch=native -shared -Xcompiler -fPIC -o "$build/${name}_peer.so" "benchmarks/$name/peer.cu"
    export BENCH_PEER="$PWD/$build/${name}_peer.so"
  fi
  $build/benchmarks/bench_"$name" --json $build/benchmarks/"$name".json "$@"
  if [ "$name" = sync_modes ]; then
    python3 benchmarks/sync_modes/report.py $build/benchmarks/sync_modes.json $build/benchmarks/results
  fi
done
