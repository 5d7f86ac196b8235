/* exit.h: libraries that must not be at work while the process exits, or forks.
 * Layer: core.  May include: nothing.
 *
 * At exit the destructors of libraries run, under the threads that are still there. So whoever
 * works in such a library is counted, and the exit, by a function that was registered after the
 * library was opened and is therefore called before its destructors, waits for them and lets nobody
 * in. A fork waits for them too, since a child would find the library's locks and tables as they
 * were in the middle of that work; it lets them in again when it is over. */
#ifndef JITC_CORE_EXIT_H
#define JITC_CORE_EXIT_H
#include <stdatomic.h>
#include <stdbool.h>

/** Let the exit wait, from now on: call it when a library has been opened. Any thread. */
void jitc_exit_guard(void);
/** The same for what may register destructors each time, though mostly only at first: of the calls
 * counted in *times the first, second, fourth, eighth ... do it. */
void jitc_exit_guard_again(atomic_uint *times);
/** Before and after work in the library `who`, under no lock, and without calling user code in
 * between. Any thread. False, with JIT_UNAVAILABLE as the error, if the process exits. */
bool jitc_exit_enter(const char *who);
void jitc_exit_leave(void);
/** The same for work that an exit need not wait for, such as opening a library. */
void jitc_exit_enter_short(void);

/** Before and after calls of a driver, which are many and short, may wait for a device, and may be
 * made under locks: no fork waits for them, and an exit not for ever. Any thread; they nest. False
 * if the process exits by another thread: the driver is as good as gone. */
bool jitc_exit_enter_calls(void);
void jitc_exit_leave_calls(void);

/** Before fork(): wait until no other thread is inside, and let none in. */
void jitc_exit_fork_hold(void);
/** After it, in the parent. */
void jitc_exit_fork_release(void);
/** After it, in the child: only the calling thread is where it was. */
void jitc_exit_forked(void);
#endif
