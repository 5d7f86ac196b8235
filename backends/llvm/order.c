/* order.c: the order of queued work: what can run now, who takes it, what follows when it ends.
 * Layer: llvm.  May include: core. */
#include "llvm/workers_private.h"

/* ---- The list of ready work ---- */

static void list_ready_locked(jitc_pool *p, jitc_work *w) REQUIRES(&p->lock) {
    w->ready_next = NULL;
    w->ready_previous = p->ready_last;
    *(p->ready_last ? &p->ready_last->ready_next : &p->ready_first) = w;
    p->ready_last = w;
    w->listed = true;
}

static void unlist_locked(jitc_pool *p, jitc_work *w) REQUIRES(&p->lock) {
    if (!w->listed)
        return;
    *(w->ready_previous ? &w->ready_previous->ready_next : &p->ready_first) = w->ready_next;
    *(w->ready_next ? &w->ready_next->ready_previous : &p->ready_last) = w->ready_previous;
    w->listed = false;
}

bool jitc_work_claim(jitc_work *w, uint32_t share, jitc_block *out) {
    for (uint32_t i = 0, n = share % w->shares; i < w->shares; ++i, n = (n + 1) % w->shares) {
        jitc_share *s = &w->share[n];
        if (jitc_load_relaxed(&s->claimed) >= s->end)
            continue;
        uint64_t begin = jitc_add_relaxed(&s->claimed, w->block);
        if (begin < s->end) {
            uint64_t left = s->end - begin;
            *out = (jitc_block) {begin, begin + (left < w->block ? left : w->block)};
            return true;
        }
    }
    return false;
}

static bool is_open(const jitc_work *w) {
    for (uint32_t i = 0; i < w->shares; ++i)
        if (jitc_load_relaxed(&w->share[i].claimed) < w->share[i].end)
            return true;
    return false;
}

static double unclaimed_ns(const jitc_work *w) {
    uint64_t lanes = 0;
    for (uint32_t i = 0; i < w->shares; ++i) {
        uint64_t claimed = jitc_load_relaxed(&w->share[i].claimed);
        lanes += claimed < w->share[i].end ? w->share[i].end - claimed : 0;
    }
    return w->cost_ns * (double) lanes / (double) w->lanes;
}

/* First ready work with a block left, after `w` (NULL: of all). Drops used-up ones from the list:
 * the claimer of their last block is still inside and ends them. */
static jitc_work *next_open_locked(jitc_pool *p, const jitc_work *w) REQUIRES(&p->lock) {
    jitc_work *open = w ? w->ready_next : p->ready_first;
    while (open && !is_open(open)) {
        jitc_work *next = open->ready_next;
        unlist_locked(p, open);
        open = next;
    }
    return open;
}

/* ---- Whose turn it is ---- */

/* The ready work that must end before anything of q can: q's head, or what that waits for. */
static jitc_work *bottleneck_of(const jitc_queue *q) {
    jitc_work *w = q->head;
    while (w && w->kind == WORK_WAIT)
        w = w->awaited->head;
    return w && w->listed && is_open(w) ? w : NULL;
}

/* A waiting caller does what its number depends on, or shares a large task of somebody else; it
 * does not start anything of unknown length that others wait for, unless there is no worker to do
 * it. */
static jitc_work *pick_for_caller_locked(jitc_pool *p, const jitc_queue *q) REQUIRES(&p->lock) {
    jitc_work *w = bottleneck_of(q);
    if (w)
        return w;
    for (w = next_open_locked(p, NULL); w; w = next_open_locked(p, w))
        if (w->lanes > w->block || p->started == 0)
            return w;
    return NULL;
}

static jitc_work *pick_locked(jitc_pool *p, const jitc_helper *h) REQUIRES(&p->lock) {
    if (__builtin_expect(p->held, 0))
        return NULL;
    return h->queue ? pick_for_caller_locked(p, h->queue) : next_open_locked(p, NULL);
}

bool jitc_pool_has_work_locked(jitc_pool *p, const jitc_helper *h) {
    return pick_locked(p, h) != NULL;
}

static void summon_locked(jitc_pool *p, jitc_rousing *r) REQUIRES(&p->lock) {
    jitc_sleeper *s = p->asleep;
    if (s) {
        p->asleep = s->next;
        s->next = r->list;
        r->list = s;
    } else if (p->started < p->worker_limit) {
        ++p->started;
        ++r->create;
    } else {
        return;
    }
    jitc_add_relaxed(&p->searching, 1);
}

void jitc_pool_call_for_help_locked(jitc_pool *p, jitc_rousing *r) {
    if (jitc_load_relaxed(&p->searching) <= 0 && !p->held && next_open_locked(p, NULL))
        summon_locked(p, r);
}

/* `h` goes off to run `w`. Whoever is summoned looks for more helpers in turn, so that nobody
 * spends long on waking others. Short work is left for the moment when h comes back, unless h would
 * prefer its own queue again. */
