/* loop_arrays.c: arrays that loops scatter into, and what is not possible inside of a loop.
 * Layer: schedule.
 *
 * Such an array comes into a kernel in memory, at the phi that is its `root`. From there on it has
 * no value: scatters, phis, results pass it on, and all write the memory of its `owner`, which is
 * the last result of the outermost loop, or the last `next` if nobody wants the result. */
#include "schedule/order.h"
#include "trace/loop.h"

static const jitc_inside *operand_a(const jitc_order *o, const jitc_node *n) {
    return &o->inside[jitc_order_position(o, n->a)];
}

static uint64_t value_of(const jitc_order *o, uint32_t i) {
    return *jitc_node_value(o->graph, o->at[i].node);
}

/* ---- from root to owner ---- */

/* An array that passes from one branch to the other need not be in memory in between: no lane is in
 * both. So one kernel does, unless the first branch is needed elsewhere too (`apart`). */
static jit_status find_phi(jitc_order *o, uint32_t i, const jitc_node *n) {
    uint32_t start = jitc_order_position(o, n->a);
    jitc_inside *from = &o->inside[start];
    const jitc_region *r = &o->region[o->inside[i].own - 1];
    if (!(value_of(o, i) & JITC_STATE_ARRAY))
        return JIT_OK;
    if (from->final && !o->apart && value_of(o, r->loop) & JITC_LOOP_BESIDE) {
        from->final = false;
        o->inside[from->root].owner = JITC_NONE;
    } else if (!from->region) {
        o->inside[i].root = i;
    }
    if (o->inside[i].root == JITC_NONE)
        o->inside[i].root = from->root;
    if (o->inside[i].root != JITC_NONE)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "jit_eval: state %u of a loop is scattered into, but is computed inside of "
                     "the loop around: begin with an array from outside, or a state of that loop",
                     (unsigned) value_of(o, i));
}

static jit_status find_scatter(jitc_order *o, uint32_t i, const jitc_node *n) {
    const jitc_inside *target = operand_a(o, n);
    if (!o->inside[i].region)
        return JIT_OK;
    o->inside[i].root = target->region ? target->root : JITC_NONE;
    if (o->inside[i].root != JITC_NONE)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "jit_eval: jit_%s() inside of a loop or branch has a target that is no state "
                     "of it: give the array to jit_loop_begin() or jit_if_begin(), scatter into "
                     "what is there then, and give the updated array to the end",
                     jitc_ops[n->op].name);
}

/* The last one of an array is its owner; a result rather than a `next`. */
static void find_owner(jitc_order *o, uint32_t i) {
    const jitc_region *r = &o->region[o->inside[i].own - 1];
    uint32_t root = o->inside[i].root;
    if (root == JITC_NONE || r->parent)
        return;
    uint32_t *owner = &o->inside[root].owner;
    bool result = jitc_order_node(o, i)->op == JITC_OP_result;
    if (result || *owner == JITC_NONE || jitc_order_node(o, *owner)->op == JITC_OP_next)
        *owner = i;
    o->inside[i].final = result;
}

static jit_status find_array(jitc_order *o, uint32_t i) {
    const jitc_node *n = jitc_order_node(o, i);
    jitc_inside *at = &o->inside[i];
    switch (jitc_ops[n->op].form) {
        case JITC_FORM_PHI: return find_phi(o, i, n);
        case JITC_FORM_SCATTER: return find_scatter(o, i, n);
        case JITC_FORM_NEXT:
            if (operand_a(o, n)->root != JITC_NONE)
                at->root = o->inside[jitc_order_position(o, n->b)].root;
            find_owner(o, i);
            return JIT_OK;
        case JITC_FORM_RESULT:
            at->root = o->inside[jitc_order_position(o, n->b)].root;
            find_owner(o, i);
            return JIT_OK;
        default: return JIT_OK;
    }
}

uint32_t jitc_loops_source(const jitc_order *o, uint32_t position) {
    const jitc_node *phi = jitc_order_node(o, o->inside[position].root);
    return jitc_order_position(o, phi->a);
}

