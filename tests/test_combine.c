/* test_combine.c: reductions, of all and of blocks, and prefix sums, through the public interface,
 * against totals.  Layer: tests. */
#include "combine_total.h"
#include <jit/loop.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void start_backend(void) {
    support_init();
}
TestSuite(combine, .init = start_backend, .fini = support_shutdown);

static const size_t sizes[] = {0, 1, 2, 31, 32, 33, 255, 16384, 16383, 16385};
enum { SIZES = sizeof sizes / sizeof *sizes };

static uint64_t launches(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s.launches;
}

static jit_var array(jit_dtype t, const uint64_t *bits, size_t n) {
    jit_var v = support_array(t, bits, n);
    ASSERT_VAR(v);
    return v;
}

/* Evaluate what there is of v, in `kernels` launches. */
static void evaluate(const jit_var *v, size_t n, uint64_t kernels) {
    uint64_t before = launches();
    for (size_t i = 0; i < n; ++i)
        ASSERT_OK(jit_schedule(v[i]));
    ASSERT_OK(jit_eval());
    cr_assert_eq(launches() - before, kernels, "%d launches", (int) (launches() - before));
}

static uint64_t read_one(jit_var v) {
    uint64_t *bits = support_read(v, 1), value = *bits;
    free(bits);
    return value;
}

static void check_all(jit_reduce_op op, jit_dtype t, const uint64_t *in, size_t n, jit_var v,
                      const char *what) {
    total s = total_start(op, t);
    for (size_t i = 0; i < n; ++i)
        total_add(&s, in[i]);
    total_check(&s, read_one(v), what, 0);
}

/* Blocks of `block` of n elements. */
static void check_blocks(jit_reduce_op op, jit_dtype t, const uint64_t *in, size_t n, size_t block,
                         jit_var v) {
    size_t count = (n + block - 1) / block;
    uint64_t *bits = support_read(v, count);
    for (size_t b = 0; b < count; ++b) {
        total s = total_start(op, t);
        for (size_t i = b * block; i < n && i < (b + 1) * block; ++i)
            total_add(&s, in[i]);
        total_check(&s, bits[b], "block_reduce", b);
    }
    free(bits);
}

static void check_prefix(jit_reduce_op op, jit_dtype t, const uint64_t *in, size_t n,
                         bool exclusive, bool reverse, jit_var v) {
    uint64_t *bits = support_read(v, n);
    total s = total_start(op, t);
    for (size_t k = 0; k < n; ++k) {
        size_t i = reverse ? n - 1 - k : k;
        if (exclusive)
            total_check(&s, bits[i], "prefix_reduce", i);
        total_add(&s, in[i]);
        if (!exclusive)
            total_check(&s, bits[i], "prefix_reduce", i);
    }
    free(bits);
}

/* ---- all types ---- */

/* All reductions of a type in one pass. */
static void reduce_all_ways(jit_dtype t, filling f, size_t n) {
    jit_var in[JITC_REDUCE_COUNT], out[JITC_REDUCE_COUNT];
    uint64_t *bits[JITC_REDUCE_COUNT];
    size_t count = 0;
    jit_reduce_op ops[JITC_REDUCE_COUNT];
    FOR_REDUCTIONS(op) {
        if (!jitc_reduce_accepts(op, t))
            continue;
        bits[count] = elements_of(f, op, t, 0, n);
        in[count] = array(t, bits[count], n);
        out[count] = jit_reduce(op, in[count]);
        ASSERT_VAR(out[count]);
        cr_assert_eq(jit_size(out[count]), 1);
        cr_assert_eq(jit_type(out[count]), t);
        ops[count++] = op;
    }
    evaluate(out, count, n > 1);
    for (size_t i = 0; i < count; ++i) {
        check_all(ops[i], t, bits[i], n, out[i], "reduce");
        jit_unref(in[i]);
        jit_unref(out[i]);
        free(bits[i]);
    }
}

