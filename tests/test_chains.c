/* test_chains.c: operations on the results of operations in one kernel. Each result has to be that
 * of its type: rounded to 16 bits though the arithmetic is wider, wrapped, not fused, and a bool
 * that is 0 or 1. */
#include "reference.h"
#include "support.h"
#include "values.h"
#include <stdlib.h>

#define FOR_OPS(op)  for (jitc_op op = JITC_OP_literal; op < JITC_OP_COUNT; ++op)
#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

enum { LANES = 1009, BATCH = 16 };

TestSuite(chains, .init = support_init, .fini = support_shutdown);

/** LANES values of a type. */
static values lanes_of(jit_dtype t, size_t step) {
    values edges = values_edges(t), v = {0};
    for (size_t i = 0; i < LANES; ++i)
        values_add(&v, edges.bits[i * step % edges.count]);
    free(edges.bits);
    return v;
}

/** second(first(a, b), c), or the first alone and then a cast. */
typedef struct chain {
    jitc_op first, second;
    jit_dtype type, middle, result;
    jit_var var;
} chain;

/** Operands by type: a, b of the first operation, c of the second. */
static values operand[JITC_DTYPE_COUNT][3];
static jit_var operand_var[JITC_DTYPE_COUNT][3];

static void make_operands(void) {
    static const size_t steps[] = {1, 7, 31};
    FOR_TYPES(t)
    for (int k = 0; k < 3; ++k) {
        operand[t][k] = lanes_of(t, steps[k]);
        operand_var[t][k] = support_array(t, operand[t][k].bits, LANES);
    }
}
static void free_operands(void) {
    FOR_TYPES(t)
    for (int k = 0; k < 3; ++k) {
        free(operand[t][k].bits);
        jit_unref(operand_var[t][k]);
    }
}

static uint64_t expected(const chain *c, size_t i) {
    const uint64_t in[3] = {operand[c->type][0].bits[i], operand[c->type][1].bits[i]};
    uint64_t middle, result;
    cr_assert(reference_exact(c->first, c->type, in, &middle));
    if (c->second == JITC_OP_cast)
        return reference_cast(middle, c->middle, c->result);
    const uint64_t next[3] = {middle, operand[c->middle][2].bits[i]};
    cr_assert(reference_exact(c->second, c->middle, next, &result));
    return result;
}

static void verify(const chain *c) {
    uint64_t *got = support_read(c->var, LANES);
    for (size_t i = 0; i < LANES; ++i) {
        uint64_t want = expected(c, i);
        cr_assert(reference_same(JITC_OP_add, c->result, want, got[i]),
                  "%s of %s, then %s to %s: operands %#lx %#lx, then %#lx: want %#lx, got %#lx",
                  jitc_ops[c->first].name, jit_dtype_name(c->type), jitc_ops[c->second].name,
                  jit_dtype_name(c->result), operand[c->type][0].bits[i],
                  operand[c->type][1].bits[i], operand[c->middle][2].bits[i], want, got[i]);
    }
    free(got);
}

static void run(chain *chains, size_t count) {
    ASSERT_OK(jit_eval());
    for (size_t i = 0; i < count; ++i) {
        verify(&chains[i]);
        jit_unref(chains[i].var);
    }
}

/** Record a chain into a batch; evaluate the batch when it is full. */
static void add(chain *batch, size_t *count, chain c) {
    jit_var *v = operand_var[c.type];
    jit_var middle = support_apply(c.first, (jit_var[3]) {v[0], v[1]});
    c.var = c.second == JITC_OP_cast
                ? jit_cast(middle, c.result)
                : support_apply(c.second, (jit_var[3]) {middle, operand_var[c.middle][2]});
    cr_assert(c.var != 0, "%s, %s of %s: %s", jitc_ops[c.first].name, jitc_ops[c.second].name,
              jit_dtype_name(c.type), jit_error());
    ASSERT_OK(jit_schedule(c.var));
    jit_unref(middle);
    batch[(*count)++] = c;
    if (*count == BATCH) {
        run(batch, *count);
        *count = 0;
    }
}

static bool is_exact(jitc_op op, jit_dtype t) {
    jitc_form form = (jitc_form) jitc_ops[op].form;
    return (form == JITC_FORM_UNARY || form == JITC_FORM_BINARY) && jitc_op_accepts(op, t) &&
           !(jitc_ops[op].props & JITC_INEXACT);
}

static void check_pairs(jit_dtype t) {
    chain batch[BATCH];
    size_t count = 0;
    make_operands();
    FOR_OPS(first) {
        if (!is_exact(first, t))
            continue;
        jit_dtype middle = jitc_op_type(first, t);
        FOR_OPS(second)
        if (is_exact(second, middle))
            add(batch, &count, (chain) {first, second, t, middle, jitc_op_type(second, middle), 0});
    }
    run(batch, count);
    free_operands();
}
#define DTYPE(tag, ...)                                                                            \
    Test(chains, of_two_operations_on_##tag) {                                                     \
        check_pairs(JIT_##tag);                                                                    \
    }
#include "ir/dtypes.def"

Test(chains, of_an_operation_and_a_cast) {
    chain batch[BATCH];
    size_t count = 0;
    make_operands();
    FOR_TYPES(t)
    FOR_OPS(first)
    for (jit_dtype to = JIT_bool; is_exact(first, t) && to <= JIT_f64; ++to)
        add(batch, &count, (chain) {first, JITC_OP_cast, t, jitc_op_type(first, t), to, 0});
    run(batch, count);
    free_operands();
}

/** There and back: what the narrow type loses stays lost. */
Test(chains, of_two_casts) {
    make_operands();
    FOR_TYPES(t)
    FOR_TYPES(through) {
        jit_var middle = jit_cast(operand_var[t][0], through), back = jit_cast(middle, t);
        ASSERT_VAR(back);
        uint64_t *got = support_read(back, LANES);
        for (size_t i = 0; i < LANES; ++i) {
            uint64_t bits = operand[t][0].bits[i];
            uint64_t want = reference_cast(reference_cast(bits, t, through), through, t);
            cr_assert(reference_same(JITC_OP_cast, t, want, got[i]),
                      "%s to %s and back: %#lx: want %#lx, got %#lx", jit_dtype_name(t),
                      jit_dtype_name(through), bits, want, got[i]);
        }
        free(got);
        jit_unref(middle);
        jit_unref(back);
    }
    free_operands();
}
