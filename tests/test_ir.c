/* test_ir.c: the tables, folding and programs, against reference.c. */
#include "ir/program.h"
#include "reference.h"
#include "values.h"
#include <criterion/criterion.h>
#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Loops over operations and types. The table of operations starts with a leaf, so a jitc_op is
 * never negative. */
#define FOR_OPS(op)  for (jitc_op op = JITC_OP_literal; op < JITC_OP_COUNT; ++op)
#define FOR_TYPES(t) for (jit_dtype t = JIT_bool; t <= JIT_f64; ++t)

static bool is_form(jitc_op op, jitc_form form) {
    return jitc_ops[op].form == form;
}

/* Tables. */

Test(ir, every_type_has_its_name_and_size) {
    static const char *const names[] = {"bool", "i8",  "u8",  "i16",  "u16", "i32", "u32",
                                        "i64",  "u64", "f16", "bf16", "f32", "f64"};
    static const size_t sizes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    cr_assert_eq(JITC_DTYPE_COUNT, 13);
    FOR_TYPES(t) {
        cr_assert_str_eq(jit_dtype_name(t), names[t]);
        cr_assert_eq(jit_dtype_size(t), sizes[t]);
    }
    cr_assert_str_eq(jit_dtype_name((jit_dtype) 13), "?");
    cr_assert_str_eq(jit_dtype_name((jit_dtype) -1), "?");
    cr_assert_eq(jit_dtype_size((jit_dtype) 13), 0);
}

Test(ir, operations_know_their_properties) {
    cr_assert_str_eq(jitc_ops[JITC_OP_select].name, "select");
    cr_assert_eq(jitc_ops[JITC_OP_fma].arity, 3);
    cr_assert_eq(jitc_ops[JITC_OP_counter].arity, 0);
    cr_assert_eq(jitc_ops[JITC_OP_add].props, JITC_COMMUTES);
    cr_assert_eq(jitc_ops[JITC_OP_div].props, JITC_BAKE_B);
    cr_assert_eq(jitc_op_type(JITC_OP_lt, JIT_f32), JIT_bool);
    cr_assert(jitc_op_accepts(JITC_OP_and, JIT_bool) && !jitc_op_accepts(JITC_OP_and, JIT_f32));
    cr_assert(!jitc_op_accepts(JITC_OP_neg, JIT_bool) && jitc_op_accepts(JITC_OP_neg, JIT_u8));
}

/* Folding. */

static uint64_t fold(jitc_op op, jit_dtype t, jit_dtype to, const uint64_t in[3]) {
    uint64_t out = 0x1111111111111111;
    cr_assert(jitc_fold(op, t, to, in, &out), "%s has no fold for %s", jitc_ops[op].name,
              jitc_dtypes[t].name);
    return out;
}

static void check_exact(jitc_op op, jit_dtype t, const uint64_t in[3]) {
    uint64_t want, got = fold(op, t, t, in);
    cr_assert(reference_exact(op, t, in, &want), "no reference for %s of %s", jitc_ops[op].name,
              jitc_dtypes[t].name);
    cr_assert(reference_same(op, jitc_op_type(op, t), want, got),
              "%s of %s: in %#lx %#lx %#lx, want %#lx, got %#lx", jitc_ops[op].name,
              jitc_dtypes[t].name, in[0], in[1], in[2], want, got);
}

static bool is_exact(jitc_op op, jit_dtype t, jitc_form form) {
    return is_form(op, form) && jitc_op_accepts(op, t) && !(jitc_ops[op].props & JITC_INEXACT);
}

Test(fold, unary_operations_agree_with_the_reference) {
    FOR_TYPES(t) {
        values v = jitc_dtypes[t].bits <= 16 ? values_all(t) : values_edges(t);
        if (jitc_dtypes[t].bits > 16)
            values_add_random(&v, t, 2000);
        FOR_OPS(op)
        for (size_t i = 0; is_exact(op, t, JITC_FORM_UNARY) && i < v.count; ++i)
            check_exact(op, t, (uint64_t[3]) {v.bits[i]});
        free(v.bits);
    }
}

