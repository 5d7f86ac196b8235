/* consumer.h: another library that works on the same GPU, as the tests need one: streams and
 * contexts of its own, made directly with the driver, which copy from and to the arrays of this
 * one; and a gate that keeps a stream busy until it is opened.
 * Layer: tests.  May include: cuda/driver.h.
 *
 * Needs neither Criterion nor a started runtime. What the driver refuses ends the process with a
 * message. */
#ifndef JITC_TESTS_CONSUMER_H
#define JITC_TESTS_CONSUMER_H
#include "cuda/driver.h"
#include <semaphore.h>

/** On which stream it works. */
typedef enum consumer_kind {
    CONSUMER_LEGACY,     /* the legacy default stream of its context */
    CONSUMER_PER_THREAD, /* the default stream of its thread */
    CONSUMER_BLOCKING,   /* one that it has made */
    CONSUMER_NON_BLOCKING,
    CONSUMER_KINDS
} consumer_kind;

/** In which context, seen from device `device` of the array. */
typedef enum consumer_place {
    CONSUMER_HERE,      /* the primary one of the device */
    CONSUMER_OWN,       /* one of its own, on the device */
    CONSUMER_ELSEWHERE, /* the primary one of the next device */
    CONSUMER_PLACES
} consumer_place;

typedef struct consumer consumer;

/** Is there what `place` needs? */
bool consumer_can(consumer_place place, int device);
/** A consumer for arrays of at most `words` words. With `own_thread` everything that it does is
 * done by a thread of its own. */
consumer *consumer_create(consumer_kind kind, consumer_place place, int device, size_t words,
                          bool own_thread);
/** Waits for its stream. */
void consumer_destroy(consumer *c);
/** Its stream, as jit_cuda_sync_stream() takes it: a handle, or the number of a default stream. */
uintptr_t consumer_stream(const consumer *c);
/** The same of another stream of its context, non-blocking, on which nothing happens. */
uintptr_t consumer_other_stream(const consumer *c);

/** Queue a copy of device memory to where consumer_data() is. */
void consumer_read(consumer *c, void *from, size_t words);
/** Queue a copy of `words` times `word` into device memory. */
void consumer_write(consumer *c, void *to, uint32_t word, size_t words);
/** Its event, recorded behind all that is queued. */
CUevent consumer_record(consumer *c);
/** Queue work that takes so long, and touches nothing. */
void consumer_delay(consumer *c, unsigned microseconds);
/** Is everything done that was queued? Never waits. */
bool consumer_done(consumer *c);
void consumer_wait(consumer *c);
/** What was read; once consumer_wait() has returned. */
const uint32_t *consumer_data(const consumer *c);
/** Call a function in the thread in which it works, and wait until it returns. */
void consumer_call(consumer *c, void (*function)(void *), void *context);

/** Work that keeps a stream busy until the gate is opened. */
typedef struct consumer_gate {
    sem_t open;
} consumer_gate;
/** On a stream of the primary context of a device. */
void consumer_gate_close(consumer_gate *g, CUstream stream, int device);
/** On the consumer's stream. */
void consumer_close_gate(consumer *c, consumer_gate *g);
void consumer_gate_open(consumer_gate *g);

/** Sets the pointer to a function at `function` to one of the driver under test, which has to be
 * there. */
void consumer_driver(void *function, const char *symbol);
/** The call succeeded, or the process ends. */
void consumer_must(CUresult result, const char *what);
#endif
