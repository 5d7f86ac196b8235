#include "core/exit.h"
#include "core/error.h"
#include "core/sync.h"
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

/* There is one exit in a process: not something to pass in. */
static struct {
    atomic_int inside;
    atomic_int forking; /* threads that are about to fork */
    atomic_bool exiting;
} process;
static _Thread_local int own_inside; /* how often the thread is inside */
static _Thread_local bool own_exit;  /* it is the thread that ends the process */

/* Calls of drivers that are under way. Each thread counts in one place, so that those that launch
 * all the time do not wait for one another's line of the caches. */
enum { PLACES = 16, LONGEST_S = 2 };
static struct {
    _Alignas(64) atomic_int inside;
} calls[PLACES];
static atomic_uint next_place;
static _Thread_local unsigned own_place; /* 0: none yet */
static _Thread_local int own_calls;

/* Compilations take long: not worth a core. */
static void pause_thread(void) {
    nanosleep(&(struct timespec) {.tv_nsec = 50000}, NULL);
}

/* Who is inside already goes on: a fork waits for it. */
void jitc_exit_enter_short(void) {
    jitc_add_seq(&process.inside, 1); /* before the load; pairs with jitc_exit_fork_hold */
    while (jitc_load_seq(&process.forking) && !own_inside) {
        jitc_add_seq(&process.inside, -1);
        while (jitc_load_seq(&process.forking))
            pause_thread();
        jitc_add_seq(&process.inside, 1);
    }
    ++own_inside;
}

bool jitc_exit_enter(const char *who) {
    jitc_exit_enter_short(); /* before the load; pairs with wait_for_work */
    if (!jitc_load_seq(&process.exiting))
        return true;
    jitc_exit_leave();
    jitc_fail(JIT_UNAVAILABLE, "%s: the process is exiting", who);
    return false;
}

void jitc_exit_leave(void) {
    --own_inside;
    jitc_add_seq(&process.inside, -1);
}

bool jitc_exit_enter_calls(void) {
    if (__builtin_expect(!own_place, 0))
        own_place = 1 + jitc_add_relaxed(&next_place, 1u) % PLACES;
    jitc_add_seq(&calls[own_place - 1].inside, 1); /* before the load; pairs with wait_for_work */
    ++own_calls;
    if (__builtin_expect(!jitc_load_seq(&process.exiting), 1) || own_exit || own_calls > 1)
        return true;
    jitc_exit_leave_calls();
    return false;
}

void jitc_exit_leave_calls(void) {
    --own_calls;
    jitc_add_seq(&calls[own_place - 1].inside, -1);
}

static int64_t seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static bool has_calls(void) {
    int inside = 0;
    for (int i = 0; i < PLACES; ++i)
        inside += jitc_load_seq(&calls[i].inside);
    return inside > own_calls;
}

static void wait_for_work(void) {
    static int64_t until; /* of all that are registered, by the first one */
    own_exit = true;
    jitc_store_seq(&process.exiting, true); /* before the loads; pairs with who enters */
    while (jitc_load_seq(&process.inside) > own_inside) /* a library itself may end the process */
        sched_yield();
    until = until ? until : seconds() + LONGEST_S;
    while (has_calls() && seconds() <= until)
        pause_thread();
}

void jitc_exit_guard(void) {
    atexit(wait_for_work); /* for each library: once more does no harm */
}

void jitc_exit_guard_again(atomic_uint *times) {
    unsigned n = jitc_add_relaxed(times, 1u) + 1;
    if ((n & (n - 1)) == 0)
        jitc_exit_guard();
}

void jitc_exit_fork_hold(void) {
    jitc_add_seq(&process.forking, 1); /* before the load; pairs with jitc_exit_enter_short */
    while (jitc_load_seq(&process.inside) > own_inside)
        pause_thread();
}

void jitc_exit_fork_release(void) {
    jitc_add_seq(&process.forking, -1);
}

void jitc_exit_forked(void) {
    jitc_store_seq(&process.forking, 0);
    jitc_store_seq(&process.inside, own_inside);
    for (int i = 0; i < PLACES; ++i)
        jitc_store_seq(&calls[i].inside, 0);
    if (own_calls)
        jitc_store_seq(&calls[own_place - 1].inside, own_calls);
    jitc_store_seq(&process.exiting, own_exit); /* another thread's exit is none of the child's */
}
