#include "core/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Per thread, so that a chain of calls is checked once, by the thread that made it. */
static _Thread_local jitc_error thread_error;

#define X(tag, text) _Static_assert(JIT_##tag < 13, "ORDER errors: errors.def follows base.h");
#include "core/errors.def"

jit_status jitc_fail(jit_status status, const char *format, ...) {
    if (thread_error.status == JIT_OK) {
        va_list args;
        va_start(args, format);
        vsnprintf(thread_error.text, sizeof thread_error.text, format, args);
        va_end(args);
        thread_error.status = status;
    }
    return status;
}

void jitc_error_take(jitc_error *out) {
    *out = thread_error;
    jit_error_clear();
}

jit_status jitc_error_raise(const jitc_error *e) {
    return e->status == JIT_OK ? JIT_OK : jitc_fail(e->status, "%s", e->text);
}

void jitc_error_forgive(const jitc_error *taken) {
    jit_error_clear();
    jitc_error_raise(taken);
}

void jitc_error_restore(const jitc_error *taken) {
    if (taken->status != JIT_OK)
        jitc_error_forgive(taken);
}

void jitc_error_call(void (*function)(void *), void *context) {
    jitc_error before;
    bool failed = thread_error.status != JIT_OK;
    if (failed)
        jitc_error_take(&before);
    function(context);
    if (failed)
        jitc_error_restore(&before);
}

const char *jit_error(void) {
    return thread_error.text;
}

jit_status jit_error_status(void) {
    return thread_error.status;
}

void jit_error_clear(void) {
    thread_error.status = JIT_OK;
    thread_error.text[0] = 0;
}

const char *jit_status_name(jit_status status) {
    static const char *const name[] = {
#define X(tag, text) [JIT_##tag] = "JIT_" #tag,
#include "core/errors.def"
    };
    return (size_t) status < sizeof name / sizeof *name ? name[status] : "?";
}
