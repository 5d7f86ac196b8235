/* hot.c: a queue and a thread.  Layer: cache. */
#include "cache/hot.h"
#include "core/log.h"

/* The next entry, for which it waits; NULL to end. A thread that forks, in the log's callback, is
 * the whole child: with it the child ends. */
static jitc_entry *next_entry(jitc_hot *h, unsigned generation) {
    jitc_mutex_lock(&h->lock);
    bool own = generation == jitc_load_relaxed(&jitc_fork_generation);
    while (own && !h->first && !h->stop)
        jitc_cond_wait(&h->wake, &h->lock);
    jitc_entry *e = h->stop || !own ? NULL : h->first;
    if (e && !(h->first = e->next))
        h->last = &h->first;
    jitc_mutex_unlock(&h->lock);
    return e;
}

static void *recompile_all(void *context) {
    jitc_hot *h = context;
    unsigned generation = jitc_load_relaxed(&jitc_fork_generation);
    for (jitc_entry *e; (e = next_entry(h, generation));) {
        /* Failure costs nothing: the kernel keeps the code it has, and is not tried again. */
        if (jitc_compiler_recompile(h->compiler, e) != JIT_OK)
            jitc_log(JITC_LOG_WARN, "a hot kernel could not be recompiled: %s", jit_error());
        jit_error_clear();
        jitc_table_release(h->table, e);
    }
    return NULL;
}

void jitc_hot_init(jitc_hot *h, jitc_compiler *m, jitc_table *t) {
    *h = (jitc_hot) {.compiler = m, .table = t};
    h->last = &h->first;
    jitc_mutex_init(&h->lock);
    pthread_cond_init(&h->wake, NULL);
}

static void drop_queue(jitc_hot *h) {
    for (jitc_entry *e = h->first, *next; e; e = next) {
        next = e->next;
        jitc_table_release(h->table, e);
    }
    h->first = NULL;
    h->last = &h->first;
}

void jitc_hot_finish(jitc_hot *h) {
    jitc_mutex_lock(&h->lock);
    h->stop = true;
    pthread_cond_signal(&h->wake);
    bool started = h->started;
    jitc_mutex_unlock(&h->lock);
    if (started)
        pthread_join(h->thread, NULL);
    drop_queue(h);
    pthread_cond_destroy(&h->wake);
    jitc_mutex_finish(&h->lock);
}

void jitc_hot_add(jitc_hot *h, jitc_entry *e) {
    /* Of all threads that see the kernel cross the line, one takes the line away. */
    if (jitc_exchange_acquire(&e->cached.hot_at, UINT64_MAX) == UINT64_MAX)
        return;
    jitc_refcount_up(&e->refs);
    e->next = NULL;
    jitc_mutex_lock(&h->lock);
    if (!h->started)
        h->started = jitc_thread_start(&h->thread, recompile_all, h);
    if (h->started) {
        *h->last = e;
        h->last = &e->next;
        e = NULL;
        pthread_cond_signal(&h->wake);
    }
    jitc_mutex_unlock(&h->lock);
    if (e) /* no thread could be had: the kernel stays as it is */
        jitc_table_release(h->table, e);
}

void jitc_hot_fork_hold(jitc_hot *h) UNCHECKED_LOCKING {
    jitc_mutex_lock(&h->lock);
}

void jitc_hot_fork_release(jitc_hot *h) UNCHECKED_LOCKING {
    jitc_mutex_unlock(&h->lock);
}

/* The queue stays; the next kernel that is added starts a thread. */
void jitc_hot_forked(jitc_hot *h) {
    h->started = false;
    pthread_cond_init(&h->wake, NULL);
    jitc_hot_fork_release(h);
}
