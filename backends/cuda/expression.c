/* expression.c: elementwise operations as expressions in CUDA C, from the CUDA column of ops.def.
 * Layer: cuda.  May include: core, ir. */
#include "cuda/expression.h"
#include <assert.h>

typedef struct texts {
    const char *integer, *real;
} texts;

static const texts operations[JITC_OP_COUNT] = {
#define OP(name, ...)       [JITC_OP_##name] =
#define CUDA(integer, real) {integer, real},
#include "ir/ops.def"
};

static bool is_real(jit_dtype t) {
    return jitc_dtypes[t].cls == JITC_FLOAT;
}
static bool is_small_real(jit_dtype t) {
    return t == JIT_f16 || t == JIT_bf16;
}
static bool is_unsigned(jit_dtype t) {
    return jitc_dtypes[t].cls != JITC_INT;
}

const char *jitc_cuda_type(jit_dtype t) {
    return is_small_real(t) ? "u16" : jitc_dtypes[t].name;
}
const char *jitc_cuda_memory_type(jit_dtype t) {
    return t == JIT_bool ? "u8" : jitc_cuda_type(t);
}

/** The type in which values of type t are computed. */
static const char *computed(jit_dtype t) {
    if (is_real(t))
        return t == JIT_f64 ? "f64" : "f32";
    if (jitc_dtypes[t].bits >= 32)
        return jitc_dtypes[t].name;
    return is_unsigned(t) ? "u32" : "i32";
}
/** The unsigned type of the same width, at least 32 bits. */
static const char *wrapping(jit_dtype t) {
    return jitc_dtypes[t].bits == 64 ? "u64" : "u32";
}

/* Operands. */

static void put_widened(jitc_cuda_writer *w, jit_dtype t, uint32_t operand) {
    if (is_small_real(t))
        jitc_cuda_putf(w, "f32_from_%s(%v)", jitc_dtypes[t].name, operand);
    else
        jitc_cuda_put_name(w, 'v', operand);
}
static void put_wrapping(jitc_cuda_writer *w, jit_dtype t, uint32_t operand) {
    if (!is_real(t) && t != JIT_u32 && t != JIT_u64)
        jitc_cuda_putf(w, "(%s) ", wrapping(t));
    jitc_cuda_put_name(w, 'v', operand);
}
static void put_bits(jitc_cuda_writer *w, jit_dtype t, uint32_t operand) {
    if (t == JIT_i8 || t == JIT_i16)
        jitc_cuda_putf(w, "(u32) (%s) %v", t == JIT_i8 ? "u8" : "u16", operand);
    else
        put_wrapping(w, t, operand);
}

/** What stands behind a $ in the column. */
static void put_part(jitc_cuda_writer *w, char part, jit_dtype t, const jitc_inst *i) {
    const uint32_t operand[] = {i->a, i->b, i->c};
    uint32_t width = jitc_dtypes[t].bits;
    switch (part) {
        case 'a':
        case 'b':
        case 'c': put_widened(w, t, operand[part - 'a']); break;
        case 'A':
        case 'B':
        case 'C': put_wrapping(w, t, operand[part - 'A']); break;
        case 'x':
        case 'y': put_bits(w, t, operand[part - 'x']); break;
        case 't': jitc_cuda_put_text(w, jitc_dtypes[t].name); break;
        case 'd': jitc_cuda_put_text(w, computed(t)); break;
        case 'w': jitc_cuda_put_number(w, width); break;
        case 'p': jitc_cuda_put_number(w, width < 32 ? 32 - width : 0); break;
        case 'l': jitc_cuda_put_text(w, width == 64 ? "ll" : ""); break;
        case 's': jitc_cuda_put_text(w, t == JIT_f64 ? "" : "f"); break;
        default: assert(false); break; /* ops.def explains the letters */
    }
}

static void put_template(jitc_cuda_writer *w, const char *text, jit_dtype t, const jitc_inst *i) {
    for (const char *end; (end = strchr(text, '$')); text = end + 2) {
        jitc_cuda_put(w, text, (size_t) (end - text));
        put_part(w, end[1], t, i);
    }
    jitc_cuda_put_text(w, text);
}

/* Conversions. */

/** To an integer type of less than 32 bits by way of i32. */
static void put_real_to_integer(jitc_cuda_writer *w, jit_dtype from, jit_dtype to, uint32_t v) {
    bool narrow = jitc_dtypes[to].bits < 32;
    if (narrow)
        jitc_cuda_putf(w, "clamp_%s(i32", jitc_dtypes[to].name);
    else
        jitc_cuda_put_text(w, jitc_dtypes[to].name);
    jitc_cuda_putf(w, "_from_%s(", computed(from));
    put_widened(w, from, v);
    jitc_cuda_put_text(w, narrow ? "))" : ")");
}

