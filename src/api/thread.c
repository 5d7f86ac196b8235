/* thread.c: what each thread keeps of the runtime.
 *
 * The record is reached through thread-local storage and freed by the destructor of a pthread key.
 * Its streams go back to their devices with work still queued: numbers on a stream stay good. */
#include "api/loop.h"
#include "device/lend.h"
#include <stdlib.h>

typedef struct thread_key {
    pthread_once_t once;
    pthread_key_t key;
} thread_key;

static thread_key record = {.once = PTHREAD_ONCE_INIT};
static _Thread_local jitc_thread *current;
static _Thread_local bool leaving; /* the thread is counted by jitc_runtime.leaving */

static void give_streams_locked(jitc_thread *t) REQUIRES(&jitc_runtime.lock) {
    for (int b = 0; b < JITC_BACKENDS; ++b)
        for (int d = 0; d < JITC_MAX_DEVICES; ++d) {
            jitc_thread_state *s = &t->state[b][d];
            if (s->device)
                jitc_device_give_stream(s->device, s->stream);
            *s = (jitc_thread_state) {0};
        }
}

/* The list is empty before user code runs or the lock is let go: see jitc_thread_forked_locked().
 */
static void release_scheduled_locked(jitc_thread *t, jitc_graph *g) {
    for (size_t i = 0; i < t->scheduled_count; ++i)
        jitc_graph_release_locked(g, t->scheduled[i]);
    t->scheduled_count = 0;
}

static void release_scheduled(jitc_thread *t) {
    jitc_graph *g = jitc_load_acquire(&jitc_runtime.graph); /* pairs with jit_init */
    while (g && t->scheduled_count) { /* again if user code has scheduled more */
        jitc_graph_lock(g);
        release_scheduled_locked(t, g);
        jitc_graph_unlock(g);
    }
    t->scheduled_count = 0;
}

/* Loops that it has not ended. */
static void release_loops(jitc_thread *t) {
    jitc_graph *g = jitc_load_acquire(&jitc_runtime.graph); /* pairs with jit_init */
    if (g)
        jitc_loop_unwind(g, t, NULL, false);
    jitc_loop_free_all(t);
}

static void free_record(jitc_thread *t) {
    jitc_plan_finish(&t->plan);
    free(t->scheduled);
    free(t->params);
    free(t->access);
    free(t->programs);
    free(t->kernels);
    free(t);
}

static void unlist_locked(jitc_thread *t) REQUIRES(&jitc_runtime.lock) {
    *(t->previous ? &t->previous->next : &jitc_runtime.threads) = t->next;
    if (t->next)
        t->next->previous = t->previous;
}

/* The lock is not held while the list is released: that may run user code. Until it is, a shutdown
 * waits. */
static void end_thread(void *p) {
    jitc_thread *t = p;
    jitc_mutex_lock(&jitc_runtime.lock);
    ++jitc_runtime.leaving;
    leaving = true;
    jitc_mutex_unlock(&jitc_runtime.lock);
    release_scheduled(t);
    release_loops(t);
    jitc_mutex_lock(&jitc_runtime.lock);
    leaving = false;
    if (--jitc_runtime.leaving == 0)
        pthread_cond_broadcast(&jitc_runtime.left);
    give_streams_locked(t);
    unlist_locked(t);
    jitc_mutex_unlock(&jitc_runtime.lock);
    free_record(t);
    current = NULL;
}

static void make_key(void) {
    pthread_key_create(&record.key, end_thread);
}

static jit_status make_record(void) {
    void *p = NULL;
    pthread_once(&record.once, make_key);
    TRY(jitc_calloc(1, sizeof(jitc_thread), &p));
    jitc_thread *t = p;
    if (pthread_setspecific(record.key, t) != 0) {
        free(t);
        return jitc_fail(JIT_OUT_OF_MEMORY, "host memory: no thread-specific data is left");
    }
    jitc_mutex_lock(&jitc_runtime.lock);
    t->next = jitc_runtime.threads;
    if (t->next)
        t->next->previous = t;
    jitc_runtime.threads = t;
    jitc_mutex_unlock(&jitc_runtime.lock);
    current = t;
    return JIT_OK;
}

