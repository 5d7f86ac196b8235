/* test_memory_ops.c: gather, scatter, and arrays in memory of the caller. */
#include "ir/ir.h"
#include "support.h"
#include "values.h"
#include <stdlib.h>
#include <string.h>

#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

#define B support_backend()
TestSuite(gather, .init = support_init, .fini = support_shutdown);
TestSuite(scatter, .init = support_init, .fini = support_shutdown);
TestSuite(map, .init = support_init, .fini = support_shutdown);

static bool is_index_type(jit_dtype t) {
    return (jitc_dtypes[t].cls & JITC_DOMAIN_INTEGER) != 0;
}
/** An index as a number: -1 if it lies outside of `size` elements. */
static int64_t place(jit_dtype t, uint64_t bits, size_t size) {
    int width = jitc_dtypes[t].bits;
    bool negative = jitc_dtypes[t].cls == JITC_INT && bits >> (width - 1);
    return negative || bits >= size ? -1 : (int64_t) bits;
}

/** Indices into `size` elements: mostly inside, first and last, just outside, negative, huge. */
static values indices(jit_dtype t, size_t size, size_t count) {
    values v = {0};
    const uint64_t odd[] = {
        0,        size - 1, size,     size + 1,           ~(uint64_t) 0,     size / 2,
        0 - size, 1u << 31, 1u << 30, (uint64_t) 1 << 32, (uint64_t) 1 << 63};
    for (size_t i = 0; i < count; ++i) {
        uint64_t index = i * 2654435761u % size;
        if (i % 7 == 3)
            index = odd[i / 7 % (sizeof odd / sizeof *odd)];
        values_add(&v, index & jitc_bits_mask(t));
    }
    return v;
}
/** Values of a type that differ from lane to lane, none of them 0. */
static values numbered(jit_dtype t, size_t count, uint64_t start_at) {
    values v = {0};
    for (size_t i = 0; i < count; ++i) {
        uint64_t bits = (start_at + i) * 0x9e3779b97f4a7c15u >> 3 & jitc_bits_mask(t);
        values_add(&v, t == JIT_bool ? bits & 1 : bits | 1);
    }
    return v;
}
static values mask_values(size_t count) {
    values v = {0};
    for (size_t i = 0; i < count; ++i)
        values_add(&v, i % 3 != 1);
    return v;
}

/* Gather. */

/** `mask`: NULL for none. */
static void verify_gather(jit_var result, jit_dtype t, const values *source, jit_dtype index_type,
                          const values *index, const values *mask) {
    ASSERT_VAR(result);
    cr_assert_eq(jit_type(result), t);
    uint64_t *got = support_read(result, index->count);
    for (size_t i = 0; i < index->count; ++i) {
        int64_t from = place(index_type, index->bits[i], source->count);
        uint64_t want = from < 0 || (mask && !mask->bits[i]) ? 0 : source->bits[from];
        cr_assert_eq(got[i], want,
                     "%s by %s, lane %zu of %zu: index %#lx of %zu: want %#lx, got %#lx",
                     jitc_dtypes[t].name, jitc_dtypes[index_type].name, i, index->count,
                     index->bits[i], source->count, want, got[i]);
    }
    free(got);
}

static void check_gather(jit_dtype t, jit_dtype index_type, size_t size, size_t count) {
    values source = numbered(t, size, 1), index = indices(index_type, size, count);
    values mask = mask_values(count);
    jit_scope_push();
    jit_var s = support_array(t, source.bits, size);
    jit_var i = support_array(index_type, index.bits, count);
    jit_var m = support_array(JIT_bool, mask.bits, count);
    jit_var plain = jit_gather(s, i, 0), masked = jit_gather(s, i, m);
    jit_var guarded = jit_gather(support_guarded(t, source.bits, size, false), i, 0);
    jit_var guarded_front = jit_gather(support_guarded(t, source.bits, size, true),
                                       support_guarded(index_type, index.bits, count, false),
                                       support_guarded(JIT_bool, mask.bits, count, false));
    verify_gather(plain, t, &source, index_type, &index, NULL);
    verify_gather(masked, t, &source, index_type, &index, &mask);
    verify_gather(guarded, t, &source, index_type, &index, NULL);
    verify_gather(guarded_front, t, &source, index_type, &index, &mask);
    ASSERT_OK(jit_scope_pop(0, NULL));
    free(source.bits);
    free(index.bits);
    free(mask.bits);
}

