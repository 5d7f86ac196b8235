/* fuzz_ops.c: random programs over all operations and types, run in several ways.
 *
 *   step    every operation is evaluated when it was recorded, by a kernel of its own
 *   whole   only some variables are evaluated, at the end or now and then; operands are given back
 *           at random times; the options differ from run to run
 *
 * Each element of a step is compared with jitc's folding of the same operation on the step's
 * operands; then everything that a whole run computes is compared, bit for bit, with the step.
 * usage: fuzz_ops [seconds [seed]]     0 seconds: one program, which needs a seed */
#include "error_bound.h"
#include "reference.h"
#include "support.h"
#include "values.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_STEPS = 64, LEAVES = 14, SAMPLES = 48, RUNS = 3, RESTART = 16 };

/* How a leaf is made. */
typedef enum leaf { LITERAL, COUNTER, COPIED, MAPPED, MAPPED_AT_START, LEAF_KINDS } leaf;

typedef struct step {
    jitc_op op; /* JITC_OP_data: a leaf */
    leaf kind;
    jit_dtype type;  /* of the result */
    int operand[4];  /* steps; -1: none */
    size_t size;     /* 1, or that of the program's arrays, or that of what is gathered from */
    bool bits_known; /* also those of a NaN */
    bool distinct;   /* indices without repetition */
    bool inside;     /* indices that lie inside of what they index */
    uint64_t *value; /* leaves: made with the program; others: by the stepwise run */
} step;

typedef struct program {
    uint64_t seed;
    step step[MAX_STEPS];
    int count;
    size_t size, source_size;
    bool inside;
} program;

static uint64_t state;

static uint64_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) ^ (state >> 11);
}
static size_t below(size_t n) {
    return (size_t) (next() % n);
}
static bool chance(unsigned percent) {
    return below(100) < percent;
}

static const program *running;

static void print_program(const program *p) {
    static const char *const kinds[] = {"literal", "counter", "copied", "mapped",
                                        "mapped at start"};
    for (int i = 0; i < p->count; ++i) {
        const step *s = &p->step[i];
        fprintf(stderr, "%3d: %zu %s %s", i, s->size, jit_dtype_name(s->type),
                s->op == JITC_OP_data ? kinds[s->kind] : jitc_ops[s->op].name);
        for (int k = 0; k < 4 && s->op != JITC_OP_data; ++k)
            if (s->operand[k] >= 0)
                fprintf(stderr, " %d", s->operand[k]);
        fputc('\n', stderr);
    }
}

__attribute__((format(printf, 1, 2))) _Noreturn static void stop(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "program %llu: ", (unsigned long long) running->seed);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    print_program(running);
    va_end(args);
    exit(1);
}

static jit_var must(jit_var v, const char *what) {
    if (!v)
        stop("%s: %s", what, jit_error());
    return v;
}
static void must_be_ok(jit_status status, const char *what) {
    if (status != JIT_OK)
        stop("%s: %s", what, jit_error());
}

/* ---- making a program ---- */

static bool is_index(jit_dtype t) {
    return (jitc_dtypes[t].cls & JITC_DOMAIN_INTEGER) != 0;
}

/* Mostly inside of what they index, and if they can be, one after the other around it, so that a
 * scatter stores at no place twice. */
static void fill_indices(const program *p, step *s) {
    uint64_t limit = jitc_bits_mask(s->type) >> (jitc_dtypes[s->type].cls == JITC_INT);
    size_t range = p->source_size <= limit ? p->source_size : (size_t) limit + 1;
    size_t first = below(range);
    s->inside = true;
    s->distinct = s->size <= range;
    for (size_t i = 0; i < s->size; ++i)
        s->value[i] = (first + i * (s->distinct ? 1 : 7919)) % range;
    if (p->inside)
        return;
    for (size_t i = below(16); i < s->size; i += 1 + below(32)) {
        if (s->distinct && limit - i < p->source_size)
            break;
        s->value[i] = s->distinct ? limit - i : next() & jitc_bits_mask(s->type);
        s->inside = false;
    }
}

