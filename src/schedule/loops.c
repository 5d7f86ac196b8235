/* loops.c: which nodes of an order are inside of which loop, and which are needed.
 * Layer: schedule.
 *
 * Inside of a loop is what depends on one of its phis not through its end; loops that do so are
 * nested in it, others are outside, wherever they were recorded. The innermost loop of a node is
 * found operands first; `depth` tells which of two is the inner one. That nodes which are used
 * outside of their loop are found out on the way.
 *
 * A phi without a `next` does not change: its stamp becomes the position of its start value, so
 * that nobody else has to know. What is needed is found from the roots; a phi needs its `next`. */
#include "schedule/order.h"
#include "trace/loop.h"

static uint32_t position_of(const jitc_order *o, uint32_t node) {
    return jitc_order_position(o, node);
}

static jit_status make_room(jitc_order *o) {
    TRY(jitc_grow((void **) &o->inside, &o->inside_capacity, o->count, sizeof *o->inside));
    o->regions = 0;
    for (size_t i = 0; i < o->count; ++i)
        o->inside[i] = (jitc_inside) {.next = JITC_NONE, .root = JITC_NONE, .owner = JITC_NONE};
    return JIT_OK;
}

static jit_status add_region(jitc_order *o, uint32_t position) {
    TRY(jitc_grow((void **) &o->region, &o->region_capacity, o->regions + 1, sizeof *o->region));
    uint64_t value = *jitc_node_value(o->graph, o->at[position].node);
    o->region[o->regions++] = (jitc_region) {.loop = position,
                                             .end = JITC_NONE,
                                             .condition = JITC_NONE,
                                             .depth = (uint32_t) (value >> JITC_LOOP_DEPTH),
                                             .result = JITC_NONE};
    o->inside[position].own = (uint32_t) o->regions;
    return JIT_OK;
}

static jitc_region *region_of(const jitc_order *o, uint32_t number) {
    return &o->region[number - 1];
}

/* Regions, and the parts of each. */
static jit_status find_parts(jitc_order *o) {
    for (uint32_t i = 0; i < o->count; ++i) {
        const jitc_node *n = jitc_order_node(o, i);
        switch (jitc_ops[n->op].form) {
            case JITC_FORM_LOOP: TRY(add_region(o, i)); break;
            case JITC_FORM_PHI: o->inside[i].own = o->inside[position_of(o, n->b)].own; break;
            case JITC_FORM_NEXT:
                o->inside[i].own = o->inside[position_of(o, n->a)].own;
                o->inside[position_of(o, n->a)].next = i;
                break;
            case JITC_FORM_END:
                o->inside[i].own = o->inside[position_of(o, n->a)].own;
                region_of(o, o->inside[i].own)->end = i;
                break;
            case JITC_FORM_RESULT: o->inside[i].own = o->inside[position_of(o, n->a)].own; break;
            default: break;
        }
    }
    return JIT_OK;
}

/* ---- the innermost loop of each node ---- */

static jit_status outside_of_its_loop(void) {
    return jitc_fail(JIT_INVALID_ARGUMENT,
                     "jit_eval: something depends on a variable of a loop or branch that is used "
                     "outside of it: it exists between begin and end only; behind the end use what "
                     "jit_loop_end(), jit_if_end() have put into the state");
}

/* Region `inner` uses something of region `outer`, so it is inside of it. Walks outwards. */
static jit_status nest(jitc_order *o, uint32_t inner, uint32_t outer) {
    while (outer && inner != outer) {
        jitc_region *r = region_of(o, inner);
        uint32_t around = r->parent, depth = region_of(o, outer)->depth;
        if (r->noted == outer)
            return JIT_OK;
        r->noted = outer;
        if (r->depth <= depth)
            return outside_of_its_loop();
        if (around && around != outer && region_of(o, around)->depth == depth)
            return outside_of_its_loop();
        if (around && region_of(o, around)->depth >= depth) {
            inner = around;
            continue;
        }
        r->parent = outer;
        inner = outer;
        outer = around;
    }
    return JIT_OK;
}

static jit_status place_phi(jitc_order *o, uint32_t i, const jitc_node *n) {
    jitc_inside *at = &o->inside[i];
    uint32_t start = position_of(o, n->a);
    const jitc_region *r = region_of(o, at->own);
    bool always = *jitc_node_value(o->graph, o->at[r->loop].node) & JITC_LOOP_ALWAYS;
    if (r->end == JITC_NONE && !always)
        return outside_of_its_loop();
    if (at->next == JITC_NONE) {
        *jitc_node_stamp(o->graph, o->at[i].node) = o->base + start;
        return JIT_OK;
    }
    at->region = at->own;
    return nest(o, at->own, o->inside[start].region);
}

static jit_status place_end(jitc_order *o, uint32_t i, const jitc_node *n) {
    jitc_region *r = region_of(o, o->inside[i].own);
    r->condition = position_of(o, n->b);
    TRY(nest(o, o->inside[i].own, o->inside[r->condition].region));
    o->inside[i].region = r->parent;
    return JIT_OK;
}

static jit_status place_other(jitc_order *o, uint32_t i, const jitc_node *n) {
    uint32_t operand[3], deepest = 0;
    jitc_order_operands(o, o->at[i].node, operand);
    for (unsigned k = 0; k < jitc_ops[n->op].arity; ++k) {
        uint32_t region = o->inside[position_of(o, operand[k])].region;
        if (region && (!deepest || region_of(o, region)->depth > region_of(o, deepest)->depth))
            deepest = region;
    }
    for (unsigned k = 0; deepest && k < jitc_ops[n->op].arity; ++k)
        TRY(nest(o, deepest, o->inside[position_of(o, operand[k])].region));
    o->inside[i].region = deepest;
    return JIT_OK;
}

