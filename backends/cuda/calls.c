/* calls.c: functions that are called once the device has got so far.  Layer: cuda.
 *
 * A thread looks which calls are due. It polls, because it has several streams to look at and the
 * driver can wait for one event only; cuLaunchHostFunc() would hold the device up for 20 us, and
 * the function could not call the driver. Who waits for a call that is due makes the thread look at
 * once. */
#include "cuda/stream.h"
#include <stdlib.h>
#include <time.h>

enum { SHORTEST_NS = 50000, LONGEST_NS = 1000000 }; /* between two looks */

typedef struct pending_call {
    jitc_cuda_stream *stream;
    uint64_t number;
    void (*function)(void *);
    void *context;
    struct pending_call *next;
} pending_call;

struct jitc_cuda_calls {
    jitc_mutex lock; /* guards all of this */
    pthread_cond_t wake, made;
    pending_call *first, **last; /* as they were queued */
    pthread_t thread;
    bool started, stop;
    bool look; /* at once */
};

/* ---- The thread ---- */

static pending_call *next_call(jitc_cuda_calls *c, pending_call *p) {
    jitc_mutex_lock(&c->lock);
    p = p ? p->next : c->first;
    jitc_mutex_unlock(&c->lock);
    return p;
}

/* Take a call that has been made off the list. */
static void remove_call(jitc_cuda_calls *c, pending_call *p) {
    uint64_t first = UINT64_MAX;
    jitc_mutex_lock(&c->lock);
    pending_call **link = &c->first;
    while (*link != p)
        link = &(*link)->next;
    *link = p->next;
    if (!p->next)
        c->last = link;
    for (pending_call *other = p->next; other && first == UINT64_MAX; other = other->next)
        if (other->stream == p->stream)
            first = other->number;
    jitc_store_release(&p->stream->first_call, first); /* pairs with `done` */
    pthread_cond_broadcast(&c->made);
    jitc_mutex_unlock(&c->lock);
    free(p);
}

/* Those of a stream are made in order. */
static bool is_due(const pending_call *p) {
    return jitc_load_acquire(&p->stream->first_call) == p->number &&
           jitc_cuda_reached(p->stream, p->number);
}

/* Has the thread forked, in a function that it called? Then it is the whole child, its call is not
 * there any more, and the child ends with it. */
static bool is_child(unsigned generation) {
    return generation != jitc_load_relaxed(&jitc_fork_generation);
}

static bool make_calls(jitc_cuda_calls *c, unsigned generation) {
    bool made = false;
    for (pending_call *p = next_call(c, NULL), *next; p; p = next) {
        bool due = is_due(p);
        if (due)
            p->function(p->context);
        if (is_child(generation))
            return false;
        next = next_call(c, p);
        if (due)
            remove_call(c, p);
        made = made || due;
    }
    return made;
}

static void sleep_locked(jitc_cuda_calls *c, int64_t ns) REQUIRES(&c->lock) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        ++until.tv_sec;
    }
    pthread_cond_timedwait(&c->wake, &c->lock.native, &until);
}

static void *make_all_calls(void *context) {
    jitc_cuda_calls *c = context;
    int64_t pause = SHORTEST_NS;
    unsigned generation = jitc_load_relaxed(&jitc_fork_generation);
    jitc_mutex_lock(&c->lock);
    while (c->first || !c->stop) {
        if (!c->first)
            jitc_cond_wait(&c->wake, &c->lock);
        else if (!c->look)
            sleep_locked(c, pause);
        if (!c->first)
            continue;
        bool asked = c->look;
        c->look = false;
        jitc_mutex_unlock(&c->lock);
        bool made = make_calls(c, generation);
        if (is_child(generation))
            return NULL;
        pause = made || asked ? SHORTEST_NS : pause < LONGEST_NS ? 2 * pause : pause;
        jitc_mutex_lock(&c->lock);
    }
    jitc_mutex_unlock(&c->lock);
    return NULL;
}