static void fill_leaf(const program *p, step *s) {
    size_t count = s->size ? s->size : 1;
    s->value = calloc(count, sizeof *s->value);
    s->bits_known = true;
    if (s->kind == COUNTER) {
        s->type = JIT_u32;
        for (size_t i = 0; i < s->size; ++i)
            s->value[i] = i;
        s->distinct = true;
        s->inside = s->size <= p->source_size;
        return;
    }
    if (s->kind != LITERAL && s->size == p->size && is_index(s->type) && p->source_size &&
        chance(60)) {
        fill_indices(p, s);
        return;
    }
    values v = values_edges(s->type);
    values_add_random(&v, s->type, 64);
    size_t at = below(v.count), stride = 1 + below(v.count);
    for (size_t i = 0; i < count; ++i)
        s->value[i] = v.bits[(at + (s->kind == LITERAL ? 0 : i * stride + i / 5)) % v.count];
    free(v.bits);
}

/* A step with the type (-1: any) and a size that broadcasts to `size`; -1 if there is none. */
static int find(const program *p, int type, size_t size, bool (*good)(const step *)) {
    for (int tries = 0; tries < 60; ++tries) {
        /* Mostly recent ones, so that programs are deep. */
        int i = chance(50) && p->count > 8 ? p->count - 1 - (int) below(8)
                                           : (int) below((size_t) p->count);
        const step *s = &p->step[i];
        if ((type < 0 || (int) s->type == type) && (s->size == size || s->size == 1) &&
            (!good || good(s)))
            return i;
    }
    return -1;
}

static bool has_known_bits(const step *s) {
    return s->bits_known;
}
static bool has_index_type(const step *s) {
    return is_index(s->type);
}
static bool is_inside(const step *s) {
    return is_index(s->type) && s->inside;
}
static bool is_distinct(const step *s) {
    return is_index(s->type) && s->distinct;
}
static bool is_distinct_inside(const step *s) {
    return is_distinct(s) && s->inside;
}

static bool keeps_bits(jitc_op op) {
    return op == JITC_OP_neg || op == JITC_OP_abs || op == JITC_OP_select ||
           op == JITC_OP_copysign || op == JITC_OP_gather || op == JITC_OP_scatter;
}

static size_t size_of(const program *p, const step *s) {
    size_t size = 1;
    for (int k = 0; k < 3; ++k)
        if (s->operand[k] >= 0 && p->step[s->operand[k]].size != 1)
            size = p->step[s->operand[k]].size;
    return size;
}

static bool choose_cast(program *p, step *s) {
    int a = s->operand[0] = find(p, -1, chance(80) ? p->size : p->source_size, NULL);
    if (a < 0)
        return false;
    const step *from = &p->step[a];
    s->type = (jit_dtype) below(JITC_DTYPE_COUNT);
    s->size = from->size;
    if (s->op == JITC_OP_bitcast)
        return from->bits_known && jitc_dtypes[s->type].bytes == jitc_dtypes[from->type].bytes &&
               (s->type == JIT_bool) == (from->type == JIT_bool) && (s->bits_known = true);
    s->bits_known = jitc_dtypes[s->type].cls != JITC_FLOAT;
    return true;
}

