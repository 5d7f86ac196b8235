#include "combine_total.h"
#include "ir/bits.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_real(jit_dtype t) {
    return jitc_dtypes[t].cls == JITC_FLOAT;
}

double element_to_f64(jit_dtype t, uint64_t bits) {
    uint64_t in[3] = {bits, 0, 0}, out = 0;
    cr_assert(jitc_fold(JITC_OP_cast, t, JIT_f64, in, &out));
    return jitc_f64_from_bits(out);
}

uint64_t element_from_f64(jit_dtype t, double x) {
    uint64_t in[3] = {jitc_f64_bits(x), 0, 0}, out = 0;
    cr_assert(jitc_fold(JITC_OP_cast, JIT_f64, t, in, &out));
    return out;
}

/* Is it rounded at every step, so that the order shows? */
static bool is_rounded(const total *s) {
    return is_real(s->type) && (s->op == JIT_REDUCE_ADD || s->op == JIT_REDUCE_MUL);
}

total total_start(jit_reduce_op op, jit_dtype t) {
    return (total) {.op = op,
                    .type = t,
                    .exact = jitc_reduce_identity(op, t),
                    .sum = op == JIT_REDUCE_MUL ? 1 : 0};
}

static void add_rounded(total *s, double x) {
    s->nan |=
        isnan(x) || (s->op == JIT_REDUCE_ADD && isinf(x) && (x > 0 ? s->negative : s->positive));
    s->positive |= isinf(x) && x > 0;
    s->negative |= isinf(x) && x < 0;
    s->zero |= x == 0;
    s->sign ^= signbit(x) != 0;
    if (!isfinite(x))
        return;
    s->magnitude += fabsl(x);
    if (s->op == JIT_REDUCE_MUL) {
        s->sum *= x;
        return;
    }
    long double next = s->sum + x; /* Neumaier */
    s->lost += fabsl(s->sum) >= fabsl(x) ? s->sum - next + x : x - next + s->sum;
    s->sum = next;
}

void total_add(total *s, uint64_t bits) {
    ++s->count;
    if (is_rounded(s)) {
        add_rounded(s, element_to_f64(s->type, bits));
        return;
    }
    const uint64_t in[3] = {s->exact, bits, 0};
    cr_assert(jitc_fold(jitc_reduce_op(s->op), s->type, s->type, in, &s->exact));
}

/* Half a unit in the last place, relative. */
static long double epsilon(jit_dtype t) {
    return t == JIT_f16 ? 0x1p-11L : t == JIT_bf16 ? 0x1p-8L : t == JIT_f32 ? 0x1p-24L : 0x1p-53L;
}

static long double bound(const total *s, long double value) {
    jit_dtype in = s->stepwise ? s->type : jitc_reduce_type(s->op, s->type);
    long double n = (long double) s->count;
    bool any_order = s->stepwise || s->op == JIT_REDUCE_MUL;
    long double steps = any_order ? n : fminl(n, 4 * log2l(n + 1) + 64);
    long double all = s->op == JIT_REDUCE_MUL ? fabsl(value) : s->magnitude;
    long double least = s->type == JIT_f16 ? 0x1p-25L : s->type == JIT_f64 ? 0x1p-1074L : 0x1p-133L;
    return epsilon(in) * steps * all * 1.01L + (epsilon(s->type) * fabsl(value) + least) * 1.01L;
}

static bool allows_rounded(const total *s, double x) {
    bool product = s->op == JIT_REDUCE_MUL, infinite = s->positive || s->negative;
    if (s->nan || (product && s->zero && infinite))
        return isnan(x);
    if (infinite)
        return isinf(x) && (x > 0) == (product ? !s->sign : s->positive);
    if (product && s->zero)
        return x == 0 && (signbit(x) != 0) == s->sign;
    long double value = s->sum + s->lost, far = bound(s, value);
    if (isinf(x)) /* rounded up beyond the largest one */
        return element_to_f64(s->type, element_from_f64(
                                           s->type, (double) (value + copysignl(far, value)))) == x;
    return fabsl(x - value) <= far;
}

bool total_allows(const total *s, uint64_t bits) {
    if (is_rounded(s))
        return allows_rounded(s, element_to_f64(s->type, bits));
    return s->exact == bits || (is_real(s->type) && isnan(element_to_f64(s->type, bits)) &&
                                isnan(element_to_f64(s->type, s->exact)));
}

void total_check(const total *s, uint64_t bits, const char *what, size_t i) {
    if (total_allows(s, bits))
        return;
    double exact = is_rounded(s) ? (double) (s->sum + s->lost) : element_to_f64(s->type, s->exact);
    cr_assert_fail("%s, element %zu: %s of %zu %s is %.17g (%#llx), not about %.17g%s", what, i,
                   jitc_reduce_name(s->op), s->count, jitc_dtypes[s->type].name,
                   element_to_f64(s->type, bits), (unsigned long long) bits, exact,
                   s->nan ? " but NaN" : "");
}

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
    x = (x ^ x >> 27) * 0x94D049BB133111EB;
    return x ^ x >> 31;
}

static double small_real(jit_reduce_op op, uint64_t r) {
    if (op != JIT_REDUCE_MUL)
        return ((double) (r % 2001) - 1000) / 256;
    static const double factors[] = {1, 1, 0.5, 2, -1, 1.25, 0.8125, 1};
    return factors[r % 8];
}

uint64_t element_of(filling f, jit_reduce_op op, jit_dtype t, size_t i) {
    static const double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 65504, -65504, 0x1p-24};
    static const double factors[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 2};
    uint64_t r = f == EQUAL ? 4711 : mix(i + (uint64_t) op * 1000003);
    if (f == SPECIAL && is_real(t) && r % 16 < 8)
        return element_from_f64(t, (op == JIT_REDUCE_MUL ? factors : special)[r % 8]);
    if (f == SPECIAL && op != JIT_REDUCE_MUL && r % 16 == 9)
        return jitc_reduce_identity(JIT_REDUCE_MIN + (r >> 8 & 1), t);
    if (f == ASCENDING && op != JIT_REDUCE_MUL)
        return element_from_f64(t, is_real(t) ? (double) i / 64 : (double) (i % 97));
    if (is_real(t))
        return element_from_f64(t, small_real(op, r));
    if (op == JIT_REDUCE_MUL)
        r |= 1; /* else there are soon only zeros left */
    if (op == JIT_REDUCE_AND && r % 5)
        r = ~(uint64_t) 0;
    if (op == JIT_REDUCE_OR && r % 5)
        r = 0;
    return t == JIT_bool ? (op == JIT_REDUCE_AND ? i % 61 != 7 : r >> 9 & 1)
                         : (r ^ r >> 32) & jitc_bits_mask(t);
}

uint64_t *elements_of(filling f, jit_reduce_op op, jit_dtype t, size_t first, size_t n) {
    uint64_t *bits = calloc(n + 1, sizeof *bits);
    cr_assert_not_null(bits);
    for (size_t i = 0; i < n; ++i)
        bits[i] = element_of(f, op, t, first + i);
    return bits;
}
