/* test_llvm_reduce.c: programs of the CPU backend that reduce all lanes, or blocks of them. */
#include "combining.h"
#include "llvm_run.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { MOST = 65543, EVERY = JITC_REDUCE_COUNT };

/** An array for each operation, and a place for its result. */
typedef struct operands {
    jit_dtype type;
    uint64_t n;
    size_t padding;
    void *in[EVERY];
    void *out[EVERY];
    size_t out_bytes;
} operands;

static void operands_init(operands *x, jit_dtype t, uint64_t n, size_t padding, uint64_t results) {
    size_t bytes = n * jitc_dtypes[t].bytes + padding;
    *x = (operands) {.type = t, .n = n, .padding = padding};
    x->out_bytes = results * jitc_dtypes[t].bytes;
    for (int op = 0; op < EVERY; op++) {
        if (!jitc_reduce_accepts((jit_reduce_op) op, t))
            continue;
        x->in[op] = guarded_alloc(bytes);
        x->out[op] = guarded_alloc(x->out_bytes);
        fill_for((jit_reduce_op) op, t, x->in[op], n, padding);
    }
}
static void operands_finish(operands *x) {
    for (int op = 0; op < EVERY; op++)
        if (x->in[op]) {
            guarded_free(x->in[op], x->n * jitc_dtypes[x->type].bytes + x->padding);
            guarded_free(x->out[op], x->out_bytes);
        }
}

/** All operations of a type in one program. */
static void build_all(jitc_program *p, const operands *x, uint64_t block, uint64_t *params) {
    bool blocks = block != 0;
    p->head.shape = blocks ? JITC_SHAPE_BLOCK_REDUCE : JITC_SHAPE_REDUCE;
    p->head.flags = x->padding ? 0 : JITC_PROGRAM_TAIL;
    uint32_t length = blocks ? add_param(p, block, params) : 0;
    for (int op = 0; op < EVERY; op++) {
        if (!x->in[op])
            continue;
        uint32_t v = add_data(p, x->type, x->in[op], params);
        add_reduce(p, (jit_reduce_op) op, v, x->out[op], params);
        p->inst[p->head.count - 1].op = blocks ? JITC_OP_block_reduce : JITC_OP_reduce;
        p->inst[p->head.count - 1].c = length;
    }
    add_scratch(p, params);
}

static void check_block(const operands *x, int op, uint64_t first, uint64_t end, uint64_t which,
                        const char *isa) {
    reference want;
    reference_init(&want, (jit_reduce_op) op, x->type);
    for (uint64_t i = first; i < end; i++)
        reference_add(&want, read_element(x->type, x->in[op], i));
    uint64_t got = read_element(x->type, x->out[op], which);
    cr_assert(same_element(x->type, got, reference_value(&want)),
              "%s: %s of %s, %lu lanes, block %lu from %lu to %lu: %lx instead of %lx", isa,
              jitc_reduce_name((jit_reduce_op) op), jitc_dtypes[x->type].name, x->n, which, first,
              end, got, reference_value(&want));
}

static void check_all(const operands *x, uint64_t block, const char *isa) {
    for (int op = 0; op < EVERY; op++)
        for (uint64_t b = 0; x->in[op] && b * block < x->n; b++)
            check_block(x, op, b * block, (b + 1) * block < x->n ? (b + 1) * block : x->n, b, isa);
}

/* All lanes. */

/** One kernel, launched over every size. */
static void check_sizes(runner *r, jit_dtype t, int level, const char *isa, size_t padding) {
    static const uint64_t sizes[] = {1, 2, 31, 32, 33, 255, 16383, 16384, 16385, MOST};
    jitc_kernel *k = NULL;
    jitc_program p = {0};
    size_t count = t == JIT_f32 || t == JIT_u8 ? sizeof sizes / sizeof *sizes : 6;
    for (size_t i = 0; i < count; i++) {
        operands x;
        uint64_t params[64];
        operands_init(&x, t, sizes[i], padding, 1);
        jitc_program_clear(&p);
        build_all(&p, &x, 0, params);
        k = k ? k : runner_load(r, &p, level);
        runner_launch(r, k, &p, sizes[i], params);
        check_all(&x, sizes[i], isa);
        operands_finish(&x);
    }
    r->b->kernel_destroy(r->b, k);
    jitc_program_finish(&p);
}

