#include "api/runtime.h"
#include "api/backends.h"
#include "api/event.h"
#include "api/fork.h"
#include "core/log.h"
#include <stdio.h>

jit_runtime jitc_runtime = {
    .lock = {PTHREAD_MUTEX_INITIALIZER},
    .settle_lock = {PTHREAD_MUTEX_INITIALIZER},
    .settle = PTHREAD_COND_INITIALIZER,
    .left = PTHREAD_COND_INITIALIZER,
    .events_lock = {PTHREAD_MUTEX_INITIALIZER},
    .events_left = PTHREAD_COND_INITIALIZER,
};

jit_status jitc_api_not_started(const char *function) {
    return jitc_fail(JIT_NOT_INITIALIZED, "%s: call jit_init() first", function);
}

static jit_status read_options(void) {
    jitc_mutex_lock(&jitc_runtime.lock);
    jit_status status = jitc_fork_install_locked();
    bool first = !jitc_runtime.options_read;
    if (first) {
        jitc_options_init(&jitc_runtime.options);
        jitc_runtime.options_read = true;
        if (jitc_runtime.options.log_level != JITC_LOG_WARN) /* jit_set_log() may have been first */
            jitc_log_set_level((int) jitc_runtime.options.log_level);
    }
    jitc_mutex_unlock(&jitc_runtime.lock);
    if (first)
        jitc_options_check_environment();
    return status;
}

static jit_status start_backend_locked(jit_backend id) REQUIRES(&jitc_runtime.lock) {
    jitc_started *s = &jitc_runtime.started[jitc_backend_index(id)];
    if (s->backend)
        return JIT_OK;
    jitc_backend *b;
    TRY(jitc_api_create_backend(id, &jitc_runtime.options, &b));
    jit_status status = b->device_count(b, &s->devices);
    if (status != JIT_OK) {
        b->destroy(b);
        return status;
    }
    if (s->devices > JITC_MAX_DEVICES)
        s->devices = JITC_MAX_DEVICES;
    s->backend = b;
    return JIT_OK;
}

/* Starts those of the set that are there; why others are not: the texts one after the other, and
 * JIT_UNAVAILABLE or what went wrong otherwise. */
static unsigned start_backends_locked(unsigned backends, jitc_error *why)
    REQUIRES(&jitc_runtime.lock) {
    unsigned there = 0;
    size_t length = 0;
    for (unsigned id = JIT_CUDA; id <= JIT_LLVM; id <<= 1) {
        jitc_error error;
        if (!(backends & id))
            continue;
        if (start_backend_locked((jit_backend) id) == JIT_OK) {
            there |= id;
            continue;
        }
        jitc_error_take(&error);
        if (error.status != JIT_UNAVAILABLE)
            why->status = error.status;
        if (length < sizeof why->text)
            length += (size_t) snprintf(why->text + length, sizeof why->text - length, "%s%s",
                                        length ? "; " : "", error.text);
    }
    return there;
}

/* What a runtime owned: taken out under the lock, ended outside of it, since releases of foreign
 * memory are user code. */
typedef struct remains {
    jitc_graph *graph;
    jitc_cache *cache;
    jitc_backend *backend[JITC_BACKENDS];
    jitc_device *device[JITC_BACKENDS * JITC_MAX_DEVICES];
    size_t devices;
    jitc_thread *orphans;
} remains;

static void take_remains_locked(remains *r) REQUIRES(&jitc_runtime.lock) {
    while (jitc_runtime.leaving)
        jitc_cond_wait(&jitc_runtime.left, &jitc_runtime.lock);
    *r = (remains) {.graph = jitc_load_acquire(&jitc_runtime.graph),
                    .cache = jitc_runtime.cache,
                    .orphans = jitc_runtime.orphans};
    jitc_store_release(&jitc_runtime.graph, NULL);
    jitc_runtime.cache = NULL;
    jitc_api_forget_devices_locked();
    for (int b = 0; b < JITC_BACKENDS; ++b) {
        jitc_started *s = &jitc_runtime.started[b];
        for (int d = 0; d < s->devices; ++d) {
            jitc_device *device = jitc_load_acquire(&s->device[d]);
            if (device)
                r->device[r->devices++] = device;
            jitc_store_relaxed(&s->device[d], NULL);
        }
        r->backend[b] = s->backend;
        s->backend = NULL;
        s->devices = 0;
    }
}

static void end_remains(remains *r) {
    for (size_t i = 0; i < r->devices; ++i)
        jitc_device_sync(r->device[i]);
    if (r->graph) /* there is nothing left of a runtime that goes on */
        jitc_event_end_all();
    jitc_thread_end_orphans(r->orphans, r->graph);
    jitc_graph_destroy(r->graph);
    jitc_cache_destroy(r->cache);
    for (size_t i = 0; i < r->devices; ++i)
        jitc_device_destroy(r->device[i]);
    for (int b = 0; b < JITC_BACKENDS; ++b)
        if (r->backend[b])
            r->backend[b]->destroy(r->backend[b]);
}

