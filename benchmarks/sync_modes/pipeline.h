/* pipeline.h: threads that produce and consume side by side, and how many steps a second they take.
 * Layer: benchmarks. May include: <jit/jit.h>, <jit/cuda.h>. */
#ifndef BENCH_SYNC_PIPELINE_H
#define BENCH_SYNC_PIPELINE_H
#include "sync_modes/lane.h"

#include <stdio.h>

enum { SYNC_MOST_THREADS = 8 };

typedef struct sync_team sync_team;

/* What is sampled: `threads` threads of the team do `work` in one mode. */
typedef struct sync_pipeline {
    sync_team *team;
    const sync_mode *mode;
    const sync_work *work;
    unsigned threads;
    double fill_ns;         /* a sample lasts as long, or some steps */
    unsigned steps, bursts; /* of a sample: bursts of steps of every thread; found by the first */
    sync_tally tally;       /* of all samples */
    unsigned races;         /* in them, where the driver is simulated */
} sync_pipeline;

/* Start `threads` threads, each with its streams. NULL, after a message, on failure. */
sync_team *sync_team_create(const sync_gpu *g, unsigned threads);
void sync_team_destroy(sync_team *t);
/* A sample: nanoseconds per step, over all threads; negative, after a message, on failure. */
double sync_pipeline_sample(void *pipeline);
/* Members of a JSON object: steps, stale steps, and what one has cost the CPU. */
void sync_pipeline_describe(void *pipeline, FILE *json);

#endif
