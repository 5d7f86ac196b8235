/* work.h: programs with loops and with indexed accesses, through the CUDA backend alone.
 * Layer: benchmarks. May include: core, ir, device. */
#ifndef BENCH_SCATTER_WORK_H
#define BENCH_SCATTER_WORK_H
#include "gpu_program.h"
#include "peer.h"

typedef enum scatter_pattern {
    SCATTER_RANDOM,
    SCATTER_EQUAL,
    SCATTER_SORTED,
    SCATTER_MOSTLY, /* nine of ten are the same, the others random */
    SCATTER_IOTA    /* 0, 1, 2, ..., again and again */
} scatter_pattern;

/** The backend, and the functions of the peers, or NULL. */
typedef struct scatter_session {
    gpu gpu;
    int (*hand)(const scatter_peer_work *w);
    int (*cub)(const scatter_peer_work *w);
    int (*wait)(void);
} scatter_session;

/** A program, its memory, and the same for the peers. */
typedef struct scatter_work {
    scatter_session *session;
    scatter_peer_work what; /* with the peers' table */
    scatter_pattern pattern;
    gpu_kernel kernel;
    void *table;
    size_t calls, hand_calls, cub_calls;
} scatter_work;

/** False, after a message, on failure. */
bool scatter_open(scatter_session *s);
void scatter_close(scatter_session *s);
bool scatter_prepare(scatter_session *s, scatter_work *w);
void scatter_release(scatter_work *w);
/** Samples: nanoseconds of a run, several back to back and one wait. */
double scatter_sample(void *work);
double scatter_hand_sample(void *work);
double scatter_cub_sample(void *work);
/** Does it give what the hand-written kernel gives? Say so if not. */
bool scatter_check(scatter_work *w);
#endif
