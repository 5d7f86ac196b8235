/* event.h: events that users hold, around those of a backend.
 * Layer: api.  May include: all layers.
 *
 * A public event is in the runtime's list until the runtime or its owner ends it. Its word says who
 * still wants it: the owner, and calls that are inside. Who lets go last frees it; jit_shutdown()
 * marks it ended, waits for the calls inside, and takes the backend's event away. */
#ifndef JITC_API_EVENT_H
#define JITC_API_EVENT_H
#include "api/runtime.h"

/** A public event on the calling thread's device of `b`, around `native` (see event_create in
 * backend.h), or around a new one: NULL. */
jit_status jitc_event_adopt(jit_backend b, void *native, bool timed, jit_event **out);
/** The backend's event; it is there until jitc_event_let_go(). `function` is for the message.
 * JIT_INVALID_ARGUMENT for NULL; JIT_INVALID_HANDLE after jit_shutdown(): then do not let go. */
jit_status jitc_event_hold(const char *function, jit_event *e, jitc_event **out);
void jitc_event_let_go(jit_event *e);
/** End what all events stand for. No work is queued any more; devices and backends are still there.
 */
void jitc_event_end_all(void);
/** In the child after fork(): calls of other threads are not inside any more. */
void jitc_event_forked_locked(void) REQUIRES(&jitc_runtime.events_lock);
#endif
