/* work.c: programs that combine lanes, through the CUDA backend alone.
 * Layer: benchmarks. May include: core, ir, device, cuda. */
#include "work.h"
#include "cuda/cuda_backend.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CALLS = 4096 };
static const double fill_ns = 5e6;

/* ---- The backend ---- */

static bool check(jit_status status, const char *what) {
    if (status != JIT_OK)
        fprintf(stderr, "%s: %s\n", what, jit_error());
    return status == JIT_OK;
}

static void open_peer(combine_session *s) {
    const char *path = getenv("BENCH_PEER");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (path && !library)
        fprintf(stderr, "%s\n", dlerror());
    if (!library)
        return;
    *(void **) &s->peer_run = dlsym(library, "combine_peer_run");
    *(void **) &s->peer_wait = dlsym(library, "combine_peer_wait");
}

bool combine_open(combine_session *s) {
    static jitc_options options; /* the backend keeps it */
    jitc_options_init(&options);
    int count;
    if (!check(jitc_cuda_backend_create(&options, &s->backend), "opening CUDA") ||
        !check(s->backend->device_count(s->backend, &count), "counting devices") ||
        !check(s->backend->stream_create(s->backend, 0, &s->stream), "making a stream"))
        return false;
    s->stream->backend = s->backend;
    s->stream->device = 0;
    jitc_mutex_init(&s->stream->lock);
    open_peer(s);
    return true;
}

void combine_close(combine_session *s) {
    s->backend->stream_destroy(s->stream);
    s->backend->destroy(s->backend);
}

static bool wait_for(combine_session *s, uint64_t number) {
    return check(s->backend->flush(s->stream), "handing over") &&
           check(s->backend->wait(s->stream, number), "waiting");
}

static bool compile(combine_session *s, const jitc_program *p, jitc_kernel **out) {
    jitc_source *source;
    jitc_blob code;
    const char *wrong = jitc_program_invalid(p);
    if (wrong)
        fprintf(stderr, "wrong program: %s\n", wrong);
    if (wrong || !check(s->backend->lower(s->backend, 0, p, &source), "text"))
        return false;
    bool good = check(s->backend->compile(s->backend, source, 2, &code), "compiling");
    s->backend->source_destroy(s->backend, source);
    good = good && check(s->backend->load(s->backend, 0, p, &code, out), "loading");
    free(code.data);
    return good;
}

/* ---- Programs ---- */

/** A program that is written; if memory runs out nothing is right any more. */
typedef struct writing {
    jitc_program p;
    uint64_t *params;
} writing;

static uint32_t add(writing *w, jitc_inst i) {
    uint32_t index = 0;
    if (jitc_program_add(&w->p, i, &index) != JIT_OK)
        abort(); /* of a handful of instructions */
    return index;
}
static uint32_t apply(writing *w, jitc_op op, jit_dtype t, uint32_t a, uint32_t b) {
    return add(w, (jitc_inst) {.op = (uint8_t) op, .type = (uint8_t) t, .a = a, .b = b});
}
static uint32_t parameter(writing *w, uint64_t value) {
    w->params[w->p.head.params] = value;
    return w->p.head.params++;
}
static uint32_t baked(writing *w, jit_dtype t, uint32_t bits) {
    return add(
        w, (jitc_inst) {
               .op = JITC_OP_literal, .type = (uint8_t) t, .flags = JITC_INST_BAKED, .b = bits});
}
static uint32_t data(writing *w, jit_dtype t, const void *p) {
    return apply(w, JITC_OP_data, t, parameter(w, (uintptr_t) p), 0);
}

static jit_dtype type_of(const combine_work *w) {
    static const jit_dtype types[] = {JIT_f32, JIT_f64, JIT_u32, JIT_bool};
    return types[w->what.type];
}

static bool is_sort(const combine_work *w) {
    return w->what.kind == COMBINE_SORT || w->what.kind == COMBINE_PAIRS;
}

