/* update.c: combining values into elements of arrays.  Layer: llvm.  May include: core, ir.
 *
 * An element is its bits, in an unsigned integer of its width. */
#include "llvm/update.h"
#include "core/sync.h"
#include "ir/bits.h"
#include <string.h>
#undef bool /* the tag of a type, below */

/* ---- Values of a type ---- */

/* jit_min() and jit_max(): of zeros the sign decides, and NaN wins. */
static double least(double a, double b) {
    if (a == b)
        return jitc_f64_from_bits(jitc_f64_bits(a) | jitc_f64_bits(b));
    return a < b || a != a ? a : b;
}
static double greatest(double a, double b) {
    if (a == b)
        return jitc_f64_from_bits(jitc_f64_bits(a) & jitc_f64_bits(b));
    return a > b || a != a ? a : b;
}

/* X(type, integer of the bits, integer by sign): the integers. */
#define INTEGERS(X)                                                                                \
    X(i8, uint8_t, int8_t)                                                                         \
    X(u8, uint8_t, uint8_t)                                                                        \
    X(i16, uint16_t, int16_t)                                                                      \
    X(u16, uint16_t, uint16_t)                                                                     \
    X(i32, uint32_t, int32_t)                                                                      \
    X(u32, uint32_t, uint32_t)                                                                     \
    X(i64, uint64_t, int64_t)                                                                      \
    X(u64, uint64_t, uint64_t)
/* X(type, integer of the bits, type to compute in, from bits, to bits): the floats. */
#define FLOATS(X)                                                                                  \
    X(f16, uint16_t, float, jitc_f16_to_f32, jitc_f16_from_f32)                                    \
    X(bf16, uint16_t, float, jitc_bf16_to_f32, jitc_bf16_from_f32)                                 \
    X(f32, uint32_t, float, jitc_f32_from_bits, jitc_f32_bits)                                     \
    X(f64, uint64_t, double, jitc_f64_from_bits, jitc_f64_bits)

/* combine_add_i32(a, b): the bits of the result. */
#define COMBINE(op, type, bits, expression)                                                        \
    static inline bits combine_##op##_##type(bits a, bits b) {                                     \
        return (bits) (expression);                                                                \
    }
#define COMBINE_INTEGER(type, bits, integer)                                                       \
    COMBINE(add, type, bits, (uint64_t) a + b)                                                     \
    COMBINE(mul, type, bits, (uint64_t) a *b)                                                      \
    COMBINE(min, type, bits, (integer) a < (integer) b ? a : b)                                    \
    COMBINE(max, type, bits, (integer) a < (integer) b ? b : a)                                    \
    COMBINE(and, type, bits, a &b)                                                                 \
    COMBINE(or, type, bits, a | b)
#define COMBINE_FLOAT(type, bits, real, of, to)                                                    \
    COMBINE(add, type, bits, to(of(a) + of(b)))                                                    \
    COMBINE(mul, type, bits, to(of(a) * of(b)))                                                    \
    COMBINE(min, type, bits, to((real) least((double) of(a), (double) of(b))))                     \
    COMBINE(max, type, bits, to((real) greatest((double) of(a), (double) of(b))))
INTEGERS(COMBINE_INTEGER)
FLOATS(COMBINE_FLOAT)
COMBINE(and, bool, uint8_t, (a != 0) & (b != 0))
COMBINE(or, bool, uint8_t, (a != 0) | (b != 0))

/* X(op, type, integer of the bits): all that there are. */
#define ALL_BITS(X, type, bits)                                                                    \
    X(and, type, bits)                                                                             \
    X(or, type, bits)
#define ALL_NUMBERS(X, type, bits)                                                                 \
    X(add, type, bits)                                                                             \
    X(mul, type, bits)                                                                             \
    X(min, type, bits)                                                                             \
    X(max, type, bits)
#define ALL_INTEGER(X, type, bits)                                                                 \
    ALL_NUMBERS(X, type, bits)                                                                     \
    ALL_BITS(X, type, bits)
