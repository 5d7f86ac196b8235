/* workers.c: the threads of the pool: running blocks, spinning, sleeping, waking, forking.
 * Layer: llvm.  May include: core. */
#include "core/mem.h"
#include "llvm/workers_private.h"
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- Sleeping ---- */

static void sleep_until_awake(jitc_sleeper *s) {
    while (!jitc_load_acquire(&s->awake)) /* pairs with store_release in wake() */
        syscall(SYS_futex, &s->awake, FUTEX_WAIT_PRIVATE, 0u, NULL, NULL, 0);
}

/* Once `awake` is set the sleeper may be gone: the call then only names its old address, which the
 * kernel tolerates, as does whoever else sleeps there. */
static void wake(jitc_sleeper *s) {
    atomic_uint *word = &s->awake;
    jitc_store_release(word, 1u); /* pairs with load_acquire in sleep_until_awake */
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

int64_t jitc_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static bool is_satisfied(const jitc_helper *h) {
    return h->queue && jitc_queue_done(h->queue, h->number);
}

/* From then on a spinning thread lets others have its core: the one it waits for may want to run
 * there, and would else come after the whole spin time. */
enum { POLITE_NS = 5000 };

/* True as soon as there may be something to do; false after the pool's spin time. */
static bool spin(const jitc_pool *p, const jitc_helper *h, unsigned seen) {
    if (p->spin_ns == 0)
        return false;
    int64_t start = jitc_now_ns(), spun;
    do {
        for (int i = 0; i < 16; ++i) {
            if (jitc_load_acquire(&p->arrivals) != seen || is_satisfied(h))
                return true; /* pairs with add_release where work becomes ready */
            jitc_cpu_pause();
        }
        spun = jitc_now_ns() - start;
        if (spun > POLITE_NS)
            sched_yield();
    } while (spun < p->spin_ns);
    return false;
}

/* ---- Running ---- */

/* Claims blocks until there are none, until `h` has what it waits for, or until something new is
 * ready: nobody stays with a long task while others have none. */
static void run_blocks(jitc_pool *p, const jitc_helper *h, jitc_work *w, jitc_block block) {
    unsigned seen = jitc_load_relaxed(&p->arrivals);
    jitc_float_mode callers = jitc_float_enter();
    bool more = block.begin < block.end;
    while (more) {
        w->function(block.begin, block.end, w->params);
        more = jitc_load_relaxed(&p->arrivals) == seen && !is_satisfied(h) &&
               jitc_work_claim(w, h->share, &block);
    }
    jitc_float_leave(callers);
}

/* Its address tells threads apart. */
static _Thread_local char self_mark;

/* Runs ready work as long as there is some that `h` should do. */
static bool help(jitc_pool *p, const jitc_helper *h) {
    jitc_work *w = NULL;
    bool helped = false;
    do {
        jitc_rousing r = {0};
        jitc_block first = {0};
        jitc_spin_lock(&p->lock);
        if (w) {
            jitc_pool_release_locked(p, w, &r);
            if (!h->queue)
                jitc_add_relaxed(&p->searching, 1);
            w = NULL;
        }
        if (is_satisfied(h))
            jitc_pool_call_for_help_locked(p, &r); /* for what it leaves behind */
        else
            w = jitc_pool_take_locked(p, h, &first, &r);
        if (w)
            w->caller = &self_mark;
        jitc_spin_unlock(&p->lock);
        jitc_pool_deliver(p, &r);
        if (w) {
            helped = true;
            if (w->kind == WORK_CALL)
                w->call(w->context);
            else
                run_blocks(p, h, w, first);
        }
    } while (w);
    return helped;
}

/* ---- Workers ---- */

static void worker_sleep(jitc_pool *p, jitc_worker *self) {
    static const jitc_helper any = {0};
    jitc_spin_lock(&p->lock);
    bool stay_up = p->quit || jitc_pool_has_work_locked(p, &any);
    if (!stay_up) {
        jitc_store_relaxed(&self->sleeper.awake, 0u);
        self->sleeper.next = p->asleep;
        p->asleep = &self->sleeper;
        jitc_add_relaxed(&p->searching, -1); /* who wakes it raises it again */
    }
    jitc_spin_unlock(&p->lock);
    if (!stay_up)
        sleep_until_awake(&self->sleeper);
}

static bool must_quit(jitc_pool *p) {
    jitc_spin_lock(&p->lock);
    bool quit = p->quit;
    jitc_spin_unlock(&p->lock);
    return quit;
}

/* Of each task, for a new worker. */
static uint32_t next_share(jitc_pool *p) {
    jitc_spin_lock(&p->lock);
    uint32_t share = ++p->numbered;
    jitc_spin_unlock(&p->lock);
    return share;
}

static _Thread_local jitc_worker *own_worker;

static void *worker_main(void *argument) {
    jitc_worker *self = argument;
    jitc_pool *p = self->pool;
    const jitc_helper any = {.share = next_share(p)};
    pthread_setname_np(pthread_self(), "jitc-worker");
    (void) jitc_float_enter(); /* a new thread starts with its maker's environment */
    own_worker = self;
    while (!self->alone && !must_quit(p)) {
        unsigned seen = jitc_load_acquire(&p->arrivals); /* before looking */
        if (!help(p, &any) && !self->alone && !spin(p, &any, seen))
            worker_sleep(p, self);
    }
    if (self->alone) {
        jitc_add_relaxed(&p->searching, -1);
        free(self);
    }
    return NULL;
}

/* Signals are for the program's own threads; those raised by a fault must reach its handlers. */
static int create_quiet_thread(jitc_worker *w) {
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
    sigset_t quiet, callers;
    sigfillset(&quiet);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; ++i)
        sigdelset(&quiet, faults[i]);
    pthread_sigmask(SIG_SETMASK, &quiet, &callers);
    int failed = pthread_create(&w->thread, NULL, worker_main, w);
    pthread_sigmask(SIG_SETMASK, &callers, NULL);
    return failed;
}

