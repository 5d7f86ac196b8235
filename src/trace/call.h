/* call.h: branches that are chosen by an index: what jit_switch() has recorded becomes nodes.
 * Layer: trace.  May include: core, ir, device.
 *
 * Each callable is a branch with the arguments as its states. Results that are values go through a
 * state of their own from branch to branch, beginning with 0; an argument that one of them scatters
 * into goes through them as an array. */
#ifndef JITC_TRACE_CALL_H
#define JITC_TRACE_CALL_H
#include "trace/loop.h"

typedef struct jitc_calls {
    const char *function;    /* for messages */
    size_t n, args, results; /* callables, and of each */
    jitc_loop **branch;      /* n, open; their states are the arguments */
    uint32_t *value;         /* n * results nodes, held: what callable k gave, behind one another */
    uint64_t lanes;          /* of the index */
} jitc_calls;

/** The results, new references: n of `results`. Releases `value`; the branches stay the caller's.
 */
jit_status jitc_calls_close(jitc_graph *g, jitc_calls *c, jit_var *results);
#endif
