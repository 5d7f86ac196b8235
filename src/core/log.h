/* log.h: messages for the user.  Layer: core.  May include: core. */
#ifndef JITC_CORE_LOG_H
#define JITC_CORE_LOG_H
#include <jit/base.h>

typedef enum jitc_log_level {
    JITC_LOG_ERROR,
    JITC_LOG_WARN,
    JITC_LOG_INFO,
    JITC_LOG_DEBUG
} jitc_log_level;

typedef void (*jitc_log_callback)(void *context, int level, const char *text);

/** Give messages up to `level` to `callback`; NULL: to stderr. Any thread; the callback may be
 *  called from any thread and never under a lock of the library. */
void jitc_log_set(jitc_log_callback callback, void *context, int level);
/** Change the level only. */
void jitc_log_set_level(int level);
/** Before fork(): keep others out; and after it, in parent and child: let them in. */
void jitc_log_fork_hold(void);
void jitc_log_fork_release(void);
/** Write one message. Call it under no lock. */
__attribute__((format(printf, 2, 3))) void jitc_log(jitc_log_level level, const char *format, ...);
#endif
