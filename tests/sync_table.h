/* sync_table.h: which token of jit_cuda_sync_stream() and jit_cuda_wait_stream() orders whom: what
 * test_sync_tokens.c holds the library to on the simulated driver, and test_sync_real.c on a GPU.
 * Layer: tests.  May include: consumer.h.
 *
 * The rules. Our streams are blocking ones of the device's primary context, so that its legacy
 * default stream waits for them, and they for it; nothing else waits by itself: not the default
 * stream of a thread, nor any other stream, nor anything of another context. A token orders the
 * stream that it names; 1 and 2 name streams of our context, and 2 that of the calling thread. What
 * is ordered is what the calling thread has queued. */
#ifndef JITC_TESTS_SYNC_TABLE_H
#define JITC_TESTS_SYNC_TABLE_H
#include "consumer.h"

typedef enum sync_token {
    SYNC_NOT_GIVEN,
    SYNC_NONE,         /* -1 */
    SYNC_0,            /*  0 */
    SYNC_LEGACY,       /*  1 */
    SYNC_PER_THREAD,   /*  2 */
    SYNC_HANDLE,       /* that of the consumer's stream: of a default stream 1 or 2 */
    SYNC_OTHER_HANDLE, /* that of a stream which the consumer does not use */
    SYNC_TOKENS
} sync_token;

/** Who does what. */
typedef enum sync_how {
    SYNC_ONE_THREAD,  /* the array is computed, the token given and the array read in one thread */
    SYNC_BY_PRODUCER, /* the consumer has a thread of its own; the producer's gives the token */
    SYNC_BY_CONSUMER, /* likewise; but the consumer's thread gives it, having queued nothing */
    SYNC_USED_BY_CONSUMER, /* likewise; and it has computed something with the array, and reads that
                            */
    SYNC_HOWS
} sync_how;

extern const char *const sync_token_names[SYNC_TOKENS];
extern const char *const sync_how_names[SYNC_HOWS];
extern const char *const sync_kind_names[CONSUMER_KINDS];
extern const char *const sync_place_names[CONSUMER_PLACES];

/** The number that the token is for a consumer. */
uintptr_t sync_token_value(sync_token t, const consumer *c);
/** After jit_cuda_sync_stream(): does the consumer read what was computed? */
bool sync_orders_reader(sync_token t, sync_how how, consumer_place p, consumer_kind k);
/** After jit_cuda_wait_stream(): does our next kernel read what the consumer has written before?
 * `how` is one of the first two. */
bool sync_orders_writer(sync_token t, sync_how how, consumer_place p, consumer_kind k);
/** How often the driver has to be asked to record an event, and to let a stream wait for it: once
 * or not at all. */
int sync_events_of_sync(sync_token t, consumer_kind k);
int sync_events_of_wait(sync_token t, consumer_kind k);
#endif
