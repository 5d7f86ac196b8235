#include "schedule/order.h"
#include "schedule/write.h"
#include <assert.h>
#include <stdlib.h>

jit_status jitc_plan_add_slot(jitc_plan *p, jitc_graph *g, uint32_t node, bool output,
                              uint32_t *out) {
    TRY(jitc_grow((void **) &p->slot, &p->slot_capacity, p->slots + 1, sizeof *p->slot));
    jitc_slot s = {.node = node, .source = JITC_NONE, .output = output};
    if (output) {
        const jitc_node *n = jitc_node_at(g, node);
        size_t element = jitc_dtypes[jitc_node_type(n)].bytes, size = jitc_node_size(n);
        s.used_bytes = size * element;
        s.bytes = jitc_padded(size) * element;
    } else {
        s.buffer = jitc_node_buffer(g, node);
        jitc_buffer_ref(s.buffer);
    }
    *out = (uint32_t) p->slots;
    p->slot[p->slots++] = s;
    return JIT_OK;
}

jit_status jitc_plan_slot(jitc_plan *p, uint32_t position, bool output, uint32_t *out) {
    jitc_position *at = &p->order->at[position];
    if (at->slot == JITC_NONE)
        TRY(jitc_plan_add_slot(p, p->order->graph, at->node, output, &at->slot));
    *out = at->slot;
    return JIT_OK;
}

static bool is_wanted(const jitc_node *n, bool leaves) {
    return n->op != JITC_OP_data && (leaves || !jitc_op_is_leaf(n->op));
}

/* The roots that have to be computed, to the front of order->root. */
static jit_status wanted_roots(jitc_plan *p, const jitc_graph *g, const jitc_wanted *w,
                               size_t *count) {
    jitc_order *o = p->order;
    TRY(jitc_grow((void **) &o->root, &o->root_capacity, w->count, sizeof *o->root));
    *count = 0;
    for (size_t i = 0; i < w->count; ++i)
        if (is_wanted(jitc_node_at(g, w->node[i]), w->leaves))
            o->root[(*count)++] = w->node[i];
    return JIT_OK;
}

static jit_status visit_roots(jitc_plan *p, size_t n, bool *busy) {
    jitc_order *o = p->order;
    uint32_t slot;
    for (size_t i = 0; i < n && !*busy; ++i)
        TRY(jitc_order_visit(o, o->root[i], busy));
    for (size_t i = 0; i < n && !*busy; ++i)
        TRY(jitc_plan_slot(p, jitc_order_position(o, o->root[i]), true, &slot));
    return JIT_OK;
}

/* Inputs go on living in their nodes: these are never the last references. */
static void reset(jitc_plan *p) {
    for (size_t i = 0; i < p->slots; ++i)
        if (p->slot[i].buffer)
            jitc_buffer_unref(p->slot[i].buffer);
    p->groups = p->slots = 0;
}

static jit_status build_ordered(jitc_plan *p, jitc_graph *g, const jitc_options *options, size_t n,
                                bool *busy) {
    jitc_order *o = p->order;
    reset(p);
    o->graph = g;
    o->base = jitc_graph_stamps_locked(g);
    o->count = 0;
    o->loops = o->torn = false;
    jit_status status = visit_roots(p, n, busy);
    g->stamp_base = o->base + (uint32_t) o->count;
    if (status == JIT_OK && !*busy && o->loops)
        status = jitc_loops_find(o, n);
    return status != JIT_OK || *busy ? status : jitc_partition(p, options);
}

static jit_status build(jitc_plan *p, jitc_graph *g, const jitc_options *options,
                        const jitc_wanted *w, bool *busy) {
    jitc_order *o = p->order;
    size_t n;
    bool done;
    TRY(wanted_roots(p, g, w, &n));
    if (!n)
        return JIT_OK;
    TRY(jitc_plan_direct(p, g, options, n, o->root, busy, &done));
    if (done || *busy)
        return JIT_OK;
    o->apart = false;
    TRY(build_ordered(p, g, options, n, busy));
    if (!o->torn)
        return JIT_OK;
    o->apart = true;
    return build_ordered(p, g, options, n, busy);
}

static void claim(jitc_plan *p, jitc_graph *g) {
    for (size_t i = 0; i < p->slots; ++i)
        if (p->slot[i].output) {
            jitc_node_at(g, p->slot[i].node)->flags |= JITC_NODE_CLAIMED;
            jitc_graph_hold_locked(g, p->slot[i].node);
        }
}

/* List, for each group, the slots whose last one it is. */
static void list_last_uses(jitc_plan *p) {
    for (size_t i = 0; i < p->groups; ++i)
        p->group[i].last = JITC_NONE;
    for (size_t i = 0; p->groups && i < p->slots; ++i) {
        jitc_slot *s = &p->slot[i];
        assert(s->last_group < p->groups);
        s->next_last = p->group[s->last_group].last;
        p->group[s->last_group].last = (uint32_t) i;
    }
}

