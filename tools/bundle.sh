#!/bin/sh
# Packs the built tests, examples and benchmarks with the libraries that another x86-64 Linux machine
# may lack, so that "sh run.sh all" works there with nothing installed but glibc 2.36 or newer and, for
# CUDA, a driver and NVRTC. The result: the folder build/bundle/jitc and build/bundle/jitc.tar.xz.
# usage: bundle.sh [--no-llvm] [--site FOLDER]
#   --no-llvm   leave LLVM out (most of the size): for machines that have it, or for CUDA alone
#   --site      Python packages to carry along for the peers of the benchmarks (pip install --target)
set -eu
cd "$(dirname "$0")/.."
llvm=yes site=
while [ $# -gt 0 ]; do
    case $1 in
        --no-llvm) llvm=no ;;
        --site) site=$2 && shift ;;
        *) echo "usage: bundle.sh [--no-llvm] [--site FOLDER]" >&2 && exit 2 ;;
    esac
    shift
done
build=${JITC_BUNDLE_BUILD:-build/bundle/build} # in a folder of its own: its files look for ../lib
out=build/bundle/jitc
log=build/bundle/bundle.log
picture=build/demo/chelsea.png # which tools/demo.sh fetches

quietly() {
    if ! "$@" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        exit 1
    fi
}

# RPATH, not RUNPATH: it also holds for what the libraries open themselves (LLVM, SLEEF).
configure() {
    cmake --preset release -B "$build" -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON \
        "-DCMAKE_INSTALL_RPATH=\$ORIGIN/../lib" -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags \
        -DCMAKE_SHARED_LINKER_FLAGS=-Wl,--disable-new-dtags -DJITC_BENCH_ARCH=x86-64-v3
}

# The libraries that files need, also indirectly, without those of glibc.
libraries_of() {
    ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
        grep -Ev '/(libc|libm|libmvec|libdl|libpthread|librt|libresolv|ld-linux-x86-64)\.so'
}

copy_libraries() {
    cp -L "$build"/libjitc.so.0 "$out/lib/"
    find "$build/tests" -name '*.so' -exec cp {} "$out/lib/" \; # the simulated driver and its like
    wanted=$(ldconfig -p | awk '$1 == "libsleef.so.3" && /x86-64/ { print $NF; exit }')
    if [ "$llvm" = yes ]; then
        wanted="$wanted $(cat "$build/benchmarks/llvm_library")"
    fi
    for library in $wanted; do
        cp -L "$library" "$out/lib/"
    done
    # shellcheck disable=SC2046 # names of libraries have no spaces
    cp -nL $(LD_LIBRARY_PATH=$out/lib libraries_of "$out"/bin/* "$out"/lib/* |
        grep -v "^$PWD/") "$out/lib/"
    chmod u+w "$out"/lib/*
}

# The Python package: one extension for every CPython from 3.9 on.
copy_package() {
    mkdir -p "$out/python"
    ln -s ../lib "$out/python/lib" # where the library in python/jitc looks
    cp tests/python/dlpack.py tests/python/gpu_*.py "$out/python/"
    if ! python3 tests/python/run.py build "$build" >"$log" 2>&1 </dev/null; then
        echo "The Python package is left out: $(tail -n 1 "$log")"
        return 0
    fi
    cp -R "$build/tests/python/package/jitc" "$out/python/"
    strip --strip-unneeded "$out"/python/jitc/*.so*
}

mkdir -p build/bundle
sh tools/setup.sh
quietly configure
quietly cmake --build "$build"
quietly cmake --build "$build" --target benchmarks
rm -rf "$out" "$out.tar.xz"
mkdir -p "$out/bin" "$out/lib" "$out/peers" "$out/data" "$out/reports/sync_modes"
find "$build/tests" "$build/benchmarks" "$build/examples" -maxdepth 1 -type f -perm -u+x \
    ! -name '*.so*' -exec cp {} "$out/bin/" \;
copy_libraries
strip --strip-unneeded "$out"/bin/* "$out"/lib/*
ctest --test-dir "$build" --show-only=json-v1 | python3 tools/bundle_tests.py "$(cd "$build" && pwd)" \
    >"$out/tests"
copy_package
cp tools/bundle_run.sh "$out/run.sh"
cp benchmarks/peers/*.py "$out/peers/"
mkdir -p "$out/combine" "$out/scatter"
cp benchmarks/combine/peer.* "$out/combine/"
cp benchmarks/scatter/peer.* "$out/scatter/"
cp benchmarks/svg_plot.py "$out/reports/"
cp benchmarks/sync_modes/report.py "$out/reports/sync_modes/"
git describe --always --dirty >"$out/revision" 2>/dev/null || echo unknown >"$out/revision"
[ ! -s "$picture" ] || cp "$picture" "$out/data/"
[ ! "$site" ] || cp -R "$site" "$out/site"
tar -C build/bundle -cf - jitc | xz -T0 -6 >"$out.tar.xz"
echo "$out: $(du -sm --apparent-size "$out" | cut -f1) MiB," \
    "$out.tar.xz: $(du -sm --apparent-size "$out.tar.xz" | cut -f1) MiB"
