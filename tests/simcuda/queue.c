/* queue.c: work in the queues of streams, and the threads that run it.  Layer: tests.
 *
 *   stream A   [3] [4] [5]        a head is ready when its stream is not busy with a host function
 *   stream B   [7]                and all points in `after` are done; which of the ready heads runs
 *   stream C   [2] [3]            next is decided by the seed (0: the one queued first)
 */
#include "order.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work;    /* something was queued or got ready */
    pthread_cond_t calls;   /* a host function is to be run */
    pthread_cond_t changed; /* something is done */
    uint64_t order;
    pthread_t threads[2]; /* worker and caller */
    bool running;
    pid_t process;        /* whose threads they are; 0: never started */
    uintptr_t generation; /* of the threads: those of an earlier one end */
} q = {.lock = PTHREAD_MUTEX_INITIALIZER,
       .work = PTHREAD_COND_INITIALIZER,
       .calls = PTHREAD_COND_INITIALIZER,
       .changed = PTHREAD_COND_INITIALIZER};

void sim_lock(void) {
    pthread_mutex_lock(&q.lock);
}
void sim_unlock(void) {
    pthread_mutex_unlock(&q.lock);
}

/* ---- points ---- */

bool sim_point_done(sim_point p) {
    return !p.stream || p.stream->done >= p.number;
}

sim_point sim_stream_end(sim_stream *s) {
    return (sim_point) {s, s->queued};
}

static void wait_for_change(void) {
    sim_wait_inside(true);
    pthread_cond_wait(&q.changed, &q.lock);
    sim_wait_inside(false);
}

CUresult sim_point_wait(sim_point p, const sim_context *c) {
    while (!sim_point_done(p))
        wait_for_change();
    return c->error;
}

CUresult sim_context_wait(sim_context *c) {
    uint64_t last = q.order; /* what others queue meanwhile is not waited for */
    for (sim_stream *s = sim_streams(); s; s = s->next)
        while (s->object.context == c && s->head && s->head->order <= last)
            wait_for_change();
    return c->error;
}

bool sim_context_busy(const sim_context *c) {
    for (sim_stream *s = sim_streams(); s; s = s->next)
        if (s->object.context == c && s->head)
            return true;
    return false;
}

/* ---- queueing ---- */

void *sim_work_create(size_t bytes, const char *what, CUresult (*run)(sim_work *w)) {
    sim_work *w = sim_new(bytes);
    w->what = what;
    w->run = run;
    return w;
}

void sim_work_after(sim_work *w, sim_point p) {
    if (sim_point_done(p))
        return;
    sim_point *grown = realloc(w->after, (w->after_count + 1) * sizeof *grown);
    if (!grown)
        abort();
    w->after = grown;
    w->after[w->after_count++] = p;
}

void sim_work_free(sim_work *w) {
    if (w->end)
        w->end(w);
    sim_order_done(w);
    free(w->after);
    free(w);
}

/** The legacy stream and the blocking ones of its context wait for each other. */
static void add_implicit_order(sim_work *w, sim_stream *s) {
    sim_stream *legacy = s->object.context->legacy;
    if (s->kind == SIM_BLOCKING || s->kind == SIM_PER_THREAD)
        sim_work_after(w, sim_stream_end(legacy));
    if (s->kind != SIM_LEGACY)
        return;
    for (sim_stream *t = sim_streams(); t; t = t->next)
        if (t->object.context == s->object.context && t != s && t->kind != SIM_NON_BLOCKING)
            sim_work_after(w, sim_stream_end(t));
}

sim_point sim_submit(sim_work *w, sim_stream *s) {
    if (!q.running && sim_queue_start() != CUDA_SUCCESS)
        abort();
    if (s->capture) {
        sim_capture_add(w, s);
        return (sim_point) {0};
    }
    add_implicit_order(w, s);
    w->stream = s;
    w->number = ++s->queued;
    w->order = ++q.order;
    sim_order_action(w);
    if (s->tail)
        s->tail->next = w;
    else
        s->head = w;
    s->tail = w;
    pthread_cond_signal(&q.work);
    return (sim_point) {s, w->number};
}

/* ---- running ---- */

static bool is_ready(const sim_stream *s) {
    const sim_work *w = s->head;
    if (!w || s->calling)
        return false;
    for (unsigned i = 0; i < w->after_count; i++)
        if (!sim_point_done(w->after[i]))
            return false;
    return true;
}

