#!/bin/sh
# Runs what tools/bundle.sh has packed. One line a test, a summary, logs in the folder logs/; not 0 if
# a test failed.
# usage: sh run.sh [llvm|cuda|sim|all] [test...]   tests on the CPU, the GPU, the simulated GPU
#        sh run.sh bench [name [option...]]        a benchmark (combine, cuda, dlpack, memory, scatter, sync_modes); the last's report
#                                                  and plots: logs/results
#        sh run.sh demo                            the examples, on all devices that are there
#        sh run.sh interop [torch|cupy|jax|costs...]   the Python package with other libraries on the GPU, those
#                                                  that python3 (or $BENCH_PYTHON) has
#        sh run.sh math [option...]                errors of the math functions on the GPU, as a table
#        sh run.sh sanitize [memcheck|racecheck|initcheck] [test...]   under compute-sanitizer
# Variables: JITC_TEST_SECONDS, after which a test is ended: by default 60 on the GPU, unless it is known
# to take longer, and elsewhere what CTest gives it
set -eu
home=$(cd "$(dirname "$0")" && pwd)
cd "$home"
passed=0 failed=0 skipped=0 single=0 single_skipped=0
export CRITERION_VERBOSITY_LEVEL=1 # skipped tests are named
unset JITC_CACHE_DIR JITC_TEST_BACKEND JITC_CACHE_DISK JITC_CACHE_LIMIT
for library in lib/libLLVM*; do # the one that was packed, also where there is another
    [ ! -e "$library" ] || export JITC_LIBLLVM="${JITC_LIBLLVM:-$home/$library}"
done

# NVRTC among Python's packages, where the library itself does not look.
find_nvrtc() {
    [ ! "${JITC_LIBNVRTC-}" ] && ! ls /usr/local/cuda*/lib64/libnvrtc.so* >/dev/null 2>&1 || return 0
    found=$(python3 -c 'import glob, sys
print(*sorted(f for d in sys.path for f in glob.glob(d + "/nvidia/*/lib/libnvrtc.so.*")))' 2>/dev/null) || return 0
    [ ! "$found" ] || export JITC_LIBNVRTC="${found##* }"
}

has_driver() {
    [ "${JITC_LIBCUDA-}" ] || [ -e /dev/nvidia0 ] || [ -e /dev/nvidiactl ] || [ -e /dev/dxg ]
}
can_run() { # llvm|cuda|sim
    case $1 in
        llvm) ls lib/libLLVM* >/dev/null 2>&1 || ldconfig -p 2>/dev/null | grep -q libLLVM ;;
        cuda) has_driver ;;
        sim) [ -e lib/libsimcuda.so ] ;;
    esac
}
missing() { # llvm|cuda|sim
    case $1 in
        llvm) echo "no LLVM, neither here nor on the machine" ;;
        cuda) echo "no GPU" ;;
        sim) echo "the simulated driver is not packed" ;;
    esac
}

# Does a test belong to a mode? Those of no backend run beside the CPU's, those of the simulator itself
# on nothing else; but what holds on a real driver, too, is tried there.
belongs() { # mode backend test
    case $1-$3 in
        llvm-*) [ "$2" != cuda ] ;;
        cuda-simcuda_capture | cuda-simcuda_captured | cuda-simcuda_waits) true ;;
        cuda-sim*) false ;;
        *) [ "$2" = cuda ] ;;
    esac
}

# Sets the environment of a mode for the command behind it.
in_mode() { # mode test command...
    mode=$1 test=$2
    shift 2
    case $mode-$test in
        sim-*)
            JITC_TEST_BACKEND=cuda JITC_LIBCUDA=$home/lib/libsimcuda.so \
                JITC_LIBNVRTC=$home/lib/libsimcuda.so "$@"
            ;;
        cuda-sim*) JITC_LIBCUDA=${JITC_LIBCUDA:-libcuda.so.1} "$@" ;;
        *) JITC_TEST_BACKEND=$mode "$@" ;;
    esac
}

# The seconds that a test may take; CTest would give it `seconds`.
limit_of() { # mode test seconds
    limit=$3
    case $1-$2 in
        cuda-ops.cuda | cuda-eval_random.cuda | cuda-cuda_scatter | cuda-scatter_reduce.cuda)
            limit=180 # 41, 28, 32 and 27 on an H200
            ;;
        cuda-*) limit=60 ;;
    esac
    echo "$((${JITC_TEST_SECONDS:-$limit} * ${patience:-1}))"
}

