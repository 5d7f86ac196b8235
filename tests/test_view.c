/* test_view.c: what <jit/view.h> tells of a tensor, beside the same in 128 bits and by counting. */
#include "export/dlpack_abi.h"
#include "support.h"
#include <jit/view.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS = 4 };
__extension__ typedef __int128 wide;

static DLTensor tensor(int ndim, int64_t *shape, int64_t *strides, DLDataType type) {
    return (DLTensor) {.ndim = ndim, .shape = shape, .strides = strides, .dtype = type};
}

/* ---- Types ---- */

static const DLDataType types[] = {
#define DTYPE(tag, storage, bits, class, code, cuda, llvm) {code, bits, 1},
#include "ir/dtypes.def"
};
enum { TYPES = sizeof types / sizeof *types };

Test(view, every_type_of_ours_has_one_in_dlpack_and_no_other_has) {
    int found = 0;
    for (int code = 0; code < 256; ++code)
        for (int bits = 0; bits < 256; ++bits)
            for (int lanes = 0; lanes < 3; ++lanes) {
                DLDataType type = {(uint8_t) code, (uint8_t) bits, (uint16_t) lanes};
                int k = jit_view_type(type);
                found += k >= 0;
                if (k >= 0)
                    cr_assert(k < TYPES && memcmp(&type, &types[k], sizeof type) == 0);
            }
    cr_assert_eq(found, TYPES);
}

Test(view, the_way_back_gives_the_same_type) {
    for (int k = 0; k < TYPES; ++k) {
        DLDataType type = jit_view_dltype((jit_dtype) k);
        cr_assert(memcmp(&type, &types[k], sizeof type) == 0, "%s", jit_dtype_name((jit_dtype) k));
    }
    cr_assert_eq(jit_view_dltype((jit_dtype) TYPES).bits, 0);
    cr_assert_eq(jit_view_dltype((jit_dtype) -1).lanes, 0);
}

static void expect_text(DLDataType type, const char *text) {
    char got[32];
    int length = jit_view_type_text(type, got, sizeof got);
    cr_assert_str_eq(got, text);
    cr_assert_eq(length, (int) strlen(text));
}

Test(view, types_are_named_as_ours_are) {
    for (int k = 0; k < TYPES; ++k)
        expect_text(types[k], jit_dtype_name((jit_dtype) k));
}

