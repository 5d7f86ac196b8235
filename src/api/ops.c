/* ops.c: the operations of ops.h, one function for each row of ops.def.
 * Layer: api.  May include: all layers. */
#include "api/runtime.h"
#include "trace/graph.h"
#include <jit/ops.h>

#define DEFINE_UNARY(name)                                                                         \
    jit_var jit_##name(jit_var a) {                                                                \
        jitc_graph *g = jitc_api_graph("jit_" #name);                                              \
        return g ? jitc_trace_unary(g, JITC_OP_##name, a) : 0;                                     \
    }
#define DEFINE_BINARY(name)                                                                        \
    jit_var jit_##name(jit_var a, jit_var b) {                                                     \
        jitc_graph *g = jitc_api_graph("jit_" #name);                                              \
        return g ? jitc_trace_binary(g, JITC_OP_##name, a, b) : 0;                                 \
    }
#define DEFINE_TERNARY(name)                                                                       \
    jit_var jit_##name(jit_var a, jit_var b, jit_var c) {                                          \
        jitc_graph *g = jitc_api_graph("jit_" #name);                                              \
        return g ? jitc_trace_ternary(g, JITC_OP_##name, a, b, c) : 0;                             \
    }
#define DEFINE_SELECT(name) DEFINE_TERNARY(name)

#define OP(name, form, ...) JITC_IF_ELEMENTWISE_##form(DEFINE_##form(name))
#include "ir/ops.def"
