/* nest.c: the list of a kernel, with each loop in one piece.  Layer: schedule.
 *
 * The list comes operands first, so the `end` of a loop stands behind everything that the loop
 * needs from outside. There the loop is put, as a whole:
 *
 *   loop, its phis, what is inside as it came, the `next`s, end, its results
 *
 * What the condition needs came first, because it is an operand of the end before the `next`s. */
#include "schedule/order.h"
#include "trace/loop.h"

static void append(jitc_order *o, jitc_span *s, uint32_t entry) {
    if (s->first == JITC_NONE)
        s->first = entry;
    else
        o->link[s->last] = entry;
    s->last = entry;
    o->link[entry] = JITC_NONE;
}

static jitc_region *region_in(jitc_order *o, uint32_t region, uint32_t number) {
    static const jitc_span none = {JITC_NONE, JITC_NONE};
    jitc_region *r = &o->region[region - 1];
    if (r->number != number) {
        r->number = number;
        r->phis = r->body = r->nexts = r->results = none;
    }
    return r;
}

static void distribute(jitc_order *o, uint32_t number, jitc_span *outside) {
    for (uint32_t e = 0; e < o->list_count; ++e) {
        const jitc_inside *at = &o->inside[o->list[e]];
        jitc_span *s = at->region ? &region_in(o, at->region, number)->body : outside;
        switch (jitc_ops[jitc_order_node(o, o->list[e])->op].form) {
            case JITC_FORM_LOOP: continue;
            case JITC_FORM_PHI: s = &region_in(o, at->own, number)->phis; break;
            case JITC_FORM_NEXT: s = &region_in(o, at->own, number)->nexts; break;
            case JITC_FORM_RESULT: s = &region_in(o, at->own, number)->results; break;
            default: break;
        }
        append(o, s, e);
    }
}

/* Where the sorted list grows, behind the links. */
typedef struct sorted {
    jitc_order *order;
    uint32_t *out;
    uint32_t count, depth;
} sorted;

/* Entries of an array that a loop before has scattered into are in one kernel with it. */
static void keep_with_root(sorted *s, uint32_t position) {
    jitc_order *o = s->order;
    uint32_t root = o->inside[position].root;
    if (root == JITC_NONE || root == position)
        return;
    const jitc_region *r = &o->region[o->inside[root].own - 1];
    ++o->whole[r->start];
    --o->whole[s->count];
}

static void put(sorted *s, uint32_t position) {
    if (s->order->inside[position].own)
        keep_with_root(s, position);
    s->out[s->count++] = position;
}

static void put_all(sorted *s, jitc_span span) {
    for (uint32_t e = span.first; e != JITC_NONE; e = s->order->link[e])
        put(s, s->order->list[e]);
}

static void enter(sorted *s, jitc_region *r, uint32_t back) {
    r->back = back;
    r->start = s->count;
    put(s, r->loop);
    put_all(s, r->phis);
}

static void leave(sorted *s, jitc_region *r) {
    jitc_order *o = s->order;
    put_all(s, r->nexts);
    put(s, r->end);
    put_all(s, r->results);
    ++o->whole[r->start]; /* all but the last */
    --o->whole[s->count - 1];
}

static void expand(sorted *s, uint32_t first) {
    jitc_order *o = s->order;
    jitc_region *r = NULL;
    for (uint32_t e = first;;) {
        if (e == JITC_NONE && !r)
            return;
        if (e == JITC_NONE) {
            leave(s, r);
            e = r->back;
            r = r->parent ? &o->region[r->parent - 1] : NULL;
        } else if (jitc_order_node(o, o->list[e])->op == JITC_OP_end) {
            r = &o->region[o->inside[o->list[e]].own - 1];
            enter(s, r, o->link[e]);
            e = r->body.first;
        } else {
            put(s, o->list[e]);
            e = o->link[e];
        }
    }
}

jit_status jitc_loops_sort(jitc_order *o, uint32_t number) {
    jitc_span outside = {JITC_NONE, JITC_NONE};
    size_t n = o->list_count;
    TRY(jitc_grow((void **) &o->link, &o->link_capacity, 2 * n, sizeof *o->link));
    TRY(jitc_grow((void **) &o->whole, &o->whole_capacity, n + 1, sizeof *o->whole));
    for (size_t i = 0; i <= n; ++i)
        o->whole[i] = 0;
    distribute(o, number, &outside);
    sorted s = {.order = o, .out = o->link + n};
    expand(&s, outside.first);
    for (size_t i = 0; i < n; ++i)
        o->list[i] = s.out[i];
    for (size_t i = 1; i < n; ++i)
        o->whole[i] += o->whole[i - 1];
    return JIT_OK;
}
