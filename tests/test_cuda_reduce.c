/* test_cuda_reduce.c: the CUDA backend's kernels that combine all lanes, or blocks of them, to one.
 */
#include "cuda/device.h"

#include "combine_world.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cuda_reduce, .init = slots_start, .fini = slots_end);

/* A tile of most types has 8192 lanes. */
static const size_t sizes[] = {1,    2,    31,   32,   33,    255,   1000, 2048,
                               4099, 8191, 8192, 8193, 16384, 24583, 32769};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void check_reduce(jit_dtype t, jit_reduce_op op, uint32_t flags, size_t n, size_t offset) {
    size_t bytes = jitc_dtypes[t].bytes;
    char what[64];
    void *values = combine_values(t, op, n, (unsigned) n);
    combine_program *c = combine_begin(JITC_SHAPE_REDUCE, flags);
    void *out = exact(bytes, 0, NULL);
    size_t padded = flags & JITC_PROGRAM_TAIL ? n : (n + 63) / 64 * 64;
    void *room = calloc(padded, bytes);
    memcpy(room, values, n * bytes);
    uint32_t x = add_data(&c->p, t, exact(padded * bytes, offset * bytes, room), c->params);
    combine_add(c, JITC_OP_reduce, op, 0, x, out);
    combine_run(c, n);
    uint64_t sum = combine_first(t, op);
    for (size_t i = 0; i < n; ++i)
        sum = combine_next(t, op, sum, values, i);
    void *got = fetch(stream[0], out, bytes);
    snprintf(what, sizeof what, "%zu lanes, flags %u, from %zu", n, flags, offset);
    combine_expect(t, op, got, 0, sum, what);
    free(got), free(room), free(values);
    combine_end(c);
    exact_finish();
}

Test(cuda_reduce, every_type_and_operation) {
    unsigned turn = 0;
    FOR_TYPES(t)
    FOR_REDUCTIONS(op)
    if (jitc_reduce_accepts(op, t)) {
        check_reduce(t, op, turn % 2 ? JITC_PROGRAM_TAIL : 0, sizes[turn % SIZES], 0);
        ++turn;
    }
}

Test(cuda_reduce, foreign_arrays_may_begin_and_end_anywhere) {
    for (size_t from = 0; from < 4; ++from) {
        check_reduce(JIT_f32, JIT_REDUCE_ADD, JITC_PROGRAM_TAIL, 8192 + from, from);
        check_reduce(JIT_u8, JIT_REDUCE_MAX, JITC_PROGRAM_TAIL, 2047 - from, from);
        check_reduce(JIT_f64, JIT_REDUCE_MUL, JITC_PROGRAM_TAIL | JITC_PROGRAM_WIDE, 8191, from);
    }
}

static void check_blocks(jit_dtype t, jit_reduce_op op, uint32_t flags, size_t n, size_t length) {
    size_t bytes = jitc_dtypes[t].bytes, count = (n + length - 1) / length;
    char what[64];
    void *values = combine_values(t, op, n, (unsigned) (n + length));
    combine_program *c = combine_begin(JITC_SHAPE_BLOCK_REDUCE, flags);
    void *out = exact(count * bytes, 0, NULL);
    uint32_t x = add_data(&c->p, t, exact(n * bytes, 0, values), c->params);
    combine_add(c, JITC_OP_block_reduce, op, 0, x, out);
    c->params[c->p.head.params] = length;
    c->p.inst[c->p.head.count - 1].c = c->p.head.params++;
    combine_run(c, n);
    void *got = fetch(stream[0], out, count * bytes);
    snprintf(what, sizeof what, "%zu lanes in blocks of %zu", n, length);
    for (size_t k = 0; k < count; ++k) {
        uint64_t sum = combine_first(t, op);
        for (size_t i = k * length; i < n && i < (k + 1) * length; ++i)
            sum = combine_next(t, op, sum, values, i);
        combine_expect(t, op, got, k, sum, what);
    }
    free(got), free(values);
    combine_end(c);
    exact_finish();
}

