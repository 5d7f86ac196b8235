/* test_ops.c: every elementwise operation through the public interface, for every type, with each
 * operand evaluated, literal or broadcast, against reference.c. */
#include "error_bound.h"
#include "reference.h"
#include "support.h"
#include "values.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

enum {
    BATCH = 16 /* results that are evaluated in one kernel */
};

/** Elements, so that several threads have something to do, or a GPU several blocks. */
static size_t several_blocks(void) {
    return support_simulated() ? 4096 + 7 : 2 * 16384 + 7;
}

TestSuite(ops, .init = support_init, .fini = support_shutdown);
TestSuite(casts, .init = support_init, .fini = support_shutdown);

/** How the operands of a trial are given. */
typedef enum layout { ARRAY, LITERAL, SCALAR, GUARDED } layout;
static const char *const layout_names[] = {"array", "literal", "scalar", "guarded"};

/** One call of an operation. An operand has one element that stands for all, or as many as the
 * result. */
typedef struct trial {
    jitc_op op;
    jit_dtype type;
    size_t size;
    const uint64_t *bits[3];
    layout layout[3];
    jit_var result;
} trial;

static int arity(const trial *r) {
    return jitc_ops[r->op].arity;
}
static jit_dtype operand_type(const trial *r, int k) {
    return jitc_ops[r->op].form == JITC_FORM_SELECT && k == 0 ? JIT_bool : r->type;
}
static uint64_t element(const trial *r, int k, size_t i) {
    if (k >= arity(r))
        return 0;
    return r->layout[k] == LITERAL || r->layout[k] == SCALAR ? r->bits[k][0] : r->bits[k][i];
}

/** Record the operation. */
static void record(trial *r) {
    jit_var v[3] = {0, 0, 0};
    for (int k = 0; k < arity(r); ++k)
        switch (r->layout[k]) {
            case ARRAY: v[k] = support_array(operand_type(r, k), r->bits[k], r->size); break;
            case LITERAL: v[k] = support_literal(operand_type(r, k), r->bits[k][0], 1); break;
            case SCALAR: v[k] = support_array(operand_type(r, k), r->bits[k], 1); break;
            case GUARDED:
                v[k] = support_guarded(operand_type(r, k), r->bits[k], r->size, false);
                break;
        }
    r->result = support_apply(r->op, v);
    cr_assert(r->result != 0, "jit_%s of %s: %s", jitc_ops[r->op].name, jitc_dtypes[r->type].name,
              jit_error());
    cr_assert_eq(jit_type(r->result), jitc_op_type(r->op, r->type));
}

static void fail(const trial *r, size_t i, uint64_t got, const char *want) {
    cr_assert_fail("jit_%s of %s (%s, %s, %s), element %zu of %zu: operands %#lx %#lx %#lx, "
                   "want %s, got %#lx",
                   jitc_ops[r->op].name, jitc_dtypes[r->type].name, layout_names[r->layout[0]],
                   layout_names[r->layout[1]], layout_names[r->layout[2]], i, r->size,
                   element(r, 0, i), element(r, 1, i), element(r, 2, i), want, got);
}

/** Check one element; returns the error in ULP, 0 for exact operations. */
static double verify_element(const trial *r, size_t i, uint64_t got) {
    const uint64_t in[3] = {element(r, 0, i), element(r, 1, i), element(r, 2, i)};
    char text[64];
    uint64_t want;
    if (jitc_ops[r->op].props & JITC_INEXACT) {
        double error = reference_error(r->op, r->type, in, got);
        snprintf(text, sizeof text, "an error of at most %g ULP, not %g",
                 error_bound(r->op, r->type), error);
        if (!(error <= error_bound(r->op, r->type)))
            fail(r, i, got, text);
        return error;
    }
    cr_assert(reference_exact(r->op, r->type, in, &want));
    snprintf(text, sizeof text, "%#lx", want);
    if (!reference_same(r->op, jitc_op_type(r->op, r->type), want, got))
        fail(r, i, got, text);
    return 0;
}

/** Read and check the result; returns the greatest error. */
static double verify(const trial *r) {
    double greatest = 0;
    uint64_t *got = support_read(r->result, r->size);
    for (size_t i = 0; i < r->size; ++i)
        greatest = fmax(greatest, verify_element(r, i, got[i]));
    free(got);
    return greatest;
}

/** Evaluate trials in one kernel, and check them. */
static double run(trial *trials, size_t count) {
    double greatest = 0;
    jit_scope_push();
    for (size_t i = 0; i < count; ++i) {
        record(&trials[i]);
        ASSERT_OK(jit_schedule(trials[i].result));
    }
    ASSERT_OK(jit_eval());
    for (size_t i = 0; i < count; ++i)
        greatest = fmax(greatest, verify(&trials[i]));
    ASSERT_OK(jit_scope_pop(0, NULL));
    return greatest;
}

