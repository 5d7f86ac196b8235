/* test_llvm.c: memory accesses, loops and the life of kernels on the CPU backend. */
#include "ir/program.h"
#include "llvm_run.h"
#include <criterion/criterion.h>
#include <string.h>

static const uint64_t sizes[] = {1,  2,  3,  7,  8,  9,   15,  16,   17,
                                 31, 33, 63, 64, 65, 127, 129, 1000, 16389};
enum { SIZES = sizeof sizes / sizeof *sizes };

/** Something that is different for every index and type. */
static uint64_t pattern(jit_dtype t, uint64_t i) {
    return t == JIT_bool ? (i * 7 / 3) & 1 : (i * 0x9e3779b97f4a7c15u + 12345) & jitc_bits_mask(t);
}

static void fill(jit_dtype t, void *array, uint64_t n) {
    for (uint64_t i = 0; i < n; i++)
        write_element(t, array, i, pattern(t, i));
}

/* The end of arrays. */

/** not (or minus) of an array whose end, plus `padding`, is the end of what may be touched. */
static void check_end(runner *r, jit_dtype t, uint64_t n, uint32_t flags, size_t padding) {
    size_t bytes = n * jitc_dtypes[t].bytes + padding;
    void *in = guarded_alloc(bytes), *out = guarded_alloc(bytes);
    uint64_t params[8];
    jitc_program p = {.head.flags = flags};
    bool is_real = jitc_dtypes[t].cls == JITC_FLOAT;
    jitc_op op = is_real ? JITC_OP_neg : JITC_OP_not;
    fill(t, in, n);
    add_store(&p, t, add(&p, op, t, add_data(&p, t, in, params), 0, 0), out, params);
    runner_run(r, &p, 0, n, params);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t operand[3] = {pattern(t, i), 0, 0}, want;
        jitc_fold(op, t, t, operand, &want);
        cr_assert_eq(read_element(t, out, i), want, "%s, element %lu of %lu", jitc_dtypes[t].name,
                     i, n);
    }
    jitc_program_finish(&p);
    guarded_free(in, bytes);
    guarded_free(out, bytes);
}

static void check_unpadded(runner *r) {
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int i = 0; i < SIZES - 1; i++)
            check_end(r, (jit_dtype) t, sizes[i], JITC_PROGRAM_TAIL, 0);
}
Test(llvm, masked_kernels_touch_nothing_behind_the_last_element) {
    runner_for_each_isa(check_unpadded);
}

static void check_padded(runner *r) {
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int i = 0; i < SIZES; i++)
            check_end(r, (jit_dtype) t, sizes[i], 0, JITC_PADDING);
}
Test(llvm, kernels_touch_nothing_behind_the_padding) {
    runner_for_each_isa(check_padded);
}

/** Stores past the caches want aligned memory, as all outputs are. */
static void check_streaming(runner *r) {
    enum { LANES = 197 };
    for (int t = 0; t < JITC_DTYPE_COUNT; t++) {
        size_t bytes = 256 * jitc_dtypes[t].bytes;
        void *in = aligned_alloc(256, bytes), *out = aligned_alloc(256, bytes);
        uint64_t params[8];
        jitc_program p = {.head.flags = JITC_PROGRAM_STREAM};
        fill((jit_dtype) t, in, LANES);
        add_store(&p, (jit_dtype) t, add_data(&p, (jit_dtype) t, in, params), out, params);
        for (int level = 0; level <= 2; level += 2) {
            memset(out, 0x55, bytes);
            runner_run(r, &p, level, LANES, params);
            cr_assert_arr_eq(out, in, LANES * jitc_dtypes[t].bytes, "%s", jitc_dtypes[t].name);
        }
        jitc_program_finish(&p);
        free(in);
        free(out);
    }
}
Test(llvm, elements_stored_past_the_caches_arrive) {
    runner_for_each_isa(check_streaming);
}

