/* jit_sort(), on every backend. */
#include "sorted.h"
#include "support.h"

static void try_one(jit_dtype t, uint64_t n, input kind, bool descending, bool numbered) {
    size_t bytes = n * jitc_dtypes[t].bytes;
    void *from = malloc(bytes), *to = malloc(bytes);
    uint32_t *numbers = malloc(n * sizeof *numbers);
    sorted_fill(t, from, n, kind);
    jit_scope_push();
    jit_var index = 0, keys = jit_from_host(support_backend(), t, from, n);
    jit_var v = jit_sort(keys, descending, numbered ? &index : NULL);
    ASSERT_VAR(v);
    cr_assert_eq(jit_size(v), n);
    cr_assert_eq(jit_type(v), t);
    ASSERT_OK(jit_read(v, to));
    if (numbered)
        ASSERT_OK(jit_read(index, numbers));
    sorted_check(&(sorted) {t, descending, from, to, numbered ? numbers : NULL, n});
    jit_scope_pop(0, NULL);
    free(from);
    free(to);
    free(numbers);
}

Test(sort, every_type_and_order) {
    support_init();
    for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
        for (int variant = 0; variant < 4; ++variant) {
            try_one((jit_dtype) t, 1, RANDOM, variant & 1, variant & 2);
            try_one((jit_dtype) t, 33, EDGES, variant & 1, variant & 2);
            try_one((jit_dtype) t, 1000, variant & 1 ? EDGES : RANDOM, variant & 1, variant & 2);
        }
}

/* A GPU's block sorts 1536, 2304 or 4224 elements at once; more are in tiles of 4608, 8448 or 9216,
 * the last of which need not be full. */
Test(sort, about_what_a_block_sorts, .timeout = 120) {
    static const uint64_t sizes[] = {383,  384,  385,  1535, 1536, 1537, 2304, 2305,  4224,
                                     4225, 4608, 4609, 8448, 8449, 9216, 9217, 16897, 18433};
    support_init();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        for (int t = 0; t < JITC_DTYPE_COUNT; ++t)
            try_one((jit_dtype) t, sizes[i], (input) ((i + (size_t) t) % INPUTS), i & 1,
                    (i + (size_t) t) & 2);
}

/* Tiles of one value between others, also in but one of the bytes. */
Test(sort, many_of_one_value) {
    enum { N = 40000 };
    static uint32_t in[N], out[N], numbers[N];
    support_init();
    for (int bytes = 0; bytes < 16; ++bytes) {
        for (uint32_t i = 0; i < N; ++i) {
            in[i] = i < 1000 || i > 38000 ? i * 2654435761u : 0x01020304;
            for (int b = 0; b < 4; ++b) /* which bytes of the others differ */
                in[i] ^= bytes >> b & 1 && in[i] == 0x01020304 ? (i & 255) << 8 * b : 0;
        }
        for (int variant = 0; variant < 4; ++variant) {
            jit_scope_push();
            jit_var index = 0, keys = jit_from_host(support_backend(), JIT_u32, in, N);
            jit_var v = jit_sort(keys, variant & 1, variant & 2 ? &index : NULL);
            ASSERT_OK(jit_read(v, out));
            if (index)
                ASSERT_OK(jit_read(index, numbers));
            sorted_check(&(sorted) {JIT_u32, variant & 1, in, out, index ? numbers : NULL, N});
            jit_scope_pop(0, NULL);
        }
    }
}

Test(sort, every_input) {
    static const uint64_t sizes[] = {2, 31, 32, 255, 4609, 20000};
    support_init();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        for (int kind = 0; kind < INPUTS; ++kind)
            try_one(kind & 1 ? JIT_f32 : JIT_i16, sizes[i], (input) kind, i & 1, kind & 1);
}

/* What is sorted need not be in memory, and can be used in expressions. */
Test(sort, of_an_expression_and_in_one) {
    enum { N = 5000 };
    static float out[N];
    support_init();
    jit_scope_push();
    jit_backend b = support_backend();
    jit_var x =
        jit_cast(jit_mod(jit_mul(jit_counter(b, N), jit_u32(b, 7919)), jit_u32(b, N)), JIT_f32);
    jit_var y = jit_add(jit_sort(jit_sub(x, jit_f32(b, 10)), false, NULL), jit_f32(b, 10));
    ASSERT_OK(jit_read(y, out));
    for (int i = 0; i < N; ++i)
        cr_assert_eq(out[i], (float) i);
    jit_scope_pop(0, NULL);
}

/* Two sorts in one evaluation, of memory that somebody else holds too. */
Test(sort, what_was_sorted_stays_as_it_is) {
    enum { N = 3000 };
    static uint32_t in[N], up[N], down[N], again[N];
    support_init();
    jit_scope_push();
    sorted_fill(JIT_u32, in, N, RANDOM);
    jit_var keys = jit_from_host(support_backend(), JIT_u32, in, N);
    jit_var a = jit_sort(keys, false, NULL), d = jit_sort(keys, true, NULL);
    ASSERT_OK(jit_schedule(a));
    ASSERT_OK(jit_schedule(d));
    ASSERT_OK(jit_eval());
    ASSERT_OK(jit_read(a, up));
    ASSERT_OK(jit_read(d, down));
    ASSERT_OK(jit_read(keys, again));
    cr_assert_arr_eq(in, again, sizeof in);
    for (int i = 0; i < N; ++i)
        cr_assert_eq(up[i], down[N - 1 - i]);
    jit_scope_pop(0, NULL);
}

Test(sort, of_no_element_and_of_none) {
    support_init();
    jit_scope_push();
    jit_var index, v = jit_sort(jit_counter(support_backend(), 0), false, &index);
    ASSERT_VAR(v);
    ASSERT_VAR(index);
    cr_assert_eq(jit_size(v), 0);
    cr_assert_eq(jit_size(index), 0);
    ASSERT_OK(jit_var_eval(v));
    cr_assert_eq(jit_sort(0, false, &index), 0);
    cr_assert_eq(index, 0);
    jit_error_clear();
    jit_scope_pop(0, NULL);
}