Test(fold, binary_operations_agree_with_the_reference) {
    FOR_TYPES(t) {
        values v = values_edges(t);
        FOR_OPS(op)
        for (size_t i = 0; is_exact(op, t, JITC_FORM_BINARY) && i < v.count; ++i)
            for (size_t k = 0; k < v.count; ++k)
                check_exact(op, t, (uint64_t[3]) {v.bits[i], v.bits[k]});
        free(v.bits);
    }
}

Test(fold, random_operands_agree_with_the_reference) {
    FOR_TYPES(t) {
        values v = {0};
        values_add_random(&v, t, 3002);
        FOR_OPS(op) {
            if (!is_exact(op, t, JITC_FORM_BINARY) && !is_exact(op, t, JITC_FORM_TERNARY))
                continue;
            for (size_t i = 0; i + 2 < v.count; ++i)
                check_exact(op, t, v.bits + i);
        }
        free(v.bits);
    }
}

Test(fold, fma_rounds_once) {
    FOR_TYPES(t) {
        if (!jitc_op_accepts(JITC_OP_fma, t))
            continue;
        values v = values_edges(t);
        values_thin(&v, 36);
        for (size_t i = 0; i < v.count; ++i)
            for (size_t k = 0; k < v.count; ++k)
                for (size_t l = 0; l < v.count; ++l)
                    check_exact(JITC_OP_fma, t, (uint64_t[3]) {v.bits[i], v.bits[k], v.bits[l]});
        /* A product halfway between two numbers, and something tiny that decides. */
        for (uint64_t odd = 1; odd < 128; odd += 2)
            for (int sign = -1; sign <= 1; ++sign) {
                double half = 1 + (double) odd / 128;
                check_exact(JITC_OP_fma, t,
                            (uint64_t[3]) {reference_from_double(t, half),
                                           reference_from_double(t, half),
                                           reference_from_double(t, sign * ldexp(1, -24))});
            }
        free(v.bits);
    }
}

Test(fold, select_copies_bits) {
    const uint64_t signalling = 0x7f800001;
    cr_assert_eq(fold(JITC_OP_select, JIT_f32, JIT_f32, (uint64_t[3]) {1, signalling, 2}),
                 signalling);
    cr_assert_eq(fold(JITC_OP_select, JIT_f32, JIT_f32, (uint64_t[3]) {0, 2, signalling}),
                 signalling);
    cr_assert_eq(fold(JITC_OP_select, JIT_bool, JIT_bool, (uint64_t[3]) {1, 0, 1}), 0);
}

/** Greatest error over some operands; fails if it is above `bound`. */
static double greatest_error(jitc_op op, jit_dtype t, const values *v, double bound) {
    double greatest = 0;
    bool binary = is_form(op, JITC_FORM_BINARY);
    size_t pairs = binary ? v->count * v->count : v->count;
    for (size_t i = 0; i < pairs; ++i) {
        const uint64_t in[3] = {v->bits[i % v->count], v->bits[i / v->count]};
        uint64_t got = fold(op, t, t, in);
        double error = reference_error(op, t, in, got);
        cr_assert_leq(error, bound, "%s of %s: in %#lx %#lx, got %#lx, %g ULP off",
                      jitc_ops[op].name, jitc_dtypes[t].name, in[0], in[1], got, error);
        greatest = error > greatest ? error : greatest;
    }
    return greatest;
}

Test(fold, functions_are_correctly_rounded_nearly_always) {
    FOR_OPS(op) {
        if (!(jitc_ops[op].props & JITC_INEXACT))
            continue;
        printf("%-6s", jitc_ops[op].name);
        FOR_TYPES(t) {
            if (!jitc_op_accepts(op, t))
                continue;
            values v = values_edges(t);
            if (is_form(op, JITC_FORM_UNARY))
                values_add_random(&v, t, 2000);
            printf("  %s %.4f", jitc_dtypes[t].name, greatest_error(op, t, &v, 0.51));
            free(v.bits);
        }
        printf("\n");
    }
}

static void check_cast(uint64_t bits, jit_dtype from, jit_dtype to) {
    uint64_t got = fold(JITC_OP_cast, from, to, (uint64_t[3]) {bits});
    uint64_t want = reference_cast(bits, from, to);
    cr_assert(reference_same(JITC_OP_cast, to, want, got),
              "cast of %#lx from %s to %s: want %#lx, got %#lx", bits, jitc_dtypes[from].name,
              jitc_dtypes[to].name, want, got);
}