jit_status jitc_plan_make_locked(jitc_plan *p, jitc_graph *g, const jitc_options *o,
                                 const jitc_wanted *wanted, bool *busy) {
    *busy = false;
    p->groups = p->slots = 0;
    p->leaves = wanted->leaves;
    if (!p->order) {
        void *order = NULL;
        TRY(jitc_calloc(1, sizeof *p->order, &order));
        p->order = order;
    }
    jit_status status = build(p, g, o, wanted, busy);
    if (status != JIT_OK || *busy) {
        reset(p);
        return status;
    }
    list_last_uses(p);
    claim(p, g);
    p->settled = 0;
    return JIT_OK;
}

static void unclaim_locked(jitc_graph *g, uint32_t node) {
    jitc_node_at(g, node)->flags &= (uint8_t) ~JITC_NODE_CLAIMED;
    jitc_graph_release_locked(g, node);
}

void jitc_plan_settle_locked(jitc_plan *p, jitc_graph *g, size_t i) {
    const jitc_group *group = &p->group[i];
    for (size_t k = 0; k < group->outputs; ++k) {
        jitc_slot *s = &p->slot[group->output[k]];
        /* A leaf that is only indexed stays what it is: its memory goes with the plan. So does an
         * array that a loop scatters into for what it reads on the way. */
        uint8_t op = jitc_node_at(g, s->node)->op;
        if ((p->leaves || !jitc_op_is_leaf(op)) && op != JITC_OP_next) {
            jitc_buffer_ref(s->buffer);
            jitc_graph_set_data_locked(g, s->node, s->buffer);
        }
        unclaim_locked(g, s->node);
    }
    /* What only these outputs needed goes now, not bit by bit: its memory is wanted by later
     * groups. */
    jitc_graph_reap_locked(g);
    p->settled = i + 1;
}

void jitc_plan_abandon_locked(jitc_plan *p, jitc_graph *g) {
    for (size_t i = p->settled; i < p->groups; ++i)
        for (size_t k = 0; k < p->group[i].outputs; ++k)
            unclaim_locked(g, p->slot[p->group[i].output[k]].node);
    p->settled = p->groups;
}

static bool reads(const jitc_group *group, uint32_t slot) {
    for (uint32_t i = 0; i < group->program.head.params; ++i)
        if (group->param[i].kind == JITC_PARAM_READ && group->param[i].slot == slot)
            return true;
    return false;
}

/* Would something that is alive have a loop run again, from the array as it was? */
static bool may_run_again(const jitc_plan *p, const jitc_graph *g, size_t group, uint32_t s) {
    const jitc_node *n = jitc_node_at(g, p->slot[s].node);
    uint32_t written = 0;
    if (n->op == JITC_OP_next)
        return true;
    if (n->op != JITC_OP_result)
        return false;
    for (size_t i = 0; i < p->group[group].outputs; ++i) {
        const jitc_node *other = jitc_node_at(g, p->slot[p->group[group].output[i]].node);
        written += other->op == JITC_OP_result && other->a == n->a;
    }
    return jitc_node_at(g, n->a)->internal != written;
}

bool jitc_plan_in_place_locked(const jitc_plan *p, const jitc_graph *g, size_t group, uint32_t s) {
    const jitc_slot *source = &p->slot[p->slot[s].source];
    /* The plan may itself read the array, for a value that it computes along the way and that
     * another thread has evaluated since: then no node tells of that any more. */
    if (source->last_group != group || reads(&p->group[group], p->slot[s].source) ||
        may_run_again(p, g, group, s))
        return false;
    const jitc_node *n = jitc_node_at(g, source->node);
    const jitc_buffer *b = source->buffer;
    /* The scatter's own reference to the array, the node's and the slot's to the buffer. */
    return n->op == JITC_OP_data && n->external == 0 && n->internal == 1 && !b->foreign &&
           jitc_load_acquire(&b->refs.count) == 2;
}

/* Out of the slot and into the graph in one step: a forked child has it once. */
static void drop_foreign(jitc_graph *g, jitc_slot *s) {
    jitc_graph_lock(g);
    jitc_graph_drop_foreign_locked(g, s->buffer);
    s->buffer = NULL;
    jitc_graph_unlock(g);
}

static void drop(jitc_graph *g, jitc_slot *s) {
    jitc_buffer *b = s->buffer;
    if (b->foreign) {
        drop_foreign(g, s);
        return;
    }
    s->buffer = NULL;
    jitc_buffer_unref(b);
}

void jitc_plan_drop_buffers(jitc_plan *p, jitc_graph *g, size_t group) {
    for (uint32_t i = p->group[group].last; i != JITC_NONE; i = p->slot[i].next_last)
        if (p->slot[i].buffer)
            drop(g, &p->slot[i]);
}

void jitc_plan_drop_all_buffers(jitc_plan *p, jitc_graph *g) {
    for (size_t i = 0; i < p->slots; ++i)
        if (p->slot[i].buffer)
            drop(g, &p->slot[i]);
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
        free(p->order->root);
        free(p->order->place);
        free(p->order->target);
        free(p->order->list);
        free(p->order->stored);
        free(p->order->last);
        free(p->order->inside);
        free(p->order->region);
        free(p->order->link);
        free(p->order->whole);
        free(p->order);
    }
    *p = (jitc_plan) {0};
}
