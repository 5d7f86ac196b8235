/* check.c: may an operation be recorded? If not, in words.  Layer: trace.
 * May include: core, ir, device. */
#include "trace/private.h"
#include <inttypes.h>

#define COLD __attribute__((cold))

static const char *name_of(const jitc_call *call) {
    return call->name ? call->name : jitc_ops[call->op].name;
}

static const char *type_name(const jitc_node *n) {
    return jitc_dtypes[jitc_node_type(n)].name;
}

static const char *backend_name(jit_backend b) {
    return b == JIT_CUDA ? "CUDA" : "LLVM";
}

COLD jit_status jitc_bad_operand(const jitc_call *call, uint32_t operand, jit_var v) {
    const char *name = name_of(call);
    if (!v)
        return jitc_fail(JIT_INVALID_HANDLE, "operand %u of jit_%s is 0 (no variable)", operand + 1,
                         name);
    return jitc_fail(JIT_INVALID_HANDLE,
                     "operand %u of jit_%s is no live variable (handle 0x%08" PRIx32 ")",
                     operand + 1, name, v);
}

COLD jit_status jitc_bad_backend(const jitc_call *call, const jitc_node *other) {
    return jitc_fail(JIT_TYPE_MISMATCH, "jit_%s: operands belong to the backends %s and %s",
                     name_of(call), backend_name(call->backend),
                     backend_name(jitc_node_backend(other)));
}

COLD jit_status jitc_bad_device(const jitc_call *call, const jitc_node *first,
                                const jitc_node *other) {
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "jit_%s: operands are on the devices %d and %d; copy one of them",
                     name_of(call), jitc_node_device(first), jitc_node_device(other));
}

COLD jit_status jitc_bad_domain(const jitc_call *call) {
    static const char *const takes[] = {[JITC_DOMAIN_NONE] = "no operands",
                                        [JITC_DOMAIN_REAL] = "floating-point types",
                                        [JITC_DOMAIN_INTEGER] = "integer types",
                                        [JITC_DOMAIN_BITS] = "integer types and bool",
                                        [JITC_DOMAIN_ARITH] = "integer and floating-point types",
                                        [JITC_DOMAIN_ALL] = "all types"};
    return jitc_fail(JIT_TYPE_MISMATCH, "jit_%s: not defined for %s; it takes %s", name_of(call),
                     jitc_dtypes[call->type].name, takes[jitc_ops[call->op].domain]);
}

COLD jit_status jitc_bad_types(const jitc_call *call, const jitc_node *a, const jitc_node *b) {
    return jitc_fail(JIT_TYPE_MISMATCH,
                     "jit_%s: operands have types %s and %s; convert one with jit_cast()",
                     name_of(call), type_name(a), type_name(b));
}

COLD jit_status jitc_bad_sizes(const jitc_call *call, uint64_t size, uint64_t other) {
    return jitc_fail(JIT_SIZE_MISMATCH,
                     "jit_%s: operands have %" PRIu64 " and %" PRIu64
                     " elements; sizes must be equal, or 1",
                     name_of(call), size, other);
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
