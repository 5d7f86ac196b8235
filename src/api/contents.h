/* contents.h: what a variable is, and where its elements come from.
 * Layer: api.  May include: all layers. */
#ifndef JITC_API_CONTENTS_H
#define JITC_API_CONTENTS_H
#include "api/runtime.h"

typedef struct jitc_contents {
    jitc_var_info info;
    jitc_buffer *buffer; /* a reference; NULL: not in memory */
    bool counter;
} jitc_contents;

/** Under the graph's lock. The status for a dead handle is that of jitc_api_bad_handle(). */
jit_status jitc_contents_locked(jitc_graph *g, const char *function, jit_var v, jitc_contents *out);
#endif
