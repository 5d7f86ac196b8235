/* combine.c: the public functions that combine elements.  Layer: api.  May include: all layers. */
#include "api/contents.h"
#include "trace/graph.h"

jit_var jit_reduce(jit_reduce_op op, jit_var a) {
    jitc_graph *g = jitc_api_graph("jit_reduce");
    return g ? jitc_trace_reduce(g, op, a) : 0;
}

jit_var jit_block_reduce(jit_reduce_op op, jit_var a, size_t block) {
    jitc_graph *g = jitc_api_graph("jit_block_reduce");
    return g ? jitc_trace_block_reduce(g, op, a, block) : 0;
}

jit_var jit_prefix_reduce(jit_reduce_op op, jit_var a, bool exclusive, bool reverse) {
    jitc_graph *g = jitc_api_graph("jit_prefix_reduce");
    return g ? jitc_trace_prefix_reduce(g, op, a, exclusive, reverse) : 0;
}

jit_var jit_scatter_reduce(jit_reduce_op op, jit_var target, jit_var value, jit_var index,
                           jit_var mask) {
    jitc_graph *g = jitc_api_graph("jit_scatter_reduce");
    return g ? jitc_trace_scatter_reduce(g, op, target, value, index, mask) : 0;
}

jit_var jit_scatter_inc(jit_var *target, jit_var index, jit_var mask) {
    jitc_graph *g = jitc_api_graph("jit_scatter_inc");
    jit_var updated, old;
    if (!g)
        return 0;
    if (!target) {
        jitc_fail(JIT_INVALID_ARGUMENT, "jit_scatter_inc: target is NULL");
        return 0;
    }
    if (jitc_trace_scatter_inc(g, *target, index, mask, &updated, &old) != JIT_OK)
        return 0;
    jitc_trace_unref(g, *target);
    *target = updated;
    return old;
}

jit_var jit_sort(jit_var keys, bool descending, jit_var *index) {
    jitc_graph *g = jitc_api_graph("jit_sort");
    if (index)
        *index = 0;
    return g ? jitc_trace_sort(g, keys, descending, index) : 0;
}

jit_status jit_compress_padded(jit_var mask, jit_var *indices, jit_var *count) {
    jitc_graph *g = jitc_api_graph("jit_compress_padded");
    if (!indices || !count)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_compress_padded: indices and count must not be NULL");
    *indices = *count = 0;
    return g ? jitc_trace_compress(g, mask, indices, count) : JIT_NOT_INITIALIZED;
}

/* The first n elements of an array: in its memory, if it has any, else it knows them all: then n is
 * its size, or 0. */
static jit_var first_elements(jitc_graph *g, jit_var v, uint64_t n) {
    jitc_contents c;
    jitc_graph_lock(g);
    jit_status status = jitc_contents_locked(g, "jit_compress", v, &c);
    jitc_graph_unlock(g);
    if (status != JIT_OK)
        return 0;
    const jitc_var_info *i = &c.info;
    if (c.buffer)
        return jitc_trace_data(g, i->backend, i->device, i->type, n, c.buffer);
    return n == i->size ? jitc_trace_ref(g, v)
                        : jitc_trace_literal(g, i->backend, i->device, i->type, 0, n);
}

/* The kernel that counts writes the indices too, so they are in memory when the count is known. */
jit_var jit_compress(jit_var mask) {
    jitc_graph *g = jitc_api_graph("jit_compress");
    jit_var indices, count, result = 0;
    uint64_t n = 0; /* little endian: a u32 comes first */
    if (!g || jitc_trace_compress(g, mask, &indices, &count) != JIT_OK)
        return 0;
    if (jit_read(count, &n) == JIT_OK)
        result = first_elements(g, indices, n);
    jitc_trace_unref(g, indices);
    jitc_trace_unref(g, count);
    return result;
}