static jit_status place_nodes(jitc_order *o) {
    for (uint32_t i = 0; i < o->count; ++i) {
        const jitc_node *n = jitc_order_node(o, i);
        jitc_inside *at = &o->inside[i];
        switch (jitc_ops[n->op].form) {
            case JITC_FORM_LOOP: at->region = at->own; break;
            case JITC_FORM_PHI: TRY(place_phi(o, i, n)); break;
            case JITC_FORM_NEXT:
                at->region = at->own;
                TRY(nest(o, at->own, o->inside[position_of(o, n->b)].region));
                break;
            case JITC_FORM_END: TRY(place_end(o, i, n)); break;
            case JITC_FORM_RESULT: at->region = region_of(o, at->own)->parent; break;
            default: TRY(place_other(o, i, n)); break;
        }
    }
    return JIT_OK;
}

static jit_status check_roots(const jitc_order *o, size_t roots) {
    for (size_t i = 0; i < roots; ++i)
        if (o->inside[position_of(o, o->root[i])].region)
            return jitc_fail(
                JIT_INVALID_ARGUMENT,
                "jit_eval: a variable of a loop or branch, or what is computed from one, cannot be "
                "evaluated inside: evaluate what jit_loop_end(), jit_if_end() put into the state");
    return JIT_OK;
}

/* ---- what is needed ---- */

static jit_status need(jitc_order *o, size_t *depth, uint32_t i) {
    if (i == JITC_NONE || o->inside[i].needed)
        return JIT_OK;
    o->inside[i].needed = true;
    return jitc_order_push(o, depth, i);
}

/* Operands, but for the chain of the `next`s: a phi needs its own. */
static jit_status need_operands(jitc_order *o, size_t *depth, uint32_t i) {
    const jitc_node *n = jitc_order_node(o, i);
    jitc_form form = jitc_ops[n->op].form;
    unsigned arity = form == JITC_FORM_NEXT || form == JITC_FORM_END ? 2 : jitc_ops[n->op].arity;
    const uint32_t operand[] = {n->a, n->b, arity > 2 ? *jitc_node_c(o->graph, o->at[i].node) : 0};
    for (unsigned k = 0; k < arity; ++k)
        TRY(need(o, depth, position_of(o, operand[k])));
    if (jitc_ops[n->op].props & JITC_EFFECT && !o->inside[i].region)
        TRY(need(o, depth, jitc_order_part(o, i))); /* it is written as well */
    return form == JITC_FORM_PHI ? need(o, depth, o->inside[i].next) : JIT_OK;
}

static jit_status find_needed(jitc_order *o, size_t roots) {
    size_t depth = 0;
    for (size_t i = 0; i < roots; ++i)
        TRY(need(o, &depth, position_of(o, o->root[i])));
    while (depth)
        TRY(need_operands(o, &depth, o->stack[--depth]));
    return JIT_OK;
}

/* Chain the `next`s of a loop that are needed. */
static void link_nexts(jitc_order *o, uint32_t end) {
    uint32_t at = end, node = *jitc_node_c(o->graph, o->at[end].node);
    while (jitc_node_at(o->graph, node)->op == JITC_OP_next) {
        uint32_t i = position_of(o, node);
        if (o->inside[i].needed) {
            o->inside[at].next = i;
            at = i;
        }
        node = *jitc_node_c(o->graph, node);
    }
    o->inside[at].next = JITC_NONE;
}

uint32_t jitc_loops_before(const jitc_order *o, uint32_t node) {
    const jitc_node *n = jitc_node_at(o->graph, node);
    uint32_t before = o->inside[position_of(o, node)].next;
    if (before != JITC_NONE)
        return o->at[before].node;
    return n->op == JITC_OP_end ? n->a : jitc_node_at(o->graph, n->a)->b;
}

/* Loops around come behind those inside: their ends do. */
static void link_regions(jitc_order *o) {
    for (uint32_t i = (uint32_t) o->count; i-- > 0;) {
        jitc_inside *at = &o->inside[i];
        uint8_t op = jitc_order_node(o, i)->op;
        if (!at->needed)
            continue;
        if (op == JITC_OP_result) {
            at->next = region_of(o, at->own)->result;
            region_of(o, at->own)->result = i;
        } else if (op == JITC_OP_end) {
            jitc_region *r = region_of(o, at->own);
            r->top = r->parent ? region_of(o, r->parent)->top : at->own;
            link_nexts(o, i);
        }
    }
}

/* Inside of a loop, those of the outermost one, whatever the size of a value is. */
uint64_t jitc_order_lanes(const jitc_order *o, uint32_t position) {
    const jitc_inside *at = o->loops ? &o->inside[position] : NULL;
    if (!at || (!at->region && !at->own))
        return jitc_graph_lanes_locked(o->graph, o->at[position].node);
    uint32_t top = region_of(o, at->region ? at->region : at->own)->top;
    return jitc_node_size(jitc_order_node(o, region_of(o, top)->end));
}

jit_status jitc_loops_find(jitc_order *o, size_t roots) {
    TRY(make_room(o));
    TRY(find_parts(o));
    TRY(place_nodes(o));
    TRY(check_roots(o, roots));
    TRY(find_needed(o, roots));
    link_regions(o);
    return jitc_loops_find_arrays(o);
}
