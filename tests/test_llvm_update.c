/* test_llvm_update.c: scatter_reduce on the CPU backend. */
#include "interpret.h"
#include "llvm_run.h"
#include "loops.h"
#include "reference.h"
#include <criterion/criterion.h>
#include <string.h>

static const int threads[] = {1, 2, 5};
enum { THREADS = 3, GUARD = 64 };

/** A backend with so many threads. */
static bool open_runner(runner *r, const char *isa, int count) {
    jitc_options o;
    jitc_options_init(&o);
    if (isa)
        strcpy(o.llvm_isa, isa);
    o.num_threads = count;
    if (jitc_llvm_backend_create(&o, &r->b) != JIT_OK) {
        jit_error_clear();
        return false;
    }
    cr_assert_eq(r->b->stream_create(r->b, 0, &r->s), JIT_OK);
    r->s->backend = r->b;
    return true;
}

typedef enum spread { RANDOM, EQUAL, SORTED, APART } spread;

/** A launch: `lanes` values into `size` elements. */
typedef struct updates {
    jit_dtype type;
    jit_reduce_op op;
    uint64_t lanes, size;
    spread spread;
    bool masked, part;
    bool index_computed, value_computed; /* they are no arrays */
    jit_dtype index_type;                /* JIT_bool: JIT_u32 */
    uint32_t flags;
    int level;
} updates;

/** Its arrays. */
typedef struct arrays {
    void *values, *old;
    uint32_t *index;
    void *typed_index; /* the same, in the type of the index */
    uint8_t *mask;
    char *elements; /* with GUARD bytes before and behind */
    jitc_bounds_report report;
} arrays;

static uint64_t random_bits(uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    return (i ^ i >> 29) * 0xbf58476d1ce4e5b9u >> 7;
}

/** A small number as a float, from a table: there are millions. */
static uint64_t number(jit_dtype t, int n, bool minus) {
    static uint64_t all[JITC_DTYPE_COUNT][100][2];
    if (!all[t][n][1])
        for (int m = 0; m < 2; m++)
            all[t][n][m] = reference_from_double(t, m ? -(double) n : (double) n);
    return all[t][n][minus];
}

/** Floats are such that sums and products are exact in any order. */
static uint64_t value_of(const updates *u, uint64_t i) {
    uint64_t bits = random_bits(i);
    bool minus = bits & 1;
    if (u->type == JIT_bool)
        return bits & 1;
    if (jitc_dtypes[u->type].cls != JITC_FLOAT)
        return (u->op == JIT_REDUCE_MUL ? bits | 1 : bits) & jitc_bits_mask(u->type);
    if (u->op == JIT_REDUCE_ADD)
        return bits / 2 % 64 ? number(u->type, 0, false) : number(u->type, 1, minus);
    return number(u->type, u->op == JIT_REDUCE_MUL ? 1 : (int) (bits / 64 % 100), minus);
}

static uint32_t index_of(const updates *u, uint64_t i) {
    uint64_t size = u->size ? u->size : 1;
    switch (u->spread) {
        case EQUAL: return (uint32_t) (size / 2);
        case SORTED: return (uint32_t) (i * size / u->lanes);
        case APART: return i % 3 ? (uint32_t) (random_bits(i) % size) : (uint32_t) random_bits(i);
        default: return (uint32_t) (random_bits(i) % size);
    }
}

static jit_dtype index_type(const updates *u) {
    return u->index_type ? u->index_type : JIT_u32;
}

static size_t width(const updates *u) {
    return jitc_dtypes[u->type].bytes;
}

static void arrays_init(arrays *a, const updates *u) {
    uint64_t room = u->lanes + JITC_PADDING;
    *a = (arrays) {.values = malloc(room * 8),
                   .old = calloc(room, 8),
                   .index = malloc(room * 4),
                   .typed_index = malloc(room * 8),
                   .mask = malloc(room),
                   .elements = malloc(u->size * width(u) + GUARD * 2)};
    for (uint64_t i = 0; i < room; i++) {
        write_element(u->type, a->values, i, value_of(u, i));
        a->index[i] = index_of(u, i);
        write_element(index_type(u), a->typed_index, i, a->index[i]);
        a->index[i] = (uint32_t) read_element(index_type(u), a->typed_index, i);
        a->mask[i] = random_bits(i * 3) % 4 != 0;
    }
    memset(a->elements, 0xa5, u->size * width(u) + GUARD * 2);
    for (uint64_t i = 0; i < u->size; i++)
        write_element(u->type, a->elements + GUARD, i, value_of(u, i + 12345));
}

static void arrays_finish(arrays *a) {
    free(a->values);
    free(a->old);
    free(a->index);
    free(a->typed_index);
    free(a->mask);
    free(a->elements);
}

