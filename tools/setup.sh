#!/bin/sh
# Installs on Debian 12 what building and testing needs, where it is missing. Root, or sudo.
# usage: setup.sh [all]     all: also what tools/compilers.sh and the manual need, and, in build/nvidia,
#                           NVRTC and cuda.h, against which the CUDA backend is tested
set -eu

packages="gcc g++ cmake ninja-build pkg-config python3 git llvm-19-dev libxxhash-dev libsleef3
    libcriterion-dev libmpfr-dev libpng-dev libtcc-dev clang-format-19"
if [ "${1-}" = all ]; then
    packages="$packages clang-14 clang-19 libclang-rt-14-dev libclang-rt-19-dev llvm-14-dev llvm-16-dev doxygen
        python3-pip"
fi

cd "$(dirname "$0")/.."
log=$(mktemp)
trap 'rm -f "$log"' EXIT

install_packages() {
    missing=
    for package in $packages; do
        state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
        [ "$state" = installed ] || missing="$missing $package"
    done
    [ "$missing" ] || return 0
    as_root=
    [ "$(id -u)" = 0 ] || as_root=sudo
    echo "Installing:$missing"
    # The list of packages splits into words.
    # shellcheck disable=SC2086
    if ! { $as_root apt-get update && $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends $missing; } >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        exit 1
    fi
}

# NVIDIA's compiler for kernels and the header of the driver; neither needs a GPU. About 150 MB.
fetch_nvrtc() {
    [ ! -e build/nvidia/complete ] || return 0
    echo "Fetching NVRTC and cuda.h into build/nvidia"
    mkdir -p build
    rm -rf build/nvidia
    if python3 -m pip install --quiet --no-deps --no-compile --target build/nvidia \
            'nvidia-cuda-nvrtc==13.*' 'nvidia-cuda-runtime==13.*' >"$log" 2>&1 </dev/null; then
        touch build/nvidia/complete
    else
        rm -rf build/nvidia
        echo "NVRTC could not be fetched: what is tested with it is skipped. pip says:"
        tail -n 3 "$log"
    fi
}

install_packages
[ "${1-}" != all ] || fetch_nvrtc