/* ---- The interface ---- */

static void init(jitc_cuda_calls *c) {
    pthread_condattr_t attributes;
    *c = (jitc_cuda_calls) {.last = &c->first};
    jitc_mutex_init(&c->lock);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&c->wake, &attributes);
    pthread_cond_init(&c->made, NULL);
    pthread_condattr_destroy(&attributes);
}

jit_status jitc_cuda_calls_create(jitc_cuda_calls **out) {
    void *p;
    TRY(jitc_calloc(1, sizeof(jitc_cuda_calls), &p));
    *out = p;
    init(*out);
    return JIT_OK;
}

void jitc_cuda_calls_fork_hold(jitc_cuda_calls *c) UNCHECKED_LOCKING {
    jitc_mutex_lock(&c->lock);
}

void jitc_cuda_calls_fork_release(jitc_cuda_calls *c) UNCHECKED_LOCKING {
    jitc_mutex_unlock(&c->lock);
}

/* What was to be called belongs to the parent, which does it. */
void jitc_cuda_calls_forked(jitc_cuda_calls *c) {
    for (pending_call *p = c->first, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    init(c);
}

void jitc_cuda_calls_destroy(jitc_cuda_calls *c) {
    if (!c)
        return;
    jitc_mutex_lock(&c->lock);
    c->stop = true;
    pthread_cond_signal(&c->wake);
    bool started = c->started;
    jitc_mutex_unlock(&c->lock);
    if (started)
        pthread_join(c->thread, NULL);
    pthread_cond_destroy(&c->wake);
    pthread_cond_destroy(&c->made);
    jitc_mutex_finish(&c->lock);
    free(c);
}

static bool start_thread(jitc_cuda_calls *c) {
    jitc_mutex_lock(&c->lock);
    if (!c->started)
        c->started = jitc_thread_start(&c->thread, make_all_calls, c);
    bool started = c->started;
    jitc_mutex_unlock(&c->lock);
    return started;
}

static uint64_t take_number(jitc_cuda_stream *s) {
    jitc_mutex_lock(&s->mutex);
    uint64_t number = jitc_cuda_submitted_locked(s);
    jitc_cuda_mark_locked(s);
    jitc_mutex_unlock(&s->mutex);
    return number;
}

/* From here on the call is the thread's. */
static void append(jitc_cuda_calls *c, pending_call *p) {
    jitc_mutex_lock(&c->lock);
    if (jitc_load_relaxed(&p->stream->first_call) == UINT64_MAX)
        jitc_store_release(&p->stream->first_call, p->number); /* pairs with `done` */
    *c->last = p;
    c->last = &p->next;
    pthread_cond_signal(&c->wake);
    jitc_mutex_unlock(&c->lock);
}

jit_status jitc_cuda_call(jitc_cuda_stream *s, void (*function)(void *), void *context,
                          uint64_t *number) {
    jitc_cuda_calls *c = s->device->backend->calls;
    void *memory;
    TRY(jitc_cuda_flush(s));
    if (!start_thread(c))
        return jitc_fail(JIT_OUT_OF_MEMORY, "cuda: no thread could be started to call a function");
    TRY(jitc_calloc(1, sizeof(pending_call), &memory));
    pending_call *p = memory;
    *number = take_number(s);
    *p = (pending_call) {.stream = s, .number = *number, .function = function, .context = context};
    append(c, p);
    return JIT_OK;
}

void jitc_cuda_calls_wait(jitc_cuda_stream *s, uint64_t n) {
    jitc_cuda_calls *c = s->device->backend->calls;
    if (n < jitc_load_acquire(&s->first_call)) /* pairs with remove_call */
        return;
    jitc_mutex_lock(&c->lock);
    while (n >= jitc_load_relaxed(&s->first_call)) {
        c->look = true;
        pthread_cond_signal(&c->wake);
        jitc_cond_wait(&c->made, &c->lock);
    }
    jitc_mutex_unlock(&c->lock);
}
