/* bench_combine.c: kernels that combine lanes beside CUB: reductions, scans, compaction.
 * Layer: benchmarks. May include: core, device.
 *
 * They are programs of the CUDA backend, launched again and again on one stream. Results are
 * compared with CUB's; the exit status tells whether they were right. BENCH_LARGEST is the binary
 * logarithm of the largest arrays (28). BENCH_PEER names the library that nvcc makes of peer.cu. */
#include "cuda_device.h"
#include "work.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct session {
    bench *bench;
    combine_session combine;
    cuda_device *device;
    int largest;
    bool wrong;
} session;

typedef struct kind {
    const char *name;
    combine_kind kind;
    combine_type type;
    size_t length;
    unsigned per_1024;
    bool reverse;
} kind;

static const kind kinds[] = {
    {"sum f32", COMBINE_SUM, COMBINE_F32, 0, 0, false},
    {"sum f64", COMBINE_SUM, COMBINE_F64, 0, 0, false},
    {"max f32", COMBINE_MAX, COMBINE_F32, 0, 0, false},
    {"max u32", COMBINE_MAX, COMBINE_U32, 0, 0, false},
    {"sum(x y + z) f32", COMBINE_FUSED, COMBINE_F32, 0, 0, false},
    {"sum, squares, max f32", COMBINE_SEVERAL, COMBINE_F32, 0, 0, false},
    {"blocks of 4 f32", COMBINE_BLOCKS, COMBINE_F32, 4, 0, false},
    {"blocks of 32 f32", COMBINE_BLOCKS, COMBINE_F32, 32, 0, false},
    {"blocks of 1000 f32", COMBINE_BLOCKS, COMBINE_F32, 1000, 0, false},
    {"blocks of 10000 f32", COMBINE_BLOCKS, COMBINE_F32, 10000, 0, false},
    {"blocks of 500000 f32", COMBINE_BLOCKS, COMBINE_F32, 500000, 0, false},
    {"scan f32", COMBINE_SCAN, COMBINE_F32, 0, 0, false},
    {"scan f32, exclusive", COMBINE_EXCLUSIVE, COMBINE_F32, 0, 0, false},
    {"scan f32, reverse", COMBINE_SCAN, COMBINE_F32, 0, 0, true},
    {"scan u32", COMBINE_SCAN, COMBINE_U32, 0, 0, false},
    {"scan f64", COMBINE_SCAN, COMBINE_F64, 0, 0, false},
    {"compress 1 %", COMBINE_COMPRESS, COMBINE_U8, 0, 10, false},
    {"compress 50 %", COMBINE_COMPRESS, COMBINE_U8, 0, 512, false},
    {"compress 100 %", COMBINE_COMPRESS, COMBINE_U8, 0, 1024, false},
    {"compress x < y f32", COMBINE_SELECT, COMBINE_F32, 0, 0, false},
    {"sort u32", COMBINE_SORT, COMBINE_U32, 0, 0, false},
    {"sort u32 with numbers", COMBINE_PAIRS, COMBINE_U32, 0, 0, false},
};
static const int sizes[] = {10, 16, 20, 24, 28};

static void measure(session *s, const kind *k, int log2_n) {
    size_t n = (size_t) 1 << log2_n;
    combine_work w = {.what = {.kind = k->kind, .type = k->type, .n = n, .length = k->length},
                      .per_1024 = k->per_1024,
                      .reverse = k->reverse};
    bench_row row = bench_row_make(BENCH_US, (bench_goal) {1, "CUB"}, "%s, 2^%d", k->name, log2_n);
    if (log2_n > s->largest || !bench_wants(s->bench, row.name))
        return;
    if (!s->combine.peer_run || k->reverse)
        row.goal = (bench_goal) {0, NULL};
    if (combine_prepare(&s->combine, &w)) {
        cuda_copy copy = {.device = s->device, .bytes = combine_bytes(&w) / 2};
        if (!combine_check(&w)) {
            fprintf(stderr, "... of %s\n", row.name);
            s->wrong = true;
        }
        bench_row_add(&row, "jitc", combine_sample, &w);
        if (s->combine.peer_run && !k->reverse)
            bench_row_add(&row, "CUB", combine_peer_sample, &w);
        bench_row_add(&row, "memcpy", cuda_copy_sample, &copy);
        bench_measure(s->bench, &row);
    }
    combine_release(&w);
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc", "CUB", "memcpy", NULL};
    const char *largest = getenv("BENCH_LARGEST");
    session s = {.largest = largest ? atoi(largest) : 28};
    s.device = cuda_device_open();
    if (!s.device || !combine_open(&s.combine))
        return 2;
    s.bench = bench_create("combine", who, argc, argv);
    if (!s.bench)
        return 2;
    bench_set_budget(s.bench, 0.1);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; ++k)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
            measure(&s, &kinds[k], sizes[i]);
    char text[400];
    cuda_device_describe(s.device, text, sizeof text);
    bench_note(s.bench, "%s", text);
    bench_note(s.bench, "Kernels back to back for 5 ms or more and one wait, by the CPU's clock. "
                        "memcpy moves as many bytes within the device. 2^N elements.");
    combine_close(&s.combine);
    cuda_device_close(s.device);
    int status = bench_destroy(s.bench);
    return s.wrong ? 1 : status;
}