Test(cuda_reduce, blocks_of_every_length) {
    static const struct {
        size_t n, length;
    } cases[] = {{1, 1},         {1, 100},         {100, 1},      {1000, 2},      {1000, 3},
                 {1001, 7},      {515, 8},         {1000, 9},     {1000, 16},     {1000, 31},
                 {2000, 33},     {3000, 64},       {3000, 255},   {3000, 256},    {5000, 257},
                 {9000, 4096},   {9000, 4097},     {20000, 8191}, {33000, 16384}, {33000, 16385},
                 {40000, 40000}, {20000, 1u << 30}};
    enum { CASES = sizeof cases / sizeof *cases };
    unsigned turn = 0;
    FOR_TYPES(t)
    FOR_REDUCTIONS(op)
    if (jitc_reduce_accepts(op, t)) {
        check_blocks(t, op, turn % 2 ? JITC_PROGRAM_TAIL : JITC_PROGRAM_WIDE, cases[turn % CASES].n,
                     cases[turn % CASES].length);
        ++turn;
    }
}

/* ---- Bits ---- */

/** Values whose sum depends on the order. */
static float *rough_values(size_t n) {
    float *x = malloc(n * sizeof *x);
    for (size_t i = 0; i < n; ++i)
        x[i] = (float) (i * 2654435761u % 1000003) * (i % 3 ? 1e-3f : -7e2f);
    return x;
}

/** What else a kernel does beside a sum. */
typedef enum company { NOTHING, STORES, OTHERS, LONG, LONGER, COMPANIES } company;

static void add_company(combine_program *c, company with, uint32_t x, size_t n) {
    uint32_t y = x;
    if (with == STORES) {
        y = add(&c->p, JITC_OP_cast, JIT_f64, x, 0, 0);
        add_store(&c->p, JIT_f64, y, exact((n + 64) * 8, 0, NULL), c->params);
        y = add(&c->p, JITC_OP_lt, JIT_bool, x, x, 0);
        add_store(&c->p, JIT_bool, y, exact(n + 64, 0, NULL), c->params);
    }
    if (with == OTHERS) {
        combine_add(c, JITC_OP_reduce, JIT_REDUCE_MAX, 0, x, exact(4, 0, NULL));
        y = add(&c->p, JITC_OP_mul, JIT_f32, x, x, 0);
        combine_add(c, JITC_OP_reduce, JIT_REDUCE_ADD, 0, y, exact(4, 0, NULL));
    }
    if (with == LONG || with == LONGER) {
        for (int i = 0; i < (with == LONG ? 120 : 250); ++i)
            y = add(&c->p, JITC_OP_mul, JIT_f32, y, x, 0);
        combine_add(c, JITC_OP_reduce, JIT_REDUCE_MIN, 0, y, exact(4, 0, NULL));
    }
}

static uint32_t sum_bits(const float *x, size_t n, company with, uint32_t flags) {
    uint32_t *got, bits;
    float *room = calloc(n + 64, sizeof *x);
    memcpy(room, x, n * sizeof *x);
    combine_program *c = combine_begin(JITC_SHAPE_REDUCE, flags);
    void *out = exact(4, 0, NULL);
    uint32_t v = add_data(&c->p, JIT_f32, exact((n + 64) * 4, 0, room), c->params);
    add_company(c, with, v, n);
    combine_add(c, JITC_OP_reduce, JIT_REDUCE_ADD, 0, v, out);
    combine_run(c, n);
    got = fetch(stream[0], out, 4);
    bits = *got;
    free(got), free(room);
    combine_end(c);
    exact_finish();
    return bits;
}

