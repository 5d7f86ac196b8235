/* literals.c: literals of a program as vectors.  Layer: llvm.  May include: core, ir. */
#include "llvm/literals.h"
#include "llvm/memory.h"

enum { FEW = 24, MAX_STACK = 1 << 16 };

/** Which parameters are literals, and of which sizes. */
typedef struct extent {
    uint32_t first, end, count;
    bool sizes[4];
} extent;

static unsigned log2_bytes(jit_dtype type) {
    return (unsigned) __builtin_ctz(jitc_dtypes[type].bytes);
}

static extent measure(const jitc_program *p) {
    extent x = {.first = UINT32_MAX};
    for (uint32_t n = 0; n < p->head.count; n++) {
        const jitc_inst *i = &p->inst[n];
        if (i->op != JITC_OP_literal || (i->flags & JITC_INST_BAKED))
            continue;
        ++x.count;
        x.sizes[log2_bytes((jit_dtype) i->type)] = true;
        x.first = i->a < x.first ? i->a : x.first;
        x.end = i->a >= x.end ? i->a + 1 : x.end;
    }
    return x;
}

static bool wants_tables(const jitc_emit *e, const extent *x, int level) {
    uint64_t bytes = 0;
    for (unsigned k = 0; k < 4; k++)
        bytes += x->sizes[k] ? (uint64_t) (x->end - x->first) * e->lanes << k : 0;
    return level == 0 && x->count > FEW && bytes <= MAX_STACK;
}

static LLVMTypeRef element(jitc_emit *e, unsigned log2) {
    LLVMTypeRef types[] = {e->i8, e->i16, e->i32, e->i64};
    return types[log2];
}

/** One turn of the loop: parameter first + n to entry n of each table. */
static void fill_entries(jitc_emit *e, const jitc_literals *l, LLVMValueRef n) {
    const jitc_llvm *api = e->api;
    LLVMValueRef at = jitc_emit_bin(e, LLVMAdd, n, api->LLVMConstInt(e->i64, l->first, 0));
    LLVMValueRef address = api->LLVMBuildGEP2(e->b, e->i64, l->params, &at, 1, "");
    for (unsigned k = 0; k < 4; k++) {
        if (!l->tables[k])
            continue;
        LLVMTypeRef scalar = element(e, k);
        LLVMValueRef v = jitc_emit_splat(e, api->LLVMBuildLoad2(e->b, scalar, address, ""));
        LLVMValueRef to =
            api->LLVMBuildGEP2(e->b, jitc_emit_vector(e, scalar), l->tables[k], &n, 1, "");
        api->LLVMSetAlignment(api->LLVMBuildStore(e->b, v, to), 1u << k);
    }
}

static void fill_tables(jitc_emit *e, const jitc_literals *l, uint32_t count) {
    const jitc_llvm *api = e->api;
    LLVMBasicBlockRef before = jitc_emit_here(e);
    LLVMBasicBlockRef loop = jitc_emit_block(e, "literals");
    LLVMBasicBlockRef ready = jitc_emit_block(e, "ready");
    jitc_emit_jump(e, loop);
    jitc_emit_at(e, loop);
    LLVMValueRef n = api->LLVMBuildPhi(e->b, e->i64, "");
    fill_entries(e, l, n);
    LLVMValueRef next = jitc_emit_bin(e, LLVMAdd, n, api->LLVMConstInt(e->i64, 1, 0));
    LLVMValueRef more = jitc_emit_icmp(e, LLVMIntULT, next, api->LLVMConstInt(e->i64, count, 0));
    jitc_emit_branch(e, more, loop, ready);
    LLVMValueRef values[] = {api->LLVMConstInt(e->i64, 0, 0), next};
    LLVMBasicBlockRef blocks[] = {before, loop};
    api->LLVMAddIncoming(n, values, blocks, 2);
    jitc_emit_at(e, ready);
}

void jitc_literals_init(jitc_emit *e, const jitc_program *p, LLVMValueRef params, int level,
                        jitc_literals *out) {
    extent x = measure(p);
    *out = (jitc_literals) {.params = params, .first = x.first};
    if (!wants_tables(e, &x, level))
        return;
    for (unsigned k = 0; k < 4; k++)
        if (x.sizes[k])
            out->tables[k] = jitc_emit_stack(e, element(e, k), (x.end - x.first) * e->lanes);
    fill_tables(e, out, x.end - x.first);
}

static LLVMValueRef baked(jitc_emit *e, const jitc_inst *i) {
    jit_dtype type = (jit_dtype) i->type;
    LLVMTypeRef scalar = jitc_emit_scalar(e, type);
    if (type != JIT_f32 && type != JIT_f64)
        return jitc_emit_int(e, scalar, jitc_inst_bits(i));
    LLVMTypeRef integer = type == JIT_f32 ? e->i32 : e->i64;
    return jitc_emit_cast(e, LLVMBitCast, jitc_emit_int(e, integer, jitc_inst_bits(i)), scalar);
}

LLVMValueRef jitc_literals_value(jitc_emit *e, const jitc_literals *l, const jitc_inst *i) {
    const jitc_llvm *api = e->api;
    jit_dtype type = (jit_dtype) i->type;
    LLVMValueRef table = l->tables[log2_bytes(type)];
    if (i->flags & JITC_INST_BAKED)
        return baked(e, i);
    LLVMValueRef at = api->LLVMConstInt(e->i64, table ? i->a - l->first : i->a, 0);
    if (!table)
        return jitc_emit_load_splat(e, type,
                                    api->LLVMBuildGEP2(e->b, e->i64, l->params, &at, 1, ""));
    LLVMTypeRef entry = jitc_emit_vector(e, element(e, log2_bytes(type)));
    return jitc_emit_load(e, type, api->LLVMBuildGEP2(e->b, entry, table, &at, 1, ""), NULL);
}