Test(gather, all_types_by_all_types_of_index) {
    FOR_TYPES(t)
    FOR_TYPES(index_type)
    if (is_index_type(index_type))
        check_gather(t, index_type, 100, 333);
}

Test(gather, all_sizes) {
    static const size_t sizes[] = {1,  2,  3,  7,  8,  9,   15,           16,
                                   17, 31, 33, 64, 65, 129, 2 * 16384 + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        check_gather(JIT_f32, JIT_u32, 1000, sizes[i]);
        check_gather(JIT_f64, JIT_i64, sizes[i], 100);
        check_gather(JIT_u8, JIT_i32, sizes[i], sizes[i]);
    }
}

Test(gather, sources_that_are_not_in_memory) {
    const values index = indices(JIT_i32, 50, 200), source = numbered(JIT_u32, 50, 1);
    values doubled = {0}, constant = {0}, counted = {0};
    for (size_t i = 0; i < 50; ++i) {
        values_add(&doubled, source.bits[i] * 2 & 0xffffffff);
        values_add(&constant, 77);
        values_add(&counted, i);
    }
    jit_scope_push();
    jit_var i = support_array(JIT_i32, index.bits, index.count);
    jit_var s = support_array(JIT_u32, source.bits, source.count);
    verify_gather(jit_gather(jit_add(s, s), i, 0), JIT_u32, &doubled, JIT_i32, &index, NULL);
    verify_gather(jit_gather(support_literal(JIT_u32, 77, 50), i, 0), JIT_u32, &constant, JIT_i32,
                  &index, NULL);
    verify_gather(jit_gather(jit_counter(B, 50), i, 0), JIT_u32, &counted, JIT_i32, &index, NULL);
    ASSERT_OK(jit_scope_pop(0, NULL));
    free(doubled.bits), free(constant.bits), free(counted.bits);
    free(index.bits), free(source.bits);
}

Test(gather, literal_and_computed_indices_and_masks) {
    const values source = numbered(JIT_f32, 64, 1);
    values reversed = {0}, mask = {0};
    for (uint64_t i = 0; i < 64; ++i) {
        values_add(&reversed, 63 - i);
        values_add(&mask, i < 20);
    }
    jit_scope_push();
    jit_var s = support_array(JIT_f32, source.bits, 64), lane = jit_counter(B, 64);
    jit_var index = jit_sub(jit_u32(B, 63), lane);
    jit_var first = jit_lt(lane, jit_u32(B, 20));
    verify_gather(jit_gather(s, index, 0), JIT_f32, &source, JIT_u32, &reversed, NULL);
    verify_gather(jit_gather(s, index, first), JIT_f32, &source, JIT_u32, &reversed, &mask);
    verify_gather(jit_gather(s, index, jit_bool(B, true)), JIT_f32, &source, JIT_u32, &reversed,
                  NULL);
    for (uint64_t k = 0; k < 66; k += 13) {
        values one = {&k, 1};
        verify_gather(jit_gather(s, jit_u32(B, (uint32_t) k), 0), JIT_f32, &source, JIT_u32, &one,
                      NULL);
    }
    memset(mask.bits, 0, mask.count * sizeof *mask.bits);
    verify_gather(jit_gather(s, index, jit_bool(B, false)), JIT_f32, &source, JIT_u32, &reversed,
                  &mask);
    ASSERT_OK(jit_scope_pop(0, NULL));
    free(source.bits), free(reversed.bits), free(mask.bits);
}

