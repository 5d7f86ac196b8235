/* eval.h: the pipeline from variables to queued kernels.  Layer: api.  May include: all layers. */
#ifndef JITC_API_EVAL_H
#define JITC_API_EVAL_H
#include "api/runtime.h"

/** Evaluate what the thread has scheduled, and v unless it is 0; the list is empty afterwards. */
jit_status jitc_eval_thread(const char *function, jitc_thread *t, jit_var v, bool leaves);
#endif
