/* Positions to instructions. Leaves, and values that other kernels wrote, are emitted at their
 * first use; everything else in the order of the list. */
#include "schedule/order.h"

enum { STREAM_BYTES = 64 << 20 };

typedef struct emitter {
    jitc_plan *plan;
    jitc_order *order;
    jitc_group *group;
    jitc_program *program;
    uint32_t number; /* of the group, from 1 */
} emitter;

static jit_status value_of(emitter *m, uint32_t position, uint32_t *out);

static jit_status add_param(emitter *m, jitc_param param, uint32_t *out) {
    jitc_group *g = m->group;
    uint32_t count = m->program->head.params;
    TRY(jitc_grow((void **) &g->param, &g->param_capacity, count + 1, sizeof *g->param));
    g->param[count] = param;
    m->program->head.params = count + 1;
    *out = count;
    return JIT_OK;
}

/* The address of a position's memory as a parameter. */
static jit_status add_pointer(emitter *m, uint32_t position, jitc_param_kind kind, uint32_t *out) {
    uint32_t slot;
    TRY(jitc_plan_slot(m->plan, position, kind == JITC_PARAM_WRITE, &slot));
    jitc_slot *s = &m->plan->slot[slot];
    s->last_group = m->number - 1;
    return add_param(m, (jitc_param) {.kind = kind, .slot = slot}, out);
}

/* Foreign memory ends behind its last element: whole vectors may not be moved. */
static void note_foreign(emitter *m, uint32_t position) {
    const jitc_buffer *b = m->plan->slot[m->order->at[position].slot].buffer;
    if (b && b->foreign)
        m->program->head.flags |= JITC_PROGRAM_TAIL;
}

static jit_status emit_data(emitter *m, uint32_t position, const jitc_node *n, uint32_t *out) {
    jitc_inst inst = {.op = JITC_OP_data, .type = (uint8_t) jitc_node_type(n)};
    TRY(add_pointer(m, position, JITC_PARAM_READ, &inst.a));
    if (jitc_node_size(n) == 1 && m->group->lanes != 1)
        inst.flags = JITC_INST_SCALAR;
    else
        note_foreign(m, position);
    return jitc_program_add(m->program, inst, out);
}

static jit_status emit_literal(emitter *m, const jitc_node *n, uint64_t bits, bool baked,
                               uint32_t *out) {
    jitc_inst inst = {.op = JITC_OP_literal, .type = (uint8_t) jitc_node_type(n)};
    if (baked) {
        inst.flags = JITC_INST_BAKED;
        inst.b = (uint32_t) bits;
        inst.c = (uint32_t) (bits >> 32);
    } else {
        TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_BITS, .bits = bits}, &inst.a));
    }
    return jitc_program_add(m->program, inst, out);
}

static jit_status emit_leaf(emitter *m, uint32_t position, const jitc_node *n, uint32_t *out) {
    if (m->order->at[position].ready)
        return emit_data(m, position, n, out);
    if (n->op == JITC_OP_literal) {
        uint64_t bits = *jitc_node_value(m->order->graph, m->order->at[position].node);
        return emit_literal(m, n, bits, jitc_node_type(n) == JIT_bool, out);
    }
    jitc_inst inst = {.op = n->op, .type = (uint8_t) jitc_node_type(n)};
    return jitc_program_add(m->program, inst, out);
}

/* A `buffer` instruction: pointer and number of elements. */
static jit_status buffer_of(emitter *m, uint32_t position, bool write, uint32_t *out) {
    jitc_position *at = &m->order->at[position];
    if (!write && at->buffer_group == m->number) {
        *out = at->buffer;
        return JIT_OK;
    }
    const jitc_node *n = jitc_order_node(m->order, position);
    uint64_t size = jitc_node_size(n);
    uint32_t unused;
    jitc_inst inst = {.op = JITC_OP_buffer, .type = (uint8_t) jitc_node_type(n)};
    TRY(add_pointer(m, position, write ? JITC_PARAM_WRITE : JITC_PARAM_READ, &inst.a));
    TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_BITS, .bits = size}, &unused));
    TRY(jitc_program_add(m->program, inst, out));
    if (size > INT32_MAX)
        m->program->head.flags |= JITC_PROGRAM_WIDE;
    if (!write) {
        at->buffer = *out;
        at->buffer_group = m->number;
    }
    return JIT_OK;
}

/* Shift amounts and integer divisors are part of the program: they shape the code. */
static bool is_baked(const jitc_node *user, const jitc_node *b) {
    return (jitc_ops[user->op].props & JITC_BAKE_B) && b->op == JITC_OP_literal &&
           jitc_dtypes[jitc_node_type(b)].cls != JITC_FLOAT;
}

static jit_status operand_b(emitter *m, const jitc_node *n, uint32_t *out) {
    const jitc_node *b = jitc_node_at(m->order->graph, n->b);
    if (is_baked(n, b))
        return emit_literal(m, b, *jitc_node_value(m->order->graph, n->b), true, out);
    return value_of(m, jitc_order_position(m->order, n->b), out);
}