Test(cuda_reduce, a_sum_has_the_same_bits_whatever_runs_first_or_with_it) {
    static const uint32_t flags[] = {JITC_PROGRAM_TAIL, JITC_PROGRAM_WIDE};
    enum { LANES = 3 * 8192 + 100 };
    float *x = rough_values(LANES);
    double exactly = 0;
    for (int i = 0; i < LANES; ++i)
        exactly += (double) x[i];
    uint32_t bits = sum_bits(x, LANES, NOTHING, 0);
    float sum;
    memcpy(&sum, &bits, sizeof sum);
    cr_expect_float_eq(sum, exactly, 1e-6 * (exactly < 0 ? -exactly : exactly), "%g, not %g",
                       (double) sum, exactly);
    for (int with = 0; with < COMPANIES; ++with)
        cr_expect_eq(sum_bits(x, LANES, (company) with, 0), bits, "in company %d", with);
    for (size_t i = 0; i < sizeof flags / sizeof *flags; ++i)
        cr_expect_eq(sum_bits(x, LANES, NOTHING, flags[i]), bits, "flags %u", flags[i]);
    for (uint64_t seed = 1; w.seed && seed < 4; ++seed) {
        w.seed(seed);
        cr_expect_eq(sum_bits(x, LANES, NOTHING, 0), bits, "seed %llu", (unsigned long long) seed);
    }
    free(x);
}

/** The sums of 512 threads, as a block adds them: by warps, then the warps. */
static float block_sum(float a[512]) {
    float other[512];
    for (int d = 16; d; d /= 2) {
        memcpy(other, a, sizeof other);
        for (int t = 0; t < 512; ++t)
            a[t] = other[t] + other[t ^ d];
    }
    for (int k = 0; k < 16; ++k)
        a[k] = a[32 * k];
    for (int d = 8; d; d /= 2)
        for (int k = 0; k < d; ++k)
            a[k] = a[k] + a[k + d];
    return a[0];
}

/** What a thread adds in a tile: a balanced tree of 4 rows of 4 lanes. */
static float thread_sum(const float *x, size_t n, size_t tile, size_t thread) {
    float leaf[16];
    for (size_t k = 0; k < 16; ++k) {
        size_t i = tile * 8192 + k / 4 * 2048 + thread * 4 + k % 4;
        leaf[k] = i < n ? x[i] : 0;
    }
    for (int d = 1; d < 16; d *= 2)
        for (int k = 0; k < 16; k += 2 * d)
            leaf[k] = leaf[k] + leaf[k + d];
    return leaf[0];
}

/** One tile for each block. */
static float sum_of_tiles(const float *x, size_t n) {
    float of_block[512] = {0}, of_thread[512];
    for (size_t tile = 0; tile * 8192 < n; ++tile) {
        for (size_t t = 0; t < 512; ++t)
            of_thread[t] = thread_sum(x, n, tile, t);
        of_block[tile] = block_sum(of_thread);
    }
    return n > 8192 ? block_sum(of_block) : of_block[0];
}

/* What programs have computed they shall compute with the next version, and on the next GPU. */
Test(cuda_reduce, sums_are_added_in_one_order_for_ever) {
    static const size_t lengths[] = {7, 8000, 5 * 8192 + 1001};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i) {
        float *x = rough_values(lengths[i]), want = sum_of_tiles(x, lengths[i]);
        uint32_t bits, got = sum_bits(x, lengths[i], NOTHING, 0);
        memcpy(&bits, &want, sizeof bits);
        cr_expect_eq(got, bits, "%zu lanes: %#x instead of %#x", lengths[i], got, bits);
        free(x);
    }
}

/* f16 has 11 bits: added one by one, ones stop at 2048. */
Test(cuda_reduce, small_floats_are_added_in_f32_and_rounded_once) {
    enum { LANES = 4099 };
    uint16_t ones[LANES + 64];
    for (int i = 0; i < LANES + 64; ++i)
        ones[i] = 0x3c00;
    combine_program *c = combine_begin(JITC_SHAPE_REDUCE, 0);
    void *out = exact(2, 0, NULL);
    uint32_t x = add_data(&c->p, JIT_f16, exact(sizeof ones, 0, ones), c->params);
    combine_add(c, JITC_OP_reduce, JIT_REDUCE_ADD, 0, x, out);
    combine_run(c, LANES);
    uint16_t *got = fetch(stream[0], out, 2);
    cr_expect_eq(jitc_f16_to_f32(*got), 4100, "%g", (double) jitc_f16_to_f32(*got));
    free(got);
    combine_end(c);
    exact_finish();
}

