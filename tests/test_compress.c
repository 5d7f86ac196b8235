/* test_compress.c: jit_compress() through the public interface; and what a sort is part of.  Layer:
 * tests. */
#include "combine_total.h"
#include <stdlib.h>
#include <string.h>

static void start_backend(void) {
    support_init();
}
TestSuite(compress, .init = start_backend, .fini = support_shutdown);

static const size_t sizes[] = {0, 1, 2, 31, 32, 33, 255, 1000, 16383, 16384, 16385, 70001};
enum { SIZES = sizeof sizes / sizeof *sizes };

static jit_var array(jit_dtype t, const uint64_t *bits, size_t n) {
    jit_var v = support_array(t, bits, n);
    ASSERT_VAR(v);
    return v;
}
static uint64_t launches(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s.launches;
}

/* ---- compress ---- */

typedef enum density { NONE, ALL, HALF, FEW, LAST, DENSITIES } density;

static uint64_t *mask_of(density d, size_t n) {
    uint64_t *mask = elements_of(SMALL, JIT_REDUCE_OR, JIT_u32, 0, n);
    uint64_t *spread = elements_of(SMALL, JIT_REDUCE_ADD, JIT_u32, 0, n);
    for (size_t i = 0; i < n; ++i)
        mask[i] = d == ALL || (d == HALF && spread[i] & 1) || (d == FEW && spread[i] % 500 == 3) ||
                  (d == LAST && i + 1 == n);
    free(spread);
    return mask;
}

static size_t check_indices(const uint64_t *got, const uint64_t *mask, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; ++i)
        if (mask[i]) {
            cr_assert_eq(got[count], i, "number %zu is %u, not %zu", count, (unsigned) got[count],
                         i);
            ++count;
        }
    return count;
}

Test(compress, gives_the_numbers_of_what_is_true) {
    for (int d = 0; d < DENSITIES; ++d)
        for (size_t i = 0; i < SIZES; ++i) {
            size_t n = sizes[i];
            uint64_t *mask = mask_of((density) d, n);
            jit_var m = array(JIT_bool, mask, n), v = jit_compress(m);
            ASSERT_VAR(v);
            cr_assert_eq(jit_type(v), JIT_u32);
            uint64_t *got = support_read(v, jit_size(v));
            cr_assert_eq(check_indices(got, mask, n), jit_size(v));
            jit_unref(v);
            jit_unref(m);
            free(got);
            free(mask);
        }
}

Test(compress, of_what_is_known) {
    jit_backend b = support_backend();
    jit_var yes = support_literal(JIT_bool, 1, 50), no = support_literal(JIT_bool, 0, 50), v;
    uint64_t before = launches();
    v = jit_compress(yes);
    cr_assert_eq(jit_size(v), 50);
    uint64_t *got = support_read(v, 50);
    cr_assert_eq(got[49], 49);
    free(got);
    v = jit_compress(no);
    ASSERT_VAR(v);
    cr_assert_eq(jit_size(v), 0);
    for (uint32_t k = 0; k < 2; ++k) {
        cr_assert_eq(launches() - before, k);
        v = jit_compress(
            jit_eq(jit_bitcast(array(JIT_u32, (uint64_t[]) {k}, 1), JIT_i32), jit_i32(b, 1)));
        ASSERT_VAR(v);
        cr_assert_eq(jit_size(v), k);
    }
}

/** One kernel computes the mask, writes the numbers, and counts. */
Test(compress, is_one_kernel_with_what_it_needs) {
    enum { N = 5000 };
    jit_backend b = support_backend();
    jit_var i = jit_counter(b, N), m = jit_eq(jit_mod(i, jit_u32(b, 10)), jit_u32(b, 3));
    uint64_t before = launches();
    jit_var v = jit_compress(m);
    cr_assert_eq(launches() - before, 1);
    cr_assert_eq(jit_size(v), N / 10);
    before = launches();
    jit_var sum = jit_reduce(JIT_REDUCE_ADD, v); /* it is an array like others */
    uint64_t *got = support_read(sum, 1);
    cr_assert_eq(*got, 3 * (N / 10) + 10 * (N / 10) * (N / 10 - 1) / 2);
    cr_assert_eq(launches() - before, 1);
    free(got);
}