Test(combine, reductions_of_all_types_and_sizes) {
    FOR_TYPES(t) {
        for (size_t i = 0; i < SIZES; ++i)
            if (sizes[i] < 1000 || t == JIT_f32 || t == JIT_u8)
                reduce_all_ways(t, SMALL, sizes[i]);
        for (int f = EQUAL; f < FILLINGS; ++f)
            reduce_all_ways(t, (filling) f, 1000);
        for (size_t n = 2; n < 12; ++n) /* few elements: each special value rules some */
            reduce_all_ways(t, SPECIAL, n);
    }
}

Test(combine, large_reductions) {
    enum { N = (1 << 20) + 7 };
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f32, 0, N);
    jit_var x = array(JIT_f32, a, N), v[2];
    v[0] = jit_reduce(JIT_REDUCE_ADD, x);
    v[1] = jit_reduce(JIT_REDUCE_ADD, jit_bitcast(x, JIT_u32));
    evaluate(v, 2, 1);
    check_all(JIT_REDUCE_ADD, JIT_f32, a, N, v[0], "reduce");
    check_all(JIT_REDUCE_ADD, JIT_u32, a, N, v[1], "reduce");
    free(a);
}

/** A sum that grows: adding one element after the other would be far off in f32 and stand still in
 * f16. */
Test(combine, sums_are_pairwise_or_better) {
    enum { N = 1 << 20 };
    const uint32_t tenth = 0x3dcccccd;
    jit_var ones = support_literal(JIT_f32, tenth, N),
            x = jit_add(ones, jit_f32(support_backend(), 0));
    float sum;
    ASSERT_OK(jit_read(jit_reduce(JIT_REDUCE_ADD, x), &sum));
    cr_assert_float_eq(sum, (int) N * (double) 0.1f, 1, "%.9g", (double) sum);
    jit_var half = jit_cast(x, JIT_f16);
    ASSERT_OK(
        jit_read(jit_cast(jit_reduce(JIT_REDUCE_ADD,
                                     jit_gather(half, jit_counter(support_backend(), 60000), 0)),
                          JIT_f32),
                 &sum));
    cr_assert_float_eq(sum, 5998.5, 4, "%.9g", (double) sum);
}

static void blocks_all_ways(jit_dtype t, size_t n, size_t block) {
    jit_var in[JITC_REDUCE_COUNT], out[JITC_REDUCE_COUNT];
    uint64_t *bits[JITC_REDUCE_COUNT];
    jit_reduce_op ops[JITC_REDUCE_COUNT];
    size_t count = 0;
    FOR_REDUCTIONS(op) {
        if (!jitc_reduce_accepts(op, t))
            continue;
        bits[count] = elements_of(SMALL, op, t, 7, n);
        in[count] = array(t, bits[count], n);
        out[count] = jit_block_reduce(op, in[count], block);
        ASSERT_VAR(out[count]);
        ops[count++] = op;
    }
    evaluate(out, count, n > 1 && block > 1);
    for (size_t i = 0; i < count; ++i) {
        check_blocks(ops[i], t, bits[i], n, block, out[i]);
        jit_unref(in[i]);
        jit_unref(out[i]);
        free(bits[i]);
    }
}

Test(combine, blocks_of_all_types) {
    static const size_t lengths[] = {1, 2, 3, 7, 16, 32, 100, 255, 256, 257, 999, 1000, 1001};
    FOR_TYPES(t) {
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i)
            blocks_all_ways(t, 1000, lengths[i]);
        blocks_all_ways(t, 0, 5);
        blocks_all_ways(t, 33, 2);
    }
    blocks_all_ways(JIT_f32, 30003, 3);
    blocks_all_ways(JIT_u8, 30003, 20001);
}

static void prefix(jit_reduce_op op, jit_dtype t, filling f, size_t n, unsigned variant) {
    uint64_t *bits = elements_of(f, op, t, 3, n);
    bool exclusive = variant & 1, reverse = variant & 2;
    jit_var in = array(t, bits, n), out = jit_prefix_reduce(op, in, exclusive, reverse);
    ASSERT_VAR(out);
    evaluate(&out, 1, n > 1);
    check_prefix(op, t, bits, n, exclusive, reverse, out);
    jit_unref(in);
    jit_unref(out);
    free(bits);
}

