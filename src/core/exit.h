/* exit.h: libraries that must not be at work while the process exits.
 * Layer: core.  May include: nothing.
 *
 * At exit the destructors of libraries run, under the threads that are still there. So whoever
 * works in such a library is counted, and the exit, by a function that was registered after the
 * library was opened and is therefore called before its destructors, waits for them and lets nobody
 * in. */
#ifndef JITC_CORE_EXIT_H
#define JITC_CORE_EXIT_H
#include <stdbool.h>

/** Let the exit wait, from now on: call it when a library has been opened. Any thread. */
void jitc_exit_guard(void);
/** Before and after work in the library `who`. Any thread. False, with JIT_UNAVAILABLE as the
 * error, if the process exits. */
bool jitc_exit_enter(const char *who);
void jitc_exit_leave(void);
#endif
