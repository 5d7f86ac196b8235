#!/bin/sh
# Installs what is missing, builds, and runs the examples, the main one being a photograph through
# examples/image_filter: on the CPU and, where there is one, on the GPU (the lines printed say which).
# The pictures go to build/demo: filtered.png, palette.png, mandelbrot.png, path_tracer.png.
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
quietly cmake --build --preset release --target saxpy black_scholes heat histogram nbody share \
    image_filter kmeans mandelbrot path_tracer
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
for example in heat histogram nbody share; do
    echo "$example:"
    $examples/$example
done
echo "image_filter:"
$examples/image_filter "$picture" build/demo/filtered.png
echo "kmeans:"
$examples/kmeans "$picture" build/demo/palette.png
for example in mandelbrot path_tracer; do
    echo "$example:"
    $examples/$example build/demo/$example.png
done
echo "See in build/demo: filtered.png and palette.png (from chelsea.png), mandelbrot.png, path_tracer.png."
