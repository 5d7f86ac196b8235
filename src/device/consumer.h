/* consumer.h: the streams of others to which memory of a device was lent, told apart by the numbers
 * that the driver gives them.  Layer: device.  May include: core, ir.
 *
 * One that holds nothing any more may come to stand for another stream, once its marks are done: so
 * there are not more than hold something at once, and one for each bucket. Everything is guarded by
 * the lock of lend.c, but `marks`, which is set once. */
#ifndef JITC_DEVICE_CONSUMER_H
#define JITC_DEVICE_CONSUMER_H
#include "device/buffer.h"

/** Who reads what was lent, and what it has given back. */
typedef struct jitc_consumer {
    uint64_t id;                  /* 0: none */
    _Atomic(jitc_stream *) marks; /* stands for its stream; NULL: not wanted so far */
    struct jitc_lent *pending;
    unsigned loans; /* not ended */
    unsigned users; /* threads that have it in hands */
    bool apart;     /* to be waited for by marks only */
    struct jitc_consumer *next;
} jitc_consumer;

enum { JITC_CONSUMER_BUCKETS = 64 };

typedef struct jitc_consumers {
    jitc_consumer *bucket[JITC_CONSUMER_BUCKETS];
} jitc_consumers;

/** The consumer of a number, or NULL. */
jitc_consumer *jitc_consumer_find(const jitc_consumers *all, uint64_t id);
/** One that may come to stand for `id`, taken in hands, if its marks are done; or NULL. */
jitc_consumer *jitc_consumer_idle(const jitc_consumers *all, uint64_t id);
/** One that is in no bucket. */
void jitc_consumer_add(jitc_consumers *all, jitc_consumer *c, uint64_t id);

/** Under no lock: are all its marks done? */
bool jitc_consumer_done(jitc_consumer *c);
/** Under no lock: the stream that stands for it, made on the first call. */
jit_status jitc_consumer_marks(jitc_consumer *c, const jitc_device *d, jitc_stream **out);
/** The device ends: wait for all marks. */
void jitc_consumers_wait(const jitc_consumers *all);
void jitc_consumers_finish(jitc_consumers *all);
#endif