/* Numbers that look random: below 1, or below 16, or flags; any, to be sorted. */
static uint32_t write_values(writing *w, const combine_work *work, uint32_t salt) {
    uint32_t x = apply(w, JITC_OP_counter, JIT_u32, 0, 0);
    x = apply(w, JITC_OP_mul, JIT_u32, x, baked(w, JIT_u32, 2654435761u));
    x = apply(w, JITC_OP_xor, JIT_u32, x, baked(w, JIT_u32, salt));
    x = apply(w, JITC_OP_xor, JIT_u32, x, apply(w, JITC_OP_shr, JIT_u32, x, baked(w, JIT_u32, 15)));
    x = apply(w, JITC_OP_mul, JIT_u32, x, baked(w, JIT_u32, 0x85ebca6b));
    if (is_sort(work))
        return x;
    x = apply(w, JITC_OP_shr, JIT_u32, x, baked(w, JIT_u32, 22));
    jit_dtype t = type_of(work);
    if (t == JIT_bool)
        return apply(w, JITC_OP_lt, JIT_bool, x, baked(w, JIT_u32, work->per_1024));
    if (t == JIT_u32)
        return apply(w, JITC_OP_and, JIT_u32, x, baked(w, JIT_u32, 15));
    x = apply(w, JITC_OP_cast, JIT_f32, x, 0);
    x = apply(w, JITC_OP_mul, JIT_f32, x, baked(w, JIT_f32, 0x3a800000)); /* 2^-10 */
    return t == JIT_f64 ? apply(w, JITC_OP_cast, JIT_f64, x, 0) : x;
}

static bool fill(const combine_work *work, void *out, uint32_t salt) {
    combine_session *s = work->session;
    uint64_t params[4], number = 0;
    writing w = {.params = params};
    jitc_kernel *k = NULL;
    uint32_t x = write_values(&w, work, salt);
    apply(&w, JITC_OP_store, (jit_dtype) w.p.inst[x].type, x, parameter(&w, (uintptr_t) out));
    bool good = compile(s, &w.p, &k);
    jitc_launch_args a = {.lanes = work->what.n, .params = params, .count = w.p.head.params};
    good = good && check(s->backend->launch(s->stream, k, &a, &number), "filling") &&
           wait_for(s, number);
    if (k)
        s->backend->kernel_destroy(s->backend, k);
    jitc_program_finish(&w.p);
    return good;
}

static uint32_t combine(writing *w, jitc_op op, unsigned aux, uint32_t value, void *out) {
    return add(w, (jitc_inst) {.op = (uint8_t) op,
                               .type = w->p.inst[value].type,
                               .aux = (uint8_t) aux,
                               .a = value,
                               .b = parameter(w, (uintptr_t) out)});
}

static void write_several(writing *w, const combine_work *work, uint32_t x) {
    jit_dtype t = type_of(work);
    char *out = work->out;
    uint32_t square = apply(w, JITC_OP_mul, t, x, x);
    combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, x, out);
    combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, square, out + jitc_dtypes[t].bytes);
    combine(w, JITC_OP_reduce, JIT_REDUCE_MAX, x, out + 2 * jitc_dtypes[t].bytes);
}

static void write_compress(writing *w, const combine_work *work, uint32_t flag) {
    uint32_t n = combine(w, JITC_OP_compress, JITC_AUX_PART, flag, work->out);
    w->p.inst[n].type = JIT_u32;
    w->p.inst[n].c = parameter(w, (uintptr_t) work->what.count);
}

static void write_sort(writing *w, const combine_work *work) {
    uint32_t from =
        apply(w, JITC_OP_buffer, JIT_u32, parameter(w, (uintptr_t) work->what.in[0]), 0);
    parameter(w, work->what.n);
    bool pairs = work->what.kind == COMBINE_PAIRS;
    uint32_t n = combine(w, JITC_OP_sort, pairs ? JITC_AUX_PART : 0, from, work->out);
    if (pairs)
        w->p.inst[n].c = parameter(w, (uintptr_t) work->what.count);
}

