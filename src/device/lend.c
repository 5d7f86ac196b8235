#include "device/lend.h"
#include "device/consumer.h"
#include "device/memory.h"
#include <stdlib.h>

enum {
    LEAST = 1 << 14 /* bytes that something pending counts for, as its record takes memory too */
};

struct jitc_lender {
    jitc_device *device;
    jitc_lent *lent;       /* not ended */
    jitc_consumers others; /* by the number of their streams */
    jitc_consumer unknown; /* nobody knows on which stream it reads */
    jitc_consumer ordered; /* nobody has to be waited for, but an end may call the driver */
    _Atomic size_t bytes;  /* pending; changed under the lock, read without */
    unsigned ending;       /* threads that are giving up a reference */
};

/* There is one in a process: loans outlive devices. */
static struct {
    jitc_mutex lock;      /* guards all lenders, and the buffers' `device` */
    pthread_cond_t ended; /* some lender's `ending` is 0 */
    jitc_buffer *kept;    /* for ever: nobody can wait for their readers any more */
} loans = {{PTHREAD_MUTEX_INITIALIZER}, PTHREAD_COND_INITIALIZER, NULL};

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
        --b->loans;
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
        --e->buffer->loans;
        if (e->buffer->pending_at == c)
            e->buffer->pending_at = NULL;
    }
    return all;
}

