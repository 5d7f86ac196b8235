/* device.h: opened devices, their idle streams and their pool of memory.
 * Layer: device.  May include: core, ir. */
#ifndef JITC_DEVICE_DEVICE_H
#define JITC_DEVICE_DEVICE_H
#include "device/backend.h"

typedef struct jitc_device {
    jitc_backend *backend;
    int id;
    const jitc_options *options;
    jitc_mutex lock; /* guards what follows */
    jitc_stream *idle_streams;
    jitc_stream *ends;     /* nobody's: where foreign memory ends if no other stream is free */
    jitc_stream **streams; /* every stream ever made, for sync and destruction */
    size_t stream_count, stream_capacity;
    struct jitc_memory *memory; /* memory.c */
    struct jitc_lender *lender; /* lend.c */
} jitc_device;

/** Kernels run whole vectors: own arrays are allocated to a multiple of so many elements (of at
 * most 8 bytes), and may be read and written up to there. */
enum { JITC_PADDING_LANES = 64, JITC_PADDING = 512 };
static inline size_t jitc_padded(size_t elements) {
    return (elements + JITC_PADDING_LANES - 1) / JITC_PADDING_LANES * JITC_PADDING_LANES;
}

jit_status jitc_device_create(jitc_backend *b, int id, const jitc_options *o, jitc_device **out);
/** Waits for all streams, then frees streams and memory. */
void jitc_device_destroy(jitc_device *d);
/** A stream that was given back and whose work is over, or a new one. */
jit_status jitc_device_take_stream(jitc_device *d, jitc_stream **out);
/** Give a stream back. Work may still be queued on it and goes on; nothing is held back. */
void jitc_device_give_stream(jitc_device *d, jitc_stream *s);
/** The device's stream `ends`, made when it is first wanted. Nobody waits under its lock. */
jit_status jitc_device_end_stream(jitc_device *d, jitc_stream **out);
/** Wait on the CPU for everything queued on the device so far, by any thread. */
jit_status jitc_device_sync(jitc_device *d);

/* Around fork(). Holder of the runtime's lock. */
/** Before it: no other thread makes or gives streams, or is changing the memory's lists; on a
 * device of host memory none is queueing work either. */
void jitc_device_fork_hold(jitc_device *d);
void jitc_device_fork_release(jitc_device *d);
/** After it, in the child, instead of releasing. */
void jitc_device_forked(jitc_device *d);

typedef struct jitc_memory_stats {
    size_t live, cached, peak;
} jitc_memory_stats;
jitc_memory_stats jitc_device_memory(jitc_device *d);
/** Give cached blocks whose last use is over back to the system. */
void jitc_device_trim(jitc_device *d);
#endif
