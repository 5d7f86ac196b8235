/* symbols.c: SLEEF, opened when wanted, and loops over the lanes in its place.
 * Layer: llvm.  May include: core. */
#include "llvm/symbols.h"
#include "core/mem.h"
#include "core/sync.h"
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct jitc_symbols {
    jitc_mutex lock;
    atomic_bool opened;
    void *sleef; /* valid once opened; NULL: not installed */
};

/* The substitutes. f32 is computed in f64, hence rounded once; f64 in long double where the C
 * library's own f64 function may be off by more than 1 ULP.
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

typedef float f32x4 __attribute__((vector_size(16)));
typedef float f32x8 __attribute__((vector_size(32)));
typedef float f32x16 __attribute__((vector_size(64)));
typedef double f64x2 __attribute__((vector_size(16)));
typedef double f64x4 __attribute__((vector_size(32)));
typedef double f64x8 __attribute__((vector_size(64)));

/* One function per vector type, with that type's calling convention. */
#define ONE_OF(name, isa, vector, element, f)                                                      \
    static __attribute__((target(isa))) vector name##_##vector(vector a) {                         \
        for (size_t k = 0; k < sizeof a / sizeof a[0]; k++)                                        \
            a[k] = (element) f(a[k]);                                                              \
        return a;                                                                                  \
    }
#define TWO_OF(name, isa, vector, element, f)                                                      \
    static __attribute__((target(isa))) vector name##_##vector(vector a, vector b) {               \
        for (size_t k = 0; k < sizeof a / sizeof a[0]; k++)                                        \
            a[k] = (element) f(a[k], b[k]);                                                        \
        return a;                                                                                  \
    }
#define ALL_OF(kind, name, f, g)                                                                   \
    kind(name, "sse2", f32x4, float, f) kind(name, "avx2", f32x8, float, f)                        \
        kind(name, "avx512f", f32x16, float, f) kind(name, "sse2", f64x2, double, g)               \
            kind(name, "avx2", f64x4, double, g) kind(name, "avx512f", f64x8, double, g)
#define ONE(name, bound, f, g) ALL_OF(ONE_OF, substitute_##name, f, g)
#define TWO(name, bound, f, g) ALL_OF(TWO_OF, substitute_##name, f, g)
SUBSTITUTES(ONE, TWO)
#undef ONE
#undef TWO

typedef struct substitute {
    const char *name;       /* what follows the library's name */
    void (*function)(void); /* of the vectors' own type */
} substitute;

#define ROW(text, function) {text, (void (*)(void)) substitute_##function},
#define ROWS(name, bound, f, g)                                                                    \
    ROW(#name "f4_u" #bound "sse2", name##_f32x4)                                                  \
    ROW(#name "f4_u" #bound "sse4", name##_f32x4)                                                  \
    ROW(#name "f8_u" #bound "avx2", name##_f32x8)                                                  \
    ROW(#name "f16_u" #bound "avx512f", name##_f32x16)                                             \
    ROW(#name "d2_u" #bound "sse2", name##_f64x2)                                                  \
    ROW(#name "d2_u" #bound "sse4", name##_f64x2)                                                  \
    ROW(#name "d4_u" #bound "avx2", name##_f64x4)                                                  \
    ROW(#name "d8_u" #bound "avx512f", name##_f64x8)
static const substitute substitutes[] = {SUBSTITUTES(ROWS, ROWS)};

void *jitc_symbols_substitute(const char *name) {
    const char *rest = strchr(name, '_');
    if (!rest || (strncmp(name, "Sleef_", 6) != 0 && strncmp(name, "jitc_", 5) != 0))
        return NULL;
    for (size_t i = 0; i < sizeof substitutes / sizeof *substitutes; i++)
        if (strcmp(rest + 1, substitutes[i].name) == 0) {
            void *address;
            memcpy(&address, &substitutes[i].function, sizeof address);
            return address;
        }
    return NULL;
}

jit_status jitc_symbols_create(jitc_symbols **out) {
    void *memory;
    TRY(jitc_calloc(1, sizeof **out, &memory));
    *out = memory;
    jitc_mutex_init(&(*out)->lock);
    return JIT_OK;
}

void jitc_symbols_destroy(jitc_symbols *s) {
    if (!s)
        return;
    jitc_mutex_finish(&s->lock);
    free(s);
}

static void *open_sleef(jitc_symbols *s) {
    if (jitc_load_acquire(&s->opened)) /* pairs with the store_release below */
        return s->sleef;
    jitc_mutex_lock(&s->lock);
    if (!jitc_load_relaxed(&s->opened)) {
        s->sleef = dlopen("libsleef.so.3", RTLD_LAZY | RTLD_LOCAL);
        jitc_store_release(&s->opened, true);
    }
    jitc_mutex_unlock(&s->lock);
    return s->sleef;
}

void *jitc_symbols_find(jitc_symbols *s, const char *name) {
    if (strncmp(name, "Sleef_", 6) != 0)
        return jitc_symbols_substitute(name);
    void *sleef = open_sleef(s), *address = sleef ? dlsym(sleef, name) : NULL;
    return address ? address : jitc_symbols_substitute(name);
}

const char *jitc_symbols_describe(jitc_symbols *s) {
    (void) s;
    return "sleef-u10";
}