/* Operands: all combinations of the values of a type. */

/** Arrays of `size` elements that walk through all combinations of values; `values` are those of
 * the type. */
typedef struct combinations {
    jitc_op op;
    jit_dtype type;
    values values;
    size_t size;
    uint64_t *bits[3];
} combinations;

/** How many values of each operand, so that there are neither too few nor too many combinations. */
static size_t value_limit(jitc_op op, jit_dtype t) {
    bool inexact = jitc_ops[op].props & JITC_INEXACT;
    bool fewer = support_simulated(); /* there the same code runs, only slower */
    switch (jitc_ops[op].form) {
        case JITC_FORM_UNARY:
            return inexact && jitc_dtypes[t].bits == 16 ? fewer ? 2048 : 8192 : 65536;
        case JITC_FORM_TERNARY: return fewer ? 22 : 34;
        default: return fewer ? 100 : jitc_dtypes[t].bits == 8 ? 256 : 190;
    }
}

static combinations combine(jitc_op op, jit_dtype t) {
    combinations c = {.op = op, .type = t};
    bool unary = jitc_ops[op].form == JITC_FORM_UNARY;
    c.values = unary && jitc_dtypes[t].bits <= 16 ? values_all(t) : values_edges(t);
    values_thin(&c.values, value_limit(op, t));
    if (unary && jitc_dtypes[t].bits > 16)
        values_add_random(&c.values, t,
                          jitc_ops[op].props & JITC_INEXACT ? 8000 : several_blocks());
    size_t n = c.values.count, all = n;
    for (int k = 1; k < jitc_ops[op].arity; ++k)
        all *= jitc_ops[op].form == JITC_FORM_SELECT && k == 1 ? 2 : n;
    bool slow = jitc_ops[op].props & JITC_INEXACT;
    c.size = all > several_blocks() || slow ? all : several_blocks();
    for (int k = 0; k < 3; ++k)
        c.bits[k] = calloc(c.size, sizeof *c.bits[k]);
    for (size_t i = 0; i < c.size; ++i) {
        size_t rest = i;
        for (int k = jitc_ops[op].arity - 1; k >= 0; --k) {
            bool mask = jitc_ops[op].form == JITC_FORM_SELECT && k == 0;
            c.bits[k][i] = mask ? rest % 2 : c.values.bits[rest % n];
            rest /= mask ? 2 : n;
        }
    }
    return c;
}
static void combinations_free(combinations *c) {
    for (int k = 0; k < 3; ++k)
        free(c->bits[k]);
    free(c->values.bits);
}
/** A trial on elements from..., all evaluated. */
static trial trial_of(const combinations *c, size_t from, size_t size) {
    trial r = {.op = c->op, .type = c->type, .size = size};
    for (int k = 0; k < 3; ++k)
        r.bits[k] = c->bits[k] + from;
    return r;
}

/* The layouts. */

/** Around all vector widths, from odd places; own memory and memory that ends at a guard page. */
static void check_sizes(const combinations *c) {
    static const size_t sizes[] = {1,  2,  3,  4,  5,  7,  8,   9,   15,  16, 17,
                                   31, 32, 33, 63, 64, 65, 127, 128, 129, 257};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        if (sizes[i] > c->size)
            continue;
        size_t room = c->size - sizes[i];
        trial r = trial_of(c, room ? i * 7919 % room : 0, sizes[i]);
        run(&r, 1);
        for (int k = 0; k < 3; ++k)
            r.layout[k] = GUARDED;
        if (support_maps_host_memory())
            run(&r, 1);
    }
}

/** Operand k stands for all lanes: a literal, or an evaluated array of one element; several values
 * of it, each with many values of the others. */
static void check_broadcast(const combinations *c, int k, layout how, size_t count) {
    values v = {0};
    trial batch[BATCH];
    size_t filled = 0, size = c->size < 1021 ? c->size : 1021;
    bool mask = jitc_ops[c->op].form == JITC_FORM_SELECT && k == 0;
    for (size_t i = 0; i < c->values.count; ++i)
        values_add(&v, mask ? i % 2 : c->values.bits[i]);
    values_thin(&v, mask ? 2 : count);
    for (size_t i = 0; i < v.count; ++i) {
        size_t room = c->size - size + 1;
        batch[filled] = trial_of(c, i * 7919 % room, size);
        batch[filled].bits[k] = &v.bits[i];
        batch[filled].layout[k] = how;
        if (++filled == BATCH || i + 1 == v.count) {
            run(batch, filled);
            filled = 0;
        }
    }
    free(v.bits);
}

