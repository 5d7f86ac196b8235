/* reduce.c: what combines elements: reductions, prefix sums, scatter_reduce.
 * Layer: ir.  May include: core. */
#include "ir/bits.h"
#include "ir/ir.h"

jitc_op jitc_reduce_op(jit_reduce_op op) {
    static const uint8_t ops[JITC_REDUCE_COUNT] = {
        [JIT_REDUCE_ADD] = JITC_OP_add, [JIT_REDUCE_MUL] = JITC_OP_mul,
        [JIT_REDUCE_MIN] = JITC_OP_min, [JIT_REDUCE_MAX] = JITC_OP_max,
        [JIT_REDUCE_AND] = JITC_OP_and, [JIT_REDUCE_OR] = JITC_OP_or};
    return (jitc_op) ops[op];
}

const char *jitc_reduce_name(jit_reduce_op op) {
    return jitc_ops[jitc_reduce_op(op)].name;
}

jit_dtype jitc_reduce_type(jit_reduce_op op, jit_dtype t) {
    bool half = t == JIT_f16 || t == JIT_bf16;
    return half && (op == JIT_REDUCE_ADD || op == JIT_REDUCE_MUL) ? JIT_f32 : t;
}

/* 1 as an element, also of floats. */
static uint64_t one(jit_dtype t) {
    const uint64_t in[3] = {1, 0, 0};
    uint64_t bits = 1;
    jitc_fold(JITC_OP_cast, JIT_u32, t, in, &bits);
    return bits;
}

/* The largest value of a type, or the smallest; floats: infinity. */
static uint64_t extreme(jit_dtype t, bool largest) {
    uint64_t all = jitc_bits_mask(t), sign = all ^ all >> 1;
    switch (jitc_dtypes[t].cls) {
        case JITC_FLOAT: break;
        case JITC_INT: return largest ? all ^ sign : sign;
        default: return largest ? all : 0;
    }
    uint64_t infinity = jitc_f64_bits(largest ? __builtin_inf() : -__builtin_inf());
    uint64_t in[3] = {infinity, 0, 0}, bits = 0;
    jitc_fold(JITC_OP_cast, JIT_f64, t, in, &bits);
    return bits;
}

uint64_t jitc_reduce_identity(jit_reduce_op op, jit_dtype t) {
    switch (op) {
        case JIT_REDUCE_MUL: return one(t);
        case JIT_REDUCE_MIN: return extreme(t, true);
        case JIT_REDUCE_MAX: return extreme(t, false);
        case JIT_REDUCE_AND: return t == JIT_bool ? 1 : jitc_bits_mask(t);
        default: return 0;
    }
}
