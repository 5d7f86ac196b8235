#!/bin/sh
# Installs what is missing, builds, and runs the examples, the main one being a photograph through
# examples/image_filter: on the CPU and, where there is one, on the GPU (the lines printed say which).
# The result is build/demo/filtered.png.
# The photograph: "Chelsea the cat" by S. van der Walt (CC0), as Debian's package of scikit-image ships it.
set -eu
cd "$(dirname "$0")/.."
log=build/demo/demo.log
picture=build/demo/chelsea.png

quietly() {
    if ! "$@" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        exit 1
    fi
}

# Takes one file out of the package; nothing is installed.
fetch_picture() {
    (cd build/demo && apt-get download python3-skimage)
    dpkg-deb --fsys-tarfile build/demo/python3-skimage_*.deb |
        tar -xO ./usr/lib/python3/dist-packages/skimage/data/chelsea.png >"$picture.part"
    mv "$picture.part" "$picture"
    rm -f build/demo/python3-skimage_*.deb
}

mkdir -p build/demo
sh tools/setup.sh
[ -s "$picture" ] || quietly fetch_picture
quietly cmake --preset release
quietly cmake --build --preset release --target saxpy black_scholes heat share image_filter mandelbrot
examples=build/release/examples
JITC_CACHE_DIR=$PWD/build/demo/cache # so that the first run shows what compiling takes
export JITC_CACHE_DIR
rm -rf "$JITC_CACHE_DIR"
ldconfig -p | grep -q 'libcuda\.so\.1' || [ "${JITC_LIBCUDA-}" ] ||
    echo "No driver of a GPU (libcuda.so.1) on this machine: everything runs on the CPU."
echo "saxpy:"
$examples/saxpy
echo "black_scholes:"
$examples/black_scholes
echo "heat:"
$examples/heat
echo "share:"
$examples/share
echo "image_filter:"
$examples/image_filter "$picture" build/demo/filtered.png
echo "mandelbrot:"
$examples/mandelbrot build/demo/mandelbrot.png
echo "See build/demo/filtered.png (from $picture), build/demo/mandelbrot.png."
