/* scope.h: functions composed of others: what they make on the way is given back at their end.
 * Layer: api.  May include: all layers. */
#ifndef JITC_API_SCOPE_H
#define JITC_API_SCOPE_H
#include "trace/graph.h"

/** From here to the end everything that the thread makes is a temporary. False if that cannot be:
 * then there is no end. */
static inline bool jitc_api_scope_begin(jitc_graph *g) {
    bool good = jitc_trace_scope_push(g) == JIT_OK;
    if (!good)
        jitc_trace_scope_pop(g, 0, NULL);
    return good;
}

/** Returns the result, which may be 0. */
static inline jit_var jitc_api_scope_end(jitc_graph *g, jit_var result) {
    jitc_trace_scope_pop(g, 1, &result);
    return result;
}
#endif
