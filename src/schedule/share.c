/* share.c: which targets of one stage and lanes are written by one kernel.  Layer: schedule.
 *
 * Reductions share a pass with each other and with stores; scatters with stores, unless there are
 * reductions; block reductions of one length with each other. Every other operation that combines
 * lanes has a kernel of its own. The kernel in which stores are is the first, so that the others
 * can read what it has written. */
#include "ir/program.h"
#include "schedule/order.h"
#include <stdlib.h>

/* In the order in which jitc_share_kernels() wants to meet them. */
typedef enum kind { REDUCES, STORES, SCATTERS, BLOCKS, ALONE } kind;

static kind kind_of(const jitc_order *o, uint32_t position) {
    unsigned op = jitc_order_node(o, position)->op;
    switch (jitc_op_shape(op)) {
        case -1: return o->loops && o->inside[position].final ? SCATTERS : STORES;
        case JITC_SHAPE_MAP: return SCATTERS;
        case JITC_SHAPE_REDUCE: return REDUCES;
        case JITC_SHAPE_BLOCK_REDUCE: return BLOCKS;
        default: return ALONE;
    }
}

static uint64_t block_of(const jitc_order *o, uint32_t position) {
    return kind_of(o, position) == BLOCKS ? jitc_node_block(o->graph, o->at[position].node) : 0;
}

static int compare(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

/* By stage, lanes, kind, length of blocks. */
static int compare_targets(const void *a, const void *b, void *context) {
    const jitc_order *o = context;
    uint32_t i = *(const uint32_t *) a, k = *(const uint32_t *) b;
    int order = compare(o->place[i].stage, o->place[k].stage);
    if (!order)
        order = compare(o->place[i].lanes, o->place[k].lanes);
    if (!order)
        order = compare(kind_of(o, i), kind_of(o, k));
    if (!order)
        order = compare(block_of(o, i), block_of(o, k));
    return order ? order : compare(i, k);
}

static bool is_shared(const jitc_order *o) {
    for (size_t i = 0; i < o->targets; ++i)
        if (jitc_op_combines(jitc_order_node(o, o->target[i])->op))
            return true;
    return false;
}

void jitc_share_kernels(jitc_order *o) {
    bool reduces = false;
    if (!is_shared(o)) /* all that there is can be in one kernel */
        return;
    qsort_r(o->target, o->targets, sizeof *o->target, compare_targets, o);
    for (size_t i = 0; i < o->targets; ++i) {
        uint32_t position = o->target[i], before = i ? o->target[i - 1] : position;
        jitc_place *place = &o->place[position], *last = &o->place[before];
        bool same = i && last->stage == place->stage && last->lanes == place->lanes;
        kind k = kind_of(o, position);
        reduces = k == REDUCES || (same && reduces);
        if (k < SCATTERS)
            place->kernel = JITC_KERNEL_STORES;
        else if (k == SCATTERS)
            place->kernel = reduces ? JITC_KERNEL_SCATTERS : JITC_KERNEL_STORES;
        else if (k == BLOCKS && same && block_of(o, before) == block_of(o, position))
            place->kernel = last->kernel;
        else
            place->kernel = JITC_KERNEL_APART + position;
    }
}
