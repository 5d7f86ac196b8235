/* queue.c: making work and queueing it, or running it in the call.
 * Layer: llvm.  May include: core. */
#include "core/arith.h"
#include "llvm/workers_private.h"
#include <stdlib.h>
#include <string.h>

static uint32_t max_shares(const jitc_pool *p) {
    return p->threads < MAX_SHARES ? (uint32_t) p->threads : MAX_SHARES;
}

/* The first shares have a block more than the others if it does not work out evenly. */
static void cut_into_shares(jitc_work *w, uint64_t lanes, uint64_t block, uint32_t shares) {
    uint64_t blocks = jitc_ceil_div(lanes, block), begin = 0;
    w->lanes = lanes;
    w->block = block;
    w->shares = blocks < shares ? (uint32_t) blocks : shares;
    for (uint32_t i = 0; i < w->shares; ++i) {
        uint64_t own = blocks / w->shares + (i < blocks % w->shares);
        jitc_store_relaxed(&w->share[i].claimed, begin);
        begin = i + 1 == w->shares ? lanes : begin + own * block;
        w->share[i].end = begin;
    }
}

/* NULL: JIT_OUT_OF_MEMORY was raised. */
static jitc_work *work_create(jitc_pool *p, jitc_work_kind kind) {
    jitc_spin_lock(&p->lock);
    jitc_work *w = p->free;
    if (w)
        p->free = w->next;
    jitc_spin_unlock(&p->lock);
    if (!w) {
        size_t bytes = sizeof *w + max_shares(p) * sizeof *w->share;
        w = aligned_alloc(CACHE_LINE, bytes);
        if (!w) {
            jitc_fail(JIT_OUT_OF_MEMORY, "no memory to queue work on the CPU");
            return NULL;
        }
        memset(w, 0, bytes);
        jitc_spin_lock(&p->lock);
        w->registered = p->all;
        p->all = w;
        jitc_spin_unlock(&p->lock);
    }
    w->kind = kind;
    w->cost_ns = kind == WORK_CALL ? WAKE_NS : 0; /* nobody knows how long a call takes */
    cut_into_shares(w, 1, 1, 1);
    return w;
}

static void work_give_back(jitc_pool *p, jitc_work *w) {
    jitc_spin_lock(&p->lock);
    w->next = p->free;
    p->free = w;
    jitc_spin_unlock(&p->lock);
}

static uint64_t enqueue(jitc_queue *q, jitc_work *w) {
    jitc_pool *p = q->pool;
    jitc_rousing r = {0};
    uint64_t number = jitc_load_relaxed(&q->last) + 1;
    w->queue = q;
    w->number = number;
    w->next = NULL;
    jitc_store_relaxed(&q->last, number);
    jitc_spin_lock(&p->lock);
    jitc_pool_append_locked(p, q, w, &r);
    jitc_spin_unlock(&p->lock);
    jitc_pool_deliver(p, &r);
    return number;
}

static jit_status copy_params(jitc_work *w, const jitc_task *t) {
    uint64_t *to = w->own_params;
    if (t->count > OWN_PARAMS) {
        jitc_params *old = w->more_params;
        if (!old || old->capacity < t->count) {
            jitc_params *grown = malloc(sizeof *grown + t->count * sizeof *t->params);
            if (!grown)
                return jitc_fail(JIT_OUT_OF_MEMORY, "no memory for %u parameters of a task",
                                 t->count);
            grown->capacity = t->count;
            w->more_params = grown;
            free(old);
        }
        to = w->more_params->values;
    }
    if (t->count)
        memcpy(to, t->params, t->count * sizeof *to);
    w->params = to;
    return JIT_OK;
}

static bool runs_in_call(const jitc_queue *q, const jitc_task *t) {
    const jitc_pool *p = q->pool;
    if (!jitc_queue_done(q, jitc_load_relaxed(&q->last)))
        return false;
    if (t->lanes <= t->block || p->threads == 1 || t->cost_ns < SPLIT_NS)
        return true;
    return jitc_load_relaxed(&p->searching) == 0 && t->cost_ns < WAKE_NS &&
           q->series_ns < SERIES_NS;
}

/* The queue is idle and this thread is the only one that may queue: nobody else writes `done`, and
 * nobody can be waiting for the number that does not exist yet. So no lock and no wake-up. */
