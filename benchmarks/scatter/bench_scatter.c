/* bench_scatter.c: loops, values combined into arrays, and gathers, beside CUDA written by hand and
 * CUB.  Layer: benchmarks. May include: core, device.
 *
 * They are programs of the CUDA backend, launched again and again on one stream. Results are
 * compared with those of the kernels written by hand; the exit status tells whether they were
 * right. BENCH_LARGEST is the binary logarithm of the largest arrays (28). BENCH_PEER names the
 * library that nvcc makes of peer.cu. */
#include "cuda_device.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct session {
    bench *bench;
    scatter_session scatter;
    int largest;
    bool wrong;
} session;

static const char *const kinds[] = {
    [SCATTER_COUNT] = "histogram u32", [SCATTER_ADD] = "scatter add f32",
    [SCATTER_MAX] = "scatter max f32", [SCATTER_INC] = "scatter inc u32",
    [SCATTER_GATHER] = "gather f32",   [SCATTER_MANDELBROT] = "Mandelbrot, 1024 iterations"};
enum { CUB_LOG2_SIZE = 20 }; /* its histogram goes out of bounds with 2^24 bins */
static const char *const patterns[] = {"random", "equal", "sorted", "90 % equal", "iota"};

static void measure(session *s, scatter_kind kind, scatter_pattern pattern, int log2_size,
                    int log2_n) {
    scatter_work w = {
        .what = {.kind = kind, .n = (size_t) 1 << log2_n, .size = (size_t) 1 << log2_size},
        .pattern = pattern};
    bench_row row = bench_row_make(BENCH_US, (bench_goal) {1, "hand"}, "%s, %s 2^%d of 2^%d",
                                   kinds[kind], patterns[pattern], log2_size, log2_n);
    if (kind == SCATTER_MANDELBROT)
        row = bench_row_make(BENCH_US, (bench_goal) {1, "hand"}, "%s", kinds[kind]);
    if (log2_n > s->largest || !bench_wants(s->bench, row.name))
        return;
    if (!s->scatter.hand)
        row.goal = (bench_goal) {0, NULL};
    if (scatter_prepare(&s->scatter, &w)) {
        if (!scatter_check(&w)) {
            fprintf(stderr, "... of %s\n", row.name);
            s->wrong = true;
        }
        bench_row_add(&row, "jitc", scatter_sample, &w);
        if (s->scatter.hand)
            bench_row_add(&row, "hand", scatter_hand_sample, &w);
        if (s->scatter.cub && kind == SCATTER_COUNT && log2_size <= CUB_LOG2_SIZE)
            bench_row_add(&row, "CUB", scatter_cub_sample, &w);
        bench_measure(s->bench, &row);
    } else {
        s->wrong = true;
    }
    scatter_release(&w);
}

static void measure_patterns(session *s, scatter_kind kind, const int *log2_sizes, size_t sizes,
                             int log2_n) {
    for (size_t i = 0; i < sizes; ++i)
        for (scatter_pattern p = SCATTER_RANDOM; p <= SCATTER_IOTA; ++p)
            measure(s, kind, p, log2_sizes[i], log2_n);
}

static void measure_all(session *s) {
    static const int bins[] = {0, 8, 9, 12, 14, 15, 16}, tables[] = {16, 20, 24},
                     lanes[] = {24, 28};
    measure(s, SCATTER_MANDELBROT, SCATTER_RANDOM, 0, 24);
    for (size_t i = 0; i < 2; ++i) {
        measure_patterns(s, SCATTER_COUNT, bins, sizeof bins / sizeof *bins, lanes[i]);
        measure_patterns(s, SCATTER_ADD, bins, sizeof bins / sizeof *bins, lanes[i]);
    }
    for (size_t i = 0; i < sizeof tables / sizeof *tables; ++i) {
        for (scatter_pattern p = SCATTER_RANDOM; i && p <= SCATTER_IOTA; ++p) {
            measure(s, SCATTER_COUNT, p, tables[i], 24);
            measure(s, SCATTER_ADD, p, tables[i], 24);
        }
        measure(s, SCATTER_MAX, SCATTER_RANDOM, tables[i], 24);
        measure(s, SCATTER_MAX, SCATTER_EQUAL, tables[i], 24);
        measure(s, SCATTER_INC, SCATTER_RANDOM, tables[i], 24);
        measure(s, SCATTER_GATHER, SCATTER_RANDOM, tables[i], 24);
        measure(s, SCATTER_GATHER, SCATTER_IOTA, tables[i], 24);
    }
    measure(s, SCATTER_INC, SCATTER_EQUAL, 0, 24);
    for (int log2_n = 12; log2_n <= 20; log2_n += 4)
        for (int k = SCATTER_COUNT; k <= SCATTER_ADD; ++k) {
            measure(s, (scatter_kind) k, SCATTER_RANDOM, 8, log2_n);
            measure(s, (scatter_kind) k, SCATTER_RANDOM, 12, log2_n);
            measure(s, (scatter_kind) k, SCATTER_RANDOM, 20, log2_n);
        }
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc", "hand", "CUB", NULL};
    const char *largest = getenv("BENCH_LARGEST");
    session s = {.largest = largest ? atoi(largest) : 28};
    cuda_device *device = cuda_device_open();
    if (!device || !scatter_open(&s.scatter))
        return 2;
    s.bench = bench_create("scatter", who, argc, argv);
    if (!s.bench)
        return 2;
    bench_set_budget(s.bench, 0.1);
    measure_all(&s);
    char text[400];
    cuda_device_describe(device, text, sizeof text);
    bench_note(s.bench, "%s", text);
    bench_note(s.bench, "Kernels back to back for 5 ms or more and one wait, by the CPU's clock. "
                        "Random 2^8 of 2^24: 2^24 lanes, a table of 2^8 elements, random indices. "
                        "CUB's histogram begins at 0 each time. Mandelbrot: 4096 x 4096 pixels.");
    scatter_close(&s.scatter);
    cuda_device_close(device);
    int status = bench_destroy(s.bench);
    return s.wrong ? 1 : status;
}
