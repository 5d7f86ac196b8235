/* combining.c: programs that combine lanes, and what they should give, for the tests of backends.
 */
#include "combining.h"
#include <math.h>
#include <string.h>

static bool is_real(jit_dtype t) {
    return jitc_dtypes[t].cls == JITC_FLOAT;
}

static double decode(jit_dtype t, uint64_t bits) {
    const uint64_t in[3] = {bits, 0, 0};
    double d;
    uint64_t wide = bits;
    if (t == JIT_f32) {
        uint32_t narrow = (uint32_t) bits;
        float f;
        memcpy(&f, &narrow, sizeof f);
        return (double) f;
    }
    if (t != JIT_f64)
        jitc_fold(JITC_OP_cast, t, JIT_f64, in, &wide);
    memcpy(&d, &wide, sizeof d);
    return d;
}

static uint64_t encode(jit_dtype t, double d) {
    uint64_t in[3] = {0, 0, 0}, bits = 0;
    memcpy(in, &d, sizeof d);
    if (t == JIT_f64)
        return in[0];
    jitc_fold(JITC_OP_cast, JIT_f64, t, in, &bits);
    return bits;
}

void reference_init(reference *r, jit_reduce_op op, jit_dtype type) {
    *r = (reference) {.op = op, .type = type, .bits = jitc_reduce_identity(op, type)};
    if (is_real(type))
        r->real = decode(type, r->bits);
}

static double least(double a, double b) {
    if (isnan(a) || isnan(b))
        return a + b;
    return a < b || (a == b && signbit(a)) ? a : b;
}

static double combine_reals(jit_reduce_op op, double a, double b) {
    switch (op) {
        case JIT_REDUCE_ADD: return a + b;
        case JIT_REDUCE_MUL: return a * b;
        case JIT_REDUCE_MIN: return least(a, b);
        default: return -least(-a, -b);
    }
}

static bool is_less(jit_dtype t, uint64_t a, uint64_t b) {
    unsigned shift = 64u - jitc_dtypes[t].bits;
    if (jitc_dtypes[t].cls == JITC_INT)
        return (int64_t) (a << shift) < (int64_t) (b << shift);
    return a < b;
}

void reference_add(reference *r, uint64_t e) {
    uint64_t mask = jitc_bits_mask(r->type);
    if (is_real(r->type)) {
        r->real = combine_reals(r->op, r->real, decode(r->type, e));
        return;
    }
    switch (r->op) {
        case JIT_REDUCE_ADD: r->bits = (r->bits + e) & mask; break;
        case JIT_REDUCE_MUL: r->bits = (r->bits * e) & mask; break;
        case JIT_REDUCE_MIN: r->bits = is_less(r->type, e, r->bits) ? e : r->bits; break;
        case JIT_REDUCE_MAX: r->bits = is_less(r->type, r->bits, e) ? e : r->bits; break;
        case JIT_REDUCE_AND: r->bits &= e; break;
        default: r->bits |= e; break;
    }
}

uint64_t reference_value(const reference *r) {
    return is_real(r->type) ? encode(r->type, r->real) : r->bits;
}

bool same_element(jit_dtype t, uint64_t a, uint64_t b) {
    return a == b || (is_nan_bits(t, a) && is_nan_bits(t, b));
}

uint64_t element_for(jit_reduce_op op, jit_dtype t, uint64_t i) {
    static const double factors[] = {2, 0.5, -1, 0.25, 4, 1, 0.5, -2, 1, 1, 1, -1, 1};
    uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u;
    if (is_real(t) && op == JIT_REDUCE_MUL)
        return encode(t, factors[i % (sizeof factors / sizeof *factors)]);
    if (is_real(t))
        return encode(t, (double) (mixed >> 59) - 11);
    if (t == JIT_bool)
        return op == JIT_REDUCE_AND ? i % 113 != 112 : i % 113 == 112;
    if (op == JIT_REDUCE_MUL)
        return (mixed | 1) & jitc_bits_mask(t);
    if (op == JIT_REDUCE_AND || op == JIT_REDUCE_OR) { /* a bit now and then */
        uint64_t rare = i % 37 == 36 ? (uint64_t) 1 << (mixed >> 58) : 0;
        return (op == JIT_REDUCE_AND ? ~rare : rare) & jitc_bits_mask(t);
    }
    return mixed >> (64 - jitc_dtypes[t].bits);
}

/* What spoils a sum or product of floats spoils the others too. */
static uint64_t spoiler(jit_reduce_op op, jit_dtype t) {
    uint64_t identity = jitc_reduce_identity(op, t), mask = jitc_bits_mask(t);
    if (is_real(t))
        return encode(t, (double) NAN);
    if (t == JIT_bool)
        return op == JIT_REDUCE_OR;
    switch (op) {
        case JIT_REDUCE_MIN: return jitc_reduce_identity(JIT_REDUCE_MAX, t);
        case JIT_REDUCE_MAX: return jitc_reduce_identity(JIT_REDUCE_MIN, t);
        case JIT_REDUCE_AND: return 0;
        case JIT_REDUCE_OR: return mask;
        default: return (identity + 5) & mask;
    }
}

void fill_for(jit_reduce_op op, jit_dtype t, void *array, uint64_t n, size_t padding) {
    for (uint64_t i = 0; i < n; i++)
        write_element(t, array, i, element_for(op, t, i));
    for (uint64_t i = n; i < n + padding / jitc_dtypes[t].bytes; i++)
        write_element(t, array, i, spoiler(op, t));
}

uint32_t add_param(jitc_program *p, uint64_t value, uint64_t *params) {
    params[p->head.params] = value;
    return p->head.params++;
}

void add_reduce(jitc_program *p, jit_reduce_op op, uint32_t value, void *out, uint64_t *params) {
    uint32_t to = add_param(p, (uintptr_t) out, params);
    add_flagged(p, (jitc_inst) {.op = JITC_OP_reduce,
                                .type = p->inst[value].type,
                                .aux = (uint8_t) op,
                                .a = value,
                                .b = to});
}

void add_scratch(jitc_program *p, uint64_t *params) {
    p->head.flags |= JITC_PROGRAM_SCRATCH;
    p->head.scratch = p->head.params;
    for (int i = 0; i < JITC_SCRATCH_PARAMS; i++)
        add_param(p, 0, params);
}
