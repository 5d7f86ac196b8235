/* bench_cuda.c: the CUDA backend beside its peers: throughput, cost of an evaluation, compilation.
 * Layer: benchmarks. May include: <jit/jit.h>.
 *
 * Times are those of a clock of the CPU around several evaluations and one wait at their end, for
 * everybody: some milliseconds a sample. BENCH_LARGEST is the binary logarithm of the largest
 * arrays (32), for devices that are slow or small. --long adds what reaches the same rates: sums
 * and chains of all types and sizes. */
#include "bench.h"
#include "cuda_costs.h"
#include "cuda_device.h"
#include "cuda_work.h"

#include <stdio.h>
#include <stdlib.h>

/* Rows without peers are many and short; from this many bytes on, memory is given back after a
 * row. */
static const double peer_budget = 0.3, lone_budget = 0.05, giving_back = 8e9;
/* Of a chain: longer ones are bound by arithmetic, and as fast as those of fewer elements. */
static const double most_operations = 3e10;

typedef struct session {
    bench *bench;
    cuda_device *device;
    python_peer *peers[CUDA_PEERS];
    int largest;
} session;

static bool begin_jit(void) {
    if (jit_init(JIT_CUDA) == JIT_OK)
        return true;
    fprintf(stderr, "jitc: %s\n", jit_error());
    return false;
}

/* Peers keep memory for reuse until they are told to rest. */
static void rest_peers(session *s) {
    for (int k = 0; k < CUDA_PEERS; ++k)
        if (s->peers[k])
            python_peer_sample(&(python_work) {s->peers[k], "rest", 0});
}

/* How many of the peers have room beside each other. */
static unsigned with_room(const session *s, unsigned who, double bytes) {
    unsigned kept = 0;
    double room = cuda_device_free_memory(s->device) - 4e9 - bytes;
    for (unsigned k = 0; k < CUDA_PEERS; ++k)
        if (who & 1u << k && room > 1.1 * bytes) {
            kept |= 1u << k;
            room -= 1.1 * bytes;
        }
    return kept;
}

/* One row of rates; `who`: the peers, bits 1 << CUDA_...; `name`: the work's, also for them. */
static void measure(session *s, cuda_work w, unsigned who, const char *name, double goal) {
    double bytes = cuda_work_bytes(&w);
    char request[64];
    int log2_n = __builtin_ctzll(w.n);
    bench_row row =
        bench_row_rate(bytes, goal, "%s %s, 2^%d", name, jit_dtype_name(w.type), log2_n);
    double operations = w.kind == CUDA_CHAIN ? (double) w.n * (double) w.count : 0;
    if (log2_n > s->largest || operations > most_operations || !bench_wants(s->bench, row.name) ||
        bytes + 4e9 > cuda_device_free_memory(s->device))
        return;
    snprintf(request, sizeof request, "%s:%s", name, jit_dtype_name(w.type));
    python_work works[CUDA_PEERS];
    cuda_copy copy = {.device = s->device, .bytes = bytes / 2};
    unsigned kept = with_room(s, who, bytes);
    if (!cuda_work_prepare(&w))
        return;
    bench_set_budget(s->bench, who ? peer_budget : lone_budget);
    bench_row_add(&row, "jitc", cuda_work_sample, &w);
    cuda_peers_add(&row, s->peers, kept, request, w.n, works);
    bench_row_add(&row, "memcpy", cuda_copy_sample, &copy);
    bench_measure(s->bench, &row);
    cuda_work_release(&w);
    if (bytes >= giving_back) {
        rest_peers(s);
        jit_shutdown();
        begin_jit();
    }
}

static const jit_dtype types[] = {JIT_f32, JIT_f64, JIT_f16, JIT_u8};
static const int sizes[] = {10, 20, 24, 28, 32};
enum { TYPES = 4, SIZES = 5, F32 = 0, AT_2_24 = 2, AT_2_28 = 3 };