verdict() { # status log
    if [ "$1" = 77 ]; then
        echo skip
    elif [ "$1" != 0 ]; then
        echo FAIL
    elif grep -Eq 'Assertion Failed|during its setup or teardown' "$2"; then
        echo FAIL # Criterion does not count what fails in .fini
    elif grep -q '^\[SKIP\]' "$2" && ! grep -Eq 'Passing: [1-9]' "$2"; then
        echo skip
    else
        echo pass
    fi
}

count() { # verdict log
    case $1 in
        pass) passed=$((passed + 1)) ;;
        skip) skipped=$((skipped + 1)) ;;
        *) failed=$((failed + 1)) ;;
    esac
    single=$((single + $(sed -n 's/.*Passing: \([0-9]*\).*/\1/p' "$2" | tail -n 1 | grep . || echo 0)))
    single_skipped=$((single_skipped + $(grep -c '^\[SKIP\]' "$2" || true)))
}

run_test() { # mode name seconds variables program arguments...
    mode=$1 name=$2 seconds=$3 variables=$4
    shift 4
    program=$1
    shift
    log=logs/$mode-$name.log status=0 begin=$(date +%s)
    [ "$variables" != - ] || variables=
    variables=$(printf %s "$variables" | sed "s|@lib/|$home/lib/|g")
    limit=$(limit_of "$mode" "$name" "$seconds")
    case $program in
        test_sync_real) ;;
        test_*) set -- --timeout "$((limit * 3 / 4))" "$@" ;; # Criterion then names what hangs
    esac
    # shellcheck disable=SC2086 # variables are words
    in_mode "$mode" "$name" env JITC_CACHE_DIR="$home/logs/cache/$mode-$name" $variables \
        timeout -k 10 "$limit" ${wrapper-} "bin/$program" "$@" >"$log" 2>&1 </dev/null ||
        status=$?
    word=$(verdict "$status" "$log")
    if [ "$word" = pass ] && grep -Eq 'ERROR SUMMARY: [1-9]' "$log"; then
        word=FAIL # compute-sanitizer, in one of the processes
    fi
    count "$word" "$log"
    echo "$word  $mode  $name  $(($(date +%s) - begin)) s$(
        sed -n 's/.*Synthesis: *//p' "$log" | tail -n 1 | sed 's/^/  /')"
    if [ "$word" = FAIL ]; then
        grep -Ev '^\[(RUN |PASS|SKIP)\]' "$log" | tail -n "${JITC_TAIL:-25}" | sed 's/^/      /'
    fi
}

run_mode() { # mode test...
    mode=$1
    shift
    wanted=" $* "
    if ! can_run "$mode"; then
        echo "skip  $mode  all tests: $(missing "$mode")"
        skipped=$((skipped + 1))
        return 0
    fi
    tab=$(printf '\t')
    while IFS=$tab read -r name backend seconds variables program arguments; do
        belongs "$mode" "$backend" "$name" || continue
        case $wanted in
            "  " | *" $name "*) ;;
            *) continue ;;
        esac
        # shellcheck disable=SC2086 # arguments are words
        run_test "$mode" "$name" "$seconds" "$variables" "$program" $arguments
    done <tests
}

finish() {
    echo "$passed passed, $failed failed, $skipped skipped (programs;" \
        "single tests: $single passed, $single_skipped skipped)"
    [ "$failed" = 0 ] || exit 1
    [ "$passed" != 0 ] || { echo "nothing was run" && exit 1; }
}

run_tests() { # modes test...
    modes=$1
    shift
    rm -rf logs/cache
    for mode in $modes; do
        run_mode "$mode" "$@"
    done
    finish
}

# Those that use the device in every way and do not only count or compile.
sanitized="memory_ops.cuda chains.cuda eval.cuda errors.cuda cuda cuda_kernel cuda_order"

