/* loop_write.c: loops from a list that is in order (nest.c) to instructions.  Layer: schedule.
 *
 * What is outside of an outermost loop and used inside is written before it, leaves and buffers
 * too: inside it would be gone behind the end. */
#include "schedule/list.h"
#include <assert.h>

static jitc_region *region_of(const jitc_list_writer *w, uint32_t region) {
    return &w->order->region[region - 1];
}

static bool is_written(const jitc_list_writer *w, uint32_t position) {
    return w->order->at[position].value_group == w->m.number;
}

static void set_value(jitc_list_writer *w, uint32_t position, uint32_t inst) {
    w->order->at[position].value = inst;
    w->order->at[position].value_group = w->m.number;
}

static void set_region(jitc_list_writer *w, uint32_t region) {
    w->region = region;
    w->m.inside = region != 0;
}

static uint32_t position_of(const jitc_list_writer *w, uint32_t node) {
    return jitc_order_position(w->order, node);
}

/* ---- before the outermost loop ---- */

/* Operands that are values: a set of bits. Those that only say what belongs to what are none, nor
 * is what becomes part of the instruction. */
static unsigned value_operands(const jitc_list_writer *w, const jitc_node *n) {
    switch (jitc_ops[n->op].form) {
        case JITC_FORM_LOOP:
        case JITC_FORM_RESULT: return 0;
        case JITC_FORM_PHI: return 1;
        case JITC_FORM_NEXT:
        case JITC_FORM_END: return 2;
        default: return jitc_write_bakes(w->m.graph, n) ? 5 : 7;
    }
}

static jit_status prepare_operand(jitc_list_writer *w, uint32_t i, unsigned k, uint32_t operand) {
    const jitc_inside *from = &w->order->inside[operand];
    uint32_t unused;
    if (jitc_order_in_memory(w->order, i, k) && jitc_order_node(w->order, i)->op != JITC_OP_phi)
        return jitc_list_buffer(w, operand, false, &unused);
    bool passed = from->root != JITC_NONE && !from->final; /* an array without a value */
    if (from->region || passed || w->order->inside[i].root == i)
        return JIT_OK;
    return jitc_list_value(w, operand, &unused);
}

static jit_status prepare_entry(jitc_list_writer *w, uint32_t i) {
    const jitc_node *n = jitc_order_node(w->order, i);
    unsigned values = value_operands(w, n);
    uint32_t operand[3], unused, root = w->order->inside[i].root;
    jitc_order_operands(w->order, w->order->at[i].node, operand);
    if (root != JITC_NONE && jitc_ops[n->op].form == JITC_FORM_SCATTER)
        TRY(jitc_list_buffer(w, w->order->inside[root].owner, true, &unused));
    for (unsigned k = 0; k < jitc_ops[n->op].arity; ++k)
        if (values >> k & 1)
            TRY(prepare_operand(w, i, k, position_of(w, operand[k])));
    return JIT_OK;
}

/* Everything up to the end of the loop list[0]. */
static jit_status prepare(jitc_list_writer *w, const uint32_t *list, size_t count) {
    uint32_t end = region_of(w, w->order->inside[list[0]].own)->end;
    for (size_t i = 0; i < count; ++i) {
        TRY(prepare_entry(w, list[i]));
        if (list[i] == end)
            break;
    }
    return JIT_OK;
}

/* ---- the parts of a loop ---- */

static jit_status add(jitc_list_writer *w, jitc_inst inst, uint32_t *out) {
    return jitc_program_add(w->m.program, inst, out);
}

static jit_status write_loop(jitc_list_writer *w, uint32_t i) {
    uint32_t own = w->order->inside[i].own;
    jitc_inst inst = {.op = JITC_OP_loop, .aux = jitc_node_aux(w->m.graph, w->order->at[i].node)};
    w->m.program->head.flags |= JITC_PROGRAM_LOOPS;
    set_region(w, own);
    region_of(w, own)->tested = false;
    return add(w, inst, &region_of(w, own)->inst);
}

