/* reference.c: an independent implementation of the operations, slow and obvious. */
#include "reference.h"
#include <math.h>
#include <mpfr.h>
#include <string.h>

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 unsigned_wide;

enum { MPFR_BITS = 160 }; /* of true values that are not exact */

/* Integers and bool. */

static int width_of(jit_dtype t) {
    return t == JIT_bool ? 1 : jitc_dtypes[t].bits;
}
static wide to_wide(jit_dtype t, uint64_t bits) {
    wide value = (wide) bits;
    if (jitc_dtypes[t].cls == JITC_INT && bits >> (width_of(t) - 1) & 1)
        value -= (wide) 1 << width_of(t);
    return value;
}
static uint64_t wrap(jit_dtype t, wide value) {
    return (uint64_t) ((unsigned_wide) value % ((unsigned_wide) 1 << width_of(t)));
}
/** Quotient rounded down by a power of two. */
static wide floor_shift(wide value, uint64_t amount) {
    wide divisor = (wide) 1 << (amount < 100 ? amount : 100);
    wide quotient = value / divisor;
    return quotient * divisor > value ? quotient - 1 : quotient;
}
/** Bits with the most significant one first, or last, walked by arithmetic. */
static int bit_at(uint64_t bits, int i) {
    while (i-- > 0)
        bits /= 2;
    return (int) (bits % 2);
}

static bool integer_unary(jitc_op op, jit_dtype t, uint64_t a, uint64_t *out) {
    wide x = to_wide(t, a);
    int width = width_of(t), count = 0;
    switch (op) {
        case JITC_OP_neg: *out = wrap(t, -x); return true;
        case JITC_OP_abs: *out = wrap(t, x < 0 ? -x : x); return true;
        case JITC_OP_not: *out = wrap(t, -1 - x); return true;
        case JITC_OP_popc:
            for (int i = 0; i < width; ++i)
                count += bit_at(a, i);
            break;
        case JITC_OP_clz:
            while (count < width && !bit_at(a, width - 1 - count))
                ++count;
            break;
        case JITC_OP_ctz:
            while (count < width && !bit_at(a, count))
                ++count;
            break;
        case JITC_OP_brev:
            *out = 0;
            for (int i = 0; i < width; ++i)
                *out = *out * 2 + (uint64_t) bit_at(a, i);
            return true;
        default: return false;
    }
    *out = (uint64_t) count;
    return true;
}

static uint64_t multiply_high(jit_dtype t, uint64_t a, uint64_t b) {
    if (jitc_dtypes[t].cls == JITC_UINT) /* the product may need all 128 bits */
        return (uint64_t) ((unsigned_wide) a * b >> width_of(t));
    return wrap(t, floor_shift(to_wide(t, a) * to_wide(t, b), (uint64_t) width_of(t)));
}

static bool integer_binary(jitc_op op, jit_dtype t, const uint64_t in[2], uint64_t *out) {
    wide x = to_wide(t, in[0]), y = to_wide(t, in[1]);
    uint64_t width = (uint64_t) width_of(t);
    switch (op) {
        case JITC_OP_add: *out = wrap(t, x + y); return true;
        case JITC_OP_sub: *out = wrap(t, x - y); return true;
        case JITC_OP_mul:
            *out = wrap(t, (wide) ((unsigned_wide) x * (unsigned_wide) y));
            return true;
        case JITC_OP_div: *out = y == 0 ? 0 : wrap(t, x / y); return true;
        case JITC_OP_mod: *out = y == 0 ? 0 : wrap(t, x - x / y * y); return true;
        case JITC_OP_mul_hi: *out = multiply_high(t, in[0], in[1]); return true;
        case JITC_OP_shl:
            *out = in[1] >= width ? 0 : wrap(t, (wide) ((unsigned_wide) x << in[1]));
            return true;
        case JITC_OP_shr: *out = wrap(t, floor_shift(x, in[1])); return true;
        case JITC_OP_and: *out = in[0] & in[1]; return true;
        case JITC_OP_or: *out = in[0] | in[1]; return true;
        case JITC_OP_xor: *out = in[0] ^ in[1]; return true;
        case JITC_OP_eq: *out = x == y; return true;
        case JITC_OP_ne: *out = x != y; return true;
        case JITC_OP_lt: *out = x < y; return true;
        case JITC_OP_le: *out = x <= y; return true;
        case JITC_OP_gt: *out = x > y; return true;
        case JITC_OP_ge: *out = x >= y; return true;
        case JITC_OP_min: *out = x < y ? in[0] : in[1]; return true;
        case JITC_OP_max: *out = x > y ? in[0] : in[1]; return true;
        default: return false;
    }
}

