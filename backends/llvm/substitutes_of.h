/* substitutes_of.h: the functions and the table of one set of vector registers; included once by
 * each substitutes_*.c, which defines ISA                 the name's end, such as avx2, which is
 * also that of the table FLOATS, DOUBLES     lanes of a vector VECTOR_BYTES        of a vector
 * Layer: llvm. */
#include "llvm/substitutes.h"
#include <math.h>
#include <stddef.h>

/* f32 is computed in f64, hence rounded once; f64 in long double where the C library's own f64
 * function may be off by more than 1 ULP.
 *   ONE, TWO (name, SLEEF's bound, function for f32, function for f64) of one and of two arguments
 */
#define SUBSTITUTES(ONE, TWO)                                                                      \
    ONE(exp, 10, exp, exp)                                                                         \
    ONE(exp2, 10, exp2, exp2)                                                                      \
    ONE(exp10, 10, exp10, exp10l)                                                                  \
    ONE(expm1, 10, expm1, expm1l)                                                                  \
    ONE(log, 10, log, log)                                                                         \
    ONE(log2, 10, log2, log2)                                                                      \
    ONE(log10, 10, log10, log10l)                                                                  \
    ONE(log1p, 10, log1p, log1pl)                                                                  \
    ONE(sin, 10, sin, sin)                                                                         \
    ONE(cos, 10, cos, cos)                                                                         \
    ONE(tan, 10, tan, tan)                                                                         \
    ONE(asin, 10, asin, asin)                                                                      \
    ONE(acos, 10, acos, acos)                                                                      \
    ONE(atan, 10, atan, atan)                                                                      \
    ONE(sinh, 10, sinh, sinhl)                                                                     \
    ONE(cosh, 10, cosh, coshl)                                                                     \
    ONE(tanh, 10, tanh, tanhl)                                                                     \
    ONE(cbrt, 10, cbrt, cbrtl)                                                                     \
    ONE(erf, 10, erf, erfl)                                                                        \
    TWO(pow, 10, pow, pow)                                                                         \
    TWO(atan2, 10, atan2, atan2)                                                                   \
    TWO(hypot, 05, hypot, hypotl)

typedef float floats __attribute__((vector_size(VECTOR_BYTES)));
typedef double doubles __attribute__((vector_size(VECTOR_BYTES)));

#define ONE_OF(name, vector, element, f)                                                           \
    static vector name##_##vector(vector a) {                                                      \
        for (size_t k = 0; k < sizeof a / sizeof a[0]; k++)                                        \
            a[k] = (element) f(a[k]);                                                              \
        return a;                                                                                  \
    }
#define TWO_OF(name, vector, element, f)                                                           \
    static vector name##_##vector(vector a, vector b) {                                            \
        for (size_t k = 0; k < sizeof a / sizeof a[0]; k++)                                        \
            a[k] = (element) f(a[k], b[k]);                                                        \
        return a;                                                                                  \
    }
#define ONE(name, bound, f, g)                                                                     \
    ONE_OF(substitute_##name, floats, float, f) ONE_OF(substitute_##name, doubles, double, g)
#define TWO(name, bound, f, g)                                                                     \
    TWO_OF(substitute_##name, floats, float, f) TWO_OF(substitute_##name, doubles, double, g)
SUBSTITUTES(ONE, TWO)
#undef ONE
#undef TWO
#undef ONE_OF
#undef TWO_OF

#define TEXT_OF(x)    #x
#define TEXT(x)       TEXT_OF(x)
#define JOIN_OF(a, b) a##b
#define JOIN(a, b)    JOIN_OF(a, b)
#define ROW(text, f)  {text, (void (*)(void)) substitute_##f},
#define ROWS(name, bound, f, g)                                                                    \
    ROW(#name "f" TEXT(FLOATS) "_u" #bound TEXT(ISA), name##_floats)                               \
    ROW(#name "d" TEXT(DOUBLES) "_u" #bound TEXT(ISA), name##_doubles)
const jitc_substitute JOIN(jitc_substitutes_, ISA)[] = {SUBSTITUTES(ROWS, ROWS){NULL, NULL}};
#undef ROWS
#undef ROW
#undef JOIN
#undef JOIN_OF
#undef TEXT
#undef TEXT_OF
#undef SUBSTITUTES
