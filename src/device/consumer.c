#include "device/consumer.h"
#include <stdlib.h>

static jitc_consumer *const *bucket_of(const jitc_consumers *all, uint64_t id) {
    return &all->bucket[id % JITC_CONSUMER_BUCKETS];
}

jitc_consumer *jitc_consumer_find(const jitc_consumers *all, uint64_t id) {
    jitc_consumer *c = *bucket_of(all, id);
    while (c && c->id != id)
        c = c->next;
    return c;
}

jitc_consumer *jitc_consumer_idle(const jitc_consumers *all, uint64_t id) {
    jitc_consumer *c = *bucket_of(all, id);
    while (c && (c->pending || c->loans || c->users))
        c = c->next;
    if (c) {
        c->users = 1;
        c->id = 0; /* nobody finds it */
    }
    return c;
}

void jitc_consumer_add(jitc_consumers *all, jitc_consumer *c, uint64_t id) {
    jitc_consumer **bucket = &all->bucket[id % JITC_CONSUMER_BUCKETS];
    c->id = id;
    c->next = *bucket;
    *bucket = c;
}

bool jitc_consumer_done(jitc_consumer *c) {
    jitc_stream *s = jitc_load_acquire(&c->marks); /* pairs with jitc_consumer_marks */
    return !s || s->backend->done(s, jitc_load_acquire(&s->queued)); /* pairs with who marks */
}

jit_status jitc_consumer_marks(jitc_consumer *c, const jitc_device *d, jitc_stream **out) {
    jitc_stream *none = NULL;
    *out = jitc_load_acquire(&c->marks); /* pairs with the exchange below */
    if (*out)
        return JIT_OK;
    TRY(d->backend->consumer_create(d->backend, d->id, out));
    (*out)->backend = d->backend;
    (*out)->device = d->id;
    (*out)->index = 0;
    if (jitc_compare_exchange(&c->marks, &none, *out))
        return JIT_OK;
    d->backend->stream_destroy(*out); /* another thread was first */
    *out = none;
    return JIT_OK;
}

void jitc_consumers_wait(const jitc_consumers *all) {
    for (int i = 0; i < JITC_CONSUMER_BUCKETS; ++i)
        for (jitc_consumer *c = all->bucket[i]; c; c = c->next) {
            jitc_stream *s = jitc_load_acquire(&c->marks); /* pairs with jitc_consumer_marks */
            if (s)
                s->backend->wait(s, jitc_load_acquire(&s->queued)); /* pairs with who marks */
        }
}

void jitc_consumers_finish(jitc_consumers *all) {
    for (int i = 0; i < JITC_CONSUMER_BUCKETS; ++i)
        for (jitc_consumer *c = all->bucket[i], *next; c; c = next) {
            next = c->next;
            jitc_stream *s = jitc_load_acquire(&c->marks); /* pairs with jitc_consumer_marks */
            if (s)
                s->backend->stream_destroy(s);
            free(c);
        }
}