Test(compress, padded_waits_for_nothing) {
    enum { N = 1000 };
    uint64_t *mask = mask_of(HALF, N), *got;
    jit_backend b = support_backend();
    jit_var m = array(JIT_bool, mask, N), indices, count;
    uint64_t before = launches();
    ASSERT_OK(jit_compress_padded(m, &indices, &count));
    cr_assert_eq(launches(), before);
    cr_assert_eq(jit_size(indices), N);
    cr_assert_eq(jit_size(count), 1);
    /* What uses them on the device, without anybody having read the count. */
    jit_var lane = jit_counter(b, N), valid = jit_lt(lane, count);
    jit_var sum = jit_reduce(JIT_REDUCE_ADD, jit_select(valid, indices, jit_u32(b, 0)));
    ASSERT_OK(jit_var_eval(sum));
    cr_assert_eq(launches() - before, 2);
    got = support_read(count, 1);
    size_t n = *got;
    free(got);
    got = support_read(indices, N);
    cr_assert_eq(check_indices(got, mask, N), n);
    free(got);
    uint64_t all = 0;
    for (size_t k = 0; k < N; ++k)
        all += mask[k] ? k : 0;
    got = support_read(sum, 1);
    cr_assert_eq(*got, all);
    free(got);
    free(mask);
}

/** The count alone, when nobody has the indices any more; and in the other order. */
Test(compress, either_result_may_be_wanted_alone) {
    uint64_t *mask = mask_of(HALF, 1000), *got;
    size_t trues = 0;
    for (size_t k = 0; k < 1000; ++k)
        trues += mask[k];
    for (int dropped = 0; dropped < 2; ++dropped) {
        jit_var m = array(JIT_bool, mask, 1000), v[2];
        ASSERT_OK(jit_compress_padded(m, &v[0], &v[1]));
        jit_unref(m);
        jit_unref(v[dropped]);
        got = support_read(v[!dropped], dropped ? 1000 : 1);
        cr_assert_eq(dropped ? check_indices(got, mask, 1000) : *got, trues);
        free(got);
        jit_unref(v[!dropped]);
    }
    free(mask);
}

Test(compress, refuses_what_is_no_mask) {
    jit_var x = array(JIT_u32, (uint64_t[]) {1, 2}, 2), a = 1, c = 1;
    cr_assert_eq(jit_compress(x), 0);
    cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH);
    jit_error_clear();
    cr_assert_eq(jit_compress(0), 0);
    cr_assert_eq(jit_error_status(), JIT_INVALID_HANDLE);
    jit_error_clear();
    cr_assert_eq(jit_compress_padded(x, &a, &c), JIT_TYPE_MISMATCH);
    cr_assert(a == 0 && c == 0);
    jit_error_clear();
    cr_assert_eq(jit_compress_padded(x, &a, NULL), JIT_INVALID_ARGUMENT);
    jit_error_clear();
    jit_unref(x);
}

/* ---- sort ---- */

/** What is sorted is computed first, and what comes of it is used. */
Test(compress, sorts_what_is_computed) {
    enum { N = 2000 };
    jit_backend b = support_backend();
    uint64_t *a = elements_of(SMALL, JIT_REDUCE_ADD, JIT_f32, 0, N), *got;
    jit_var x = array(JIT_f32, a, N), index, s = jit_sort(jit_abs(x), true, &index);
    jit_unref(s);
    uint64_t before = launches();
    jit_var most = jit_gather(x, jit_gather(index, jit_u32(b, 0), 0), 0); /* farthest from 0 */
    got = support_read(most, 1);
    cr_assert_eq(launches() - before, 3);
    for (size_t i = 0; i < N; ++i)
        cr_assert_leq(a[i] & 0x7fffffff, *got & 0x7fffffff);
    free(got);
    free(a);
}