static bool choose_memory(program *p, step *s) {
    bool scatter = s->op == JITC_OP_scatter;
    int target = find(p, -1, p->source_size, NULL);
    if (target < 0 || p->step[target].size != p->source_size)
        return false;
    s->type = p->step[target].type;
    int index = find(p, -1, p->size,
                     scatter     ? p->inside ? is_distinct_inside : is_distinct
                     : p->inside ? is_inside
                                 : has_index_type);
    if (index < 0 || (scatter && p->step[index].size != p->size))
        return false;
    int value = scatter ? find(p, (int) s->type, p->size, NULL) : target;
    int mask = chance(50) ? find(p, JIT_bool, p->size, NULL) : -1;
    if (value < 0)
        return false;
    if (scatter) {
        int all[4] = {target, value, index, mask};
        memcpy(s->operand, all, sizeof all);
        s->size = p->source_size;
        s->bits_known = p->step[target].bits_known && p->step[value].bits_known;
    } else {
        int all[4] = {target, index, mask, -1};
        memcpy(s->operand, all, sizeof all);
        s->size = p->step[index].size;
        if (mask >= 0 && p->step[mask].size != 1)
            s->size = p->step[mask].size;
        s->bits_known = p->step[target].bits_known;
    }
    return true;
}

static bool choose_elementwise(program *p, step *s) {
    jit_dtype t;
    do
        t = (jit_dtype) below(JITC_DTYPE_COUNT);
    while (!jitc_op_accepts(s->op, t));
    size_t size = chance(85) ? p->size : p->source_size;
    bool select = s->op == JITC_OP_select;
    bool known = true;
    for (int k = 0; k < jitc_ops[s->op].arity; ++k) {
        bool strict = s->op == JITC_OP_copysign && k == 1;
        int a = s->operand[k] =
            find(p, select && !k ? JIT_bool : (int) t, size, strict ? has_known_bits : NULL);
        if (a < 0)
            return false;
        known = known && p->step[a].bits_known;
    }
    s->type = jitc_op_type(s->op, t);
    s->size = size_of(p, s);
    s->bits_known = jitc_dtypes[s->type].cls != JITC_FLOAT || (keeps_bits(s->op) && known);
    return true;
}

/** What combines lanes, and loops, are what fuzz_programs.c is for. */
static bool is_of_one_lane(jitc_op op) {
    switch (jitc_ops[op].form) {
        case JITC_FORM_UNARY:
        case JITC_FORM_BINARY:
        case JITC_FORM_TERNARY:
        case JITC_FORM_SELECT:
        case JITC_FORM_CAST:
        case JITC_FORM_GATHER: return true;
        default: return op == JITC_OP_scatter;
    }
}

static bool choose(program *p, step *s) {
    do
        s->op = (jitc_op) below(JITC_OP_COUNT);
    while (!is_of_one_lane(s->op));
    if (chance(12))
        s->op = chance(60) ? JITC_OP_gather : JITC_OP_scatter;
    switch (jitc_ops[s->op].form) {
        case JITC_FORM_CAST: return choose_cast(p, s);
        case JITC_FORM_GATHER:
        case JITC_FORM_SCATTER: return choose_memory(p, s);
        default: return choose_elementwise(p, s);
    }
}

static size_t any_size(void) {
    static const size_t sizes[] = {0,  1,  2,   3,   7,   8,    9,    15,   16,    17,
                                   31, 32, 33,  63,  64,  65,   127,  128,  129,   1000,
                                   64, 65, 255, 256, 257, 1000, 4097, 5000, 16389, 49157};
    return sizes[below(sizeof sizes / sizeof *sizes)];
}

static void make_program(program *p, uint64_t seed) {
    *p = (program) {.seed = seed};
    running = p;
    state = seed * 0x9E3779B97F4A7C15u + 1;
    p->size = any_size();
    p->source_size = chance(30) ? p->size : any_size();
    p->inside = chance(40) && p->source_size;
    while (p->count < LEAVES) {
        step *s = &p->step[p->count];
        *s = (step) {
            .op = JITC_OP_data, .kind = (leaf) below(LEAF_KINDS), .operand = {-1, -1, -1, -1}};
        s->type =
            (jit_dtype) (p->count < JITC_DTYPE_COUNT ? p->count : (int) below(JITC_DTYPE_COUNT));
        s->size = chance(15) ? 1 : chance(70) ? p->size : p->source_size;
        fill_leaf(p, s);
        p->count++;
    }
    int steps = LEAVES + 1 + (int) below(MAX_STEPS - LEAVES);
    for (int tries = 0; tries < 2000 && p->count < steps; ++tries) {
        step *s = &p->step[p->count];
        *s = (step) {.operand = {-1, -1, -1, -1}};
        p->count += choose(p, s);
    }
}

