/* work.h: programs that combine lanes, through the CUDA backend alone.
 * Layer: benchmarks. May include: core, ir, device. */
#ifndef BENCH_COMBINE_WORK_H
#define BENCH_COMBINE_WORK_H
#include "gpu_program.h"
#include "peer.h"

/** The backend, and the functions of the peer, or NULL. */
typedef struct combine_session {
    gpu gpu;
    int (*peer_run)(const combine_peer_work *w);
    int (*peer_wait)(void);
} combine_session;

/** A program, its memory, and the same for the peer. */
typedef struct combine_work {
    combine_session *session;
    combine_peer_work what;
    unsigned per_1024; /* COMPRESS: flags that are set of so many */
    bool reverse;
    gpu_kernel kernel;
    void *out, *peer_out;
    size_t out_bytes, calls, peer_calls;
} combine_work;

/** False, after a message, on failure. */
bool combine_open(combine_session *s);
void combine_close(combine_session *s);
bool combine_prepare(combine_session *s, combine_work *w);
void combine_release(combine_work *w);
/** Bytes that are read and written at least. */
double combine_bytes(const combine_work *w);
/** Samples: nanoseconds of a run, several back to back and one wait. */
double combine_sample(void *work);
double combine_peer_sample(void *work);
/** Do both give the same? Say so if not. */
bool combine_check(combine_work *w);
#endif
