/* sync.h: atomics that name their order, the one reference count, locks that clang checks, threads.
 * Layer: core.  May include: nothing. */
#ifndef JITC_CORE_SYNC_H
#define JITC_CORE_SYNC_H
#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#if defined(__clang__)
#    define JITC_CAPABILITY(x) __attribute__((capability(x)))
#    define ACQUIRES(...)      __attribute__((acquire_capability(__VA_ARGS__)))
#    define RELEASES(...)      __attribute__((release_capability(__VA_ARGS__)))
#    define TRIES(...)         __attribute__((try_acquire_capability(true, __VA_ARGS__)))
#    define REQUIRES(...)      __attribute__((requires_capability(__VA_ARGS__)))
#    define UNCHECKED_LOCKING  __attribute__((no_thread_safety_analysis))
#else
#    define JITC_CAPABILITY(x)
#    define ACQUIRES(...)
#    define RELEASES(...)
#    define TRIES(...)
#    define REQUIRES(...)
#    define UNCHECKED_LOCKING
#endif

/* Atomics. Each use names its partner in a comment. */
#define jitc_load_relaxed(p)        atomic_load_explicit((p), memory_order_relaxed)
#define jitc_load_acquire(p)        atomic_load_explicit((p), memory_order_acquire)
#define jitc_load_seq(p)            atomic_load_explicit((p), memory_order_seq_cst)
#define jitc_store_relaxed(p, v)    atomic_store_explicit((p), (v), memory_order_relaxed)
#define jitc_store_release(p, v)    atomic_store_explicit((p), (v), memory_order_release)
#define jitc_store_seq(p, v)        atomic_store_explicit((p), (v), memory_order_seq_cst)
#define jitc_add_relaxed(p, v)      atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define jitc_add_acq_rel(p, v)      atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define jitc_add_seq(p, v)          atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define jitc_add_release(p, v)      atomic_fetch_add_explicit((p), (v), memory_order_release)
#define jitc_sub_release(p, v)      atomic_fetch_sub_explicit((p), (v), memory_order_release)
#define jitc_exchange_acquire(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
/* *p from *expected to v, acquire and release; false, and *expected = *p, if it was something else.
 */
#define jitc_compare_exchange(p, expected, v)                                                      \
    atomic_compare_exchange_strong_explicit((p), (expected), (v), memory_order_acq_rel,            \
                                            memory_order_acquire)

/** A reference count: starts at 1. */
typedef struct jitc_refcount {
    atomic_uint count;
} jitc_refcount;

static inline void jitc_refcount_init(jitc_refcount *r) {
    jitc_store_relaxed(&r->count, 1);
}
static inline void jitc_refcount_up(jitc_refcount *r) {
    jitc_add_relaxed(&r->count, 1);
}
/** True for the caller that dropped the last reference: all others' writes are visible to it. */
static inline bool jitc_refcount_down(jitc_refcount *r) {
    return atomic_fetch_sub_explicit(&r->count, 1, memory_order_acq_rel) == 1;
}

/** Drops a reference unless it is the last one: then false. */
static inline bool jitc_refcount_down_if_shared(jitc_refcount *r) {
    unsigned count = jitc_load_relaxed(&r->count);
    while (count > 1)
        if (jitc_compare_exchange(&r->count, &count, count - 1))
            return true;
    return false;
}

/** How many forks this process is away from the one that loaded the library, and 1. It only changes
 * in a child that has one thread. */
extern atomic_uint jitc_fork_generation;

/** A lock for a few instructions at a time: spins, then yields. Never held over a call that waits.
 * Who held it in the parent of a forked child does not exist there: there it is free. */
typedef struct JITC_CAPABILITY("mutex") jitc_spin {
    atomic_uint held; /* 0, or the generation of the process of the thread that holds it */
} jitc_spin;

static inline void jitc_spin_init(jitc_spin *s) {
    jitc_store_relaxed(&s->held, 0u);
}
static inline void jitc_spin_lock(jitc_spin *s) ACQUIRES(s) UNCHECKED_LOCKING {
    unsigned own = jitc_load_relaxed(&jitc_fork_generation);
    for (int tries = 0; jitc_exchange_acquire(&s->held, own) == own; ++tries) /* with unlock */
        if (tries > 100)
            sched_yield();
}
static inline void jitc_spin_unlock(jitc_spin *s) RELEASES(s) UNCHECKED_LOCKING {
    jitc_store_release(&s->held, 0u);
}

/** Take a reference to something that may be going away: false if the count is 0 already. The
 * memory of the count must stay valid by other means. */
static inline bool jitc_refcount_up_unless_zero(jitc_refcount *r) {
    unsigned n = jitc_load_relaxed(&r->count);
    while (n && !atomic_compare_exchange_weak_explicit(&r->count, &n, n + 1, memory_order_acq_rel,
                                                       memory_order_relaxed)) {
    }
    return n != 0;
}
/** Drop the caller's reference if it is the only one; else keep it and return false. */
static inline bool jitc_refcount_down_if_last(jitc_refcount *r) {
    unsigned one = 1;
    return atomic_compare_exchange_strong_explicit(&r->count, &one, 0, memory_order_acq_rel,
                                                   memory_order_relaxed);
}

typedef struct JITC_CAPABILITY("mutex") jitc_mutex {
    pthread_mutex_t native;
} jitc_mutex;

static inline void jitc_mutex_init(jitc_mutex *m) {
    pthread_mutex_init(&m->native, NULL);
}
static inline void jitc_mutex_finish(jitc_mutex *m) {
    pthread_mutex_destroy(&m->native);
}
static inline void jitc_mutex_lock(jitc_mutex *m) ACQUIRES(m) UNCHECKED_LOCKING {
    pthread_mutex_lock(&m->native);
}
/** Without waiting; false if somebody else holds it. */
static inline bool jitc_mutex_try_lock(jitc_mutex *m) TRIES(m) UNCHECKED_LOCKING {
    return pthread_mutex_trylock(&m->native) == 0;
}
static inline void jitc_mutex_unlock(jitc_mutex *m) RELEASES(m) UNCHECKED_LOCKING {
    pthread_mutex_unlock(&m->native);
}
/** Wait for a signal on `c`; `m` is released meanwhile. */
static inline void jitc_cond_wait(pthread_cond_t *c, jitc_mutex *m) REQUIRES(m) {
    pthread_cond_wait(c, &m->native);
}

/** Cores that the process may use; at least 1. */
int jitc_usable_cores(void);
/** pthread_create with all signals blocked: handlers are the program's and run in its threads. */
bool jitc_thread_start(pthread_t *thread, void *(*function)(void *), void *context);
#endif