/* ---- recording ---- */

static jit_var make_leaf(const step *s) {
    switch (s->kind) {
        case LITERAL: return support_literal(s->type, s->value[0], s->size);
        case COUNTER: return must(jit_counter(support_backend(), s->size), "counter");
        case COPIED: return support_array(s->type, s->value, s->size);
        default: return support_guarded(s->type, s->value, s->size, s->kind == MAPPED_AT_START);
    }
}

static jit_var record(const program *p, int i, const jit_var *var) {
    const step *s = &p->step[i];
    jit_var v[4] = {0};
    if (s->op == JITC_OP_data)
        return make_leaf(s);
    for (int k = 0; k < 4; ++k)
        if (s->operand[k] >= 0)
            v[k] = var[s->operand[k]];
    switch (jitc_ops[s->op].form) {
        case JITC_FORM_CAST:
            return must(s->op == JITC_OP_cast ? jit_cast(v[0], s->type)
                                              : jit_bitcast(v[0], s->type),
                        jitc_ops[s->op].name);
        case JITC_FORM_GATHER: return must(jit_gather(v[0], v[1], v[2]), "gather");
        case JITC_FORM_SCATTER: return must(jit_scatter(v[0], v[1], v[2], v[3]), "scatter");
        default: return must(support_apply(s->op, v), jitc_ops[s->op].name);
    }
}

static uint64_t *read_all(jit_var v, const step *s) {
    size_t size = jitc_dtypes[s->type].bytes;
    char *packed = malloc(s->size * size + 1);
    uint64_t *bits = calloc(s->size + 1, sizeof *bits);
    if (jit_size(v) != s->size || jit_type(v) != s->type)
        stop("%s: has %zu %s, not %zu %s", jitc_ops[s->op].name, jit_size(v),
             jit_dtype_name(jit_type(v)), s->size, jit_dtype_name(s->type));
    must_be_ok(jit_read(v, packed), "jit_read");
    for (size_t i = 0; i < s->size; ++i)
        memcpy(&bits[i], packed + i * size, size);
    free(packed);
    return bits;
}

/* ---- one operation, by folding ---- */

static uint64_t element(const step *s, size_t i) {
    return s->value[s->size == 1 ? 0 : i];
}

static bool index_of(const step *s, size_t i, size_t size, size_t *out) {
    unsigned unused = 64 - jitc_dtypes[s->type].bits;
    uint64_t bits = element(s, i);
    if (jitc_dtypes[s->type].cls == JITC_INT)
        bits = (uint64_t) ((int64_t) (bits << unused) >> unused);
    *out = bits;
    return bits < size;
}

static uint64_t expected(const program *p, const step *s, size_t i) {
    uint64_t in[3] = {0}, bits = 0;
    size_t at;
    if (s->op == JITC_OP_gather) {
        const step *mask = s->operand[2] >= 0 ? &p->step[s->operand[2]] : NULL;
        bool inside = index_of(&p->step[s->operand[1]], i, p->source_size, &at);
        return inside && (!mask || element(mask, i)) ? element(&p->step[s->operand[0]], at) : 0;
    }
    const step *first = &p->step[s->operand[0]];
    const step *last = &p->step[s->operand[jitc_ops[s->op].form == JITC_FORM_SELECT ? 1 : 0]];
    for (int k = 0; k < 3 && s->operand[k] >= 0; ++k)
        in[k] = element(&p->step[s->operand[k]], i);
    if (!jitc_fold(s->op, jitc_ops[s->op].form == JITC_FORM_SELECT ? last->type : first->type,
                   s->type, in, &bits))
        stop("%s is not folded", jitc_ops[s->op].name);
    return bits;
}

