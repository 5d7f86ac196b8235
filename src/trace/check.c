/* check.c: may an operation be recorded? If not, in words.  Layer: trace.
 * May include: core, ir, device. */
#include "trace/private.h"
#include <inttypes.h>

static const char *name_of(const jitc_call *call) {
    return call->name ? call->name : jitc_ops[call->op].name;
}

static const char *type_name(const jitc_node *n) {
    return jitc_dtypes[jitc_node_type(n)].name;
}

static const char *backend_name(jit_backend b) {
    return b == JIT_CUDA ? "CUDA" : "LLVM";
}

jit_status jitc_check_operands(const jitc_graph *g, jitc_call *call, const jit_var *v) {
    for (uint32_t i = 0; i < call->count; ++i) {
        call->index[i] = v[i] & JITC_INDEX_MASK;
        call->node[i] = jitc_node_at(g, call->index[i]);
        if (likely(jitc_node_alive(call->node[i], v[i])))
            continue;
        const char *name = name_of(call);
        if (!v[i])
            return jitc_fail(JIT_INVALID_HANDLE, "operand %u of jit_%s is 0 (no variable)", i + 1,
                             name);
        return jitc_fail(JIT_INVALID_HANDLE,
                         "operand %u of jit_%s is no live variable (handle 0x%08" PRIx32 ")", i + 1,
                         name, v[i]);
    }
    return JIT_OK;
}

jit_status jitc_check_place(jitc_call *call) {
    const char *name = name_of(call);
    const jitc_node *first = NULL;
    for (uint32_t i = 0; i < call->count; ++i) {
        const jitc_node *n = call->node[i];
        if (jitc_node_backend(n) != jitc_node_backend(call->node[0]))
            return jitc_fail(JIT_TYPE_MISMATCH, "jit_%s: operands belong to the backends %s and %s",
                             name, backend_name(jitc_node_backend(call->node[0])),
                             backend_name(jitc_node_backend(n)));
        if (n->op == JITC_OP_literal)
            continue;
        if (first && jitc_node_device(first) != jitc_node_device(n))
            return jitc_fail(JIT_INVALID_ARGUMENT,
                             "jit_%s: operands are on the devices %d and %d; copy one of them",
                             name, jitc_node_device(first), jitc_node_device(n));
        first = n;
    }
    call->backend = jitc_node_backend(call->node[0]);
    call->device = jitc_node_device(first ? first : call->node[0]);
    return JIT_OK;
}

jit_status jitc_check_domain(const jitc_call *call) {
    static const char *const takes[] = {[JITC_DOMAIN_NONE] = "no operands",
                                        [JITC_DOMAIN_REAL] = "floating-point types",
                                        [JITC_DOMAIN_INTEGER] = "integer types",
                                        [JITC_DOMAIN_BITS] = "integer types and bool",
                                        [JITC_DOMAIN_ARITH] = "integer and floating-point types",
                                        [JITC_DOMAIN_ALL] = "all types"};
    if (likely(jitc_op_accepts(call->op, call->type)))
        return JIT_OK;
    return jitc_fail(JIT_TYPE_MISMATCH, "jit_%s: not defined for %s; it takes %s", name_of(call),
                     jitc_dtypes[call->type].name, takes[jitc_ops[call->op].domain]);
}

jit_status jitc_check_same_type(const jitc_call *call, const jitc_node *a, const jitc_node *b) {
    if (likely(jitc_node_type(a) == jitc_node_type(b)))
        return JIT_OK;
    return jitc_fail(JIT_TYPE_MISMATCH,
                     "jit_%s: operands have types %s and %s; convert one with jit_cast()",
                     name_of(call), type_name(a), type_name(b));
}

jit_status jitc_check_mask(const jitc_call *call, uint32_t operand) {
    if (likely(jitc_node_type(call->node[operand]) == JIT_bool))
        return JIT_OK;
    return jitc_fail(JIT_TYPE_MISMATCH, "jit_%s: the mask has type %s; it must be bool",
                     name_of(call), type_name(call->node[operand]));
}

jit_status jitc_check_index(const jitc_call *call, uint32_t operand) {
    if (jitc_dtypes[jitc_node_type(call->node[operand])].cls & JITC_DOMAIN_INTEGER)
        return JIT_OK;
    return jitc_fail(JIT_TYPE_MISMATCH, "jit_%s: the index has type %s; it must be an integer",
                     name_of(call), type_name(call->node[operand]));
}

jit_status jitc_check_sizes(const jitc_call *call, uint32_t first, uint64_t *out) {
    uint64_t size = 1;
    for (uint32_t i = first; i < call->count; ++i) {
        uint64_t s = jitc_node_size(call->node[i]);
        if (size != 1 && s != 1 && s != size)
            return jitc_fail(JIT_SIZE_MISMATCH,
                             "jit_%s: operands have %" PRIu64 " and %" PRIu64
                             " elements; sizes must be equal, or 1",
                             name_of(call), size, s);
        if (s != 1)
            size = s;
    }
    *out = size;
    return JIT_OK;
}

jit_status jitc_check_scatter(const jitc_graph *g, jitc_call *call, const jit_var *v,
                              uint64_t *out) {
    TRY(jitc_check_operands(g, call, v));
    TRY(jitc_check_place(call));
    TRY(jitc_check_same_type(call, call->node[0], call->node[1]));
    TRY(jitc_check_index(call, 2));
    if (call->count > 3)
        TRY(jitc_check_mask(call, 3));
    call->type = call->result = jitc_node_type(call->node[0]);
    call->size = jitc_node_size(call->node[0]);
    return jitc_check_sizes(call, 1, out);
}
