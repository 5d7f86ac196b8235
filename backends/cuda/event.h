/* event.h: events, and streams that others own.  Layer: cuda.  May include: core, ir, device.
 *
 * Each of these functions makes the device's context current and brings back the caller's. */
#ifndef JITC_CUDA_EVENT_H
#define JITC_CUDA_EVENT_H
#include "cuda/stream.h"

typedef struct jitc_cuda_event jitc_cuda_event;

/* event.c: see the slots of backend.h */

/** The context is current. */
jit_status jitc_cuda_event_create(jitc_cuda_device *d, bool timed, void *native, jitc_event **out);
void jitc_cuda_event_destroy(jitc_event *e);
jit_status jitc_cuda_event_record(jitc_event *e, jitc_cuda_stream *s);
/** On a device that has failed: true, and its failure. */
jit_status jitc_cuda_event_done(jitc_event *e, bool *done);
jit_status jitc_cuda_event_wait(jitc_event *e);
jit_status jitc_cuda_event_stream_wait(jitc_cuda_stream *s, jitc_event *e);
jit_status jitc_cuda_event_elapsed(jitc_event *from, jitc_event *to, double *milliseconds);
void *jitc_cuda_event_native(jitc_event *e);

/* foreign.c */

/** Work that is queued on `other` from now on comes after what is queued on s so far. */
jit_status jitc_cuda_sync_stream(jitc_cuda_stream *s, intptr_t other);
/** Work that is queued on s from now on comes after what is queued on `other` so far. */
jit_status jitc_cuda_wait_stream(jitc_cuda_stream *s, intptr_t other);
/** As the slots consumer_id, consumer_is_apart and consumer_mark. */
uint64_t jitc_cuda_consumer_id(jitc_cuda_device *d, intptr_t other);
bool jitc_cuda_consumer_is_apart(jitc_cuda_device *d, intptr_t other);
jit_status jitc_cuda_consumer_mark(jitc_cuda_stream *marks, intptr_t other, uint64_t *number);
#endif
