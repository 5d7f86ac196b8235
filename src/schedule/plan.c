#include "schedule/order.h"
#include <stdlib.h>
#include <string.h>

jit_status jitc_plan_slot(jitc_plan *p, uint32_t position, bool output, uint32_t *out) {
    jitc_order *o = p->order;
    jitc_position *at = &o->at[position];
    *out = at->slot;
    if (at->slot != JITC_NONE)
        return JIT_OK;
    TRY(jitc_grow((void **) &p->slot, &p->slot_capacity, p->slots + 1, sizeof *p->slot));
    const jitc_node *n = jitc_node_at(o->graph, at->node);
    jitc_slot s = {.node = at->node, .source = JITC_NONE, .output = output};
    if (output) {
        size_t element = jitc_dtypes[jitc_node_type(n)].bytes, size = jitc_node_size(n);
        s.used_bytes = size * element;
        s.bytes =
            (size + JITC_PADDING_LANES - 1) / JITC_PADDING_LANES * JITC_PADDING_LANES * element;
    } else {
        s.buffer = jitc_node_buffer(o->graph, at->node);
        jitc_buffer_ref(s.buffer);
    }
    at->slot = *out = (uint32_t) p->slots;
    p->slot[p->slots++] = s;
    return JIT_OK;
}

jit_status jitc_plan_add_group(jitc_plan *p, uint64_t lanes, jitc_group **out) {
    TRY(jitc_grow((void **) &p->group, &p->group_capacity, p->groups + 1, sizeof *p->group));
    jitc_group *g = &p->group[p->groups];
    if (p->groups == p->group_made) {
        memset(g, 0, sizeof *g);
        ++p->group_made;
    }
    jitc_program_clear(&g->program);
    g->lanes = lanes;
    g->outputs = 0;
    ++p->groups;
    *out = g;
    return JIT_OK;
}

/* One kernel for everything. */
static jit_status plain_group(jitc_plan *p, const jitc_options *options) {
    jitc_order *o = p->order;
    jitc_group *g;
    TRY(jitc_plan_add_group(p, o->lanes, &g));
    TRY(jitc_grow((void **) &o->list, &o->list_capacity, o->count, sizeof *o->list));
    for (size_t i = 0; i < o->count; ++i)
        o->list[i] = (uint32_t) i;
    return jitc_emit_group(p, options, o->list, o->count);
}

static bool is_wanted(const jitc_node *n, bool leaves) {
    return n->op != JITC_OP_data && (leaves || !jitc_op_is_leaf(n->op));
}

static jit_status visit_roots(jitc_plan *p, size_t n, const uint32_t *roots, bool leaves,
                              bool *busy) {
    jitc_order *o = p->order;
    for (size_t i = 0; i < n && !*busy; ++i) {
        const jitc_node *node = jitc_node_at(o->graph, roots[i]);
        if (!is_wanted(node, leaves))
            continue;
        if (!o->count)
            o->lanes = jitc_node_size(node);
        o->plain = o->plain && jitc_node_size(node) == o->lanes;
        TRY(jitc_order_visit(o, roots[i], busy));
    }
    for (size_t i = 0; i < n && !*busy; ++i) {
        uint32_t slot;
        if (is_wanted(jitc_node_at(o->graph, roots[i]), leaves))
            TRY(jitc_plan_slot(p, jitc_order_position(o, roots[i]), true, &slot));
    }
    return JIT_OK;
}

static jit_status build(jitc_plan *p, jitc_graph *g, const jitc_options *options, size_t n,
                        const uint32_t *roots, bool leaves, bool *busy) {
    jitc_order *o = p->order;
    o->graph = g;
    o->base = jitc_graph_stamps_locked(g);
    o->count = 0;
    o->plain = true;
    jit_status status = visit_roots(p, n, roots, leaves, busy);
    g->stamp_base = o->base + (uint32_t) o->count;
    if (status != JIT_OK || *busy || !p->slots)
        return status;
    if (o->plain && o->count <= (size_t) options->kernel_ops)
        return plain_group(p, options);
    return jitc_partition(p, options);
}

