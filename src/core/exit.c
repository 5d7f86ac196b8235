#include "core/exit.h"
#include "core/error.h"
#include "core/sync.h"
#include <stdlib.h>

/* There is one exit in a process: not something to pass in. */
static struct {
    atomic_int inside;
    atomic_bool exiting;
} process;
static _Thread_local int own_inside; /* how often the thread is inside */

bool jitc_exit_enter(const char *who) {
    jitc_add_seq(&process.inside, 1); /* before the load; pairs with wait_for_work */
    if (!jitc_load_seq(&process.exiting)) {
        ++own_inside;
        return true;
    }
    jitc_add_seq(&process.inside, -1);
    jitc_fail(JIT_UNAVAILABLE, "%s: the process is exiting", who);
    return false;
}

void jitc_exit_leave(void) {
    --own_inside;
    jitc_add_seq(&process.inside, -1);
}

static void wait_for_work(void) {
    jitc_store_seq(&process.exiting, true); /* before the load; pairs with jitc_exit_enter */
    while (jitc_load_seq(&process.inside) > own_inside) /* a library itself may end the process */
        sched_yield();
}

void jitc_exit_guard(void) {
    atexit(wait_for_work); /* for each library: once more does no harm */
}
