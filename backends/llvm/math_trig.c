/* math_trig.c: sine and cosine, and odd functions from tables.
 * Layer: llvm.  May include: core, ir. */
#include "llvm/math_coefficients.h"
#include "llvm/math_forms.h"
#include <math.h>

/* Sine and cosine: x = n pi/2 + r; the quadrant n mod 4 says which of +-sin(r), +-cos(r). */

enum { NEAR = 8192 }; /* up to here n times the first two parts of pi/2 is exact */

/** r = high + low, |r| <= pi/4. */
typedef struct reduced {
    value high, low, quadrant;
} reduced;

static reduced reduce_angle(const jitc_math *m, value x) {
    whole n = jitc_math_nearest(m, times(m, x, real(m, M_2_PI)));
    value r = muladd(m, n.number, real(m, -HALF_PI_F32[0]), x);
    r = muladd(m, n.number, real(m, -HALF_PI_F32[1]), r);
    value third = real(m, HALF_PI_F32[2]), p = times(m, n.number, third);
    value error = muladd(m, n.number, third, minus(m, real(m, 0), p)); /* of p */
    value high = minus(m, r, p), low = minus(m, minus(m, r, high), p);
    error = muladd(m, n.number, real(m, HALF_PI_F32[3]), error);
    return (reduced) {high, minus(m, low, error), n.bits};
}

static value sine_of_rest(const jitc_math *m, const reduced *a, value square) {
    value series = times(m, POLYNOMIAL(m, SIN_F32, square), square);
    return plus(m, a->high, muladd(m, series, a->high, a->low));
}

static value cosine_of_rest(const jitc_math *m, const reduced *a, value square) {
    value half = real(m, -0.5), one = real(m, 1), sum = muladd(m, square, half, one);
    value error = muladd(m, square, half, minus(m, one, sum)); /* of sum = 1 - r^2 / 2 */
    error = minus(m, error, times(m, a->high, a->low));
    value series = POLYNOMIAL(m, COS_F32, square);
    return plus(m, sum, muladd(m, series, times(m, square, square), error));
}

static value near_sine(const jitc_math *m, value x, bool cosine) {
    reduced a = reduce_angle(m, x);
    value square = times(m, a.high, a.high), one = integer(m, 1), two = integer(m, 2);
    value quadrant = cosine ? int_plus(m, a.quadrant, one) : a.quadrant;
    value odd =
        m->e->api->LLVMBuildICmp(m->e->b, LLVMIntNE, bits_and(m, quadrant, one), integer(m, 0), "");
    value y = choose(m, odd, cosine_of_rest(m, &a, square), sine_of_rest(m, &a, square));
    value sign = shift_left(m, bits_and(m, quadrant, two), integer(m, 30));
    return from_bits(m, bits_xor(m, to_bits(m, y), sign));
}

/* Infinity and NaN give NaN on the near path: infinity minus infinity. */
static value sine(const jitc_math *m, value x, bool cosine) {
    value size = magnitude(m, x);
    value far = bits_and(m, greater(m, size, real(m, NEAR)), less(m, size, real(m, INFINITY)));
    return jitc_math_unless_any(m, far, near_sine(m, x, cosine), jitc_math_library,
                                cosine ? JITC_OP_cos : JITC_OP_sin, &x);
}

value jitc_math_sin_f32(const jitc_math *m, const value *args) {
    value y = sine(m, args[0], false);
    return choose(m, equal(m, args[0], real(m, 0)), args[0], y); /* -0 */
}

value jitc_math_cos_f32(const jitc_math *m, const value *args) {
    return sine(m, args[0], true);
}

/* Odd functions from tables: f(x) = |x| g(|x|), a polynomial for g in each of 16 intervals. The
 * coefficients are permutes of a register, two of them where it holds 8. */

enum { ENTRIES = 16, MAX_PIECES = 8 };

/** Which entry each lane wants, in vectors as wide as a permute. */
typedef struct choice {
    value index[MAX_PIECES];
    unsigned pieces, lanes;
} choice;

