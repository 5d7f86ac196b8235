/* dlpack_request.h: what is asked of an export, and whether that can be.
 * Layer: api.  May include: all layers. */
#ifndef JITC_API_DLPACK_REQUEST_H
#define JITC_API_DLPACK_REQUEST_H
#include "api/contents.h"
#include "export/dlpack_out.h"
#include <jit/dlpack.h>

typedef struct jitc_export_request {
    const char *function;
    jitc_graph *graph;
    jitc_thread *thread;
    jit_var v;
    jit_export_options options;
    jitc_contents from; /* `buffer` also of a view */
    jitc_layout layout;
    bool planned; /* a kernel that will use its memory may be planned already */
    bool leaf;    /* a literal or counter: nobody has its memory */
    bool alone;   /* with its memory: a copy was made */
    bool to_host; /* of a GPU's array */
    jitc_tensor tensor;
    int64_t size; /* the shape, if there is none */
} jitc_export_request;

/** The variable as it is now; r->from.buffer is a reference, or NULL. */
jit_status jitc_request_look(jitc_export_request *r);
/** Look, and check everything: nothing has happened yet. options NULL: the defaults. */
jit_status jitc_request_read(jitc_export_request *r, const jit_export_options *options);
/** Once it is in memory: the flags, and in *copy whether that memory itself cannot be given. */
jit_status jitc_request_choose(jitc_export_request *r, bool *copy);
#endif
