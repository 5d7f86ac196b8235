#include "core/lock.h"

#if JITC_LOCK_PLAIN

void jitc_lock_init(jitc_lock *l) {
    jitc_mutex_init(&l->mutex);
}

void jitc_lock_finish(jitc_lock *l) {
    jitc_mutex_finish(&l->mutex);
}

#else

#    include <linux/membarrier.h>
#    include <sched.h>
#    include <sys/syscall.h>
#    include <unistd.h>

enum {
    MAX_REVOCATIONS = 16, /* each is a system call and an interrupt: cheap only while rare */
    MAX_PAUSES = 256,     /* between two looks at the word */
    YIELD_AFTER = 64,     /* looks: the holder may have lost its core */
    OWNER_LOOKS = 2000
};

/* An address for each thread, never written. */
_Thread_local char jitc_lock_self;

static void pause_core(void) {
#    if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#    endif
}

static void wait_for_word(jitc_lock *l) {
    for (int pauses = 8, looks = 0; jitc_load_relaxed(&l->word); ++looks) {
        for (int i = 0; i < pauses; ++i)
            pause_core();
        if (pauses < MAX_PAUSES)
            pauses *= 2;
        else if (looks % YIELD_AFTER == 0)
            sched_yield();
    }
}

static void take_word(jitc_lock *l) {
    while (jitc_exchange_acquire(&l->word, 1)) /* pairs with store_release in release_slow */
        wait_for_word(l);
}

/* With the word: keep the owner out, and wait until it is. */
static void keep_owner_out(jitc_lock *l) {
    jitc_store_seq(&l->revoked, 1);
    /* ORDER: see jitc_lock_acquire(): after this call either the owner has seen `revoked`, or we
     * see it inside. */
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    for (int looks = 1; jitc_load_acquire(&l->inside); ++looks) { /* pairs with release */
        pause_core();
        if (looks % OWNER_LOOKS == 0)
            sched_yield();
    }
    if (++l->revocations >=
        MAX_REVOCATIONS) /* `revoked` stays set: the owner may be on its way in */
        jitc_store_relaxed(&l->owner, (const char *) NULL);
}

void jitc_lock_acquire_slow(jitc_lock *l, bool owner) {
    if (owner)
        jitc_store_release(&l->inside, 0); /* else the revoking thread and we wait for each other */
    take_word(l);
    if (!owner && jitc_load_relaxed(&l->owner))
        keep_owner_out(l);
}

void jitc_lock_release_slow(jitc_lock *l) {
    if (jitc_load_relaxed(&l->owner))
        jitc_store_release(&l->revoked, 0); /* pairs with load_acquire in jitc_lock_acquire */
    jitc_store_release(&l->word, 0);        /* pairs with exchange_acquire in take_word */
}

void jitc_lock_init(jitc_lock *l) {
    bool can = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    atomic_init(&l->owner, can ? &jitc_lock_self : NULL);
    atomic_init(&l->inside, 0);
    atomic_init(&l->revoked, 0);
    atomic_init(&l->word, 0);
    l->revocations = 0;
}

void jitc_lock_finish(jitc_lock *l) {
    (void) l;
}

#endif
