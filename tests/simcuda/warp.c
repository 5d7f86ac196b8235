/* warp.c: operations among the lanes of a warp. A lane waits until every lane that its mask names,
 * and that has not ended, is in an operation with the same mask; then all results are computed at
 * once. Between operations the lanes of a warp are independent of each other, as on the device. */
#include "access.h"
#include "exec.h"

enum { LANES = 32 };
enum {
    SYNC,
    BALLOT,
    ANY,
    ALL,
    SHUFFLE,
    SHUFFLE_UP,
    SHUFFLE_DOWN,
    SHUFFLE_XOR,
    MATCH_ANY,
    REDUCE_ADD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_XOR
};
/* What a lane gets from one that takes no part: undefined on the device. */
static const uint64_t POISON = 0xa5a5a5a5a5a5a5a5;

typedef struct warp {
    sim_fiber *lanes[LANES]; /* NULL: none, not started, or ended */
    unsigned live;
    unsigned group; /* lanes of the operation */
} warp;

/* Threads that were not started yet count as live. */
static warp warp_of(const sim_executor *x, const sim_block *b, unsigned thread) {
    warp w = {0};
    unsigned first = thread / LANES * LANES;
    for (unsigned i = 0; i < LANES && first + i < x->threads; i++) {
        w.lanes[i] = b->fibers[first + i];
        w.live |= (unsigned) (w.lanes[i] || first + i >= b->started) << i;
    }
    return w;
}

static bool has(unsigned mask, unsigned lane) {
    return mask >> lane & 1;
}

static uint64_t shuffled(const warp *w, unsigned lane) {
    const sim_fiber *f = w->lanes[lane];
    unsigned segment = lane & ~(f->width - 1), end = segment + f->width, from;
    switch (f->kind) {
        case SHUFFLE: from = segment | (f->from & (f->width - 1)); break;
        case SHUFFLE_UP: from = lane >= segment + f->from ? lane - f->from : lane; break;
        case SHUFFLE_DOWN: from = lane + f->from < end ? lane + f->from : lane; break;
        default: from = (lane ^ f->from) < end ? lane ^ f->from : lane;
    }
    return has(w->group, from & 31) ? w->lanes[from & 31]->value : POISON;
}

static unsigned matching(const warp *w, uint64_t value) {
    unsigned mask = 0;
    for (unsigned i = 0; i < LANES; i++) {
        mask |= (unsigned) (has(w->group, i) && w->lanes[i]->value == value) << i;
    }
    return mask;
}

static uint64_t reduced_pair(int kind, uint64_t a, uint64_t b) {
    switch (kind) {
        case REDUCE_ADD: return a + b;
        case REDUCE_MIN: return (int64_t) a < (int64_t) b ? a : b;
        case REDUCE_MAX: return (int64_t) a < (int64_t) b ? b : a;
        case REDUCE_AND: return a & b;
        case REDUCE_OR: return a | b;
        default: return a ^ b;
    }
}

static uint64_t reduced(const warp *w, int kind) {
    bool first = true;
    uint64_t sum = 0;
    for (unsigned i = 0; i < LANES; i++) {
        if (has(w->group, i)) {
            sum = first ? w->lanes[i]->value : reduced_pair(kind, sum, w->lanes[i]->value);
            first = false;
        }
    }
    return sum;
}

static uint64_t result_of(const warp *w, unsigned lane) {
    const sim_fiber *f = w->lanes[lane];
    switch (f->kind) {
        case SYNC: return 0;
        case BALLOT: return matching(w, 1);
        case ANY: return matching(w, 1) != 0;
        case ALL: return matching(w, 1) == w->group;
        case MATCH_ANY: return matching(w, f->value);
        case SHUFFLE:
        case SHUFFLE_UP:
        case SHUFFLE_DOWN:
        case SHUFFLE_XOR: return shuffled(w, lane);
        default: return reduced(w, f->kind);
    }
}

static void complete(sim_executor *x, warp *w) {
    for (unsigned i = 0; i < LANES; i++) {
        if (has(w->group, i)) {
            w->lanes[i]->result = result_of(w, i);
        }
    }
    for (unsigned i = 0; i < LANES; i++) {
        if (has(w->group, i)) {
            sim_ready(x, w->lanes[i]);
        }
    }
    x->progress++;
}

/* Complete the operation of a lane if all that it names are in it. Lanes that wait in another
 * operation with the same mask never meet: a fault of the one that came last. */
static void try_complete(sim_executor *x, warp *w, const sim_fiber *f) {
    w->group = f->mask & w->live;
    bool all = true;
    for (unsigned i = 0; i < LANES; i++) {
        const sim_fiber *other = has(w->group, i) ? w->lanes[i] : f;
        bool waits = other && other->wait == SIM_IN_WARP && other->mask == f->mask;
        if (waits && other->kind != f->kind) {
            sim_blame(x, f, SIM_DIVERGENT_BARRIER,
                      "in the warp operation in line %d, while thread (%u, %u, %u) is in another "
                      "one in line %d with the same mask %#x",
                      f->line, other->place.thread.x, other->place.thread.y, other->place.thread.z,
                      other->line, f->mask);
            return;
        }
        all &= waits;
    }
    if (all) {
        complete(x, w);
    }
}

void sim_warp_left(sim_executor *x, sim_block *b, unsigned thread) {
    warp w = warp_of(x, b, thread);
    for (unsigned i = 0; i < LANES; i++) {
        const sim_fiber *f = w.lanes[i];
        if (f && f->wait == SIM_IN_WARP && has(f->mask, thread % LANES)) {
            try_complete(x, &w, f);
        }
    }
}

unsigned long long sim_warp(int kind, unsigned mask, unsigned long long value, unsigned from,
                            unsigned width, int line) {
    sim_executor *x = sim_running;
    sim_fiber *f = x->self;
    if (!has(mask, f->thread % LANES)) {
        sim_stop(SIM_TRAP, "the mask %#x of the warp operation in line %d leaves out its own lane",
                 mask, line);
    }
    if (width == 0 || width > LANES || (width & (width - 1))) {
        sim_stop(SIM_TRAP, "width %u of the shuffle in line %d is no power of two up to 32", width,
                 line);
    }
    f->kind = kind;
    f->mask = mask;
    f->value = value;
    f->from = from;
    f->width = width;
    f->line = line;
    f->wait = SIM_IN_WARP;
    f->last = 0;
    warp w = warp_of(x, f->block, f->thread);
    try_complete(x, &w, f);
    sim_suspend(x);
    return f->result;
}

/* The lanes that run together with this one: nothing is promised about it but the lane itself. */
uint64_t sim_active_mask(void) {
    return 1u << sim_running->self->thread % LANES;
}