Test(fold, casts_agree_with_the_reference) {
    FOR_TYPES(from) {
        values v = jitc_dtypes[from].bits <= 16 ? values_all(from) : values_edges(from);
        values_add_random(&v, from, 3000);
        FOR_TYPES(to)
        for (size_t i = 0; i < v.count; ++i)
            check_cast(v.bits[i], from, to);
        free(v.bits);
    }
}

Test(fold, casts_from_double_round_once) {
    static const jit_dtype narrow[] = {JIT_f16, JIT_bf16, JIT_f32};
    for (int k = 0; k < 3; ++k)
        for (uint64_t h = 0; h < 65536; h += 3) {
            /* Halfway to the next number, where a first rounding to f32 would lose what decides. */
            jit_dtype t = k == 2 ? JIT_bf16 : narrow[k];
            double low = reference_to_double(t, h), high = reference_to_double(t, h + 1);
            uint64_t half = reference_from_double(JIT_f64, low / 2 + high / 2);
            for (uint64_t off = 0; off < 3; ++off)
                check_cast((half + off - 1) & ~(uint64_t) 0, JIT_f64, narrow[k]);
        }
}

Test(fold, bitcast_keeps_bits) {
    cr_assert_eq(fold(JITC_OP_bitcast, JIT_f32, JIT_u32, (uint64_t[3]) {0x7f800001}), 0x7f800001);
    cr_assert_eq(fold(JITC_OP_bitcast, JIT_i16, JIT_bf16, (uint64_t[3]) {0xffff}), 0xffff);
}

Test(fold, memory_operations_have_no_fold) {
    uint64_t out = 7;
    FOR_OPS(op)
    FOR_TYPES(t) {
        const jitc_form form = (jitc_form) jitc_ops[op].form;
        bool elementwise = form == JITC_FORM_UNARY || form == JITC_FORM_BINARY ||
                           form == JITC_FORM_TERNARY || form == JITC_FORM_SELECT ||
                           form == JITC_FORM_CAST;
        if (!elementwise || !jitc_op_accepts(op, t))
            cr_assert(!jitc_fold(op, t, t, (uint64_t[3]) {0}, &out), "%s", jitc_ops[op].name);
    }
    cr_assert_eq(out, 7);
}

/* Bits of MXCSR: denormals are zero, flush to zero. */
static void set_flush_to_zero(bool on) {
#if defined(__x86_64__)
    unsigned control = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(on ? control | 0x8040 : control & ~0x8040u);
#else
    (void) on;
#endif
}

Test(fold, modes_of_the_thread_do_not_matter) {
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    FOR_TYPES(t) {
        values v = values_edges(t);
        values_thin(&v, 30);
        FOR_OPS(op) {
            if (!jitc_op_accepts(op, t) || jitc_ops[op].form < JITC_FORM_UNARY ||
                jitc_ops[op].form > JITC_FORM_CAST)
                continue;
            jit_dtype to = op != JITC_OP_cast ? t : t == JIT_f64 ? JIT_f32 : JIT_f16;
            for (size_t i = 0; i < v.count * v.count; ++i) {
                const uint64_t in[3] = {v.bits[i % v.count], v.bits[i / v.count],
                                        v.bits[i * 7 % v.count]};
                uint64_t want = fold(op, t, to, in), got;
                fesetround(modes[i % 4]);
                set_flush_to_zero(true);
                jitc_fold(op, t, to, in, &got);
                int mode = fegetround();
                set_flush_to_zero(false);
                fesetround(FE_TONEAREST);
                cr_assert_eq(want, got, "%s of %s: in %#lx %#lx: %#lx, in another mode %#lx",
                             jitc_ops[op].name, jitc_dtypes[t].name, in[0], in[1], want, got);
                cr_assert_eq(mode, modes[i % 4]);
            }
        }
        free(v.bits);
    }
}

/* 16-bit floats. */

static float float_from_bits(uint64_t bits) {
    uint32_t low = (uint32_t) bits;
    float f;
    memcpy(&f, &low, sizeof f);
    return f;
}

