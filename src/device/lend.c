#include "device/lend.h"
#include "device/memory.h"
#include <stdlib.h>

enum {
    LEAST = 1 << 14 /* bytes that something pending counts for, as its record takes memory too */
};

/* Who reads what was lent, and what it has given back. */
typedef struct jitc_consumer {
    struct jitc_lent *pending;
} jitc_consumer;

/* A loan, or what is left of it: pending. */
typedef struct jitc_lent {
    jitc_buffer *buffer;     /* a reference */
    jitc_consumer *consumer; /* NULL: nobody has to be waited for */
    struct jitc_lent *next, *previous;
} jitc_lent;

struct jitc_lender {
    jitc_device *device;
    jitc_lent *lent;       /* not ended */
    jitc_consumer unknown; /* nobody knows on which stream it reads */
    jitc_consumer ordered; /* nobody has to be waited for, but an end may call the driver */
    _Atomic size_t bytes;  /* pending; changed under the lock, read without */
    unsigned ending;       /* threads that are giving up a reference */
};

/* There is one in a process: loans outlive devices. */
static struct {
    jitc_mutex lock;      /* guards all lenders, and the buffers' `device` */
    pthread_cond_t ended; /* some lender's `ending` is 0 */
} loans = {{PTHREAD_MUTEX_INITIALIZER}, PTHREAD_COND_INITIALIZER};

/* ---- Lists ---- */

static void link_locked(jitc_lender *l, jitc_lent *e) REQUIRES(&loans.lock) {
    e->previous = NULL;
    e->next = l->lent;
    if (e->next)
        e->next->previous = e;
    l->lent = e;
}

static void unlink_locked(jitc_lender *l, jitc_lent *e) REQUIRES(&loans.lock) {
    *(e->previous ? &e->previous->next : &l->lent) = e->next;
    if (e->next)
        e->next->previous = e->previous;
}

static size_t charge(const jitc_buffer *b) {
    return b->bytes > LEAST ? b->bytes : LEAST;
}

static void count_locked(jitc_lender *l, size_t bytes) REQUIRES(&loans.lock) {
    jitc_store_relaxed(&l->bytes, jitc_load_relaxed(&l->bytes) + bytes);
}

static void pend_locked(jitc_lender *l, jitc_lent *e) REQUIRES(&loans.lock) {
    jitc_buffer *b = e->buffer;
    if (b->pending_at == e->consumer) { /* an array that is lent again and again is pending once */
        jitc_refcount_down(&b->refs);   /* not the last: the other record has one */
        free(e);
        return;
    }
    b->pending_at = e->consumer;
    e->next = e->consumer->pending;
    e->consumer->pending = e;
    count_locked(l, charge(b));
}

static jitc_lent *take_pending_locked(jitc_lender *l, jitc_consumer *c) REQUIRES(&loans.lock) {
    jitc_lent *all = c->pending;
    c->pending = NULL;
    for (jitc_lent *e = all; e; e = e->next) {
        count_locked(l, 0 - charge(e->buffer));
        if (e->buffer->pending_at == c)
            e->buffer->pending_at = NULL;
    }
    return all;
}

static jitc_lent *take_pending(jitc_lender *l, jitc_consumer *c) {
    jitc_mutex_lock(&loans.lock);
    jitc_lent *all = take_pending_locked(l, c);
    jitc_mutex_unlock(&loans.lock);
    return all;
}

static void put_back(jitc_lender *l, jitc_lent *e) {
    jitc_mutex_lock(&loans.lock);
    for (jitc_lent *next; e; e = next) {
        next = e->next;
        pend_locked(l, e);
    }
    jitc_mutex_unlock(&loans.lock);
}

size_t jitc_lend_pending(const jitc_device *d) {
    return jitc_load_relaxed(&d->lender->bytes);
}

/* ---- Giving up ---- */

/* Drops the reference. The release of foreign memory is the user's: it is not called under a lock.
 */
