/* test_llvm_ops.c: every operation of the CPU backend on every type, instruction set and LLVM,
 * against the fold that defines it. */
#include "llvm_run.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/** Operand lists: all combinations of edge values, then wrapped around up to a multiple of 64. */
typedef struct operands {
    size_t count, padded;
    void *array[3];
    jit_dtype type[3];
    int arity;
} operands;

static void operands_init(operands *o, int arity, const jit_dtype *types) {
    uint64_t values[3][64];
    size_t n[3] = {1, 1, 1};
    o->arity = arity;
    o->count = 1;
    for (int i = 0; i < arity; i++) {
        n[i] = edge_values(types[i], values[i]);
        if (arity == 3 && n[i] > 40)
            for (n[i] = 0; n[i] < 32; n[i]++) /* every other one */
                values[i][n[i]] = values[i][(2 * n[i] + 1) % 62];
        o->type[i] = types[i];
        o->count *= n[i];
    }
    o->padded = (o->count + 63) / 64 * 64;
    for (int i = 0; i < arity; i++) {
        cr_assert_not_null(o->array[i] = calloc(o->padded, 8));
        for (size_t k = 0; k < o->padded; k++) {
            size_t at = k % o->count;
            for (int j = 0; j < i; j++)
                at /= n[j];
            write_element(types[i], o->array[i], k, values[i][at % n[i]]);
        }
    }
}

static void operands_finish(operands *o) {
    for (int i = 0; i < o->arity; i++)
        free(o->array[i]);
}

/** What is allowed: bits that differ in NaN, or by one unit in the last place. */
static bool agrees(jitc_op op, jit_dtype to, uint64_t got, uint64_t want) {
    if (got == want)
        return true;
    if (jitc_dtypes[to].cls != JITC_FLOAT || op == JITC_OP_select || op == JITC_OP_bitcast ||
        op == JITC_OP_neg || op == JITC_OP_abs || op == JITC_OP_copysign)
        return false;
    if (jitc_ops[op].props & JITC_INEXACT)
        return ulp_distance(to, got, want) <= 1;
    return is_nan_bits(to, got) && is_nan_bits(to, want);
}

static void compare(const operands *o, jitc_op op, jit_dtype type, jit_dtype to, const void *result,
                    const char *where) {
    size_t bad = 0;
    for (size_t k = 0; k < o->count; k++) {
        uint64_t in[3] = {0, 0, 0}, want;
        for (int i = 0; i < o->arity; i++)
            in[i] = read_element(o->type[i], o->array[i], k);
        cr_assert(jitc_fold(op, type, to, in, &want));
        uint64_t got = read_element(to, result, k);
        if (agrees(op, to, got, want) || ++bad > 3)
            continue;
        cr_expect_fail("%s: %s %s -> %s of %#lx %#lx %#lx gives %#lx, not %#lx", where,
                       jitc_ops[op].name, jitc_dtypes[type].name, jitc_dtypes[to].name, in[0],
                       in[1], in[2], got, want);
    }
}

static void check_operation(runner *r, jitc_op op, jit_dtype type, jit_dtype to, int level,
                            const char *where) {
    jitc_program p = {0};
    uint64_t params[8];
    jit_dtype types[3] = {type, type, type};
    if (jitc_ops[op].form == JITC_FORM_SELECT)
        types[0] = JIT_bool;
    operands o = {0};
    operands_init(&o, jitc_ops[op].arity, types);
    void *result = calloc(o.padded, 8);
    uint32_t v[3] = {0, 0, 0};
    for (int i = 0; i < o.arity; i++)
        v[i] = add_data(&p, types[i], o.array[i], params);
    uint32_t out = add(&p, op, to, v[0], v[1], v[2]);
    add_store(&p, to, out, result, params);
    runner_run(r, &p, level, o.count, params);
    compare(&o, op, type, to, result, where);
    free(result);
    operands_finish(&o);
    jitc_program_finish(&p);
}

static bool is_elementwise(jitc_op op) {
    jitc_form f = (jitc_form) jitc_ops[op].form;
    return f == JITC_FORM_UNARY || f == JITC_FORM_BINARY || f == JITC_FORM_TERNARY ||
           f == JITC_FORM_SELECT;
}

static void check_all_operations(runner *r, int level, const char *where) {
    for (int op = 0; op < JITC_OP_COUNT; op++)
        for (int t = 0; t < JITC_DTYPE_COUNT; t++)
            if (is_elementwise((jitc_op) op) && jitc_op_accepts((jitc_op) op, (jit_dtype) t))
                check_operation(r, (jitc_op) op, (jit_dtype) t,
                                jitc_op_type((jitc_op) op, (jit_dtype) t), level, where);
}