/** The same, as no array. */
static uint32_t compute(jitc_program *p, jit_dtype t, uint32_t a) {
    jitc_op op = jitc_dtypes[t].cls == JITC_FLOAT ? JITC_OP_neg : JITC_OP_not;
    return add(p, op, t, add(p, op, t, a, 0, 0), 0, 0);
}

static void build(jitc_program *p, const updates *u, arrays *a, uint64_t *params) {
    p->head.flags = u->flags | JITC_PROGRAM_SCRATCH;
    p->head.params = JITC_SCRATCH_PARAMS;
    memset(params, 0, JITC_SCRATCH_PARAMS * 8);
    if (u->flags & JITC_PROGRAM_BOUNDS) {
        params[p->head.params] = (uintptr_t) &a->report;
        p->head.report = p->head.params++;
    }
    uint32_t value = add_data(p, u->type, a->values, params);
    jit_dtype type = index_type(u);
    uint32_t index = add_data(p, type, a->typed_index, params);
    uint32_t target = add_buffer(p, u->type, a->elements + GUARD, u->size, params);
    if (u->value_computed)
        value = compute(p, u->type, value);
    if (u->index_computed)
        index = compute(p, type, index);
    if (u->masked)
        index = add(p, JITC_OP_masked, type, index, add_data(p, JIT_bool, a->mask, params), 0);
    uint32_t old =
        add_flagged(p, (jitc_inst) {.op = JITC_OP_scatter_reduce,
                                    .type = (uint8_t) u->type,
                                    .aux = (uint8_t) (u->op | (u->part ? JITC_AUX_PART : 0)),
                                    .a = target,
                                    .b = value,
                                    .c = index});
    if (u->part)
        add_store(p, u->type, old, a->old, params);
}

static void check_elements(const updates *u, const arrays *got, const arrays *want) {
    for (uint64_t i = 0; i < u->size; i++) {
        uint64_t a = read_element(u->type, got->elements + GUARD, i);
        uint64_t b = read_element(u->type, want->elements + GUARD, i);
        bool same =
            a == b || (u->op == JIT_REDUCE_ADD && reference_same(JITC_OP_add, u->type, a, b));
        cr_assert(same, "%s %s, %lu lanes, spread %d, element %lu of %lu: %lx, not %lx",
                  jitc_dtypes[u->type].name, jitc_reduce_name(u->op), u->lanes, u->spread, i,
                  u->size, a, b);
    }
    size_t end = GUARD + u->size * width(u);
    cr_assert_arr_eq(got->elements, want->elements, GUARD);
    cr_assert_arr_eq(got->elements + end, want->elements + end, GUARD);
}

/** What is to come out; true if an index is out of range. */
static bool update_one_by_one(const updates *u, arrays *a) {
    bool is_bad = false;
    for (uint64_t i = 0; i < u->lanes; i++) {
        bool in_range = a->index[i] < u->size;
        if (u->masked && !a->mask[i])
            continue;
        is_bad |= !in_range;
        if (!in_range)
            continue;
        uint64_t at = a->index[i], out;
        const uint64_t in[3] = {read_element(u->type, a->elements + GUARD, at),
                                read_element(u->type, a->values, i), 0};
        cr_assert(jitc_fold(jitc_reduce_op(u->op), u->type, u->type, in, &out));
        write_element(u->type, a->elements + GUARD, at, out);
    }
    return is_bad;
}

static void check(runner *r, const updates *u) {
    arrays got, want;
    uint64_t params[32];
    arrays_init(&got, u);
    arrays_init(&want, u);
    jitc_program p = {0};
    build(&p, u, &got, params);
    runner_run(r, &p, u->level, u->lanes, params);
    bool is_bad = update_one_by_one(u, &want);
    check_elements(u, &got, &want);
    cr_assert_eq(got.report.claimed != 0, is_bad && u->flags & JITC_PROGRAM_BOUNDS);
    jitc_program_finish(&p);
    arrays_finish(&got);
    arrays_finish(&want);
}

/** Every operation on every type. */
static void for_each_operation(runner *r, updates u) {
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int o = 0; o < JITC_REDUCE_COUNT; o++) {
            u.type = (jit_dtype) t;
            u.op = (jit_reduce_op) o;
            if (!jitc_reduce_accepts(u.op, u.type))
                continue;
            u.masked = (t + o) % 2;
            u.spread = (spread) ((t + o / 2) % 4);
            check(r, &u);
        }
}

Test(llvm_update, every_operation_on_every_type_on_every_machine) {
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!open_runner(&r, runner_isas[i], 1))
            continue;
        for (int level = 0; level <= 2; level += 2)
            for_each_operation(
                &r,
                (updates) {.lanes = 203, .size = 50, .flags = JITC_PROGRAM_TAIL, .level = level});
        runner_finish(&r);
    }
}

