/* sync_table.c: which token orders whom.  Layer: tests. */
#include "sync_table.h"
#include <jit/cuda.h>

const char *const sync_token_names[SYNC_TOKENS] = {"not given", "-1",     "0",           "1",
                                                   "2",         "handle", "other handle"};
const char *const sync_how_names[SYNC_HOWS] = {"one thread", "two threads, the producer's syncs",
                                               "two threads, the consumer's syncs",
                                               "two threads, the consumer's uses it and syncs"};
const char *const sync_kind_names[CONSUMER_KINDS] = {"legacy", "per-thread", "blocking",
                                                     "non-blocking"};
const char *const sync_place_names[CONSUMER_PLACES] = {"same context", "another context",
                                                       "another device"};

/* A column for each kind of consumer: legacy, per-thread, blocking, non-blocking; = ordered. */
typedef const char *const rows[SYNC_TOKENS];

/* ---- Who reads after us ---- */

static rows read_one_thread = {
    [SYNC_NOT_GIVEN] = "=...",    /* */
    [SYNC_NONE] = "=...",         /* legacy: by itself */
    [SYNC_0] = "====",            /* the CPU has waited */
    [SYNC_LEGACY] = "=...",       /* */
    [SYNC_PER_THREAD] = "==..",   /* */
    [SYNC_HANDLE] = "====",       /* */
    [SYNC_OTHER_HANDLE] = "=...", /* */
};
static rows read_two_threads = {
    [SYNC_NOT_GIVEN] = "=...",    /* */
    [SYNC_NONE] = "=...",         /* */
    [SYNC_0] = "====",            /* */
    [SYNC_LEGACY] = "=...",       /* */
    [SYNC_PER_THREAD] = "=...",   /* it is the default stream of the producer's thread ... */
    [SYNC_HANDLE] = "=.==",       /* ... also as a handle */
    [SYNC_OTHER_HANDLE] = "=...", /* */
};
static rows read_not_ours = {
    /* the calling thread has queued nothing */
    [SYNC_NOT_GIVEN] = "=...",    [SYNC_NONE] = "=...",       [SYNC_0] = "=...",
    [SYNC_LEGACY] = "=...",       [SYNC_PER_THREAD] = "=...", [SYNC_HANDLE] = "=...",
    [SYNC_OTHER_HANDLE] = "=...",
};
static rows read_elsewhere = {
    [SYNC_NOT_GIVEN] = "....",    /* that is our context's stream ... */
    [SYNC_NONE] = "....",         /* */
    [SYNC_0] = "====",            /* */
    [SYNC_LEGACY] = "....",       /* ... and this ... */
    [SYNC_PER_THREAD] = "....",   /* ... and this */
    [SYNC_HANDLE] = "..==",       /* */
    [SYNC_OTHER_HANDLE] = "....", /* */
};
static rows nothing = {
    [SYNC_NOT_GIVEN] = "....",    [SYNC_NONE] = "....",       [SYNC_0] = "....",
    [SYNC_LEGACY] = "....",       [SYNC_PER_THREAD] = "....", [SYNC_HANDLE] = "....",
    [SYNC_OTHER_HANDLE] = "....",
};

/* ---- Who writes before us ---- */

static rows write_one_thread = {
    [SYNC_NOT_GIVEN] = "=...",    /* */
    [SYNC_NONE] = "=...",         /* */
    [SYNC_0] = "==..",            /* both default streams; the CPU does not wait */
    [SYNC_LEGACY] = "=...",       /* */
    [SYNC_PER_THREAD] = "==..",   /* */
    [SYNC_HANDLE] = "====",       /* */
    [SYNC_OTHER_HANDLE] = "=...", /* */
};
static rows write_two_threads = {
    [SYNC_NOT_GIVEN] = "=...",    /* */
    [SYNC_NONE] = "=...",         /* */
    [SYNC_0] = "=...",            /* those of the calling thread */
    [SYNC_LEGACY] = "=...",       /* */
    [SYNC_PER_THREAD] = "=...",   /* */
    [SYNC_HANDLE] = "=.==",       /* */
    [SYNC_OTHER_HANDLE] = "=...", /* */
};
static rows write_elsewhere = {
    [SYNC_NOT_GIVEN] = "....",    /* */
    [SYNC_NONE] = "....",         /* */
    [SYNC_0] = "....",            /* */
    [SYNC_LEGACY] = "....",       /* */
    [SYNC_PER_THREAD] = "....",   /* */
    [SYNC_HANDLE] = "..==",       /* */
    [SYNC_OTHER_HANDLE] = "....", /* */
};

bool sync_orders_reader(sync_token t, sync_how how, consumer_place p, consumer_kind k) {
    rows *here[SYNC_HOWS] = {[SYNC_ONE_THREAD] = &read_one_thread,
                             [SYNC_BY_PRODUCER] = &read_two_threads,
                             [SYNC_BY_CONSUMER] = &read_not_ours,
                             [SYNC_USED_BY_CONSUMER] = &read_one_thread};
    rows *elsewhere = how == SYNC_BY_CONSUMER ? &nothing : &read_elsewhere;
    return (*(p == CONSUMER_HERE ? here[how] : elsewhere))[t][k] == '=';
}

bool sync_orders_writer(sync_token t, sync_how how, consumer_place p, consumer_kind k) {
    rows *table = how == SYNC_ONE_THREAD ? &write_one_thread : &write_two_threads;
    return (*(p == CONSUMER_HERE ? table : &write_elsewhere))[t][k] == '=';
}

uintptr_t sync_token_value(sync_token t, const consumer *c) {
    switch (t) {
        case SYNC_NOT_GIVEN: return (uintptr_t) JIT_STREAM_NOT_GIVEN;
        case SYNC_NONE: return (uintptr_t) JIT_STREAM_NONE;
        case SYNC_LEGACY: return (uintptr_t) JIT_STREAM_LEGACY;
        case SYNC_PER_THREAD: return (uintptr_t) JIT_STREAM_PER_THREAD;
        case SYNC_HANDLE: return consumer_stream(c);
        case SYNC_OTHER_HANDLE: return consumer_other_stream(c);
        default: return 0;
    }
}

int sync_events_of_sync(sync_token t, consumer_kind k) {
    return t == SYNC_PER_THREAD || t == SYNC_OTHER_HANDLE ||
           (t == SYNC_HANDLE && k != CONSUMER_LEGACY);
}

int sync_events_of_wait(sync_token t, consumer_kind k) {
    return t == SYNC_0 || sync_events_of_sync(t, k);
}
