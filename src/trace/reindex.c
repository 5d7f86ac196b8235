/* Elements of a variable at computed places, without putting it in memory for that.
 *
 *   gather(f(counter, x, gather(y, i(counter))), p)  =  f(p, gather(x, p), gather(y, i(p)))
 *
 * So reshaping what was reshaped, or what a few operations compute, stays one kernel. Only for
 * places that are in range: elsewhere a gather gives 0, and f of that is something else. */
#include "trace/private.h"

/* Computing again costs at most this: then reading from memory is cheaper. */
enum { COST_LIMIT = 16, COST_OPERATION = 1, COST_MEMORY = 4 };

typedef struct reindexer {
    jitc_graph *g;
    uint32_t index;      /* the places */
    uint64_t from, size; /* elements of what is indexed, and of the places */
} reindexer;

/* Is the node in memory before others can use it, whatever is done here? */
static bool in_memory(const jitc_node *n) {
    return n->op == JITC_OP_data || jitc_ops[n->op].props & JITC_EFFECT;
}

static bool is_function_of_lane(const jitc_node *n) {
    switch (jitc_ops[n->op].form) {
        case JITC_FORM_LEAF:
        case JITC_FORM_UNARY:
        case JITC_FORM_BINARY:
        case JITC_FORM_TERNARY:
        case JITC_FORM_SELECT:
        case JITC_FORM_CAST:
        case JITC_FORM_MASKED:
        case JITC_FORM_GATHER: return true;
        default: return false;
    }
}

static void operands_of(const jitc_graph *g, uint32_t i, uint32_t out[3]) {
    const jitc_node *n = jitc_node_at(g, i);
    out[0] = n->a;
    out[1] = n->b;
    out[2] = jitc_op_has_c(n->op) ? *jitc_node_c(g, i) : 0;
}

/* The first operand that depends on the lane: a gather's first one is an array. */
static unsigned first_of(const jitc_node *n) {
    return jitc_ops[n->op].form == JITC_FORM_GATHER;
}

/* Takes what node i costs from the budget; false if that is not enough, or if the node is more than
 * a function of the lane. One element stays what it is, but it may be a state of a loop, of which
 * each lane has its own. */
static bool afford(const reindexer *x, uint32_t i, int *budget) {
    const jitc_node *n = jitc_node_at(x->g, i);
    bool moves = jitc_node_size(n) == x->from, leaf = in_memory(n);
    if (n->op == JITC_OP_literal || n->op == JITC_OP_counter)
        return true;
    if (leaf || jitc_ops[n->op].form == JITC_FORM_GATHER)
        *budget -= moves ? COST_MEMORY : 0;
    else
        *budget -= COST_OPERATION;
    bool good = *budget >= 0 && (leaf || is_function_of_lane(n));
    uint32_t operand[3];
    operands_of(x->g, i, operand);
    for (unsigned k = first_of(n); k < jitc_ops[n->op].arity && good && !leaf; ++k)
        good = afford(x, operand[k], budget);
    return good;
}

static void set_operand(const jitc_graph *g, jitc_call *call, uint32_t k, uint32_t i) {
    call->index[k] = i;
    call->node[k] = jitc_node_at(g, i);
}

/* The node of the call. Its operands may have been made for it: what is not used is given up. */
static uint32_t record(jitc_graph *g, jitc_call *call) {
    uint32_t i;
    bool select = jitc_ops[call->op].form == JITC_FORM_SELECT;
    call->type = jitc_node_type(call->node[select]);
    if (!jitc_simplify(g, call, &i))
        i = jitc_record_node(g, call);
    if (i)
        jitc_node_at(g, i)->internal++; /* it may be one of the operands */
    for (uint32_t k = 0; k < call->count; ++k)
        jitc_node_settle(g, call->index[k]);
    if (i)
        jitc_node_at(g, i)->internal--;
    return i;
}

static uint32_t at_index(const reindexer *x, uint32_t i);

static uint32_t with_operands_at_index(const reindexer *x, uint32_t i, jitc_call *call) {
    const jitc_node *n = jitc_node_at(x->g, i);
    uint32_t operand[3];
    operands_of(x->g, i, operand);
    if (first_of(n))
        set_operand(x->g, call, call->count++, operand[0]);
    while (call->count < jitc_ops[n->op].arity) {
        uint32_t moved = at_index(x, operand[call->count]);
        if (!moved)
            break;
        set_operand(x->g, call, call->count++, moved);
    }
    if (call->count == jitc_ops[n->op].arity)
        return record(x->g, call);
    while (call->count > 0)
        jitc_node_settle(x->g, call->index[--call->count]);
    return 0;
}

/* The value of node i at the index; 0 after jitc_fail(). One element stands for all lanes. */
static uint32_t at_index(const reindexer *x, uint32_t i) {
    const jitc_node *n = jitc_node_at(x->g, i);
    if (jitc_node_size(n) != x->from)
        return i;
    jitc_call call = {.op = n->op,
                      .result = jitc_node_type(n),
                      .backend = jitc_node_backend(n),
                      .device = jitc_node_device(n),
                      .size = x->size};
    if (n->op == JITC_OP_literal)
        return jitc_record_literal(x->g, &call, call.result, *jitc_node_value(x->g, i));
    if (n->op == JITC_OP_counter) {
        call.op = JITC_OP_cast;
    } else if (in_memory(n)) {
        call.op = JITC_OP_gather;
        set_operand(x->g, &call, call.count++, i);
    } else {
        return with_operands_at_index(x, i, &call);
    }
    set_operand(x->g, &call, call.count++, x->index);
    return record(x->g, &call);
}

jit_var jitc_trace_elements(jitc_graph *g, jit_var v, jit_var index) {
    int budget = COST_LIMIT;
    jitc_lock_graph(g);
    reindexer x = {.g = g, .index = index & JITC_INDEX_MASK};
    const jitc_node *n = jitc_node_at(g, v & JITC_INDEX_MASK), *p = jitc_node_at(g, x.index);
    x.from = jitc_node_size(n);
    x.size = jitc_node_size(p);
    bool legal = jitc_node_alive(n, v) && jitc_node_alive(p, index);
    if (!legal || !afford(&x, v & JITC_INDEX_MASK, &budget)) {
        jitc_unlock_graph(g);
        return jitc_trace_gather(g, v, index, 0);
    }
    return jitc_record_finish(g, at_index(&x, v & JITC_INDEX_MASK));
}