/* *why: what of the set is not there; its text is empty if all is. */
static jit_status start_locked(unsigned backends, jitc_error *why) REQUIRES(&jitc_runtime.lock) {
    jitc_error before;
    jitc_error_take(&before); /* a backend that is not there is no error if another one is */
    unsigned there = start_backends_locked(backends, why);
    jitc_error_raise(&before);
    if (!there)
        return jitc_fail(why->status, "%s", why->text);
    if (!jitc_runtime.cache)
        TRY(jitc_cache_create(&jitc_runtime.options, &jitc_runtime.cache));
    if (!jitc_load_acquire(&jitc_runtime.graph)) {
        jitc_graph *g;
        TRY(jitc_graph_create(&g));
        jitc_store_relaxed(&jitc_runtime.counters.evaluations, 0);
        jitc_store_relaxed(&jitc_runtime.counters.launches, 0);
        jitc_store_release(&jitc_runtime.graph, g); /* pairs with jitc_api_graph */
    }
    return JIT_OK;
}

jit_status jit_init(unsigned backends) {
    remains r = {0};
    if (!backends || (backends & ~(unsigned) (JIT_CUDA | JIT_LLVM)))
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_init: backends is %u; give JIT_LLVM, JIT_CUDA or both", backends);
    jitc_error why = {.status = JIT_UNAVAILABLE};
    TRY(read_options());
    jitc_mutex_lock(&jitc_runtime.lock);
    jit_status status = start_locked(backends, &why);
    if (status == JIT_OK)
        ++jitc_runtime.starts;
    else if (!jitc_runtime.starts)
        take_remains_locked(&r);
    jitc_mutex_unlock(&jitc_runtime.lock);
    end_remains(&r);
    if (status == JIT_OK && *why.text)
        jitc_log(JITC_LOG_INFO, "%s", why.text);
    return status;
}

void jit_shutdown(void) {
    remains r = {0};
    jitc_mutex_lock(&jitc_runtime.lock);
    if (jitc_runtime.starts && --jitc_runtime.starts == 0)
        take_remains_locked(&r);
    jitc_mutex_unlock(&jitc_runtime.lock);
    end_remains(&r);
}

bool jit_has_backend(jit_backend backend) {
    int i = jitc_backend_index(backend);
    return i >= 0 && jitc_load_acquire(&jitc_runtime.graph) && jitc_runtime.started[i].backend;
}

int jit_device_count(jit_backend backend) {
    return jit_has_backend(backend) ? jitc_runtime.started[jitc_backend_index(backend)].devices : 0;
}

jit_status jitc_api_backend(const char *function, jit_backend b, jitc_started **out) {
    int i = jitc_backend_index(b);
    if (!jitc_api_graph(function))
        return JIT_NOT_INITIALIZED;
    if (i < 0)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %d is no backend; use JIT_LLVM or JIT_CUDA",
                         function, (int) b);
    if (!jitc_runtime.started[i].backend)
        return jitc_fail(JIT_UNAVAILABLE,
                         "%s: the %s backend was not started; see jit_has_backend()", function,
                         jitc_api_backend_name(b));
    *out = &jitc_runtime.started[i];
    return JIT_OK;
}

jit_status jit_set_device(jit_backend backend, int device) {
    jitc_thread *t;
    jitc_started *s = NULL;
    TRY(jitc_api_backend("jit_set_device", backend, &s));
    if (device < 0 || device >= s->devices)
        return jitc_fail(JIT_INVALID_ARGUMENT,
                         "jit_set_device: there is no device %d; the %s backend has %d", device,
                         jitc_api_backend_name(backend), s->devices);
    TRY(jitc_api_thread(&t));
    t->current[jitc_backend_index(backend)] = device;
    return JIT_OK;
}

int jit_device(jit_backend backend) {
    jitc_thread *t;
    if (!jit_has_backend(backend) || jitc_api_thread(&t) != JIT_OK)
        return -1;
    return t->current[jitc_backend_index(backend)];
}

jit_status jit_set_option(const char *name, const char *value) {
    if (!name || !value)
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_set_option: name and value must not be NULL");
    TRY(read_options());
    jitc_mutex_lock(&jitc_runtime.lock);
    int64_t level = jitc_runtime.options.log_level;
    jit_status status = jitc_options_set(&jitc_runtime.options, name, value);
    if (jitc_runtime.options.log_level != level)
        jitc_log_set_level((int) jitc_runtime.options.log_level);
    jitc_mutex_unlock(&jitc_runtime.lock);
    return status;
}

jit_status jit_get_option(const char *name, char *text, size_t size) {
    if (!name || (!text && size))
        return jitc_fail(JIT_INVALID_ARGUMENT, "jit_get_option: name and text must not be NULL");
    TRY(read_options());
    jitc_mutex_lock(&jitc_runtime.lock);
    jit_status status = jitc_options_get(&jitc_runtime.options, name, text, size);
    jitc_mutex_unlock(&jitc_runtime.lock);
    return status;
}

void jit_set_log(void (*callback)(void *context, int level, const char *text), void *context,
                 int level) {
    jitc_log_set(callback, context, level);
}
