/* ir.h: names and properties of element types and operations, from dtypes.def and ops.def.
 * Layer: ir.  May include: core. */
#ifndef JITC_IR_IR_H
#define JITC_IR_IR_H
#include "core/error.h"

enum {
#define DTYPE(tag, ...) JITC_COUNT_##tag,
#include "ir/dtypes.def"
    JITC_DTYPE_COUNT
};

typedef enum jitc_class { JITC_BOOL = 1, JITC_INT = 2, JITC_UINT = 4, JITC_FLOAT = 8 } jitc_class;

/** Operand classes that an operation takes: a set of jitc_class. */
typedef enum jitc_domain {
    JITC_DOMAIN_NONE = 0,
    JITC_DOMAIN_REAL = JITC_FLOAT,
    JITC_DOMAIN_INTEGER = JITC_INT | JITC_UINT,
    JITC_DOMAIN_BITS = JITC_BOOL | JITC_INT | JITC_UINT,
    JITC_DOMAIN_ARITH = JITC_INT | JITC_UINT | JITC_FLOAT,
    JITC_DOMAIN_ALL = JITC_BOOL | JITC_INT | JITC_UINT | JITC_FLOAT
} jitc_domain;

typedef enum jitc_form {
    JITC_FORM_LEAF,
    JITC_FORM_UNARY,
    JITC_FORM_BINARY,
    JITC_FORM_TERNARY,
    JITC_FORM_SELECT,
    JITC_FORM_CAST,
    JITC_FORM_MASKED,
    JITC_FORM_GATHER,
    JITC_FORM_SCATTER,
    JITC_FORM_REDUCE,
    JITC_FORM_SORT,
    JITC_FORM_PART,
    JITC_FORM_LOOP,
    JITC_FORM_PHI,
    JITC_FORM_NEXT,
    JITC_FORM_END,
    JITC_FORM_RESULT,
    JITC_FORM_PROGRAM
} jitc_form;

/* JITC_IF_ELEMENTWISE_form(x): x for the forms of operations that are functions of their operands
 * and of nothing else, such as jit_add(a, b); nothing for the others. */
#define JITC_IF_ELEMENTWISE_UNARY(x)   x
#define JITC_IF_ELEMENTWISE_BINARY(x)  x
#define JITC_IF_ELEMENTWISE_TERNARY(x) x
#define JITC_IF_ELEMENTWISE_SELECT(x)  x
#define JITC_IF_ELEMENTWISE_LEAF(x)
#define JITC_IF_ELEMENTWISE_CAST(x)
#define JITC_IF_ELEMENTWISE_MASKED(x)
#define JITC_IF_ELEMENTWISE_GATHER(x)
#define JITC_IF_ELEMENTWISE_SCATTER(x)
#define JITC_IF_ELEMENTWISE_REDUCE(x)
#define JITC_IF_ELEMENTWISE_SORT(x)
#define JITC_IF_ELEMENTWISE_PART(x)
#define JITC_IF_ELEMENTWISE_LOOP(x)
#define JITC_IF_ELEMENTWISE_PHI(x)
#define JITC_IF_ELEMENTWISE_NEXT(x)
#define JITC_IF_ELEMENTWISE_END(x)
#define JITC_IF_ELEMENTWISE_RESULT(x)
#define JITC_IF_ELEMENTWISE_PROGRAM(x)

typedef enum jitc_result { JITC_RESULT_SAME, JITC_RESULT_BOOL, JITC_RESULT_OTHER } jitc_result;

enum { JITC_COMMUTES = 1, JITC_BAKE_B = 2, JITC_INEXACT = 4, JITC_EFFECT = 8 };

typedef enum jitc_op {
#define OP(name, ...) JITC_OP_##name,
#include "ir/ops.def"
    JITC_OP_COUNT
} jitc_op;

typedef struct jitc_dtype_info {
    const char *name;
    uint8_t bits, bytes, cls, dlpack_code;
} jitc_dtype_info;

typedef struct jitc_op_info {
    const char *name, *summary;
    uint8_t form, arity, domain, result, props;
} jitc_op_info;

extern const jitc_dtype_info jitc_dtypes[JITC_DTYPE_COUNT];
extern const jitc_op_info jitc_ops[JITC_OP_COUNT];

static inline bool jitc_dtype_valid(int type) {
    return (unsigned) type < JITC_DTYPE_COUNT;
}
/** May `op` take operands of type `t` (for select, gather and the like: its value operands)? */
static inline bool jitc_op_accepts(jitc_op op, jit_dtype t) {
    return (jitc_ops[op].domain & jitc_dtypes[t].cls) != 0;
}
/** Type of the result of `op` on operands of type `t`, for forms other than CAST. */
static inline jit_dtype jitc_op_type(jitc_op op, jit_dtype t) {
    return jitc_ops[op].result == JITC_RESULT_BOOL ? JIT_bool : t;
}
/** The value of literal bits of type `t` cut to the type's width: how literals are stored. */
static inline uint64_t jitc_bits_mask(jit_dtype t) {
    return ~(uint64_t) 0 >> (64 - jitc_dtypes[t].bits);
}

/** Evaluate an elementwise operation on literals. `in` and the result are the bits of one element
 *  in the low bytes, zero above. `t` is the operands' type (for select: that of b and c), `to` the
 *  target of a cast. False if the operation has no fold; then *out is untouched. Any thread;
 *  independent of the caller's rounding mode and flush-to-zero setting. */
bool jitc_fold(jitc_op op, jit_dtype t, jit_dtype to, const uint64_t in[3], uint64_t *out);

enum { JITC_REDUCE_COUNT = JIT_REDUCE_OR + 1 };
static inline bool jitc_reduce_valid(int op) {
    return (unsigned) op < JITC_REDUCE_COUNT;
}
/** The operation on two elements: add, mul, min, max, and, or. */
jitc_op jitc_reduce_op(jit_reduce_op op);
/** Its name for messages: "add". */
const char *jitc_reduce_name(jit_reduce_op op);
static inline bool jitc_reduce_accepts(jit_reduce_op op, jit_dtype t) {
    return jitc_op_accepts(jitc_reduce_op(op), t);
}
/** The type in which elements of type t are combined: f32 for sums and products of f16 and bf16,
 * which are rounded once, at the end (prefix_reduce: each result); else t. */
jit_dtype jitc_reduce_type(jit_reduce_op op, jit_dtype t);
/** Bits of the element of type t that changes none. */
uint64_t jitc_reduce_identity(jit_reduce_op op, jit_dtype t);

/** Exact conversions of one element between the 16-bit floats and float, round to nearest even. */
float jitc_f16_to_f32(uint16_t h);
uint16_t jitc_f16_from_f32(float f);
float jitc_bf16_to_f32(uint16_t h);
uint16_t jitc_bf16_from_f32(float f);
/** One rounding from double. */
uint16_t jitc_f16_from_f64(double d);
uint16_t jitc_bf16_from_f64(double d);
#endif