/* ---- What is fused ---- */

/** The sum of x y + z, where x is gathered under a mask; what is stored beside it. */
static void check_fused(size_t n, uint32_t flags) {
    size_t bytes = (n + 64) * 4;
    float *x = calloc(1, bytes), *y = calloc(1, bytes), *want = calloc(1, bytes);
    unsigned char *mask = calloc(n + 64, 1);
    uint32_t *index = calloc(1, bytes);
    double sum = 0;
    for (size_t i = 0; i < n; ++i)
        x[i] = (float) (i % 5);
    for (size_t i = 0; i < n; ++i) {
        y[i] = (float) (i % 7), mask[i] = i % 3 != 0;
        index[i] = (uint32_t) (n - i); /* the first is out of range */
        want[i] = (mask[i] && i ? x[n - i] : 0) * y[i] + 2;
        sum += (double) want[i];
    }
    combine_program *c = combine_begin(JITC_SHAPE_REDUCE, flags);
    void *out = exact(4, 0, NULL),
         *stored = exact(flags & JITC_PROGRAM_TAIL ? n * 4 : bytes, 0, NULL);
    uint32_t source = add_buffer(&c->p, JIT_f32, exact(n * 4, 0, x), n, c->params);
    uint32_t at = add_data(&c->p, JIT_u32, exact(bytes, 0, index), c->params);
    at = add(&c->p, JITC_OP_masked, JIT_u32, at,
             add_data(&c->p, JIT_bool, exact(n + 64, 0, mask), c->params), 0);
    uint32_t v = add(&c->p, JITC_OP_gather, JIT_f32, source, at, 0);
    v = add(&c->p, JITC_OP_mul, JIT_f32, v, add_data(&c->p, JIT_f32, exact(bytes, 0, y), c->params),
            0);
    v = add(&c->p, JITC_OP_add, JIT_f32, v, add_literal(&c->p, JIT_f32, 0x40000000, c->params), 0);
    add_store(&c->p, JIT_f32, v, stored, c->params);
    combine_add(c, JITC_OP_reduce, JIT_REDUCE_ADD, 0, v, out);
    combine_run(c, n);
    float *got = fetch(stream[0], out, 4), *all = fetch(stream[0], stored, n * 4);
    cr_expect_eq((double) *got, sum, "%zu lanes: %g, not %g", n, (double) *got, sum);
    cr_expect_arr_eq(all, want, n * 4, "%zu lanes, flags %u", n, flags);
    free(x), free(y), free(want), free(mask), free(index), free(got), free(all);
    combine_end(c);
    exact_finish();
}

Test(cuda_reduce, gathers_masks_and_stores_join) {
    check_fused(5, 0);
    check_fused(2050, JITC_PROGRAM_TAIL);
    check_fused(8192 + 5, 0);
    check_fused(16384, JITC_PROGRAM_TAIL | JITC_PROGRAM_WIDE);
}

