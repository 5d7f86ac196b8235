/* math_kernel.h: one math function as machine code, for measuring its error and its time. */
#ifndef JITC_TESTS_MATH_KERNEL_H
#define JITC_TESTS_MATH_KERNEL_H
#include "math_measure.h"
#include "llvm/emit.h"
#include "llvm/loader.h"
#include "llvm/symbols.h"

/** What to compile. */
typedef struct math_spec {
    jitc_op op;
    jit_dtype type; /* JIT_f32 or JIT_f64 */
    jitc_isa isa;
    int level;          /* of code generation: 0 or 2 */
    unsigned lanes;     /* of the kernel's vectors */
    bool substitutes;   /* as if SLEEF were not installed */
    const char *symbol; /* NULL, or a vector function of `lanes` lanes to call instead */
} math_spec;

typedef struct math_kernel {
    math_spec spec;
    jitc_code code;
} math_kernel;

/** The processor's best instruction set. */
jitc_isa math_host_isa(void);
jit_status math_kernel_create(const jitc_llvm *api, jitc_symbols *symbols, const math_spec *spec,
                              math_kernel *out);
void math_kernel_finish(math_kernel *k);
/** r[i] = f(a[i], b[i]) for n elements, a multiple of 64; b is read for functions of two arguments.
 */
void math_kernel_run(const math_kernel *k, const void *a, const void *b, void *r, size_t n);
/** For math_measure(). Good as long as the kernel. */
math_function math_kernel_function(const math_kernel *k);
#endif
