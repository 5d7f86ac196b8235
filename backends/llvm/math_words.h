/* math_words.h: arithmetic on vectors of one float type, as words for the forms of math functions.
 * Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_MATH_WORDS_H
#define JITC_LLVM_MATH_WORDS_H
#include "llvm/emit.h"

typedef LLVMValueRef value;

/** What the words work on: f32 with i32, or f64 with i64. */
typedef struct jitc_math {
    jitc_emit *e;
    LLVMTypeRef f, i;  /* element types of one width */
    unsigned mantissa; /* bits of the significand that are stored: 23 or 52 */
    uint64_t one;      /* the bits of 1.0 */
    double magic; /* 1.5 * 2^mantissa: x + magic holds the integer nearest to x in its low bits */
    jit_dtype type;
} jitc_math;

jitc_math jitc_math_begin(jitc_emit *e, jit_dtype type);

/** A way to call a function. */
typedef value jitc_math_call(const jitc_math *m, jitc_op op, const value *args);
/** Call the vector library's function for `op`, in pieces of its own width. */
jitc_math_call jitc_math_library;
/** The same, but always this library's loop over the lanes: slow and right. */
jitc_math_call jitc_math_lanes;
/** `y` where no lane of `mask` is set, which is the usual case; else lanes in mask take the value
 *  of the call. A branch around the call, so the builder goes on in another block. */
value jitc_math_unless_any(const jitc_math *m, value mask, value y, jitc_math_call *call,
                           jitc_op op, const value *args);

static inline value real(const jitc_math *m, double x) {
    return jitc_emit_real(m->e, m->f, x);
}
static inline value integer(const jitc_math *m, uint64_t x) {
    return jitc_emit_int(m->e, m->i, x);
}

#define WORD(name, opcode)                                                                         \
    static inline value name(const jitc_math *m, value a, value b) {                               \
        return m->e->api->LLVMBuildBinOp(m->e->b, opcode, a, b, "");                               \
    }
WORD(plus, LLVMFAdd)
WORD(minus, LLVMFSub)
WORD(times, LLVMFMul)
WORD(over, LLVMFDiv)
WORD(int_plus, LLVMAdd)
WORD(int_minus, LLVMSub)
WORD(bits_and, LLVMAnd)
WORD(bits_or, LLVMOr)
WORD(bits_xor, LLVMXor)
WORD(shift_left, LLVMShl)
WORD(shift_right, LLVMLShr)
#undef WORD

#define WORD(name, predicate)                                                                      \
    static inline value name(const jitc_math *m, value a, value b) {                               \
        return m->e->api->LLVMBuildFCmp(m->e->b, predicate, a, b, "");                             \
    }
WORD(less, LLVMRealOLT)    /* comparisons are false for NaN ... */
WORD(greater, LLVMRealOGT) /* (so a select keeps it in its other branch) */
WORD(equal, LLVMRealOEQ)
WORD(unordered, LLVMRealUNO) /* true if a or b is NaN */
#undef WORD

static inline value choose(const jitc_math *m, value mask, value a, value b) {
    return m->e->api->LLVMBuildSelect(m->e->b, mask, a, b, "");
}
static inline value to_bits(const jitc_math *m, value x) {
    return m->e->api->LLVMBuildCast(m->e->b, LLVMBitCast, x, jitc_emit_vector(m->e, m->i), "");
}
static inline value from_bits(const jitc_math *m, value x) {
    return m->e->api->LLVMBuildCast(m->e->b, LLVMBitCast, x, jitc_emit_vector(m->e, m->f), "");
}
static inline value magnitude(const jitc_math *m, value x) {
    return jitc_emit_intrinsic(m->e, "llvm.fabs", jitc_emit_vector(m->e, m->f), 1, &x);
}
static inline value square_root(const jitc_math *m, value x) {
    return jitc_emit_intrinsic(m->e, "llvm.sqrt", jitc_emit_vector(m->e, m->f), 1, &x);
}
/** x with the sign bit of `sign`. */
static inline value with_sign(const jitc_math *m, value x, value sign) {
    value args[2] = {x, sign};
    return jitc_emit_intrinsic(m->e, "llvm.copysign", jitc_emit_vector(m->e, m->f), 2, args);
}
/** a b + c: in one rounding where the machine can, else in two. */
static inline value muladd(const jitc_math *m, value a, value b, value c) {
    if (m->e->isa >= JITC_ISA_V3)
        return jitc_emit_fma(m->e, a, b, c);
    return plus(m, times(m, a, b), c);
}
/** The f64 vector of an f32 vector, and back; `m` is of f64, of f32. */
static inline value widen(const jitc_math *m, value x) {
    return m->e->api->LLVMBuildCast(m->e->b, LLVMFPExt, x, jitc_emit_vector(m->e, m->f), "");
}
static inline value narrow(const jitc_math *m, value x) {
    return m->e->api->LLVMBuildCast(m->e->b, LLVMFPTrunc, x, jitc_emit_vector(m->e, m->f), "");
}
/** `count` elements of x from `first` on. */
value jitc_math_piece(const jitc_math *m, value x, unsigned first, unsigned count);
/** The `count` vectors of `lanes` elements at v, one behind the other; count is a power of two, v
 * is overwritten. */
value jitc_math_join(const jitc_math *m, value *v, unsigned count, unsigned lanes);

/** c[0] + c[1] x + c[2] x^2 ... by Horner's rule: the fewest operations. */
value jitc_math_polynomial(const jitc_math *m, const double *c, unsigned count, value x);
/** The same in pairs, pairs of pairs ...: a few operations more, a third of the latency. */
value jitc_math_polynomial_in_pairs(const jitc_math *m, const double *c, unsigned count, value x);
#define POLYNOMIAL(m, c, x) jitc_math_polynomial(m, c, sizeof(c) / sizeof *(c), x)
#define IN_PAIRS(m, c, x)   jitc_math_polynomial_in_pairs(m, c, sizeof(c) / sizeof *(c), x)

/** The integer nearest to a float: as a number, and in the low bits of an integer (above: rubbish).
 */
typedef struct whole {
    value number, bits;
} whole;

/** |t| < 2^(mantissa - 1). */
whole jitc_math_nearest(const jitc_math *m, value t);
/** 2^n for an integer in low bits; n within the exponents of normal numbers. */
value jitc_math_power_of_two(const jitc_math *m, value n);
/** y 2^n with one rounding, down to subnormals and up to infinity; 0.5 < |y| < 2. */
value jitc_math_scale(const jitc_math *m, value y, whole n);
/** x, or the limit that it is beyond; NaN stays. */
value jitc_math_clamp(const jitc_math *m, value x, double low, double high);
#endif
