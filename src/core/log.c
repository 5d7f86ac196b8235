#include "core/log.h"
#include "core/sync.h"
#include <stdarg.h>
#include <stdio.h>

/* Messages come from every layer and also before jit_init(): the one setting that is not passed in.
 */
static struct {
    jitc_mutex lock;
    jitc_log_callback callback;
    void *context;
    int level;
} sink = {.lock = {PTHREAD_MUTEX_INITIALIZER}, .level = JITC_LOG_WARN};

void jitc_log_set(jitc_log_callback callback, void *context, int level) {
    jitc_mutex_lock(&sink.lock);
    sink.callback = callback;
    sink.context = context;
    sink.level = level;
    jitc_mutex_unlock(&sink.lock);
}

void jitc_log_set_level(int level) {
    jitc_mutex_lock(&sink.lock);
    sink.level = level;
    jitc_mutex_unlock(&sink.lock);
}

void jitc_log_fork_hold(void) UNCHECKED_LOCKING {
    jitc_mutex_lock(&sink.lock);
}

void jitc_log_fork_release(void) UNCHECKED_LOCKING {
    jitc_mutex_unlock(&sink.lock);
}

static const char *level_name(jitc_log_level level) {
    static const char *const name[] = {"error", "warning", "info", "debug"};
    return (unsigned) level <= JITC_LOG_DEBUG ? name[level] : "debug";
}

void jitc_log(jitc_log_level level, const char *format, ...) {
    jitc_mutex_lock(&sink.lock);
    jitc_log_callback callback = sink.callback;
    void *context = sink.context;
    bool wanted = (int) level <= sink.level;
    jitc_mutex_unlock(&sink.lock);
    if (!wanted)
        return;
    char text[2048];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (callback)
        callback(context, (int) level, text);
    else
        fprintf(stderr, "jitc: %s: %s\n", level_name(level), text);
}
