/* loop.c: a pipeline: each step computes an array, exports it, has it copied on another stream, and
 * deletes the tensor at once; beside the same by jit_data() and the functions of <jit/cuda.h>.
 * Layer: benchmarks. May include: <jit/dlpack.h>. */
#include "dlpack/parts.h"

#include <string.h>

enum { STEPS = 64, MOST_STEPS = 1 << 14 };
static const double fill_ns = 5e6;

typedef struct loop {
    site *site;
    intptr_t token;
    void *stream; /* on which the array is read */
    bool shared;  /* by DLPack? */
    size_t n, steps;
    void *copy; /* where the consumer writes */
    jit_var start;
    double blocks; /* that were needed at the end of a sample, of the array's size */
    uint32_t step;
} loop;

static bool consume(const loop *l, const void *data) {
    site *s = l->site;
    if (!s->device) {
        memcpy(l->copy, data, l->n * sizeof(float));
        return true;
    }
    const cuda_driver *d = cuda_device_driver(s->device);
    return d->copy((cuda_address) (uintptr_t) l->copy, (cuda_address) (uintptr_t) data,
                   l->n * sizeof(float), l->stream) == 0;
}

static bool hand_over_shared(const loop *l, jit_var v) {
    DLManagedTensorVersioned *t;
    jit_export_options options = JIT_EXPORT_OPTIONS;
    options.stream = l->token;
    if (jit_export_dlpack(v, &options, &t) != JIT_OK)
        return false;
    bool good = consume(l, t->dl_tensor.data);
    t->deleter(t);
    return good;
}

static bool hand_over(const loop *l, jit_var v) {
    void *data;
    if (jit_data(v, &data) != JIT_OK)
        return false;
    if (!l->site->device)
        return consume(l, data);
    return jit_cuda_sync_stream((uintptr_t) l->token) == JIT_OK && consume(l, data) &&
           jit_cuda_wait_stream((uintptr_t) l->token) == JIT_OK;
}

static bool run_step(loop *l) {
    jit_backend b = l->site->backend;
    jit_scope_push();
    jit_var v = jit_add(l->start, jit_f32(b, (float) (l->step++ & 0xffff)));
    bool good = l->shared ? hand_over_shared(l, v) : hand_over(l, v);
    return jit_scope_pop(0, NULL) == JIT_OK && good;
}

static bool rest(const loop *l) {
    return jit_sync_thread() == JIT_OK &&
           (!l->site->device || cuda_device_driver(l->site->device)->sync(l->stream) == 0);
}

/* What the steps leave beside the array that they start from. */
static double count_blocks(const loop *l) {
    jit_stats stats;
    jit_get_stats(&stats);
    return (double) (stats.bytes_live + stats.bytes_cached) / (double) (l->n * sizeof(float)) - 1;
}

static bool is_right(const loop *l) {
    float got = -1, want = (float) ((l->step - 1) & 0xffff); /* the first element starts at 0 */
    if (!l->site->device)
        memcpy(&got, l->copy, sizeof got);
    else if (cuda_device_driver(l->site->device)
                     ->download(&got, (cuda_address) (uintptr_t) l->copy, sizeof got, l->stream) !=
                 0 ||
             !rest(l))
        return false;
    return got == want;
}

static double sample(void *context) {
    loop *l = context;
    l->steps = l->steps ? l->steps : STEPS;
    if (jit_trim() != JIT_OK || !rest(l))
        return site_failed("waiting");
    for (;; l->steps *= 2) {
        double start = bench_now();
        bool good = true;
        for (size_t i = 0; i < l->steps && good; ++i)
            good = run_step(l);
        l->blocks = count_blocks(l);
        good = rest(l) && good;
        double elapsed = bench_now() - start;
        if (!good)
            return site_failed("a step");
        l->site->wrong = l->site->wrong || !is_right(l);
        if (elapsed >= fill_ns || l->steps >= MOST_STEPS)
            return elapsed / (double) l->steps;
    }
}

static void describe(void *context, FILE *json) {
    fprintf(json, ", \"blocks\": %g", ((loop *) context)->blocks);
}

static void add(bench_row *row, const char *who, loop *l) {
    bench_row_add(row, who, sample, l);
    row->entries[row->count - 1].describe = describe;
}

static void measure(site *s, const char *name, loop l) {
    loop data = l;
    l.shared = true;
    bench_row row = bench_row_make(BENCH_US, (bench_goal) {0, NULL}, "loop, %s, %s, %zu KiB",
                                   s->name, name, l.n * sizeof(float) >> 10);
    add(&row, "jitc", &l);
    add(&row, "jit_data", &data);
    bench_measure(s->bench, &row);
    if (bench_wants(s->bench, row.name))
        bench_note(s->bench, "%s: %.3g blocks by DLPack, %.3g by jit_data().", row.name, l.blocks,
                   data.blocks);
}

void measure_loops(site *s) {
    for (int bits = 10; bits <= 20 && bits <= s->largest; bits += 10) {
        loop l = {.site = s, .n = (size_t) 1 << bits, .token = JIT_STREAM_NOT_GIVEN};
        l.start = site_array(s, l.n);
        l.copy = site_alloc(s, l.n * sizeof(float));
        if (l.start && l.copy && !s->device)
            measure(s, "not given", l);
        if (l.start && l.copy && s->device) {
            measure(s, "1", l); /* the legacy default stream is NULL */
            l.stream = s->stream;
            l.token = 0;
            measure(s, "0", l);
            l.token = (intptr_t) s->stream;
            measure(s, "handle", l);
        }
        site_free(s, l.copy);
        jit_unref(l.start);
    }
}
