/* copiers.h: threads that copy the pieces of one large transfer between host memory and pinned
 * memory, which one core does at a fraction of the bus's speed.  Layer: cuda.  May include: core.
 *
 * They live as long as the transfer: starting them costs a hundredth of it, and nothing of them is
 * there when the process forks or ends. */
#ifndef JITC_CUDA_COPIERS_H
#define JITC_CUDA_COPIERS_H
#include "core/sync.h"
#include <stddef.h>

enum {
    JITC_CUDA_COPIERS = 16, /* threads, at most, the caller counted */
    JITC_CUDA_AHEAD = 16    /* pieces that are posted and not forgotten */
};

typedef struct jitc_cuda_piece {
    void *to;
    const void *from;
    size_t bytes;
    bool copied;
} jitc_cuda_piece;

typedef struct jitc_cuda_copiers {
    jitc_mutex lock; /* guards what follows */
    pthread_cond_t posted_one, copied_one;
    jitc_cuda_piece piece[JITC_CUDA_AHEAD]; /* number n at n % JITC_CUDA_AHEAD */
    size_t posted, taken;
    bool ending;
    unsigned threads;
    pthread_t thread[JITC_CUDA_COPIERS];
} jitc_cuda_copiers;

/** Starts up to `threads` - 1 of them; the caller of wait() is the last. */
void jitc_cuda_copiers_start(jitc_cuda_copiers *c, unsigned threads);
/** Give them the next piece; the one posted JITC_CUDA_AHEAD before has been waited for. */
void jitc_cuda_copiers_post(jitc_cuda_copiers *c, void *to, const void *from, size_t bytes);
/** Copy what nobody does until piece n (0 was the first) is copied. */
void jitc_cuda_copiers_wait(jitc_cuda_copiers *c, size_t n);
/** Returns when all pieces are copied and the threads have ended. */
void jitc_cuda_copiers_end(jitc_cuda_copiers *c);
#endif