/** All operands are literals: folded. */
static void check_literals(const combinations *c) {
    for (size_t i = 0; i < 150; ++i) {
        trial r = trial_of(c, i * (c->size - 1) / 149, 1);
        for (int k = 0; k < 3; ++k)
            r.layout[k] = LITERAL;
        run(&r, 1);
    }
}

/** One variable as all operands. */
static void check_same_operand(const combinations *c) {
    jit_scope_push();
    jit_var v = support_array(c->type, c->values.bits, c->values.count);
    jit_var mask = c->op == JITC_OP_select ? jit_eq(v, v) : v;
    trial r = {.op = c->op, .type = c->type, .size = c->values.count};
    uint64_t *masks = jit_type(mask) == JIT_bool ? support_read(mask, r.size) : NULL;
    for (int k = 0; k < 3; ++k)
        r.bits[k] = c->values.bits;
    if (c->op == JITC_OP_select)
        r.bits[0] = masks;
    r.result = support_apply(c->op, (jit_var[3]) {mask, v, v});
    ASSERT_VAR(r.result);
    verify(&r);
    free(masks);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

static void check_type(jitc_op op, jit_dtype t) {
    combinations c = combine(op, t);
    bool baked = jitc_ops[op].props & JITC_BAKE_B;
    trial all = trial_of(&c, 0, c.size);
    double error = run(&all, 1);
    if (jitc_ops[op].props & JITC_INEXACT)
        fprintf(stderr, "%-6s %-4s %.3f ULP\n", jitc_ops[op].name, jitc_dtypes[t].name, error);
    check_sizes(&c);
    check_literals(&c);
    for (int k = 0; k < jitc_ops[op].arity && jitc_ops[op].arity > 1; ++k) {
        check_broadcast(&c, k, LITERAL, baked && k == 1 ? 128 : 32);
        check_broadcast(&c, k, SCALAR, 4);
    }
    if (jitc_ops[op].arity > 1)
        check_same_operand(&c);
    combinations_free(&c);
}

static void check_op(jitc_op op) {
    FOR_TYPES(t) {
        if (jitc_op_accepts(op, t)) {
            check_type(op, t);
            continue;
        }
        jit_var v = support_literal(t, 1, 1);
        cr_assert_eq(support_apply(op, (jit_var[3]) {v, v, v}), 0, "jit_%s takes %s",
                     jitc_ops[op].name, jitc_dtypes[t].name);
        cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH, "%s", jit_error());
        jit_error_clear();
        jit_unref(v);
    }
}

