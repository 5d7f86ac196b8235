/* work.c: programs with loops and with indexed accesses, through the CUDA backend alone.
 * Layer: benchmarks. May include: core, ir, device, cuda. */
#include "work.h"
#include "cuda/cuda_backend.h"

#include <dlfcn.h>
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

static void open_peers(scatter_session *s) {
    const char *path = getenv("BENCH_PEER");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (path && !library)
        fprintf(stderr, "%s\n", dlerror());
    if (!library)
        return;
    *(void **) &s->hand = dlsym(library, "scatter_hand_run");
    *(void **) &s->cub = dlsym(library, "scatter_cub_run");
    *(void **) &s->wait = dlsym(library, "scatter_peer_wait");
}

bool scatter_open(scatter_session *s) {
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
    open_peers(s);
    return true;
}

void scatter_close(scatter_session *s) {
    s->backend->stream_destroy(s->stream);
    s->backend->destroy(s->backend);
}

static bool wait_for(scatter_session *s, uint64_t number) {
    return check(s->backend->flush(s->stream), "handing over") &&
           check(s->backend->wait(s->stream, number), "waiting");
}

static bool compile(scatter_session *s, const jitc_program *p, jitc_kernel **out) {
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

/** A program that is written. */
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
static uint32_t baked(writing *w, jit_dtype t, uint64_t bits) {
    return add(w, (jitc_inst) {.op = JITC_OP_literal,
                               .type = (uint8_t) t,
                               .flags = JITC_INST_BAKED,
                               .b = (uint32_t) bits,
                               .c = (uint32_t) (bits >> 32)});
}
static uint32_t real(writing *w, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return baked(w, JIT_f32, bits);
}
static uint32_t data(writing *w, jit_dtype t, const void *p) {
    return apply(w, JITC_OP_data, t, parameter(w, (uintptr_t) p), 0);
}
static uint32_t u32(writing *w, jitc_op op, uint32_t a, uint64_t b) {
    return apply(w, op, JIT_u32, a, baked(w, JIT_u32, b));
}

static uint32_t mixed(writing *w, uint32_t x) {
    x = u32(w, JITC_OP_mul, x, 2654435761u);
    x = apply(w, JITC_OP_xor, JIT_u32, x, u32(w, JITC_OP_shr, x, 15));
    x = u32(w, JITC_OP_mul, x, 0x85ebca6b);
    x = apply(w, JITC_OP_xor, JIT_u32, x, u32(w, JITC_OP_shr, x, 13));
    x = u32(w, JITC_OP_mul, x, 0xc2b2ae35);
    return apply(w, JITC_OP_xor, JIT_u32, x, u32(w, JITC_OP_shr, x, 16));
}

static uint32_t write_index(writing *w, const scatter_work *work) {
    uint32_t i = apply(w, JITC_OP_counter, JIT_u32, 0, 0), x = mixed(w, i), wide, most, is;
    size_t size = work->what.size;
    switch (work->pattern) {
        case SCATTER_RANDOM: return u32(w, JITC_OP_mod, x, size);
        case SCATTER_EQUAL: return baked(w, JIT_u32, size / 2);
        case SCATTER_IOTA: return u32(w, JITC_OP_mod, i, size);
        case SCATTER_SORTED:
            wide = apply(w, JITC_OP_cast, JIT_u64, i, 0);
            wide = apply(w, JITC_OP_mul, JIT_u64, wide, baked(w, JIT_u64, size));
            wide = apply(w, JITC_OP_div, JIT_u64, wide, baked(w, JIT_u64, work->what.n));
            return apply(w, JITC_OP_cast, JIT_u32, wide, 0);
        default:
            most = baked(w, JIT_u32, size - 1);
            is = apply(w, JITC_OP_ne, JIT_bool, u32(w, JITC_OP_mod, x, 10), baked(w, JIT_u32, 0));
            x = u32(w, JITC_OP_mod, u32(w, JITC_OP_shr, mixed(w, x), 4), size);
            return add(
                w, (jitc_inst) {.op = JITC_OP_select, .type = JIT_u32, .a = is, .b = most, .c = x});
    }
}

/** 0 or 1: up to 2^24 of them, sums are exact. */
static uint32_t write_value(writing *w) {
    uint32_t x = mixed(w, u32(w, JITC_OP_add, apply(w, JITC_OP_counter, JIT_u32, 0, 0), 77));
    return apply(w, JITC_OP_cast, JIT_f32, u32(w, JITC_OP_and, x, 1), 0);
}

static uint32_t write_reduce(writing *w, jit_dtype t, unsigned aux, const scatter_work *work,
                             uint32_t value) {
    uint32_t target = parameter(w, (uintptr_t) work->table);
    parameter(w, work->what.size);
    uint32_t buffer = apply(w, JITC_OP_buffer, t, target, 0);
    return add(w, (jitc_inst) {.op = JITC_OP_scatter_reduce,
                               .type = (uint8_t) t,
                               .aux = (uint8_t) aux,
                               .a = buffer,
                               .b = value,
                               .c = data(w, JIT_u32, work->what.index)});
}

static void write_store(writing *w, const scatter_work *work, uint32_t v) {
    apply(w, JITC_OP_store, (jit_dtype) w->p.inst[v].type, v,
          parameter(w, (uintptr_t) work->what.out));
}

static void write_gather(writing *w, const scatter_work *work) {
    uint32_t source = parameter(w, (uintptr_t) work->table);
    parameter(w, work->what.size);
    uint32_t buffer = apply(w, JITC_OP_buffer, JIT_f32, source, 0);
    uint32_t index = data(w, JIT_u32, work->what.index);
    write_store(w, work, apply(w, JITC_OP_gather, JIT_f32, buffer, index));
}

static uint32_t coordinate(writing *w, uint32_t pixel, jitc_op op, float length, float start) {
    uint32_t x = apply(w, JITC_OP_cast, JIT_f32, u32(w, op, pixel, SCATTER_WIDTH), 0);
    x = apply(w, JITC_OP_mul, JIT_f32, x, real(w, length / (float) SCATTER_WIDTH));
    return apply(w, JITC_OP_add, JIT_f32, x, real(w, start));
}

static void write_mandelbrot(writing *w, const scatter_work *work) {
    w->p.head.flags |= JITC_PROGRAM_LOOPS;
    uint32_t pixel = apply(w, JITC_OP_counter, JIT_u32, 0, 0);
    uint32_t x = coordinate(w, pixel, JITC_OP_mod, 3, -2),
             y = coordinate(w, pixel, JITC_OP_div, 2, -1);
    uint32_t zero = real(w, 0), none = baked(w, JIT_u32, 0);
    uint32_t loop = add(w, (jitc_inst) {.op = JITC_OP_loop});
    uint32_t a = apply(w, JITC_OP_phi, JIT_f32, zero, loop),
             b = apply(w, JITC_OP_phi, JIT_f32, zero, loop),
             k = apply(w, JITC_OP_phi, JIT_u32, none, loop);
    uint32_t aa = apply(w, JITC_OP_mul, JIT_f32, a, a), bb = apply(w, JITC_OP_mul, JIT_f32, b, b);
    uint32_t norm = apply(w, JITC_OP_add, JIT_f32, aa, bb);
    uint32_t near = apply(w, JITC_OP_lt, JIT_bool, norm, real(w, 4));
    uint32_t few = apply(w, JITC_OP_lt, JIT_bool, k, baked(w, JIT_u32, SCATTER_ITERATIONS));
    apply(w, JITC_OP_test, JIT_bool, apply(w, JITC_OP_and, JIT_bool, near, few), loop);
    uint32_t re = apply(w, JITC_OP_add, JIT_f32, apply(w, JITC_OP_sub, JIT_f32, aa, bb), x);
    uint32_t ab = apply(w, JITC_OP_mul, JIT_f32, apply(w, JITC_OP_mul, JIT_f32, real(w, 2), a), b);
    uint32_t im = apply(w, JITC_OP_add, JIT_f32, ab, y), after = u32(w, JITC_OP_add, k, 1);
    apply(w, JITC_OP_next, JIT_f32, a, re);
    apply(w, JITC_OP_next, JIT_f32, b, im);
    apply(w, JITC_OP_next, JIT_u32, k, after);
    apply(w, JITC_OP_end, JIT_bool, loop, 0);
    write_store(w, work, k);
}

static void write_program(writing *w, const scatter_work *work) {
    w->p.head.flags = JITC_PROGRAM_SCRATCH;
    w->p.head.params = JITC_SCRATCH_PARAMS; /* the first ones */
    uint32_t one, value;
    switch (work->what.kind) {
        case SCATTER_COUNT:
            one = baked(w, JIT_u32, 1);
            write_reduce(w, JIT_u32, JIT_REDUCE_ADD, work, one);
            break;
        case SCATTER_ADD:
        case SCATTER_MAX:
            value = data(w, JIT_f32, work->what.value);
            write_reduce(w, JIT_f32,
                         work->what.kind == SCATTER_ADD ? JIT_REDUCE_ADD : JIT_REDUCE_MAX, work,
                         value);
            break;
        case SCATTER_INC:
            one = baked(w, JIT_u32, 1);
            write_store(w, work,
                        write_reduce(w, JIT_u32, JIT_REDUCE_ADD | JITC_AUX_PART, work, one));
            break;
        case SCATTER_GATHER: write_gather(w, work); break;
        default: write_mandelbrot(w, work); break;
    }
}

/* ---- Memory ---- */

static bool allocate(scatter_work *w, size_t elements, void **out) {
    scatter_session *s = w->session;
    size_t bytes = (4 * elements + 1024) / 512 * 512; /* with room for the last vector */
    return check(s->backend->alloc(s->backend, 0, bytes, out), "memory");
}

/** Elements 0 ... n-1 of `out`: indices, values, or 0. */
static bool fill(scatter_work *work, void *out, size_t n, int what) {
    scatter_session *s = work->session;
    uint64_t params[4], number = 0;
    writing w = {.params = params};
    jitc_kernel *k = NULL;
    uint32_t x = what == 0   ? write_index(&w, work)
                 : what == 1 ? write_value(&w)
                             : baked(&w, JIT_u32, 0);
    apply(&w, JITC_OP_store, (jit_dtype) w.p.inst[x].type, x, parameter(&w, (uintptr_t) out));
    bool good = compile(s, &w.p, &k);
    jitc_launch_args a = {.lanes = n, .params = params, .count = w.p.head.params};
    good = good && check(s->backend->launch(s->stream, k, &a, &number), "filling") &&
           wait_for(s, number);
    if (k)
        s->backend->kernel_destroy(s->backend, k);
    jitc_program_finish(&w.p);
    return good;
}

static bool allocate_all(scatter_work *w) {
    scatter_peer_work *p = &w->what;
    void *index, *value;
    if (p->kind == SCATTER_MANDELBROT)
        return allocate(w, p->n, &p->out);
    if (!allocate(w, p->n, &index) || !fill(w, index, p->n, 0))
        return false;
    p->index = index;
    if (!allocate(w, p->size, &w->table) || !fill(w, w->table, p->size, 2) ||
        !allocate(w, p->size, &p->table) || !fill(w, p->table, p->size, 2))
        return false;
    if ((p->kind == SCATTER_INC || p->kind == SCATTER_GATHER) && !allocate(w, p->n, &p->out))
        return false;
    if (p->kind != SCATTER_ADD && p->kind != SCATTER_MAX)
        return true;
    if (!allocate(w, p->n, &value) || !fill(w, value, p->n, 1))
        return false;
    p->value = value;
    return true;
}

bool scatter_prepare(scatter_session *s, scatter_work *w) {
    writing text = {.params = w->params};
    w->session = s;
    if (!allocate_all(w))
        return false;
    write_program(&text, w);
    w->count = text.p.head.params;
    bool good = compile(s, &text.p, &w->kernel);
    jitc_program_finish(&text.p);
    size_t scratch = good ? s->backend->scratch(w->kernel, w->what.n) : 0;
    good = good && (!scratch || allocate(w, scratch / 4 + 1, &w->scratch));
    w->params[0] = (uintptr_t) w->scratch;
    return good;
}

void scatter_release(scatter_work *w) {
    jitc_backend *b = w->session->backend;
    const void *memory[] = {w->what.index, w->what.value, w->what.table,
                            w->what.out,   w->table,      w->scratch};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; ++i)
        if (memory[i])
            b->free(b, 0, (void *) (uintptr_t) memory[i], 0);
    if (w->kernel)
        b->kernel_destroy(b, w->kernel);
    b->trim(b, 0);
}

