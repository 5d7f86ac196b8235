/* workers_private.h: what queue.c (queueing), order.c (what runs when), workers.c (threads) share.
 * Layer: llvm.  May include: core.
 *
 *   pool ── queues ─┬─ queue: head → task → task → tail      numbers done+1 ... last
 *                   │    └ parked: waits of other queues that want a number of this one
 *                   ├─ queue: ...
 *        ── ready: heads of queues that can run, first come first served, shared ones rotate
 *        ── asleep: sleeping workers, the one that ran last on top
 *
 * Life of a task: free list → appended to its queue → head of the queue. A wait whose number is not
 * done is then parked at the awaited queue; anything else becomes ready. Threads take a ready task
 * under the lock (helpers + 1), claim blocks by one atomic addition each, outside of it, and let go
 * of the task under the lock. A task is cut into shares, one for each thread of the pool: a thread
 * claims the blocks of its own share, from task to task the same, and helps with others' when that
 * is used up. So it finds in its caches what it has computed or read before, and reads memory in
 * one direction. The task leaves `ready` when its last block has been claimed; the
 * helper that lets go of it last after that ends it: `done` moves, waits parked on it end too, new
 * heads become ready. So a task ends exactly once, after all of its blocks.
 *
 * Sleeping: everything that can end a sleep changes under the lock, and a thread lies down (workers
 * in `asleep`, callers in their queue's `sleepers`) under the same lock, after looking once more.
 * Who takes it out of the list again owes it a wake-up, and delivers it after unlocking, because a
 * futex wake takes tens of microseconds on virtual machines. There is no lost and no needless
 * wake-up.
 *
 * Progress: a ready task always has somebody who will come for it: a worker that searches, a caller
 * that waits for it, or else a worker is summoned (jitc_pool_call_for_help_locked). */
#ifndef JITC_LLVM_WORKERS_PRIVATE_H
#define JITC_LLVM_WORKERS_PRIVATE_H
#include "llvm/workers.h"
#if defined(__x86_64__)
#    include <immintrin.h>
#else
#    include <fenv.h>
#endif

enum { CACHE_LINE = 64, OWN_PARAMS = 16, MAX_SHARES = 64 };

/* Time below which splitting a task costs more than it gains: with a worker that spins, and with
 * workers that must be woken (measured on 2-core virtual machines). */
#define SPLIT_NS 8e3
#define WAKE_NS  100e3
/* A series of tasks below WAKE_NS that ran in their calls wakes the workers when it has taken so
 * long: they then spin for the next ones. If there are none, a wake-up is a tenth of that time. */
#define SERIES_NS 100e3

/* Default floating point environment for task functions. */
#if defined(__x86_64__)
typedef unsigned jitc_float_mode;
enum { MXCSR_DEFAULT = 0x1F80, MXCSR_FLAGS = 0x3F };
static inline bool jitc_float_is_default(jitc_float_mode m) {
    return (m & ~(unsigned) MXCSR_FLAGS) == MXCSR_DEFAULT;
}
static inline jitc_float_mode jitc_float_enter(void) {
    jitc_float_mode callers = _mm_getcsr();
    if (__builtin_expect(!jitc_float_is_default(callers), 0))
        _mm_setcsr(MXCSR_DEFAULT);
    return callers;
}
static inline void jitc_float_leave(jitc_float_mode callers) {
    if (__builtin_expect(!jitc_float_is_default(callers), 0))
        _mm_setcsr(callers);
}
#else
typedef fenv_t jitc_float_mode;
static inline jitc_float_mode jitc_float_enter(void) {
    jitc_float_mode callers;
    fegetenv(&callers);
    fesetenv(FE_DFL_ENV);
    return callers;
}
static inline void jitc_float_leave(jitc_float_mode callers) {
    fesetenv(&callers);
}
#endif

/** A thread that lies asleep. Belongs to the thread; whoever unlinks it must set `awake`. */
typedef struct jitc_sleeper {
    struct jitc_sleeper *next;
    uint64_t number;   /* callers: what they wait for */
    atomic_uint awake; /* futex word */
} jitc_sleeper;

/** Wake-ups owed: collected under the lock, delivered after it. */
typedef struct jitc_rousing {
    jitc_sleeper *list;
    int create; /* workers to start */
} jitc_rousing;

/** Who looks for work: a worker (queue NULL) or a caller that waits for a number. */
typedef struct jitc_helper {
    jitc_queue *queue;
    uint64_t number;
    uint32_t share; /* of each task: where it begins; callers: 0 */
} jitc_helper;

/** Consecutive blocks of a task. */
typedef struct jitc_share {
    _Alignas(CACHE_LINE) _Atomic uint64_t claimed; /* the next lane to claim; may run past `end` */
    uint64_t end;
} jitc_share;

typedef struct jitc_block {
    uint64_t begin, end; /* equal: none */
} jitc_block;

typedef struct jitc_params {
    uint32_t capacity;
    uint64_t values[];
} jitc_params;