/* Integers in the order of the floats. */
static int64_t rank_of(jit_dtype t, uint64_t bits) {
    uint64_t sign = (uint64_t) 1 << (jitc_dtypes[t].bits - 1);
    return bits & sign ? -(int64_t) (bits & ~sign) : (int64_t) bits;
}

static bool same(const step *s, uint64_t a, uint64_t b, int64_t ulps) {
    if (a == b)
        return true;
    if (jitc_dtypes[s->type].cls != JITC_FLOAT)
        return false;
    if (reference_is_nan(s->type, a) || reference_is_nan(s->type, b))
        return !s->bits_known && reference_is_nan(s->type, a) && reference_is_nan(s->type, b);
    int64_t apart = rank_of(s->type, a) - rank_of(s->type, b);
    return ulps && apart >= -ulps && apart <= ulps;
}

/** How far a step may be from its folding, which may be 1 ULP from the true value itself. */
static int64_t ulps_of(const step *s) {
    return jitc_ops[s->op].props & JITC_INEXACT ? (int64_t) (error_bound(s->op, s->type) + 1) : 0;
}

static void verify_element(const program *p, int i, size_t lane) {
    const step *s = &p->step[i];
    uint64_t want = expected(p, s, lane);
    if (!same(s, want, s->value[lane], ulps_of(s)))
        stop(
            "step %d, %s to %s of %s, lane %zu of %zu: want %#llx, got %#llx; operands %#llx %#llx",
            i, jitc_ops[s->op].name, jit_dtype_name(s->type),
            jit_dtype_name(p->step[s->operand[0]].type), lane, s->size, (unsigned long long) want,
            (unsigned long long) s->value[lane],
            (unsigned long long) (s->op == JITC_OP_gather ? 0
                                                          : element(&p->step[s->operand[0]], lane)),
            (unsigned long long) (s->operand[1] < 0 ? 0 : element(&p->step[s->operand[1]], lane)));
}

static void verify_scatter(const program *p, int i) {
    const step *s = &p->step[i], *index = &p->step[s->operand[2]];
    uint64_t *want = calloc(s->size + 1, sizeof *want);
    for (size_t k = 0; k < s->size; ++k)
        want[k] = element(&p->step[s->operand[0]], k);
    for (size_t k = 0, at; k < index->size; ++k)
        if (index_of(index, k, s->size, &at) &&
            (s->operand[3] < 0 || element(&p->step[s->operand[3]], k)))
            want[at] = element(&p->step[s->operand[1]], k);
    for (size_t k = 0; k < s->size; ++k)
        if (!same(s, want[k], s->value[k], 0))
            stop("step %d, scatter of %s, element %zu of %zu: want %#llx, got %#llx", i,
                 jit_dtype_name(s->type), k, s->size, (unsigned long long) want[k],
                 (unsigned long long) s->value[k]);
    free(want);
}

static void verify(const program *p, int i) {
    const step *s = &p->step[i];
    if (s->op == JITC_OP_scatter) {
        verify_scatter(p, i);
        return;
    }
    if (s->size <= 2 * SAMPLES) {
        for (size_t lane = 0; lane < s->size; ++lane)
            verify_element(p, i, lane);
        return;
    }
    for (int k = 0; k < SAMPLES; ++k) {
        verify_element(p, i, below(s->size));
        verify_element(p, i, s->size - 1 - (size_t) k);
    }
}

/* ---- runs ---- */

static void set(const char *name, const char *value) {
    must_be_ok(jit_set_option(name, value), name);
}

static void set_options(const program *p) {
    static const char *const cuts[] = {"2", "3", "7", "20", "1000", "1000"};
    static const char *const levels[] = {"0", "2", "-1", "0"};
    set("kernel_ops", cuts[below(6)]);
    set("llvm_level", levels[below(4)]);
    set("bounds_check", p->inside && chance(50) ? "on" : "off");
}

