/* scatter_reduce.c: values combined into elements of arrays.  Layer: llvm.
 * May include: core, ir.
 *
 *   addresses of the lanes; those of lanes that update nothing lie on the stack
 *   shared ? shared : alone
 *   alone:   load, combine, store, one lane after the other
 *   direct:  the same, where all lanes update something and the index is an array: read by lanes
 *   shared:  a call: compare-and-swap
 *
 * What has no instruction of its own for one element is the call in all cases. */
#include "llvm/scatter_reduce.h"
#include "llvm/update.h"

bool jitc_has_scatter_reduce(const jitc_program *p) {
    for (uint32_t n = 0; n < p->head.count; n++)
        if (p->inst[n].op == JITC_OP_scatter_reduce)
            return true;
    return false;
}

void jitc_build_scatter_reduce_begin(jitc_builder *k) {
    if (!jitc_has_scatter_reduce(k->p))
        return;
    LLVMValueRef how = jitc_build_param(k, k->p->head.scratch + 1, k->e.i64);
    LLVMValueRef stride = jitc_build_param(k, k->p->head.scratch + 2, k->e.i64);
    LLVMValueRef last = jitc_emit_bin(&k->e, LLVMLShr, how, jitc_build_constant(k, 8));
    LLVMValueRef copy = jitc_emit_bin(&k->e, LLVMAnd, jitc_emit_iota(&k->e, k->e.i64),
                                      jitc_emit_splat(&k->e, last));
    k->spread = jitc_emit_bin(&k->e, LLVMMul, copy, jitc_emit_splat(&k->e, stride));
    for (unsigned c = 0; k->level > 0 && c < JITC_UPDATE_MOST_COPIES; c++)
        k->copy[c] = jitc_emit_bin(
            &k->e, LLVMMul, jitc_emit_bin(&k->e, LLVMAnd, last, jitc_build_constant(k, c)), stride);
    k->shared = jitc_emit_bin(&k->e, LLVMAnd, how, jitc_build_constant(k, JITC_UPDATE_SHARED));
}

/** One update being emitted. */
typedef struct update {
    jit_dtype type;
    jit_reduce_op op;
    bool wants_old;
    bool is_same; /* the value in all lanes */
    const jitc_lane_access *access;
    jitc_checked checked;
    LLVMValueRef addresses, value;   /* vectors */
    LLVMValueRef index_at, value_at; /* of the first lane in memory; NULL: they are not */
} update;

static void find_addresses(jitc_builder *k, update *w) {
    w->addresses = jitc_emit_addresses(&k->e, w->access, &w->checked, k->spread);
}

static LLVMTypeRef stored(jitc_builder *k, jit_dtype type) {
    return type == JIT_bool ? k->e.i8 : jitc_emit_scalar(&k->e, type);
}

/* One lane after the other. */

/** Are there instructions that combine two elements? */
static bool is_simple(const update *w) {
    if (w->type == JIT_f32 || w->type == JIT_f64)
        return w->op <= JIT_REDUCE_MUL;
    return jitc_dtypes[w->type].cls & JITC_DOMAIN_INTEGER;
}

static LLVMValueRef combine(jitc_builder *k, const update *w, LLVMValueRef a, LLVMValueRef b) {
    bool real = jitc_dtypes[w->type].cls == JITC_FLOAT,
         by_sign = jitc_dtypes[w->type].cls == JITC_INT;
    LLVMIntPredicate less = by_sign ? LLVMIntSLT : LLVMIntULT;
    switch (w->op) {
        case JIT_REDUCE_ADD: return jitc_emit_bin(&k->e, real ? LLVMFAdd : LLVMAdd, a, b);
        case JIT_REDUCE_MUL: return jitc_emit_bin(&k->e, real ? LLVMFMul : LLVMMul, a, b);
        case JIT_REDUCE_AND: return jitc_emit_bin(&k->e, LLVMAnd, a, b);
        case JIT_REDUCE_OR: return jitc_emit_bin(&k->e, LLVMOr, a, b);
        case JIT_REDUCE_MIN:
            return jitc_emit_select(&k->e, jitc_emit_icmp(&k->e, less, a, b), a, b);
        default: return jitc_emit_select(&k->e, jitc_emit_icmp(&k->e, less, a, b), b, a);
    }
}

