/* by_hand.h: the pipeline as a CUDA program without this library does it.
 * Layer: benchmarks. May include: nothing of the library. */
#ifndef BENCH_SYNC_BY_HAND_H
#define BENCH_SYNC_BY_HAND_H
#include "sync_modes/work.h"

enum { SYNC_DEPTH = 4 }; /* buffers in flight */

/* One thread's producer: a stream as this library makes it, an event, buffers. */
typedef struct by_hand {
    const sync_gpu *gpu;
    void *stream, *produced;
    cuda_address start, between, buffers[SYNC_DEPTH];
} by_hand;

/* Make everything, in the context that is current. False, after a message, on failure;
 * by_hand_finish() is right then, too. */
bool by_hand_init(by_hand *h, const sync_gpu *g);
void by_hand_finish(by_hand *h);
/* Queue the production of step `tag` into buffer `slot`, after `consumed` where that is not NULL.
 */
bool by_hand_produce(by_hand *h, const sync_work *w, unsigned slot, void *consumed, double tag);
/* Let `consumer` wait for what was produced. */
bool by_hand_order(by_hand *h, void *consumer);

#endif
