/* slots.c: partial results.  Layer: llvm.  May include: core, ir.
 *
 * The same as jitc_emit_combine() on one lane, to the last bit. */
#include "llvm/slots.h"
#include <string.h>

static uint64_t combine_integers(jit_reduce_op op, jit_dtype t, uint64_t a, uint64_t b) {
    uint64_t mask = jitc_bits_mask(t);
    uint64_t sign = jitc_dtypes[t].cls == JITC_INT ? mask ^ mask >> 1 : 0;
    a &= mask;
    b &= mask;
    switch (op) {
        case JIT_REDUCE_ADD: return a + b;
        case JIT_REDUCE_MUL: return a * b;
        case JIT_REDUCE_MIN: return (a ^ sign) < (b ^ sign) ? a : b;
        case JIT_REDUCE_MAX: return (a ^ sign) > (b ^ sign) ? a : b;
        case JIT_REDUCE_AND: return a & b;
        default: return a | b;
    }
}

/* combine_f32, combine_f64 */
#define COMBINE(name, real, bits)                                                                  \
    static uint64_t name(jit_reduce_op op, uint64_t a, uint64_t b) {                               \
        bits x = (bits) a, y = (bits) b, r;                                                        \
        real v, w;                                                                                 \
        memcpy(&v, &x, sizeof v);                                                                  \
        memcpy(&w, &y, sizeof w);                                                                  \
        if (op == JIT_REDUCE_ADD || op == JIT_REDUCE_MUL) {                                        \
            v = op == JIT_REDUCE_ADD ? v + w : v * w;                                              \
            memcpy(&r, &v, sizeof r);                                                              \
            return r;                                                                              \
        }                                                                                          \
        if (v != v || w != w)                                                                      \
            return v != v ? x : y;                                                                 \
        if (v == w) /* of zeros the negative one, or the positive one */                           \
            return op == JIT_REDUCE_MIN ? x | y : x & y;                                           \
        return (op == JIT_REDUCE_MIN) == (v < w) ? x : y;                                          \
    }
COMBINE(combine_f32, float, uint32_t)
COMBINE(combine_f64, double, uint64_t)
#undef COMBINE

uint64_t jitc_slot_combine(jit_reduce_op op, jit_dtype sum, uint64_t a, uint64_t b) {
    if (sum == JIT_f32)
        return combine_f32(op, a, b);
    return sum == JIT_f64 ? combine_f64(op, a, b) : combine_integers(op, sum, a, b);
}

uint64_t jitc_slots_total(jit_reduce_op op, jit_dtype sum, uint64_t *slots, uint64_t count,
                          uint64_t stride) {
    for (; count > 1; count = (count + 1) / 2) {
        for (uint64_t i = 0; i < count / 2; i++)
            slots[i * stride] =
                jitc_slot_combine(op, sum, slots[2 * i * stride], slots[(2 * i + 1) * stride]);
        if (count % 2)
            slots[count / 2 * stride] = slots[(count - 1) * stride];
    }
    return slots[0];
}

void jitc_slot_store(jit_dtype type, uint64_t slot, void *array, uint64_t at) {
    unsigned bytes = jitc_dtypes[type].bytes;
    if (type == JIT_f16 || type == JIT_bf16) {
        uint32_t bits = (uint32_t) slot;
        float v;
        memcpy(&v, &bits, sizeof v);
        slot = type == JIT_f16 ? jitc_f16_from_f32(v) : jitc_bf16_from_f32(v);
    }
    memcpy((char *) array + at * bytes, &slot, bytes);
}