/* ---- Samples ---- */

static bool run(scatter_work *w, size_t calls) {
    scatter_session *s = w->session;
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

static bool run_peer(scatter_work *w, size_t calls, int (*peer)(const scatter_peer_work *)) {
    int error = 0;
    for (size_t i = 0; i < calls && !error; ++i)
        error = peer(&w->what);
    if (!error)
        error = w->session->wait();
    if (error)
        fprintf(stderr, "the peer: error %d of the CUDA runtime\n", error);
    return !error;
}
static bool run_hand(scatter_work *w, size_t calls) {
    return run_peer(w, calls, w->session->hand);
}
static bool run_cub(scatter_work *w, size_t calls) {
    return run_peer(w, calls, w->session->cub);
}

static double sample(scatter_work *w, size_t *calls, bool (*body)(scatter_work *w, size_t calls)) {
    if (!*calls) {
        *calls = 1;
        if (!body(w, 1))
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

double scatter_sample(void *work) {
    scatter_work *w = work;
    return sample(w, &w->calls, run);
}
double scatter_hand_sample(void *work) {
    scatter_work *w = work;
    return sample(w, &w->hand_calls, run_hand);
}
double scatter_cub_sample(void *work) {
    scatter_work *w = work;
    return sample(w, &w->cub_calls, run_cub);
}

/* ---- Results ---- */

/** Of what is in the table, or of the iterations of all pixels. Old values have no order. */
static bool compare(scatter_work *w, const void *ours, const void *theirs, size_t n) {
    const uint32_t *a = ours, *b = theirs;
    size_t different = 0, first = n;
    for (size_t i = 0; i < n; ++i)
        if (a[i] != b[i]) {
            ++different;
            first = first == n ? i : first;
        }
    if (different)
        fprintf(stderr, "WRONG: %zu of %zu elements differ; element %zu is %#x, not %#x\n",
                different, n, first, a[first], b[first]);
    /* CUDA's compiler fuses multiplications and additions: at the border, pixels differ. */
    return different <= (w->what.kind == SCATTER_MANDELBROT ? n / 50 : 0);
}

bool scatter_check(scatter_work *w) {
    jitc_backend *b = w->session->backend;
    jitc_stream *s = w->session->stream;
    bool table = w->what.kind <= SCATTER_INC;
    size_t n = table ? w->what.size : w->what.n, bytes = 4 * n;
    const void *ours = table ? w->table : w->what.out,
               *theirs = table ? w->what.table : w->what.out;
    if (!w->session->hand || w->what.n > (size_t) 1 << 24)
        return true;
    void *x = malloc(bytes), *y = malloc(bytes);
    bool good = x && y && run(w, 1) && check(b->download(s, x, ours, bytes), "result") &&
                run_hand(w, 1) && check(b->download(s, y, theirs, bytes), "the peer's result") &&
                compare(w, x, y, n);
    free(x);
    free(y);
    return good;
}
