/* Which nodes have to be in memory, and in which kernel each is computed.
 *
 * A stage is a set of kernels that need only what stages before have written. The kernel of a
 * target is (stage, lanes, kernel: share.c). A value that is no target is computed inside every
 * kernel that needs it; if it is dear and more than one does, it becomes a target itself, in the
 * first kernel of its lanes and stage. A kernel that would be too long for the compiler is cut
 * where the fewest values are alive; these go through memory. What combines lanes is not cut: it is
 * left over, when the kernels before have computed what it combines. */
#include "schedule/order.h"
#include <stdlib.h>

enum {
    DEAR = 16,         /* operations: cheaper to read from memory than to compute again */
    DEAR_UNIFORM = 64, /* the same for one element in a kernel over many */
    COST_LIMIT = 1 << 20
};

static jit_status add_target(jitc_plan *p, uint32_t position) {
    jitc_order *o = p->order;
    uint32_t slot;
    if (o->place[position].target)
        return JIT_OK;
    TRY(jitc_plan_slot(p, position, true, &slot));
    TRY(jitc_grow((void **) &o->target, &o->target_capacity, o->targets + 1, sizeof *o->target));
    o->target[o->targets++] = position;
    o->place[position].target = true;
    o->place[position].lanes = jitc_order_lanes(o, position);
    return JIT_OK;
}

/* A part is written with its operation, which stands right before it. */
static jit_status place_part(jitc_plan *p, uint32_t position) {
    jitc_order *o = p->order;
    uint32_t slot;
    o->place[position] =
        (jitc_place) {.stage = o->place[position - 1].stage, .low = UINT64_MAX, .target = true};
    return jitc_plan_slot(p, position, true, &slot);
}

static uint32_t later(uint32_t a, uint32_t b) {
    return a > b ? a : b;
}

/* First stage in which the value of a position can be used. */
static uint32_t usable(const jitc_order *o, uint32_t position) {
    return o->place[position].stage + jitc_order_ends_kernel(o, position);
}

/* Operands first: stages and costs; arrays that are indexed become targets. */
static jit_status place_forward(jitc_plan *p, uint32_t position) {
    jitc_order *o = p->order;
    jitc_place *place = &o->place[position];
    const jitc_node *n = jitc_order_node(o, position);
    uint32_t operand[3], cost = 1;
    jitc_order_operands(o, o->at[position].node, operand);
    *place = (jitc_place) {.low = UINT64_MAX};
    if (o->loops && !o->inside[position].needed)
        return JIT_OK;
    if (n->op == JITC_OP_part && !jitc_order_region(o, position))
        return place_part(p, position);
    for (unsigned k = 0; k < jitc_ops[n->op].arity; ++k) {
        uint32_t i = jitc_order_position(o, operand[k]);
        if (jitc_order_in_memory(o, position, k)) {
            if (o->at[i].ready)
                continue;
            TRY(add_target(p, i));
            place->stage = later(place->stage, o->place[i].stage + 1);
        } else {
            place->stage = later(place->stage, usable(o, i));
            cost += o->place[i].cost;
        }
    }
    bool in_memory = jitc_op_is_leaf(n->op) || jitc_order_ends_kernel(o, position);
    place->cost = in_memory ? 0 : cost < COST_LIMIT ? cost : COST_LIMIT;
    if (jitc_order_ends_kernel(o, position))
        TRY(add_target(p, position));
    return JIT_OK;
}

/* Loops are not computed twice: see place_loop(). */
static bool is_of_loop(const jitc_node *n) {
    return n->op == JITC_OP_end || n->op == JITC_OP_result;
}

/* Users first: is this value needed by several kernels, or by kernels over many lanes though it is
 * one element, and dear? One element is dear only if several stages need it. */
