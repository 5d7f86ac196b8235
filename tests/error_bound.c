/* error_bound.c: how far operations marked INEXACT may be from the true value. */
#include "error_bound.h"
#include "support.h"

typedef struct bound {
    jitc_op op;
    double f32, f64;
} bound;

/* Figures that NVIDIA documents for the device functions, in the appendix on mathematical functions
 * of the CUDA C++ Programming Guide, where they are larger than 2. They are distances from the
 * correctly rounded result, which lies up to half a unit from the true value. The guide has lower
 * ones for asinf, acosf and powf since CUDA 12; older toolkits may be in use. */
static const bound cuda_documented[] = {
    {JITC_OP_tan, 4, 2},   {JITC_OP_asin, 4, 2},  {JITC_OP_acos, 3, 2}, {JITC_OP_sinh, 3, 2},
    {JITC_OP_atan2, 3, 2}, {JITC_OP_hypot, 3, 2}, {JITC_OP_pow, 8, 2},
};

/* The simulated driver calls the host's libm: what glibc documents as its known errors on x86-64,
 * where that is larger than 1, likewise. */
static const bound glibc_documented[] = {
    {JITC_OP_sinh, 2, 2},  {JITC_OP_cosh, 2, 2}, {JITC_OP_tanh, 2, 2},  {JITC_OP_exp10, 1, 2},
    {JITC_OP_log10, 2, 2}, {JITC_OP_cbrt, 1, 4}, {JITC_OP_rsqrt, 1, 1},
};

#define FIND(table, op, type, otherwise)                                                           \
    find(table, sizeof(table) / sizeof *(table), op, type, otherwise)

static double find(const bound *table, size_t count, jitc_op op, jit_dtype t, double otherwise) {
    for (size_t i = 0; i < count; ++i)
        if (table[i].op == op)
            return 0.5 + (t == JIT_f64 ? table[i].f64 : table[i].f32);
    return 0.5 + otherwise;
}

double error_bound(jitc_op op, jit_dtype t) {
    if (t == JIT_f16 || t == JIT_bf16)
        return 0.51; /* computed in f32, whose error is far below theirs, and rounded once */
    if (support_backend() == JIT_LLVM)
        return 1;
    if (support_simulated())
        return FIND(glibc_documented, op, t, 1);
    return FIND(cuda_documented, op, t, 2);
}