static choice make_choice(const jitc_math *m, value index) {
    unsigned lanes = m->e->isa >= JITC_ISA_V4 && m->e->lanes >= 16 ? 16 : 8;
    choice c = {.pieces = m->e->lanes / lanes, .lanes = lanes};
    assert(c.pieces >= 1 && c.pieces <= MAX_PIECES);
    for (unsigned k = 0; k < c.pieces; k++)
        c.index[k] = jitc_math_piece(m, index, k * lanes, lanes);
    return c;
}

static value entries(const jitc_math *m, const double *table, unsigned count) {
    value entry[ENTRIES];
    for (unsigned k = 0; k < count; k++)
        entry[k] = m->e->api->LLVMConstReal(m->f, table[k]);
    return m->e->api->LLVMConstVector(entry, count);
}

static value look_up_8(const jitc_math *m, const double *table, value index) {
    static const char permute[] = "llvm.x86.avx2.permps"; /* looks at 3 bits of the index */
    const jitc_llvm *api = m->e->api;
    value seven[8], low[2] = {entries(m, table, 8), index},
                    high[2] = {entries(m, table + 8, 8), index};
    for (unsigned k = 0; k < 8; k++)
        seven[k] = api->LLVMConstInt(m->i, 7, 0);
    value upper = jitc_emit_icmp(m->e, LLVMIntSGT, index, api->LLVMConstVector(seven, 8));
    return choose(m, upper, jitc_emit_intrinsic(m->e, permute, NULL, 2, high),
                  jitc_emit_intrinsic(m->e, permute, NULL, 2, low));
}

static value look_up_16(const jitc_math *m, const double *table, value index) {
    value args[2] = {entries(m, table, 16), index};
    return jitc_emit_intrinsic(m->e, "llvm.x86.avx512.permvar.sf.512", NULL, 2, args);
}

static value look_up(const jitc_math *m, const double *table, const choice *c) {
    value part[MAX_PIECES];
    for (unsigned k = 0; k < c->pieces; k++)
        part[k] =
            c->lanes == 16 ? look_up_16(m, table, c->index[k]) : look_up_8(m, table, c->index[k]);
    return jitc_math_join(m, part, c->pieces, c->lanes);
}

/** size g(size), where g's coefficients stand in `rows` rows, highest power first; the constant is
 *  high + low in the last two. */
static value from_table(const jitc_math *m, value size, value index, const double (*table)[ENTRIES],
                        unsigned rows, const double *middle) {
    choice c = make_choice(m, index);
    value distance = minus(m, size, look_up(m, middle, &c));
    value sum = look_up(m, table[0], &c);
    for (unsigned k = 1; k + 1 < rows; k++)
        sum = muladd(m, sum, distance, look_up(m, table[k], &c));
    return muladd(m, size, look_up(m, table[rows - 1], &c), times(m, size, sum));
}

/** The value at |x| below `end` (NaN, too), 1 from there on; then the sign and NaN. */
static value finish_odd(const jitc_math *m, value y, value x, double end) {
    y = choose(m, less(m, magnitude(m, x), real(m, end)), y, real(m, 1));
    return choose(m, unordered(m, x, x), x, with_sign(m, y, x));
}

static value at_most(const jitc_math *m, value x, double limit) {
    return choose(m, less(m, x, real(m, limit)), x, real(m, limit));
}

value jitc_math_erf_f32(const jitc_math *m, const value *args) {
    value x = args[0], size = magnitude(m, x), near = at_most(m, size, 3.9999);
    value index = jitc_emit_cast(m->e, LLVMFPToSI, times(m, near, real(m, 4)), m->i);
    value y = from_table(m, near, index, ERF_F32, sizeof ERF_F32 / sizeof *ERF_F32, ERF_F32_MIDDLE);
    /* Products of the smallest numbers would underflow. */
    value linear = muladd(m, size, real(m, M_2_SQRTPI - 1), size);
    y = choose(m, less(m, size, real(m, 1e-10)), linear, y);
    return finish_odd(m, y, x, 3.9199);
}