/** Read from memory by vectors or by lanes, or computed; by vectors of which all lanes update
 * something, some or, in the last one, few; in 8 copies of the array, or in none. */
static void check_operands(runner *r, jit_dtype index, int how) {
    for (int s = RANDOM; s <= APART; s++) {
        updates u = {.type = (s + how / 2) % 2 ? JIT_f32 : JIT_u64,
                     .lanes = how & 8 ? 9001 : 203,
                     .size = index == JIT_u8 ? 200 : 50, /* more than an i8 can name */
                     .spread = (spread) s,
                     .masked = how & 4,
                     .part = how & 4 && !(how & 8),
                     .index_computed = how & 1,
                     .value_computed = how & 2,
                     .index_type = index,
                     .flags = s % 2 ? JITC_PROGRAM_TAIL : 0,
                     .level = 2};
        check(r, &u);
    }
}

Test(llvm_update, operands_from_memory_and_computed, .timeout = 120) {
    static const jit_dtype indices[] = {JIT_u8, JIT_i32, JIT_u32, JIT_i64};
    for (int i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        if (!open_runner(&r, runner_isas[i], 1))
            continue;
        for (int how = 0; how < 16; how++)
            check_operands(&r, indices[(how + how / 4 + i) % 4], how);
        runner_finish(&r);
    }
}

/* 9000 lanes are two groups. 12000 elements of any type are too many for tables. */
Test(llvm_update, every_operation_on_every_type_by_several_threads) {
    for (int i = 0; i < THREADS; i += 2) {
        runner r;
        cr_assert(open_runner(&r, NULL, threads[i]));
        for_each_operation(&r, (updates) {.lanes = 9000, .size = 99});
        if (i)
            for_each_operation(&r, (updates) {.lanes = 20000, .size = 12000});
        runner_finish(&r);
    }
}

/** Sizes at which the number of tables, or of their copies, changes; and none at all. */
Test(llvm_update, tables_of_all_sizes) {
    static const uint64_t sizes[] = {0, 1, 15, 256, 1000, 1023, 1025, 2000, 4100, 20000};
    for (int i = 0; i < THREADS; i++) {
        runner r;
        cr_assert(open_runner(&r, NULL, threads[i]));
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int how = k % 2; how <= APART; how += 2) {
                updates u = {.type = k % 2 ? JIT_u32 : JIT_f64,
                             .lanes = k % 3 ? 20011 : 8192,
                             .size = sizes[k],
                             .spread = (spread) how,
                             .level = k == 5 ? 2 : 0,
                             .flags = how == APART ? JITC_PROGRAM_BOUNDS : 0};
                check(&r, &u);
            }
        runner_finish(&r);
    }
}

/** What a sum leaves alone keeps all of its bits: a table of zeros would make +0 of -0. */
Test(llvm_update, elements_that_no_lane_names_keep_their_bits) {
    static const uint64_t special[] = {0x80000000, 0x7fc12345, 0x7f812345, 0};
    enum { LANES = 10000, SIZE = 40 };
    for (int i = 0; i < THREADS; i++) {
        runner r;
        jitc_program p = {0};
        uint64_t params[16] = {0};
        float *ones = malloc((LANES + JITC_PADDING) * 4);
        uint32_t elements[SIZE], *index = calloc(LANES + JITC_PADDING, 4);
        cr_assert(open_runner(&r, NULL, threads[i]));
        for (int k = 0; k < LANES; k++)
            ones[k] = k != 7;
        index[7] = 4; /* +0 to -0 */
        for (int k = 0; k < SIZE; k++)
            elements[k] = (uint32_t) special[k % 4];
        p.head.flags = JITC_PROGRAM_SCRATCH;
        p.head.params = JITC_SCRATCH_PARAMS;
        uint32_t value = add_data(&p, JIT_f32, ones, params);
        uint32_t at = add_data(&p, JIT_u32, index, params);
        uint32_t target = add_buffer(&p, JIT_f32, elements, SIZE, params);
        add(&p, JITC_OP_scatter_reduce, JIT_f32, target, value, at);
        runner_run(&r, &p, 0, LANES, params);
        cr_assert_eq(elements[0], 0x461c3c00); /* 9999 */
        for (int k = 1; k < SIZE; k++)
            cr_assert_eq(elements[k], k == 4 ? 0 : special[k % 4]);
        jitc_program_finish(&p);
        runner_finish(&r);
        free(ones);
        free(index);
    }
}

/* What was there before. */

static int compare_words(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;
    return x < y ? -1 : x > y;
}