Test(half, all_values_survive_the_way_to_float_and_back) {
    for (unsigned h = 0; h < 65536; ++h) {
        float f = jitc_f16_to_f32((uint16_t) h), b = jitc_bf16_to_f32((uint16_t) h);
        if (reference_is_nan(JIT_f16, h))
            cr_assert(isnan(f) && isnan(jitc_f16_to_f32(jitc_f16_from_f32(f))));
        else
            cr_assert_eq(jitc_f16_from_f32(f), h);
        if (reference_is_nan(JIT_bf16, h))
            cr_assert(isnan(b) && isnan(jitc_bf16_to_f32(jitc_bf16_from_f32(b))));
        else
            cr_assert_eq(jitc_bf16_from_f32(b), h);
    }
}

Test(half, floats_and_doubles_round_to_even) {
    for (uint64_t bits = 0; bits < (uint64_t) 1 << 32; bits += 5003) {
        float f = float_from_bits(bits);
        if (isnan(f))
            continue;
        uint64_t f16 = reference_cast(bits, JIT_f32, JIT_f16);
        uint64_t bf16 = reference_cast(bits, JIT_f32, JIT_bf16);
        cr_assert_eq(jitc_f16_from_f32(f), f16, "%#lx", bits);
        cr_assert_eq(jitc_bf16_from_f32(f), bf16, "%#lx", bits);
        cr_assert_eq(jitc_f16_from_f64((double) f), f16, "%#lx", bits);
        cr_assert_eq(jitc_bf16_from_f64((double) f), bf16, "%#lx", bits);
    }
}

/* Programs. */

static uint32_t add(jitc_program *p, jitc_op op, jit_dtype t, uint32_t a, uint32_t b) {
    uint32_t index = 0;
    jitc_inst inst = {.op = (uint8_t) op, .type = (uint8_t) t, .a = a, .b = b};
    cr_assert_eq(jitc_program_add(p, inst, &index), JIT_OK);
    return index;
}

/** x[i] * 2.5, gathered and stored. */
static void build(jitc_program *p) {
    uint32_t x = add(p, JITC_OP_data, JIT_f32, 0, 0);
    uint32_t factor = add(p, JITC_OP_literal, JIT_f32, 1, 0x40200000);
    p->inst[factor].flags = JITC_INST_BAKED;
    uint32_t product = add(p, JITC_OP_mul, JIT_f32, x, factor);
    uint32_t buffer = add(p, JITC_OP_buffer, JIT_f32, 1, 0);
    uint32_t index = add(p, JITC_OP_cast, JIT_u32, product, 0);
    uint32_t mask = add(p, JITC_OP_lt, JIT_bool, x, factor);
    uint32_t masked = add(p, JITC_OP_masked, JIT_u32, index, mask);
    uint32_t gather = add(p, JITC_OP_gather, JIT_f32, buffer, masked);
    add(p, JITC_OP_store, JIT_f32, gather, 3);
    p->head.params = 4;
    p->head.flags = JITC_PROGRAM_TAIL;
}

Test(program, prints_one_instruction_a_line) {
    jitc_program p = {0};
    build(&p);
    char *text = jitc_program_print(&p);
    cr_assert_str_eq(text, "program of 4 parameters tail\n"
                           "v0    f32  data     p0\n"
                           "v1    f32  literal  0x40200000 baked\n"
                           "v2    f32  mul      v0 v1\n"
                           "v3    f32  buffer   p1\n"
                           "v4    u32  cast     v2\n"
                           "v5    bool lt       v0 v1\n"
                           "v6    u32  masked   v4 v5\n"
                           "v7    f32  gather   v3 v6\n"
                           "v8    f32  store    v7 p3\n");
    free(text);
    jitc_program_finish(&p);
}