Test(llvm_reduce, every_operation_of_every_type, .timeout = 300) {
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init_threads(&r, runner_isas[i], 2))
            continue;
        for (int t = 0; t < JITC_DTYPE_COUNT; t++)
            check_sizes(&r, (jit_dtype) t, (t + i) % 4 ? 0 : 2, runner_isas[i],
                        (t + i / 2) % 2 ? JITC_PADDING : 0);
        runner_finish(&r);
    }
}

/* Blocks. */

/** One kernel for every other length, and one for the rest. */
static void check_blocks(runner *r, jit_dtype t, int level, const char *isa) {
    static const uint64_t lengths[] = {1,  2,  3,    4,     16,    31,    32,
                                       33, 64, 1000, 16384, 16385, 50000, (uint64_t) 1 << 40};
    static const uint64_t sizes[] = {1, 33, 1000, 40003};
    jitc_kernel *k = NULL;
    for (int padded = 0; padded < 2; padded++) {
        jitc_program p = {0};
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            for (size_t l = (size_t) padded; l < sizeof lengths / sizeof *lengths; l += 2) {
                operands x;
                uint64_t params[64], n = sizes[i];
                if (n > 1000 && lengths[l] > 3 && lengths[l] < 1000)
                    continue;
                operands_init(&x, t, n, padded ? JITC_PADDING : 0, 1 + (n - 1) / lengths[l]);
                jitc_program_clear(&p);
                build_all(&p, &x, lengths[l], params);
                k = k ? k : runner_load(r, &p, level);
                runner_launch(r, k, &p, n, params);
                uint64_t block = lengths[l] < n ? lengths[l] : n;
                check_all(&x, block, isa);
                operands_finish(&x);
            }
        r->b->kernel_destroy(r->b, k);
        k = NULL;
        jitc_program_finish(&p);
    }
}

Test(llvm_reduce, blocks_of_every_length, .timeout = 300) {
    static const jit_dtype types[] = {JIT_bool, JIT_i8, JIT_bf16, JIT_f32};
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init_threads(&r, runner_isas[i], 2))
            continue;
        check_blocks(&r, types[i], i == 2 ? 2 : 0, runner_isas[i]);
        runner_finish(&r);
    }
}

/* Values at the edge. */

static void check_window(runner *r, jitc_kernel *k, const jitc_program *p, operands *x,
                         const uint64_t *params) {
    runner_launch(r, k, p, x->n, params);
    for (int op = 0; op < EVERY; op++)
        if (x->in[op] && op >= JIT_REDUCE_MIN)
            check_block(x, op, 0, x->n, 0, "edges");
}

static void check_edges(runner *r, jit_dtype t) {
    uint64_t edges[64], params[64];
    size_t count = edge_values(t, edges);
    operands x;
    jitc_program p = {0};
    operands_init(&x, t, count, JITC_PADDING, 1);
    build_all(&p, &x, 0, params);
    jitc_kernel *k = runner_load(r, &p, 2);
    for (size_t n = 1; n <= count; n++) {
        x.n = n;
        for (int op = 0; op < EVERY; op++)
            for (size_t i = 0; x.in[op] && i < n; i++)
                write_element(t, x.in[op], i, edges[(i * 7 + n) % count]);
        check_window(r, k, &p, &x, params);
    }
    uint64_t sign = (uint64_t) 1 << (jitc_dtypes[t].bits - 1);
    for (size_t n = 2; n <= count; n++) { /* zeros of which one has another sign */
        x.n = n;
        for (int op = 0; op < EVERY; op++)
            for (size_t i = 0; x.in[op] && i < n; i++)
                write_element(t, x.in[op], i, (i == n / 2) == (op == JIT_REDUCE_MIN) ? sign : 0);
        check_window(r, k, &p, &x, params);
    }
    x.n = count;
    r->b->kernel_destroy(r->b, k);
    operands_finish(&x);
    jitc_program_finish(&p);
}

Test(llvm_reduce, nan_zeros_and_infinities) {
    static const jit_dtype types[] = {JIT_f32, JIT_f64, JIT_f16, JIT_bf16};
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init(&r, NULL, runner_isas[i]))
            continue;
        for (int t = 0; t < 4; t++)
            check_edges(&r, types[t]);
        runner_finish(&r);
    }
}

