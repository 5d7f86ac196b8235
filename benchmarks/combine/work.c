/* work.c: programs that combine lanes, through the CUDA backend alone.
 * Layer: benchmarks. May include: core, ir, device. */
#include "work.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- The backend ---- */

bool combine_open(combine_session *s) {
    void *peer = gpu_peer();
    if (peer) {
        *(void **) &s->peer_run = dlsym(peer, "combine_peer_run");
        *(void **) &s->peer_wait = dlsym(peer, "combine_peer_wait");
    }
    return gpu_open(&s->gpu);
}

void combine_close(combine_session *s) {
    gpu_close(&s->gpu);
}

/* ---- Programs ---- */

static jit_dtype type_of(const combine_work *w) {
    static const jit_dtype types[] = {JIT_f32, JIT_f64, JIT_u32, JIT_bool};
    return types[w->what.type];
}

static bool is_sort(const combine_work *w) {
    return w->what.kind == COMBINE_SORT || w->what.kind == COMBINE_PAIRS;
}

/* Numbers that look random: below 1, or below 16, or flags; any, to be sorted. */
static uint32_t write_values(gpu_program *w, const combine_work *work, uint32_t salt) {
    uint32_t x = program_op(w, JITC_OP_counter, JIT_u32, 0, 0);
    x = program_op(w, JITC_OP_mul, JIT_u32, x, program_baked(w, JIT_u32, 2654435761u));
    x = program_op(w, JITC_OP_xor, JIT_u32, x, program_baked(w, JIT_u32, salt));
    x = program_op(w, JITC_OP_xor, JIT_u32, x,
                   program_op(w, JITC_OP_shr, JIT_u32, x, program_baked(w, JIT_u32, 15)));
    x = program_op(w, JITC_OP_mul, JIT_u32, x, program_baked(w, JIT_u32, 0x85ebca6b));
    if (is_sort(work))
        return x;
    x = program_op(w, JITC_OP_shr, JIT_u32, x, program_baked(w, JIT_u32, 22));
    jit_dtype t = type_of(work);
    if (t == JIT_bool)
        return program_op(w, JITC_OP_lt, JIT_bool, x, program_baked(w, JIT_u32, work->per_1024));
    if (t == JIT_u32)
        return program_op(w, JITC_OP_and, JIT_u32, x, program_baked(w, JIT_u32, 15));
    x = program_op(w, JITC_OP_cast, JIT_f32, x, 0);
    x = program_op(w, JITC_OP_mul, JIT_f32, x, program_baked(w, JIT_f32, 0x3a800000)); /* 2^-10 */
    return t == JIT_f64 ? program_op(w, JITC_OP_cast, JIT_f64, x, 0) : x;
}

static bool fill(const combine_work *work, void *out, uint32_t salt) {
    gpu_program w = {0};
    uint32_t x = write_values(&w, work, salt);
    return gpu_fill(&work->session->gpu, &w, x, out, work->what.n);
}

static uint32_t combine(gpu_program *w, jitc_op op, unsigned aux, uint32_t value, void *out) {
    return program_add(w, (jitc_inst) {.op = (uint8_t) op,
                                       .type = w->p.inst[value].type,
                                       .aux = (uint8_t) aux,
                                       .a = value,
                                       .b = program_parameter(w, (uintptr_t) out)});
}

static void write_several(gpu_program *w, const combine_work *work, uint32_t x) {
    jit_dtype t = type_of(work);
    char *out = work->out;
    uint32_t square = program_op(w, JITC_OP_mul, t, x, x);
    combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, x, out);
    combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, square, out + jitc_dtypes[t].bytes);
    combine(w, JITC_OP_reduce, JIT_REDUCE_MAX, x, out + 2 * jitc_dtypes[t].bytes);
}

