/* loop.h: the loops and branches that a thread has open.
 * Layer: api.  May include: all layers.
 *
 * The pointers that users hold are looked up in the list of the calling thread, never followed:
 * what has ended, and what belongs to another thread, is not in there. The list changes under the
 * graph's lock only, because a forked child reads those of other threads. */
#ifndef JITC_API_LOOP_H
#define JITC_API_LOOP_H
#include "api/runtime.h"
#include "trace/loop.h"

typedef enum jitc_loop_kind {
    JITC_KIND_LOOP,
    JITC_KIND_IF,
    JITC_KIND_ELSE,
    JITC_KIND_CALL
} jitc_loop_kind;

/** Put a loop, which is not open yet, on the thread's list. */
void jitc_loop_enter(jitc_graph *g, jitc_thread *t, jitc_loop *l, jitc_loop_kind kind);
/** Take it off again. */
void jitc_loop_leave(jitc_graph *g, jitc_thread *t, jitc_loop *l);
/** Give up everything that was begun inside of `l` (NULL: all), then `l` too if `itself`. */
void jitc_loop_unwind(jitc_graph *g, jitc_thread *t, jitc_loop *l, bool itself);
/** Free the list of a thread whose graph has ended or is about to. */
void jitc_loop_free_all(jitc_thread *t);
#endif
