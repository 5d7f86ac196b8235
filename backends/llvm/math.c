/* math.c: which form of a math function is emitted, and calls of the vector library.
 * Layer: llvm.  May include: core, ir.
 *
 * Code calls SLEEF's functions by name, split into the library's vector widths. Where SLEEF is not
 * installed the loader finds functions of the same name and kind in symbols.c, so that machine code
 * does not depend on which libraries are there. */
#include "llvm/math_forms.h"
#include <stdio.h>

enum { MAX_PIECES = 16 };

typedef struct math_row {
    const char *name, *bound;
    jitc_math_form forms[4]; /* NULL: the library */
    const char *form_names[4];
} math_row;

#define jitc_math_LIBRARY NULL
static const math_row rows[JITC_OP_COUNT] = {
#define MATH(op, bound, f32_fma, f32, f64_fma, f64)                                                \
    [JITC_OP_##                                                                                    \
        op] = {#op,                                                                                \
               #bound,                                                                             \
               {jitc_math_##f32_fma, jitc_math_##f32, jitc_math_##f64_fma, jitc_math_##f64},       \
               {#f32_fma, #f32, #f64_fma, #f64}},
#include "llvm/math.def"
};
#undef jitc_math_LIBRARY

/** The library's functions for an instruction set, as wide as it and the kernel allow. */
typedef struct vector_abi {
    const char *suffix;
    unsigned lanes;
} vector_abi;

static vector_abi choose_abi(const jitc_math *m) {
    unsigned bytes = m->type == JIT_f64 ? 8 : 4, room = m->e->lanes * bytes;
    if (m->e->isa >= JITC_ISA_V4 && room >= 64)
        return (vector_abi) {"avx512f", 64 / bytes};
    if (m->e->isa >= JITC_ISA_V3 && room >= 32)
        return (vector_abi) {"avx2", 32 / bytes};
    return (vector_abi) {m->e->isa >= JITC_ISA_V2 ? "sse4" : "sse2", 16 / bytes};
}

static value call_vectors(const jitc_math *m, const char *prefix, jitc_op op, const value *args) {
    vector_abi abi = choose_abi(m);
    unsigned pieces = m->e->lanes / abi.lanes, arity = jitc_ops[op].arity;
    value result[MAX_PIECES];
    char symbol[64];
    assert(pieces >= 1 && pieces <= MAX_PIECES);
    snprintf(symbol, sizeof symbol, "%s_%s%c%u_u%s%s", prefix, rows[op].name,
             m->type == JIT_f64 ? 'd' : 'f', abi.lanes, rows[op].bound, abi.suffix);
    for (unsigned k = 0; k < pieces; k++) {
        value part[2];
        for (unsigned a = 0; a < arity; a++)
            part[a] = jitc_math_piece(m, args[a], k * abi.lanes, abi.lanes);
        result[k] = jitc_emit_call(m->e, symbol, m->e->api->LLVMTypeOf(part[0]), arity, part);
    }
    return jitc_math_join(m, result, pieces, abi.lanes);
}

value jitc_math_library(const jitc_math *m, jitc_op op, const value *args) {
    return call_vectors(m, "Sleef", op, args);
}

value jitc_math_lanes(const jitc_math *m, jitc_op op, const value *args) {
    return call_vectors(m, "jitc", op, args);
}

value jitc_math_unless_any(const jitc_math *m, value mask, value y, jitc_math_call *call,
                           jitc_op op, const value *args) {
    const jitc_llvm *api = m->e->api;
    LLVMBuilderRef b = m->e->b;
    value bits = jitc_emit_mask_bits(m->e, mask);
    value any = jitc_emit_icmp(m->e, LLVMIntNE, bits, api->LLVMConstNull(api->LLVMTypeOf(bits)));
    LLVMBasicBlockRef here = jitc_emit_here(m->e);
    LLVMBasicBlockRef rare = jitc_emit_block(m->e, "");
    LLVMBasicBlockRef join = jitc_emit_block(m->e, "");
    jitc_emit_branch(m->e, any, rare, join);
    jitc_emit_at(m->e, rare);
    value values[2] = {y, choose(m, mask, call(m, op, args), y)};
    LLVMBasicBlockRef from[2] = {here, rare};
    jitc_emit_jump(m->e, join);
    jitc_emit_at(m->e, join);
    value phi = api->LLVMBuildPhi(b, api->LLVMTypeOf(y), "");
    api->LLVMAddIncoming(phi, values, from, 2);
    return phi;
}

/** Number of the form in a row: the order of math.def. */
static unsigned choose_form(jit_dtype type, jitc_isa isa) {
    return (type == JIT_f64 ? 2u : 0u) + (isa >= JITC_ISA_V3 ? 0u : 1u);
}

const char *jitc_math_describe(jitc_op op, jit_dtype type, jitc_isa isa) {
    return rows[op].form_names[choose_form(type, isa)];
}

LLVMValueRef jitc_emit_math(jitc_emit *e, jitc_op op, jit_dtype type, const LLVMValueRef *args) {
    jitc_math m = jitc_math_begin(e, type);
    jitc_math_form form = rows[op].forms[choose_form(type, e->isa)];
    return form ? form(&m, args) : jitc_math_library(&m, op, args);
}