static LLVMValueRef lane_of(jitc_builder *k, LLVMValueRef vector, unsigned lane) {
    LLVMValueRef at = k->e.api->LLVMConstInt(k->e.i32, lane, 0);
    return k->e.api->LLVMBuildExtractElement(k->e.b, vector, at, "");
}

static LLVMValueRef load_lane(jitc_builder *k, LLVMTypeRef scalar, LLVMValueRef room,
                              unsigned lane) {
    LLVMValueRef at = jitc_build_pointer(k, scalar, room, jitc_build_constant(k, lane));
    return k->e.api->LLVMBuildLoad2(k->e.b, scalar, at, "");
}

/** The element that a lane updates. */
static LLVMValueRef element_of(jitc_builder *k, const update *w, bool direct, unsigned lane) {
    if (!direct)
        return k->e.api->LLVMBuildCast(k->e.b, LLVMIntToPtr, lane_of(k, w->addresses, lane),
                                       k->e.ptr, "");
    LLVMTypeRef type = jitc_emit_scalar(&k->e, w->access->index_type);
    LLVMValueRef index = load_lane(k, type, w->index_at, lane);
    if (type != k->e.i64)
        index = k->e.api->LLVMBuildCast(k->e.b, LLVMZExt, index, k->e.i64, "");
    LLVMValueRef copy =
        jitc_build_pointer(k, k->e.i8, w->access->base, k->copy[lane % JITC_UPDATE_MOST_COPIES]);
    return jitc_build_pointer(k, stored(k, w->type), copy, index);
}

/** Values come by memory: extracting those as well as the addresses would keep one unit busy for
 * longer than all the rest takes. */
static LLVMValueRef update_lanes(jitc_builder *k, const update *w, bool direct) {
    const jitc_llvm *api = k->e.api;
    LLVMTypeRef scalar = stored(k, w->type);
    LLVMValueRef old = api->LLVMGetUndef(jitc_emit_vector(&k->e, scalar));
    LLVMValueRef first = w->is_same ? lane_of(k, w->value, 0) : NULL;
    LLVMValueRef room = direct ? w->value_at : NULL;
    if (!first && !room) {
        room = jitc_emit_stack(&k->e, scalar, k->e.lanes);
        api->LLVMBuildStore(k->e.b, w->value, room);
    }
    for (unsigned l = 0; l < k->e.lanes; l++) {
        LLVMValueRef p = element_of(k, w, direct, l);
        LLVMValueRef before = api->LLVMBuildLoad2(k->e.b, scalar, p, "");
        api->LLVMSetAlignment(before, jitc_dtypes[w->type].bytes);
        LLVMValueRef after = combine(k, w, before, first ? first : load_lane(k, scalar, room, l));
        api->LLVMSetAlignment(api->LLVMBuildStore(k->e.b, after, p), jitc_dtypes[w->type].bytes);
        if (w->wants_old)
            old = api->LLVMBuildInsertElement(k->e.b, old, before,
                                              api->LLVMConstInt(k->e.i32, l, 0), "");
    }
    return old;
}

/* The call. */

static LLVMValueRef update_call(jitc_builder *k, const update *w, LLVMValueRef shared) {
    const jitc_llvm *api = k->e.api;
    LLVMTypeRef scalar = stored(k, w->type), vector = jitc_emit_vector(&k->e, scalar);
    LLVMValueRef at = jitc_emit_stack(&k->e, k->e.i64, k->e.lanes);
    LLVMValueRef values = jitc_emit_stack(&k->e, scalar, k->e.lanes);
    api->LLVMBuildStore(k->e.b, w->addresses, at);
    api->LLVMBuildStore(k->e.b, w->value, values);
    LLVMValueRef old = api->LLVMConstNull(k->e.ptr);
    if (w->wants_old)
        old = jitc_emit_stack(&k->e, scalar, k->e.lanes);
    LLVMValueRef bits = jitc_emit_mask_bits64(&k->e, w->checked.valid);
    LLVMValueRef args[] = {at, values, old, bits, shared};
    jitc_emit_call(&k->e, jitc_update_name(w->op, w->type),
                   api->LLVMVoidTypeInContext(k->e.context), 5, args);
    return w->wants_old ? api->LLVMBuildLoad2(k->e.b, vector, old, "") : NULL;
}

/* All. */

