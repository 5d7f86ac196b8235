/* work.c: programs with loops and with indexed accesses, through the CUDA backend alone.
 * Layer: benchmarks. May include: core, ir, device. */
#include "work.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The backend ---- */

bool scatter_open(scatter_session *s) {
    void *peers = gpu_peer();
    if (peers) {
        *(void **) &s->hand = dlsym(peers, "scatter_hand_run");
        *(void **) &s->cub = dlsym(peers, "scatter_cub_run");
        *(void **) &s->wait = dlsym(peers, "scatter_peer_wait");
    }
    return gpu_open(&s->gpu);
}

void scatter_close(scatter_session *s) {
    gpu_close(&s->gpu);
}

/* ---- Programs ---- */

static uint32_t real(gpu_program *w, float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return program_baked(w, JIT_f32, bits);
}
static uint32_t u32(gpu_program *w, jitc_op op, uint32_t a, uint64_t b) {
    return program_op(w, op, JIT_u32, a, program_baked(w, JIT_u32, b));
}

static uint32_t mixed(gpu_program *w, uint32_t x) {
    x = u32(w, JITC_OP_mul, x, 2654435761u);
    x = program_op(w, JITC_OP_xor, JIT_u32, x, u32(w, JITC_OP_shr, x, 15));
    x = u32(w, JITC_OP_mul, x, 0x85ebca6b);
    x = program_op(w, JITC_OP_xor, JIT_u32, x, u32(w, JITC_OP_shr, x, 13));
    x = u32(w, JITC_OP_mul, x, 0xc2b2ae35);
    return program_op(w, JITC_OP_xor, JIT_u32, x, u32(w, JITC_OP_shr, x, 16));
}

static uint32_t write_index(gpu_program *w, const scatter_work *work) {
    uint32_t i = program_op(w, JITC_OP_counter, JIT_u32, 0, 0), x = mixed(w, i), wide, most, is;
    size_t size = work->what.size;
    switch (work->pattern) {
        case SCATTER_RANDOM: return u32(w, JITC_OP_mod, x, size);
        case SCATTER_EQUAL: return program_baked(w, JIT_u32, size / 2);
        case SCATTER_IOTA: return u32(w, JITC_OP_mod, i, size);
        case SCATTER_SORTED:
            wide = program_op(w, JITC_OP_cast, JIT_u64, i, 0);
            wide = program_op(w, JITC_OP_mul, JIT_u64, wide, program_baked(w, JIT_u64, size));
            wide =
                program_op(w, JITC_OP_div, JIT_u64, wide, program_baked(w, JIT_u64, work->what.n));
            return program_op(w, JITC_OP_cast, JIT_u32, wide, 0);
        default:
            most = program_baked(w, JIT_u32, size - 1);
            is = program_op(w, JITC_OP_ne, JIT_bool, u32(w, JITC_OP_mod, x, 10),
                            program_baked(w, JIT_u32, 0));
            x = u32(w, JITC_OP_mod, u32(w, JITC_OP_shr, mixed(w, x), 4), size);
            return program_add(
                w, (jitc_inst) {.op = JITC_OP_select, .type = JIT_u32, .a = is, .b = most, .c = x});
    }
}

/** 0 or 1: up to 2^24 of them, sums are exact. */
static uint32_t write_value(gpu_program *w) {
    uint32_t x = mixed(w, u32(w, JITC_OP_add, program_op(w, JITC_OP_counter, JIT_u32, 0, 0), 77));
    return program_op(w, JITC_OP_cast, JIT_f32, u32(w, JITC_OP_and, x, 1), 0);
}

static uint32_t write_reduce(gpu_program *w, jit_dtype t, unsigned aux, const scatter_work *work,
                             uint32_t value) {
    uint32_t target = program_parameter(w, (uintptr_t) work->table);
    program_parameter(w, work->what.size);
    uint32_t buffer = program_op(w, JITC_OP_buffer, t, target, 0);
    return program_add(w, (jitc_inst) {.op = JITC_OP_scatter_reduce,
                                       .type = (uint8_t) t,
                                       .aux = (uint8_t) aux,
                                       .a = buffer,
                                       .b = value,
                                       .c = program_data(w, JIT_u32, work->what.index)});
}