/* Makes a worker, which is counted already. */
static void worker_start(jitc_pool *p) {
    jitc_worker *w = calloc(1, sizeof *w);
    if (w)
        w->pool = p;
    bool failed = !w || create_quiet_thread(w);
    jitc_spin_lock(&p->lock);
    if (failed) {
        --p->started;
        jitc_add_relaxed(&p->searching, -1);
    } else {
        w->next = p->workers;
        p->workers = w;
    }
    jitc_spin_unlock(&p->lock);
    if (failed)
        free(w);
}

void jitc_pool_deliver(jitc_pool *p, jitc_rousing *r) {
    while (r->list) {
        jitc_sleeper *s = r->list;
        r->list = s->next;
        wake(s);
    }
    for (; r->create > 0; --r->create)
        worker_start(p);
}

/* ---- Waiting callers ---- */

static void caller_sleep(jitc_pool *p, const jitc_helper *h) {
    jitc_sleeper self = {.number = h->number};
    jitc_rousing r = {0};
    jitc_spin_lock(&p->lock);
    bool stay_up = is_satisfied(h) || jitc_pool_has_work_locked(p, h);
    if (!stay_up) {
        self.next = h->queue->sleepers;
        h->queue->sleepers = &self;
        jitc_pool_call_for_help_locked(p, &r);
    }
    jitc_spin_unlock(&p->lock);
    jitc_pool_deliver(p, &r);
    if (!stay_up)
        sleep_until_awake(&self);
}

void jitc_queue_wait(jitc_queue *q, uint64_t n) {
    jitc_pool *p = q->pool;
    const jitc_helper self = {.queue = q, .number = n};
    while (!jitc_queue_done(q, n)) {
        unsigned seen = jitc_load_acquire(&p->arrivals); /* before looking */
        if (!help(p, &self) && !spin(p, &self, seen))
            caller_sleep(p, &self);
    }
}

/* ---- The pool ---- */

