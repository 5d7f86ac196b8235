/* References, questions about a variable, and what schedule and eval do to nodes. */
#include "trace/private.h"
#include <inttypes.h>

static jitc_node *live_node(const jitc_graph *g, jit_var v) {
    jitc_node *n = jitc_node_at(g, v & JITC_INDEX_MASK);
    return likely(jitc_node_alive(n, v)) ? n : NULL;
}

__attribute__((cold)) static jit_status dead(const char *function, jit_var v) {
    if (!v)
        return jitc_fail(JIT_INVALID_HANDLE, "%s: the variable is 0 (no variable)", function);
    return jitc_fail(JIT_INVALID_HANDLE, "%s: handle 0x%08" PRIx32 " names no live variable",
                     function, v);
}

jit_var jitc_trace_ref(jitc_graph *g, jit_var v) {
    jitc_lock_graph(g);
    jitc_node *n = live_node(g, v);
    if (unlikely(!n)) {
        jitc_unlock_graph(g);
        dead("jit_ref", v);
        return 0;
    }
    return jitc_record_finish(g, v & JITC_INDEX_MASK);
}

/* A part is written with the operation of which it is one, so that has to be another one too. */
static uint32_t part_twin(jitc_graph *g, uint32_t i) {
    uint32_t whole = jitc_node_twin(g, jitc_node_at(g, i)->a);
    uint32_t twin = whole ? jitc_record_part(g, whole) : 0;
    jitc_node_settle(g, whole);
    return twin;
}

/* In the table nobody will find it: who removes from there what is not there is not surprised. */
uint32_t jitc_node_twin(jitc_graph *g, uint32_t i) {
    const jitc_node *n = jitc_node_at(g, i);
    if (n->op == JITC_OP_data)
        return i;
    if (n->op == JITC_OP_part)
        return part_twin(g, i);
    jitc_key k = {.head = jitc_node_head(n),
                  .a = n->a,
                  .b = n->b,
                  .c = jitc_op_has_c(n->op) ? *jitc_node_c(g, i) : 0,
                  .cold = true,
                  .device = (uint8_t) jitc_node_device(n),
                  .bits = *jitc_node_value(g, i)};
    return jitc_node_new(g, &k, JITC_NODE_TABLED);
}

jit_var jitc_trace_twin(jitc_graph *g, const char *function, jit_var v) {
    jitc_lock_graph(g);
    uint32_t i = jitc_graph_find_locked(g, function, v);
    return jitc_record_finish(g, i ? jitc_node_twin(g, i) : 0);
}

void jitc_trace_unref(jitc_graph *g, jit_var v) {
    if (!v)
        return;
    jitc_lock_graph(g);
    jitc_node *n = live_node(g, v);
    if (likely(n)) {
        n->external--;
        if (jitc_node_dead(n))
            jitc_node_kill(g, v & JITC_INDEX_MASK);
    }
    jitc_unlock_graph(g);
    if (unlikely(!n))
        dead("jit_unref", v);
    else if (unlikely(jitc_thread_scopes != NULL))
        jitc_scope_gave_back(g, v);
}

static void describe(const jitc_graph *g, const jitc_node *n, uint32_t i, jitc_var_info *out) {
    *out = (jitc_var_info) {.size = jitc_node_size(n),
                            .type = jitc_node_type(n),
                            .backend = jitc_node_backend(n),
                            .device = jitc_node_device(n),
                            .external = n->external,
                            .internal = n->internal,
                            .evaluated = n->op == JITC_OP_data,
                            .literal = n->op == JITC_OP_literal};
    if (out->literal)
        out->bits = *jitc_node_value(g, i);
}

jit_status jitc_trace_info(jitc_graph *g, const char *function, jit_var v, jitc_var_info *out) {
    jitc_lock_graph(g);
    const jitc_node *n = live_node(g, v);
    if (n)
        describe(g, n, v & JITC_INDEX_MASK, out);
    jitc_unlock_graph(g);
    return n ? JIT_OK : dead(function, v);
}

uint32_t jitc_graph_find_locked(jitc_graph *g, const char *function, jit_var v) {
    if (live_node(g, v))
        return v & JITC_INDEX_MASK;
    dead(function, v);
    return 0;
}

void jitc_graph_set_data_locked(jitc_graph *g, uint32_t i, jitc_buffer *buffer) {
    jitc_node *n = jitc_node_at(g, i);
    assert(n->op != JITC_OP_data);
    jitc_number_remove(g, i);
    jitc_drop_operands(g, i);
    if (unlikely(n->flags & JITC_NODE_SHAPED))
        jitc_layout_evaluated(g, i);
    n->op = JITC_OP_data;
    n->a = n->b = 0;
    n->flags &= (uint8_t) ~(JITC_NODE_TABLED | JITC_NODE_SIDE | JITC_NODE_SPECIAL);
    jitc_node_set_next(n, 0);
    *jitc_node_c(g, i) = 0;
    *jitc_node_value(g, i) = (uintptr_t) buffer;
    if (buffer) /* a literal had no device */
        n->next_device = (uint32_t) buffer->device->id << JITC_INDEX_BITS;
}

void jitc_graph_hold_locked(jitc_graph *g, uint32_t i) {
    jitc_node_at(g, i)->internal++;
}

void jitc_graph_release_locked(jitc_graph *g, uint32_t i) {
    jitc_node_at(g, i)->internal--;
    jitc_node_settle(g, i);
}