/* Floats. */

/** mantissa: with the leading 1. least: exponent of the smallest subnormal, great: of the first
 * power of two that is too large, both with the binary point left of the leading 1, as in MPFR. */
typedef struct format {
    int mantissa, least, great;
} format;

static format format_of(jit_dtype t) {
    switch (t) {
        case JIT_f16: return (format) {11, -23, 16};
        case JIT_bf16: return (format) {8, -132, 128};
        case JIT_f32: return (format) {24, -148, 128};
        default: return (format) {53, -1073, 1024};
    }
}
static uint64_t sign_bit(jit_dtype t) {
    return (uint64_t) 1 << (jitc_dtypes[t].bits - 1);
}
static uint64_t infinity_bits(jit_dtype t) {
    int stored = format_of(t).mantissa - 1;
    return (sign_bit(t) - 1) >> stored << stored;
}
bool reference_is_nan(jit_dtype t, uint64_t bits) {
    return jitc_dtypes[t].cls == JITC_FLOAT && (bits & (sign_bit(t) - 1)) > infinity_bits(t);
}

/** Exact, in a variable of at least 64 bits. */
static void decode(mpfr_t x, jit_dtype t, uint64_t bits) {
    format f = format_of(t);
    uint64_t magnitude = bits & (sign_bit(t) - 1),
             fraction = magnitude << (65 - f.mantissa) >> (65 - f.mantissa);
    int64_t exponent = (int64_t) (magnitude >> (f.mantissa - 1));
    if (reference_is_nan(t, bits)) {
        mpfr_set_nan(x);
        return;
    }
    if (magnitude == infinity_bits(t))
        mpfr_set_inf(x, 1);
    else if (exponent == 0)
        mpfr_set_ui_2exp(x, fraction, f.least - 1, MPFR_RNDN);
    else
        mpfr_set_ui_2exp(x, fraction | (uint64_t) 1 << (f.mantissa - 1), exponent - 1 + f.least - 1,
                         MPFR_RNDN);
    mpfr_setsign(x, x, bits & sign_bit(t) ? 1 : 0, MPFR_RNDN);
}

/** Bits of a value that the type has. */
static uint64_t encode_exact(mpfr_t x, jit_dtype t) {
    format f = format_of(t);
    uint64_t sign = mpfr_signbit(x) ? sign_bit(t) : 0;
    if (mpfr_nan_p(x))
        return infinity_bits(t) | 1;
    if (mpfr_inf_p(x))
        return sign | infinity_bits(t);
    if (mpfr_zero_p(x))
        return sign;
    long exponent = mpfr_get_exp(x) - f.mantissa; /* of the last place */
    if (exponent < f.least - 1)
        exponent = f.least - 1;
    mpfr_abs(x, x, MPFR_RNDN);
    mpfr_mul_2si(x, x, -exponent, MPFR_RNDN);
    uint64_t places = mpfr_get_ui(x, MPFR_RNDN);
    /* The leading 1 of a normal number adds 1 to the exponent field, which is 0 for subnormals. */
    return sign | (((uint64_t) (exponent - (f.least - 1)) << (f.mantissa - 1)) + places);
}

/** Round x, which came out of a rounding to the mantissa of `t` with the ternary value `inexact`,
 * to the type: its range of exponents and its subnormals. */
