/* Labels: texts beside the graph. */
#include "trace/private.h"
#include <stdio.h>
#include <stdlib.h>

/* Takes `text` if it succeeds. */
static jit_status set_label(jitc_graph *g, uint32_t i, char *text) {
    jitc_node *n = jitc_node_at(g, i);
    if (n->flags & JITC_NODE_LABELED) {
        jitc_side_drop(&g->p->labels, i);
        n->flags &= (uint8_t) ~JITC_NODE_LABELED;
    }
    if (!text)
        return JIT_OK;
    if (!jitc_side_put(&g->p->labels, i, text))
        return jitc_fail(JIT_OUT_OF_MEMORY, "jit_set_label: no room for another label");
    n->flags |= JITC_NODE_LABELED;
    return JIT_OK;
}

jit_status jitc_trace_set_label(jitc_graph *g, jit_var v, const char *label) {
    char *text = label ? strdup(label) : NULL;
    if (label && !text)
        return jitc_fail(JIT_OUT_OF_MEMORY, "jit_set_label: no room for another label");
    jitc_lock_graph(g);
    uint32_t i = jitc_graph_find_locked(g, "jit_set_label", v);
    jit_status status = i ? set_label(g, i, text) : JIT_INVALID_HANDLE;
    jitc_unlock_graph(g);
    if (status != JIT_OK)
        free(text);
    return status;
}

const char *jitc_label_of(const jitc_graph *g, uint32_t i) {
    bool labeled = jitc_node_at(g, i)->flags & JITC_NODE_LABELED;
    return labeled ? jitc_side_get(&g->p->labels, i) : "";
}

jit_status jitc_trace_label(jitc_graph *g, jit_var v, char *text, size_t size) {
    jitc_lock_graph(g);
    uint32_t i = jitc_graph_find_locked(g, "jit_label", v);
    if (size)
        snprintf(text, size, "%s", i ? jitc_label_of(g, i) : "");
    jitc_unlock_graph(g);
    return i ? JIT_OK : JIT_INVALID_HANDLE;
}
