/* clock.c: clocks.  Layer: tests. */
#include "clock.h"
#include "state.h"
#include <stdlib.h>
#include <string.h>

typedef struct numbers {
    uint32_t all, explicit;
} numbers;

struct sim_clock {
    unsigned references, count;
    numbers at[]; /* by stream */
};

sim_clock *sim_clock_ref(sim_clock *c) {
    if (c)
        c->references++;
    return c;
}

void sim_clock_unref(sim_clock *c) {
    if (c && --c->references == 0)
        free(c);
}

/** *to with room for `count` streams, and nobody else's. */
static sim_clock *own(sim_clock **to, unsigned count) {
    sim_clock *old = *to;
    unsigned had = old ? old->count : 0;
    if (old && old->references == 1 && had >= count)
        return old;
    count = had > count ? had : count;
    sim_clock *c = sim_new(sizeof *c + count * sizeof *c->at);
    c->references = 1;
    c->count = count;
    if (had)
        memcpy(c->at, old->at, had * sizeof *c->at);
    sim_clock_unref(old);
    return *to = c;
}

static void raise_to(uint32_t *number, uint32_t least) {
    *number = *number < least ? least : *number;
}

void sim_clock_join(sim_clock **to, const sim_clock *from, bool implicit) {
    if (!from || from == *to)
        return;
    sim_clock *c = own(to, from->count);
    for (unsigned i = 0; i < from->count; i++) {
        raise_to(&c->at[i].all, from->at[i].all);
        if (!implicit)
            raise_to(&c->at[i].explicit, from->at[i].explicit);
    }
}

void sim_clock_add(sim_clock **to, unsigned task, uint64_t number) {
    sim_clock *c = own(to, task + 1);
    c->at[task] = (numbers) {(uint32_t) number, (uint32_t) number};
}

sim_known sim_clock_knows(const sim_clock *c, unsigned task, uint64_t number) {
    if (!c || task >= c->count || c->at[task].all < number)
        return SIM_UNKNOWN;
    return c->at[task].explicit < number ? SIM_IMPLICIT : SIM_KNOWN;
}