static void write_store(gpu_program *w, const scatter_work *work, uint32_t v) {
    program_op(w, JITC_OP_store, (jit_dtype) w->p.inst[v].type, v,
               program_parameter(w, (uintptr_t) work->what.out));
}

static void write_gather(gpu_program *w, const scatter_work *work) {
    uint32_t source = program_parameter(w, (uintptr_t) work->table);
    program_parameter(w, work->what.size);
    uint32_t buffer = program_op(w, JITC_OP_buffer, JIT_f32, source, 0);
    uint32_t index = program_data(w, JIT_u32, work->what.index);
    write_store(w, work, program_op(w, JITC_OP_gather, JIT_f32, buffer, index));
}

static uint32_t coordinate(gpu_program *w, uint32_t pixel, jitc_op op, float length, float start) {
    uint32_t x = program_op(w, JITC_OP_cast, JIT_f32, u32(w, op, pixel, SCATTER_WIDTH), 0);
    x = program_op(w, JITC_OP_mul, JIT_f32, x, real(w, length / (float) SCATTER_WIDTH));
    return program_op(w, JITC_OP_add, JIT_f32, x, real(w, start));
}

static void write_mandelbrot(gpu_program *w, const scatter_work *work) {
    w->p.head.flags |= JITC_PROGRAM_LOOPS;
    uint32_t pixel = program_op(w, JITC_OP_counter, JIT_u32, 0, 0);
    uint32_t x = coordinate(w, pixel, JITC_OP_mod, 3, -2),
             y = coordinate(w, pixel, JITC_OP_div, 2, -1);
    uint32_t zero = real(w, 0), none = program_baked(w, JIT_u32, 0);
    uint32_t loop = program_add(w, (jitc_inst) {.op = JITC_OP_loop});
    uint32_t a = program_op(w, JITC_OP_phi, JIT_f32, zero, loop),
             b = program_op(w, JITC_OP_phi, JIT_f32, zero, loop),
             k = program_op(w, JITC_OP_phi, JIT_u32, none, loop);
    uint32_t aa = program_op(w, JITC_OP_mul, JIT_f32, a, a),
             bb = program_op(w, JITC_OP_mul, JIT_f32, b, b);
    uint32_t norm = program_op(w, JITC_OP_add, JIT_f32, aa, bb);
    uint32_t near = program_op(w, JITC_OP_lt, JIT_bool, norm, real(w, 4));
    uint32_t few =
        program_op(w, JITC_OP_lt, JIT_bool, k, program_baked(w, JIT_u32, SCATTER_ITERATIONS));
    program_op(w, JITC_OP_test, JIT_bool, program_op(w, JITC_OP_and, JIT_bool, near, few), loop);
    uint32_t re =
        program_op(w, JITC_OP_add, JIT_f32, program_op(w, JITC_OP_sub, JIT_f32, aa, bb), x);
    uint32_t ab =
        program_op(w, JITC_OP_mul, JIT_f32, program_op(w, JITC_OP_mul, JIT_f32, real(w, 2), a), b);
    uint32_t im = program_op(w, JITC_OP_add, JIT_f32, ab, y), after = u32(w, JITC_OP_add, k, 1);
    program_op(w, JITC_OP_next, JIT_f32, a, re);
    program_op(w, JITC_OP_next, JIT_f32, b, im);
    program_op(w, JITC_OP_next, JIT_u32, k, after);
    program_op(w, JITC_OP_end, JIT_bool, loop, 0);
    write_store(w, work, k);
}