static void measure_axpy(session *s) {
    for (int t = 0; t < TYPES; ++t)
        for (int k = 0; k < SIZES; ++k) {
            double goal = t != F32 ? 0 : k == AT_2_28 ? 4350 : k == AT_2_24 ? 4000 : 0;
            measure(s, (cuda_work) {CUDA_AXPY, types[t], .n = (size_t) 1 << sizes[k]}, 7, "axpy",
                    goal);
        }
    measure(s, (cuda_work) {CUDA_GATHER, JIT_f32, .n = (size_t) 1 << sizes[AT_2_24]},
            1u << CUDA_DRJIT | 1u << CUDA_TORCH | 1u << CUDA_CUPY, "gather", 760);
}

/* Is a row of sums and chains among those that are always measured? f32 that fits into a few GB,
 * and the other types where memory binds them. */
static bool is_usual(int type, int size) {
    return type == F32 ? size <= AT_2_28 : size == AT_2_24;
}

/* Kernels of several inputs or many operations: with the peers that fuse them for f32 of 2^24,
 * alone for everything else. */
static void measure_kinds(session *s, cuda_kind kind, const char *name, const size_t *counts,
                          size_t count) {
    for (size_t i = 0; i < count; ++i)
        for (int t = 0; t < TYPES; ++t)
            for (int k = 0; k < SIZES; ++k) {
                char label[32];
                if (bench_effort(s->bench) <= 0 && !is_usual(t, k))
                    continue;
                unsigned who = t == F32 && k == AT_2_24 ? 1u << CUDA_DRJIT | 1u << CUDA_CUPY : 0;
                snprintf(label, sizeof label, "%s%zu", name, counts[i]);
                measure(
                    s,
                    (cuda_work) {kind, types[t], .count = counts[i], .n = (size_t) 1 << sizes[k]},
                    who, label, 0);
            }
}

static bool begin(session *s, int argc, char **argv) {
    static const char *const who[] = {"jitc", "no graphs", "torch", "drjit",
                                      "cupy", "memcpy",    NULL};
    const char *largest = getenv("BENCH_LARGEST");
    s->largest = largest ? atoi(largest) : sizes[SIZES - 1];
    s->device = cuda_device_open();
    if (!s->device || !begin_jit())
        return false;
    s->bench = bench_create("cuda", who, argc, argv);
    for (int k = 0; k < CUDA_PEERS; ++k)
        s->peers[k] = python_peer_create("cuda_peers.py", cuda_peer_names[k], 1);
    return s->bench != NULL;
}

static void note(session *s) {
    char text[400];
    cuda_device_describe(s->device, text, sizeof text);
    bench_note(s->bench, "%s", text);
    bench_note(s->bench,
               "axpy: 2 x + y; sumK: the sum of K inputs; chainK: K additions and "
               "multiplications of two inputs; 2^N elements. GB/s count every array once.");
    bench_note(s->bench,
               "A sample: evaluations back to back for 5 ms or more and one wait, by the "
               "CPU's clock; tracing is part of it. memcpy moves as many bytes within the "
               "device. PyTorch computes axpy by one kernel; CuPy by ElementwiseKernel.");
}

int main(int argc, char **argv) {
    static const size_t inputs[] = {1, 2, 4, 8, 12, 16}, operations[] = {10, 100, 1000};
    session s = {0};
    if (!begin(&s, argc, argv))
        return 2;
    bench_set_budget(s.bench, peer_budget);
    cuda_costs_evaluate(s.bench, s.peers);
    cuda_costs_compile(s.bench, s.peers);
    measure_axpy(&s);
    measure_kinds(&s, CUDA_SUM, "sum", inputs, sizeof inputs / sizeof *inputs);
    measure_kinds(&s, CUDA_CHAIN, "chain", operations, sizeof operations / sizeof *operations);
    bool drjit = s.peers[CUDA_DRJIT] != NULL;
    for (int k = 0; k < CUDA_PEERS; ++k)
        python_peer_destroy(s.peers[k]);
    cuda_costs_start(s.bench, argv[0], drjit);
    note(&s);
    jit_shutdown();
    cuda_device_close(s.device);
    return bench_destroy(s.bench);
}