static bool is_worth_storing(const jitc_order *o, uint32_t position, bool uniform) {
    const jitc_place *place = &o->place[position];
    const jitc_node *n = jitc_order_node(o, position);
    if (jitc_op_is_leaf(n->op) || jitc_ops[n->op].form == JITC_FORM_MASKED ||
        jitc_order_region(o, position) || is_of_loop(n))
        return false;
    bool several =
        jitc_node_size(n) == 1 ? place->low >> 32 != place->high >> 32 : place->low != place->high;
    return (several && place->cost > DEAR) || (uniform && place->cost > DEAR_UNIFORM);
}

/* The end of an outermost loop, whose results have been placed. If several kernels need them, or
 * one that can have no loop, one writes them all: the one that writes the loop's arrays. */
static jit_status place_loop(jitc_plan *p, uint32_t position) {
    jitc_order *o = p->order;
    jitc_place *place = &o->place[position];
    const jitc_region *r = &o->region[o->inside[position].own - 1];
    uint32_t kernel = JITC_KERNEL_STORES;
    if (place->low == place->high && !o->at[position].visited && !r->stored &&
        (uint32_t) place->high < JITC_KERNEL_APART)
        return JIT_OK;
    for (uint32_t i = o->inside[position].next; i != JITC_NONE; i = o->inside[i].next) {
        o->place[i].stage = place->stage;
        kernel = later(kernel, o->place[i].kernel);
    }
    for (uint32_t i = r->result; i != JITC_NONE; i = o->inside[i].next)
        kernel = later(kernel, o->place[i].kernel);
    for (uint32_t i = r->result; i != JITC_NONE; i = o->inside[i].next) {
        o->torn |= o->inside[i].root != JITC_NONE && !o->inside[i].final;
        if (o->inside[i].root == JITC_NONE)
            TRY(add_target(p, i));
        o->place[i].kernel = kernel;
    }
    place->low = place->high = (uint64_t) place->stage << 32 | kernel;
    return JIT_OK;
}

/* What a result needs is the loop, and all of it. */
static void hand_to_loop(jitc_order *o, uint32_t position) {
    const jitc_place *place = &o->place[position];
    uint32_t end = jitc_order_position(o, jitc_order_node(o, position)->a);
    o->place[end].low = place->low < o->place[end].low ? place->low : o->place[end].low;
    o->place[end].high = place->high > o->place[end].high ? place->high : o->place[end].high;
    o->at[end].visited |= o->at[position].visited;
}

/* Hand the stages that compute a position down to its operands. */
static jit_status place_backward(jitc_plan *p, uint32_t position) {
    jitc_order *o = p->order;
    jitc_place *place = &o->place[position];
    jitc_position *at = &o->at[position];
    if (!place->target && place->low == UINT64_MAX)
        return JIT_OK;          /* only indexed, and in memory */
    bool uniform = at->visited; /* a user has more than one lane; see below */
    if (!place->target && is_worth_storing(o, position, uniform && !at->ready)) {
        place->stage = (uint32_t) (place->low >> 32);
        TRY(add_target(p, position));
    }
    if (place->target)
        place->low = place->high = (uint64_t) place->stage << 32 | place->kernel;
    const jitc_node *n = jitc_order_node(o, position);
    if (n->op == JITC_OP_result) {
        hand_to_loop(o, position);
        return JIT_OK;
    }
    if (n->op == JITC_OP_end && !jitc_order_region(o, position))
        TRY(place_loop(p, position));
    uint64_t size = jitc_order_lanes(o, position);
    uint32_t operand[3];
    jitc_order_operands(o, at->node, operand);
    for (unsigned k = 0; k < jitc_ops[n->op].arity; ++k) {
        if (jitc_order_in_memory(o, position, k))
            continue;
        uint32_t i = jitc_order_position(o, operand[k]);
        o->place[i].low = place->low < o->place[i].low ? place->low : o->place[i].low;
        o->place[i].high = place->high > o->place[i].high ? place->high : o->place[i].high;
        if (size != 1 && jitc_node_size(jitc_order_node(o, i)) == 1)
            o->at[i].visited = 1;
    }
    return JIT_OK;
}

