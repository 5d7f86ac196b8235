/* exit_work.h: what a process may be doing when it ends.  Layer: tests. */
#ifndef JITC_TESTS_EXIT_WORK_H
#define JITC_TESTS_EXIT_WORK_H
#include "support.h"
#include <pthread.h>

enum { SIZE = 200000, OPERATIONS = 1200, SHORT = 30 };

/** exit_child <what> <how> <wait_us>: what is going on ... */
enum { ALONE, BUSY, QUIET, ENDED };
/** ... and how the process ends: function, description. */
#define ENDINGS(X)                                                                                 \
    X(by_return, "return from main()")                                                             \
    X(by_exit, "exit")                                                                             \
    X(by_thread, "exit in another thread")                                                         \
    X(after_main_thread, "exit after the end of the first thread")                                 \
    X(quickly, "quick_exit")                                                                       \
    X(quickly_by_thread, "quick_exit in another thread")                                           \
    X(at_once, "_exit")                                                                            \
    X(by_two, "exit and _exit at the same time")

jit_var work_zeros(size_t n);
/** A chain of so many operations; takes v. */
jit_var work_compute(jit_var v, int operations);
/** Leave behind one of each: variables, scheduled and not, an event, memory of others. Returns the
 * event. */
jit_event *work_leave_things(void);
pthread_t work_start(void *(*function)(void *), void *context);
/** context not NULL: but for the event. */
void *work_leave_and_end(void *context);
#endif