/** With ones, the old values of one element are a row of numbers. */
static void check_old(runner *r, jit_dtype t, uint64_t lanes, uint64_t size, int level) {
    updates u = {.type = t, .op = JIT_REDUCE_ADD, .lanes = lanes, .size = size};
    u.masked = u.part = true;
    u.spread = APART;
    u.level = level;
    arrays a;
    uint64_t params[32], *seen = malloc(lanes * 8);
    arrays_init(&a, &u);
    for (uint64_t i = 0; i < lanes; i++)
        write_element(t, a.values, i, 1);
    memset(a.elements, 0, GUARD + size * width(&u));
    jitc_program p = {0};
    build(&p, &u, &a, params);
    runner_run(r, &p, level, lanes, params);
    for (uint64_t e = 0; e < size; e++) {
        uint64_t count = 0;
        for (uint64_t i = 0; i < lanes; i++)
            if (a.mask[i] && a.index[i] == e)
                seen[count++] = read_element(t, a.old, i);
        qsort(seen, count, 8, compare_words);
        for (uint64_t k = 0; k < count && (count < 128 || jitc_dtypes[t].bits > 16); k++)
            cr_assert_eq(seen[k], k, "element %lu", e);
        cr_assert_eq(read_element(t, a.elements + GUARD, e), count & jitc_bits_mask(t));
    }
    for (uint64_t i = 0; i < lanes; i++)
        if (!a.mask[i] || a.index[i] >= size)
            cr_assert_eq(read_element(t, a.old, i), 0);
    free(seen);
    jitc_program_finish(&p);
    arrays_finish(&a);
}

Test(llvm_update, old_values_are_those_of_some_order) {
    for (int i = 0; i < THREADS; i++) {
        runner r;
        cr_assert(open_runner(&r, threads[i] == 2 ? "x86-64" : NULL, threads[i]));
        for (int t = JIT_i8; t <= JIT_u64; t++)
            check_old(&r, (jit_dtype) t, 20000, t % 2 ? 300 : 1, t % 3 ? 0 : 2);
        runner_finish(&r);
    }
}

/** One launch after the other, so that all threads have come before the last. */
Test(llvm_update, no_lane_is_lost_where_threads_meet) {
    enum { LAUNCHES = 30 };
    runner r;
    jitc_program p = {0};
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    arrays a;
    uint64_t params[32], number = 0;
    updates u = {.type = JIT_u32, .lanes = 300000, .size = 1, .spread = EQUAL, .part = true};
    cr_assert(open_runner(&r, NULL, 5));
    arrays_init(&a, &u);
    for (uint64_t i = 0; i < u.lanes; i++)
        write_element(u.type, a.values, i, 1);
    write_element(u.type, a.elements, GUARD / 4, 0);
    build(&p, &u, &a, params);
    cr_assert_eq(r.b->lower(r.b, 0, &p, &source), JIT_OK);
    cr_assert_eq(r.b->compile(r.b, source, 0, &code), JIT_OK);
    cr_assert_eq(r.b->load(r.b, 0, &p, &code, &k), JIT_OK);
    jitc_launch_args args = {.lanes = u.lanes, .params = params, .count = p.head.params};
    for (int i = 0; i < LAUNCHES; i++)
        cr_assert_eq(r.b->launch(r.s, k, &args, &number), JIT_OK);
    cr_assert_eq(r.b->wait(r.s, number), JIT_OK);
    cr_assert_eq(read_element(u.type, a.elements, GUARD / 4), LAUNCHES * u.lanes);
    r.b->kernel_destroy(r.b, k);
    r.b->source_destroy(r.b, source);
    free(code.data);
    jitc_program_finish(&p);
    arrays_finish(&a);
    runner_finish(&r);
}

/* In loops. */

static void check_random(runner *r, uint64_t seed) {
    loop_arrays got, want;
    uint64_t params[256], lanes = seed == 104 ? 8200 : 130;
    loop_arrays_init(&got, lanes, seed);
    loop_arrays_init(&want, lanes, seed);
    for (int which = 0; which < 2; which++) {
        jitc_program p = {.head.flags = JITC_PROGRAM_SCRATCH, .head.params = JITC_SCRATCH_PARAMS};
        memset(params, 0, sizeof params);
        loop_program(&p, which ? &got : &want, seed, params);
        if (which)
            runner_run(r, &p, seed % 7 ? 0 : 2, lanes, params);
        else
            interpret(&p, lanes, params);
        jitc_program_finish(&p);
    }
    cr_assert_arr_eq(got.sums, want.sums, LOOP_SUMS * 4, "program %lu", seed);
    loop_arrays_finish(&got);
    loop_arrays_finish(&want);
}

Test(llvm_update, lanes_that_are_in_a_loop_update) {
    for (int i = 0; i < THREADS; i++) {
        runner r;
        cr_assert(open_runner(&r, NULL, threads[i]));
        for (uint64_t seed = 0; seed < 4; seed++)
            check_random(&r, 100 + seed + (uint64_t) i * 4);
        runner_finish(&r);
    }
}