Test(gather, a_gathered_index_may_gather_again) {
    uint64_t next[97], want[97];
    for (uint64_t i = 0; i < 97; ++i)
        next[i] = (i * 5 + 1) % 97;
    for (uint64_t i = 0; i < 97; ++i)
        want[i] = next[next[next[i]]];
    jit_scope_push();
    jit_var v = support_array(JIT_u32, next, 97);
    uint64_t *got = support_read(jit_gather(v, jit_gather(v, v, 0), 0), 97);
    cr_assert_arr_eq(got, want, sizeof want);
    free(got);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(gather, an_empty_source_gives_zeros) {
    const uint64_t index[] = {0, 1, 2};
    jit_scope_push();
    jit_var source = support_array(JIT_f32, index, 0);
    uint64_t *got = support_read(jit_gather(source, support_array(JIT_u32, index, 3), 0), 3);
    cr_assert(got[0] == 0 && got[1] == 0 && got[2] == 0);
    free(got);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(gather, bounds_check_reports_the_index_and_the_size) {
    const uint64_t source[] = {10, 11, 12}, index[] = {0, 2, 1, 4711};
    float read[4];
    ASSERT_OK(jit_set_option("bounds_check", "1"));
    jit_scope_push();
    jit_var s = support_array(JIT_f32, source, 3);
    jit_var bad = jit_gather(s, support_array(JIT_u32, index, 4), 0);
    cr_assert_eq(jit_read(bad, read), JIT_OUT_OF_BOUNDS);
    cr_assert(strstr(jit_error(), "4711") && strstr(jit_error(), "3") &&
                  strstr(jit_error(), "gather"),
              "%s", jit_error());
    jit_error_clear();
    free(support_read(jit_gather(s, support_array(JIT_u32, index, 3), 0), 3));
    cr_assert_eq(jit_error_status(), JIT_OK);
    ASSERT_OK(jit_scope_pop(0, NULL));
    ASSERT_OK(jit_set_option("bounds_check", "0"));
}

Test(gather, wrong_types_and_sizes_are_refused) {
    const uint64_t bits[] = {1, 1, 1};
    jit_scope_push();
    jit_var f = support_array(JIT_f32, bits, 3), u = support_array(JIT_u32, bits, 3);
    jit_var mask = support_array(JIT_bool, bits, 2);
    cr_assert_eq(jit_gather(f, f, 0), 0);
    cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH);
    jit_error_clear();
    cr_assert_eq(jit_gather(f, u, u), 0);
    cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH);
    jit_error_clear();
    cr_assert_eq(jit_gather(f, u, mask), 0);
    cr_assert_eq(jit_error_status(), JIT_SIZE_MISMATCH);
    jit_error_clear();
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* Scatter. */

/** The updated array. Indices inside must differ, so that the order does not matter. */
static values scattered(const values *target, const values *value, jit_dtype index_type,
                        const values *index, const values *mask) {
    values v = {0};
    for (size_t i = 0; i < target->count; ++i)
        values_add(&v, target->bits[i]);
    for (size_t i = 0; i < index->count; ++i) {
        int64_t to = place(index_type, index->bits[i], target->count);
        if (to >= 0 && (!mask || mask->bits[i]))
            v.bits[to] = value->bits[value->count == 1 ? 0 : i];
    }
    return v;
}
static void verify_array(jit_var v, const values *want, const char *what) {
    ASSERT_VAR(v);
    uint64_t *got = support_read(v, want->count);
    for (size_t i = 0; i < want->count; ++i)
        cr_assert_eq(got[i], want->bits[i], "%s of %s, element %zu of %zu: want %#lx, got %#lx",
                     what, jit_dtype_name(jit_type(v)), i, want->count, want->bits[i], got[i]);
    free(got);
}

/** A permutation of the places of `size` elements, with indices outside in between. */
static values distinct_indices(jit_dtype t, size_t size) {
    values v = {0};
    uint64_t outside[] = {size, size + 5, ~(uint64_t) 0, (uint64_t) 1 << 63};
    for (size_t i = 0; i < size; ++i) {
        values_add(&v, i * 37 % size);
        if (i % 5 == 2 && (outside[i % 4] & jitc_bits_mask(t)) >= size)
            values_add(&v, outside[i % 4] & jitc_bits_mask(t));
    }
    return v;
}

static void check_scatter(jit_dtype t, jit_dtype index_type, size_t size) {
    values target = numbered(t, size, 1), index = distinct_indices(index_type, size);
    values value = numbered(t, index.count, 1000), mask = mask_values(index.count);
    values one = {value.bits, 1};
    values plain = scattered(&target, &value, index_type, &index, NULL);
    values masked = scattered(&target, &value, index_type, &index, &mask);
    values constant = scattered(&target, &one, index_type, &index, &mask);
    jit_scope_push();
    jit_var a = support_array(t, target.bits, size),
            i = support_array(index_type, index.bits, index.count);
    jit_var v = support_array(t, value.bits, value.count);
    jit_var m = support_array(JIT_bool, mask.bits, mask.count);
    verify_array(jit_scatter(a, v, i, 0), &plain, "scatter");
    verify_array(jit_scatter(a, v, i, m), &masked, "masked scatter");
    verify_array(jit_scatter(a, support_literal(t, value.bits[0], 1), i, m), &constant,
                 "scatter of a literal");
    verify_array(jit_scatter(support_guarded(t, target.bits, size, false), v, i, m), &masked,
                 "scatter to mapped memory");
    verify_array(jit_scatter(a, support_guarded(t, value.bits, value.count, false),
                             support_guarded(index_type, index.bits, index.count, false),
                             support_guarded(JIT_bool, mask.bits, mask.count, false)),
                 &masked, "scatter from mapped memory");
    verify_array(a, &target, "target of a scatter");
    ASSERT_OK(jit_scope_pop(0, NULL));
    free(target.bits), free(index.bits), free(value.bits), free(mask.bits);
    free(plain.bits), free(masked.bits), free(constant.bits);
}

Test(scatter, all_types_by_all_types_of_index) {
    FOR_TYPES(t)
    FOR_TYPES(index_type)
    if (is_index_type(index_type))
        check_scatter(t, index_type, 101);
}

Test(scatter, all_sizes) {
    static const size_t sizes[] = {1,  2,  3,  7,  8,  9,   15,           16,
                                   17, 31, 33, 64, 65, 129, 2 * 16384 + 7};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        check_scatter(JIT_f32, JIT_u32, sizes[i]);
        check_scatter(JIT_i8, JIT_i64, sizes[i]);
    }
}