static jit_status place_all(jitc_plan *p) {
    jitc_order *o = p->order;
    TRY(jitc_grow((void **) &o->place, &o->place_capacity, o->count, sizeof *o->place));
    o->targets = 0;
    for (uint32_t i = 0; i < o->count; ++i)
        TRY(place_forward(p, i));
    for (uint32_t i = 0; i < o->count; ++i)
        if (o->at[i].slot != JITC_NONE)
            TRY(add_target(p, i)); /* roots */
    jitc_share_kernels(o);
    for (uint32_t i = (uint32_t) o->count; i-- > 0;)
        TRY(place_backward(p, i));
    for (uint32_t i = 0; i < o->count; ++i)
        o->at[i].visited = 0;
    return JIT_OK;
}

/* By stage, lanes, kernel: one element first, so that kernels over many lanes can read it; no
 * element last, since a kernel that does not run stores nothing for others. */
static int compare_targets(const void *a, const void *b, void *context) {
    const jitc_order *o = context;
    uint32_t i = *(const uint32_t *) a, k = *(const uint32_t *) b;
    const jitc_place *x = &o->place[i], *y = &o->place[k];
    if (x->stage != y->stage)
        return x->stage < y->stage ? -1 : 1;
    if (x->lanes != y->lanes)
        return x->lanes - 1 < y->lanes - 1 ? -1 : 1; /* 0 wraps around */
    if (x->kernel != y->kernel)
        return x->kernel < y->kernel ? -1 : 1;
    return i < k ? -1 : i > k;
}

static bool is_open(const jitc_order *o, uint32_t position, uint32_t mark) {
    const jitc_position *at = &o->at[position];
    return !at->ready && at->visited != mark && !jitc_op_is_leaf(jitc_order_node(o, position)->op);
}

/* The first operand that has to come before, or NONE. */
static uint32_t next_open(const jitc_order *o, uint32_t position, uint32_t mark) {
    const jitc_node *n = jitc_order_node(o, position);
    uint32_t operand[3];
    jitc_order_operands(o, o->at[position].node, operand);
    for (unsigned k = 0; k < jitc_ops[n->op].arity; ++k) {
        uint32_t i = jitc_order_position(o, operand[k]);
        if (is_open(o, i, mark) && !jitc_order_in_memory(o, position, k))
            return i;
    }
    return JITC_NONE;
}

/* Append to the list what `root` needs that is not in memory, operands first. */
static jit_status collect(jitc_order *o, uint32_t root, uint32_t mark) {
    size_t depth = 0;
    uint32_t position = root;
    if (o->at[root].visited == mark)
        return JIT_OK;
    for (;;) {
        uint32_t next = next_open(o, position, mark);
        if (next != JITC_NONE) {
            TRY(jitc_order_push(o, &depth, position));
            position = next;
            continue;
        }
        if (o->at[position].visited != mark) {
            o->at[position].visited = mark;
            TRY(jitc_grow((void **) &o->list, &o->list_capacity, o->list_count + 1,
                          sizeof *o->list));
            o->list[o->list_count++] = position;
        }
        if (!depth)
            return JIT_OK;
        position = o->stack[--depth];
    }
}

/* Does the value of a list entry have to go through memory if a cut separates it from a use? */
static bool can_spill(const jitc_order *o, uint32_t position, uint64_t lanes) {
    const jitc_node *n = jitc_order_node(o, position);
    return !jitc_op_is_leaf(n->op) && !o->at[position].ready && !jitc_order_region(o, position) &&
           n->op != JITC_OP_end && (jitc_node_size(n) == lanes || lanes == 1);
}

/* last[i]: the last entry of the list that uses entry i as a value. A `masked` pair has no value of
 * its own: its operands live as long as it does. */
