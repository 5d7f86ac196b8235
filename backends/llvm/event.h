/* event.h: streams and events of the CPU backend.  Layer: llvm.  May include: core, ir, device.
 *
 * An event is a place: number n of a queue. To record it takes the number of the work queued last;
 * nothing is queued. */
#ifndef JITC_LLVM_EVENT_H
#define JITC_LLVM_EVENT_H
#include "device/backend.h"
#include "llvm/workers.h"

typedef struct jitc_llvm_stream {
    jitc_stream base;
    jitc_queue *queue;
} jitc_llvm_stream;

static inline jitc_queue *jitc_llvm_queue(jitc_stream *s) {
    return ((jitc_llvm_stream *) s)->queue; /* base is its first member */
}

jit_status jitc_llvm_event_create(jitc_pool *p, void *native, jitc_event **out);

/* The slots of the same names. */
void jitc_llvm_event_destroy(jitc_event *e);
jit_status jitc_llvm_event_record(jitc_event *e, jitc_stream *s);
jit_status jitc_llvm_event_done(jitc_event *e, bool *done);
jit_status jitc_llvm_event_wait(jitc_event *e);
jit_status jitc_llvm_event_stream_wait(jitc_stream *s, jitc_event *e);
jit_status jitc_llvm_event_elapsed(jitc_event *from, jitc_event *to, double *milliseconds);
#endif
