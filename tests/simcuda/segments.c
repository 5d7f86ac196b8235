/* segments.c: who accessed which bytes of an allocation last.  Layer: tests. */
#include "segments.h"
#include <stdlib.h>
#include <string.h>

struct sim_history {
    unsigned references;
    unsigned reads, atomics; /* how many */
    sim_op *write;           /* or NULL */
    sim_op *ops[];           /* the reads, then the atomics */
};

typedef struct sim_tile {
    uint64_t from; /* up to the next one's */
    sim_history *history;
} sim_tile;

struct sim_segments {
    sim_tile *tiles;
    size_t count, capacity;
    uint64_t bytes;
};

/* ---- operations and histories ---- */

void sim_op_unref(sim_op *o) {
    if (o && --o->references == 0)
        free(o);
}

static sim_op *ref_op(sim_op *o) {
    if (o)
        o->references++;
    return o;
}

static sim_history *new_history(sim_op *write, unsigned most_ops) {
    sim_history *h = sim_new(sizeof *h + most_ops * sizeof *h->ops);
    h->references = 1;
    h->write = ref_op(write);
    return h;
}

static void unref_history(sim_history *h) {
    if (!h || --h->references)
        return;
    sim_op_unref(h->write);
    for (unsigned i = 0; i < h->reads + h->atomics; i++)
        sim_op_unref(h->ops[i]);
    free(h);
}

/** What the pass's operation knows of `o`. */
static sim_known knows(const sim_pass *p, const sim_op *o) {
    const sim_op *self = p->op;
    if (o == self)
        return SIM_KNOWN;
    if (o->stream != self->stream || o->number != self->number)
        return sim_clock_knows(p->clock, o->stream->task, o->number);
    return !p->nodes || p->nodes[o->node / 64] >> o->node % 64 & 1 ? SIM_KNOWN : SIM_UNKNOWN;
}

/* ---- conflicts ---- */

/** `o` accessed [from, to), as `kind`; true if it conflicts. With `from` == `to`: only look. */
static bool note(sim_pass *p, sim_op *o, unsigned kind, unsigned kinds, const uint64_t range[2]) {
    sim_known known = knows(p, o);
    if (known >= p->least)
        return false;
    if (range[0] == range[1])
        return true;
    sim_conflict *c = p->conflicts, *end = c + p->conflict_count;
    while (c < end && c->before != o)
        c++;
    if (c == p->conflicts + SIM_CONFLICTS)
        return true; /* these are enough */
    if (c == end) {
        *c = (sim_conflict) {.before = ref_op(o), .known = known, .from = range[0]};
        p->conflict_count++;
    }
    c->kinds_before |= kind;
    c->kinds |= kinds;
    c->bytes += c->to == range[1] ? 0 : range[1] - range[0]; /* as read and as atomic: once */
    c->to = range[1];
    return true;
}

/** Compare an access with those in `h`. */
static bool compare(sim_pass *p, const sim_history *h, unsigned kinds, const uint64_t range[2]) {
    bool conflicts = h->write && note(p, h->write, SIM_WRITE, kinds, range);
    unsigned against_reads = kinds & (SIM_WRITE | SIM_ATOMIC);
    unsigned against_atomics = kinds & (SIM_READ | SIM_WRITE);
    for (unsigned i = 0; against_reads && i < h->reads; i++)
        conflicts |= note(p, h->ops[i], SIM_READ, against_reads, range);
    for (unsigned i = 0; against_atomics && i < h->atomics; i++)
        conflicts |= note(p, h->ops[h->reads + i], SIM_ATOMIC, against_atomics, range);
    return conflicts;
}

/* ---- the next history ---- */

/** Copy `count` operations to the end of `to`, with p->op if it is a further one. */
static unsigned extend(const sim_pass *p, sim_op *const *from, unsigned count, bool further,
                       sim_op **to) {
    unsigned n = 0;
    for (unsigned i = 0; i < count; i++)
        if (!further || knows(p, from[i]) != SIM_KNOWN)
            to[n++] = ref_op(from[i]);
    if (further)
        to[n++] = ref_op(p->op);
    return n;
}

static sim_history *next_history(sim_pass *p, const sim_history *h, unsigned kinds) {
    if (kinds & SIM_WRITE) {
        p->written->references++;
        return p->written;
    }
    sim_history *n = new_history(h->write, h->reads + h->atomics + 2);
    n->reads = extend(p, h->ops, h->reads, kinds & SIM_READ, n->ops);
    n->atomics = extend(p, h->ops + h->reads, h->atomics, kinds & SIM_ATOMIC, n->ops + n->reads);
    return n;
}