jit_status jitc_api_thread(jitc_thread **out) {
    if (__builtin_expect(!current, 0))
        TRY(make_record());
    *out = current;
    return JIT_OK;
}

/* Open a device, once for all threads. */
static jit_status open_device(jitc_started *s, int id, jitc_device **out) {
    jit_status status = JIT_OK;
    *out = jitc_load_acquire(&s->device[id]); /* pairs with the store below */
    if (*out)
        return JIT_OK;
    jitc_mutex_lock(&jitc_runtime.lock);
    *out = jitc_load_acquire(&s->device[id]);
    if (!*out) {
        status = jitc_device_create(s->backend, id, &jitc_runtime.options, out);
        if (status == JIT_OK)
            jitc_store_release(&s->device[id], *out); /* pairs with the load above */
    }
    jitc_mutex_unlock(&jitc_runtime.lock);
    return status;
}

jit_status jitc_api_state(jitc_thread *t, jit_backend b, int device, jitc_thread_state **out) {
    int index = jitc_backend_index(b);
    jitc_thread_state *s = &t->state[index][device];
    if (__builtin_expect(!s->device, 0)) {
        jitc_device *opened;
        TRY(open_device(&jitc_runtime.started[index], device, &opened));
        TRY(jitc_device_take_stream(opened, &s->stream));
        s->device = opened;
        if (t->used[index] <= device)
            t->used[index] = device + 1;
    }
    *out = s;
    return JIT_OK;
}

void jitc_api_collect(jitc_thread *t) {
    if (t->evaluating || t->collecting)
        return;
    t->collecting = true;
    for (int b = 0; b < JITC_BACKENDS; ++b)
        for (int d = 0; d < t->used[b]; ++d)
            if (t->state[b][d].device)
                jitc_lend_collect(t->state[b][d].device);
    t->collecting = false;
}

jit_status jitc_api_sync_thread(jitc_thread *t) {
    jit_status status = JIT_OK;
    for (int b = 0; b < JITC_BACKENDS; ++b)
        for (int d = 0; d < t->used[b]; ++d) {
            jitc_stream *s = t->state[b][d].stream;
            if (!s)
                continue;
            jit_status one = s->backend->wait(s, jitc_load_acquire(&s->queued)); /* pairs with */
            if (status == JIT_OK) /* who queues; others are waited for although one has failed */
                status = one;
        }
    return status;
}

void jitc_api_forget_devices_locked(void) {
    for (jitc_thread *t = jitc_runtime.threads; t; t = t->next) {
        t->scheduled_count = 0; /* the graph goes with its nodes */
        jitc_loop_free_all(t);
        for (int b = 0; b < JITC_BACKENDS; ++b) {
            t->current[b] = 0;
            for (int d = 0; d < JITC_MAX_DEVICES; ++d)
                t->state[b][d] = (jitc_thread_state) {0};
        }
    }
}

static void abandon(jitc_thread *t, jitc_graph *g) {
    jitc_graph_lock(g);
    jitc_plan_abandon_locked(&t->plan, g);
    release_scheduled_locked(t, g);
    for (jitc_loop *l = t->loops; l; l = l->outer)
        jitc_loop_abandon_locked(g, l);
    jitc_graph_fork_release(g);
}

/* The threads may have been anywhere outside of the locks. So scratch arrays are left alone, which
 * may have been moving; the record keeps them in the sight of leak checkers. */
void jitc_thread_forked_locked(jitc_graph *g) {
    jitc_runtime.leaving = leaving;
    for (jitc_thread *t = jitc_runtime.threads, *next; t; t = next) {
        next = t->next;
        if (t == current)
            continue;
        if (g)
            abandon(t, g);
        give_streams_locked(t);
        unlist_locked(t);
        t->previous = NULL;
        t->next = jitc_runtime.orphans;
        jitc_runtime.orphans = t;
    }
}

void jitc_thread_end_orphans(jitc_thread *orphans, jitc_graph *g) {
    for (jitc_thread *t = orphans; t; t = t->next) {
        jitc_plan_drop_all_buffers(&t->plan, g);
        jitc_plan_finish(&t->plan);
        jitc_loop_free_all(t);
    }
}
