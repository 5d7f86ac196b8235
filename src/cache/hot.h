/* hot.h: compiling hot kernels again, in the background.  Layer: cache.
 * May include: core, ir, device, codegen. */
#ifndef JITC_CACHE_HOT_H
#define JITC_CACHE_HOT_H
#include "cache/compile.h"

/** One thread, started by the first kernel, and a queue of held entries. */
typedef struct jitc_hot {
    jitc_compiler *compiler;
    jitc_table *table;
    jitc_mutex lock;
    pthread_cond_t wake;
    jitc_entry *first, **last; /* the following: under the lock */
    pthread_t thread;
    bool started, stop;
} jitc_hot;

void jitc_hot_init(jitc_hot *h, jitc_compiler *m, jitc_table *t);
/** Waits for the compilation that is running; the queue is dropped. */
void jitc_hot_finish(jitc_hot *h);
/** Queue an entry that the caller holds, unless it was queued before. Any thread, under no lock. */
void jitc_hot_add(jitc_hot *h, jitc_entry *e);
/** Around fork(), as of the cache. */
void jitc_hot_fork_hold(jitc_hot *h);
void jitc_hot_fork_release(jitc_hot *h);
void jitc_hot_forked(jitc_hot *h);
#endif
