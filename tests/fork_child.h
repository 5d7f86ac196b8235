/* fork_child.h: children of fork() that use the library, and what they are given.  Layer: tests.
 *
 * Children report by their exit status: Criterion's asserts do not work there. What forks beside
 * threads that allocate memory is left out under AddressSanitizer, and all under ThreadSanitizer,
 * which does not support threads in such children (sanitizer.h); both run in the builds without. */
#ifndef JITC_TESTS_FORK_CHILD_H
#define JITC_TESTS_FORK_CHILD_H
#include "sanitizer.h"
#include "support.h"
#include <stdio.h>
#include <sys/types.h>

enum { SIZE = 3000, LONG = 400000, FINE = 0, HANGS = -1 };

/* In a child: leave it, with the line as its status, unless the condition holds. */
#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(2, "child: %s:%d: %s: %s\n", __FILE__, __LINE__, #condition, jit_error());     \
            return __LINE__ % 250 + 1;                                                             \
        }                                                                                          \
    } while (0)

/** The exit status of a child, 1000 + a signal, or HANGS: then it has been killed. */
int fork_status(pid_t child);
/** That of a child which calls function(context). */
int fork_run(int (*function)(void *), void *context);
#define ASSERT_CHILD(function, context) cr_assert_eq(fork_run((function), (context)), FINE)

/** support_init(), without a cache on disk. Skips the test under ThreadSanitizer. */
void fork_begin(void);
/** Skips the test of another backend. */
void fork_need_cpu(void);
/** Have all elements this value? */
bool fork_all_are(jit_var v, uint32_t expected);
/** A function of x; each k is another kernel. */
jit_var fork_compute(jit_var x, unsigned k);
/** n times 1, in memory. */
jit_var fork_ones(jit_backend b, size_t n);
/** n times 2, a literal. */
jit_var fork_twos(jit_backend b, size_t n);
/** For a child: everything that can be done on the CPU; returns what NEED() does. Ends the runtime.
 * `x`: SIZE ones, on the CPU. */
int fork_use_everything(jit_var x);
#endif