/** Zeros of both signs, then NaN, in chunks of their own. */
static void check_chunks(runner *r, jit_dtype t) {
    enum { N = 4 * 16384 };
    uint64_t params[64], sign = (uint64_t) 1 << (jitc_dtypes[t].bits - 1);
    operands x;
    jitc_program p = {0};
    operands_init(&x, t, N, JITC_PADDING, 1);
    build_all(&p, &x, 0, params);
    for (int op = JIT_REDUCE_MIN; op <= JIT_REDUCE_MAX; op++)
        for (uint64_t i = 0; i < N; i++)
            write_element(t, x.in[op], i, op == JIT_REDUCE_MIN ? 0 : sign);
    for (uint64_t i = 0; i < N; i += 16384 + 5) {
        write_element(t, x.in[JIT_REDUCE_MIN], i, sign);
        write_element(t, x.in[JIT_REDUCE_MAX], i, 0);
        runner_run(r, &p, 0, N, params);
        check_block(&x, JIT_REDUCE_MIN, 0, N, 0, "zeros");
        check_block(&x, JIT_REDUCE_MAX, 0, N, 0, "zeros");
        write_element(t, x.in[JIT_REDUCE_MIN], i, i % 2 ? ~(uint64_t) 0 : ~sign);
        write_element(t, x.in[JIT_REDUCE_MAX], i, i % 2 ? ~sign : ~(uint64_t) 0);
        runner_run(r, &p, 0, N, params);
        check_block(&x, JIT_REDUCE_MIN, 0, N, 0, "NaN");
        check_block(&x, JIT_REDUCE_MAX, 0, N, 0, "NaN");
        write_element(t, x.in[JIT_REDUCE_MIN], i, 0);
        write_element(t, x.in[JIT_REDUCE_MAX], i, sign);
    }
    operands_finish(&x);
    jitc_program_finish(&p);
}

Test(llvm_reduce, nan_and_zeros_of_several_chunks) {
    runner r;
    cr_assert(runner_init(&r, NULL, NULL));
    check_chunks(&r, JIT_f32);
    check_chunks(&r, JIT_f64);
    check_chunks(&r, JIT_bf16);
    runner_finish(&r);
}

/* Sums of what is not exact. */

enum { LONG = (1 << 20) + 7 };

static void fill_random(float *x, uint64_t n) {
    uint64_t state = 1;
    for (uint64_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        x[i] = ((float) (state >> 40) / (1 << 24) - 0.5f) * (float) (1 << (state >> 36) % 10);
    }
}

/** What else a program does: so many operations, and so many other reductions. */
typedef struct company {
    int chain, others, level, threads;
    bool store;
} company;

static float sum_in_company(const float *x, uint64_t n, const company *c, const char *isa) {
    static float result, others[8];
    float *stored = c->store ? aligned_alloc(256, (n * 4 + JITC_PADDING + 255) / 256 * 256) : NULL;
    runner r;
    uint64_t params[64];
    jitc_program p = {.head.shape = JITC_SHAPE_REDUCE};
    cr_assert(runner_init_threads(&r, isa, c->threads));
    uint32_t v = add_data(&p, JIT_f32, x, params), w = v;
    for (int i = 0; i < c->chain; i++)
        w = add(&p, JITC_OP_mul, JIT_f32, w, w, 0);
    for (int i = 0; i < c->others; i++)
        add_reduce(&p, (jit_reduce_op) (i % 4), w, &others[i], params);
    add_reduce(&p, JIT_REDUCE_ADD, v, &result, params);
    if (c->store)
        add_store(&p, JIT_f32, w, stored, params);
    add_scratch(&p, params);
    runner_run(&r, &p, c->level, n, params);
    for (uint64_t i = 0; c->store && i < n; i++)
        cr_assert_eq(stored[i], x[i]);
    jitc_program_finish(&p);
    runner_finish(&r);
    free(stored);
    return result;
}

Test(llvm_reduce, sums_are_the_same_bits_whatever_else_happens) {
    static const company all[] = {{0, 0, 0, 1, false},  {0, 0, 2, 2, false},   {0, 0, 0, 5, true},
                                  {30, 3, 0, 2, false}, {150, 1, 2, 1, false}, {0, 8, 2, 5, true}};
    float *x = aligned_alloc(256, ((LONG) * 4 + JITC_PADDING + 255) / 256 * 256);
    fill_random(x, LONG);
    for (int i = 0; i < 16; i++)
        x[LONG + i] = NAN;
    long double exact = 0, size = 0;
    for (uint64_t i = 0; i < LONG; i++) {
        exact += (long double) x[i];
        size += fabsl((long double) x[i]);
    }
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init(&r, NULL, runner_isas[i]))
            continue;
        runner_finish(&r);
        float first = sum_in_company(x, LONG, &all[0], runner_isas[i]);
        cr_assert_lt(fabsl((long double) first - exact), 1e-8L * size, "%.9g", (double) first);
        for (size_t k = 1; k < sizeof all / sizeof *all; k++)
            cr_assert_eq(sum_in_company(x, LONG, &all[k], runner_isas[i]), first, "%s, %zu",
                         runner_isas[i], k);
    }
    free(x);
}