static void put_to_small_real(jitc_cuda_writer *w, jit_dtype from, jit_dtype to, uint32_t v) {
    bool exact = jitc_dtypes[from].bits < 32; /* in f32 */
    jitc_cuda_putf(w, "%s_from_%s(", jitc_dtypes[to].name, exact ? "f32" : computed(from));
    put_widened(w, from, v);
    jitc_cuda_put_char(w, ')');
}

static void put_to_bool(jitc_cuda_writer *w, jit_dtype from, uint32_t v) {
    jitc_cuda_putf(w, is_small_real(from) ? "(%v & 0x7fff) != 0" : "%v != 0", v);
}

static void put_cast(jitc_cuda_writer *w, jit_dtype from, jit_dtype to, uint32_t v) {
    if (from == to)
        jitc_cuda_put_name(w, 'v', v);
    else if (to == JIT_bool)
        put_to_bool(w, from, v);
    else if (is_small_real(to))
        put_to_small_real(w, from, to, v);
    else if (is_real(from) && !is_real(to))
        put_real_to_integer(w, from, to, v);
    else /* C's own conversion does it */
        put_widened(w, from, v);
}

/** Between types of one width: integers and 16-bit floats convert by themselves. */
static void put_bitcast(jitc_cuda_writer *w, jit_dtype from, jit_dtype to, uint32_t v) {
    const char *format = "%v";
    if (to == JIT_bool)
        format = "%v & 1";
    else if (from == JIT_f32 && to != JIT_f32)
        format = "__float_as_uint(%v)";
    else if (to == JIT_f32 && from != JIT_f32)
        format = "__uint_as_float((u32) %v)";
    else if (from == JIT_f64 && to != JIT_f64)
        format = "__double_as_longlong(%v)";
    else if (to == JIT_f64 && from != JIT_f64)
        format = "__longlong_as_double((i64) %v)";
    jitc_cuda_putf(w, format, v);
}

/* Whole expressions. */

/** With a result in the operands' type: 16-bit floats are rounded, bool is cut to one bit. */
static void put_result(jitc_cuda_writer *w, const char *text, jit_dtype t, const jitc_inst *i) {
    bool round = is_small_real(t) && !strpbrk(text, "ABC");
    bool cut = t == JIT_bool && jitc_ops[i->op].form != JITC_FORM_SELECT;
    if (round)
        jitc_cuda_putf(w, "%s_from_f32(", jitc_dtypes[t].name);
    else if (cut)
        jitc_cuda_put_char(w, '(');
    put_template(w, text, t, i);
    if (round)
        jitc_cuda_put_char(w, ')');
    else if (cut)
        jitc_cuda_put_text(w, ") & 1");
}

void jitc_cuda_put_operation(jitc_cuda_writer *w, const jitc_program *p, const jitc_inst *i) {
    jit_dtype to = (jit_dtype) i->type;
    jit_dtype t = (jit_dtype) p->inst[jitc_ops[i->op].form == JITC_FORM_SELECT ? i->b : i->a].type;
    const char *text = is_real(t) ? operations[i->op].real : operations[i->op].integer;
    if (i->op == JITC_OP_cast) {
        put_cast(w, t, to, i->a);
    } else if (i->op == JITC_OP_bitcast) {
        put_bitcast(w, t, to, i->a);
    } else if (jitc_ops[i->op].result == JITC_RESULT_BOOL) {
        assert(text);
        put_template(w, text, t, i);
    } else {
        assert(text);
        put_result(w, text, t, i);
    }
}

/* Literals. */

static void put_baked(jitc_cuda_writer *w, jit_dtype t, uint64_t bits) {
    switch (t) {
        case JIT_f32: jitc_cuda_putf(w, "__uint_as_float(%u)", (uint32_t) bits); return;
        case JIT_f64: jitc_cuda_put_text(w, "__longlong_as_double((i64) "); break;
        default: jitc_cuda_putf(w, "(%s) ", jitc_cuda_type(t)); break;
    }
    jitc_cuda_put_number(w, bits);
    jitc_cuda_put_text(w, t == JIT_f64 ? "ull)" : bits >> 32 ? "ull" : "u");
}

void jitc_cuda_put_literal(jitc_cuda_writer *w, const jitc_inst *i) {
    jit_dtype t = (jit_dtype) i->type;
    if (i->flags & JITC_INST_BAKED)
        put_baked(w, t, jitc_inst_bits(i));
    else if (t == JIT_f32)
        jitc_cuda_putf(w, "__uint_as_float((u32) W(%u))", i->a);
    else if (t == JIT_f64)
        jitc_cuda_putf(w, "__longlong_as_double((i64) W(%u))", i->a);
    else
        jitc_cuda_putf(w, "(%s) W(%u)", jitc_cuda_type(t), i->a);
}