Test(program, copies_are_equal_until_one_changes) {
    jitc_program p = {0}, copy = {0};
    build(&p);
    cr_assert_eq(jitc_program_copy(&p, &copy), JIT_OK);
    cr_assert_neq(copy.inst, p.inst);
    cr_assert(jitc_program_equal(&p, &copy));
    cr_assert(jitc_hash_equal(jitc_program_hash(&p, 1), jitc_program_hash(&copy, 1)));
    cr_assert(!jitc_hash_equal(jitc_program_hash(&p, 1), jitc_program_hash(&copy, 2)));

    copy.inst[8].b = 2;
    cr_assert(!jitc_program_equal(&p, &copy));
    cr_assert(!jitc_hash_equal(jitc_program_hash(&p, 1), jitc_program_hash(&copy, 1)));
    copy.inst[8].b = 3;
    copy.head.flags = 0;
    cr_assert(!jitc_program_equal(&p, &copy));
    cr_assert(!jitc_hash_equal(jitc_program_hash(&p, 1), jitc_program_hash(&copy, 1)));
    jitc_program_finish(&p);
    jitc_program_finish(&copy);
}

Test(program, grows_and_is_used_again_after_clear) {
    jitc_program p = {0}, empty = {0};
    for (uint32_t i = 0; i < 10000; ++i)
        cr_assert_eq(add(&p, JITC_OP_counter, JIT_u32, 0, 0), i);
    jitc_program_clear(&p);
    cr_assert(jitc_program_equal(&p, &empty));
    cr_assert(jitc_hash_equal(jitc_program_hash(&p, 0), jitc_program_hash(&empty, 0)));
    cr_assert_null(jitc_program_invalid(&p));
    cr_assert_eq(add(&p, JITC_OP_counter, JIT_u32, 0, 0), 0);
    jitc_program_finish(&p);
    jitc_program_finish(&p);
    jitc_program_finish(NULL);
}

/** One change to the program of build(), and a word of what is then wrong. */
typedef struct damage {
    uint32_t inst;
    jitc_inst with;
    const char *word;
} damage;

Test(program, names_what_is_wrong_with_an_instruction) {
    static const damage cases[] = {
        {2, {.op = 200, .type = JIT_f32}, "operation"},
        {2, {.op = JITC_OP_mul, .type = 13}, "type"},
        {2, {.op = JITC_OP_mul, .type = JIT_f32, .a = 0, .b = 2}, "earlier"},
        {2, {.op = JITC_OP_mul, .type = JIT_f64, .a = 0, .b = 1}, "result"},
        {2, {.op = JITC_OP_and, .type = JIT_f32, .a = 0, .b = 1}, "exist"},
        {6, {.op = JITC_OP_add, .type = JIT_f32, .a = 0, .b = 4}, "different types"},
        {6, {.op = JITC_OP_add, .type = JIT_f32, .a = 0, .b = 3}, "no value"},
        {6, {.op = JITC_OP_select, .type = JIT_f32, .a = 0, .b = 0, .c = 0}, "mask"},
        {6, {.op = JITC_OP_masked, .type = JIT_f32, .a = 0, .b = 5}, "index"},
        {6, {.op = JITC_OP_bitcast, .type = JIT_f64, .a = 0}, "widths"},
        {7, {.op = JITC_OP_gather, .type = JIT_f32, .a = 0, .b = 6}, "buffer"},
        {7, {.op = JITC_OP_gather, .type = JIT_f32, .a = 3, .b = 5}, "index"},
        {7, {.op = JITC_OP_scatter, .type = JIT_f32, .a = 3, .b = 4, .c = 6}, "types"},
        {0, {.op = JITC_OP_data, .type = JIT_f32, .a = 4}, "parameter"},
        {3, {.op = JITC_OP_buffer, .type = JIT_f32, .a = 3}, "size"},
        {0, {.op = JITC_OP_counter, .type = JIT_f32}, "counter"},
        {1, {.op = JITC_OP_literal, .type = JIT_u8, .flags = JITC_INST_BAKED, .b = 256}, "width"},
        {8, {.op = JITC_OP_store, .type = JIT_f64, .a = 7, .b = 3}, "store"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
        jitc_program p = {0};
        build(&p);
        cr_assert_null(jitc_program_invalid(&p));
        p.inst[cases[i].inst] = cases[i].with;
        const char *wrong = jitc_program_invalid(&p);
        cr_assert(wrong && strstr(wrong, cases[i].word), "case %zu: %s", i,
                  wrong ? wrong : "valid");
        jitc_program_finish(&p);
    }
}