static void check_neighbours(runner *r) {
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int i = 0; i < SIZES - 1; i++) {
            uint8_t out[9000 + 64];
            uint64_t n = sizes[i], params[4];
            jitc_program p = {.head.flags = JITC_PROGRAM_TAIL};
            memset(out, 0xa5, sizeof out);
            uint64_t one = (jit_dtype) t == JIT_bool ? 1 : 0x5a & jitc_bits_mask((jit_dtype) t);
            add_store(&p, (jit_dtype) t, add_literal(&p, (jit_dtype) t, one, params), out, params);
            runner_run(r, &p, 0, n, params);
            cr_assert_eq(read_element((jit_dtype) t, out, n - 1), one);
            cr_assert_eq(out[n * jitc_dtypes[t].bytes], 0xa5, "%s, %lu", jitc_dtypes[t].name, n);
            jitc_program_finish(&p);
        }
}
Test(llvm, masked_kernels_write_nothing_behind_the_last_element) {
    runner_for_each_isa(check_neighbours);
}

/* Leaves. */

static void check_leaves(runner *r) {
    for (int i = 0; i < SIZES; i++) {
        uint64_t n = sizes[i], params[16], scalar = 5;
        uint32_t *narrow = calloc(n + 128, 4);
        uint64_t *wide = calloc(n + 128, 8);
        jitc_program p = {0};
        params[0] = (uintptr_t) &scalar;
        p.head.params = 1;
        uint32_t s = add_flagged(
            &p, (jitc_inst) {.op = JITC_OP_data, .type = JIT_u64, .flags = JITC_INST_SCALAR});
        uint32_t literal = add_literal(&p, JIT_u64, 7, params);
        uint32_t product = add_flagged(&p, (jitc_inst) {.op = JITC_OP_mul,
                                                        .type = JIT_u64,
                                                        .flags = JITC_INST_UNIFORM,
                                                        .a = s,
                                                        .b = literal});
        uint32_t c = add(&p, JITC_OP_counter, JIT_u64, 0, 0, 0);
        uint32_t sum = add(&p, JITC_OP_add, JIT_u64, product, c, 0);
        sum = add(&p, JITC_OP_add, JIT_u64, sum, literal, 0);
        sum = add(&p, JITC_OP_add, JIT_u64, sum, add_baked(&p, JIT_u64, 1000), 0);
        add_store(&p, JIT_u64, sum, wide, params);
        add_store(&p, JIT_u32, add(&p, JITC_OP_counter, JIT_u32, 0, 0, 0), narrow, params);
        for (int level = 0; level <= 2; level += 2) {
            runner_run(r, &p, level, n, params);
            for (uint64_t k = 0; k < n; k++) {
                cr_assert_eq(wide[k], 35 + k + 7 + 1000);
                cr_assert_eq(narrow[k], k);
            }
        }
        free(narrow);
        free(wide);
        jitc_program_finish(&p);
    }
}
Test(llvm, counters_scalars_literals_and_uniform_values) {
    runner_for_each_isa(check_leaves);
}

/* All numbers of vectors an iteration: programs of 5, 50 and 300 operations, short and long chains.
 */
static void check_lengths(runner *r) {
    static const int lengths[] = {5, 18, 19, 50, 90, 300};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++)
        for (int chain = 0; chain < 2; chain++) {
            uint64_t n = 1003, params[8];
            uint32_t *in = calloc(n + 128, 4), *out = calloc(n + 128, 4);
            fill(JIT_u32, in, n);
            jitc_program p = {.head.flags = chain ? JITC_PROGRAM_TAIL : 0};
            uint32_t x = add_data(&p, JIT_u32, in, params), v = x;
            uint32_t other = add_literal(&p, JIT_u32, 3, params);
            for (int i = 0; i < lengths[l]; i++)
                v = add(&p, i % 2 ? JITC_OP_xor : JITC_OP_mul, JIT_u32, v,
                        chain || i % 3 ? other : x, 0);
            add_store(&p, JIT_u32, v, out, params);
            for (int level = 0; level <= 2; level += 2) {
                memset(out, 0, n * 4);
                runner_run(r, &p, level, n, params);
                for (uint64_t k = 0; k < n; k++) {
                    uint32_t w = in[k];
                    for (int i = 0; i < lengths[l]; i++) {
                        uint32_t o = chain || i % 3 ? 3 : in[k];
                        w = i % 2 ? w ^ o : w * o;
                    }
                    cr_assert_eq(out[k], w, "length %d, level %d, element %lu", lengths[l], level,
                                 k);
                }
            }
            free(in);
            free(out);
            jitc_program_finish(&p);
        }
}
Test(llvm, programs_of_all_lengths) {
    runner_for_each_isa(check_lengths);
}

