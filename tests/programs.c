/* programs.c: programs built by hand, and values to try them on, for the tests of backends. */
#include "programs.h"
#include <criterion/criterion.h>
#include <string.h>

uint32_t add_flagged(jitc_program *p, jitc_inst i) {
    uint32_t index = 0;
    cr_assert_eq(jitc_program_add(p, i, &index), JIT_OK);
    return index;
}

uint32_t add(jitc_program *p, jitc_op op, jit_dtype type, uint32_t a, uint32_t b, uint32_t c) {
    return add_flagged(
        p, (jitc_inst) {.op = (uint8_t) op, .type = (uint8_t) type, .a = a, .b = b, .c = c});
}

uint32_t add_data(jitc_program *p, jit_dtype type, const void *pointer, uint64_t *params) {
    params[p->head.params] = (uintptr_t) pointer;
    return add(p, JITC_OP_data, type, p->head.params++, 0, 0);
}

void add_store(jitc_program *p, jit_dtype type, uint32_t value, void *pointer, uint64_t *params) {
    params[p->head.params] = (uintptr_t) pointer;
    add(p, JITC_OP_store, type, value, p->head.params++, 0);
}

uint32_t add_buffer(jitc_program *p, jit_dtype type, const void *pointer, uint64_t size,
                    uint64_t *params) {
    params[p->head.params] = (uintptr_t) pointer;
    params[p->head.params + 1] = size;
    p->head.params += 2;
    return add(p, JITC_OP_buffer, type, p->head.params - 2, 0, 0);
}

uint32_t add_literal(jitc_program *p, jit_dtype type, uint64_t bits, uint64_t *params) {
    params[p->head.params] = bits;
    return add(p, JITC_OP_literal, type, p->head.params++, 0, 0);
}

uint32_t add_baked(jitc_program *p, jit_dtype type, uint64_t bits) {
    return add_flagged(p, (jitc_inst) {.op = JITC_OP_literal,
                                       .type = (uint8_t) type,
                                       .flags = JITC_INST_BAKED,
                                       .b = (uint32_t) bits,
                                       .c = (uint32_t) (bits >> 32)});
}

/* Values. */

static size_t put_integers(jit_dtype t, uint64_t *out) {
    size_t n = 0, bits = jitc_dtypes[t].bits;
    static const int64_t small[] = {0,   1,    2,  3,  5,  7,  10,  127,
                                    255, 1000, -1, -2, -3, -7, -10, -1000};
    for (size_t i = 0; i < sizeof small / sizeof *small; i++)
        out[n++] = (uint64_t) small[i];
    for (size_t b = bits / 4; b <= bits; b += bits / 4) {
        uint64_t power = (uint64_t) 1 << (b - 1);
        out[n++] = power;
        out[n++] = power - 1;
        out[n++] = power + 1;
        out[n++] = power + power / 2 + 1;
        out[n++] = power + (power >> 8) + 1; /* just above the middle of two bf16 */
        out[n++] = power + (power >> 11) + 1;
    }
    for (size_t i = 0; i < 3; i++) {
        out[n++] = bits - 1 + i; /* shift amounts */
        out[n++] = ((uint64_t) 1 << 53) - 1 + i;
        out[n++] = (((uint64_t) 1 << 24) - 1 + i) << (bits / 2);
        out[n++] = 0x9e3779b97f4a7c15u * (i + 1);
        out[n++] = (0x9e3779b97f4a7c15u * (i + 4)) >> (bits / 2);
    }
    return n;
}

static size_t put_doubles(double *out) {
    static const double base[] = {0,
                                  1,
                                  0.5,
                                  1.5,
                                  2.5,
                                  3.5,
                                  0.49999997,
                                  2,
                                  3,
                                  7,
                                  10,
                                  100.25,
                                  126.5,
                                  127.5,
                                  254.5,
                                  255.5,
                                  32766.5,
                                  32768,
                                  65504,
                                  65519,
                                  65520,
                                  65535.5,
                                  8388607.5,
                                  8388609,
                                  16777217,
                                  2147483647.0,
                                  2147483648.0,
                                  4294967296.0,
                                  0x1p52,
                                  0x1p53,
                                  0x1p62,
                                  0x1p63,
                                  0x1.fffffep63,
                                  0x1p64,
                                  0x1p-14,
                                  0x1p-24,
                                  0x1p-25,
                                  0x1.8p-25,
                                  0x1p-126,
                                  0x1p-149,
                                  1e-45,
                                  3.3895e38,
                                  3.4028235e38,
                                  3.4028236e38,
                                  1.7e308,
                                  5e-324,
                                  0x1.001p-3,
                                  0x1.002p0,
                                  0x1.003p0,
                                  0x1.01p0,
                                  0x1.03p0,
                                  0x1.0100001p0,
                                  1e10,
                                  1e-10,
                                  0.1};
    size_t n = sizeof base / sizeof *base;
    memcpy(out, base, sizeof base);
    return n;
}

static uint64_t encode(jit_dtype t, double d) {
    uint64_t in[3], bits;
    memcpy(&in[0], &d, sizeof d);
    if (t == JIT_f64)
        return in[0];
    cr_assert(jitc_fold(JITC_OP_cast, JIT_f64, t, in, &bits));
    return bits;
}

static size_t put_reals(jit_dtype t, uint64_t *out) {
    double d[64];
    size_t n = 0, count = put_doubles(d);
    uint64_t sign = (uint64_t) 1 << (jitc_dtypes[t].bits - 1);
    for (size_t i = 0; i < count && n < 58; i++)
        out[n] = encode(t, d[i]) | (i % 3 == 1 ? sign : 0), n++;
    uint64_t infinity = encode(t, __builtin_inf());
    out[n++] = infinity;
    out[n++] = infinity | sign;
    out[n++] = infinity | infinity >> 1; /* quiet NaN */
    out[n++] = infinity | 5;             /* signalling NaN */
    out[n++] = sign;
    out[n++] = infinity - 1;
    return n;
}

size_t edge_values(jit_dtype t, uint64_t *out) {
    size_t n;
    if (t == JIT_bool) {
        out[0] = 0;
        out[1] = 1;
        return 2;
    }
    n = jitc_dtypes[t].cls == JITC_FLOAT ? put_reals(t, out) : put_integers(t, out);
    cr_assert_leq(n, 64);
    for (size_t i = 0; i < n; i++)
        out[i] &= jitc_bits_mask(t);
    return n;
}

bool is_nan_bits(jit_dtype t, uint64_t bits) {
    uint64_t infinity = encode(t, __builtin_inf());
    return jitc_dtypes[t].cls == JITC_FLOAT && (bits & jitc_bits_mask(t) >> 1) > infinity;
}

uint64_t ulp_distance(jit_dtype t, uint64_t a, uint64_t b) {
    uint64_t sign = (uint64_t) 1 << (jitc_dtypes[t].bits - 1);
    if (is_nan_bits(t, a) || is_nan_bits(t, b))
        return is_nan_bits(t, a) && is_nan_bits(t, b) ? 0 : UINT64_MAX;
    int64_t x = a & sign ? -(int64_t) (a & ~sign) : (int64_t) a;
    int64_t y = b & sign ? -(int64_t) (b & ~sign) : (int64_t) b;
    return x > y ? (uint64_t) x - (uint64_t) y : (uint64_t) y - (uint64_t) x;
}