Test(combine, prefix_sums_of_all_types) {
    unsigned turn = 0;
    FOR_TYPES(t)
    FOR_REDUCTIONS(op) {
        if (!jitc_reduce_accepts(op, t))
            continue;
        unsigned variant = (turn + turn / 4) % 4;
        prefix(op, t, SMALL, 1000, variant);
        prefix(op, t, SPECIAL, 9 + turn++ % 50, variant);
    }
    for (unsigned variant = 0; variant < 4; ++variant)
        for (size_t i = 0; i < SIZES; ++i) {
            prefix(JIT_REDUCE_ADD, JIT_u32, SMALL, sizes[i], variant);
            prefix(JIT_REDUCE_ADD, JIT_f32, SMALL, sizes[i], variant);
        }
    prefix(JIT_REDUCE_ADD, JIT_f32, SMALL, (1 << 17) + 7, 1);
    prefix(JIT_REDUCE_MAX, JIT_f32, ASCENDING, 40001, 2);
}

/* ---- what is one kernel ---- */

/** sum(f(x, y)): one kernel, no memory for what is summed. */
Test(combine, what_is_reduced_does_not_go_through_memory) {
    enum { N = 100000 };
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f64, 0, N);
    uint64_t *b = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f64, N, N);
    jit_var x = array(JIT_f64, a, N), y = array(JIT_f64, b, N);
    jit_stats before, after;
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_get_stats(&before));
    jit_var p = jit_mul(x, y), sum = jit_reduce(JIT_REDUCE_ADD, p);
    jit_unref(p);
    evaluate(&sum, 1, 1);
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_lt(after.bytes_peak, before.bytes_live + N * sizeof(double));
    total s = total_start(JIT_REDUCE_ADD, JIT_f64);
    for (size_t i = 0; i < N; ++i)
        total_add(&s, element_from_f64(JIT_f64, element_to_f64(JIT_f64, a[i]) *
                                                    element_to_f64(JIT_f64, b[i])));
    total_check(&s, read_one(sum), "sum of products", 0);
    jit_unref(sum);
    jit_unref(x);
    jit_unref(y);
    free(a);
    free(b);
}

Test(combine, several_reductions_and_a_store_are_one_pass) {
    enum { N = 5000 };
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f32, 0, N), *got;
    jit_var x = array(JIT_f32, a, N), v[6];
    v[0] = jit_reduce(JIT_REDUCE_ADD, x);
    v[1] = jit_reduce(JIT_REDUCE_MIN, x);
    v[2] = jit_reduce(JIT_REDUCE_MAX, x);
    v[3] = jit_neg(x);
    jit_var below = jit_lt(x, jit_f32(support_backend(), 0));
    v[4] = jit_reduce(JIT_REDUCE_ADD, jit_cast(below, JIT_u32));
    v[5] = jit_reduce(JIT_REDUCE_OR, below);
    evaluate(v, 6, 1);
    uint32_t negative = 0;
    for (size_t i = 0; i < N; ++i)
        negative += element_to_f64(JIT_f32, a[i]) < 0;
    check_all(JIT_REDUCE_ADD, JIT_f32, a, N, v[0], "sum");
    check_all(JIT_REDUCE_MIN, JIT_f32, a, N, v[1], "least");
    check_all(JIT_REDUCE_MAX, JIT_f32, a, N, v[2], "greatest");
    cr_assert_eq(read_one(v[4]), negative);
    cr_assert_eq(read_one(v[5]), 1);
    got = support_read(v[3], N);
    for (size_t i = 0; i < N; ++i)
        cr_assert_eq(got[i], a[i] ^ 0x80000000);
    free(got);
    free(a);
}

