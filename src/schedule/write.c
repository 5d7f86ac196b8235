#include "schedule/write.h"
#include <assert.h>
#include <string.h>

/* What no cache keeps. Outputs are then better written past it, which spares reading the lines
 * first, and elements better read one by one: more of them are on their way at the same time. */
enum { LARGE_BYTES = 64 << 20 };

/* On a GPU it is all the same, and would only be compiled twice. */
static bool is_large(const jitc_node *n, size_t bytes) {
    return bytes >= LARGE_BYTES && jitc_node_backend(n) == JIT_LLVM;
}

static jit_status new_group(jitc_plan *p, jitc_group **out) {
    TRY(jitc_grow((void **) &p->group, &p->group_capacity, p->groups + 1, sizeof *p->group));
    jitc_group *g = &p->group[p->groups];
    if (p->groups == p->group_made) {
        memset(g, 0, sizeof *g);
        ++p->group_made;
    }
    jitc_program_clear(&g->program);
    g->outputs = 0;
    ++p->groups;
    *out = g;
    return JIT_OK;
}

jit_status jitc_write_begin(jitc_writer *m, jitc_plan *p, jitc_graph *g, const jitc_options *o,
                            uint64_t lanes) {
    jitc_group *group;
    TRY(new_group(p, &group));
    group->lanes = lanes;
    *m = (jitc_writer) {.plan = p,
                        .graph = g,
                        .group = group,
                        .program = &group->program,
                        .number = (uint32_t) p->groups,
                        .block = JITC_NONE};
    if (lanes > INT32_MAX)
        m->program->head.flags |= JITC_PROGRAM_WIDE;
    if (o->fast_math)
        m->program->head.flags |= JITC_PROGRAM_FAST_MATH;
    return JIT_OK;
}

static jit_status add_param(jitc_writer *m, jitc_param param, uint32_t *out) {
    jitc_group *g = m->group;
    uint32_t count = m->program->head.params;
    TRY(jitc_grow((void **) &g->param, &g->param_capacity, count + 1, sizeof *g->param));
    g->param[count] = param;
    m->program->head.params = count + 1;
    *out = count;
    return JIT_OK;
}

/* The address of a slot. */
static jit_status add_pointer(jitc_writer *m, uint32_t slot, jitc_param_kind kind, uint32_t *out) {
    m->plan->slot[slot].last_group = m->number - 1;
    return add_param(m, (jitc_param) {.kind = kind, .slot = slot}, out);
}

jit_status jitc_write_literal(jitc_writer *m, uint32_t node, bool baked, uint32_t *out) {
    jit_dtype type = jitc_node_type(jitc_node_at(m->graph, node));
    uint64_t bits = *jitc_node_value(m->graph, node);
    jitc_inst inst = {.op = JITC_OP_literal, .type = (uint8_t) type};
    if (baked || type == JIT_bool) {
        inst.flags = JITC_INST_BAKED;
        inst.b = (uint32_t) bits;
        inst.c = (uint32_t) (bits >> 32);
    } else {
        TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_BITS, .bits = bits}, &inst.a));
    }
    return jitc_program_add(m->program, inst, out);
}

jit_status jitc_write_data(jitc_writer *m, const jitc_node *n, uint32_t slot, uint32_t *out) {
    const jitc_buffer *buffer = m->plan->slot[slot].buffer;
    jitc_inst inst = {.op = JITC_OP_data, .type = (uint8_t) jitc_node_type(n)};
    TRY(add_pointer(m, slot, JITC_PARAM_READ, &inst.a));
    if (jitc_node_size(n) == 1 && m->group->lanes != 1)
        inst.flags = JITC_INST_SCALAR;
    else if (buffer && buffer->foreign) /* ends behind its last element: no whole vectors */
        m->program->head.flags |= JITC_PROGRAM_TAIL;
    return jitc_program_add(m->program, inst, out);
}

jit_status jitc_write_buffer(jitc_writer *m, const jitc_node *n, uint32_t slot, bool write,
                             uint32_t *out) {
    uint64_t size = jitc_node_size(n);
    uint32_t unused;
    jitc_inst inst = {.op = JITC_OP_buffer, .type = (uint8_t) jitc_node_type(n)};
    TRY(add_pointer(m, slot, write ? JITC_PARAM_WRITE : JITC_PARAM_READ, &inst.a));
    TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_BITS, .bits = size}, &unused));
    if (size > INT32_MAX)
        m->program->head.flags |= JITC_PROGRAM_WIDE;
    if (!write && is_large(n, size * jitc_dtypes[inst.type].bytes))
        inst.flags |= JITC_INST_FAR;
    return jitc_program_add(m->program, inst, out);
}

