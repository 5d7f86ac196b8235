/* bench_memory.c: what device memory costs: a block from the cache, a new one on an idle and on a
 * busy GPU, giving blocks back, and copies between host and device beside the driver's own.
 * Layer: benchmarks. May include: <jit/jit.h>, core, device.
 *
 * BENCH_LARGEST is the binary logarithm of the largest copy's bytes (30), for devices that are slow
 * or small. */
#include "parts.h"

#include <jit/jit.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 32 };

/* Evaluations of arrays of one size. */
typedef struct blocks {
    const char *pool; /* value of the option cuda_pool */
    size_t n;
    bool fresh, busy; /* are their blocks new? does the device run a long kernel? */
    bool trimming;    /* is it the giving back that counts? */
    size_t work;      /* elements of that kernel */
} blocks;

static double failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, jit_error());
    jit_error_clear();
    return -1;
}

static bool evaluate(size_t n, int operations, jit_var *out) {
    jit_scope_push();
    jit_var x = jit_cast(jit_counter(JIT_CUDA, n), JIT_f32);
    for (int i = 0; i < operations; ++i)
        x = jit_sin(x);
    bool good = jit_var_eval(x) == JIT_OK;
    jit_scope_pop(good, &x);
    *out = good ? x : 0;
    return good;
}

static bool evaluate_all(const blocks *b, jit_var v[BLOCKS]) {
    bool good = true;
    for (int i = 0; i < BLOCKS; ++i)
        good = evaluate(b->n, 1, &v[i]) && good;
    return good;
}

static void unref_all(jit_var v[BLOCKS]) {
    for (int i = 0; i < BLOCKS; ++i)
        jit_unref(v[i]);
}

/* Nanoseconds for each block. */
static double measure_inside(const blocks *b) {
    jit_var v[BLOCKS], work = 0;
    if (!evaluate_all(b, v)) /* compiles, and makes the stream's own things */
        return failed("evaluating");
    unref_all(v);
    bool good = jit_sync_thread() == JIT_OK && (!b->fresh || jit_trim() == JIT_OK) &&
                (!b->busy || evaluate(b->work, 64, &work));
    double start = bench_now();
    if (b->trimming)
        good = good && jit_trim() == JIT_OK;
    else
        good = good && evaluate_all(b, v);
    double end = bench_now();
    if (!b->trimming)
        unref_all(v);
    jit_unref(work);
    good = good && jit_sync_thread() == JIT_OK;
    return good ? (end - start) / (double) BLOCKS : failed("evaluating");
}

static double sample(void *context) {
    const blocks *b = context;
    if (jit_set_option("cuda_pool", b->pool) != JIT_OK || jit_init(JIT_CUDA) != JIT_OK)
        return failed("jit_init");
    double ns = measure_inside(b);
    jit_shutdown();
    return ns;
}

static void measure(bench *b, const char *name, blocks with) {
    blocks without = with;
    with.pool = "1";
    without.pool = "0";
    bench_row row = bench_row_make(BENCH_NS, (bench_goal) {0}, "%s, %zu KiB", name, with.n >> 8);
    bench_row_add(&row, "jitc", sample, &with);
    bench_row_add(&row, "cuMemAlloc", sample, &without);
    bench_measure(b, &row);
}

int main(int argc, char **argv) {
    static const char *const who[] = {"jitc",     "cuMemAlloc", "one thread",
                                      "pageable", "pinned",     NULL};
    const char *text = getenv("BENCH_LARGEST");
    int largest = text ? atoi(text) : 30;
    size_t work = (size_t) 1 << (largest < 26 ? largest : 26);
    bench *b = bench_create("memory", who, argc, argv);
    if (!b)
        return 2;
    bench_set_budget(b, 0.3);
    measure_blocks(b);
    cuda_device *d = cuda_device_open();
    for (size_t n = 1 << 12; d && n <= 1 << 22 && n <= work; n <<= 10) {
        measure(b, "evaluation, cached block", (blocks) {.n = n, .work = work});
        measure(b, "evaluation, new block", (blocks) {.n = n, .work = work, .fresh = true});
        measure(b, "the same, busy", (blocks) {.n = n, .work = work, .fresh = true, .busy = true});
        measure(b, "giving a block back, busy",
                (blocks) {.n = n, .work = work, .busy = true, .trimming = true});
    }
    if (d && jit_set_option("cuda_pool", "1") == JIT_OK && jit_init(JIT_CUDA) == JIT_OK) {
        for (int bits = 12; bits <= largest; bits += bits < 24 ? 4 : 3)
            measure_transfers(b, d, (size_t) 1 << bits);
        jit_shutdown();
    }
    if (d) {
        char name[400];
        cuda_device_describe(d, name, sizeof name);
        bench_note(b, "%s", name);
    }
    bench_note(b,
               "take and give: of one block of 4 KiB by each thread, alone; evaluation: of one "
               "kernel, launching included, of 32 back to back; jitc: from a pool of the driver; "
               "busy: behind a kernel of 64 sines over many elements.");
    bench_note(b, "upload, download: from and to pageable memory, until all has arrived; pageable, "
                  "pinned: the driver's copies; one thread: the option copy_threads = 1.");
    cuda_device_close(d);
    return bench_destroy(b);
}
