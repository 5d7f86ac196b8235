/* table.c: see table.h for why readers need no lock.  Layer: cache. */
#include "cache/table.h"
#include <stdlib.h>
#include <string.h>

enum { FIRST_SLOTS = 64 };

/* An array that was outgrown is kept, since readers may be in it: together they are smaller than
 * the one in use. */
struct jitc_slots {
    size_t mask;
    struct jitc_slots *older;
    _Atomic(jitc_entry *) at[];
};
typedef struct jitc_slots slots;

static uint64_t tag_of(const jitc_key *k) {
    return k->hash.lo ^ (uint64_t) (k->device + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static bool matches(const jitc_entry *e, const jitc_key *k, const jitc_program *p) {
    return jitc_hash_equal(e->key.hash, k->hash) && e->key.backend == k->backend &&
           e->key.device == k->device && jitc_program_equal(&e->program, p);
}

/* ---- Slots, under the lock ---- */

static jit_status slots_create(size_t size, slots *older, slots **out) {
    TRY(jitc_calloc(1, sizeof **out + size * sizeof(*out)->at[0], (void **) out));
    (*out)->mask = size - 1;
    (*out)->older = older;
    return JIT_OK;
}

/* Pairs with the load_acquire in jitc_table_find. */
static void slots_put(slots *s, jitc_entry *e) {
    size_t i = jitc_load_relaxed(&e->tag) & s->mask;
    while (jitc_load_relaxed(&s->at[i]))
        i = (i + 1) & s->mask;
    jitc_store_release(&s->at[i], e);
}

/* Empty slot `gap`: entries behind it that would not be found any more move up. */
static void slots_close(slots *s, size_t gap) {
    for (size_t i = (gap + 1) & s->mask;; i = (i + 1) & s->mask) {
        jitc_entry *e = jitc_load_relaxed(&s->at[i]);
        if (!e)
            break;
        size_t home = jitc_load_relaxed(&e->tag) & s->mask;
        if (((i - home) & s->mask) >= ((i - gap) & s->mask)) {
            jitc_store_release(&s->at[gap], e);
            gap = i;
        }
    }
    jitc_store_release(&s->at[gap], NULL);
}

static void bury_later(jitc_entry *e, jitc_entry **dead) {
    e->next = *dead;
    *dead = e;
}

/* Clock: an entry that was used since the hand last passed is spared once. False if all are in use.
 */
static bool evict_locked(jitc_table *t, jitc_entry **dead) REQUIRES(&t->lock) {
    slots *s = jitc_load_relaxed(&t->slots);
    for (size_t steps = 2 * (s->mask + 1); steps; steps--) {
        size_t i = t->hand & s->mask;
        jitc_entry *e = jitc_load_relaxed(&s->at[i]);
        if (e && !jitc_exchange_acquire(&e->used, false) && jitc_refcount_down_if_last(&e->refs)) {
            slots_close(s, i); /* the hand stays: another entry may have moved here */
            jitc_add_relaxed(&t->count, (size_t) -1);
            bury_later(e, dead);
            return true;
        }
        t->hand = i + 1;
    }
    return false;
}

/* Keep the table at most half full. */
static jit_status grow_locked(jitc_table *t) REQUIRES(&t->lock) {
    slots *old = jitc_load_relaxed(&t->slots), *grown;
    if (2 * (jitc_load_relaxed(&t->count) + 1) <= old->mask + 1)
        return JIT_OK;
    TRY(slots_create(2 * (old->mask + 1), old, &grown));
    for (size_t i = 0; i <= old->mask; i++) {
        jitc_entry *e = jitc_load_relaxed(&old->at[i]);
        if (e)
            slots_put(grown, e);
    }
    jitc_store_release(&t->slots, grown); /* pairs with jitc_table_find */
    return JIT_OK;
}

jit_status jitc_table_insert_locked(jitc_table *t, jitc_entry *e, unsigned users, size_t limit,
                                    jitc_entry **dead) {
    while (jitc_load_relaxed(&t->count) >= limit && evict_locked(t, dead)) {
    }
    TRY(grow_locked(t));
    jitc_store_relaxed(&e->used, true);
    jitc_store_release(&e->refs.count, users + 1); /* pairs with up_unless_zero in find */
    slots_put(jitc_load_relaxed(&t->slots), e);
    jitc_add_relaxed(&t->count, 1);
    return JIT_OK;
}

void jitc_table_clear_locked(jitc_table *t, jitc_entry **dead) {
    slots *s = jitc_load_relaxed(&t->slots);
    for (size_t i = 0; i <= s->mask; i++) {
        jitc_entry *e = jitc_load_relaxed(&s->at[i]);
        if (!e)
            continue;
        jitc_store_relaxed(&s->at[i], NULL);
        if (jitc_refcount_down(&e->refs))
            bury_later(e, dead);
    }
    jitc_store_relaxed(&t->count, 0);
}

/* ---- Entries ---- */

jit_status jitc_table_make(jitc_table *t, const jitc_key *key, const jitc_program *p,
                           jitc_entry **out) {
    jitc_mutex_lock(&t->lock);
    jitc_entry *e = t->free;
    if (e)
        t->free = e->next;
    jitc_mutex_unlock(&t->lock);
    if (!e) {
        TRY(jitc_calloc(1, sizeof *e, (void **) &e));
        jitc_mutex_lock(&t->lock);
        e->older = t->all;
        t->all = e;
        jitc_mutex_unlock(&t->lock);
    }
    e->key = *key;
    jitc_store_relaxed(&e->tag, tag_of(key));
    jit_status status = jitc_program_copy(p, &e->program);
    e->cached.program = &e->program;
    if (status != JIT_OK)
        jitc_table_bury(t, (e->next = NULL, e));
    *out = status == JIT_OK ? e : NULL;
    return status;
}

static void unmake(jitc_entry *e) {
    if (e->cached.kernel)
        e->key.backend->kernel_destroy(e->key.backend, e->cached.kernel);
    e->cached.kernel = NULL;
    jitc_program_finish(&e->program);
    e->program = (jitc_program) {0};
}

void jitc_table_bury(jitc_table *t, jitc_entry *dead) {
    while (dead) {
        jitc_entry *e = dead;
        dead = e->next;
        unmake(e);
        jitc_mutex_lock(&t->lock);
        e->next = t->free;
        t->free = e;
        jitc_mutex_unlock(&t->lock);
    }
}

void jitc_table_release(jitc_table *t, jitc_entry *e) {
    if (jitc_refcount_down(&e->refs)) {
        e->next = NULL;
        jitc_table_bury(t, e);
    }
}

jitc_entry *jitc_table_find(jitc_table *t, const jitc_key *key, const jitc_program *p) {
    /* pairs with grow_locked */
    slots *s = jitc_load_acquire(&t->slots);
    uint64_t tag = tag_of(key);
    for (size_t i = tag & s->mask, left = s->mask; left; i = (i + 1) & s->mask, left--) {
        jitc_entry *e = jitc_load_acquire(&s->at[i]); /* pairs with slots_put */
        if (!e)
            break;
        if (jitc_load_relaxed(&e->tag) != tag || !jitc_refcount_up_unless_zero(&e->refs))
            continue;
        if (matches(e, key, p)) {
            if (!jitc_load_relaxed(&e->used))
                jitc_store_relaxed(&e->used, true);
            return e;
        }
        jitc_table_release(t, e);
    }
    return NULL;
}

/* ---- The whole ---- */

jit_status jitc_table_init(jitc_table *t) {
    slots *s;
    TRY(slots_create(FIRST_SLOTS, NULL, &s));
    *t = (jitc_table) {0};
    jitc_mutex_init(&t->lock);
    jitc_store_relaxed(&t->slots, s);
    return JIT_OK;
}

void jitc_table_finish(jitc_table *t) {
    for (jitc_entry *e = t->all, *older; e; e = older) {
        older = e->older;
        unmake(e);
        free(e);
    }
    for (slots *s = jitc_load_relaxed(&t->slots), *older; s; s = older) {
        older = s->older;
        free(s);
    }
    jitc_mutex_finish(&t->lock);
}

/* The free entries among them. */
static void forget_unheld(jitc_table *t) {
    for (jitc_entry **link = &t->all; *link;)
        if (jitc_load_relaxed(&(*link)->refs.count) == 0)
            *link = (*link)->older;
        else
            link = &(*link)->older;
    t->free = NULL;
}

void jitc_table_forked(jitc_table *t) UNCHECKED_LOCKING {
    forget_unheld(t);
    jitc_mutex_unlock(&t->lock);
}