/* The same, in front of *all. */
static void collect_locked(jitc_lender *l, jitc_consumer *c, jitc_lent **all)
    REQUIRES(&loans.lock) {
    for (jitc_lent *e = take_pending_locked(l, c), *next; e; e = next) {
        next = e->next;
        e->next = *all;
        *all = e;
    }
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
        ++e->buffer->loans;
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

/* What fails here is tried again, and is no error of the thread. */
static jit_status forgive(const jitc_error *before, jit_status status) {
    jitc_error_forgive(before);
    return status;
}

/* Of all consumers that have to be waited for; `apart`: also of those for which the barrier does
 * not. */
static void collect_all_locked(jitc_lender *l, bool apart, jitc_lent **all) REQUIRES(&loans.lock) {
    collect_locked(l, &l->unknown, all);
    for (int i = 0; i < JITC_CONSUMER_BUCKETS; ++i)
        for (jitc_consumer *c = l->others.bucket[i]; c; c = c->next)
            if (apart || !c->apart)
                collect_locked(l, c, all);
}

static jitc_lent *take_all_pending(jitc_lender *l) {
    jitc_lent *all = NULL;
    jitc_mutex_lock(&loans.lock);
    collect_all_locked(l, false, &all);
    jitc_mutex_unlock(&loans.lock);
    return all;
}

/* Their consumers hold nothing any more, and may have come to stand for other streams meanwhile. */
static void put_back_unknown(jitc_lender *l, jitc_lent *all) {
    for (jitc_lent *e = all; e; e = e->next)
        e->consumer = &l->unknown;
    put_back(l, all);
}

/* ORDER: what consumers read before the memory is used again, by the wait of the CPU for all that
 * the device does; without it the consumer may see the next owner's data. */
bool jitc_lend_recall(const jitc_device *d, bool locked) {
    jitc_lender *l = d->lender;
    jitc_error before;
    if (!jitc_load_relaxed(&l->bytes))
        return false;
    jitc_lent *ordered = take_pending(l, &l->ordered), *others = take_all_pending(l);
    bool some = ordered;
    drop_all(l, ordered, locked);
    if (!others)
        return some;
    jitc_error_take(&before);
    if (forgive(&before, d->backend->barrier(d->backend, d->id)) != JIT_OK) {
        put_back_unknown(l, others);
        return some;
    }
    drop_all(l, others, locked);
    return true;
}

/* A release may end a loan that has to be given up as well, and so on. */
void jitc_lend_collect(const jitc_device *d) {
    jitc_lender *l = d->lender;
    jitc_lent *all;
    while (jitc_load_relaxed(&l->bytes) && (all = take_pending(l, &l->ordered)) != NULL)
        drop_all(l, all, false);
}

/* ---- Consumers ---- */

/* Takes it in hands, or one that may come to stand for the stream and that is not found any more:
 * *idle. */
static jitc_consumer *find_consumer(jitc_lender *l, uint64_t id, jitc_consumer **idle) {
    jitc_mutex_lock(&loans.lock);
    jitc_consumer *c = jitc_consumer_find(&l->others, id);
    *idle = c ? NULL : jitc_consumer_idle(&l->others, id);
    if (c)
        ++c->users;
    jitc_mutex_unlock(&loans.lock);
    return c;
}

static void let_go(jitc_consumer *c) {
    jitc_mutex_lock(&loans.lock);
    --c->users;
    jitc_mutex_unlock(&loans.lock);
}

/* One for the stream: `idle`, or a new one; or NULL. */
static jitc_consumer *make_consumer(jitc_lender *l, uint64_t id, bool apart, jitc_consumer *idle) {
    if (idle && !jitc_consumer_done(idle)) {
        let_go(idle);
        idle = NULL;
    }
    jitc_consumer *own = idle ? idle : calloc(1, sizeof *own);
    if (!own)
        return NULL;
    jitc_mutex_lock(&loans.lock);
    jitc_consumer *c = jitc_consumer_find(&l->others, id); /* another thread's, meanwhile */
    if (!c && idle)
        idle->id = id;
    else if (!c)
        jitc_consumer_add(&l->others, own, id);
    own->users = !c;
    own->apart = apart;
    if (c)
        ++c->users;
    jitc_mutex_unlock(&loans.lock);
    if (c && !idle)
        free(own);
    return c ? c : own;
}

/* Who works on the stream; in hands, unless it is one that is always there. NULL: nobody has to be
 * waited for. */
static jitc_consumer *consumer_of(jitc_lender *l, jitc_stream *s, intptr_t token) {
    jitc_consumer *idle;
    uint64_t id = token > JITC_STREAM_LEGACY ? s->backend->consumer_id(s, token) : 0;
    if (!id)
        return NULL;
    jitc_consumer *c = find_consumer(l, id, &idle);
    return c ? c : make_consumer(l, id, s->backend->consumer_is_apart(s, token), idle);
}

static jit_status mark(const jitc_lender *l, jitc_consumer *c, intptr_t token, jitc_use *out) {
    TRY(jitc_consumer_marks(c, l->device, &out->stream));
    return out->stream->backend->consumer_mark(out->stream, token, &out->number);
}

/* ORDER: what the consumer has read before the memory is used again, by a mark behind all that its
 * stream has got, which is a use of the memory like those of our streams; without it the consumer
 * may see the next owner's data. */
static void settle(jitc_lender *l, jitc_consumer *c, intptr_t token) {
    jitc_error before;
    jitc_use use;
    jitc_lent *all = take_pending(l, c);
    if (!all)
        return;
    jitc_error_take(&before);
    if (forgive(&before, mark(l, c, token, &use)) != JIT_OK) {
        put_back(l, all);
        return;
    }
    for (jitc_lent *e = all; e; e = e->next)
        jitc_buffer_did_read(e->buffer, use.stream, use.number);
    drop_all(l, all, true);
}

void jitc_consumer_seen(jitc_device *d, jitc_stream *s, intptr_t token) {
    jitc_lender *l = d->lender;
    if (!jitc_load_relaxed(&l->bytes))
        return;
    drop_all(l, take_pending(l, &l->ordered), true);
    token = token ? token : JITC_STREAM_PER_THREAD; /* the legacy one holds nothing */
    jitc_consumer *c = consumer_of(l, s, token);
    if (!c)
        return;
    settle(l, c, token);
    let_go(c);
}

/* ---- Lending ---- */

static jit_status lend_host(const jitc_buffer *b, intptr_t token) {
    return token == JITC_STREAM_NONE
               ? JIT_OK
               : jitc_fail(JIT_INVALID_ARGUMENT, "%s: %lld stands for no stream: the CPU has none",
                           b->device->backend->name, (long long) token);
}

/* Nothing else is pending than what goes to the same consumer once more. */
static bool comes_again(const jitc_consumer *c, const jitc_buffer *b) {
    jitc_mutex_lock(&loans.lock);
    bool same = c->pending && !c->pending->next && c->pending->buffer == b;
    jitc_mutex_unlock(&loans.lock);
    return same;
}

/* Its stream, if it has one, has been seen. */
static jit_status lend_device(jitc_buffer *b, jitc_stream *s, const jitc_borrower *to,
                              jitc_consumer *c) {
    TRY(jitc_buffer_lend(b, s, to->writes));
    if (c && !comes_again(c, b))
        settle(b->device->lender, c, to->token);
    return to->token ? s->backend->stream_release(s, to->token) : JIT_OK;
}

static jit_status read_token(const jitc_buffer *b, intptr_t *token) {
    if (*token == INTPTR_MIN)
        *token = JITC_STREAM_LEGACY;
    if (*token >= JITC_STREAM_NONE)
        return JIT_OK;
    return jitc_fail(JIT_INVALID_ARGUMENT, "%s: %lld stands for no stream",
                     b->device->backend->name, (long long) *token);
}

static void add_loan(jitc_lender *l, jitc_lent *e) {
    jitc_buffer_ref(e->buffer);
    jitc_mutex_lock(&loans.lock);
    link_locked(l, e);
    ++e->buffer->loans;
    if (e->consumer)
        ++e->consumer->loans;
    jitc_mutex_unlock(&loans.lock);
}

static jit_status lend_to_stream(jitc_stream *s, jitc_borrower to, jitc_lent *e) {
    jitc_buffer *b = e->buffer;
    jitc_lender *l = b->device->lender;
    TRY(read_token(b, &to.token));
    if (jitc_load_relaxed(&l->bytes))
        drop_all(l, take_pending(l, &l->ordered), true);
    jitc_consumer *c = consumer_of(l, s, to.token);
    jit_status status = lend_device(b, s, &to, c);
    /* ORDER: what is read on the legacy stream before the memory is used again, as our streams are
     * blocking ones. */
    if (to.token == JITC_STREAM_LEGACY)
        e->consumer = b->foreign ? &l->ordered : NULL;
    else
        e->consumer = c ? c : &l->unknown;
    if (status == JIT_OK)
        add_loan(l, e);
    if (c)
        let_go(c);
    return status;
}

jit_status jitc_lend(jitc_buffer *b, jitc_stream *s, const jitc_borrower *to, jitc_lent *e) {
    e->buffer = b;
    e->consumer = NULL;
    if (!b->device->backend->host_memory)
        return lend_to_stream(s, *to, e);
    TRY(lend_host(b, to->token));
    add_loan(b->device->lender, e);
    return JIT_OK;
}

/* `ending` has been counted, if the device is there. */
static void end_one(jitc_lent *e) {
    jitc_device *d = e->buffer->device; /* stays as it is: `ending` */
    jitc_lender *l = d ? d->lender : NULL;
    jitc_buffer_unref(e->buffer);
    free(e);
    if (!l)
        return;
    jitc_mutex_lock(&loans.lock);
    if (!--l->ending)
        pthread_cond_broadcast(&loans.ended);
    jitc_mutex_unlock(&loans.lock);
}

/* What was lent may be memory of somebody who holds a tensor of ours, which is the memory of
 * somebody ...: arrays that went to and fro a million times. So what ends within a `release` ends
 * behind it, and not on top of it on the stack. */
static void end_now(jitc_lent *e) {
    static _Thread_local bool busy;
    static _Thread_local jitc_lent *more;
    if (busy) {
        e->next = more;
        more = e;
        return;
    }
    busy = true;
    while (e) {
        end_one(e);
        e = more;
        more = e ? e->next : NULL;
    }
    busy = false;
}

bool jitc_lent_only(jitc_buffer *b, unsigned others) {
    if (jitc_load_acquire(&b->refs.count) <= others) /* the usual case; pairs with who drops one */
        return true;
    jitc_mutex_lock(&loans.lock);
    bool all = jitc_load_acquire(&b->refs.count) - b->loans <= others;
    jitc_mutex_unlock(&loans.lock);
    return all;
}

void jitc_loan_end(jitc_lent *e) {
    if (!e)
        return;
    jitc_mutex_lock(&loans.lock);
    jitc_device *d = e->buffer->device;
    jitc_lender *l = d ? d->lender : NULL; /* its device has ended: it is in no list */
    bool pends = l && e->consumer, waits = pends && e->consumer != &l->ordered;
    --e->buffer->loans; /* as long as the reference keeps the buffer */
    /* Usually the variable is still there, and nothing ends. */
    bool shared = l && !waits && jitc_refcount_down_if_shared(&e->buffer->refs);
    if (l)
        unlink_locked(l, e);
    if (pends)
        --e->consumer->loans;
    if (pends && !shared) {
        ++e->buffer->loans;
        pend_locked(l, e);
    }
    if (l && !pends && !shared)
        ++l->ending; /* the device stays meanwhile */
    jitc_mutex_unlock(&loans.lock);
    if (shared)
        free(e);
    else if (!pends)
        end_now(e);
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

/* Who can be waited for by marks only cannot be once the device has ended: it may always read. */
static void keep_locked(jitc_lent *list) REQUIRES(&loans.lock) {
    for (jitc_lent *e = list; e; e = e->next)
        if (e->consumer && e->consumer->apart && !e->buffer->foreign)
            e->buffer->kept = true;
}

/* What is lent, and what was given back only now: `pending`, outlives the device. */
static void detach_locked(jitc_lender *l, jitc_lent *pending) REQUIRES(&loans.lock) {
    jitc_backend *b = l->device->backend;
    jitc_buffer *all = NULL;
    jitc_detached end = {0};
    keep_locked(l->lent);
    keep_locked(pending);
    size_t count = leave_locked(l->lent, &all) + leave_locked(pending, &all);
    if (count)
        b->detach(b, l->device->id, count, &end);
    for (jitc_buffer *next; all; all = next) {
        next = all->next_free;
        all->end = end;
        if (!all->kept)
            continue;
        jitc_buffer_ref(all);
        all->next_free = loans.kept;
        loans.kept = all;
    }
}

/* ORDER: references that are being given up before the device ends, by this wait for them; without
 * it they give memory back to what is not there. */
static jitc_lent *end_loans(jitc_lender *l) {
    jitc_lent *pending = NULL;
    jitc_mutex_lock(&loans.lock);
    while (l->ending)
        jitc_cond_wait(&loans.ended, &loans.lock);
    collect_locked(l, &l->ordered, &pending);
    collect_all_locked(l, true, &pending);
    detach_locked(l, pending);
    jitc_mutex_unlock(&loans.lock);
    return pending;
}

void jitc_lender_destroy(jitc_lender *l) {
    if (!l)
        return;
    jitc_lend_recall(l->device, false);
    jitc_consumers_wait(&l->others); /* for what they read of the blocks that will be freed */
    jitc_device_sync(l->device);     /* releases of foreign memory that were queued just now */
    drop_all(l, end_loans(l), false);
    jitc_consumers_finish(&l->others);
    free(l);
}

void jitc_lend_fork_hold(void) UNCHECKED_LOCKING {
    jitc_mutex_lock(&loans.lock);
}

void jitc_lend_fork_release(void) UNCHECKED_LOCKING {
    jitc_mutex_unlock(&loans.lock);
}

void jitc_lend_forked(jitc_device *d) {
    pthread_cond_init(&loans.ended, NULL);
    d->lender->ending = 0;
}