static uint64_t encode(mpfr_t x, int inexact, jit_dtype t) {
    format f = format_of(t);
    mpfr_exp_t least = mpfr_get_emin(), great = mpfr_get_emax();
    mpfr_set_emin(f.least);
    mpfr_set_emax(f.great);
    inexact = mpfr_check_range(x, inexact, MPFR_RNDN);
    mpfr_subnormalize(x, inexact, MPFR_RNDN);
    mpfr_set_emin(least);
    mpfr_set_emax(great);
    return encode_exact(x, t);
}
/** Round any x to the type, once. */
static uint64_t round_to(mpfr_t x, jit_dtype t) {
    mpfr_t y;
    mpfr_init2(y, format_of(t).mantissa);
    int inexact = mpfr_set(y, x, MPFR_RNDN);
    uint64_t bits = encode(y, inexact, t);
    mpfr_clear(y);
    return bits;
}

uint64_t reference_from_double(jit_dtype t, double d) {
    mpfr_t x;
    mpfr_init2(x, 64);
    mpfr_set_d(x, d, MPFR_RNDN);
    uint64_t bits = round_to(x, t);
    mpfr_clear(x);
    return bits;
}
double reference_to_double(jit_dtype t, uint64_t bits) {
    mpfr_t x;
    mpfr_init2(x, 64);
    decode(x, t, bits);
    double d = mpfr_get_d(x, MPFR_RNDN);
    mpfr_clear(x);
    return d;
}

/** Variables of one operation: r has the precision of the result. */
typedef struct reals {
    mpfr_t r, a, b, c;
} reals;

static void reals_init(reals *v, jit_dtype t, const uint64_t in[3], int precision) {
    mpfr_init2(v->r, precision);
    mpfr_inits2(64, v->a, v->b, v->c, (mpfr_ptr) 0);
    decode(v->a, t, in[0]);
    decode(v->b, t, in[1]);
    decode(v->c, t, in[2]);
}
static void reals_finish(reals *v) {
    mpfr_clears(v->r, v->a, v->b, v->c, (mpfr_ptr) 0);
}

/** Correctly rounded operations: to the precision of r, with the ternary value. */
static bool real_arithmetic(jitc_op op, reals *v, int *inexact) {
    switch (op) {
        case JITC_OP_sqrt: *inexact = mpfr_sqrt(v->r, v->a, MPFR_RNDN); return true;
        case JITC_OP_rcp: *inexact = mpfr_ui_div(v->r, 1, v->a, MPFR_RNDN); return true;
        case JITC_OP_floor: mpfr_floor(v->r, v->a); return true;
        case JITC_OP_ceil: mpfr_ceil(v->r, v->a); return true;
        case JITC_OP_trunc: mpfr_trunc(v->r, v->a); return true;
        case JITC_OP_round: mpfr_roundeven(v->r, v->a); return true;
        case JITC_OP_add: *inexact = mpfr_add(v->r, v->a, v->b, MPFR_RNDN); return true;
        case JITC_OP_sub: *inexact = mpfr_sub(v->r, v->a, v->b, MPFR_RNDN); return true;
        case JITC_OP_mul: *inexact = mpfr_mul(v->r, v->a, v->b, MPFR_RNDN); return true;
        case JITC_OP_div: *inexact = mpfr_div(v->r, v->a, v->b, MPFR_RNDN); return true;
        case JITC_OP_mod: *inexact = mpfr_fmod(v->r, v->a, v->b, MPFR_RNDN); return true;
        case JITC_OP_fma: *inexact = mpfr_fma(v->r, v->a, v->b, v->c, MPFR_RNDN); return true;
        default: return false;
    }
}
static bool real_comparison(jitc_op op, reals *v, uint64_t *out) {
    switch (op) {
        case JITC_OP_eq: *out = mpfr_equal_p(v->a, v->b) != 0; return true;
        case JITC_OP_ne: *out = mpfr_equal_p(v->a, v->b) == 0; return true;
        case JITC_OP_lt: *out = mpfr_less_p(v->a, v->b) != 0; return true;
        case JITC_OP_le: *out = mpfr_lessequal_p(v->a, v->b) != 0; return true;
        case JITC_OP_gt: *out = mpfr_greater_p(v->a, v->b) != 0; return true;
        case JITC_OP_ge: *out = mpfr_greaterequal_p(v->a, v->b) != 0; return true;
        default: return false;
    }
}
/** mpfr_min and mpfr_max ignore a NaN and put -0 below +0. */
static bool real_choice(jitc_op op, reals *v) {
    bool nan = mpfr_nan_p(v->a) || mpfr_nan_p(v->b);
    switch (op) {
        case JITC_OP_min:
        case JITC_OP_fmin: mpfr_min(v->r, v->a, v->b, MPFR_RNDN); break;
        case JITC_OP_max:
        case JITC_OP_fmax: mpfr_max(v->r, v->a, v->b, MPFR_RNDN); break;
        default: return false;
    }
    if (nan && (op == JITC_OP_min || op == JITC_OP_max))
        mpfr_set_nan(v->r);
    return true;
}
static bool real_sign(jitc_op op, jit_dtype t, const uint64_t in[3], uint64_t *out) {
    uint64_t sign = sign_bit(t);
    switch (op) {
        case JITC_OP_neg: *out = in[0] >= sign ? in[0] - sign : in[0] + sign; return true;
        case JITC_OP_abs: *out = in[0] % sign; return true;
        case JITC_OP_copysign: *out = in[0] % sign + in[1] / sign * sign; return true;
        default: return false;
    }
}

