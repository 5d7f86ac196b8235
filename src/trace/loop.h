/* loop.h: recording loops and branches.  Layer: trace.  May include: core, ir, device.
 *
 *   loop     no operands; value = JITC_AUX_ONCE, JITC_LOOP_*, depth << 32
 *   phi      a = value at the start, b = loop; value = number of the state, JITC_STATE_ARRAY
 *   next     a = phi, b = its next value, c = the `next` before it, or the loop
 *   end      a = loop, b = condition, c = the last `next`; size: lanes of the loop
 *   result   a = end, b = phi; value = JITC_STATE_ARRAY
 *
 * In a branch that all lanes take (JITC_LOOP_ALWAYS) the phis are the values at the start, and the
 * results are the next values. A state whose value the body does not change has no `next`: its phi
 * is the value at the start. A state that is an array (JITC_STATE_ARRAY) is one that the body
 * scatters into: its next value is a chain of scatters that begins with its phi. None of these
 * nodes is found by its value. */
#ifndef JITC_TRACE_LOOP_H
#define JITC_TRACE_LOOP_H
#include "trace/graph.h"

/* Value of a `loop`, above JITC_AUX_*. */
#define JITC_LOOP_BESIDE ((uint64_t) 1 << 8) /* its lanes are not those of the branch before it */
#define JITC_LOOP_ALWAYS ((uint64_t) 1 << 9) /* a branch that all lanes take: there is no end */
#define JITC_LOOP_DEPTH  32                  /* bits above: loops that were open around it */
/* Value of a `phi` or `result`, above the number of the state. */
#define JITC_STATE_ARRAY ((uint64_t) 1 << 63)

/** A loop that is being recorded. It holds its nodes, and no reference of a user. */
typedef struct jitc_loop {
    struct jitc_loop *outer; /* the caller's */
    const char *function;    /* that began it, for messages */
    unsigned kind;           /* the caller's */
    bool once, beside;
    bool stepwise;      /* to be run one iteration at a time: see jitc_loop_step() */
    uint32_t depth;     /* loops that are open around it */
    uint32_t node;      /* 0: it is not open */
    uint32_t condition; /* 0: not told yet */
    uint32_t end;       /* stepwise: what has ended and can be run; 0: nothing */
    jit_backend backend;
    int device;
    size_t count;
    uint32_t *phi;
    uint8_t *fate; /* of each state, when it has ended (loop.c) */
} jitc_loop;

/** A loop of `count` states, not open yet. */
jit_status jitc_loop_create(size_t count, jitc_loop **out);
/** An open one is abandoned. */
void jitc_loop_destroy(jitc_graph *g, jitc_loop *l);

/** Replace state[0 ... count-1] by variables of the loop: new references; those that were there
 * stay the caller's. On failure the entries are 0. `function`, here and below, is for messages. */
jit_status jitc_loop_open(jitc_graph *g, const char *function, jitc_loop *l, jit_var *state);
/** What lanes have to fulfil to go on. */
jit_status jitc_loop_set_condition(jitc_graph *g, const char *function, jitc_loop *l, jit_var v);
/** Replace the next value of each state by its result: new references, as above. The loop is not
 * open any more, also after a failure. The last state of a stepwise loop is the caller's: false at
 * the start and true next, it tells in which lanes an iteration was run. */
jit_status jitc_loop_close(jitc_graph *g, const char *function, jitc_loop *l, size_t n,
                           jit_var *state);
/** A stepwise loop with an `end` is a branch that runs once, so its results are those of one
 * iteration. Evaluated they are the values at the start of the next one: replace them by its
 * results, new references, as above. */
jit_status jitc_loop_step(jitc_graph *g, jitc_loop *l, jit_var *state);
/** Close a branch and open it again for the lanes in which its condition is false: replaces the new
 * values by variables that start as they are there. On failure it is not open any more. */
jit_status jitc_loop_otherwise(jitc_graph *g, const char *function, jitc_loop *l, size_t n,
                               jit_var *state);
/** Release what it holds: it is not open any more. */
void jitc_loop_abandon_locked(jitc_graph *g, jitc_loop *l);
#endif
