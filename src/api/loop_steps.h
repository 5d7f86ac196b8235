/* loop_steps.h: loops that run one iteration at a time (the option loop_steps).
 * Layer: api.  May include: all layers. */
#ifndef JITC_API_LOOP_STEPS_H
#define JITC_API_LOOP_STEPS_H
#include "api/loop.h"

/** jitc_loop_open() for n states of the user's. */
jit_status jitc_loop_steps_open(jitc_graph *g, const char *function, jitc_loop *l, size_t n,
                                jit_var *state);
/** End the loop, and run it: as jitc_loop_close(), but the results are evaluated. It is taken off
 * the thread's list and destroyed, also after a failure. */
jit_status jitc_loop_steps_run(jitc_graph *g, const char *function, jitc_thread *t, jitc_loop *l,
                               size_t n, jit_var *state);
#endif
