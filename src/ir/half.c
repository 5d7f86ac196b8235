/* half.c: conversions between the 16-bit floats, float and double, in integer arithmetic: exact in
 * any rounding mode and with flush-to-zero.  Layer: ir.  May include: core. */
#include "ir/bits.h"
#include "ir/ir.h"
#include <string.h>

/** A binary format: sign, exponent, then the mantissa without its leading 1. */
typedef struct format {
    int exponent, mantissa;
} format;

static const format F16 = {5, 10}, BF16 = {8, 7}, F32 = {8, 23}, F64 = {11, 52};

static int bias(format f) {
    return (1 << (f.exponent - 1)) - 1;
}
static uint64_t low_bits(int count) {
    return ((uint64_t) 1 << count) - 1;
}
/** m / 2^shift, halves to even. */
static uint64_t shift_to_even(uint64_t m, int shift) {
    if (shift > 62) /* more than all of the 53 bits and one for the half */
        return 0;
    uint64_t quotient = m >> shift, rest = m & low_bits(shift), half = (uint64_t) 1 << (shift - 1);
    return quotient + (rest > half || (rest == half && (quotient & 1)));
}

/** Round a number to a format with a shorter mantissa, in one step. NaN stays NaN and gets quiet;
 * its upper payload bits are kept. */
static uint16_t narrow(uint64_t bits, format from, format to) {
    uint64_t mantissa = bits & low_bits(from.mantissa);
    int exponent = (int) (bits >> from.mantissa & low_bits(from.exponent));
    uint64_t sign = bits >> (from.exponent + from.mantissa) << (to.exponent + to.mantissa);
    uint64_t infinity = low_bits(to.exponent) << to.mantissa;
    int shift = from.mantissa - to.mantissa;
    if (exponent == (int) low_bits(from.exponent)) {
        uint64_t quiet = (uint64_t) 1 << (to.mantissa - 1);
        return (uint16_t) (sign | infinity | (mantissa ? quiet | mantissa >> shift : 0));
    }
    if (exponent)
        mantissa |= (uint64_t) 1 << from.mantissa;
    else
        exponent = 1; /* subnormals: the least exponent, without the leading 1 */
    int biased = exponent - bias(from) + bias(to);
    if (biased < 1) {
        shift += 1 - biased;
        biased = 1;
    }
    /* The leading 1 adds 1 to the exponent, and so does a carry out of the mantissa. */
    uint64_t rounded = ((uint64_t) (biased - 1) << to.mantissa) + shift_to_even(mantissa, shift);
    return (uint16_t) (sign | (rounded < infinity ? rounded : infinity));
}

float jitc_f16_to_f32(uint16_t h) {
    uint32_t sign = (uint32_t) (h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 1023;
    if (exponent == 31)
        return jitc_f32_from_bits(sign | 0x7f800000 | mantissa << 13);
    if (exponent == 0) {
        if (!mantissa)
            return jitc_f32_from_bits(sign);
        uint32_t up = (uint32_t) __builtin_clz(mantissa) - 21; /* brings the leading 1 to bit 10 */
        exponent = 1 - up; /* wraps below 0; the bias undoes it */
        mantissa = mantissa << up & 1023;
    }
    return jitc_f32_from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}
float jitc_bf16_to_f32(uint16_t h) {
    return jitc_f32_from_bits((uint32_t) h << 16);
}
uint16_t jitc_f16_from_f32(float f) {
    return narrow(jitc_f32_bits(f), F32, F16);
}
uint16_t jitc_bf16_from_f32(float f) {
    return narrow(jitc_f32_bits(f), F32, BF16);
}
uint16_t jitc_f16_from_f64(double d) {
    return narrow(jitc_f64_bits(d), F64, F16);
}
uint16_t jitc_bf16_from_f64(double d) {
    return narrow(jitc_f64_bits(d), F64, BF16);
}