static void leave_rest_locked(jitc_pool *p, const jitc_helper *h, const jitc_work *w,
                              jitc_rousing *r) REQUIRES(&p->lock) {
    const jitc_work *rest = next_open_locked(p, NULL);
    if (!rest || jitc_load_relaxed(&p->searching) > 0)
        return;
    bool left_long = rest != w && (w->cost_ns >= WAKE_NS || (h->queue && rest->queue != h->queue));
    if (left_long || unclaimed_ns(rest) >= WAKE_NS)
        summon_locked(p, r);
}

jitc_work *jitc_pool_take_locked(jitc_pool *p, const jitc_helper *h, jitc_block *first,
                                 jitc_rousing *r) {
    jitc_work *w = pick_locked(p, h);
    if (!w) {
        jitc_pool_call_for_help_locked(p, r); /* a caller does not take everything */
        return NULL;
    }
    ++w->helpers;
    p->running += w->kind == WORK_LANES;
    jitc_work_claim(w, h->share, first);
    unlist_locked(p, w);
    if (is_open(w)) /* at the end: the next thread takes another task if there is one */
        list_ready_locked(p, w);
    if (!h->queue)
        jitc_add_relaxed(&p->searching, -1);
    leave_rest_locked(p, h, w, r);
    return w;
}

/* ---- The end of work, and what follows from it ---- */

static void end_head_locked(jitc_pool *p, jitc_queue *q) REQUIRES(&p->lock) {
    jitc_work *w = q->head;
    q->head = w->next;
    if (!q->head)
        q->tail = NULL;
    atomic_uint *in_flight = w->in_flight;
    w->in_flight = NULL;
    if (in_flight)
        jitc_sub_release(in_flight, 1u); /* pairs with the acquire of whoever waits for 0 */
    jitc_place_reached_locked(p, q,
                              w->number);    /* before the store: who sees the one sees the other */
    jitc_store_release(&q->done, w->number); /* pairs with load_acquire in jitc_queue_done */
    w->next = p->free;
    p->free = w;
}

static void wake_callers_locked(jitc_pool *p, jitc_queue *q, uint64_t up_to, jitc_rousing *r)
    REQUIRES(&p->lock) {
    (void) p;
    for (jitc_sleeper **link = &q->sleepers; *link;) {
        jitc_sleeper *s = *link;
        if (s->number > up_to) {
            link = &s->next;
            continue;
        }
        *link = s->next;
        s->next = r->list;
        r->list = s;
    }
}

void jitc_pool_wake_callers_locked(jitc_pool *p, jitc_rousing *r) {
    for (jitc_queue *q = p->queues; q; q = q->next)
        wake_callers_locked(p, q, UINT64_MAX, r);
}

/* Let the head of q be run, or park it. Waits for what is done end here. */
static void start_head_locked(jitc_pool *p, jitc_queue *q, jitc_rousing *r) REQUIRES(&p->lock) {
    jitc_work *w;
    while ((w = q->head) && w->kind == WORK_WAIT) {
        if (!jitc_queue_done(w->awaited, w->awaited_number)) {
            w->parked_next = w->awaited->parked;
            w->awaited->parked = w;
            return;
        }
        end_head_locked(p, q);
    }
    if (!w)
        return;
    list_ready_locked(p, w);
    jitc_add_release(&p->arrivals, 1u); /* pairs with load_acquire in spin() */
    if (w->lanes > w->block && w->cost_ns >= WAKE_NS)
        wake_callers_locked(p, q, UINT64_MAX, r); /* they sleep, but they count as threads */
}

/* q has a new head or a new `done`: do all that follows, in the queues that waited for it too. */
static void settle_locked(jitc_pool *p, jitc_queue *q, jitc_rousing *r) REQUIRES(&p->lock) {
    jitc_queue *moved =
        q; /* each queue is in here at most once: its head ended, and no other has */
    q->moved_next = NULL;
    while (moved) {
        q = moved;
        moved = q->moved_next;
        start_head_locked(p, q, r);
        wake_callers_locked(p, q, jitc_load_relaxed(&q->done), r);
        for (jitc_work **link = &q->parked; *link;) {
            jitc_work *w = *link;
            if (!jitc_queue_done(q, w->awaited_number)) {
                link = &w->parked_next;
                continue;
            }
            *link = w->parked_next;
            w->queue->moved_next = moved;
            moved = w->queue;
            end_head_locked(p, moved); /* w */
        }
    }
}

void jitc_pool_release_locked(jitc_pool *p, jitc_work *w, jitc_rousing *r) {
    p->running -= w->kind == WORK_LANES;
    if (!is_open(w))
        unlist_locked(p, w);
    if (--w->helpers > 0 || w->listed)
        return;
    jitc_queue *q = w->queue;
    end_head_locked(p, q);
    settle_locked(p, q, r);
}

void jitc_pool_append_locked(jitc_pool *p, jitc_queue *q, jitc_work *w, jitc_rousing *r) {
    *(q->tail ? &q->tail->next : &q->head) = w;
    q->tail = w;
    if (q->head != w)
        return;
    settle_locked(p, q, r);
    jitc_pool_call_for_help_locked(p, r);
}