static jit_status emit_operation(emitter *m, uint32_t position, const jitc_node *n, uint32_t *out) {
    const jitc_op_info *info = &jitc_ops[n->op];
    jitc_inst inst = {.op = n->op, .type = (uint8_t) jitc_node_type(n)};
    uint32_t a = info->form == JITC_FORM_SCATTER ? position : jitc_order_position(m->order, n->a);
    if (jitc_op_indexes(n->op))
        TRY(buffer_of(m, a, info->form == JITC_FORM_SCATTER, &inst.a));
    else
        TRY(value_of(m, a, &inst.a));
    if (info->arity > 1)
        TRY(operand_b(m, n, &inst.b));
    if (info->arity > 2) {
        uint32_t c = *jitc_node_c(m->order->graph, m->order->at[position].node);
        TRY(value_of(m, jitc_order_position(m->order, c), &inst.c));
    }
    if (jitc_node_size(n) == 1 && m->group->lanes != 1 && !(info->props & JITC_EFFECT))
        inst.flags = JITC_INST_UNIFORM;
    return jitc_program_add(m->program, inst, out);
}

/* The instruction that has the value of a position. Values of one element that an earlier part of a
 * cut kernel computed are computed again: the partition sees to it that they are small. */
static jit_status value_of(emitter *m, uint32_t position, uint32_t *out) {
    jitc_position *at = &m->order->at[position];
    if (at->value_group == m->number) {
        *out = at->value;
        return JIT_OK;
    }
    const jitc_node *n = jitc_order_node(m->order, position);
    if (at->ready || jitc_op_is_leaf(n->op))
        TRY(emit_leaf(m, position, n, out));
    else
        TRY(emit_operation(m, position, n, out));
    at = &m->order->at[position];
    at->value = *out;
    at->value_group = m->number;
    return JIT_OK;
}

/* Store what has to be in memory; results of scatters are there already. */
static jit_status emit_store(emitter *m, uint32_t position) {
    const jitc_node *n = jitc_order_node(m->order, position);
    uint32_t unused;
    if (!(jitc_ops[n->op].props & JITC_EFFECT)) {
        jitc_inst inst = {.op = JITC_OP_store, .type = (uint8_t) jitc_node_type(n)};
        TRY(value_of(m, position, &inst.a));
        TRY(add_pointer(m, position, JITC_PARAM_WRITE, &inst.b));
        TRY(jitc_program_add(m->program, inst, &unused));
    }
    jitc_group *g = m->group;
    TRY(jitc_grow((void **) &g->output, &g->output_capacity, g->outputs + 1, sizeof *g->output));
    g->output[g->outputs++] = m->order->at[position].slot;
    return JIT_OK;
}

/* Outputs that no cache would keep are better written past it, which spares reading the lines
 * first. */
static void note_size(emitter *m) {
    size_t bytes = 0;
    for (size_t i = 0; i < m->group->outputs; ++i)
        bytes += m->plan->slot[m->group->output[i]].used_bytes;
    if (bytes >= STREAM_BYTES)
        m->program->head.flags |= JITC_PROGRAM_STREAM;
}

/* A scatter starts from a copy of the array that it updates, or works in its memory. */
static jit_status link_source(emitter *m, uint32_t position) {
    const jitc_node *n = jitc_order_node(m->order, position);
    uint32_t source;
    if (jitc_ops[n->op].form != JITC_FORM_SCATTER)
        return JIT_OK;
    TRY(jitc_plan_slot(m->plan, jitc_order_position(m->order, n->a), false, &source));
    m->plan->slot[source].last_group = m->number - 1;
    m->plan->slot[m->order->at[position].slot].source = source;
    return JIT_OK;
}

static jit_status emit_report(emitter *m, const jitc_options *o) {
    jitc_program_head *head = &m->program->head;
    if (!o->bounds_check)
        return JIT_OK;
    bool indexes = false;
    for (uint32_t i = 0; i < head->count && !indexes; ++i)
        indexes = jitc_op_indexes(m->program->inst[i].op);
    if (!indexes)
        return JIT_OK;
    head->flags |= JITC_PROGRAM_BOUNDS;
    return add_param(m, (jitc_param) {.kind = JITC_PARAM_REPORT}, &head->report);
}

jit_status jitc_emit_group(jitc_plan *p, const jitc_options *o, const uint32_t *list,
                           size_t count) {
    jitc_group *group = &p->group[p->groups - 1];
    emitter m = {p, p->order, group, &group->program, (uint32_t) p->groups};
    uint32_t unused;
    if (group->lanes > INT32_MAX)
        m.program->head.flags |= JITC_PROGRAM_WIDE;
    if (o->fast_math)
        m.program->head.flags |= JITC_PROGRAM_FAST_MATH;
    for (size_t i = 0; i < count; ++i) {
        const jitc_node *n = jitc_order_node(p->order, list[i]);
        if (!jitc_op_is_leaf(n->op) && !p->order->at[list[i]].ready)
            TRY(value_of(&m, list[i], &unused));
    }
    for (size_t i = 0; i < count; ++i) {
        jitc_position *at = &p->order->at[list[i]];
        if (at->slot != JITC_NONE && p->slot[at->slot].output && !at->ready)
            TRY(emit_store(&m, list[i]));
    }
    for (size_t i = 0; i < count; ++i) {
        jitc_position *at = &p->order->at[list[i]];
        if (at->slot != JITC_NONE && p->slot[at->slot].output && !at->ready) {
            TRY(link_source(&m, list[i]));
            at->ready = 1;
        }
    }
    note_size(&m);
    return emit_report(&m, o);
}
