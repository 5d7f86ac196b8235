/* list.c: one group from a list of positions.  Layer: schedule.
 *
 * Leaves, and values that other kernels wrote, are emitted at their first use; everything else in
 * the order of the list; then what goes to memory: stores, and operations that combine lanes. */
#include "schedule/list.h"

typedef jitc_list_writer list_writer;

static jit_status value_of(list_writer *w, uint32_t position, uint32_t *out);

static jit_status emit_leaf(list_writer *w, uint32_t position, const jitc_node *n, uint32_t *out) {
    uint32_t slot;
    if (w->order->at[position].ready) {
        TRY(jitc_plan_slot(w->m.plan, position, false, &slot));
        return jitc_write_data(&w->m, n, slot, out);
    }
    if (n->op == JITC_OP_literal)
        return jitc_write_literal(&w->m, w->order->at[position].node, false, out);
    return jitc_write_operation(&w->m, n, 0, 0, 0, out);
}

/* A `buffer` instruction; each array has one in each program. */
static jit_status buffer_of(list_writer *w, uint32_t position, bool write, uint32_t *out) {
    jitc_position *at = &w->order->at[position];
    uint32_t slot;
    if (at->buffer_group == w->m.number) {
        *out = at->buffer;
        return JIT_OK;
    }
    TRY(jitc_plan_slot(w->m.plan, position, write, &slot));
    TRY(jitc_write_buffer(&w->m, jitc_order_node(w->order, position), slot, write, out));
    at->buffer = *out;
    at->buffer_group = w->m.number;
    return JIT_OK;
}

/* The value of an operand, which in most cases has been emitted. */
static inline jit_status operand(list_writer *w, uint32_t node, uint32_t *out) {
    uint32_t position = jitc_order_position(w->order, node);
    const jitc_position *at = &w->order->at[position];
    if (at->value_group != w->m.number)
        return value_of(w, position, out);
    *out = at->value;
    return JIT_OK;
}

/* The array that a gather reads or a scatter updates, else a value. */
static jit_status operand_a(list_writer *w, uint32_t position, const jitc_node *n, uint32_t *out) {
    switch (jitc_ops[n->op].form) {
        case JITC_FORM_SCATTER:
            return buffer_of(w, jitc_loops_target(w->order, position), true, out);
        case JITC_FORM_GATHER: return buffer_of(w, jitc_order_position(w->order, n->a), false, out);
        default: return operand(w, n->a, out);
    }
}

/* What a scatter_reduce is told besides its operands. */
static void note_reduction(list_writer *w, uint32_t position, uint32_t inst) {
    bool part = jitc_order_part(w->order, position) != JITC_NONE;
    w->m.program->inst[inst].aux =
        (uint8_t) (jitc_node_aux(w->m.graph, w->order->at[position].node) |
                   (part ? JITC_AUX_PART : 0));
    w->m.scratch = true;
}

static jit_status emit_node(list_writer *w, uint32_t position, const jitc_node *n, uint32_t *out) {
    unsigned arity = jitc_ops[n->op].arity;
    uint32_t a = 0, b = 0, c = 0;
    TRY(operand_a(w, position, n, &a));
    if (jitc_write_bakes(w->m.graph, n))
        TRY(jitc_write_literal(&w->m, n->b, true, &b));
    else if (arity > 1)
        TRY(operand(w, n->b, &b));
    if (arity > 2)
        TRY(operand(w, *jitc_node_c(w->m.graph, w->order->at[position].node), &c));
    TRY(jitc_write_operation(&w->m, n, a, b, c, out));
    if (__builtin_expect(n->op == JITC_OP_scatter_reduce, 0))
        note_reduction(w, position, *out);
    return JIT_OK;
}

/* Emit a position that this group has not emitted. Values of one element that an earlier part of a
 * cut kernel computed are computed again: the partition sees to it that they are small. */
static jit_status value_of(list_writer *w, uint32_t position, uint32_t *out) {
    const jitc_node *n = jitc_order_node(w->order, position);
    if (w->order->at[position].ready || jitc_op_is_leaf(n->op))
        TRY(emit_leaf(w, position, n, out));
    else
        TRY(emit_node(w, position, n, out));
    w->order->at[position].value = *out;
    w->order->at[position].value_group = w->m.number;
    return JIT_OK;
}