static void claim(jitc_plan *p, jitc_graph *g) {
    for (size_t i = 0; i < p->slots; ++i)
        if (p->slot[i].output) {
            jitc_node_at(g, p->slot[i].node)->flags |= JITC_NODE_CLAIMED;
            jitc_graph_hold_locked(g, p->slot[i].node);
        }
}

jit_status jitc_plan_make_locked(jitc_plan *p, jitc_graph *g, const jitc_options *o, size_t n,
                                 const uint32_t *roots, bool leaves, bool *busy) {
    *busy = false;
    p->groups = p->slots = 0;
    if (!p->order) {
        void *order = NULL;
        TRY(jitc_calloc(1, sizeof *p->order, &order));
        p->order = order;
    }
    jit_status status = build(p, g, o, n, roots, leaves, busy);
    if (status == JIT_OK && !*busy) {
        claim(p, g);
        return JIT_OK;
    }
    /* Inputs go on living in their nodes: these are never the last references. */
    for (size_t i = 0; i < p->slots; ++i)
        if (p->slot[i].buffer)
            jitc_buffer_unref(p->slot[i].buffer);
    p->groups = p->slots = 0;
    return status;
}

static void unclaim_locked(jitc_graph *g, uint32_t node) {
    jitc_node_at(g, node)->flags &= (uint8_t) ~JITC_NODE_CLAIMED;
    jitc_graph_release_locked(g, node);
}

void jitc_plan_settle_locked(jitc_plan *p, jitc_graph *g, size_t i) {
    const jitc_group *group = &p->group[i];
    for (size_t k = 0; k < group->outputs; ++k) {
        jitc_slot *s = &p->slot[group->output[k]];
        jitc_buffer_ref(s->buffer);
        jitc_graph_set_data_locked(g, s->node, s->buffer);
        unclaim_locked(g, s->node);
    }
    /* What only these outputs needed goes now, not bit by bit: its memory is wanted by later
     * groups. */
    jitc_graph_reap_locked(g);
}

void jitc_plan_abandon_locked(jitc_plan *p, jitc_graph *g, size_t first) {
    for (size_t i = first; i < p->groups; ++i)
        for (size_t k = 0; k < p->group[i].outputs; ++k)
            unclaim_locked(g, p->slot[p->group[i].output[k]].node);
}

bool jitc_plan_in_place_locked(const jitc_plan *p, const jitc_graph *g, uint32_t s) {
    const jitc_slot *source = &p->slot[p->slot[s].source];
    const jitc_node *n = jitc_node_at(g, source->node);
    const jitc_buffer *b = source->buffer;
    /* The scatter's own reference to the array, the node's and the slot's to the buffer. */
    return n->op == JITC_OP_data && n->external == 0 && n->internal == 1 && !b->read_only &&
           jitc_load_acquire(&b->refs.count) == 2;
}

static void drop(jitc_slot *s) {
    jitc_buffer *b = s->buffer;
    s->buffer = NULL;
    jitc_buffer_unref(b);
}

void jitc_plan_drop_buffers(jitc_plan *p, size_t group) {
    for (size_t i = 0; i < p->slots; ++i)
        if (p->slot[i].buffer && p->slot[i].last_group <= group)
            drop(&p->slot[i]);
}

void jitc_plan_finish(jitc_plan *p) {
    for (size_t i = 0; i < p->group_made; ++i) {
        jitc_program_finish(&p->group[i].program);
        free(p->group[i].param);
        free(p->group[i].output);
    }
    free(p->group);
    free(p->slot);
    if (p->order) {
        free(p->order->at);
        free(p->order->stack);
        free(p->order->place);
        free(p->order->target);
        free(p->order->list);
        free(p->order->last);
        free(p->order);
    }
    *p = (jitc_plan) {0};
}
