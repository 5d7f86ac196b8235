/* direct.c: the usual plan, in one pass over the graph.  Layer: schedule.
 *
 * Nodes are emitted while they are visited, operands first; the stamp of a node is base + the
 * instruction that has its value. What does not fit one kernel of this kind is left to the
 * partition. */
#include "schedule/order.h"
#include "schedule/write.h"

enum { MAX_ARRAYS = 8, MAX_INSTRUCTIONS = 1 << 20 };

typedef struct direct {
    jitc_writer m;
    jitc_graph *graph;
    jitc_order *order; /* its stack is used */
    uint32_t base;
    uint32_t limit; /* instructions */
    uint64_t lanes;
    uint32_t array[MAX_ARRAYS], array_inst[MAX_ARRAYS]; /* nodes that are indexed */
    unsigned arrays;
    bool *busy;
    bool given_up;
} direct;

static bool is_met(const direct *d, uint32_t node) {
    return *jitc_node_stamp(d->graph, node) >= d->base;
}

/* The first operand that is a value and was not met, or 0. */
static inline uint32_t first_unmet(const direct *d, uint32_t node, const jitc_node *n) {
    const jitc_op_info *info = &jitc_ops[n->op];
    if (info->arity > 0 && !is_met(d, n->a) && info->form != JITC_FORM_GATHER)
        return n->a;
    if (info->arity > 1 && !is_met(d, n->b) && !jitc_write_bakes(d->graph, n))
        return n->b;
    if (info->arity > 2) {
        uint32_t c = *jitc_node_c(d->graph, node);
        if (!is_met(d, c))
            return c;
    }
    return 0;
}

/* The `buffer` instruction of an array in memory that a gather reads. */
static jit_status array_of(direct *d, uint32_t node, uint32_t *out) {
    const jitc_node *n = jitc_node_at(d->graph, node);
    uint32_t slot;
    for (unsigned i = 0; i < d->arrays; ++i)
        if (d->array[i] == node) {
            *out = d->array_inst[i];
            return JIT_OK;
        }
    if (n->op != JITC_OP_data || d->arrays == MAX_ARRAYS) {
        d->given_up = true;
        return JIT_OK;
    }
    TRY(jitc_plan_add_slot(d->m.plan, d->graph, node, false, &slot));
    TRY(jitc_write_buffer(&d->m, n, slot, false, out));
    d->array[d->arrays] = node;
    d->array_inst[d->arrays++] = *out;
    return JIT_OK;
}

static jit_status emit_leaf(direct *d, uint32_t node, const jitc_node *n, uint32_t *out) {
    uint32_t slot;
    if (n->op == JITC_OP_literal)
        return jitc_write_literal(&d->m, node, false, out);
    if (n->op == JITC_OP_loop) {
        d->given_up = true;
        return JIT_OK;
    }
    if (n->op != JITC_OP_data)
        return jitc_write_operation(&d->m, n, 0, 0, 0, out);
    TRY(jitc_plan_add_slot(d->m.plan, d->graph, node, false, &slot));
    return jitc_write_data(&d->m, n, slot, out);
}

static inline uint32_t instruction(const direct *d, uint32_t node) {
    return *jitc_node_stamp(d->graph, node) - d->base;
}

/* All operands that are values have been emitted. */
static jit_status emit_node(direct *d, uint32_t node, const jitc_node *n, uint32_t *out) {
    const jitc_op_info *info = &jitc_ops[n->op];
    uint32_t a = 0, b = 0, c = 0;
    if (info->arity == 0)
        return emit_leaf(d, node, n, out);
    if (__builtin_expect(info->form == JITC_FORM_GATHER, 0))
        TRY(array_of(d, n->a, &a));
    else
        a = instruction(d, n->a);
    if (jitc_write_bakes(d->graph, n))
        TRY(jitc_write_literal(&d->m, n->b, true, &b));
    else if (info->arity > 1)
        b = instruction(d, n->b);
    if (info->arity > 2)
        c = instruction(d, *jitc_node_c(d->graph, node));
    return jitc_write_operation(&d->m, n, a, b, c, out);
}

