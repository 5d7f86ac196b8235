/* hot.c: a queue and a thread.  Layer: cache. */
#include "cache/hot.h"
#include "core/log.h"

/* The next entry, for which it waits; NULL to end. */
static jitc_entry *next_entry(jitc_hot *h) {
    jitc_mutex_lock(&h->lock);
    while (!h->first && !h->stop)
        jitc_cond_wait(&h->wake, &h->lock);
    jitc_entry *e = h->stop ? NULL : h->first;
    if (e && !(h->first = e->next))
        h->last = &h->first;
    jitc_mutex_unlock(&h->lock);
    return e;
}

static void *recompile_all(void *context) {
    jitc_hot *h = context;
    for (jitc_entry *e; (e = next_entry(h));) {
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

void jitc_hot_forked(jitc_hot *h) {
    /* If the lock was held, the queue may be half changed; then its entries are left alone, as is
     * the one that the parent's thread was working on. */
    bool whole = pthread_mutex_trylock(&h->lock.native) == 0;
    jitc_hot parent = *h;
    jitc_hot_init(h, parent.compiler, parent.table);
    if (whole && parent.first) {
        h->first = parent.first;
        drop_queue(h);
    }
}
