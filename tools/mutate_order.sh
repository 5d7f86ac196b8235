#!/bin/sh
# Takes each synchronisation of the library out, once, and tells whether the test that is named for it
# in tests/mutations/order.txt fails then. Works on a copy of the sources; takes about an hour.
# usage: mutate_order.sh [word [folder [first]]]
#   only mutations whose name has the word, "" all of them; from the one named `first` on
set -eu
cd "$(dirname "$0")/.."
word=${1-}
folder=${2:-build/mutate}
first=${3-}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
tree=$folder/source build=$folder/build table=tests/mutations/order.txt
survivors=0 killed=0
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"

python3 tests/mutations/mutate.py check . $table
mkdir -p "$tree"
git ls-files | while read -r file; do # what is the same stays as old as it is
    cmp -s "$file" "$tree/$file" || cp --parents "$file" "$tree"
done
[ -e "$build/CMakeCache.txt" ] || cmake --preset dev -S "$tree" -B "$build" >"$folder/configure.log"

# The programs of a test, and what it runs on.
targets() { # test
    case $1 in
        fuzz_*) echo "${1%%.*}" ;;
        *) echo "test_${1%%.*}" ;;
    esac
    echo simcuda poor_driver meeting_nvrtc
}

# 0: it passes. The log is "$folder/test.log".
passes() { # test pattern
    CRITERION_TEST_PATTERN=$2 ctest --test-dir "$build" -R "^(empty_cache|$1)\$" --timeout 120 \
        --verbose >"$folder/test.log" 2>&1
}

build_for() { # test
    # shellcheck disable=SC2046 # targets are words
    cmake --build "$build" --target $(targets "$1") >"$folder/build.log" 2>&1
}

# Which test noticed, and if none did itself: how it came out.
killer() {
    failed=$(sed -n 's/.*\[FAIL\] \([^:]*::[a-z_0-9]*\).*/\1/p' "$folder/test.log" | sort -u | tr '\n' ' ')
    if [ -n "$failed" ]; then
        echo "killed by $failed"
    elif grep -qE 'the simulated driver found|race: ' "$folder/test.log"; then
        echo "killed by what the simulated driver found "
    elif grep -q '\*\*\*Timeout' "$folder/test.log"; then
        echo "killed, it hangs "
    else
        echo "killed, see $folder/test.log "
    fi
}

try() { # name test pattern
    file=$(python3 tests/mutations/mutate.py apply "$tree" $table "$1")
    if ! build_for "$2"; then
        verdict="does not build"
        survivors=$((survivors + 1))
    elif passes "$2" "$3"; then
        verdict="SURVIVED"
        survivors=$((survivors + 1))
    else
        verdict=$(killer)
        killed=$((killed + 1))
    fi
    mv "$tree/$file.orig" "$tree/$file" && touch "$tree/$file"
    echo "$1: $verdict ($2)"
}

python3 tests/mutations/mutate.py list $table "$word" | sed -n "/^$first/,\$p" >"$folder/list"
# As it is, everything passes.
for test in $(cut -d ' ' -f 2 "$folder/list" | sort -u); do
    build_for "$test" || { tail -n 20 "$folder/build.log" && exit 2; }
done
sort -u -k 2 "$folder/list" | while read -r name test pattern; do
    if ! passes "$test" "$pattern" || ! grep -Eq 'Passing: [1-9]|programs, from' "$folder/test.log"; then
        cat "$folder/test.log"
        echo "$name: the test fails as it is, or is none" && exit 2
    fi
done
while read -r name test pattern; do
    try "$name" "$test" "$pattern"
done <"$folder/list"
echo "$killed killed, $survivors survived"
[ "$survivors" = 0 ]