jit_status jitc_pool_create(int threads, int spin_us, jitc_pool **out) {
    assert(threads >= 1);
    jitc_pool *p = aligned_alloc(CACHE_LINE, sizeof *p);
    if (!p)
        return jitc_fail(JIT_OUT_OF_MEMORY, "no memory for the pool of CPU threads");
    *p = (jitc_pool) {.threads = threads, .worker_limit = threads > 1 ? threads - 1 : 1};
    if (spin_us > 0 && p->worker_limit < jitc_usable_cores())
        p->spin_ns = spin_us * INT64_C(1000);
    *out = p;
    return JIT_OK;
}

static void free_works(jitc_pool *p) {
    for (jitc_work *w = p->all, *next; w; w = next) {
        next = w->registered;
        free(w->more_params);
        free(w);
    }
}

/* NULL when there are no more. A worker may start another one until it has ended itself. */
static jitc_worker *pop_worker(jitc_pool *p) {
    jitc_spin_lock(&p->lock);
    jitc_worker *w = p->workers;
    if (w)
        p->workers = w->next;
    jitc_spin_unlock(&p->lock);
    return w;
}

void jitc_pool_destroy(jitc_pool *p) {
    if (!p)
        return;
    assert(!p->queues);
    jitc_spin_lock(&p->lock);
    p->quit = true;
    jitc_add_release(&p->arrivals, 1u); /* ends spinning */
    jitc_rousing r = {.list = p->asleep};
    p->asleep = NULL;
    jitc_spin_unlock(&p->lock);
    jitc_pool_deliver(p, &r);
    for (jitc_worker *w; (w = pop_worker(p));) {
        pthread_join(w->thread, NULL);
        free(w);
    }
    free_works(p);
    free(p);
}

int jitc_pool_threads(const jitc_pool *p) {
    return p->threads;
}

/* ---- Forking ---- */

void jitc_pool_fork_hold(jitc_pool *p) UNCHECKED_LOCKING {
    jitc_spin_lock(&p->lock);
    p->held = true;
    jitc_add_release(&p->arrivals,
                     1u); /* threads leave their tasks to look: pairs with run_blocks */
    while (p->running) {
        jitc_spin_unlock(&p->lock);
        sched_yield();
        jitc_spin_lock(&p->lock);
    }
}

void jitc_pool_fork_release(jitc_pool *p) UNCHECKED_LOCKING {
    jitc_rousing r = {0};
    p->held = false;
    /* ORDER: the end of `held` before the wake-ups, by the lock; without it those who lay down
     * because of it would lie for ever. */
    jitc_pool_wake_callers_locked(p, &r);
    jitc_pool_call_for_help_locked(p, &r);
    jitc_spin_unlock(&p->lock);
    jitc_pool_deliver(p, &r);
}

static void forget_workers(jitc_pool *p) {
    for (jitc_worker *w = p->workers, *next; w; w = next) {
        next = w->next;
        if (w == own_worker)
            w->alone = true;
        else
            free(w);
    }
    p->workers = NULL;
    p->asleep = NULL;
    p->started = 0;
    p->numbered = 0;
    jitc_store_relaxed(&p->searching, 0);
}

/* The thread that was calling the function at the head of q is not there. */
static bool is_lost(const jitc_queue *q) {
    const jitc_work *w = q->head;
    return w && w->kind == WORK_CALL && w->helpers && w->caller != &self_mark;
}

void jitc_pool_forked(jitc_pool *p) UNCHECKED_LOCKING {
    jitc_rousing nobody = {0};
    forget_workers(p);
    for (jitc_queue *q = p->queues; q; q = q->next)
        q->sleepers = NULL;
    for (jitc_queue *q = p->queues; q; q = q->next)
        if (is_lost(q))
            jitc_pool_release_locked(p, q->head, &nobody);
    p->held = false;
    jitc_store_relaxed(&p->resting, p->ready_first != NULL);
    jitc_spin_unlock(&p->lock);
}

void jitc_pool_resume(jitc_pool *p) {
    jitc_rousing r = {0};
    if (__builtin_expect(!jitc_load_relaxed(&p->resting), 1))
        return;
    jitc_spin_lock(&p->lock);
    jitc_store_relaxed(&p->resting, false);
    jitc_pool_call_for_help_locked(p, &r);
    jitc_spin_unlock(&p->lock);
    jitc_pool_deliver(p, &r);
}