/* What a program may have besides. */

/** Indices behind the last lane, which are out of range, are nobody's. */
Test(llvm_reduce, lanes_that_do_not_exist_report_nothing) {
    enum { N = 100 };
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init(&r, NULL, runner_isas[i]))
            continue;
        uint32_t index[N + 64], table[4] = {1, 10, 100, 1000};
        uint64_t params[32], sum = 0, scale = 3, last = 0;
        jitc_bounds_report report = {0};
        for (uint32_t k = 0; k < N + 64; k++)
            index[k] = k < N ? k % 4 : 99;
        jitc_program p = {.head.shape = JITC_SHAPE_REDUCE, .head.flags = JITC_PROGRAM_BOUNDS};
        p.head.report = add_param(&p, (uintptr_t) &report, params);
        uint32_t t = add_buffer(&p, JIT_u32, table, 4, params);
        uint32_t v = add(&p, JITC_OP_gather, JIT_u32, t, add_data(&p, JIT_u32, index, params), 0);
        v = add(&p, JITC_OP_cast, JIT_u64, v, 0, 0);
        uint32_t s = add_data(&p, JIT_u64, &scale, params);
        p.inst[s].flags = JITC_INST_SCALAR;
        v = add(&p, JITC_OP_mul, JIT_u64, v, s, 0);
        add_reduce(&p, JIT_REDUCE_ADD, v, &sum, params);
        add_reduce(&p, JIT_REDUCE_MAX, add(&p, JITC_OP_counter, JIT_u64, 0, 0, 0), &last, params);
        uint64_t seven = 0;
        add_reduce(&p, JIT_REDUCE_ADD, add_literal(&p, JIT_u64, 7, params), &seven, params);
        add_scratch(&p, params);
        for (int level = 0; level <= 2; level += 2) {
            sum = last = seven = 0;
            runner_run(&r, &p, level, N, params);
            cr_assert_eq(sum, 3 * 1111 * N / 4);
            cr_assert_eq(last, N - 1);
            cr_assert_eq(seven, 7 * N);
            cr_assert_eq(report.claimed, 0u);
        }
        jitc_program_finish(&p);
        runner_finish(&r);
    }
}

/** Each lane counts to its element; those behind the last one would not come back for long. */
Test(llvm_reduce, lanes_leave_their_loops_before) {
    enum { N = 16384 + 100 };
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!runner_init(&r, NULL, runner_isas[i]))
            continue;
        uint32_t *limit = aligned_alloc(256, (N + 128) / 64 * 64 * 4), most = 0;
        uint64_t params[16], sum = 0, want = 0;
        for (uint32_t k = 0; k < (N + 128) / 64 * 64; k++) {
            limit[k] = k < N ? k * 7 % 13 : UINT32_MAX;
            want += k < N ? limit[k] : 0;
        }
        jitc_program p = {.head.shape = JITC_SHAPE_REDUCE, .head.flags = JITC_PROGRAM_LOOPS};
        uint32_t x = add_data(&p, JIT_u32, limit, params);
        uint32_t zero = add_baked(&p, JIT_u32, 0), one = add_baked(&p, JIT_u32, 1);
        uint32_t loop = add(&p, JITC_OP_loop, JIT_u32, 0, 0, 0);
        uint32_t n = add(&p, JITC_OP_phi, JIT_u32, zero, loop, 0);
        add(&p, JITC_OP_test, JIT_bool, add(&p, JITC_OP_lt, JIT_bool, n, x, 0), loop, 0);
        add(&p, JITC_OP_next, JIT_u32, n, add(&p, JITC_OP_add, JIT_u32, n, one, 0), 0);
        add(&p, JITC_OP_end, JIT_u32, loop, 0, 0);
        add_reduce(&p, JIT_REDUCE_MAX, n, &most, params);
        add_reduce(&p, JIT_REDUCE_ADD, add(&p, JITC_OP_cast, JIT_u64, n, 0, 0), &sum, params);
        add_scratch(&p, params);
        for (int level = 0; level <= 2; level += 2) {
            sum = most = 0;
            runner_run(&r, &p, level, N, params);
            cr_assert_eq(sum, want, "%s: %lu instead of %lu", runner_isas[i], sum, want);
            cr_assert_eq(most, 12u);
        }
        jitc_program_finish(&p);
        runner_finish(&r);
        free(limit);
    }
}