static void run_steps(program *p) {
    jit_var var[MAX_STEPS];
    for (int i = 0; i < p->count; ++i) {
        var[i] = record(p, i, var);
        must_be_ok(jit_var_eval(var[i]), "jit_var_eval");
        if (p->step[i].op == JITC_OP_data)
            continue;
        p->step[i].value = read_all(var[i], &p->step[i]);
        verify(p, i);
    }
    for (int i = 0; i < p->count; ++i)
        jit_unref(var[i]);
}

static void check_output(const program *p, int i, jit_var v) {
    uint64_t *got = read_all(v, &p->step[i]);
    for (size_t lane = 0; lane < p->step[i].size; ++lane)
        if (!same(&p->step[i], p->step[i].value[lane], got[lane], 0))
            stop("step %d, %s to %s, lane %zu of %zu: alone %#llx, in a program %#llx", i,
                 jitc_ops[p->step[i].op].name, jit_dtype_name(p->step[i].type), lane,
                 p->step[i].size, (unsigned long long) p->step[i].value[lane],
                 (unsigned long long) got[lane]);
    free(got);
}

static void run_whole(const program *p) {
    jit_var var[MAX_STEPS];
    bool kept[MAX_STEPS];
    unsigned keep = chance(50) ? 15 : 60, now = chance(50) ? 0 : 10;
    for (int i = 0; i < p->count; ++i) {
        var[i] = record(p, i, var);
        kept[i] = i == p->count - 1 || chance(keep);
        if (kept[i])
            must_be_ok(jit_schedule(var[i]), "jit_schedule");
        if (chance(now))
            must_be_ok(chance(50) ? jit_eval() : jit_var_eval(var[i]), "jit_eval");
    }
    for (int i = 0; i < p->count; ++i)
        if (!kept[i])
            jit_unref(var[i]);
    if (chance(80))
        must_be_ok(jit_eval(), "jit_eval");
    for (int i = p->count - 1; i >= 0; --i)
        if (kept[i]) {
            check_output(p, i, var[i]);
            jit_unref(var[i]);
        }
    must_be_ok(jit_eval(), "jit_eval"); /* literals may be on the list still */
}

static void run_program(uint64_t seed) {
    program p;
    make_program(&p, seed);
    set_options(&p);
    run_steps(&p);
    for (int run = 0; run < RUNS; ++run) {
        set_options(&p);
        run_whole(&p);
    }
    for (int i = 0; i < p.count; ++i)
        free(p.step[i].value);
    jit_stats stats;
    must_be_ok(jit_sync_all_devices(), "jit_sync_all_devices");
    must_be_ok(jit_get_stats(&stats), "jit_get_stats");
    if (stats.variables || stats.bytes_live || support_guarded_alive())
        stop("%llu variables, %zu bytes and %d mappings are left",
             (unsigned long long) stats.variables, stats.bytes_live, support_guarded_alive());
}

/* What is read only when the runtime starts. x86-64-v4 may not be there; "" is the best there is.
 */
static void start(uint64_t seed) {
    static const char *const isas[] = {"", "x86-64", "x86-64-v3", "x86-64-v2"};
    char threads[] = {(char) ('1' + seed / RESTART % 8), 0};
    set("num_threads", threads);
    set("llvm_isa", isas[seed / RESTART % 4]);
    set("cuda_graphs", seed / RESTART % 3 ? "1" : "0");
    must_be_ok(jit_init(support_backend()), "jit_init");
}

int main(int argc, char **argv) {
    time_t seconds = argc > 1 ? atoi(argv[1]) : 10, end = time(NULL) + seconds;
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, seed = first;
    program none = {0};
    running = &none;
    do {
        start(seed);
        do
            run_program(seed++);
        while (time(NULL) < end && seed % RESTART);
        support_shutdown();
    } while (time(NULL) < end);
    printf("%llu programs, from %llu on: every result is the same in every way\n",
           (unsigned long long) (seed - first), (unsigned long long) first);
    return 0;
}