/* Does the node fit a kernel over `lanes` lanes? */
static inline bool fits(const direct *d, const jitc_node *n) {
    uint64_t size = jitc_node_size(n);
    return (size == d->lanes || size == 1) && !(jitc_ops[n->op].props & JITC_EFFECT) &&
           d->m.program->head.count < d->limit;
}

static jit_status visit(direct *d, uint32_t root) {
    jitc_order *o = d->order;
    size_t depth = 0;
    uint32_t node = root, inst = 0;
    while (!is_met(d, root)) {
        const jitc_node *n = jitc_node_at(d->graph, node);
        if (__builtin_expect(n->flags & JITC_NODE_CLAIMED, 0)) {
            *d->busy = true;
            return JIT_OK;
        }
        uint32_t next = first_unmet(d, node, n);
        if (next) {
            TRY(jitc_order_push(o, &depth, node));
            node = next;
            continue;
        }
        d->given_up = !fits(d, n);
        if (!d->given_up)
            TRY(emit_node(d, node, n, &inst));
        if (d->given_up)
            return JIT_OK;
        *jitc_node_stamp(d->graph, node) = d->base + inst;
        if (depth)
            node = o->stack[--depth];
    }
    return JIT_OK;
}

/* Roots with several handles are stored once: their slots are compared, which are few and last. */
static bool is_stored(const direct *d, uint32_t node) {
    for (size_t i = 0; i < d->m.group->outputs; ++i)
        if (d->m.plan->slot[d->m.group->output[i]].node == node)
            return true;
    return false;
}

/* The value from which a root comes: its operand, if it is a reduction, else itself. */
static uint32_t value_of_root(const direct *d, uint32_t root) {
    const jitc_node *n = jitc_node_at(d->graph, root);
    return n->op == JITC_OP_reduce ? n->a : root;
}

static jit_status store_root(direct *d, uint32_t node) {
    const jitc_node *n = jitc_node_at(d->graph, node);
    uint32_t slot, value = instruction(d, value_of_root(d, node));
    if (is_stored(d, node))
        return JIT_OK;
    TRY(jitc_plan_add_slot(d->m.plan, d->graph, node, true, &slot));
    if (n->op == JITC_OP_reduce)
        TRY(jitc_write_combining(&d->m, node, value, slot, JITC_NONE));
    else
        TRY(jitc_write_store(&d->m, n, value, slot));
    return jitc_write_output(&d->m, slot);
}

static jit_status emit_roots(direct *d, size_t n, const uint32_t *roots) {
    for (size_t i = 0; i < n; ++i) {
        uint32_t value = value_of_root(d, roots[i]);
        if (jitc_node_size(jitc_node_at(d->graph, value)) != d->lanes)
            d->given_up = true;
        *d->busy |= (jitc_node_at(d->graph, roots[i])->flags & JITC_NODE_CLAIMED) != 0;
        if (!d->given_up && !*d->busy)
            TRY(visit(d, value));
        if (d->given_up || *d->busy)
            return JIT_OK;
    }
    for (size_t i = 0; i < n; ++i)
        TRY(store_root(d, roots[i]));
    return JIT_OK;
}

enum { MAX_ROOTS = 64 };

jit_status jitc_plan_direct(jitc_plan *p, jitc_graph *g, const jitc_options *o, size_t n,
                            const uint32_t *roots, bool *busy, bool *done) {
    direct d = {.graph = g, .order = p->order, .base = jitc_graph_stamps_locked(g), .busy = busy};
    d.limit = o->kernel_ops < MAX_INSTRUCTIONS ? (uint32_t) o->kernel_ops : MAX_INSTRUCTIONS;
    *done = false;
    if (n > MAX_ROOTS || d.base > UINT32_MAX - 3 * MAX_INSTRUCTIONS)
        return JIT_OK;
    d.lanes = jitc_node_size(jitc_node_at(g, value_of_root(&d, roots[0])));
    TRY(jitc_write_begin(&d.m, p, g, o, d.lanes));
    jit_status status = emit_roots(&d, n, roots);
    g->stamp_base = d.base + d.m.program->head.count;
    *done = status == JIT_OK && !d.given_up && !*busy;
    return *done ? jitc_write_end(&d.m, o) : status;
}
