/* fork.h: what a fork() of the process does to the runtime.  Layer: api.  May include: all layers.
 */
#ifndef JITC_API_FORK_H
#define JITC_API_FORK_H
#include "api/runtime.h"

/** Take part in forks from now on. JIT_OUT_OF_MEMORY. */
jit_status jitc_fork_install_locked(void) REQUIRES(&jitc_runtime.lock);
#endif