static void write_program(gpu_program *w, const scatter_work *work) {
    w->p.head.flags = JITC_PROGRAM_SCRATCH;
    w->p.head.params = JITC_SCRATCH_PARAMS; /* the first ones */
    uint32_t one, value;
    switch (work->what.kind) {
        case SCATTER_COUNT:
            one = program_baked(w, JIT_u32, 1);
            write_reduce(w, JIT_u32, JIT_REDUCE_ADD, work, one);
            break;
        case SCATTER_ADD:
        case SCATTER_MAX:
            value = program_data(w, JIT_f32, work->what.value);
            write_reduce(w, JIT_f32,
                         work->what.kind == SCATTER_ADD ? JIT_REDUCE_ADD : JIT_REDUCE_MAX, work,
                         value);
            break;
        case SCATTER_INC:
            one = program_baked(w, JIT_u32, 1);
            write_store(w, work,
                        write_reduce(w, JIT_u32, JIT_REDUCE_ADD | JITC_AUX_PART, work, one));
            break;
        case SCATTER_GATHER: write_gather(w, work); break;
        default: write_mandelbrot(w, work); break;
    }
}

/* ---- Memory ---- */

static bool allocate(scatter_work *w, size_t elements, void **out) {
    return gpu_alloc(&w->session->gpu, 4 * elements, out);
}

/** Elements 0 ... n-1 of `out`: indices, values, or 0. */
static bool fill(scatter_work *work, void *out, size_t n, int what) {
    gpu_program w = {0};
    uint32_t x = what == 0   ? write_index(&w, work)
                 : what == 1 ? write_value(&w)
                             : program_baked(&w, JIT_u32, 0);
    return gpu_fill(&work->session->gpu, &w, x, out, n);
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
    gpu_program text = {0};
    w->session = s;
    if (!allocate_all(w))
        return false;
    write_program(&text, w);
    return gpu_compile(&s->gpu, &text, w->what.n, &w->kernel);
}

void scatter_release(scatter_work *w) {
    const void *memory[] = {w->what.index, w->what.value, w->what.table, w->what.out, w->table};
    gpu_release_all(&w->session->gpu, &w->kernel, memory, sizeof memory / sizeof *memory);
}

/* ---- Samples ---- */

static bool run(void *work, size_t calls) {
    scatter_work *w = work;
    return gpu_run(&w->session->gpu, &w->kernel, calls);
}

static bool run_peer(scatter_work *w, size_t calls, int (*peer)(const scatter_peer_work *)) {
    int error = 0;
    for (size_t i = 0; i < calls && !error; ++i)
        error = peer(&w->what);
    return gpu_peer_check(error ? error : w->session->wait());
}
static bool run_hand(void *work, size_t calls) {
    scatter_work *w = work;
    return run_peer(w, calls, w->session->hand);
}
static bool run_cub(void *work, size_t calls) {
    scatter_work *w = work;
    return run_peer(w, calls, w->session->cub);
}

double scatter_sample(void *work) {
    return bench_per_batch(run, work, &((scatter_work *) work)->calls);
}
double scatter_hand_sample(void *work) {
    return bench_per_batch(run_hand, work, &((scatter_work *) work)->hand_calls);
}
double scatter_cub_sample(void *work) {
    return bench_per_batch(run_cub, work, &((scatter_work *) work)->cub_calls);
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
    jitc_backend *b = w->session->gpu.backend;
    jitc_stream *s = w->session->gpu.stream;
    bool table = w->what.kind <= SCATTER_INC;
    size_t n = table ? w->what.size : w->what.n, bytes = 4 * n;
    const void *ours = table ? w->table : w->what.out,
               *theirs = table ? w->what.table : w->what.out;
    if (!w->session->hand || w->what.n > (size_t) 1 << 24)
        return true;
    void *x = malloc(bytes), *y = malloc(bytes);
    bool good = x && y && run(w, 1) && gpu_check(b->download(s, x, ours, bytes), "result") &&
                run_hand(w, 1) &&
                gpu_check(b->download(s, y, theirs, bytes), "the peer's result") &&
                compare(w, x, y, n);
    free(x);
    free(y);
    return good;
}