/** More literals than are loaded one by one, of all types. */
static void check_many_literals(runner *r) {
    enum { COUNT = 39, N = 70 };
    uint64_t params[2 * COUNT + 1], *out[COUNT];
    jitc_program p = {0};
    for (int i = 0; i < COUNT; i++) {
        jit_dtype t = (jit_dtype) (i % JITC_DTYPE_COUNT);
        out[i] = calloc(N + 128, 8);
        uint64_t garbage = ~jitc_bits_mask(t); /* above the literal's width */
        uint32_t v = add_literal(&p, t, pattern(t, (uint64_t) i) | garbage, params);
        add_store(&p, t, v, out[i], params);
    }
    for (int level = 0; level <= 2; level += 2) {
        runner_run(r, &p, level, N, params);
        for (int i = 0; i < COUNT; i++) {
            jit_dtype t = (jit_dtype) (i % JITC_DTYPE_COUNT);
            for (uint64_t k = 0; k < N; k++)
                cr_assert_eq(read_element(t, out[i], k), pattern(t, (uint64_t) i));
            memset(out[i], 0, N * 8);
        }
    }
    for (int i = 0; i < COUNT; i++)
        free(out[i]);
    jitc_program_finish(&p);
}
Test(llvm, programs_of_many_literals) {
    runner_for_each_isa(check_many_literals);
}

/* Gather and scatter. */

enum { TABLE = 50, LANES = 203 };

/** Indices of which some are negative, large or just out of range. */
static uint64_t index_at(jit_dtype t, uint64_t i) {
    static const int64_t odd[] = {0,    TABLE - 1, TABLE,     -1,        TABLE + 1,        127,
                                  -128, INT32_MIN, INT64_MIN, INT64_MAX, (int64_t) 1 << 32};
    uint64_t v = i % 3 ? i * 31 % (TABLE + 3) : (uint64_t) odd[i / 3 % (sizeof odd / sizeof *odd)];
    return v & jitc_bits_mask(t);
}
static bool in_range(jit_dtype t, uint64_t index) {
    (void) t; /* negative ones are large when read as unsigned, in any width above TABLE */
    return index < TABLE;
}

typedef struct indexed {
    jit_dtype type, index_type;
    void *table, *index, *mask, *values;
    size_t table_bytes;
} indexed;

static void indexed_init(indexed *x, jit_dtype type, jit_dtype index_type) {
    *x = (indexed) {.type = type, .index_type = index_type};
    x->table_bytes = TABLE * (size_t) jitc_dtypes[type].bytes;
    x->table = guarded_alloc(x->table_bytes);
    x->index = calloc(LANES + 128, 8);
    x->mask = calloc(LANES + 128, 1);
    x->values = calloc(LANES + 128, 8);
    fill(type, x->table, TABLE);
    for (uint64_t i = 0; i < LANES; i++) {
        write_element(index_type, x->index, i, index_at(index_type, i));
        write_element(JIT_bool, x->mask, i, i % 5 != 2);
    }
    memset((char *) x->index + LANES * jitc_dtypes[index_type].bytes, 0x11, 64); /* padding lanes */
    memset((char *) x->mask + LANES, 1, 64);
}
static void indexed_finish(indexed *x) {
    guarded_free(x->table, x->table_bytes);
    free(x->index);
    free(x->mask);
    free(x->values);
}