static uint64_t run_in_call(jitc_queue *q, const jitc_task *t) {
    jitc_float_mode callers = jitc_float_enter();
    uint64_t lanes = t->lanes, block = t->block;
    for (uint64_t begin = 0; begin < lanes; begin += block) {
        if (block > lanes - begin)
            block = lanes - begin;
        t->function(begin, begin + block, t->params);
    }
    jitc_float_leave(callers);
    uint64_t number = jitc_load_relaxed(&q->last) + 1;
    jitc_store_relaxed(&q->last, number);
    if (t->in_flight)
        jitc_sub_release(t->in_flight, 1u);
    if (t->cost_ns >= SPLIT_NS && lanes > t->block)
        q->series_ns += t->cost_ns;
    jitc_store_release(&q->done, number); /* pairs with load_acquire in jitc_queue_done */
    return number;
}

static jit_status queue_lanes(jitc_queue *q, const jitc_task *t, uint64_t *number) {
    jitc_pool *p = q->pool;
    jitc_work *w = work_create(p, WORK_LANES);
    if (!w)
        return JIT_OUT_OF_MEMORY;
    jit_status status = copy_params(w, t);
    if (status != JIT_OK) {
        work_give_back(p, w);
        return status;
    }
    w->function = t->function;
    uint64_t block = jitc_least(t->block, t->lanes); /* `claimed` must not overflow */
    cut_into_shares(w, t->lanes, block, t->ascending ? 1 : max_shares(p));
    w->cost_ns = t->cost_ns;
    if (q->series_ns >= SERIES_NS && w->cost_ns < WAKE_NS)
        w->cost_ns = WAKE_NS; /* counts as long enough to wake workers for */
    q->series_ns = 0;
    w->in_flight = t->in_flight;
    *number = enqueue(q, w);
    return JIT_OK;
}

jit_status jitc_queue_launch(jitc_queue *q, const jitc_task *t, uint64_t *number) {
    assert(t->lanes && t->block);
    if (t->in_flight)
        jitc_add_relaxed(t->in_flight, 1u);
    if (runs_in_call(q, t)) {
        *number = run_in_call(q, t);
        return JIT_OK;
    }
    jit_status status = queue_lanes(q, t, number);
    if (status != JIT_OK && t->in_flight)
        jitc_sub_release(t->in_flight, 1u);
    return status;
}

jit_status jitc_queue_call(jitc_queue *q, void (*function)(void *), void *context,
                           uint64_t *number) {
    jitc_work *w = work_create(q->pool, WORK_CALL);
    if (!w)
        return JIT_OUT_OF_MEMORY;
    w->call = function;
    w->context = context;
    *number = enqueue(q, w);
    return JIT_OK;
}

jit_status jitc_queue_wait_for(jitc_queue *q, jitc_queue *other, uint64_t n, uint64_t *number) {
    assert(q->pool == other->pool && n <= jitc_load_relaxed(&other->last));
    if (q == other || jitc_queue_done(other, n)) {
        *number = jitc_load_relaxed(&q->last);
        return JIT_OK;
    }
    jitc_work *w = work_create(q->pool, WORK_WAIT);
    if (!w)
        return JIT_OUT_OF_MEMORY;
    w->awaited = other;
    w->awaited_number = n;
    *number = enqueue(q, w);
    return JIT_OK;
}

bool jitc_queue_done(const jitc_queue *q, uint64_t n) {
    return jitc_load_acquire(&q->done) >= n; /* pairs with store_release where work ends */
}

jit_status jitc_queue_create(jitc_pool *p, jitc_queue **out) {
    jitc_queue *q = aligned_alloc(CACHE_LINE, sizeof *q);
    if (!q)
        return jitc_fail(JIT_OUT_OF_MEMORY, "no memory for a CPU stream");
    memset(q, 0, sizeof *q);
    q->pool = p;
    jitc_spin_lock(&p->lock);
    q->next = p->queues;
    p->queues = q;
    jitc_spin_unlock(&p->lock);
    *out = q;
    return JIT_OK;
}

void jitc_queue_destroy(jitc_queue *q) {
    if (!q)
        return;
    jitc_pool *p = q->pool;
    assert(jitc_queue_done(q, jitc_load_relaxed(&q->last)));
    jitc_spin_lock(&p->lock); /* also waits for the thread that is settling q */
    jitc_queue **link = &p->queues;
    while (*link != q)
        link = &(*link)->next;
    *link = q->next;
    jitc_spin_unlock(&p->lock);
    free(q);
}