/* One test for each operation. */
#define TEST_UNARY(name)                                                                           \
    Test(ops, name) {                                                                              \
        check_op(JITC_OP_##name);                                                                  \
    }
#define TEST_BINARY(name)   TEST_UNARY(name)
#define TEST_TERNARY(name)  TEST_UNARY(name)
#define TEST_SELECT(name)   TEST_UNARY(name)
#define OP(name, form, ...) JITC_IF_ELEMENTWISE_##form(TEST_##form(name))
#include "ir/ops.def"

/** Arrays without elements, alone and with an operand that stands for all. */
static void check_empty(jitc_op op, jit_dtype t) {
    const uint64_t none = 0;
    bool selects = jitc_ops[op].form == JITC_FORM_SELECT;
    jit_scope_push();
    jit_var empty = support_array(t, &none, 0), one = support_literal(t, 1, 1);
    jit_var mask = selects ? support_array(JIT_bool, &none, 0) : empty;
    jit_var all = support_apply(op, (jit_var[3]) {mask, empty, empty});
    jit_var some = support_apply(op, (jit_var[3]) {mask, one, one});
    cr_assert(all && some, "jit_%s of %s: %s", jitc_ops[op].name, jit_dtype_name(t), jit_error());
    free(support_read(all, 0));
    free(support_read(some, 0));
    ASSERT_OK(jit_scope_pop(0, NULL));
}

Test(ops, of_no_elements_give_no_elements_and_launch_nothing) {
    jit_stats before, after;
    ASSERT_OK(jit_get_stats(&before));
    for (jitc_op op = JITC_OP_literal; op < JITC_OP_COUNT; ++op)
        FOR_TYPES(t)
    if (jitc_ops[op].form >= JITC_FORM_UNARY && jitc_ops[op].form <= JITC_FORM_SELECT &&
        jitc_op_accepts(op, t))
        check_empty(op, t);
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_eq(after.launches, before.launches);
}

Test(ops, sincos_gives_sine_and_cosine) {
    FOR_TYPES(t) {
        if (jitc_dtypes[t].cls != JITC_FLOAT)
            continue;
        jit_scope_push();
        values v = values_edges(t);
        values_add_random(&v, t, 2000);
        jit_var a = support_array(t, v.bits, v.count), sine, cosine;
        ASSERT_OK(jit_sincos(a, &sine, &cosine));
        uint64_t *got[2] = {support_read(sine, v.count), support_read(cosine, v.count)};
        uint64_t *want[2] = {support_read(jit_sin(a), v.count), support_read(jit_cos(a), v.count)};
        for (size_t i = 0; i < v.count; ++i)
            for (int k = 0; k < 2; ++k)
                cr_assert(reference_same(JITC_OP_sin, t, want[k][i], got[k][i]),
                          "%s of %s %#lx: %#lx alone, %#lx by sincos", k ? "cos" : "sin",
                          jitc_dtypes[t].name, v.bits[i], want[k][i], got[k][i]);
        for (int k = 0; k < 2; ++k)
            free(got[k]), free(want[k]);
        free(v.bits);
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
    jit_var sine = 7, cosine = 7, integer = jit_i32(support_backend(), 1);
    cr_assert_eq(jit_sincos(integer, &sine, &cosine), JIT_TYPE_MISMATCH);
    cr_assert(sine == 0 && cosine == 0);
    jit_unref(integer);
}

/* Casts. */

static void verify_cast(jit_var result, const values *v, jit_dtype from, jit_dtype to) {
    ASSERT_VAR(result);
    cr_assert_eq(jit_type(result), to);
    uint64_t *got = support_read(result, v->count);
    for (size_t i = 0; i < v->count; ++i) {
        uint64_t want = reference_cast(v->bits[i], from, to);
        cr_assert(reference_same(JITC_OP_cast, to, want, got[i]),
                  "cast of %#lx from %s to %s, element %zu of %zu: want %#lx, got %#lx", v->bits[i],
                  jitc_dtypes[from].name, jitc_dtypes[to].name, i, v->count, want, got[i]);
    }
    free(got);
}

/** The values in an array, alone and, for some of them, one by one as literals and small arrays. */
static void check_casts(const values *v, jit_dtype from, jit_dtype to) {
    jit_scope_push();
    verify_cast(jit_cast(support_array(from, v->bits, v->count), to), v, from, to);
    for (size_t i = 0; i < 40; ++i) {
        values one = {v->bits + i * (v->count - 1) / 39, 1};
        verify_cast(jit_cast(support_literal(from, one.bits[0], 1), to), &one, from, to);
        size_t from_index = i * 97 % v->count, rest = v->count - from_index;
        values few = {v->bits + from_index, rest < i + 1 ? rest : i + 1};
        verify_cast(jit_cast(support_guarded(from, few.bits, few.count, false), to), &few, from,
                    to);
    }
    ASSERT_OK(jit_scope_pop(0, NULL));
}

static void check_casts_from(jit_dtype from) {
    values v = jitc_dtypes[from].bits <= 16 ? values_all(from) : values_edges(from);
    values_add_random(&v, from, 20000);
    FOR_TYPES(to)
    check_casts(&v, from, to);
    free(v.bits);
}

#define DTYPE(tag, ...)                                                                            \
    Test(casts, from_##tag) {                                                                      \
        check_casts_from(JIT_##tag);                                                               \
    }
#include "ir/dtypes.def"

Test(casts, bitcast_keeps_bits_and_wants_equal_widths) {
    FOR_TYPES(from) {
        values v = values_edges(from);
        FOR_TYPES(to) {
            jit_scope_push();
            jit_var a = support_array(from, v.bits, v.count), b = jit_bitcast(a, to);
            if (jitc_dtypes[from].bits != jitc_dtypes[to].bits) {
                cr_assert_eq(b, 0);
                cr_assert_eq(jit_error_status(), JIT_TYPE_MISMATCH, "%s", jit_error());
                jit_error_clear();
            } else if (to != JIT_bool || from == JIT_bool) { /* a bool other than 0 and 1 is none */
                ASSERT_VAR(b);
                cr_assert_eq(jit_type(b), to);
                uint64_t *got = support_read(b, v.count);
                for (size_t i = 0; i < v.count; ++i)
                    cr_assert_eq(got[i], v.bits[i], "%s to %s: %#lx, not %#lx",
                                 jitc_dtypes[from].name, jitc_dtypes[to].name, got[i], v.bits[i]);
                free(got);
            }
            ASSERT_OK(jit_scope_pop(0, NULL));
        }
        free(v.bits);
    }
}
