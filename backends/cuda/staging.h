/* staging.h: pinned host memory of a device, through which copies from and to other host memory go.
 * Layer: cuda.  May include: core.
 *
 *   slab    what the driver is asked for: a few of them, ever larger, up to the option pinned_limit
 *   chunk   a piece of one; a copy has it, or a stream for its small uploads, or it lies in the
 * list behind its last use
 *
 * Pinning costs a millisecond, and unpinning waits for everything that the device does: so all
 * streams share the chunks, and they stay until the device is given up. */
#ifndef JITC_CUDA_STAGING_H
#define JITC_CUDA_STAGING_H
#include "core/error.h"
#include "core/sync.h"
#include <stddef.h>

enum { JITC_CUDA_CHUNK = 1 << 19 /* bytes: 75 us to fill, 10 us to transfer */ };

/** Whoever has it may write it. */
typedef struct jitc_cuda_chunk {
    char *pointer;
    size_t used;                     /* by small uploads of the stream that has it */
    struct jitc_cuda_stream *stream; /* of its last use; NULL: it is over */
    uint64_t number;                 /* of that */
    struct jitc_cuda_chunk *next;
} jitc_cuda_chunk;

typedef struct jitc_cuda_slab jitc_cuda_slab;

typedef struct jitc_cuda_staging {
    jitc_mutex lock;               /* guards what follows */
    jitc_cuda_chunk *first, *last; /* that nobody has, the oldest use first */
    jitc_cuda_slab *slabs;
    size_t bytes;   /* of all slabs */
    unsigned pause; /* calls until more is asked for again, as there was none */
} jitc_cuda_staging;

struct jitc_cuda_device;

/** All streams have been destroyed. `there`: the context is. The lock is the device's to end. */
void jitc_cuda_staging_finish(struct jitc_cuda_device *d, bool there);
/** A chunk whose last use is over. NULL, with JIT_OK, if there is none: copy without. `wait`: even
 *  if one has to be waited for. The context is current. JIT_DEVICE_FAILED. */
jit_status jitc_cuda_chunk_take(struct jitc_cuda_device *d, bool wait, jitc_cuda_chunk **out);
/** Give it back; `stream` uses it until its work `number` is done, or is NULL. */
void jitc_cuda_chunk_give(struct jitc_cuda_device *d, jitc_cuda_chunk *c,
                          struct jitc_cuda_stream *stream, uint64_t number);
/** The stream, which is idle, ends. */
void jitc_cuda_staging_forget(struct jitc_cuda_stream *s);
#endif
