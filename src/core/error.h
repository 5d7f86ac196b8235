/* error.h: the calling thread's first error.  Layer: core.  May include: nothing. */
#ifndef JITC_CORE_ERROR_H
#define JITC_CORE_ERROR_H
#include <jit/base.h>

/** Record an error, unless the thread has one already (the deepest frame speaks first), and return
 *  `status`, so that `return jitc_fail(...)` is one line. Any thread. */
__attribute__((format(printf, 2, 3), cold)) jit_status jitc_fail(jit_status status,
                                                                 const char *format, ...);

/** An error moved out of a thread, to be raised again in another one. */
typedef struct jitc_error {
    jit_status status;
    char text[512];
} jitc_error;

/** Take the calling thread's error, which is cleared. */
void jitc_error_take(jitc_error *out);
/** Raise `e` in the calling thread; returns its status. */
jit_status jitc_error_raise(const jitc_error *e);
/** What was taken is the thread's first error again, whatever has failed since. If it was none,
 * what has failed since stays. */
void jitc_error_restore(const jitc_error *taken);
/** What was taken is the thread's error again; what has failed since was made up for, and is none.
 */
void jitc_error_forgive(const jitc_error *taken);

/** Call a function of the user's, which may use the library: if the thread has an error already, it
 * stays what it is. */
void jitc_error_call(void (*function)(void *context), void *context);

/** Return from the enclosing function with the status of `expression` unless it is JIT_OK. */
#define TRY(expression)                                                                            \
    do {                                                                                           \
        jit_status try_status_ = (expression);                                                     \
        if (__builtin_expect(try_status_ != JIT_OK, 0))                                            \
            return try_status_;                                                                    \
    } while (0)

/** As TRY, but go to `label` with the status in a local variable `status`. */
#define TRY_GOTO(expression, label)                                                                \
    do {                                                                                           \
        status = (expression);                                                                     \
        if (__builtin_expect(status != JIT_OK, 0))                                                 \
            goto label;                                                                            \
    } while (0)
#endif