/* A scatter starts from a copy of the array that it updates, or works in its memory. */
static jit_status link_source(list_writer *w, uint32_t position) {
    const jitc_node *n = jitc_order_node(w->order, position);
    uint32_t source;
    uint32_t array = w->order->loops && w->order->inside[position].root != JITC_NONE
                         ? jitc_loops_source(w->order, position)
                         : jitc_order_position(w->order, n->a);
    TRY(jitc_plan_slot(w->m.plan, array, false, &source));
    w->m.plan->slot[source].last_group = w->m.number - 1;
    w->m.plan->slot[w->order->at[position].slot].source = source;
    return JIT_OK;
}

static jit_status store_value(list_writer *w, uint32_t node, uint32_t slot, const jitc_node *as) {
    uint32_t value;
    TRY(operand(w, node, &value));
    return jitc_write_store(&w->m, as, value, slot);
}

/* An operation that combines lanes; `part`: the slot of its part, or NONE. */
static jit_status combine(list_writer *w, uint32_t position, const jitc_node *n, uint32_t part) {
    uint32_t a;
    if (jitc_op_indexes(n->op))
        TRY(buffer_of(w, jitc_order_position(w->order, n->a), false, &a));
    else
        TRY(operand(w, n->a, &a));
    const jitc_position *at = &w->order->at[position];
    return jitc_write_combining(&w->m, at->node, a, at->slot, part);
}

/* Put a target into memory, and its part; the result of a scatter is there already. */
static jit_status store(list_writer *w, uint32_t position) {
    jitc_order *o = w->order;
    const jitc_node *n = jitc_order_node(o, position);
    uint32_t node = o->at[position].node, slot = o->at[position].slot;
    uint32_t part = jitc_order_part(o, position);
    if (!jitc_loop_owns(o, position))
        return JIT_OK;
    if (jitc_op_combines(n->op))
        TRY(combine(w, position, n, part == JITC_NONE ? part : o->at[part].slot));
    else if (jitc_order_writes(o, position))
        TRY(link_source(w, position));
    else
        TRY(store_value(w, node, slot, n));
    TRY(jitc_write_output(&w->m, slot));
    if (part == JITC_NONE)
        return JIT_OK;
    if (!jitc_op_combines(n->op))
        TRY(store_value(w, node, o->at[part].slot, jitc_order_node(o, part)));
    o->at[part].ready = 1;
    return jitc_write_output(&w->m, o->at[part].slot);
}

/* Emit the operations of the list; what has to be stored goes to order->stored. */
static jit_status emit_list(list_writer *w, const uint32_t *list, size_t count, size_t *stored) {
    jitc_order *o = w->order;
    uint32_t unused;
    *stored = 0;
    for (size_t i = 0; i < count; ++i) {
        const jitc_position *at = &o->at[list[i]];
        bool done = false;
        if (at->ready)
            continue;
        if (o->loops)
            TRY(jitc_loop_write(w, list + i, count - i, &done));
        if (at->slot != JITC_NONE) {
            TRY(jitc_grow((void **) &o->stored, &o->stored_capacity, *stored + 1,
                          sizeof *o->stored));
            o->stored[(*stored)++] = list[i];
        }
        uint8_t op = jitc_order_node(o, list[i])->op;
        if (!done && !jitc_op_is_leaf(op) && !jitc_op_combines(op) &&
            at->value_group != w->m.number)
            TRY(value_of(w, list[i], &unused));
    }
    return JIT_OK;
}

jit_status jitc_list_value(list_writer *w, uint32_t position, uint32_t *out) {
    return operand(w, w->order->at[position].node, out);
}

jit_status jitc_list_buffer(list_writer *w, uint32_t position, bool write, uint32_t *out) {
    return buffer_of(w, position, write, out);
}

jit_status jitc_write_list(jitc_plan *p, const jitc_options *o, uint64_t lanes,
                           const uint32_t *list, size_t count) {
    list_writer w = {.order = p->order};
    size_t stored;
    TRY(jitc_write_begin(&w.m, p, p->order->graph, o, lanes));
    TRY(emit_list(&w, list, count, &stored));
    for (size_t i = 0; i < stored; ++i)
        TRY(store(&w, p->order->stored[i]));
    for (size_t i = 0; i < stored; ++i) /* for the groups that follow */
        p->order->at[p->order->stored[i]].ready = 1;
    TRY(jitc_write_end(&w.m, o));
    for (size_t i = 0; i < stored; ++i)
        if (!jitc_loop_owns(p->order, p->order->stored[i]))
            TRY(jitc_loop_copy(p, o, p->order->stored[i]));
    return JIT_OK;
}