/** Lanes i < 100 double a state i % 10 times: the sum of the states, by loops in the kernel. */
Test(cuda_reduce, lanes_may_loop) {
    combine_program *c = combine_begin(JITC_SHAPE_REDUCE, JITC_PROGRAM_LOOPS);
    void *out = exact(4, 0, NULL);
    jitc_program *p = &c->p;
    uint32_t lane = add(p, JITC_OP_counter, JIT_u32, 0, 0, 0);
    uint32_t rounds = add(p, JITC_OP_mod, JIT_u32, lane, add_baked(p, JIT_u32, 10), 0);
    uint32_t zero = add_baked(p, JIT_u32, 0), one = add_baked(p, JIT_u32, 1);
    uint32_t loop = add(p, JITC_OP_loop, JIT_bool, 0, 0, 0);
    uint32_t k = add(p, JITC_OP_phi, JIT_u32, zero, loop, 0);
    uint32_t v = add(p, JITC_OP_phi, JIT_u32, one, loop, 1);
    uint32_t in = add(p, JITC_OP_lt, JIT_bool, k, rounds, 0);
    add(p, JITC_OP_test, JIT_bool, in, loop, 0);
    uint32_t k1 = add(p, JITC_OP_add, JIT_u32, k, one, 0);
    uint32_t v1 = add(p, JITC_OP_add, JIT_u32, v, v, 0);
    add(p, JITC_OP_next, JIT_u32, k, k1, 0);
    add(p, JITC_OP_next, JIT_u32, v, v1, 0);
    add(p, JITC_OP_end, JIT_bool, loop, 0, 0);
    combine_add(c, JITC_OP_reduce, JIT_REDUCE_ADD, 0, v, out);
    combine_run(c, 100);
    uint32_t *got = fetch(stream[0], out, 4);
    cr_expect_eq(*got, 10 * 1023u, "%u", *got);
    free(got);
    combine_end(c);
    exact_finish();
}

/** A sum of f32 and one of u8 as f32, of which several tiles are loaded together. */
Test(cuda_reduce, narrow_elements_are_summed_as_floats) {
    enum { LANES = 9 * 8192 + 77 };
    unsigned char *x = calloc(LANES + 64, 1);
    double sum = 0;
    for (int i = 0; i < LANES; ++i)
        sum += x[i] = (unsigned char) (i * 7);
    combine_program *c = combine_begin(JITC_SHAPE_REDUCE, 0);
    void *out = exact(4, 0, NULL);
    uint32_t v = add_data(&c->p, JIT_u8, exact(LANES + 64, 0, x), c->params);
    v = add(&c->p, JITC_OP_cast, JIT_f32, v, 0, 0);
    combine_add(c, JITC_OP_reduce, JIT_REDUCE_ADD, 0, v, out);
    combine_run(c, LANES);
    float *got = fetch(stream[0], out, 4);
    cr_expect_eq((double) *got, sum, "%g, not %g", (double) *got, sum);
    free(x), free(got);
    combine_end(c);
    exact_finish();
}

/* As of programs with thousands of parameters. */
Test(cuda_reduce, parameters_may_be_in_memory) {
    jitc_cuda_backend_of(b)->device[0].most_bytes = 40;
    check_reduce(JIT_f32, JIT_REDUCE_ADD, 0, 20000, 0);
    check_reduce(JIT_i32, JIT_REDUCE_MIN, JITC_PROGRAM_TAIL, 100, 0);
    check_blocks(JIT_f32, JIT_REDUCE_ADD, 0, 40000, 20000);
}