static jit_status write_phi(jitc_list_writer *w, uint32_t i, const jitc_node *n) {
    uint32_t start, inst;
    if (w->order->inside[i].root != JITC_NONE)
        return JIT_OK;
    assert(is_written(w, position_of(w, n->a)));
    TRY(jitc_list_value(w, position_of(w, n->a), &start));
    jitc_inst phi = {.op = JITC_OP_phi,
                     .type = (uint8_t) jitc_node_type(n),
                     .a = start,
                     .b = region_of(w, w->region)->inst,
                     .c = (uint32_t) *jitc_node_value(w->m.graph, w->order->at[i].node)};
    TRY(add(w, phi, &inst));
    set_value(w, i, inst);
    return JIT_OK;
}

static jit_status write_test(jitc_list_writer *w, jitc_region *r) {
    uint32_t condition, unused;
    TRY(jitc_list_value(w, r->condition, &condition));
    r->tested = true;
    return add(w, (jitc_inst) {.op = JITC_OP_test, .a = condition, .b = r->inst}, &unused);
}

static jit_status write_next(jitc_list_writer *w, uint32_t i, const jitc_node *n) {
    uint32_t phi, value, unused;
    if (w->order->inside[i].root != JITC_NONE)
        return JIT_OK;
    TRY(jitc_list_value(w, position_of(w, n->a), &phi));
    TRY(jitc_list_value(w, position_of(w, n->b), &value));
    jitc_inst next = {
        .op = JITC_OP_next, .type = (uint8_t) jitc_node_type(n), .a = phi, .b = value};
    return add(w, next, &unused);
}

static jit_status write_end(jitc_list_writer *w) {
    const jitc_region *r = region_of(w, w->region);
    uint32_t unused;
    assert(r->tested);
    set_region(w, r->parent);
    return add(w, (jitc_inst) {.op = JITC_OP_end, .a = r->inst}, &unused);
}

/* A result is the phi, seen from behind the loop. */
static jit_status write_result(jitc_list_writer *w, uint32_t i, const jitc_node *n) {
    uint32_t phi;
    if (w->order->inside[i].root != JITC_NONE)
        return JIT_OK;
    TRY(jitc_list_value(w, position_of(w, n->b), &phi));
    set_value(w, i, phi);
    return JIT_OK;
}

/* A part is the operation, which gives its value. */
static jit_status write_part(jitc_list_writer *w, uint32_t i, const jitc_node *n, bool *done) {
    uint32_t value;
    if (!w->region)
        *done = false;
    if (!w->region)
        return JIT_OK;
    TRY(jitc_list_value(w, position_of(w, n->a), &value));
    set_value(w, i, value);
    return JIT_OK;
}

jit_status jitc_loop_write(jitc_list_writer *w, const uint32_t *list, size_t count, bool *done) {
    uint32_t i = *list;
    const jitc_node *n = jitc_order_node(w->order, i);
    jitc_region *r = w->region ? region_of(w, w->region) : NULL;
    *done = true;
    if (r && !r->tested && n->op != JITC_OP_phi && is_written(w, r->condition))
        TRY(write_test(w, r));
    switch (jitc_ops[n->op].form) {
        case JITC_FORM_LOOP:
            if (!w->region)
                TRY(prepare(w, list, count));
            return write_loop(w, i);
        case JITC_FORM_PHI: return write_phi(w, i, n);
        case JITC_FORM_NEXT: return write_next(w, i, n);
        case JITC_FORM_END: return write_end(w);
        case JITC_FORM_RESULT: return write_result(w, i, n);
        case JITC_FORM_PART: return write_part(w, i, n, done);
        default: *done = false; return JIT_OK;
    }
}

/* ---- arrays ---- */

bool jitc_loop_owns(const jitc_order *o, uint32_t position) {
    uint32_t root = o->loops ? o->inside[position].root : JITC_NONE;
    return root == JITC_NONE || o->inside[root].owner == position;
}

jit_status jitc_loop_copy(jitc_plan *p, const jitc_options *options, uint32_t position) {
    jitc_order *o = p->order;
    jitc_writer m;
    uint32_t slot = o->at[position].slot;
    uint32_t source = o->at[o->inside[o->inside[position].root].owner].slot;
    TRY(jitc_write_begin(&m, p, o->graph, options, 0));
    p->slot[slot].source = source;
    p->slot[slot].last_group = p->slot[source].last_group = m.number - 1;
    TRY(jitc_write_output(&m, slot));
    return jitc_write_end(&m, options);
}