static void write_program(writing *w, const combine_work *work) {
    static const jitc_shape shapes[] = {
        [COMBINE_BLOCKS] = JITC_SHAPE_BLOCK_REDUCE, [COMBINE_SCAN] = JITC_SHAPE_SCAN,
        [COMBINE_EXCLUSIVE] = JITC_SHAPE_SCAN,      [COMBINE_COMPRESS] = JITC_SHAPE_COMPRESS,
        [COMBINE_SELECT] = JITC_SHAPE_COMPRESS,     [COMBINE_SUM] = JITC_SHAPE_REDUCE,
        [COMBINE_MAX] = JITC_SHAPE_REDUCE,          [COMBINE_FUSED] = JITC_SHAPE_REDUCE,
        [COMBINE_SEVERAL] = JITC_SHAPE_REDUCE,      [COMBINE_SORT] = JITC_SHAPE_SORT,
        [COMBINE_PAIRS] = JITC_SHAPE_SORT};
    const combine_peer_work *what = &work->what;
    jit_dtype t = type_of(work);
    unsigned reverse = work->reverse ? JITC_AUX_REVERSE : 0;
    w->p.head.shape = shapes[what->kind];
    w->p.head.flags = JITC_PROGRAM_SCRATCH;
    w->p.head.params = JITC_SCRATCH_PARAMS; /* the first ones */
    if (is_sort(work)) {
        write_sort(w, work);
        return;
    }
    uint32_t x = data(w, t, what->in[0]), n;
    switch (what->kind) {
        case COMBINE_SUM: combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, x, work->out); break;
        case COMBINE_MAX: combine(w, JITC_OP_reduce, JIT_REDUCE_MAX, x, work->out); break;
        case COMBINE_FUSED:
            x = apply(w, JITC_OP_mul, t, x, data(w, t, what->in[1]));
            x = apply(w, JITC_OP_add, t, x, data(w, t, what->in[2]));
            combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, x, work->out);
            break;
        case COMBINE_SEVERAL: write_several(w, work, x); break;
        case COMBINE_BLOCKS:
            n = combine(w, JITC_OP_block_reduce, JIT_REDUCE_ADD, x, work->out);
            w->p.inst[n].c = parameter(w, what->length);
            break;
        case COMBINE_SCAN:
            combine(w, JITC_OP_prefix_reduce, JIT_REDUCE_ADD | reverse, x, work->out);
            break;
        case COMBINE_EXCLUSIVE:
            combine(w, JITC_OP_prefix_reduce, JIT_REDUCE_ADD | JITC_AUX_EXCLUSIVE | reverse, x,
                    work->out);
            break;
        case COMBINE_COMPRESS: write_compress(w, work, x); break;
        default:
            write_compress(w, work, apply(w, JITC_OP_lt, JIT_bool, x, data(w, t, what->in[1])));
            break;
    }
}

/* ---- Memory ---- */

static unsigned inputs_of(const combine_work *w) {
    switch (w->what.kind) {
        case COMBINE_FUSED: return 3;
        case COMBINE_SELECT:
        case COMBINE_PAIRS: return 2;
        default: return 1;
    }
}

static size_t out_elements(const combine_work *w) {
    switch (w->what.kind) {
        case COMBINE_SUM:
        case COMBINE_MAX:
        case COMBINE_FUSED: return 1;
        case COMBINE_SEVERAL: return 3;
        case COMBINE_BLOCKS: return (w->what.n + w->what.length - 1) / w->what.length;
        default: return w->what.n;
    }
}

static bool is_compress(const combine_work *w) {
    return w->what.kind == COMBINE_COMPRESS || w->what.kind == COMBINE_SELECT;
}

static double set_part(const combine_work *w) {
    return w->what.kind == COMBINE_SELECT ? 0.5 : w->per_1024 / 1024.0;
}

double combine_bytes(const combine_work *w) {
    double in = inputs_of(w) * (double) w->what.n * jitc_dtypes[type_of(w)].bytes;
    if (is_compress(w))
        return in + 4 * set_part(w) * (double) w->what.n;
    return in + (double) w->out_bytes * (w->what.kind == COMBINE_PAIRS ? 2 : 1);
}

static bool allocate(combine_work *w, size_t bytes, void **out) {
    combine_session *s = w->session;
    bytes = (bytes + 1024) / 512 * 512; /* with room for the last vector */
    return check(s->backend->alloc(s->backend, 0, bytes, out), "memory");
}

static bool allocate_all(combine_work *w) {
    size_t bytes = w->what.n * jitc_dtypes[type_of(w)].bytes;
    void *p;
    for (unsigned i = 0; i < inputs_of(w); ++i) {
        if (!allocate(w, bytes, &p))
            return false;
        w->what.in[i] = p;
        if (!fill(w, p, 12345 * i))
            return false;
    }
    w->out_bytes = out_elements(w) * (is_compress(w) ? 4 : jitc_dtypes[type_of(w)].bytes);
    return allocate(w, w->out_bytes, &w->out) &&
           allocate(w, w->what.kind == COMBINE_PAIRS ? w->out_bytes : 256, &w->what.count) &&
           (!w->session->peer_run || allocate(w, w->out_bytes, &w->peer_out));
}