Test(combine, mean_and_variance_are_two_passes) {
    enum { N = 20000 };
    jit_backend b = support_backend();
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f64, 0, N);
    jit_var x = array(JIT_f64, a, N), n = jit_f64(b, N);
    jit_var mean = jit_div(jit_reduce(JIT_REDUCE_ADD, x), n), d = jit_sub(x, mean);
    jit_var v[2] = {jit_div(jit_reduce(JIT_REDUCE_ADD, jit_mul(d, d)), n), mean};
    evaluate(v, 2, 4); /* and one element twice */
    double sum = 0, squares = 0;
    for (size_t i = 0; i < N; ++i)
        sum += element_to_f64(JIT_f64, a[i]);
    for (size_t i = 0; i < N; ++i)
        squares += pow(element_to_f64(JIT_f64, a[i]) - sum / (int) N, 2);
    cr_assert_float_eq(element_to_f64(JIT_f64, read_one(v[1])), sum / (int) N, 1e-12);
    cr_assert_float_eq(element_to_f64(JIT_f64, read_one(v[0])), squares / (int) N, 1e-10);
    free(a);
}

/** Softmax: a maximum, a sum that needs it, and elements that need both; and each row by itself. */
Test(combine, results_are_used_by_what_follows) {
    enum { N = 3000 };
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f32, 0, N), *got;
    jit_var x = array(JIT_f32, a, N);
    jit_var e = jit_exp(jit_sub(x, jit_reduce(JIT_REDUCE_MAX, x)));
    jit_var y = jit_div(e, jit_reduce(JIT_REDUCE_ADD, e));
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < N; ++i)
        most = fmax(most, element_to_f64(JIT_f32, a[i]));
    for (size_t i = 0; i < N; ++i)
        sum += exp(element_to_f64(JIT_f32, a[i]) - most);
    got = support_read(y, N);
    for (size_t i = 0; i < N; ++i)
        cr_assert_float_eq(element_to_f64(JIT_f32, got[i]) * sum,
                           exp(element_to_f64(JIT_f32, a[i]) - most), 1e-4);
    free(got);
    jit_var rows =
        jit_block_reduce(JIT_REDUCE_MAX, jit_prefix_reduce(JIT_REDUCE_ADD, x, false, false), 100);
    cr_assert_eq(jit_size(rows), 30);
    got = support_read(rows, 30);
    double running = 0;
    for (size_t i = 0; i < 30; ++i) {
        double best = -INFINITY;
        for (size_t k = 0; k < 100; ++k) {
            running += element_to_f64(JIT_f32, a[i * 100 + k]);
            best = fmax(best, running);
        }
        cr_assert_float_eq(element_to_f64(JIT_f32, got[i]), best, 0.01);
    }
    free(got);
    free(a);
}

/* ---- the same bits ---- */

enum { REPEATED = 70001, RESULTS = 6 };

/* Sums of floats in several forms; `company`: other results in the same kernel. */
static void sums(uint64_t out[RESULTS], bool company) {
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f32, 0, REPEATED), *bits;
    jit_var x = array(JIT_f32, a, REPEATED), v[RESULTS + 2], c = jit_sin(x),
            h = jit_cast(c, JIT_f16);
    v[0] = jit_reduce(JIT_REDUCE_ADD, c);
    v[1] = jit_reduce(JIT_REDUCE_ADD, h);
    v[2] = jit_reduce(JIT_REDUCE_ADD, jit_cast(c, JIT_f64));
    v[3] = jit_block_reduce(JIT_REDUCE_ADD, c, 35000);
    v[4] = jit_prefix_reduce(JIT_REDUCE_ADD, c, false, false);
    v[5] = jit_reduce(JIT_REDUCE_MUL, jit_add(jit_mul(c, jit_f32(support_backend(), 1e-3f)),
                                              jit_f32(support_backend(), 1)));
    v[6] = jit_sqrt(x);
    v[7] = jit_reduce(JIT_REDUCE_MAX, jit_cast(x, JIT_i16));
    for (size_t i = 0; i < RESULTS + (company ? 2 : 0); ++i)
        if (company)
            ASSERT_OK(jit_schedule(v[i]));
        else
            ASSERT_OK(jit_var_eval(v[i]));
    ASSERT_OK(jit_eval());
    for (size_t i = 0; i < RESULTS; ++i) {
        bits = support_read(v[i], jit_size(v[i]));
        out[i] = 14695981039346656037u;
        for (size_t k = 0; k < jit_size(v[i]); ++k)
            out[i] = (out[i] ^ bits[k]) * 1099511628211u;
        free(bits);
    }
    free(a);
}