static void check_all_casts(runner *r, int level, const char *where) {
    for (int from = 0; from < JITC_DTYPE_COUNT; from++)
        for (int to = 0; to < JITC_DTYPE_COUNT; to++) {
            check_operation(r, JITC_OP_cast, (jit_dtype) from, (jit_dtype) to, level, where);
            if (jitc_dtypes[from].bits == jitc_dtypes[to].bits)
                check_operation(r, JITC_OP_bitcast, (jit_dtype) from, (jit_dtype) to, level, where);
        }
}

static void for_each_isa(const char *library, int level,
                         void (*check)(runner *, int, const char *)) {
    for (size_t i = 0; i < RUNNER_ISAS; i++) {
        runner r;
        char where[128];
        snprintf(where, sizeof where, "%s, level %d, %s", runner_isas[i], level,
                 library ? library : "");
        if (!runner_init(&r, library, runner_isas[i]))
            continue;
        check(&r, level, where);
        runner_finish(&r);
    }
}

Test(llvm_ops, operations_equal_their_fold, .timeout = 300) {
    for_each_isa(NULL, 0, check_all_operations);
}
Test(llvm_ops, operations_equal_their_fold_at_level_2, .timeout = 300) {
    for_each_isa(NULL, 2, check_all_operations);
}
Test(llvm_ops, casts_equal_their_fold, .timeout = 300) {
    for_each_isa(NULL, 0, check_all_casts);
    for_each_isa(NULL, 2, check_all_casts);
}

/* Older libraries, where they are installed. */
Test(llvm_ops, operations_equal_their_fold_with_llvm_14, .timeout = 300) {
    for_each_isa("libLLVM-14.so.1", 0, check_all_operations);
}
Test(llvm_ops, casts_equal_their_fold_with_llvm_14, .timeout = 300) {
    for_each_isa("libLLVM-14.so.1", 0, check_all_casts);
}
Test(llvm_ops, operations_equal_their_fold_with_llvm_16, .timeout = 300) {
    for_each_isa("libLLVM-16.so.1", 0, check_all_operations);
}
Test(llvm_ops, casts_equal_their_fold_with_llvm_16, .timeout = 300) {
    for_each_isa("libLLVM-16.so.1", 0, check_all_casts);
}

/* Literals as second operands: baked, and from the parameters. */

static void check_literal(runner *r, jitc_op op, jit_dtype type, uint64_t bits, int level,
                          const char *where) {
    operands o = {0};
    operands_init(&o, 1, &type);
    void *baked = calloc(o.padded, 8), *loaded = calloc(o.padded, 8);
    jit_dtype to = jitc_op_type(op, type);
    jitc_program p = {0};
    uint64_t params[8];
    uint32_t a = add_data(&p, type, o.array[0], params);
    add_store(&p, to, add(&p, op, to, a, add_baked(&p, type, bits), 0), baked, params);
    add_store(&p, to, add(&p, op, to, a, add_literal(&p, type, bits, params), 0), loaded, params);
    runner_run(r, &p, level, o.count, params);
    for (size_t k = 0; k < o.count; k++) {
        uint64_t in[3] = {read_element(type, o.array[0], k), bits, 0}, want;
        cr_assert(jitc_fold(op, type, to, in, &want));
        uint64_t x = read_element(to, baked, k), y = read_element(to, loaded, k);
        cr_expect(agrees(op, to, x, want) && agrees(op, to, y, want),
                  "%s: %s %s of %#lx and literal %#lx: %#lx, %#lx, not %#lx", where,
                  jitc_ops[op].name, jitc_dtypes[type].name, in[0], bits, x, y, want);
    }
    free(baked);
    free(loaded);
    operands_finish(&o);
    jitc_program_finish(&p);
}

static void check_all_literals(runner *r, int level, const char *where) {
    for (int op = 0; op < JITC_OP_COUNT; op++)
        for (int t = 0; t < JITC_DTYPE_COUNT; t++) {
            uint64_t values[64];
            size_t n = edge_values((jit_dtype) t, values);
            if (!(jitc_ops[op].props & JITC_BAKE_B) ||
                !jitc_op_accepts((jitc_op) op, (jit_dtype) t))
                continue;
            for (size_t i = 0; i < n; i++)
                check_literal(r, (jitc_op) op, (jit_dtype) t, values[i], level, where);
        }
}

Test(llvm_ops, literal_operands_are_no_different, .timeout = 300) {
    runner r;
    cr_assert(runner_init(&r, NULL, NULL));
    check_all_literals(&r, 0, "");
    runner_finish(&r);
}
Test(llvm_ops, literal_operands_are_no_different_on_v3, .timeout = 300) {
    runner r;
    if (!runner_init(&r, NULL, "x86-64-v3"))
        cr_skip("no such processor");
    check_all_literals(&r, 2, "v3");
    runner_finish(&r);
}