typedef enum jitc_work_kind { WORK_LANES, WORK_CALL, WORK_WAIT } jitc_work_kind;

/** One piece of queued work; guarded by the pool's lock except `claimed` of its shares. */
typedef struct jitc_work {
    struct jitc_work *next;       /* in its queue, or in the free list */
    struct jitc_work *registered; /* every work of the pool, in use or not */
    struct jitc_work *ready_next, *ready_previous;
    jitc_queue *queue;
    uint64_t number;
    jitc_work_kind kind;
    bool listed;        /* in `ready` */
    int helpers;        /* threads inside */
    const char *caller; /* WORK_CALL: identity of the thread that is inside */

    jitc_task_function function; /* WORK_LANES */
    uint64_t lanes, block;       /* 1 and 1 for a call */
    double cost_ns;              /* estimate of the whole on one thread */
    const uint64_t *params;      /* own_params or more_params->values */
    jitc_params *more_params;    /* kept for the next use of this struct */
    atomic_uint *in_flight;

    void (*call)(void *); /* WORK_CALL */
    void *context;

    jitc_queue *awaited; /* WORK_WAIT */
    uint64_t awaited_number;
    struct jitc_work *parked_next;

    uint64_t own_params[OWN_PARAMS];
    uint32_t shares; /* in use */
    jitc_share share[];
} jitc_work;

struct jitc_queue {
    jitc_pool *pool;
    jitc_queue *next;      /* in the pool's list */
    _Atomic uint64_t last; /* number of the last work queued; written by the one who queues */
    double series_ns; /* work that could have been shared since workers were last woken; likewise */
    jitc_work *head, *tail;
    jitc_work *parked;               /* waits of other queues for a number of this one */
    jitc_sleeper *sleepers;          /* callers that wait for this queue */
    jitc_place *places, *last_place; /* that wait for their time, ascending */
    jitc_queue *moved_next;          /* in the list of queues to settle */
    _Alignas(CACHE_LINE) _Atomic uint64_t done;
};

typedef struct jitc_worker {
    jitc_sleeper sleeper;
    jitc_pool *pool;
    struct jitc_worker *next;
    pthread_t thread;
    bool alone; /* it has forked: there are no others, and it is in no list */
} jitc_worker;

struct jitc_pool {
    int threads;
    int worker_limit;
    int64_t spin_ns;

    jitc_spin lock; /* guards all below but the atomics, and the queues' lists */
    bool quit;
    bool held;         /* about to fork: nothing is taken */
    int running;       /* threads inside tasks, calls not counted */
    int started;       /* workers, those being created counted */
    uint32_t numbered; /* workers that have their share of tasks */
    jitc_worker *workers;
    jitc_sleeper *asleep;
    jitc_work *ready_first, *ready_last;
    jitc_work *free;
    jitc_work *all;     /* linked by `registered` */
    jitc_queue *queues; /* linked by `next` */
    /* Both are written under the lock and read anywhere. */
    _Alignas(CACHE_LINE) atomic_uint arrivals; /* counts works that became ready */
    atomic_int searching; /* workers awake, or on their way, that run nothing */
    atomic_bool resting;  /* a forked child has work of the parent, for which nobody comes yet */
};

/* order.c */
/** Queue `w` as the last of q. */
void jitc_pool_append_locked(jitc_pool *p, jitc_queue *q, jitc_work *w, jitc_rousing *r)
    REQUIRES(&p->lock);
/** Claim a block of `w` for the thread with that share; false: there is none left. */
bool jitc_work_claim(jitc_work *w, uint32_t share, jitc_block *out);
/** A work that `h` can run, with its first block claimed (none, if others came first), or NULL. */
jitc_work *jitc_pool_take_locked(jitc_pool *p, const jitc_helper *h, jitc_block *first,
                                 jitc_rousing *r) REQUIRES(&p->lock);
/** The caller runs no block of `w` any more. Ends it if it was the last one. */
void jitc_pool_release_locked(jitc_pool *p, jitc_work *w, jitc_rousing *r) REQUIRES(&p->lock);
/** Is there anything that `h` could take? */
bool jitc_pool_has_work_locked(jitc_pool *p, const jitc_helper *h) REQUIRES(&p->lock);
/** Make sure that somebody comes for what is ready. */
void jitc_pool_call_for_help_locked(jitc_pool *p, jitc_rousing *r) REQUIRES(&p->lock);

/* place.c */
/** Number n of q ends now: note that in the places that wait for it. */
void jitc_place_reached_locked(jitc_pool *p, jitc_queue *q, uint64_t n) REQUIRES(&p->lock);

/** Wake all callers that sleep. */
void jitc_pool_wake_callers_locked(jitc_pool *p, jitc_rousing *r) REQUIRES(&p->lock);

/* workers.c */
int64_t jitc_now_ns(void);
/** Wake and start whom `r` names. Not under the lock. */
void jitc_pool_deliver(jitc_pool *p, jitc_rousing *r);
#endif