Test(view, types_that_we_do_not_have_are_named_too) {
    static const struct {
        DLDataType type;
        const char *text;
    } rows[] = {{{kDLComplex, 32, 1}, "c32"},
                {{kDLComplex, 64, 1}, "c64"},
                {{kDLComplex, 128, 1}, "c128"},
                {{kDLOpaqueHandle, 64, 1}, "opaque64"},
                {{kDLBool, 1, 1}, "bool1"},
                {{kDLBool, 8, 2}, "boolx2"},
                {{kDLFloat8_e3m4, 8, 1}, "f8_e3m4"},
                {{kDLFloat8_e4m3, 8, 1}, "f8_e4m3"},
                {{kDLFloat8_e4m3b11fnuz, 8, 1}, "f8_e4m3b11fnuz"},
                {{kDLFloat8_e4m3fn, 8, 1}, "f8_e4m3fn"},
                {{kDLFloat8_e4m3fnuz, 8, 1}, "f8_e4m3fnuz"},
                {{kDLFloat8_e5m2, 8, 1}, "f8_e5m2"},
                {{kDLFloat8_e5m2fnuz, 8, 1}, "f8_e5m2fnuz"},
                {{kDLFloat8_e8m0fnu, 8, 1}, "f8_e8m0fnu"},
                {{kDLFloat6_e2m3fn, 6, 1}, "f6_e2m3fn"},
                {{kDLFloat6_e3m2fn, 6, 1}, "f6_e3m2fn"},
                {{kDLFloat4_e2m1fn, 4, 2}, "f4_e2m1fnx2"},
                {{kDLFloat, 32, 4}, "f32x4"},
                {{kDLFloat, 32, 0}, "f32x0"},
                {{kDLFloat8_e4m3b11fnuz, 255, UINT16_MAX}, "f255_e4m3b11fnuzx65535"},
                {{18, 16, 1}, "code18_16"},
                {{255, 255, UINT16_MAX}, "code255_255x65535"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        expect_text(rows[i].type, rows[i].text);
}

Test(view, a_name_is_cut_to_the_buffer) {
    char text[8] = "*******";
    cr_assert_eq(jit_view_type_text((DLDataType) {kDLFloat8_e4m3fn, 8, 1}, text, 4), 9);
    cr_assert_arr_eq(text, "f8_\0***", sizeof text);
    cr_assert_eq(jit_view_type_text((DLDataType) {kDLFloat, 32, 1}, NULL, 0), 3);
}

/* ---- Sizes ---- */

static const DLDataType f32 = {kDLFloat, 32, 1}, f64 = {kDLFloat, 64, 1};

static void expect_sizes(int ndim, int64_t *shape, DLDataType type, int64_t count, int64_t bytes) {
    DLTensor t = tensor(ndim, shape, NULL, type);
    cr_assert_eq(jit_view_count(&t), count, "%lld", (long long) jit_view_count(&t));
    cr_assert_eq(jit_view_bytes(&t), bytes, "%lld", (long long) jit_view_bytes(&t));
}

Test(view, elements_and_bytes_are_counted) {
    expect_sizes(0, NULL, f32, 1, 4);
    expect_sizes(1, (int64_t[]) {5}, f32, 5, 20);
    expect_sizes(3, (int64_t[]) {2, 3, 4}, f64, 24, 192);
    expect_sizes(2, (int64_t[]) {2, 0}, f32, 0, 0);
    expect_sizes(1, (int64_t[]) {3}, (DLDataType) {kDLFloat4_e2m1fn, 4, 1}, 3, 2);
    expect_sizes(1, (int64_t[]) {5}, (DLDataType) {kDLFloat6_e2m3fn, 6, 1}, 5, 4);
    expect_sizes(1, (int64_t[]) {8}, (DLDataType) {kDLFloat6_e2m3fn, 6, 1}, 8, 6);
    expect_sizes(1, (int64_t[]) {3}, (DLDataType) {kDLFloat, 32, 4}, 3, 48);
}

Test(view, sizes_that_cannot_be_are_told) {
    int64_t ones[JIT_VIEW_DIMS + 1];
    for (int i = 0; i <= JIT_VIEW_DIMS; ++i)
        ones[i] = 1;
    expect_sizes(JIT_VIEW_DIMS, ones, f32, 1, 4);
    expect_sizes(JIT_VIEW_DIMS + 1, ones, f32, -1, -1);
    expect_sizes(INT32_MAX, ones, f32, -1, -1);
    expect_sizes(-1, ones, f32, -1, -1);
    expect_sizes(INT32_MIN, ones, f32, -1, -1);
    expect_sizes(1, NULL, f32, -1, -1);
    expect_sizes(2, (int64_t[]) {0, -1}, f32, -1, -1);
    expect_sizes(2, (int64_t[]) {INT64_MIN, INT64_MIN}, f32, -1, -1);
    expect_sizes(2, (int64_t[]) {(int64_t) 1 << 32, (int64_t) 1 << 32}, f32, -1, -1);
    expect_sizes(1, (int64_t[]) {INT64_MAX}, f32, INT64_MAX, -1);
    expect_sizes(1, (int64_t[]) {INT64_MAX}, (DLDataType) {kDLUInt, 8, 1}, INT64_MAX, INT64_MAX);
    expect_sizes(1, (int64_t[]) {INT64_MAX}, (DLDataType) {kDLFloat4_e2m1fn, 4, 1}, INT64_MAX,
                 (int64_t) 1 << 62);
    expect_sizes(3, (int64_t[]) {INT64_MAX, INT64_MAX, 0}, f32, 0, 0); /* nothing all the same */
    expect_sizes(1, (int64_t[]) {3}, (DLDataType) {kDLFloat, 32, 0}, 3, -1);
    expect_sizes(1, (int64_t[]) {3}, (DLDataType) {kDLFloat, 0, 1}, 3, -1);
}

Test(view, an_element_has_whole_bytes_or_none) {
    static const struct {
        DLDataType type;
        int64_t bytes;
    } rows[] = {{{kDLFloat, 32, 1}, 4},        {{kDLBool, 8, 1}, 1},
                {{kDLComplex, 128, 1}, 16},    {{kDLFloat4_e2m1fn, 4, 2}, 1},
                {{kDLFloat4_e2m1fn, 4, 1}, 0}, {{kDLFloat6_e2m3fn, 6, 2}, 0},
                {{kDLFloat, 32, 0}, 0},        {{kDLInt, 248, 65535}, 2031585}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        DLTensor t = tensor(0, NULL, NULL, rows[i].type);
        cr_assert_eq(jit_view_element_bytes(&t), rows[i].bytes, "row %zu", i);
    }
}

/* ---- Strides ---- */

Test(view, compact_strides_run_row_by_row) {
    int64_t got[DIMS] = {7, 7, 7, 7};
    cr_assert(jit_view_compact_strides(3, (int64_t[]) {2, 3, 4}, got));
    cr_assert_arr_eq(got, ((int64_t[]) {12, 4, 1, 7}), sizeof got);
    cr_assert(jit_view_compact_strides(3, (int64_t[]) {2, 0, 4}, got));
    cr_assert_arr_eq(got, ((int64_t[]) {4, 4, 1, 7}), sizeof got);
    cr_assert(jit_view_compact_strides(0, NULL, got));
    cr_assert(jit_view_compact_strides(0, NULL, NULL));
    cr_assert_arr_eq(got, ((int64_t[]) {4, 4, 1, 7}), sizeof got);
}

Test(view, strides_that_cannot_be_are_told) {
    int64_t got[JIT_VIEW_DIMS + 2] = {0}, big = (int64_t) 1 << 32;
    cr_assert_not(jit_view_compact_strides(-1, got, got));
    cr_assert_not(jit_view_compact_strides(JIT_VIEW_DIMS + 1, got, got));
    cr_assert_not(jit_view_compact_strides(1, NULL, got));
    cr_assert_not(jit_view_compact_strides(2, (int64_t[]) {2, -1}, got));
    cr_assert_not(jit_view_compact_strides(1, (int64_t[]) {INT64_MIN}, got));
    cr_assert_not(jit_view_compact_strides(3, (int64_t[]) {1, big, big}, got));
    cr_assert_not(jit_view_compact_strides(2, (int64_t[]) {big, big}, got));
}

Test(view, contiguity_asks_only_for_strides_that_matter) {
    static const struct {
        int ndim;
        int64_t shape[DIMS], strides[DIMS];
        bool contiguous;
    } rows[] = {{0, {0}, {0}, true},
                {1, {5}, {1}, true},
                {1, {5}, {2}, false},
                {1, {5}, {-1}, false},
                {1, {5}, {0}, false},
                {1, {1}, {0}, true},
                {1, {1}, {INT64_MIN}, true},
                {2, {1, 77}, {1, 1}, true}, /* a tensor of PyTorch may say so */
                {2, {1, 77}, {999, 1}, true},
                {2, {77, 1}, {1, 999}, true},
                {2, {77, 1}, {999, 1}, false},
                {3, {2, 1, 3}, {3, INT64_MAX, 1}, true},
                {2, {2, 3}, {3, 1}, true},
                {2, {2, 3}, {1, 2}, false},
                {2, {2, 3}, {4, 1}, false},
                {4, {1, 8, 0, 128}, {0, 0, 0, 0}, true}, /* nothing lies anywhere */
                {2, {0, 3}, {INT64_MIN, INT64_MAX}, true},
                {2, {-1, 3}, {3, 1}, false},
                {2, {(int64_t) 1 << 62, 4}, {4, 1}, false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
        int64_t shape[DIMS], strides[DIMS];
        memcpy(shape, rows[i].shape, sizeof shape);
        memcpy(strides, rows[i].strides, sizeof strides);
        DLTensor t = tensor(rows[i].ndim, shape, strides, f32);
        cr_assert_eq(jit_view_is_contiguous(&t), rows[i].contiguous, "row %zu", i);
        t.strides = NULL;
        cr_assert_eq(jit_view_is_contiguous(&t), jit_view_count(&t) >= 0, "row %zu", i);
    }
}

/* ---- Addresses ---- */

static uint64_t seed = 1;
static uint64_t draw(uint64_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (seed >> 33) % below;
}

static uintptr_t at(const DLTensor *t, const int64_t *index) {
    return (uintptr_t) jit_view_at(t, index);
}

/* Goes to the next element in row-major order; false after the last one. */
static bool next(const DLTensor *t, int64_t *index) {
    for (int k = t->ndim - 1; k >= 0; --k) {
        if (++index[k] < t->shape[k])
            return true;
        index[k] = 0;
    }
    return false;
}

/* Visits each element, and finds the extent and the contiguity by that. */
static void compare_by_counting(const DLTensor *t) {
    int64_t index[DIMS] = {0}, size = jit_view_element_bytes(t), count = 0;
    uintptr_t first = (uintptr_t) t->data + t->byte_offset, low = UINTPTR_MAX, high = 0;
    uintptr_t lowest = 1, end = 2;
    bool compact = true;
    do {
        wide offset = 0;
        for (int k = 0; k < t->ndim; ++k)
            offset += (wide) index[k] * t->strides[k];
        uintptr_t address = (uintptr_t) (first + offset * size);
        cr_assert_eq(at(t, index), address);
        low = address < low ? address : low;
        high = address + (uintptr_t) size > high ? address + (uintptr_t) size : high;
        compact = compact && address == first + (uintptr_t) (count * size);
        ++count;
    } while (next(t, index));
    cr_assert_eq(count, jit_view_count(t));
    cr_assert(jit_view_extent(t, &lowest, &end));
    cr_assert(lowest == low && end == high);
    cr_assert_eq(jit_view_is_contiguous(t), compact);
}

Test(view, addresses_and_extents_of_all_kinds_of_strides) {
    int contiguous = 0;
    for (int round = 0; round < 4000; ++round) {
        int64_t shape[DIMS], strides[DIMS];
        DLTensor t = tensor((int) draw(DIMS + 1), shape, strides, types[draw(TYPES)]);
        for (int k = 0; k < t.ndim; ++k)
            shape[k] = (int64_t) draw(4) + 1;
        cr_assert(jit_view_compact_strides(t.ndim, shape, strides));
        for (int k = 0; k < t.ndim && round % 2; ++k)
            strides[k] = draw(2) ? strides[k] : (int64_t) draw(21) - 10;
        t.data = (void *) (uintptr_t) (4096 + draw(64));
        t.byte_offset = draw(100);
        compare_by_counting(&t);
        contiguous += jit_view_is_contiguous(&t);
    }
    cr_assert(contiguous > 2000 && contiguous < 4000, "%d", contiguous);
}

Test(view, missing_strides_are_compact) {
    int64_t shape[] = {2, 3, 4}, strides[3];
    DLTensor t = tensor(3, shape, NULL, f64), same = tensor(3, shape, strides, f64);
    cr_assert(jit_view_compact_strides(3, shape, strides));
    t.data = same.data = shape;
    int64_t index[3] = {0};
    do
        cr_assert(jit_view_at(&t, index) && jit_view_at(&t, index) == jit_view_at(&same, index));
    while (next(&t, index));
}

Test(view, an_index_outside_has_no_address) {
    int64_t shape[] = {2, 3}, strides[] = {3, 1};
    float data[6];
    DLTensor t = tensor(2, shape, strides, f32);
    t.data = data;
    cr_assert_eq(jit_view_at(&t, (int64_t[]) {1, 2}), &data[5]);
    static const int64_t outside[][2] = {{2, 0},         {0, 3},         {-1, 0},
                                         {0, -1},        {INT64_MAX, 0}, {0, INT64_MAX},
                                         {INT64_MIN, 0}, {0, INT64_MIN}, {1, 3}};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; ++i)
        for (int compact = 0; compact < 2; ++compact) {
            t.strides = compact ? NULL : strides;
            cr_assert_null(jit_view_at(&t, outside[i]), "row %zu", i);
        }
}

Test(view, what_has_no_element_has_no_address) {
    int64_t shape[] = {2, 0}, one[] = {1}, two[] = {2}, zero[] = {0, 0};
    float data = 0;
    DLTensor t = tensor(2, shape, NULL, f32);
    t.data = &data;
    cr_assert_null(jit_view_at(&t, zero));
    t = tensor(1, two, NULL, f32);
    cr_assert_null(jit_view_at(&t, one)); /* no data */
    t = tensor(1, one, NULL, f32);
    t.data = &data;
    cr_assert_eq(jit_view_at(&t, zero), &data);
    t.dtype = (DLDataType) {kDLFloat4_e2m1fn, 4, 1};
    cr_assert_null(jit_view_at(&t, zero)); /* not at an address */
    t = tensor(0, NULL, NULL, f32);
    t.data = &data;
    cr_assert_eq(jit_view_at(&t, NULL), &data);
}

Test(view, the_extent_of_what_is_empty_or_packed) {
    int64_t shape[] = {3, 0}, strides[] = {-7, INT64_MIN};
    uintptr_t lowest = 1, end = 2;
    DLTensor t = tensor(2, shape, strides, f32);
    cr_assert(jit_view_extent(&t, &lowest, &end));
    cr_assert(lowest == 0 && end == 0);
    t.data = (void *) (uintptr_t) 4096;
    t.byte_offset = 12;
    cr_assert(jit_view_extent(&t, &lowest, &end));
    cr_assert(lowest == 4108 && end == 4108);
    shape[1] = 1;
    strides[0] = 1;
    t.dtype = (DLDataType) {kDLFloat4_e2m1fn, 4, 1};
    cr_assert(jit_view_extent(&t, &lowest, &end));
    cr_assert(lowest == 4108 && end == 4110);
    strides[0] = 2;
    cr_assert_not(jit_view_extent(&t, &lowest, &end));
    t.data = NULL;
    t.dtype = f32;
    cr_assert_not(jit_view_extent(&t, &lowest, &end));
}

/* ---- Numbers that nobody should send ---- */

static int64_t draw_extreme(void) {
    static const int64_t values[] = {0,
                                     1,
                                     2,
                                     3,
                                     -1,
                                     -2,
                                     INT64_MAX,
                                     INT64_MIN,
                                     INT64_MAX / 2,
                                     INT32_MAX,
                                     INT32_MIN,
                                     INT64_C(1) << 32,
                                     INT64_C(1) << 61,
                                     -(INT64_C(1) << 61)};
    return values[draw(sizeof values / sizeof *values)];
}

static wide clamp(wide x) { /* far beyond all that fits, and products of it still count right */
    const wide most = (wide) 1 << 100;
    return x > most ? most : x < -most ? -most : x;
}

static bool fits(wide x) {
    return x >= INT64_MIN && x <= INT64_MAX;
}

/* Number of elements in 128 bits; -1 for a shape that cannot be. */
static int64_t count_wide(const DLTensor *t) {
    wide count = 1;
    bool empty = false;
    for (int k = 0; k < t->ndim; ++k) {
        if (t->shape[k] < 0)
            return -1;
        empty = empty || t->shape[k] == 0;
        count = count > INT64_MAX ? count : count * t->shape[k];
    }
    return empty ? 0 : count > INT64_MAX ? -1 : (int64_t) count;
}

static bool extent_wide(const DLTensor *t, uintptr_t *lowest, uintptr_t *end) {
    int64_t count = count_wide(t), size = t->dtype.bits * t->dtype.lanes / 8;
    wide low = 0, high = 0, first = (wide) (uintptr_t) t->data + t->byte_offset;
    for (int k = 0; k < t->ndim && count > 0; ++k)
        *(t->strides[k] < 0 ? &low : &high) += clamp((wide) (t->shape[k] - 1) * t->strides[k]);
    wide top = count > 0 ? first + (high + 1) * size : first;
    *lowest = (uintptr_t) (first + low * size);
    *end = (uintptr_t) top;
    return count >= 0 && (count == 0 || t->data) && fits(low * size) && fits(high * size) &&
           first <= UINT64_MAX && first + low * size >= 0 && top <= UINT64_MAX &&
           top - (first + low * size) <= INT64_MAX;
}

Test(view, extreme_numbers_are_answered_as_128_bits_would) {
    int good = 0;
    for (int round = 0; round < 200000; ++round) {
        int64_t shape[DIMS], strides[DIMS], index[DIMS];
        static const uintptr_t bases[] = {0, 64, 0x7fff00000000, UINTPTR_MAX - 3, UINTPTR_MAX};
        static const uint64_t offsets[] = {0, 16, UINT64_MAX, UINT64_C(1) << 63};
        DLTensor t = tensor((int) draw(DIMS + 1), shape, strides, types[draw(TYPES)]);
        for (int k = 0; k < t.ndim; ++k) {
            shape[k] = draw(3) ? (int64_t) draw(4) : draw_extreme();
            strides[k] = draw(2) ? (int64_t) draw(9) - 4 : draw_extreme();
            index[k] = draw(2) ? (int64_t) draw(4) : draw_extreme();
        }
        t.data = (void *) bases[draw(5)];
        t.byte_offset = offsets[draw(4)];
        uintptr_t lowest, end, want_lowest, want_end, address = at(&t, index);
        cr_assert_eq(jit_view_count(&t), count_wide(&t));
        bool want = extent_wide(&t, &want_lowest, &want_end);
        cr_assert_eq(jit_view_extent(&t, &lowest, &end), want, "round %d", round);
        if (want)
            cr_assert(lowest == want_lowest && end == want_end, "round %d", round);
        if (want && address)
            cr_assert(address >= lowest && address < end, "round %d", round);
        good += want && address;
    }
    cr_assert(good > 1000, "%d", good); /* not all of them were refused */
}

Test(view, hostile_dimensions_are_never_followed) {
    DLTensor t = tensor(-1, NULL, NULL, f32);
    uintptr_t lowest, end;
    static const int32_t ndims[] = {-1, INT32_MIN, JIT_VIEW_DIMS + 1, INT32_MAX, 1};
    for (size_t i = 0; i < sizeof ndims / sizeof *ndims; ++i) {
        t.ndim = ndims[i];
        t.data = &t;
        cr_assert_eq(jit_view_count(&t), -1);
        cr_assert_not(jit_view_is_contiguous(&t));
        cr_assert_null(jit_view_at(&t, NULL));
        cr_assert_not(jit_view_extent(&t, &lowest, &end));
    }
}

/* ---- Tensors of one's own ---- */

Test(view, own_memory_becomes_a_tensor) {
    double data[6] = {0, 1, 2, 3, 4, 5};
    int64_t shape[] = {2, 3}, strides[2] = {0};
    DLTensor t;
    memset(&t, 0xff, sizeof t);
    cr_assert(jit_view_init(&t, data, JIT_f64, 2, shape, strides));
    cr_assert(t.data == data && t.shape == shape && t.strides == strides && t.ndim == 2);
    cr_assert(t.device.device_type == kDLCPU && t.device.device_id == 0 && t.byte_offset == 0);
    cr_assert_eq(jit_view_type(t.dtype), JIT_f64);
    cr_assert(strides[0] == 3 && strides[1] == 1);
    cr_assert_eq(*(double *) jit_view_at(&t, (int64_t[]) {1, 1}), 4);
}

Test(view, a_tensor_that_cannot_be_is_not_made) {
    int64_t shape[] = {2, 3}, strides[2], huge[] = {INT64_MAX, 2}, none[] = {0, 3};
    float data[6];
    DLTensor t = tensor(42, NULL, NULL, f32), before = t;
    cr_assert_not(jit_view_init(&t, NULL, JIT_f32, 2, shape, strides));
    cr_assert_not(jit_view_init(&t, data, (jit_dtype) 99, 2, shape, strides));
    cr_assert_not(jit_view_init(&t, data, (jit_dtype) -1, 2, shape, strides));
    cr_assert_not(jit_view_init(&t, data, JIT_f32, -1, shape, strides));
    cr_assert_not(jit_view_init(&t, data, JIT_f32, 2, NULL, strides));
    cr_assert_not(jit_view_init(&t, data, JIT_f32, 2, huge, strides));
    cr_assert_not(jit_view_init(&t, data, JIT_f32, 1, huge, strides));
    cr_assert(memcmp(&t, &before, sizeof t) == 0);
    cr_assert(jit_view_init(&t, NULL, JIT_f32, 2, none, strides));
    cr_assert(jit_view_init(&t, data, JIT_f32, 0, NULL, NULL));
}