/** The stream whose head is to run next, or NULL. */
static sim_stream *choose(void) {
    sim_stream *chosen = NULL;
    bool by_chance = sim_seed() != 0;
    uint64_t ready = 0;
    for (sim_stream *s = sim_streams(); s; s = s->next) {
        if (!is_ready(s))
            continue;
        ready++;
        if (!chosen ||
            (by_chance ? sim_random() % ready == 0 : s->head->order < chosen->head->order))
            chosen = s;
    }
    return chosen;
}

/** The head of `s` ran, with `result`. */
static void finish(sim_stream *s, CUresult result) {
    sim_work *w = s->head;
    sim_context *c = s->object.context;
    if (result != CUDA_SUCCESS && c->error == CUDA_SUCCESS)
        c->error = result;
    s->head = w->next;
    if (!s->head)
        s->tail = NULL;
    s->done = w->number;
    sim_work_free(w);
    pthread_cond_broadcast(&q.changed);
}

/** Run the head of `s`; what was queued after an error does not run any more. */
static void run(sim_stream *s) {
    sim_work *w = s->head;
    CUresult result = CUDA_SUCCESS;
    bool runs = s->object.context->error == CUDA_SUCCESS;
    if (w->function && runs) {
        s->calling = true;
        pthread_cond_signal(&q.calls);
        return;
    }
    sim_order_work(w);
    if (w->run && runs) {
        sim_unlock();
        result = w->run(w);
        sim_lock();
    }
    finish(s, result);
}

/** Under a seed, let work pile up at times, so that there is something to choose from. True if so:
 *  anything may have happened meanwhile. */
static bool dawdles(void) {
    uint64_t chance = sim_random();
    if (chance % 8 != 1)
        return false;
    sim_unlock();
    usleep((useconds_t) (chance >> 8 & 127));
    sim_lock();
    return true;
}

static void *worker(void *generation) {
    sim_lock();
    while (q.generation == (uintptr_t) generation) {
        if (dawdles())
            continue;
        sim_stream *s = choose();
        if (s)
            run(s);
        else if (q.generation == (uintptr_t) generation) /* it may have changed while it dawdled */
            pthread_cond_wait(&q.work, &q.lock);
    }
    sim_unlock();
    return NULL;
}

/** The host function that may run and was queued first. */
static sim_stream *first_call(void) {
    sim_stream *first = NULL;
    for (sim_stream *s = sim_streams(); s; s = s->next)
        if (s->calling && (!first || s->head->order < first->head->order))
            first = s;
    return first;
}

static void *caller(void *generation) {
    sim_set_calling(true);
    sim_lock();
    while (q.generation == (uintptr_t) generation) {
        sim_stream *s = first_call();
        if (!s) {
            pthread_cond_wait(&q.calls, &q.lock);
            continue;
        }
        sim_work *w = s->head;
        sim_unlock();
        w->function(w->argument);
        sim_lock();
        s->calling = false;
        finish(s, CUDA_SUCCESS);
        pthread_cond_signal(&q.work);
    }
    sim_unlock();
    return NULL;
}

/* ---- threads ---- */

/** Tell those that run to end; not while something is queued. */
static bool stop_threads(pthread_t *threads) {
    for (sim_stream *s = sim_streams(); s; s = s->next)
        if (s->head)
            return false;
    bool stops = q.running;
    memcpy(threads, q.threads, sizeof q.threads);
    q.generation++;
    q.running = false;
    pthread_cond_broadcast(&q.work);
    pthread_cond_broadcast(&q.calls);
    return stops;
}

/* ThreadSanitizer waits a second at the end of a process in which other threads run. Work that is
 * queued later, by the client's functions for the end, starts them anew. */
static void at_exit(void) {
    pthread_t threads[2];
    if (q.process != getpid())
        return; /* a child without them */
    sim_check_exit();
    sim_lock();
    bool stops = stop_threads(threads);
    sim_unlock();
    for (int i = 0; stops && i < 2; i++)
        pthread_join(threads[i], NULL);
}

static bool start_threads(void) {
    sigset_t all, old;
    sigfillset(&all); /* the client's signals go to the client's threads */
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    void *generation = (void *) q.generation;
    bool good = pthread_create(&q.threads[0], NULL, worker, generation) == 0 &&
                pthread_create(&q.threads[1], NULL, caller, generation) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return good;
}

CUresult sim_queue_start(void) {
    if (q.running)
        return CUDA_SUCCESS;
    q.running = start_threads();
    if (q.running && !q.process)
        atexit(at_exit);
    q.process = getpid();
    return q.running ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
