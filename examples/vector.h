/* vector.h: vectors of three arrays. */
#ifndef EXAMPLES_VECTOR_H
#define EXAMPLES_VECTOR_H
#include <jit/jit.h>

typedef struct vector {
    jit_var x, y, z;
} vector;

static inline jit_var dot(vector u, vector v) {
    return jit_fma(u.x, v.x, jit_fma(u.y, v.y, jit_mul(u.z, v.z)));
}

static inline vector times(vector u, jit_var factor) {
    return (vector) {jit_mul(u.x, factor), jit_mul(u.y, factor), jit_mul(u.z, factor)};
}

/* u + factor v */
static inline vector plus(vector u, jit_var factor, vector v) {
    return (vector) {jit_fma(factor, v.x, u.x), jit_fma(factor, v.y, u.y),
                     jit_fma(factor, v.z, u.z)};
}
#endif