/** c & 7 and c of lanes c = 0 ... n-1, of which there may be more than 2^32. */
static void check_wide(uint64_t n, uint64_t length) {
    size_t count = (size_t) ((n + length - 1) / length);
    void *out = exact(16, 0, NULL), *blocks = exact(count * 8, 0, NULL);
    combine_program *all = combine_begin(JITC_SHAPE_REDUCE, JITC_PROGRAM_WIDE);
    combine_program *some = combine_begin(JITC_SHAPE_BLOCK_REDUCE, JITC_PROGRAM_WIDE);
    uint32_t c = add(&all->p, JITC_OP_counter, JIT_u64, 0, 0, 0);
    uint32_t low = add(&all->p, JITC_OP_and, JIT_u64, c, add_baked(&all->p, JIT_u64, 7), 0);
    combine_add(all, JITC_OP_reduce, JIT_REDUCE_ADD, 0, low, out);
    combine_add(all, JITC_OP_reduce, JIT_REDUCE_MAX, 0, c, (char *) out + 8);
    combine_run(all, n);
    c = add(&some->p, JITC_OP_counter, JIT_u64, 0, 0, 0);
    combine_add(some, JITC_OP_block_reduce, JIT_REDUCE_MAX, 0, c, blocks);
    some->params[some->p.head.params] = length;
    some->p.inst[1].c = some->p.head.params++;
    combine_run(some, n);
    uint64_t *got = fetch(stream[0], out, 16), *most = fetch(stream[0], blocks, count * 8);
    cr_expect_eq(got[0], n / 8 * 28 + n % 8 * (n % 8 - 1) / 2, "%llu", (unsigned long long) got[0]);
    cr_expect_eq(got[1], n - 1, "%llu", (unsigned long long) got[1]);
    for (size_t k = 0; k < count; ++k)
        cr_assert_eq(most[k], k + 1 < count ? (k + 1) * length - 1 : n - 1, "block %zu: %llu", k,
                     (unsigned long long) most[k]);
    free(got), free(most);
    combine_end(all);
    combine_end(some);
    exact_finish();
}

/* Of as many as the device can do in this time. */
Test(cuda_reduce, lanes_may_have_numbers_of_64_bits) {
    check_wide(40003, 1001);
    if (!w.faults) {
        check_wide(((uint64_t) 1 << 33) + 12345, 10007);
        check_wide(((uint64_t) 1 << 32) + 12345, (uint64_t) 1 << 31);
    }
}

/* ---- Many ---- */

/* Counters in the memory of the stream end as they began, in whatever order blocks run. */
Test(cuda_reduce, launches_follow_each_other_on_several_streams) {
    enum { LANES = 20000, LAUNCHES = 3 };
    float *x = calloc(LANES + 64, sizeof *x);
    double sum = 0;
    for (int i = 0; i < LANES; ++i)
        sum += (double) (x[i] = (float) (i % 11));
    combine_program *all = combine_begin(JITC_SHAPE_REDUCE, 0);
    combine_program *halves = combine_begin(JITC_SHAPE_BLOCK_REDUCE, 0);
    const void *in = exact((LANES + 64) * 4, 0, x);
    combine_add(all, JITC_OP_reduce, JIT_REDUCE_ADD, 0, add_data(&all->p, JIT_f32, in, all->params),
                NULL);
    combine_add(halves, JITC_OP_block_reduce, JIT_REDUCE_ADD, 0,
                add_data(&halves->p, JIT_f32, in, halves->params), NULL);
    halves->params[halves->p.head.params] = LANES - 1000;
    halves->p.inst[1].c = halves->p.head.params++;
    combine_compile(all);
    combine_compile(halves);
    float *out[STREAMS], *got;
    if (w.seed)
        w.seed(7);
    for (int k = 0; k < STREAMS; ++k)
        out[k] = exact(3 * LAUNCHES * 4, 0, NULL);
    for (int i = 0; i < LAUNCHES; ++i)
        for (int k = 0; k < STREAMS; ++k) {
            all->params[all->p.inst[1].b] = (uintptr_t) (out[k] + 3 * i);
            halves->params[halves->p.inst[1].b] = (uintptr_t) (out[k] + 3 * i + 1);
            combine_launch(all, stream[k], LANES);
            combine_launch(halves, stream[k], LANES);
        }
    for (int k = 0; k < STREAMS; ++k) {
        got = fetch(stream[k], out[k], 3 * LAUNCHES * 4);
        for (int i = 0; i < LAUNCHES; ++i) {
            cr_expect_eq((double) got[3 * i], sum, "stream %d, launch %d", k, i);
            cr_expect_eq((double) (got[3 * i + 1] + got[3 * i + 2]), sum, "stream %d, %d", k, i);
        }
        free(got);
    }
    combine_end(all);
    combine_end(halves);
    exact_finish();
    free(x);
}
