/* math_forms.h: the forms of math functions that math.def names.
 * Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_MATH_FORMS_H
#define JITC_LLVM_MATH_FORMS_H
#include "llvm/math_words.h"

/** Emits one function of args; m is of the function's type. */
typedef value (*jitc_math_form)(const jitc_math *m, const value *args);

/* _f32 and exp_f64 need fma (v3); the others work everywhere. */
/* clang-format off */
#define JITC_MATH_FORMS(X)                                                                         \
    X(exp_f32) X(exp2_f32) X(log_f32) X(sin_f32) X(cos_f32)                                        \
    X(erf_f32) X(exp_wide) X(exp2_wide) X(exp10_wide) X(expm1_wide) X(log_wide) X(log2_wide)       \
    X(log10_wide) X(log1p_wide) X(sinh_wide) X(cosh_wide) X(tanh_wide) X(pow_wide)                 \
    X(hypot_wide) X(exp_f64) X(erf_mended) X(log1p_mended) X(tan_mended) X(sinh_mended)            \
    X(cosh_mended) X(tanh_mended) X(pow_mended) X(atan2_lanes) X(hypot_lanes)                    \
    X(log10_f32)
/* clang-format on */
#define FORM(name) value jitc_math_##name(const jitc_math *m, const value *args);
JITC_MATH_FORMS(FORM)
#undef FORM
#undef JITC_MATH_FORMS
#endif
