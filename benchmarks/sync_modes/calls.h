/* calls.h: what the call alone costs that orders producer and consumer.
 * Layer: benchmarks. May include: <jit/jit.h>, <jit/cuda.h>. */
#ifndef BENCH_SYNC_CALLS_H
#define BENCH_SYNC_CALLS_H
#include "sync_modes/lane.h"

/* What is sampled. Idle: calls back to back, all work is over. Busy: the stream has `busy` of work
 * before it, and something new before each call. */
typedef struct sync_call {
    sync_lane *lane; /* of the calling thread */
    const sync_mode *mode;
    const sync_work *busy, *small; /* NULL: idle */
    bool processor;                /* the thread's processor time instead of the clock's */
    unsigned calls;                /* of an idle sample; found by the first samples */
} sync_call;

/* A sample: nanoseconds of a call; negative, after a message, on failure. */
double sync_call_sample(void *call);

#endif