#define ALL(X)                                                                                     \
    ALL_BITS(X, bool, uint8_t)                                                                     \
    ALL_INTEGER(X, i8, uint8_t)                                                                    \
    ALL_INTEGER(X, u8, uint8_t)                                                                    \
    ALL_INTEGER(X, i16, uint16_t)                                                                  \
    ALL_INTEGER(X, u16, uint16_t)                                                                  \
    ALL_INTEGER(X, i32, uint32_t)                                                                  \
    ALL_INTEGER(X, u32, uint32_t)                                                                  \
    ALL_INTEGER(X, i64, uint64_t)                                                                  \
    ALL_INTEGER(X, u64, uint64_t)                                                                  \
    ALL_NUMBERS(X, f16, uint16_t)                                                                  \
    ALL_NUMBERS(X, bf16, uint16_t)                                                                 \
    ALL_NUMBERS(X, f32, uint32_t)                                                                  \
    ALL_NUMBERS(X, f64, uint64_t)

/* ---- Updates ---- */

/* Relaxed: which of several additions comes first is nobody's business, and the end of the task
 * orders them before what reads the array. A minimum that is there already is not written again. */
#define UPDATE(op, type, bits)                                                                     \
    static inline bits share_##op##_##type(bits *element, bits value) {                            \
        bits old = __atomic_load_n(element, __ATOMIC_RELAXED), new;                                \
        do {                                                                                       \
            new = combine_##op##_##type(old, value);                                               \
        } while (new != old && !__atomic_compare_exchange_n(element, &old, new, true,              \
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED));  \
        return old;                                                                                \
    }                                                                                              \
    static void update_##op##_##type(const uint64_t *at, const void *values, void *old,            \
                                     uint64_t lanes, uint64_t shared) {                            \
        for (; lanes; lanes &= lanes - 1) {                                                        \
            unsigned lane = (unsigned) __builtin_ctzll(lanes);                                     \
            bits *element = (bits *) (uintptr_t) at[lane], before = 0;                             \
            bits value = ((const bits *) values)[lane];                                            \
            if (shared) {                                                                          \
                before = share_##op##_##type(element, value);                                      \
            } else {                                                                               \
                before = *element;                                                                 \
                *element = combine_##op##_##type(before, value);                                   \
            }                                                                                      \
            if (old)                                                                               \
                ((bits *) old)[lane] = before;                                                     \
        }                                                                                          \
    }                                                                                              \
    static void merge_##op##_##type(void *to, const void *table, uint64_t count) {                 \
        bits identity = (bits) jitc_update_identity(REDUCE_##op, JIT_##type);                      \
        bits *elements = to;                                                                       \
        const bits *values = table;                                                                \
        for (uint64_t i = 0; i < count; i++)                                                       \
            if (values[i] != identity)                                                             \
                elements[i] = combine_##op##_##type(elements[i], values[i]);                       \
    }
#define REDUCE_add JIT_REDUCE_ADD
#define REDUCE_mul JIT_REDUCE_MUL
#define REDUCE_min JIT_REDUCE_MIN
#define REDUCE_max JIT_REDUCE_MAX
#define REDUCE_and JIT_REDUCE_AND
#define REDUCE_or  JIT_REDUCE_OR

uint64_t jitc_update_identity(jit_reduce_op op, jit_dtype type) {
    uint64_t all = jitc_bits_mask(type);
    if (op == JIT_REDUCE_ADD && jitc_dtypes[type].cls == JITC_FLOAT)
        return all ^ all >> 1; /* -0 + x is x, also where x is -0 */
    return jitc_reduce_identity(op, type);
}

ALL(UPDATE)

typedef struct entry {
    const char *name;
    jitc_update update;
    jitc_merge merge;
} entry;

static const entry *entry_of(jit_reduce_op op, jit_dtype type) {
    static const entry all[JITC_DTYPE_COUNT][JITC_REDUCE_COUNT] = {
#define ENTRY(op, type, bits)                                                                      \
    [JIT_##type][REDUCE_##op] = {"jitc_update_" #op "_" #type, update_##op##_##type,               \
                                 merge_##op##_##type},
        ALL(ENTRY)};
    return &all[type][op];
}

void *jitc_update_find(const char *name) {
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int o = 0; o < JITC_REDUCE_COUNT; o++) {
            const entry *e = entry_of((jit_reduce_op) o, (jit_dtype) t);
            if (e->name && strcmp(e->name, name) == 0) {
                void *address;
                memcpy(&address, &e->update, sizeof address);
                return address;
            }
        }
    return NULL;
}

const char *jitc_update_name(jit_reduce_op op, jit_dtype type) {
    return entry_of(op, type)->name;
}

jitc_merge jitc_merge_function(jit_reduce_op op, jit_dtype type) {
    return entry_of(op, type)->merge;
}