jit_status jitc_write_store(jitc_writer *m, const jitc_node *n, uint32_t value, uint32_t slot) {
    uint32_t unused;
    jitc_inst inst = {.op = JITC_OP_store, .type = (uint8_t) jitc_node_type(n), .a = value};
    TRY(add_pointer(m, slot, JITC_PARAM_WRITE, &inst.b));
    return jitc_program_add(m->program, inst, &unused);
}

/* Lanes of a block: one parameter for all of the group. */
static jit_status block_param(jitc_writer *m, uint64_t lanes, uint32_t *out) {
    if (m->block == JITC_NONE)
        TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_BITS, .bits = lanes}, &m->block));
    *out = m->block;
    return JIT_OK;
}

jit_status jitc_write_combining(jitc_writer *m, uint32_t node, uint32_t a, uint32_t slot,
                                uint32_t part) {
    const jitc_node *n = jitc_node_at(m->graph, node);
    uint32_t unused;
    jitc_inst inst = {.op = n->op,
                      .type = (uint8_t) jitc_node_type(n),
                      .aux = jitc_node_aux(m->graph, node),
                      .a = a};
    TRY(add_pointer(m, slot, JITC_PARAM_WRITE, &inst.b));
    if (n->op == JITC_OP_block_reduce)
        TRY(block_param(m, jitc_node_block(m->graph, node), &inst.c));
    if (part != JITC_NONE) {
        const jitc_node *numbers = jitc_node_at(m->graph, m->plan->slot[part].node);
        inst.aux |= JITC_AUX_PART;
        if (inst.op == JITC_OP_sort && jitc_node_type(numbers) == JIT_u64)
            inst.aux |= JITC_AUX_U64;
        TRY(add_pointer(m, part, JITC_PARAM_WRITE, &inst.c));
    }
    m->program->head.shape = (uint32_t) jitc_op_shape(n->op);
    m->scratch = true;
    return jitc_program_add(m->program, inst, &unused);
}

jit_status jitc_write_output(jitc_writer *m, uint32_t slot) {
    jitc_group *g = m->group;
    TRY(jitc_grow((void **) &g->output, &g->output_capacity, g->outputs + 1, sizeof *g->output));
    g->output[g->outputs++] = slot;
    return JIT_OK;
}

static jit_status add_scratch(jitc_writer *m) {
    jitc_program_head *head = &m->program->head;
    uint32_t unused;
    head->flags |= JITC_PROGRAM_SCRATCH;
    TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_SCRATCH}, &head->scratch));
    for (int i = 1; i < JITC_SCRATCH_PARAMS; ++i)
        TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_BITS}, &unused));
    return JIT_OK;
}

/* Can an index be out of range? */
static bool indexes(const jitc_program *p) {
    for (uint32_t i = 0; i < p->head.count; ++i)
        if (p->inst[i].op == JITC_OP_buffer)
            return p->head.shape != JITC_SHAPE_SORT;
    return false;
}

jit_status jitc_write_end(jitc_writer *m, const jitc_options *o) {
    jitc_program_head *head = &m->program->head;
    const jitc_slot *slot = m->plan->slot;
    size_t outputs = m->group->outputs, bytes = 0;
    if (!head->count) /* all that it was to compute is computed where it is used */
        m->group->lanes = 0;
    for (size_t i = 0; i < outputs; ++i)
        bytes += slot[m->group->output[i]].used_bytes;
    if (outputs && is_large(jitc_node_at(m->graph, slot[m->group->output[0]].node), bytes))
        head->flags |= JITC_PROGRAM_STREAM;
    if (m->scratch)
        TRY(add_scratch(m));
    if (o->bounds_check && indexes(m->program)) {
        head->flags |= JITC_PROGRAM_BOUNDS;
        TRY(add_param(m, (jitc_param) {.kind = JITC_PARAM_REPORT}, &head->report));
    }
    assert(!jitc_program_invalid(m->program));
    return JIT_OK;
}