Test(combine, sums_have_the_same_bits_in_every_run) {
    uint64_t first[RESULTS], again[RESULTS];
    sums(first, false);
    for (int i = 0; i < 4; ++i) {
        if (i == 2) { /* and with one thread */
            support_shutdown();
            ASSERT_OK(jit_set_option("num_threads", "1"));
            support_init();
        }
        sums(again, i & 1);
        for (int k = 0; k < RESULTS; ++k)
            cr_assert_eq(first[k], again[k], "result %d of run %d", k, i);
    }
}

/* ---- where elements come from ---- */

/** Memory of others ends anywhere, and is aligned to its elements only. */
Test(combine, inputs_end_where_they_end) {
    static const size_t lengths[] = {2, 3, 15, 16, 17, 31, 63, 64, 65, 127, 1021, 4096};
    static const jit_dtype types[] = {JIT_u8, JIT_f16, JIT_i32, JIT_f64};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; ++i)
        for (size_t k = 0; k < sizeof types / sizeof *types; ++k)
            for (int at_start = 0; at_start < 2; ++at_start) {
                jit_dtype t = types[k];
                size_t n = lengths[i];
                uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, t, 0, n);
                jit_var x = support_guarded(t, a, n, at_start), v[3];
                ASSERT_VAR(x);
                v[0] = jit_reduce(JIT_REDUCE_ADD, x);
                v[1] = jit_block_reduce(JIT_REDUCE_ADD, x, 7);
                v[2] = jit_prefix_reduce(JIT_REDUCE_ADD, x, false, true);
                check_all(JIT_REDUCE_ADD, t, a, n, v[0], "reduce");
                check_blocks(JIT_REDUCE_ADD, t, a, n, 7, v[1]);
                check_prefix(JIT_REDUCE_ADD, t, a, n, false, true, v[2]);
                for (int q = 0; q < 3; ++q)
                    jit_unref(v[q]);
                jit_unref(x);
                free(a);
            }
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(support_guarded_alive(), 0);
}

Test(combine, elements_may_be_gathered_masked_or_counted) {
    jit_backend b = support_backend();
    enum { N = 999 };
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_i64, 0, N);
    jit_var x = array(JIT_i64, a, N), i = jit_counter(b, N);
    jit_var back = jit_gather(x, jit_sub(jit_u32(b, N - 1), i), 0);
    jit_var odd = jit_eq(jit_and(i, jit_u32(b, 1)), jit_u32(b, 1));
    int64_t zero = 0, all = 0, odds = 0;
    for (size_t k = 0; k < N; ++k) {
        all = (int64_t) ((uint64_t) all + a[k] * (N - 1 - k));
        odds = (int64_t) ((uint64_t) odds + (k & 1 ? a[k] : 0));
    }
    jit_var v[4];
    v[0] = jit_reduce(JIT_REDUCE_ADD, jit_mul(back, jit_cast(i, JIT_i64)));
    v[1] = jit_reduce(JIT_REDUCE_ADD, jit_select(odd, x, jit_literal(b, JIT_i64, &zero, 1)));
    v[2] = jit_reduce(JIT_REDUCE_ADD, i);
    v[3] = jit_reduce(JIT_REDUCE_ADD, support_literal(JIT_f32, 0x3dcccccd, N));
    evaluate(v, 4, 1);
    cr_assert_eq((int64_t) read_one(v[0]), all);
    cr_assert_eq((int64_t) read_one(v[1]), odds);
    cr_assert_eq(read_one(v[2]), N * (N - 1) / 2);
    cr_assert_float_eq(element_to_f64(JIT_f32, read_one(v[3])), 99.9, 0.001);
    free(a);
}

/* ---- beside loops ---- */

