/* memory.h: the cache of device memory blocks, reused in stream order.
 * Layer: device.  May include: core, ir.
 *
 * Blocks come in size classes, eight to an octave, so that at most one ninth of a block is wasted,
 * and one 33rd from 32 MiB up. A buffer that was given up keeps its record of uses and waits in a
 * list of its class: the next owner's stream waits, on the device, for what is not done yet. */
#ifndef JITC_DEVICE_MEMORY_H
#define JITC_DEVICE_MEMORY_H
#include "device/buffer.h"

typedef struct jitc_memory jitc_memory;

jit_status jitc_memory_create(jitc_device *d, jitc_memory **out);
/** Frees the cached blocks; all work of the device is done. */
void jitc_memory_destroy(jitc_memory *m);
/** A buffer from the cache, or a new one; see jitc_buffer_create(). */
jit_status jitc_memory_take(jitc_memory *m, jitc_stream *stream, size_t bytes, jitc_buffer **out);
/** Keep the block of a buffer that nobody holds any more. Never waits, never fails. */
void jitc_memory_give(jitc_memory *m, jitc_buffer *b);
/** Around fork(): nobody else is changing the lists. */
void jitc_memory_fork_hold(jitc_memory *m);
void jitc_memory_fork_release(jitc_memory *m);
#endif