static void drop(jitc_lender *l, jitc_lent *e, bool locked) {
    if (!locked) {
        jitc_buffer_unref(e->buffer);
    } else if (!jitc_buffer_unref_later(e->buffer)) {
        e->next = NULL;
        e->consumer = &l->ordered;
        put_back(l, e);
        return;
    }
    free(e);
}

static void drop_all(jitc_lender *l, jitc_lent *all, bool locked) {
    for (jitc_lent *e = all, *next; e; e = next) {
        next = e->next;
        drop(l, e, locked);
    }
}

static jit_status pass_barrier(const jitc_device *d) {
    jitc_error before, ignored;
    jitc_error_take(&before);
    jit_status status = d->backend->barrier(d->backend, d->id);
    jitc_error_take(&ignored);
    jitc_error_raise(&before);
    return status;
}

/* ORDER: what consumers read before the memory is used again, by the wait of the CPU for all that
 * the device does; without it the consumer may see the next owner's data. */
bool jitc_lend_recall(const jitc_device *d, bool locked) {
    jitc_lender *l = d->lender;
    if (!jitc_load_relaxed(&l->bytes))
        return false;
    jitc_lent *ordered = take_pending(l, &l->ordered), *unknown = take_pending(l, &l->unknown);
    bool some = ordered || unknown;
    drop_all(l, ordered, locked);
    if (unknown && pass_barrier(d) != JIT_OK) {
        put_back(l, unknown);
        return ordered != NULL;
    }
    drop_all(l, unknown, locked);
    return some;
}

void jitc_consumer_seen(jitc_device *d, jitc_stream *s, intptr_t token) {
    jitc_lender *l = d->lender;
    if (!jitc_load_relaxed(&l->bytes))
        return;
    (void) s, (void) token;
    drop_all(l, take_pending(l, &l->ordered), true);
}

/* ---- Lending ---- */

/* ORDER: the last write before the consumer's reads, by a wait of the CPU; without it they see
 * what is not written. */
static jit_status lend_host(jitc_buffer *b, intptr_t token) {
    if (token == JITC_STREAM_NONE)
        return JIT_OK;
    if (token != INTPTR_MIN)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %lld stands for no stream: the CPU has none",
                         b->device->backend->name, (long long) token);
    return jitc_buffer_wait(b, false);
}

static jitc_consumer *find_consumer(jitc_buffer *b, intptr_t token) {
    jitc_lender *l = b->device->lender;
    /* ORDER: what is read on the legacy stream before the memory is used again, as our streams are
     * blocking ones. */
    if (token == JITC_STREAM_LEGACY)
        return b->foreign ? &l->ordered : NULL;
    return &l->unknown;
}

static jit_status lend_device(jitc_buffer *b, jitc_stream *s, intptr_t token,
                              jitc_consumer **consumer) {
    if (token == INTPTR_MIN)
        token = JITC_STREAM_LEGACY;
    if (token < JITC_STREAM_NONE)
        return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %lld stands for no stream",
                         b->device->backend->name, (long long) token);
    TRY(jitc_buffer_lend(b, s));
    jitc_consumer_seen(b->device, s, token);
    *consumer = find_consumer(b, token);
    return token ? s->backend->stream_release(s, token) : JIT_OK;
}

jit_status jitc_lend(jitc_buffer *b, jitc_stream *s, intptr_t token, jitc_loan *loan) {
    jitc_device *d = b->device;
    void *p = NULL;
    loan->lent = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_lent), &p));
    jitc_lent *e = p;
    jit_status status =
        d->backend->host_memory ? lend_host(b, token) : lend_device(b, s, token, &e->consumer);
    if (status != JIT_OK) {
        free(e);
        return status;
    }
    e->buffer = b;
    jitc_buffer_ref(b);
    jitc_mutex_lock(&loans.lock);
    link_locked(d->lender, e);
    jitc_mutex_unlock(&loans.lock);
    loan->lent = e;
    return JIT_OK;
}

