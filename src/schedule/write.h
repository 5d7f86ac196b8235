/* write.h: words for writing a program and its parameters.  Layer: schedule.  Private to schedule.
 */
#ifndef JITC_SCHEDULE_WRITE_H
#define JITC_SCHEDULE_WRITE_H
#include "schedule/schedule.h"

/** The group that is being written. */
typedef struct jitc_writer {
    jitc_plan *plan;
    jitc_graph *graph;
    jitc_group *group;
    jitc_program *program;
    uint32_t number; /* of the group, from 1 */
    bool scratch;    /* it needs memory to work in */
    uint32_t block;  /* parameter: lanes of a block; NONE: there is none yet */
    bool inside;     /* of a loop: what follows is not the same in all lanes */
} jitc_writer;

/** Start a new group of the plan. */
jit_status jitc_write_begin(jitc_writer *m, jitc_plan *p, jitc_graph *g, const jitc_options *o,
                            uint64_t lanes);
/** Flags that follow from the whole, and the parameters for scratch memory and reports. */
jit_status jitc_write_end(jitc_writer *m, const jitc_options *o);

/** A literal: a parameter, or (baked) part of the program. */
jit_status jitc_write_literal(jitc_writer *m, uint32_t node, bool baked, uint32_t *out);
/** The elements of node n, which is in memory at `slot`. */
jit_status jitc_write_data(jitc_writer *m, const jitc_node *n, uint32_t slot, uint32_t *out);
/** Node n as an array that is indexed: pointer and number of elements. */
jit_status jitc_write_buffer(jitc_writer *m, const jitc_node *n, uint32_t slot, bool write,
                             uint32_t *out);
/** An operation whose operands are instructions a, b, c. */
static inline jit_status jitc_write_operation(jitc_writer *m, const jitc_node *n, uint32_t a,
                                              uint32_t b, uint32_t c, uint32_t *out) {
    bool uniform = m->group->lanes != 1 && jitc_node_size(n) == 1 &&
                   !(jitc_ops[n->op].props & JITC_EFFECT) && !m->inside;
    jitc_inst inst = {.op = n->op,
                      .type = (uint8_t) jitc_node_type(n),
                      .flags = uniform ? JITC_INST_UNIFORM : 0,
                      .a = a,
                      .b = b,
                      .c = c};
    return jitc_program_add(m->program, inst, out);
}
/** Store instruction `value` as the elements of node n. */
jit_status jitc_write_store(jitc_writer *m, const jitc_node *n, uint32_t value, uint32_t slot);
/** Operation `node`, which combines lanes of instruction `a` and writes `slot`, and its part `part`
 * unless that is NONE. Behind all that computes values. */
jit_status jitc_write_combining(jitc_writer *m, uint32_t node, uint32_t a, uint32_t slot,
                                uint32_t part);
/** The group writes `slot`. */
jit_status jitc_write_output(jitc_writer *m, uint32_t slot);

/** Shift amounts and integer divisors are part of the program: they shape the code. */
static inline bool jitc_write_bakes(const jitc_graph *g, const jitc_node *user) {
    if (__builtin_expect(!(jitc_ops[user->op].props & JITC_BAKE_B), 1))
        return false;
    const jitc_node *b = jitc_node_at(g, user->b);
    return b->op == JITC_OP_literal && jitc_dtypes[jitc_node_type(b)].cls != JITC_FLOAT;
}

/** A new slot for a node. `output`: the plan writes it; else it is in memory and is held. */
jit_status jitc_plan_add_slot(jitc_plan *p, jitc_graph *g, uint32_t node, bool output,
                              uint32_t *out);
/** The plan in one pass, if one kernel does it: everything has one size (or one element), what is
 *  indexed is in memory, and of what has effects there are only reductions that are roots. *done
 * says whether; if not, nothing is left. */
jit_status jitc_plan_direct(jitc_plan *p, jitc_graph *g, const jitc_options *o, size_t n,
                            const uint32_t *roots, bool *busy, bool *done);
#endif