static void check_gather(runner *r, const indexed *x, bool masked, uint32_t flags, bool far,
                         int level) {
    uint64_t params[16];
    jitc_program p = {.head.flags = flags};
    uint32_t table = add_buffer(&p, x->type, x->table, TABLE, params);
    p.inst[table].flags |= far ? JITC_INST_FAR : 0;
    uint32_t index = add_data(&p, x->index_type, x->index, params);
    if (masked) {
        uint32_t mask = add_data(&p, JIT_bool, x->mask, params);
        index = add(&p, JITC_OP_masked, x->index_type, index, mask, 0);
    }
    add_store(&p, x->type, add(&p, JITC_OP_gather, x->type, table, index, 0), x->values, params);
    runner_run(r, &p, level, LANES, params);
    for (uint64_t i = 0; i < LANES; i++) {
        uint64_t at = index_at(x->index_type, i);
        bool active = in_range(x->index_type, at) && (!masked || i % 5 != 2);
        cr_assert_eq(read_element(x->type, x->values, i), active ? pattern(x->type, at) : 0,
                     "%s by %s, lane %lu, masked %d", jitc_dtypes[x->type].name,
                     jitc_dtypes[x->index_type].name, i, masked);
    }
    jitc_program_finish(&p);
}

static void for_each_index(runner *r, void (*check)(runner *, indexed *)) {
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int k = JIT_i8; k <= JIT_u64; k++) {
            indexed x;
            indexed_init(&x, (jit_dtype) t, (jit_dtype) k);
            check(r, &x);
            indexed_finish(&x);
        }
}

static void check_gathers_of(runner *r, indexed *x) {
    check_gather(r, x, false, 0, false, 0);
    check_gather(r, x, true, JITC_PROGRAM_TAIL, true, 0);
    check_gather(r, x, true, JITC_PROGRAM_WIDE, false, 2);
    check_gather(r, x, true, JITC_PROGRAM_TAIL, true, 2);
}
static void check_gathers(runner *r) {
    for_each_index(r, check_gathers_of);
}
Test(llvm, gather_of_every_type_by_every_index, .timeout = 300) {
    runner_for_each_isa(check_gathers);
}

/** The value that a lane writes tells the lane, as far as the type can. */
static void check_scatter(runner *r, indexed *x, bool masked, uint32_t flags, int level) {
    uint64_t params[16];
    jitc_program p = {.head.flags = flags};
    fill(x->type, x->table, TABLE);
    for (uint64_t i = 0; i < LANES + 64; i++)
        write_element(x->type, x->values, i, pattern(x->type, i + 1000));
    uint32_t table = add_buffer(&p, x->type, x->table, TABLE, params);
    uint32_t value = add_data(&p, x->type, x->values, params);
    uint32_t index = add_data(&p, x->index_type, x->index, params);
    if (masked) {
        uint32_t mask = add_data(&p, JIT_bool, x->mask, params);
        index = add(&p, JITC_OP_masked, x->index_type, index, mask, 0);
    }
    add(&p, JITC_OP_scatter, x->type, table, value, index);
    runner_run(r, &p, level, LANES, params);
    for (uint64_t at = 0; at < TABLE; at++) {
        uint64_t got = read_element(x->type, x->table, at);
        bool any = false, fits = false;
        for (uint64_t i = 0; i < LANES; i++)
            if (index_at(x->index_type, i) == at && (!masked || i % 5 != 2)) {
                any = true;
                fits |= got == pattern(x->type, i + 1000);
            }
        cr_assert(any ? fits : got == pattern(x->type, at), "%s by %s, element %lu",
                  jitc_dtypes[x->type].name, jitc_dtypes[x->index_type].name, at);
    }
    jitc_program_finish(&p);
}
static void check_scatters_of(runner *r, indexed *x) {
    check_scatter(r, x, false, 0, 0);
    check_scatter(r, x, true, JITC_PROGRAM_TAIL, 0);
    check_scatter(r, x, true, JITC_PROGRAM_WIDE, 2);
}
static void check_scatters(runner *r) {
    for_each_index(r, check_scatters_of);
}
Test(llvm, scatter_of_every_type_by_every_index, .timeout = 300) {
    runner_for_each_isa(check_scatters);
}