static void end_now(jitc_lender *l, jitc_lent *e) {
    jitc_buffer_unref(e->buffer);
    free(e);
    if (!l)
        return;
    jitc_mutex_lock(&loans.lock);
    if (!--l->ending)
        pthread_cond_broadcast(&loans.ended);
    jitc_mutex_unlock(&loans.lock);
}

void jitc_loan_end(jitc_loan *loan) {
    jitc_lent *e = loan ? loan->lent : NULL;
    if (!e)
        return;
    loan->lent = NULL;
    jitc_mutex_lock(&loans.lock);
    jitc_device *d = e->buffer->device;
    jitc_lender *l = d ? d->lender : NULL; /* its device has ended: it is in no list */
    bool pends = l && e->consumer;
    if (l)
        unlink_locked(l, e);
    if (pends)
        pend_locked(l, e);
    else if (l)
        ++l->ending; /* the device stays meanwhile */
    jitc_mutex_unlock(&loans.lock);
    if (!pends)
        end_now(l, e);
}

/* ---- The device ---- */

jit_status jitc_lender_create(jitc_device *d, jitc_lender **out) {
    void *p = NULL;
    TRY(jitc_calloc(1, sizeof(jitc_lender), &p));
    *out = p;
    (*out)->device = d;
    return JIT_OK;
}

/* Each buffer once; how many there are. Its uses are over, and their streams will be gone. */
static size_t leave_locked(jitc_lent *list, jitc_buffer **all) REQUIRES(&loans.lock) {
    size_t count = 0;
    for (jitc_lent *e = list; e; e = e->next) {
        jitc_buffer *b = e->buffer;
        if (!b->device)
            continue;
        b->device = NULL;
        b->write = (jitc_use) {0};
        b->read_count = 0;
        b->next_free = *all;
        *all = b;
        ++count;
    }
    return count;
}

/* What is lent, and what was given back only now, outlives the device. The latter is returned. */
static jitc_lent *detach_locked(jitc_lender *l) REQUIRES(&loans.lock) {
    jitc_backend *b = l->device->backend;
    jitc_consumer *const consumers[] = {&l->ordered, &l->unknown};
    jitc_lent *pending = NULL;
    jitc_buffer *all = NULL;
    jitc_detached end = {0};
    size_t count = leave_locked(l->lent, &all);
    for (size_t i = 0; i < sizeof consumers / sizeof *consumers; ++i) {
        jitc_lent *list = take_pending_locked(l, consumers[i]);
        count += leave_locked(list, &all);
        while (list) {
            jitc_lent *e = list;
            list = e->next;
            e->next = pending;
            pending = e;
        }
    }
    if (count)
        b->detach(b, l->device->id, count, &end);
    for (; all; all = all->next_free)
        all->end = end;
    return pending;
}

void jitc_lender_destroy(jitc_lender *l) {
    if (!l)
        return;
    jitc_lend_recall(l->device, false);
    jitc_device_sync(l->device); /* releases of foreign memory that were queued just now */
    jitc_mutex_lock(&loans.lock);
    /* ORDER: references that are being given up before the device ends, by this wait for them;
     * without it they give memory back to what is not there. */
    while (l->ending)
        jitc_cond_wait(&loans.ended, &loans.lock);
    jitc_lent *pending = detach_locked(l);
    jitc_mutex_unlock(&loans.lock);
    drop_all(l, pending, false);
    free(l);
}

void jitc_lend_fork_hold(void) UNCHECKED_LOCKING {
    jitc_mutex_lock(&loans.lock);
}

void jitc_lend_fork_release(void) UNCHECKED_LOCKING {
    jitc_mutex_unlock(&loans.lock);
}

void jitc_lend_forked(jitc_device *d) {
    d->lender->ending = 0;
}