static jit_status find_last_uses(jitc_order *o) {
    TRY(jitc_grow((void **) &o->last, &o->last_capacity, o->count, sizeof *o->last));
    for (size_t i = 0; i < o->list_count; ++i)
        o->last[o->list[i]] = (uint32_t) i;
    for (size_t i = o->list_count; i-- > 0;) {
        const jitc_node *n = jitc_order_node(o, o->list[i]);
        uint32_t operand[3];
        jitc_order_operands(o, o->at[o->list[i]].node, operand);
        bool pair = jitc_ops[n->op].form == JITC_FORM_MASKED;
        uint32_t use = pair ? o->last[o->list[i]] : (uint32_t) i;
        for (unsigned k = 0; k < jitc_ops[n->op].arity; ++k) {
            uint32_t position = jitc_order_position(o, operand[k]);
            if (is_open(o, position, 0) && !jitc_order_in_memory(o, o->list[i], k))
                o->last[position] = later(o->last[position], use);
        }
    }
    return JIT_OK;
}

/* Must entry i of the list be in one kernel with the next one? */
static bool is_whole(const jitc_order *o, size_t i) {
    return o->loops && o->whole[i] > 0;
}

/* Where to cut list[first ...]: behind at least `limit` / 2 and at most `limit` entries, with the
 * fewest values alive. */
static size_t best_cut(const jitc_order *o, size_t first, size_t limit, uint64_t lanes,
                       uint32_t *ends) {
    size_t best = first + limit, best_alive = SIZE_MAX, alive = 0;
    for (size_t i = 0; i <= limit; ++i)
        ends[i] = 0;
    for (size_t i = first; i < first + limit; ++i) {
        uint32_t last = o->last[o->list[i]];
        if (can_spill(o, o->list[i], lanes) && last > i) {
            ++alive;
            if (last < first + limit)
                ++ends[last - first];
        }
        alive -= ends[i - first];
        if (i + 1 >= first + limit / 2 && alive <= best_alive && !is_whole(o, i)) {
            best_alive = alive;
            best = i + 1;
        }
    }
    while (is_whole(o, best - 1)) /* a loop that is longer than a kernel should be */
        ++best;
    return best;
}

/* Values computed in list[first ... end-1] that later entries use go to memory. */
static jit_status spill(jitc_plan *p, size_t first, size_t end, uint64_t lanes) {
    jitc_order *o = p->order;
    uint32_t slot;
    for (size_t i = first; i < end; ++i) {
        const jitc_node *n = jitc_order_node(o, o->list[i]);
        bool pair = jitc_ops[n->op].form == JITC_FORM_MASKED;
        if (!pair && o->last[o->list[i]] >= end && can_spill(o, o->list[i], lanes))
            TRY(jitc_plan_slot(p, o->list[i], true, &slot));
    }
    return JIT_OK;
}

/* Is there a loop over one element, and more lanes in the kernel? What becomes of it can neither go
 * through memory to another part, nor be computed again there. */
static bool has_small_loop(const jitc_order *o, uint64_t lanes) {
    for (size_t i = 0; i < o->list_count && o->loops; ++i) {
        const jitc_node *n = jitc_order_node(o, o->list[i]);
        if (n->op == JITC_OP_end && jitc_node_size(n) != lanes)
            return true;
    }
    return false;
}

/* The list as one kernel or, if it is long, several. One that is cut is cut also behind entry
 * `maps`, from which on there is nothing but what combines lanes. */
static jit_status emit_parts(jitc_plan *p, const jitc_options *options, uint64_t lanes,
                             size_t maps) {
    jitc_order *o = p->order;
    size_t limit = options->kernel_ops > 2 ? (size_t) options->kernel_ops : 2, first = 0;
    void *ends = NULL;
    jit_status status = JIT_OK;
    if (o->list_count > limit && !has_small_loop(o, lanes)) {
        TRY(find_last_uses(o));
        TRY(jitc_calloc(limit + 1, sizeof(uint32_t), &ends));
    } else {
        maps = limit = o->list_count;
    }
    while (status == JIT_OK && first < o->list_count) {
        size_t end = first < maps && maps < o->list_count ? maps : o->list_count;
        if (end - first > limit)
            end = best_cut(o, first, limit, lanes, ends);
        if (end < o->list_count)
            TRY_GOTO(spill(p, first, end, lanes), out);
        status = jitc_write_list(p, options, lanes, o->list + first, end - first);
        first = end;
    }
out:
    free(ends);
    return status;
}