static LLVMValueRef all_lanes(jitc_builder *k, const update *w) {
    const jitc_llvm *api = k->e.api;
    LLVMValueRef bits = jitc_emit_mask_bits(&k->e, w->checked.valid);
    LLVMValueRef all = api->LLVMConstInt(api->LLVMTypeOf(bits), ~(unsigned long long) 0, 1);
    return jitc_emit_icmp(&k->e, LLVMIntEQ, bits, all);
}

/** A way to do it that has been emitted: where it ends, and what was there before. */
typedef struct way {
    LLVMBasicBlockRef block;
    LLVMValueRef old;
} way;

static way end_way(jitc_builder *k, LLVMValueRef old, LLVMBasicBlockRef done) {
    way w = {jitc_emit_here(&k->e), old};
    jitc_emit_jump(&k->e, done);
    return w;
}

static LLVMValueRef update_any(jitc_builder *k, update *w) {
    LLVMBasicBlockRef alone = jitc_emit_block(&k->e, "alone"),
                      shared = jitc_emit_block(&k->e, "shared"),
                      done = jitc_emit_block(&k->e, "updated");
    LLVMValueRef is_alone = jitc_emit_icmp(&k->e, LLVMIntEQ, k->shared, jitc_build_constant(k, 0));
    way ways[3];
    unsigned n = 0;
    if (w->index_at) {
        LLVMBasicBlockRef direct = jitc_emit_block(&k->e, "direct"),
                          rest = jitc_emit_block(&k->e, "rest");
        LLVMValueRef all = jitc_emit_bin(&k->e, LLVMAnd, is_alone, all_lanes(k, w));
        jitc_emit_branch(&k->e, all, direct, rest);
        jitc_emit_at(&k->e, direct);
        ways[n++] = end_way(k, update_lanes(k, w, true), done);
        jitc_emit_at(&k->e, rest);
    }
    find_addresses(k, w);
    jitc_emit_branch(&k->e, is_alone, alone, shared);
    jitc_emit_at(&k->e, alone);
    ways[n++] = end_way(k, update_lanes(k, w, false), done);
    jitc_emit_at(&k->e, shared);
    ways[n++] = end_way(k, update_call(k, w, jitc_build_constant(k, 1)), done);
    jitc_emit_at(&k->e, done);
    if (!w->wants_old)
        return NULL;
    LLVMValueRef phi = k->e.api->LLVMBuildPhi(k->e.b, k->e.api->LLVMTypeOf(ways[0].old), "");
    for (unsigned i = 0; i < n; i++)
        k->e.api->LLVMAddIncoming(phi, &ways[i].old, &ways[i].block, 1);
    return phi;
}

/** Where an operand is read from by vectors; NULL: it is computed, or the same for all. */
static LLVMValueRef memory_of(jitc_builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    if (i->op == JITC_OP_masked)
        return memory_of(k, i->a, u);
    if (i->op != JITC_OP_data || i->flags & JITC_INST_SCALAR)
        return NULL;
    return jitc_build_vector_pointer(k, (jit_dtype) i->type, i->a, u);
}

LLVMValueRef jitc_build_scatter_reduce(jitc_builder *k, uint32_t inst, unsigned u) {
    const jitc_inst *i = &k->p->inst[inst];
    jitc_lane_access a = jitc_build_access(k, inst, i->a, i->c, u);
    update w = {.type = (jit_dtype) i->type,
                .op = jitc_inst_reduce(i),
                .wants_old = i->aux & JITC_AUX_PART,
                .is_same = k->early[i->b] || k->p->inst[i->b].op == JITC_OP_literal,
                .access = &a,
                .checked = jitc_emit_check(&k->e, &a),
                .value = jitc_build_value(k, i->b)[u]};
    if (w.type == JIT_bool)
        w.value = jitc_emit_cast(&k->e, LLVMZExt, w.value, k->e.i8);
    LLVMValueRef old;
    if (is_simple(&w)) {
        if (k->level > 0) { /* quick code is kept small, and has no k->copy */
            w.index_at = memory_of(k, i->c, u);
            w.value_at = memory_of(k, i->b, u);
        }
        old = update_any(k, &w);
    } else {
        find_addresses(k, &w);
        old = update_call(k, &w, k->shared);
    }
    if (!old)
        return NULL;
    return jitc_emit_select(&k->e, w.checked.valid, old,
                            k->e.api->LLVMConstNull(k->e.api->LLVMTypeOf(old)));
}
