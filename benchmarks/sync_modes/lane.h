/* lane.h: what one thread of the pipeline does: produce, order, let consume.
 * Layer: benchmarks. May include: <jit/jit.h>, <jit/cuda.h>.
 *
 *   producer's stream   P0      P1      P2   (slot 0 is consumed) P4 ...
 *                         \order  \order                        ^
 *   consumer's stream      C0      C1      C2  ─────────────────┘ event, before slot 0 is written
 *
 * An array of this library is given back when its consumer is queued SYNC_DEPTH steps ago, after
 * the thread's stream was told to wait for that consumer, so its memory may be written again. */
#ifndef BENCH_SYNC_LANE_H
#define BENCH_SYNC_LANE_H
#include "sync_modes/by_hand.h"
#include <jit/cuda.h>

enum { SYNC_MOST_STEPS = 128 };

typedef enum sync_order {
    SYNC_TOKEN,   /* jit_cuda_sync_stream(token) */
    SYNC_HANDLE,  /* jit_cuda_sync_stream(the consumer's stream) */
    SYNC_DEVICE,  /* jit_sync_device() */
    SYNC_CONTEXT, /* cuCtxSynchronize() */
    SYNC_BY_HAND  /* no array of this library: record an event and wait for it, by hand */
} sync_order;

/* A way to put the consumer after the producer. */
typedef struct sync_mode {
    const char *name;
    sync_order order;
    intptr_t token;
    void *consumer; /* its stream: one of the tokens below, or NULL: the lane's non-blocking one */
    bool waits;     /* on the CPU */
    bool unordered; /* stale reads are to be expected */
    bool both_ways; /* the producer waits for the consumer by itself */
} sync_mode;

#define SYNC_LEGACY_STREAM     ((void *) 1) /* CU_STREAM_LEGACY */
#define SYNC_PER_THREAD_STREAM ((void *) 2) /* CU_STREAM_PER_THREAD */

/* What steps have cost. */
typedef struct sync_tally {
    double steps, stale; /* stale: steps of which the consumer has read anything wrong */
    double held;         /* nanoseconds in the call that orders */
    double cpu; /* nanoseconds of the thread's processor time, without the wait at the end */
} sync_tally;

typedef struct sync_lane {
    const sync_gpu *gpu;
    unsigned number;
    by_hand hand;
    jit_var start, arrays[SYNC_DEPTH];
    void *stream, *consumed[SYNC_DEPTH]; /* the consumer's; consumed: after each slot's consumer */
    jit_event *wrapped[SYNC_DEPTH];      /* the same events, for this library */
    cuda_address stale;                  /* a word a step */
    double steps;                        /* so far: tags are unique */
    sync_tally tally;
} sync_lane;

/* By the thread that will run it; the GPU's context is current from then on. False, after a
 * message, on failure; sync_lane_finish(), by the same thread, is right then, too. */
bool sync_lane_init(sync_lane *l, const sync_gpu *g, unsigned number);
void sync_lane_finish(sync_lane *l);
/* Before steps, and after them: forget and count what consumers found stale. At most
 * SYNC_MOST_STEPS steps. */
bool sync_lane_prepare(sync_lane *l, unsigned steps);
bool sync_lane_count(sync_lane *l, unsigned steps);
/* Take steps and wait for the last one. */
bool sync_lane_run(sync_lane *l, const sync_mode *m, const sync_work *w, unsigned steps);
/* The call that orders what is produced and the consumer. */
bool sync_lane_order(sync_lane *l, const sync_mode *m);

#endif
