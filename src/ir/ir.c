/* ir.c: the tables of element types and operations, expanded from dtypes.def and ops.def.
 * Layer: ir.  May include: core. */
#include "ir/ir.h"

enum {
    COMMUTES = JITC_COMMUTES,
    BAKE_B = JITC_BAKE_B,
    INEXACT = JITC_INEXACT,
    EFFECT = JITC_EFFECT
};

/* Operands that are variables, by form. A masked index, gather and scatter count their mask apart:
 * it is an operand of `masked`. */
enum {
    ARITY_LEAF = 0,
    ARITY_UNARY = 1,
    ARITY_BINARY = 2,
    ARITY_TERNARY = 3,
    ARITY_SELECT = 3,
    ARITY_CAST = 1,
    ARITY_MASKED = 2,
    ARITY_GATHER = 2,
    ARITY_SCATTER = 3,
    ARITY_REDUCE = 1,
    ARITY_SORT = 1,
    ARITY_PART = 1,
    ARITY_LOOP = 0,
    ARITY_PHI = 2,
    ARITY_NEXT = 3,
    ARITY_END = 3,
    ARITY_RESULT = 2,
    ARITY_PROGRAM = 0
};

#define DTYPE(tag, ctype, width, cls, dlpack, ...)                                                 \
    _Static_assert(JITC_COUNT_##tag == (int) JIT_##tag,                                            \
                   "ORDER dtypes: dtypes.def follows base.h");                                     \
    _Static_assert(sizeof(ctype) * 8 == width, "storage has the width of the type");
#include "ir/dtypes.def"

const jitc_dtype_info jitc_dtypes[JITC_DTYPE_COUNT] = {
#define DTYPE(tag, ctype, width, cls, dlpack, ...)                                                 \
    [JIT_##tag] = {#tag, width, width / 8, JITC_##cls, dlpack},
#include "ir/dtypes.def"
};

const jitc_op_info jitc_ops[JITC_OP_COUNT] = {
#define OP(name, form, domain, result, props, summary)                                             \
    [JITC_OP_##name] = {#name,                                                                     \
                        summary,                                                                   \
                        JITC_FORM_##form,                                                          \
                        ARITY_##form,                                                              \
                        JITC_DOMAIN_##domain,                                                      \
                        JITC_RESULT_##result,                                                      \
                        props},
#include "ir/ops.def"
};
