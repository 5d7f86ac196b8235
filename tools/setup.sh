#!/bin/sh
# Installs on Debian 12 what building and testing needs, where it is missing. Root, or sudo.
# usage: setup.sh [all]     all: also what tools/compilers.sh and the manual need, and, in build/nvidia
#                           and build/dlpack, NVRTC, cuda.h and dlpack.h, against which we are tested;
#                           and build/python, a Python with NumPy, which tests the package python/
set -eu

packages="gcc g++ cmake ninja-build pkg-config python3 git llvm-19-dev libxxhash-dev libsleef3
    libcriterion-dev libmpfr-dev libpng-dev libtcc-dev clang-format-19"
if [ "${1-}" = all ]; then
    packages="$packages clang-14 clang-19 libclang-rt-14-dev libclang-rt-19-dev llvm-14-dev llvm-16-dev doxygen
        python3-pip python3-dev python3-venv"
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

# Packages of PyPI, of which only files are used: into build/NAME, NAME being the first argument.
fetch() {
    name=$1
    shift
    [ ! -e "build/$name/complete" ] || return 0
    echo "Fetching $* into build/$name"
    mkdir -p build
    rm -rf "build/$name"
    if python3 -m pip install --quiet --no-deps --no-compile --target "build/$name" "$@" \
            >"$log" 2>&1 </dev/null; then
        touch "build/$name/complete"
    else
        rm -rf "build/$name"
        echo "It could not be fetched: what is tested with it is skipped. pip says:"
        tail -n 3 "$log"
    fi
}

# A Python for the tests of the package, which is built with it.
make_python() {
    [ ! -e build/python/complete ] || return 0
    echo "Making a Python with NumPy in build/python"
    mkdir -p build
    if python3 -m venv --clear build/python >"$log" 2>&1 </dev/null &&
        build/python/bin/python -m pip install --quiet numpy setuptools wheel >"$log" 2>&1 </dev/null; then
        touch build/python/complete
    else
        echo "It is not complete: what is tested with it is skipped. It was said:"
        tail -n 3 "$log"
    fi
}

install_packages
if [ "${1-}" = all ]; then
    # NVIDIA's compiler for kernels and the header of the driver; neither needs a GPU. About 150 MB.
    fetch nvidia 'nvidia-cuda-nvrtc==13.*' 'nvidia-cuda-runtime==13.*'
    fetch dlpack 'apache-tvm-ffi' # for its dlpack.h
    make_python
fi