static void check_report(runner *r) {
    for (int k = JIT_i32; k <= JIT_u64; k++) {
        int32_t table[TABLE] = {0}, out[200];
        uint64_t params[16], index[200] = {0};
        jitc_bounds_report report = {0};
        jitc_program p = {.head.flags = JITC_PROGRAM_BOUNDS | JITC_PROGRAM_TAIL};
        bool is_signed = jitc_dtypes[k].cls == JITC_INT;
        uint64_t bad = is_signed ? (uint64_t) -3 : TABLE + 3;
        uint32_t t = add_buffer(&p, JIT_i32, table, TABLE, params);
        uint32_t i = add_data(&p, (jit_dtype) k, index, params);
        uint32_t g = add(&p, JITC_OP_gather, JIT_i32, t, i, 0);
        add_store(&p, JIT_i32, g, out, params);
        p.head.report = p.head.params++;
        params[p.head.report] = (uintptr_t) &report;
        runner_run(r, &p, 0, 83, params);
        cr_assert_eq(report.claimed, 0);
        write_element((jit_dtype) k, index, 85, bad & jitc_bits_mask((jit_dtype) k));
        runner_run(r, &p, 0, 85, params); /* the lane behind the last */
        cr_assert_eq(report.claimed, 0);
        runner_run(r, &p, 0, 86, params);
        cr_assert_eq(report.claimed, g + 1);
        cr_assert_eq(report.index, bad);
        cr_assert_eq(report.size, TABLE);
        write_element((jit_dtype) k, index, 2, 1000);
        runner_run(r, &p, 2, 86, params); /* the first one stays */
        cr_assert_eq(report.index, bad);
        jitc_program_finish(&p);
    }
}
Test(llvm, bounds_reports_tell_the_first_index_out_of_range) {
    runner_for_each_isa(check_report);
}

static void check_report_scatter(runner *r) {
    float table[TABLE] = {0};
    uint64_t params[16];
    jitc_bounds_report report = {0};
    jitc_program p = {.head.flags = JITC_PROGRAM_BOUNDS};
    uint32_t t = add_buffer(&p, JIT_f32, table, TABLE, params);
    uint32_t c = add(&p, JITC_OP_counter, JIT_u32, 0, 0, 0);
    uint32_t limit = add_literal(&p, JIT_u32, 60, params);
    uint32_t mask = add(&p, JITC_OP_lt, JIT_bool, c, limit, 0);
    uint32_t index = add(&p, JITC_OP_masked, JIT_u32, c, mask, 0);
    uint32_t v = add(&p, JITC_OP_cast, JIT_f32, c, 0, 0);
    uint32_t s = add(&p, JITC_OP_scatter, JIT_f32, t, v, index);
    p.head.report = p.head.params++;
    params[p.head.report] = (uintptr_t) &report;
    runner_run(r, &p, 0, TABLE, params);
    cr_assert_eq(report.claimed, 0);
    for (int i = 0; i < TABLE; i++)
        cr_assert_eq(table[i], (float) i);
    runner_run(r, &p, 0, 1000, params);
    cr_assert_eq(report.claimed, s + 1);
    cr_assert_eq(report.index, TABLE);
    params[0] = params[1] = 0; /* an empty array */
    report.claimed = 0;
    runner_run(r, &p, 0, 7, params);
    cr_assert_eq(report.index, 0);
    cr_assert_eq(report.size, 0);
    jitc_program_finish(&p);
}
Test(llvm, scatter_reports_active_lanes_only) {
    runner_for_each_isa(check_report_scatter);
}
