#include "schedule/order.h"

/* Depth first without recursion: descend into the first operand that was not met, append a node
 * when all its operands have been. */
static uint32_t first_unmet(const jitc_order *o, uint32_t node, const jitc_node *n) {
    unsigned arity = jitc_ops[n->op].arity;
    if (arity > 0 && *jitc_node_stamp(o->graph, n->a) < o->base)
        return n->a;
    if (arity > 1 && *jitc_node_stamp(o->graph, n->b) < o->base)
        return n->b;
    if (arity > 2) {
        uint32_t c = *jitc_node_c(o->graph, node);
        if (*jitc_node_stamp(o->graph, c) < o->base)
            return c;
    }
    return 0;
}

static jit_status append(jitc_order *o, uint32_t node, const jitc_node *n) {
    if (*jitc_node_stamp(o->graph, node) >= o->base) /* a part, which came with its operation */
        return JIT_OK;
    if (__builtin_expect(o->count == o->capacity, 0))
        TRY(jitc_grow((void **) &o->at, &o->capacity, o->count + 1, sizeof *o->at));
    *jitc_node_stamp(o->graph, node) = o->base + (uint32_t) o->count;
    o->loops |= n->op == JITC_OP_loop;
    o->at[o->count++] =
        (jitc_position) {.node = node, .slot = JITC_NONE, .ready = n->op == JITC_OP_data};
    return JIT_OK;
}

/* What an operation with a part writes, it writes for all: nobody else will. */
static jit_status append_part(jitc_order *o, uint32_t node) {
    uint32_t part = jitc_graph_part_locked(o->graph, node);
    return part ? append(o, part, jitc_node_at(o->graph, part)) : JIT_OK;
}

jit_status jitc_order_visit(jitc_order *o, uint32_t root, bool *busy) {
    size_t depth = 0;
    uint32_t node = root;
    if (*jitc_node_stamp(o->graph, root) >= o->base)
        return JIT_OK;
    for (;;) {
        const jitc_node *n = jitc_node_at(o->graph, node);
        if (__builtin_expect(n->flags & JITC_NODE_CLAIMED, 0)) {
            *busy = true;
            return JIT_OK;
        }
        uint32_t next = first_unmet(o, node, n);
        if (next) {
            TRY(jitc_order_push(o, &depth, node));
            node = next;
            continue;
        }
        TRY(append(o, node, n));
        if (__builtin_expect(jitc_ops[n->op].props & JITC_EFFECT, 0))
            TRY(append_part(o, node));
        if (!depth)
            return JIT_OK;
        node = o->stack[--depth];
    }
}