static bool real_exact(jitc_op op, jit_dtype t, const uint64_t in[3], uint64_t *out) {
    if (real_sign(op, t, in, out))
        return true;
    reals v;
    int inexact = 0;
    reals_init(&v, t, in, format_of(t).mantissa);
    bool found = real_comparison(op, &v, out);
    if (!found && (real_choice(op, &v) || real_arithmetic(op, &v, &inexact))) {
        *out = encode(v.r, inexact, t);
        found = true;
    }
    reals_finish(&v);
    return found;
}

bool reference_exact(jitc_op op, jit_dtype t, const uint64_t in[3], uint64_t *out) {
    const jitc_op_info *info = &jitc_ops[op];
    if (!jitc_op_accepts(op, t) || (info->props & JITC_INEXACT))
        return false;
    if (info->form == JITC_FORM_SELECT) {
        *out = in[0] ? in[1] : in[2];
        return true;
    }
    if (jitc_dtypes[t].cls == JITC_FLOAT)
        return real_exact(op, t, in, out);
    return info->form == JITC_FORM_UNARY ? integer_unary(op, t, in[0], out)
                                         : integer_binary(op, t, in, out);
}

/* Functions. */

static void real_function(jitc_op op, mpfr_t r, mpfr_t a, mpfr_t b) {
    switch (op) {
        case JITC_OP_rsqrt:
            mpfr_rec_sqrt(r, a, MPFR_RNDN);
            if (mpfr_zero_p(a)) /* MPFR forgets the sign; IEEE 754: 1 / -0 */
                mpfr_setsign(r, r, mpfr_signbit(a), MPFR_RNDN);
            break;
#define CASE(name)                                                                                 \
    case JITC_OP_##name: mpfr_##name(r, a, MPFR_RNDN); break;
            CASE(exp)
            CASE(exp2)
            CASE(exp10)
            CASE(expm1)
            CASE(log)
            CASE(log2)
            CASE(log10)
            CASE(log1p)
            CASE(sin)
            CASE(cos)
            CASE(tan)
            CASE(asin)
            CASE(acos)
            CASE(atan)
            CASE(sinh)
            CASE(cosh)
            CASE(tanh)
            CASE(cbrt)
            CASE(erf)
#undef CASE
        case JITC_OP_pow: mpfr_pow(r, a, b, MPFR_RNDN); break;
        case JITC_OP_atan2: mpfr_atan2(r, a, b, MPFR_RNDN); break;
        case JITC_OP_hypot: mpfr_hypot(r, a, b, MPFR_RNDN); break;
        default: mpfr_set_nan(r); break;
    }
}

/** |got - truth| in units in the last place of truth; got = infinity counts as the power of two
 * that follows the greatest number. `truth` is finite and not 0. */