bool combine_prepare(combine_session *s, combine_work *w) {
    writing text = {.params = w->params};
    w->session = s;
    if (!allocate_all(w))
        return false;
    w->what.out = w->peer_out;
    write_program(&text, w);
    w->count = text.p.head.params;
    bool good = compile(s, &text.p, &w->kernel);
    jitc_program_finish(&text.p);
    size_t scratch = good ? s->backend->scratch(w->kernel, w->what.n) : 0;
    good = good && (!scratch || allocate(w, scratch, &w->scratch));
    w->params[0] = (uintptr_t) w->scratch;
    return good;
}

static void release(combine_work *w, const void *p) {
    jitc_backend *b = w->session->backend;
    if (p)
        b->free(b, 0, (void *) (uintptr_t) p, 0);
}

void combine_release(combine_work *w) {
    jitc_backend *b = w->session->backend;
    for (unsigned i = 0; i < 3; ++i)
        release(w, w->what.in[i]);
    release(w, w->out);
    release(w, w->peer_out);
    release(w, w->what.count);
    release(w, w->scratch);
    if (w->kernel)
        b->kernel_destroy(b, w->kernel);
    b->trim(b, 0);
}

/* ---- Samples ---- */

static bool run(combine_work *w, size_t calls) {
    combine_session *s = w->session;
    jitc_launch_args a = {.lanes = w->what.n, .params = w->params, .count = w->count};
    uint64_t number = 0;
    for (size_t i = 0; i < calls; ++i) {
        if (!check(s->backend->launch(s->stream, w->kernel, &a, &number), "launching"))
            return false;
        if (i % 64 == 63 && !check(s->backend->flush(s->stream), "handing over"))
            return false;
    }
    return wait_for(s, number);
}

static bool run_peer(combine_work *w, size_t calls) {
    int error = 0;
    for (size_t i = 0; i < calls && !error; ++i)
        error = w->session->peer_run(&w->what);
    if (!error)
        error = w->session->peer_wait();
    if (error)
        fprintf(stderr, "the peer: error %d of the CUDA runtime\n", error);
    return !error;
}

static double sample(combine_work *w, size_t *calls, bool (*body)(combine_work *w, size_t calls)) {
    if (!*calls) {
        *calls = 1;
        if (!body(w, 1)) /* it allocates */
            return -1;
    }
    for (;; *calls *= 2) {
        double start = bench_now();
        if (!body(w, *calls))
            return -1;
        double elapsed = bench_now() - start;
        if (elapsed >= fill_ns || *calls >= MOST_CALLS)
            return elapsed / (double) *calls;
    }
}

double combine_sample(void *work) {
    combine_work *w = work;
    return sample(w, &w->calls, run);
}

double combine_peer_sample(void *work) {
    combine_work *w = work;
    return sample(w, &w->peer_calls, run_peer);
}

/* ---- Results ---- */

static double element(const combine_work *w, const void *array, size_t i) {
    if (is_compress(w) || w->what.type == COMBINE_U32)
        return ((const uint32_t *) array)[i];
    return w->what.type == COMBINE_F64 ? ((const double *) array)[i] : ((const float *) array)[i];
}

static bool is_near(double a, double b) {
    return a == b || fabs(a - b) <= 1e-5 * fabs(b);
}

static size_t compare(const combine_work *w, const void *ours, const void *theirs, size_t n) {
    for (size_t i = 0; i < n; ++i)
        if (!is_near(element(w, ours, i), element(w, theirs, i)))
            return i;
    return n;
}

bool combine_check(combine_work *w) {
    jitc_backend *b = w->session->backend;
    jitc_stream *s = w->session->stream;
    if (!w->session->peer_run || w->reverse || !run(w, 1))
        return true;
    void *ours = malloc(w->out_bytes), *theirs = malloc(w->out_bytes);
    uint32_t counts[2] = {0, 0};
    bool good = check(b->download(s, &counts[0], w->what.count, 4), "count") && run_peer(w, 1) &&
                check(b->download(s, &counts[1], w->what.count, 4), "count") &&
                check(b->download(s, ours, w->out, w->out_bytes), "result") &&
                check(b->download(s, theirs, w->peer_out, w->out_bytes), "the peer's result");
    size_t n = is_compress(w) ? counts[0] : out_elements(w);
    bool counted = !is_compress(w) || counts[0] == counts[1];
    size_t same = good && counted ? compare(w, ours, theirs, n) : 0;
    if (same != n)
        fprintf(stderr, "WRONG: element %zu of %zu (counts %u and %u): %g instead of %g\n", same, n,
                counts[0], counts[1], element(w, ours, same), element(w, theirs, same));
    free(ours);
    free(theirs);
    return same == n;
}
