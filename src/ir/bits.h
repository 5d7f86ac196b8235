/* bits.h: floating-point numbers as their bits, and back.  Layer: ir.  May include: nothing. */
#ifndef JITC_IR_BITS_H
#define JITC_IR_BITS_H
#include <stdint.h>
#include <string.h>

static inline uint32_t jitc_f32_bits(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}
static inline uint64_t jitc_f64_bits(double d) {
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}
static inline float jitc_f32_from_bits(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}
static inline double jitc_f64_from_bits(uint64_t bits) {
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}
#endif