static void write_compress(gpu_program *w, const combine_work *work, uint32_t flag) {
    uint32_t n = combine(w, JITC_OP_compress, JITC_AUX_PART, flag, work->out);
    w->p.inst[n].type = JIT_u32;
    w->p.inst[n].c = program_parameter(w, (uintptr_t) work->what.count);
}

static void write_sort(gpu_program *w, const combine_work *work) {
    uint32_t from = program_op(w, JITC_OP_buffer, JIT_u32,
                               program_parameter(w, (uintptr_t) work->what.in[0]), 0);
    program_parameter(w, work->what.n);
    bool pairs = work->what.kind == COMBINE_PAIRS;
    uint32_t n = combine(w, JITC_OP_sort, pairs ? JITC_AUX_PART : 0, from, work->out);
    if (pairs)
        w->p.inst[n].c = program_parameter(w, (uintptr_t) work->what.count);
}

static void write_program(gpu_program *w, const combine_work *work) {
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
    uint32_t x = program_data(w, t, what->in[0]), n;
    switch (what->kind) {
        case COMBINE_SUM: combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, x, work->out); break;
        case COMBINE_MAX: combine(w, JITC_OP_reduce, JIT_REDUCE_MAX, x, work->out); break;
        case COMBINE_FUSED:
            x = program_op(w, JITC_OP_mul, t, x, program_data(w, t, what->in[1]));
            x = program_op(w, JITC_OP_add, t, x, program_data(w, t, what->in[2]));
            combine(w, JITC_OP_reduce, JIT_REDUCE_ADD, x, work->out);
            break;
        case COMBINE_SEVERAL: write_several(w, work, x); break;
        case COMBINE_BLOCKS:
            n = combine(w, JITC_OP_block_reduce, JIT_REDUCE_ADD, x, work->out);
            w->p.inst[n].c = program_parameter(w, what->length);
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
            write_compress(w, work,
                           program_op(w, JITC_OP_lt, JIT_bool, x, program_data(w, t, what->in[1])));
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
    return gpu_alloc(&w->session->gpu, bytes, out);
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
    gpu_program text = {0};
    w->session = s;
    if (!allocate_all(w))
        return false;
    w->what.out = w->peer_out;
    write_program(&text, w);
    return gpu_compile(&s->gpu, &text, w->what.n, &w->kernel);
}

void combine_release(combine_work *w) {
    const void *memory[] = {w->what.in[0], w->what.in[1], w->what.in[2],
                            w->out,        w->peer_out,   w->what.count};
    gpu_release_all(&w->session->gpu, &w->kernel, memory, sizeof memory / sizeof *memory);
}

/* ---- Samples ---- */

static bool run(void *work, size_t calls) {
    combine_work *w = work;
    return gpu_run(&w->session->gpu, &w->kernel, calls);
}

static bool run_peer(void *work, size_t calls) {
    combine_work *w = work;
    int error = 0;
    for (size_t i = 0; i < calls && !error; ++i)
        error = w->session->peer_run(&w->what);
    return gpu_peer_check(error ? error : w->session->peer_wait());
}

double combine_sample(void *work) {
    return bench_per_batch(run, work, &((combine_work *) work)->calls);
}

double combine_peer_sample(void *work) {
    return bench_per_batch(run_peer, work, &((combine_work *) work)->peer_calls);
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
    jitc_backend *b = w->session->gpu.backend;
    jitc_stream *s = w->session->gpu.stream;
    if (!w->session->peer_run || w->reverse || !run(w, 1))
        return true;
    void *ours = malloc(w->out_bytes), *theirs = malloc(w->out_bytes);
    uint32_t counts[2] = {0, 0};
    bool good = gpu_check(b->download(s, &counts[0], w->what.count, 4), "count") &&
                run_peer(w, 1) &&
                gpu_check(b->download(s, &counts[1], w->what.count, 4), "count") &&
                gpu_check(b->download(s, ours, w->out, w->out_bytes), "result") &&
                gpu_check(b->download(s, theirs, w->peer_out, w->out_bytes), "the peer's result");
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