/* What a target combines, if that is to be computed. */
static jit_status collect_combined(jitc_order *o, uint32_t target, uint32_t mark) {
    const jitc_node *n = jitc_order_node(o, target);
    uint32_t position = jitc_order_position(o, n->a);
    if (jitc_op_indexes(n->op) || !is_open(o, position, mark))
        return JIT_OK;
    return collect(o, position, mark);
}

/* Where to collect from. The `next` of an array that nobody wants comes with its loop, whose
 * condition is met first from the end only. */
static uint32_t start_of(const jitc_order *o, uint32_t target) {
    bool next = jitc_order_node(o, target)->op == JITC_OP_next;
    return next ? o->region[o->inside[target].own - 1].end : target;
}

/* One kernel (or, if it is long, several) for targets first ... end-1, which share it. */
static jit_status make_kernel(jitc_plan *p, const jitc_options *options, size_t first, size_t end) {
    jitc_order *o = p->order;
    const jitc_place *place = &o->place[o->target[first]];
    uint32_t mark = (uint32_t) p->groups + 1;
    o->list_count = 0;
    for (size_t i = first; i < end && place->kernel >= JITC_KERNEL_APART; ++i)
        TRY(collect_combined(o, o->target[i], mark));
    size_t maps = place->kernel >= JITC_KERNEL_APART ? o->list_count : SIZE_MAX;
    for (size_t i = first; i < end; ++i)
        if (!o->at[o->target[i]].ready)
            TRY(collect(o, start_of(o, o->target[i]), mark));
    if (o->loops)
        TRY(jitc_loops_sort(o, mark));
    return o->list_count ? emit_parts(p, options, place->lanes, maps) : JIT_OK;
}

/* Is the plan one kernel that is only too long? Values of one element, which would be computed
 * again in each part, are what the stages are for. */
static bool is_merely_long(const jitc_order *o) {
    uint64_t lanes = jitc_node_size(jitc_order_node(o, (uint32_t) o->count - 1)); /* of a root */
    if (o->loops)
        return false;
    for (uint32_t i = 0; i < o->count; ++i) {
        const jitc_node *n = jitc_order_node(o, i);
        bool leaf = jitc_op_is_leaf(n->op);
        if (jitc_op_indexes(n->op) || jitc_ops[n->op].props & JITC_EFFECT ||
            (!leaf && jitc_node_size(n) != lanes) ||
            (leaf && !o->at[i].ready && o->at[i].slot != JITC_NONE))
            return false;
    }
    return true;
}

/* Cut the order as it stands. */
static jit_status cut_plain(jitc_plan *p, const jitc_options *options) {
    jitc_order *o = p->order;
    TRY(jitc_grow((void **) &o->list, &o->list_capacity, o->count, sizeof *o->list));
    o->list_count = o->count;
    for (uint32_t i = 0; i < o->count; ++i) {
        o->list[i] = i;
        o->at[i].visited = 1;
    }
    uint64_t lanes = jitc_node_size(jitc_order_node(o, (uint32_t) o->count - 1));
    return emit_parts(p, options, lanes, SIZE_MAX);
}

jit_status jitc_partition(jitc_plan *p, const jitc_options *options) {
    jitc_order *o = p->order;
    if (is_merely_long(o))
        return cut_plain(p, options);
    TRY(place_all(p));
    if (o->torn)
        return JIT_OK;
    qsort_r(o->target, o->targets, sizeof *o->target, compare_targets, o);
    size_t targets = o->targets; /* spills add some, which are written by the kernel at hand */
    for (size_t first = 0, end; first < targets; first = end) {
        const jitc_place *a = &o->place[o->target[first]];
        for (end = first + 1; end < targets; ++end) {
            const jitc_place *b = &o->place[o->target[end]];
            if (b->stage != a->stage || b->lanes != a->lanes || b->kernel != a->kernel)
                break;
        }
        TRY(make_kernel(p, options, first, end));
    }
    return JIT_OK;
}