/* ---- what is not possible ---- */

/* May operand k of a node be an array that is being scattered into? */
static bool may_pass(const jitc_node *n, unsigned k) {
    switch (jitc_ops[n->op].form) {
        case JITC_FORM_SCATTER:
        case JITC_FORM_PHI:
        case JITC_FORM_PART: return k == 0;
        case JITC_FORM_NEXT: return true;
        case JITC_FORM_RESULT: return k == 1;
        case JITC_FORM_END: return k == 2;
        default: return false;
    }
}

static jit_status check_operand(const jitc_order *o, uint32_t i, unsigned k, uint32_t operand) {
    const jitc_node *n = jitc_order_node(o, i);
    const jitc_inside *from = &o->inside[operand];
    bool gathers = k == 0 && jitc_ops[n->op].form == JITC_FORM_GATHER;
    if (from->root != JITC_NONE && !from->final && !may_pass(n, k))
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_eval: state %u of a loop or branch is scattered into, so %s cannot "
                         "read it inside; read %s, or the result behind the end",
                         (unsigned) value_of(o, from->root), jitc_ops[n->op].name,
                         gathers ? "the array from before the loop" : "another variable");
    if (gathers && from->region)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_eval: jit_gather() inside of a loop or branch has a source that is "
                         "computed inside: lanes cannot see each other's values there; gather from "
                         "an array from outside");
    return JIT_OK;
}

/* Lanes leave a loop with the state before the iteration that they do not make any more: an effect
 * that the condition needs would be one of that iteration. */
static jit_status check_scatter(const jitc_order *o, uint32_t i) {
    for (uint32_t r = o->inside[i].region; r; r = o->region[r - 1].parent) {
        uint32_t condition = o->region[r - 1].condition;
        if (o->inside[condition].region == r && i < condition)
            return jitc_fail(JIT_INVALID_ARGUMENT,
                             "jit_eval: the condition of a loop depends on a jit_%s() inside of "
                             "it; let the body put that into a state, and look at the state",
                             jitc_ops[jitc_order_node(o, i)->op].name);
    }
    return JIT_OK;
}

static jit_status check_node(const jitc_order *o, uint32_t i) {
    const jitc_node *n = jitc_order_node(o, i);
    uint32_t operand[3];
    bool inside = o->inside[i].region != 0, scatter = jitc_ops[n->op].form == JITC_FORM_SCATTER;
    if (inside && jitc_ops[n->op].props & JITC_EFFECT && !scatter && n->op != JITC_OP_part)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_eval: jit_%s() of variables of a loop or branch: it combines lanes, "
                         "which are not together inside; use it before or behind the loop",
                         jitc_ops[n->op].name);
    if (inside && scatter)
        TRY(check_scatter(o, i));
    jitc_order_operands(o, o->at[i].node, operand);
    for (unsigned k = 0; k < jitc_ops[n->op].arity; ++k)
        TRY(check_operand(o, i, k, jitc_order_position(o, operand[k])));
    return JIT_OK;
}

/* What is in memory when a kernel has ended. */
static void mark_final(jitc_order *o, uint32_t i) {
    uint32_t owner = o->inside[i].owner;
    if (owner != JITC_NONE) {
        jitc_region *r = &o->region[o->inside[owner].own - 1];
        o->inside[owner].final = true;
        r->stored |= jitc_order_node(o, owner)->op == JITC_OP_next;
    }
    o->combines |= jitc_op_combines(jitc_order_node(o, i)->op);
}

jit_status jitc_loops_find_arrays(jitc_order *o) {
    o->combines = false;
    for (uint32_t i = 0; i < o->count; ++i)
        if (o->inside[i].needed)
            TRY(find_array(o, i));
    for (uint32_t i = 0; i < o->count; ++i)
        mark_final(o, i);
    for (uint32_t i = 0; i < o->count; ++i) {
        if (o->inside[i].final)
            o->region[o->inside[i].own - 1].writes = true;
        if (o->inside[i].needed)
            TRY(check_node(o, i));
    }
    return JIT_OK;
}
