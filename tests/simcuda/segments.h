/* segments.h: who accessed which bytes of an allocation last.  Layer: tests.
 *
 *   allocation   |      a      |  b  |        a        | c |      tiles, without gaps
 *                       │         │                      │
 *   histories    {last write, reads since, atomics since}        shared by tiles
 *
 * Of accesses of one kind only those are kept that none of the others is known to come after: what
 * has to come after the others then comes after it, too. All is under the driver's lock. */
#ifndef SIMCUDA_SEGMENTS_H
#define SIMCUDA_SEGMENTS_H
#include "clock.h"
#include "state.h"

/** A kernel, copy or fill that accesses memory; counted. */
typedef struct sim_op {
    unsigned references;
    const char *what; /* lives for ever */
    bool kernel;
    const sim_stream *stream; /* NULL: the host */
    uint64_t number;          /* in its stream */
    size_t node;              /* of a graph */
} sim_op;

void sim_op_unref(sim_op *o);

typedef struct sim_segments sim_segments;
typedef struct sim_history sim_history;

/** Two operations that access the same bytes. */
typedef struct sim_conflict {
    sim_op *before;               /* the one that ran first */
    unsigned kinds_before, kinds; /* sim_access */
    sim_known known;              /* what the second one knows of it */
    uint64_t from, to, bytes;     /* of the allocation: the range, and how many in it */
} sim_conflict;

enum { SIM_CONFLICTS = 16, SIM_MEMOS = 64 };

/** The accesses of one operation to one allocation, in ascending order. */
typedef struct sim_pass {
    /* set by the caller: */
    sim_op *op;
    const sim_clock *clock;
    const uint64_t *nodes; /* those that come before op's in its graph, as bits; NULL: all */
    sim_known least;       /* what is enough */
    /* results: */
    sim_conflict conflicts[SIM_CONFLICTS];
    unsigned conflict_count;
    /* own: */
    sim_segments *segments;
    uint64_t at;        /* up to here all is in `out` */
    size_t first, next; /* tiles that `out` replaces */
    struct sim_tile *out;
    size_t out_count, out_capacity;
    sim_history *written;
    struct {
        const sim_history *from;
        unsigned kinds;
        sim_history *to;
        bool conflicts;
    } memo[SIM_MEMOS];
} sim_pass;

/** `segments`: those of an allocation of `bytes` bytes; made if there are none. */
void sim_pass_begin(sim_pass *p, sim_segments **segments, uint64_t bytes);
void sim_pass_add(sim_pass *p, uint64_t from, uint64_t to, unsigned kinds);
void sim_pass_end(sim_pass *p);
/** Only look for conflicts of a write of everything. */
void sim_pass_check(sim_pass *p, const sim_segments *segments);
void sim_segments_free(sim_segments *s);
#endif