/** The history of [from, to), which had `h`, after an access; a reference. */
static sim_history *access_range(sim_pass *p, sim_history *h, unsigned kinds,
                                 const uint64_t range[2]) {
    static const uint64_t nowhere[2];
    size_t slot = ((uintptr_t) h / 16 * 7 + kinds) % SIM_MEMOS;
    if (p->memo[slot].from != h || p->memo[slot].kinds != kinds) {
        p->memo[slot].conflicts = compare(p, h, kinds, nowhere);
        unref_history(p->memo[slot].to);
        p->memo[slot].to = next_history(p, h, kinds);
        p->memo[slot].from = h;
        p->memo[slot].kinds = kinds;
    }
    if (p->memo[slot].conflicts)
        compare(p, h, kinds, range);
    p->memo[slot].to->references++;
    return p->memo[slot].to;
}

/* ---- tiles ---- */

static sim_tile *grow(sim_tile *tiles, size_t count, size_t *capacity) {
    if (count <= *capacity)
        return tiles;
    *capacity = count < 8 ? 8 : 2 * count;
    sim_tile *grown = realloc(tiles, *capacity * sizeof *grown);
    if (!grown)
        abort();
    return grown;
}

static uint64_t end_of(const sim_segments *s, size_t tile) {
    return tile + 1 < s->count ? s->tiles[tile + 1].from : s->bytes;
}

/** [p->at, to) has the history `h` now, of which the caller gives a reference. */
static void emit(sim_pass *p, uint64_t to, sim_history *h) {
    if (p->out_count > 0 && p->out[p->out_count - 1].history == h) {
        unref_history(h);
    } else {
        p->out = grow(p->out, p->out_count + 1, &p->out_capacity);
        p->out[p->out_count++] = (sim_tile) {p->at, h};
    }
    p->at = to;
    if (to == end_of(p->segments, p->next))
        p->next++;
}

/** Go on to `to`, within one tile, changing nothing. */
static void keep(sim_pass *p, uint64_t to) {
    sim_history *h = p->segments->tiles[p->next].history;
    h->references++;
    emit(p, to, h);
}

/** The tile in which `at` is. */
static size_t find(const sim_segments *s, uint64_t at) {
    size_t low = 0, high = s->count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        *(s->tiles[middle].from <= at ? &low : &high) = middle;
    }
    return low;
}

void sim_pass_begin(sim_pass *p, sim_segments **segments, uint64_t bytes) {
    if (!*segments) {
        sim_segments *s = *segments = sim_new(sizeof *s);
        s->bytes = bytes;
        s->count = 1;
        s->tiles = grow(NULL, 1, &s->capacity);
        s->tiles[0] = (sim_tile) {0, new_history(NULL, 0)};
    }
    p->segments = *segments;
    p->first = p->next = SIZE_MAX; /* nothing yet */
    p->written = new_history(p->op, 0);
}

static uint64_t least(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

void sim_pass_add(sim_pass *p, uint64_t from, uint64_t to, unsigned kinds) {
    sim_segments *s = p->segments;
    if (p->first == SIZE_MAX) {
        p->first = p->next = find(s, from);
        p->at = s->tiles[p->first].from;
    }
    while (p->at < from)
        keep(p, least(from, end_of(s, p->next)));
    while (p->at < to) {
        uint64_t range[2] = {p->at, least(to, end_of(s, p->next))};
        emit(p, range[1], access_range(p, s->tiles[p->next].history, kinds, range));
    }
}

/** Put what is new in the place of what was. Neighbours differ: a new history is nobody else's. */
static void replace(sim_pass *p) {
    sim_segments *s = p->segments;
    size_t old = p->next - p->first, tail = s->count - p->next;
    for (size_t i = p->first; i < p->next; i++)
        unref_history(s->tiles[i].history);
    s->tiles = grow(s->tiles, p->first + p->out_count + tail, &s->capacity);
    if (old != p->out_count)
        memmove(s->tiles + p->first + p->out_count, s->tiles + p->next, tail * sizeof *s->tiles);
    memcpy(s->tiles + p->first, p->out, p->out_count * sizeof *p->out);
    s->count = p->first + p->out_count + tail;
}

void sim_pass_end(sim_pass *p) {
    const sim_segments *s = p->segments;
    if (p->first != SIZE_MAX) {
        if (p->next < s->count && p->at > s->tiles[p->next].from)
            keep(p, end_of(s, p->next));
        replace(p);
    }
    for (int i = 0; i < SIM_MEMOS; i++)
        unref_history(p->memo[i].to);
    unref_history(p->written);
    free(p->out);
}

void sim_pass_check(sim_pass *p, const sim_segments *s) {
    for (size_t i = 0; s && i < s->count; i++) {
        uint64_t range[2] = {s->tiles[i].from, end_of(s, i)};
        compare(p, s->tiles[i].history, SIM_WRITE, range);
    }
}

void sim_segments_free(sim_segments *s) {
    for (size_t i = 0; s && i < s->count; i++)
        unref_history(s->tiles[i].history);
    if (s)
        free(s->tiles);
    free(s);
}