/** A loop that scatters has its kernel beside those of reductions of the same lanes. */
Test(combine, reductions_stand_beside_loops) {
    enum { N = 500, BINS = 10 };
    jit_backend b = support_backend();
    uint64_t *a = elements_of(ASCENDING, JIT_REDUCE_ADD, JIT_u32, 0, N);
    jit_var x = array(JIT_u32, a, N), v[4], state[2] = {x, support_literal(JIT_u32, 0, BINS)};
    jit_loop *loop = jit_loop_begin(2, state);
    ASSERT_OK(jit_loop_condition(loop, jit_gt(state[0], jit_u32(b, 3))));
    state[1] = jit_scatter_reduce(JIT_REDUCE_ADD, state[1], jit_u32(b, 1),
                                  jit_mod(state[0], jit_u32(b, BINS)), 0);
    state[0] = jit_shr(state[0], jit_u32(b, 1));
    ASSERT_OK(jit_loop_end(loop, 2, state));
    v[0] = jit_reduce(JIT_REDUCE_ADD, x);
    v[1] = jit_reduce(JIT_REDUCE_ADD, state[0]);
    v[2] = state[1];
    v[3] = jit_prefix_reduce(JIT_REDUCE_MAX, state[0], false, false);
    for (int i = 0; i < 4; ++i)
        ASSERT_OK(jit_schedule(v[i]));
    ASSERT_OK(jit_eval());
    uint64_t bins[BINS] = {0}, sum = 0, end = 0, most = 0, *got = support_read(v[3], N);
    for (size_t i = 0; i < N; ++i) {
        uint64_t y = a[i];
        for (; y > 3; y >>= 1)
            ++bins[y % BINS];
        sum += a[i];
        end += y;
        most = y > most ? y : most;
        cr_assert_eq(got[i], most);
    }
    free(got);
    cr_assert_eq(read_one(v[0]), sum);
    cr_assert_eq(read_one(v[1]), end);
    got = support_read(v[2], BINS);
    cr_assert_arr_eq(got, bins, sizeof bins);
    free(got);
    free(a);
}

/** Two branches that scatter, of which the second goes on with the values of the first. */
Test(combine, reductions_stand_beside_branches) {
    enum { N = 500, BINS = 10 };
    jit_backend b = support_backend();
    uint64_t *a = elements_of(ASCENDING, JIT_REDUCE_ADD, JIT_u32, 0, N);
    jit_var x = array(JIT_u32, a, N), v[4], state[2] = {x, support_literal(JIT_u32, 0, BINS)};
    jit_if *branch = jit_if_begin(jit_gt(x, jit_u32(b, 40)), 2, state);
    for (int i = 0; i < 2; ++i) {
        state[1] = jit_scatter_reduce(JIT_REDUCE_ADD, state[1], jit_u32(b, i ? 100 : 1),
                                      jit_mod(state[0], jit_u32(b, BINS)), 0);
        state[0] = jit_add(state[0], jit_u32(b, i ? 3 : 7));
        ASSERT_OK(i ? jit_if_end(branch, 2, state) : jit_if_else(branch, 2, state));
    }
    v[0] = jit_reduce(JIT_REDUCE_ADD, x);
    v[1] = jit_reduce(JIT_REDUCE_ADD, state[0]);
    v[2] = state[1];
    v[3] = jit_add(state[0], jit_reduce(JIT_REDUCE_MAX, state[0]));
    for (int i = 0; i < 4; ++i)
        ASSERT_OK(jit_schedule(v[i]));
    ASSERT_OK(jit_eval());
    uint64_t bins[BINS] = {0}, sum = 0, end = 0, *got;
    for (size_t i = 0; i < N; ++i) {
        bins[a[i] % BINS] += a[i] > 40 ? 1 : 100;
        sum += a[i];
        end += a[i] + (a[i] > 40 ? 7 : 3);
    }
    cr_assert_eq(read_one(v[0]), sum);
    cr_assert_eq(read_one(v[1]), end);
    got = support_read(v[2], BINS);
    cr_assert_arr_eq(got, bins, sizeof bins);
    free(got);
    got = support_read(v[3], N);
    cr_assert_eq(got[0], 3 + 96 + 7);
    free(got);
    free(a);
}