static double ulp_distance(mpfr_t truth, mpfr_t got, jit_dtype t) {
    format f = format_of(t);
    mpfr_t limit;
    mpfr_init2(limit, 64);
    mpfr_set_ui_2exp(limit, 1, f.great, MPFR_RNDN);
    mpfr_copysign(limit, limit, truth, MPFR_RNDN);
    if (mpfr_cmpabs(truth, limit) > 0)
        mpfr_set(truth, limit, MPFR_RNDN);
    if (mpfr_inf_p(got) && mpfr_signbit(got) == mpfr_signbit(truth))
        mpfr_set(got, limit, MPFR_RNDN);
    long place = mpfr_get_exp(truth) - f.mantissa;
    if (place > f.great - f.mantissa)
        place = f.great - f.mantissa;
    if (place < f.least - 1)
        place = f.least - 1;
    mpfr_sub(truth, truth, got, MPFR_RNDN);
    mpfr_mul_2si(truth, truth, -place, MPFR_RNDN);
    double distance = fabs(mpfr_get_d(truth, MPFR_RNDN));
    mpfr_clear(limit);
    return distance;
}

double reference_error(jitc_op op, jit_dtype t, const uint64_t in[3], uint64_t got) {
    reals v; /* c takes what we got */
    double error = INFINITY;
    reals_init(&v, t, in, MPFR_BITS);
    real_function(op, v.r, v.a, v.b);
    decode(v.c, t, got);
    if (mpfr_nan_p(v.r) || mpfr_nan_p(v.c))
        error = mpfr_nan_p(v.r) && mpfr_nan_p(v.c) ? 0 : INFINITY;
    else if (mpfr_zero_p(v.r) || mpfr_inf_p(v.r))
        error = mpfr_equal_p(v.r, v.c) && !mpfr_signbit(v.r) == !mpfr_signbit(v.c) ? 0 : INFINITY;
    else
        error = ulp_distance(v.r, v.c, t);
    reals_finish(&v);
    return error;
}

/* Casts. */

static uint64_t real_to_integer(mpfr_t x, jit_dtype to) {
    int width = width_of(to);
    bool is_signed = jitc_dtypes[to].cls == JITC_INT;
    wide least = is_signed ? -((wide) 1 << (width - 1)) : 0;
    wide greatest = ((wide) 1 << (is_signed ? width - 1 : width)) - 1;
    if (mpfr_nan_p(x))
        return 0;
    mpfr_trunc(x, x);
    if (mpfr_sgn(x) < 0)
        return wrap(to, !is_signed || mpfr_cmp_si_2exp(x, -1, width - 1) < 0
                            ? least
                            : (wide) mpfr_get_si(x, MPFR_RNDN));
    return wrap(to, mpfr_cmp_ui_2exp(x, 1, is_signed ? width - 1 : width) >= 0
                        ? greatest
                        : (wide) mpfr_get_ui(x, MPFR_RNDN));
}

uint64_t reference_cast(uint64_t bits, jit_dtype from, jit_dtype to) {
    bool from_real = jitc_dtypes[from].cls == JITC_FLOAT;
    if (from == to)
        return bits;
    if (!from_real && jitc_dtypes[to].cls != JITC_FLOAT)
        return to == JIT_bool ? bits != 0 : wrap(to, to_wide(from, bits));
    mpfr_t x;
    mpfr_init2(x, 64);
    if (from_real)
        decode(x, from, bits);
    else if (jitc_dtypes[from].cls == JITC_INT)
        mpfr_set_si(x, (long) to_wide(from, bits), MPFR_RNDN);
    else
        mpfr_set_ui(x, bits, MPFR_RNDN);
    uint64_t out;
    if (to == JIT_bool)
        out = !mpfr_zero_p(x);
    else if (jitc_dtypes[to].cls == JITC_FLOAT)
        out = round_to(x, to);
    else
        out = real_to_integer(x, to);
    mpfr_clear(x);
    return out;
}

bool reference_same(jitc_op op, jit_dtype t, uint64_t a, uint64_t b) {
    bool copies = op == JITC_OP_select || op == JITC_OP_bitcast || op == JITC_OP_neg ||
                  op == JITC_OP_abs || op == JITC_OP_copysign || op == JITC_OP_gather ||
                  op == JITC_OP_scatter;
    if (a == b)
        return true;
    return !copies && reference_is_nan(t, a) && reference_is_nan(t, b);
}