Test(scatter, one_of_several_lanes_wins) {
    enum { LANES = 5000, PLACES = 7 };
    jit_scope_push();
    jit_var lane = jit_counter(B, LANES);
    jit_var index = jit_mod(lane, jit_u32(B, PLACES));
    jit_var target = support_literal(JIT_u32, 0xffffffff, PLACES);
    uint64_t *got = support_read(jit_scatter(target, lane, index, 0), PLACES);
    for (uint64_t k = 0; k < PLACES; ++k)
        cr_assert(got[k] < LANES && got[k] % PLACES == k, "place %lu: %lu", k, got[k]);
    free(got);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(scatter, targets_that_are_not_in_memory) {
    uint64_t places[] = {4, 0, 2};
    jit_scope_push();
    jit_var index = support_array(JIT_u32, places, 3), seven = jit_u32(B, 7);
    jit_var counter = jit_counter(B, 5);
    jit_var sum = jit_add(counter, counter);
    verify_array(jit_scatter(counter, seven, index, 0), &(values) {(uint64_t[]) {7, 1, 7, 3, 7}, 5},
                 "scatter");
    verify_array(jit_scatter(sum, seven, index, 0), &(values) {(uint64_t[]) {7, 2, 7, 6, 7}, 5},
                 "scatter");
    verify_array(jit_scatter(support_literal(JIT_u32, 1, 5), seven, index, 0),
                 &(values) {(uint64_t[]) {7, 1, 7, 1, 7}, 5}, "scatter");
    verify_array(counter, &(values) {(uint64_t[]) {0, 1, 2, 3, 4}, 5}, "counter");
    verify_array(sum, &(values) {(uint64_t[]) {0, 2, 4, 6, 8}, 5}, "sum");
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* Reading the old and the new array in one evaluation: the old one must be read before it is
 * written. */
Test(scatter, keeps_the_order_of_reads_and_writes) {
    uint64_t old[100], places[100];
    values want_new = {0}, want_sum = {0}, want_last = {0};
    for (uint64_t i = 0; i < 100; ++i) {
        old[i] = 1000 + i;
        places[i] = 99 - i;
    }
    for (uint64_t i = 0; i < 100; ++i) {
        values_add(&want_new, old[99 - i]);
        values_add(&want_sum, old[i] + old[99 - i]);
        values_add(&want_last, i < 50 ? old[99 - i] : 5);
    }
    jit_scope_push();
    jit_var a = support_array(JIT_u32, old, 100), index = support_array(JIT_u32, places, 100);
    jit_var b = jit_scatter(a, a, index, 0); /* reversed, while it is read */
    jit_var sum = jit_add(a, b);
    jit_var upper = jit_ge(index, jit_u32(B, 50));
    jit_var c = jit_scatter(b, jit_u32(B, 5), index, upper);
    ASSERT_OK(jit_schedule(sum));
    ASSERT_OK(jit_schedule(b));
    ASSERT_OK(jit_schedule(c));
    ASSERT_OK(jit_eval());
    verify_array(sum, &want_sum, "sum");
    verify_array(b, &want_new, "b");
    verify_array(c, &want_last, "c");
    verify_array(a, &(values) {old, 100}, "a");
    ASSERT_OK(jit_scope_pop(0, NULL));
    free(want_new.bits), free(want_sum.bits), free(want_last.bits);
}

Test(scatter, writes_in_place_only_when_nobody_else_looks) {
    uint64_t bits[] = {1, 2, 3, 4};
    jit_var index = jit_u32(B, 1), value = jit_u32(B, 9);
    jit_var a = support_array(JIT_u32, bits, 4);
    void *before, *after;
    ASSERT_OK(jit_data(a, &before));
    jit_var b = jit_scatter(a, value, index, 0);
    jit_unref(a); /* b has the last reference */
    ASSERT_OK(jit_data(b, &after));
    cr_assert_eq(before, after);
    jit_var c = jit_scatter(b, jit_u32(B, 8), index, 0);
    ASSERT_OK(jit_data(c, &after));
    cr_assert_neq(before, after);
    verify_array(b, &(values) {(uint64_t[]) {1, 9, 3, 4}, 4}, "b");
    verify_array(c, &(values) {(uint64_t[]) {1, 8, 3, 4}, 4}, "c");
    jit_unref(b), jit_unref(c), jit_unref(index), jit_unref(value);
}

Test(scatter, bounds_check_reports_and_writes_nothing_outside) {
    uint64_t bits[] = {1, 2, 3}, places[] = {0, 99};
    uint32_t read[3];
    ASSERT_OK(jit_set_option("bounds_check", "1"));
    jit_scope_push();
    jit_var a = support_array(JIT_u32, bits, 3), index = support_array(JIT_u32, places, 2);
    cr_assert_eq(jit_read(jit_scatter(a, jit_u32(B, 9), index, 0), read), JIT_OUT_OF_BOUNDS);
    cr_assert(strstr(jit_error(), "99") && strstr(jit_error(), "scatter"), "%s", jit_error());
    jit_error_clear();
    ASSERT_OK(jit_scope_pop(0, NULL));
    ASSERT_OK(jit_set_option("bounds_check", "0"));
}

/* Memory of the caller. */

Test(map, arrays_may_begin_and_end_at_pages_that_cannot_be_touched) {
    support_need_host_memory();
    static const size_t sizes[] = {1,  2,  3,  5,  7,  8,  9,    15,   16,
                                   17, 31, 32, 33, 63, 65, 1023, 4097, 40001};
    FOR_TYPES(t)
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        for (int at_start = 0; at_start < 2; ++at_start) {
            values v = numbered(t, sizes[i], 1);
            jit_scope_push();
            jit_var a = support_guarded(t, v.bits, v.count, at_start);
            jit_var b = support_guarded(t, v.bits, v.count, !at_start);
            jit_var mask = jit_ne(jit_counter(B, sizes[i]), jit_u32(B, 0xffffffff));
            verify_array(jit_select(mask, a, b), &v, "copy");
            verify_array(a, &v, "mapped memory");
            ASSERT_OK(jit_scope_pop(0, NULL));
            free(v.bits);
        }
}

Test(map, elements_may_lie_at_any_multiple_of_their_size) {
    support_need_host_memory();
    FOR_TYPES(t)
    for (size_t offset = 1; offset < 20; offset += 3) {
        values v = numbered(t, 100 + offset, 1);
        size_t bytes = jit_dtype_size(t), n = 100;
        char *packed = support_pack(t, v.bits, v.count);
        jit_scope_push();
        jit_var a = jit_map(B, t, packed + offset * bytes, n, NULL, NULL);
        jit_var b = jit_map(B, t, packed + offset * bytes, n, NULL, NULL);
        ASSERT_VAR(a);
        ASSERT_VAR(b);
        values want = {v.bits + offset, n};
        jit_var odd = jit_eq(jit_and(jit_counter(B, n), jit_u32(B, 1)), jit_u32(B, 1));
        verify_array(jit_select(odd, a, b), &want, "misaligned memory");
        verify_array(jit_gather(a, jit_counter(B, n), 0), &want, "misaligned memory");
        ASSERT_OK(jit_scope_pop(0, NULL));
        ASSERT_OK(jit_sync_thread());
        free(packed);
        free(v.bits);
    }
}

static void count_release(void *context) {
    ++*(int *) context;
}

Test(map, release_is_called_once_after_the_last_use) {
    support_need_host_memory();
    float data[3] = {1, 2, 3}, read[3];
    int released = 0;
    jit_var a = jit_map(B, JIT_f32, data, 3, count_release, &released);
    jit_var b = jit_add(a, a);
    jit_unref(a);
    cr_assert_eq(released, 0);
    ASSERT_OK(jit_read(b, read));
    cr_assert(read[0] == 2 && read[1] == 4 && read[2] == 6);
    jit_unref(b);
    ASSERT_OK(jit_sync_all_devices());
    jit_shutdown();
    cr_assert_eq(released, 1);
    ASSERT_OK(jit_init(B));
    cr_assert_eq(jit_map(B, (jit_dtype) 99, data, 3, count_release, &released), 0);
    cr_assert_eq(released, 1, "released on failure");
    jit_error_clear();
}

Test(map, host_memory_is_refused_where_the_device_cannot_use_it) {
    float data[3] = {1, 2, 3};
    int released = 0;
    if (support_maps_host_memory())
        support_skip("this backend uses host memory");
    cr_assert_eq(jit_map(B, JIT_f32, data, 3, count_release, &released), 0);
    cr_assert_eq(jit_error_status(), JIT_UNSUPPORTED, "%s", jit_error());
    cr_assert(strstr(jit_error(), "jit_from_host()"), "%s", jit_error());
    cr_assert_eq(released, 0, "released on failure");
    jit_error_clear();
}