sanitize() { # tool test...
    tool=${1:-memcheck}
    [ $# = 0 ] || shift
    sanitizer=$(PATH=$PATH:/usr/local/cuda/bin command -v compute-sanitizer) ||
        { echo "compute-sanitizer is neither in PATH nor in /usr/local/cuda/bin" >&2 && exit 2; }
    # shellcheck disable=SC2086 # names of tests are words
    [ $# != 0 ] || set -- $sanitized
    # Calls that fail are part of some tests.
    wrapper="$sanitizer --tool $tool --target-processes all --error-exitcode 42 --report-api-errors no"
    patience=10
    CRITERION_JOBS=1 # one process on the GPU at a time
    export CRITERION_JOBS
    run_tests cuda "$@"
}

# CUB's part of a benchmark, and what is written by hand, by nvcc.
make_peer() { # name
    nvcc=$(PATH=$PATH:/usr/local/cuda/bin command -v nvcc) || {
        echo "CUB is left out: nvcc is neither in PATH nor in /usr/local/cuda/bin" >&2
        return 0
    }
    echo "compiling CUB's part"
    "$nvcc" -O3 -std=c++17 -arch=native -shared -Xcompiler -fPIC -o "logs/$1_peer.so" "$1/peer.cu"
    export BENCH_PEER="$home/logs/$1_peer.so"
}

bench() { # name option...
    name=${1:-cuda}
    [ $# = 0 ] || shift
    scratch=$(mktemp -d) # neither home nor cache of another run
    trap 'rm -rf "$scratch"' EXIT
    [ ! -d site ] || export PYTHONPATH="$home/site${PYTHONPATH:+:$PYTHONPATH}"
    [ ! -e "$name/peer.cu" ] || make_peer "$name"
    status=0
    HOME=$scratch BENCH_PYTHON=${BENCH_PYTHON:-python3} JITC_CACHE_DIR=$scratch/jitc BENCH_SOURCE=$home BENCH_REVISION=$(cat revision) \
        "bin/bench_$name" --json "logs/bench_$name.json" "$@" || status=$?
    if [ -e "reports/$name/report.py" ]; then # also of what came before a failure
        python3 "reports/$name/report.py" "logs/bench_$name.json" logs/results || status=1
    fi
    return "$status"
}

# What is printed of the tests of Python: failures, and the table of costs.
interop() { # library...
    [ $# != 0 ] || set -- torch cupy jax costs
    [ ! -d site ] || export PYTHONPATH="$home/site${PYTHONPATH:+:$PYTHONPATH}"
    export JITC_CACHE_DIR="$home/logs/cache/interop" PYTHONPATH="$home/python${PYTHONPATH:+:$PYTHONPATH}"
    rm -rf "$JITC_CACHE_DIR"
    python=${BENCH_PYTHON:-python3}
    for name; do
        log=logs/interop-$name.log status=0 begin=$(date +%s)
        if [ "$name" != costs ] && ! "$python" -c "import $name" >"$log" 2>&1; then
            echo "skip  $name cannot be imported: $(tail -n 1 "$log")"
            skipped=$((skipped + 1))
            continue
        fi
        timeout -k 10 "${JITC_TEST_SECONDS:-400}" "$python" -X faulthandler "python/gpu_$name.py" >"$log" 2>&1 </dev/null ||
            status=$?
        case $status in
            0) word=pass ;;
            77) word=skip ;;
            *) word=FAIL ;;
        esac
        ! grep -q '^Ran 0 tests' "$log" || word=skip # no GPU
        count "$word" /dev/null
        echo "$word  $name  $(($(date +%s) - begin)) s  $(grep -E '^(Ran|OK|FAILED)' "$log" | tr '\n' ' ')"
        if [ "$word" = FAIL ]; then
            tail -n "${JITC_TAIL:-60}" "$log" | sed 's/^/      /'
        elif [ "$name" = costs ]; then
            cat "$log"
        fi
    done
    finish
}

demo() {
    status=0
    export JITC_CACHE_DIR="$home/logs/cache/demo"
    rm -rf "$JITC_CACHE_DIR"
    for example in saxpy black_scholes heat histogram nbody share; do
        echo "$example:"
        "bin/$example" || status=1
    done
    for example in mandelbrot path_tracer; do
        [ -e "bin/$example" ] || continue
        echo "$example:"
        "bin/$example" "logs/$example.png" || status=1
    done
    for example in image_filter kmeans; do
        if [ -e data/chelsea.png ] && [ -e "bin/$example" ]; then
            echo "$example:"
            "bin/$example" data/chelsea.png "logs/$example.png" || status=1
        else
            echo "$example is skipped: no photograph was packed (tools/demo.sh fetches it)"
        fi
    done
    exit "$status"
}

what=${1:-all}
[ $# = 0 ] || shift
mkdir -p logs
find_nvrtc
case $what in
    llvm | cuda | sim) run_tests "$what" "$@" ;;
    all) run_tests "llvm cuda sim" "$@" ;;
    bench) bench "$@" ;;
    demo) demo ;;
    interop) interop "$@" ;;
    math) JITC_CACHE_DIR=$home/logs/cache/math bin/math_errors_cuda "$@" ;;
    sanitize) sanitize "$@" ;;
    *) sed -n '2,/^set/p' run.sh | sed '$d' >&2 && exit 2 ;;
esac
