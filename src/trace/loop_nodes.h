/* loop_nodes.h: what loop.c and call.c share.  Layer: trace.  Private to trace. Under the graph's
 * lock but for jitc_loop_give(). */
#ifndef JITC_TRACE_LOOP_NODES_H
#define JITC_TRACE_LOOP_NODES_H
#include "trace/loop.h"
#include "trace/private.h"

typedef struct jitc_loop_spec {
    jitc_op op;
    jit_dtype type;
    uint64_t size;
    uint32_t a, b, c;
    uint64_t bits;
} jitc_loop_spec;

/** A node on the loop's backend and device that nobody finds; 0 after jitc_fail(). */
uint32_t jitc_loop_node(jitc_graph *g, const jitc_loop *l, const jitc_loop_spec *s);
/** Release node *i, which was held; 0 is ignored. */
void jitc_loop_let_go(jitc_graph *g, uint32_t *i);
/** Sizes broadcast: 1 gives way. False: they do not fit. */
bool jitc_loop_join(uint64_t *size, uint64_t other);
/** Is it a branch that all lanes take, as far as is known? */
bool jitc_loop_is_always(const jitc_graph *g, const jitc_loop *l);
/** The value that node i is, which may be a variable of such a branch that has ended. */
uint32_t jitc_loop_resolved(const jitc_graph *g, uint32_t i);
/** A phi starts as node `start` from now on: it may, since nobody finds it by its value. */
void jitc_loop_start_from(jitc_graph *g, uint32_t phi, uint32_t start);
/** Does a phi start as a state of what is around? */
bool jitc_loop_is_state(const jitc_graph *g, uint32_t phi);
/** The array that a chain of scatters starts from, also through loops inside; *lanes: with those of
 * the scatters; *fits: they can be joined. A value that is no such chain is itself. */
uint32_t jitc_loop_chain_start(const jitc_graph *g, uint32_t i, uint64_t *lanes, bool *fits);
/** New references to n nodes, which somebody holds, for the caller or the scope; all or none. Not
 * under the lock. */
jit_status jitc_loop_give(jitc_graph *g, size_t n, const uint32_t *nodes, jit_var *out);
#endif
