/* lock.h: a mutual exclusion lock that costs its usual owner no locked instruction.
 * Layer: core.  May include: core.
 *
 * The lock is biased to the thread that made it: that thread enters with two plain stores and a
 * load. Another thread takes the spin word, sets `revoked`, lets membarrier() stop every thread for
 * a moment, and waits until the owner is out. After a few such revocations the bias is dropped and
 * a spin lock stays. Thread sanitizer can not see this ordering: there, and on systems without
 * membarrier(), the same functions are a plain mutex. Not recursive. Hold it briefly. */
#ifndef JITC_CORE_LOCK_H
#define JITC_CORE_LOCK_H
#include "core/sync.h"

#if defined(__SANITIZE_THREAD__) || !defined(__linux__)
#    define JITC_LOCK_PLAIN 1
#elif defined(__has_feature)
#    if __has_feature(thread_sanitizer)
#        define JITC_LOCK_PLAIN 1
#    endif
#endif
#ifndef JITC_LOCK_PLAIN
#    define JITC_LOCK_PLAIN 0
#endif

#if JITC_LOCK_PLAIN

typedef struct JITC_CAPABILITY("mutex") jitc_lock {
    jitc_mutex mutex;
} jitc_lock;

static inline void jitc_lock_acquire(jitc_lock *l) ACQUIRES(l) UNCHECKED_LOCKING {
    jitc_mutex_lock(&l->mutex);
}
static inline void jitc_lock_release(jitc_lock *l) RELEASES(l) UNCHECKED_LOCKING {
    jitc_mutex_unlock(&l->mutex);
}

#else

typedef struct JITC_CAPABILITY("mutex") jitc_lock {
    _Atomic(const char *) owner; /* identity of the thread; NULL: nobody, use the word */
    atomic_int inside;           /* the owner is in, without the word; written by the owner only */
    atomic_int revoked;          /* the owner has to take the word; written under the word */
    char other_line[112];        /* waiters do not disturb the owner's line */
    atomic_int word;
    int revocations; /* under the word */
} jitc_lock;

/* Its address tells threads apart. Initial-exec, because a library's usual way to it is a call. */
extern _Thread_local char jitc_lock_self __attribute__((tls_model("initial-exec")));

void jitc_lock_acquire_slow(jitc_lock *l, bool owner);
void jitc_lock_release_slow(jitc_lock *l);

static inline void jitc_lock_acquire(jitc_lock *l) ACQUIRES(l) UNCHECKED_LOCKING {
    bool owner = jitc_load_relaxed(&l->owner) == &jitc_lock_self;
    if (__builtin_expect(owner, 1)) {
        jitc_store_relaxed(&l->inside, 1);
        /* ORDER: inside = 1 before the load of revoked, by this compiler fence here and membarrier
         * in the revoking thread; without it both threads are in. */
        atomic_signal_fence(memory_order_seq_cst);
        /* pairs with store_release in jitc_lock_release_slow */
        if (__builtin_expect(!jitc_load_acquire(&l->revoked), 1))
            return;
    }
    jitc_lock_acquire_slow(l, owner);
}

static inline void jitc_lock_release(jitc_lock *l) RELEASES(l) UNCHECKED_LOCKING {
    if (__builtin_expect(jitc_load_relaxed(&l->owner) == &jitc_lock_self, 1) &&
        __builtin_expect(jitc_load_relaxed(&l->inside), 1))
        jitc_store_release(&l->inside, 0); /* pairs with load_acquire in keep_owner_out() */
    else
        jitc_lock_release_slow(l);
}

#endif

/** Biased to the calling thread. */
void jitc_lock_init(jitc_lock *l);
void jitc_lock_finish(jitc_lock *l);
#endif
