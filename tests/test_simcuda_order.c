/* test_simcuda_order.c: which work on two streams is ordered, as the simulated driver's checker
 * sees it and as a real driver does it.
 *
 * A stream writes a word, another one reads it. Where nothing orders them the checker has to report
 * that, whichever runs first; a real driver (JITC_LIBCUDA=libcuda.so.1), where the writer is slow,
 * reads the old word. Where they are ordered there is no report, and the new word is read. */
#include "simcuda_client.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LEGACY ((CUstream) 1)
#define LOCAL  ((CUstream) (intptr_t) -1) /* NULL, given to the functions _ptsz */

enum { SLOW_US = 20000 };

typedef enum timing {
    WRITER_LAST,  /* simulated: held up until all is queued */
    WRITER_FIRST, /* simulated: it is done before anything else is queued */
    WRITER_SLOW   /* real */
} timing;

typedef struct world {
    timing timing;
    CUcontext context;
    CUdeviceptr word;
    unsigned *seen;      /* what was read */
    CUstream a, b, f, g; /* two blocking ones and two others */
    CUevent event;
    gate gate;
    bool closed;
    unsigned races;
} world;

/* ---- work ---- */

static CUresult record(CUevent event, CUstream s) {
    return s == LOCAL ? cu.EventRecordLocal(event, NULL) : cu.EventRecord(event, s);
}

static CUresult wait_event(CUstream s, CUevent event) {
    return s == LOCAL ? cu.StreamWaitEventLocal(NULL, event, 0) : cu.StreamWaitEvent(s, event, 0);
}

static void sleep_long(void *argument) {
    (void) argument;
    usleep(SLOW_US);
}

static void post(void *semaphore) {
    sem_post(semaphore);
}

/** Let `s` get so far, without asking the driver. */
static void reach(CUstream s) {
    sem_t done;
    sem_init(&done, 0, 0);
    OK(cu.LaunchHostFunc(s, post, &done));
    sem_wait(&done);
    sem_destroy(&done);
}

/** Queue on `s`: word = value. */
static void produce(world *w, CUstream s, unsigned value) {
    CUstream handle = s == LOCAL ? PER_THREAD : s;
    if (w->timing == WRITER_SLOW)
        OK(cu.LaunchHostFunc(handle, sleep_long, NULL));
    if (w->timing == WRITER_LAST && !w->closed) {
        gate_close(&w->gate, handle);
        w->closed = true;
    }
    OK(s == LOCAL ? cu.MemsetD32AsyncLocal(w->word, value, 1, NULL)
                  : cu.MemsetD32Async(w->word, value, 1, s));
    if (w->timing == WRITER_FIRST)
        reach(handle);
}

/** The writer is held up no longer. */
static void let_go(world *w) {
    if (w->closed)
        gate_open(&w->gate);
    w->closed = false;
}

/** Queue on `s`: *seen = word. */
static void consume(world *w, CUstream s) {
    *w->seen = 77;
    OK(s == LOCAL ? cu.MemcpyDtoHAsyncLocal(w->seen, w->word, 4, NULL)
                  : cu.MemcpyDtoHAsync(w->seen, w->word, 4, s));
}

/* ---- verdicts ---- */

static void settle(world *w) {
    OK(cu.CtxSynchronize());
    OK(cu.MemsetD32Async(w->word, 0, 1, NULL));
    OK(cu.CtxSynchronize());
    w->races = cu.races ? cu.races() : 0;
}

static void check(world *w, bool ordered, unsigned value, int line) {
    let_go(w);
    OK(cu.CtxSynchronize());
    if (w->timing == WRITER_SLOW || ordered)
        cr_expect_eq(*w->seen == value, ordered, "line %d: %u was read", line, *w->seen);
    if (w->timing != WRITER_SLOW)
        cr_expect_eq(cu.races() - w->races, !ordered, "line %d: %u races, timing %d; all: %s", line,
                     cu.races() - w->races, (int) w->timing, cu.fault_text());
    settle(w);
}
#define ORDERED(w, value) check(w, true, value, __LINE__)
#define RACES(w, value)   check(w, false, value, __LINE__)

/* ---- worlds ---- */

static world create(int device, timing t) {
    world w = {.timing = t};
    OK(cu.PrimaryCtxRetain(&w.context, device));
    OK(cu.CtxPushCurrent(w.context));
    OK(cu.MemHostAlloc((void **) &w.seen, 4, 0));
    OK(cu.EventCreate(&w.event, CU_EVENT_DISABLE_TIMING));
    w.word = client_alloc(4);
    w.a = client_stream(CU_STREAM_DEFAULT);
    w.b = client_stream(CU_STREAM_DEFAULT);
    w.f = client_stream(CU_STREAM_NON_BLOCKING);
    w.g = client_stream(CU_STREAM_NON_BLOCKING);
    settle(&w);
    return w;
}

static void destroy(world *w, int device) {
    CUstream streams[] = {w->a, w->b, w->f, w->g};
    OK(cu.CtxSynchronize());
    for (int i = 0; i < 4; i++)
        OK(cu.StreamDestroy(streams[i]));
    OK(cu.EventDestroy(w->event));
    OK(cu.MemFree(w->word));
    OK(cu.MemFreeHost(w->seen));
    OK(cu.CtxPopCurrent(&w->context));
    OK(cu.PrimaryCtxRelease(device));
}

static int start(bool *simulated) {
    int devices = 0;
    *simulated = client_open_any();
    OK(cu.Init(0));
    OK(cu.DeviceGetCount(&devices));
    return devices;
}

/** On every device, with every timing. */
static void everywhere(void (*rules)(world *w)) {
    bool simulated;
    int devices = start(&simulated);
    for (int i = 0; i < devices; i++)
        for (timing t = WRITER_LAST; t <= WRITER_SLOW; t++)
            if (simulated == (t != WRITER_SLOW)) {
                world w = create(i, t);
                rules(&w);
                destroy(&w, i);
            }
    if (simulated) {
        cr_assert_eq(cu.faults(), cu.races(), "%s", cu.fault_text());
        cr_assert_eq(cu.alive(NULL), 0);
    }
}

/** Nothing but the streams themselves. */
static void hand_over(world *w, CUstream from, CUstream to) {
    produce(w, from, 1);
    consume(w, to);
}

/* ---- implicit order ---- */

static void legacy_and_blocking(world *w) {
    hand_over(w, w->a, NULL);
    ORDERED(w, 1);
    hand_over(w, w->a, LEGACY);
    ORDERED(w, 1);
    hand_over(w, NULL, w->a);
    ORDERED(w, 1);
    hand_over(w, LEGACY, w->b);
    ORDERED(w, 1);
    hand_over(w, w->a, w->a);
    ORDERED(w, 1);
}
Test(simcuda_order, the_legacy_stream_and_blocking_ones_wait_for_each_other) {
    everywhere(legacy_and_blocking);
}

static void legacy_and_per_thread(world *w) {
    hand_over(w, PER_THREAD, NULL);
    ORDERED(w, 1);
    hand_over(w, LOCAL, LEGACY);
    ORDERED(w, 1);
    hand_over(w, NULL, PER_THREAD);
    ORDERED(w, 1);
    hand_over(w, LEGACY, LOCAL);
    ORDERED(w, 1);
    hand_over(w, LOCAL, PER_THREAD);
    ORDERED(w, 1);
}
Test(simcuda_order, the_legacy_stream_and_a_threads_own_wait_for_each_other) {
    everywhere(legacy_and_per_thread);
}

static void blocking(world *w) {
    hand_over(w, w->a, w->b);
    RACES(w, 1);
    hand_over(w, w->a, PER_THREAD);
    RACES(w, 1);
    hand_over(w, w->a, LOCAL);
    RACES(w, 1);
    hand_over(w, PER_THREAD, w->a);
    RACES(w, 1);
}
Test(simcuda_order, blocking_streams_do_not_wait_for_each_other) {
    everywhere(blocking);
}

static void non_blocking(world *w) {
    hand_over(w, w->a, w->f);
    RACES(w, 1);
    hand_over(w, w->f, w->a);
    RACES(w, 1);
    hand_over(w, w->f, NULL);
    RACES(w, 1);
    hand_over(w, w->f, w->g);
    RACES(w, 1);
    hand_over(w, w->f, PER_THREAD);
    RACES(w, 1);
    hand_over(w, PER_THREAD, w->f);
    RACES(w, 1);
}
Test(simcuda_order, non_blocking_streams_wait_for_none_and_none_for_them) {
    everywhere(non_blocking);
}

static void from_legacy_to_non_blocking(world *w) {
    hand_over(w, NULL, w->f);
    RACES(w, 1);
}
Test(simcuda_order, a_non_blocking_stream_does_not_wait_for_the_legacy_one) {
    everywhere(from_legacy_to_non_blocking);
}

static void something_in_between(world *w) {
    produce(w, w->a, 1);
    OK(record(w->event, NULL)); /* any action */
    consume(w, w->b);
    ORDERED(w, 1);
    produce(w, w->a, 1);
    OK(record(w->event, w->f)); /* not of the legacy stream */
    consume(w, w->b);
    RACES(w, 1);
}
Test(simcuda_order, work_of_the_legacy_stream_orders_blocking_streams) {
    everywhere(something_in_between);
}

/* ---- events ---- */

static void hand_over_by_event(world *w, CUstream from, CUstream waits, CUstream to) {
    produce(w, from, 1);
    OK(record(w->event, from));
    OK(wait_event(waits, w->event));
    consume(w, to);
}

static void record_and_wait(world *w) {
    CUstream streams[] = {w->a, w->b, w->f, w->g, PER_THREAD, LOCAL, NULL, LEGACY};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
            hand_over_by_event(w, streams[i], streams[j], streams[j]);
            ORDERED(w, 1);
        }
    hand_over_by_event(w, w->a, LOCAL, PER_THREAD); /* two names of one stream */
    ORDERED(w, 1);
    hand_over_by_event(w, w->f, PER_THREAD, LOCAL);
    ORDERED(w, 1);
    hand_over_by_event(w, w->f, NULL, w->b); /* by way of the legacy stream */
    ORDERED(w, 1);
}
Test(simcuda_order, a_wait_for_an_event_orders_any_two_streams) {
    everywhere(record_and_wait);
}

static void other_streams_wait(world *w) {
    hand_over_by_event(w, w->a, w->g, w->f);
    RACES(w, 1);
    hand_over_by_event(w, w->f, w->a, PER_THREAD);
    RACES(w, 1);
    hand_over_by_event(w, w->f, PER_THREAD, w->g);
    RACES(w, 1);
}
Test(simcuda_order, a_wait_of_another_stream_is_none) {
    everywhere(other_streams_wait);
}

static void events_at_another_time(world *w) {
    produce(w, w->a, 1);
    OK(record(w->event, w->a)); /* too early */
    produce(w, w->a, 2);
    OK(wait_event(w->f, w->event));
    consume(w, w->f);
    RACES(w, 2);
    produce(w, w->a, 1);
    OK(record(w->event, w->a));
    consume(w, w->f); /* the wait is too late */
    OK(wait_event(w->f, w->event));
    RACES(w, 1);
    produce(w, w->a, 1);
    OK(wait_event(w->f, w->event)); /* before it is recorded */
    OK(record(w->event, w->a));
    consume(w, w->f);
    RACES(w, 1);
}
Test(simcuda_order, an_event_stands_for_what_was_queued_before_it) {
    everywhere(events_at_another_time);
}

static void recorded_again(world *w) {
    produce(w, w->a, 1);
    OK(record(w->event, w->a));
    OK(wait_event(w->f, w->event));
    OK(record(w->event, w->b)); /* the wait is for the first */
    consume(w, w->f);
    ORDERED(w, 1);
    produce(w, w->a, 1);
    OK(record(w->event, w->a));
    OK(record(w->event, w->b)); /* the wait is for this one */
    OK(wait_event(w->f, w->event));
    consume(w, w->f);
    RACES(w, 1);
}
Test(simcuda_order, a_wait_is_for_the_last_record_before_it) {
    everywhere(recorded_again);
}

static void never_recorded(world *w) {
    CUevent event;
    OK(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING));
    produce(w, w->a, 1);
    OK(wait_event(w->f, event));
    OK(cu.EventQuery(event));
    OK(cu.EventSynchronize(event));
    consume(w, w->f);
    RACES(w, 1);
    produce(w, w->a, 1);
    OK(record(event, w->a));
    OK(wait_event(w->f, event));
    OK(cu.EventDestroy(event)); /* what waits has its place */
    consume(w, w->f);
    ORDERED(w, 1);
}
Test(simcuda_order, an_event_that_was_never_recorded_orders_nothing) {
    everywhere(never_recorded);
}

static void chains(world *w) {
    produce(w, w->a, 1);
    OK(record(w->event, w->a));
    OK(wait_event(w->f, w->event));
    OK(record(w->event, w->f));
    OK(wait_event(w->g, w->event));
    consume(w, w->g);
    ORDERED(w, 1);
    produce(w, w->a, 1);
    OK(record(w->event, w->f)); /* before it has waited */
    OK(wait_event(w->g, w->event));
    OK(record(w->event, w->a));
    OK(wait_event(w->f, w->event));
    consume(w, w->g);
    RACES(w, 1);
}
Test(simcuda_order, order_goes_on_from_stream_to_stream) {
    everywhere(chains);
}

/* ---- threads ---- */

typedef struct helper {
    world *w;
    bool waits;
} helper;

static void *consume_elsewhere(void *argument) {
    helper *h = argument;
    OK(cu.CtxPushCurrent(h->w->context));
    if (h->waits)
        OK(wait_event(LOCAL, h->w->event));
    consume(h->w, PER_THREAD);
    OK(cu.CtxPopCurrent(&h->w->context));
    return NULL;
}

static void in_another_thread(world *w, bool waits) {
    helper h = {w, waits};
    pthread_t thread;
    pthread_create(&thread, NULL, consume_elsewhere, &h);
    pthread_join(thread, NULL);
}

static void threads(world *w) {
    produce(w, PER_THREAD, 1);
    in_another_thread(w, false);
    RACES(w, 1);
    produce(w, w->a, 1);
    OK(record(w->event, w->a));
    OK(wait_event(PER_THREAD, w->event)); /* this thread's */
    in_another_thread(w, false);
    RACES(w, 1);
    produce(w, w->a, 1);
    OK(record(w->event, w->a));
    in_another_thread(w, true);
    ORDERED(w, 1);
}
Test(simcuda_order, each_thread_has_its_own_default_stream) {
    everywhere(threads);
}

/* ---- the host waits ---- */

static void stream_synchronise(world *w) {
    produce(w, w->f, 1);
    let_go(w);
    OK(cu.StreamSynchronize(w->f));
    consume(w, w->g);
    ORDERED(w, 1);
    produce(w, w->f, 1);
    OK(cu.StreamSynchronize(w->g));
    OK(cu.StreamSynchronize(w->a));
    consume(w, w->g);
    RACES(w, 1);
    produce(w, w->a, 1);
    let_go(w);
    OK(cu.StreamSynchronize(NULL)); /* for all blocking streams */
    consume(w, w->g);
    ORDERED(w, 1);
}
Test(simcuda_order, the_host_waits_for_a_stream) {
    everywhere(stream_synchronise);
}

static void event_synchronise(world *w) {
    produce(w, w->f, 1);
    OK(record(w->event, w->f));
    let_go(w);
    OK(cu.EventSynchronize(w->event));
    consume(w, w->g);
    ORDERED(w, 1);
    OK(record(w->event, w->f));
    produce(w, w->f, 1);
    OK(cu.EventSynchronize(w->event));
    consume(w, w->g);
    RACES(w, 1);
}
Test(simcuda_order, the_host_waits_for_an_event) {
    everywhere(event_synchronise);
}

static void context_synchronise(world *w) {
    produce(w, w->f, 1);
    let_go(w);
    OK(cu.CtxSynchronize());
    consume(w, w->g);
    ORDERED(w, 1);
    produce(w, PER_THREAD, 1);
    let_go(w);
    OK(cu.CtxSynchronize());
    consume(w, w->g);
    ORDERED(w, 1);
}
Test(simcuda_order, the_host_waits_for_a_context) {
    everywhere(context_synchronise);
}

static void queries(world *w) {
    produce(w, w->f, 1);
    OK(record(w->event, w->f));
    if (w->timing != WRITER_FIRST) {
        GIVES(cu.EventQuery(w->event), CUDA_ERROR_NOT_READY);
        GIVES(cu.StreamQuery(w->f), CUDA_ERROR_NOT_READY);
    }
    consume(w, w->g);
    RACES(w, 1);
    produce(w, w->f, 1);
    OK(record(w->event, w->f));
    let_go(w);
    while (cu.EventQuery(w->event) == CUDA_ERROR_NOT_READY)
        usleep(50);
    consume(w, w->g);
    ORDERED(w, 1);
    produce(w, w->f, 1);
    let_go(w);
    while (cu.StreamQuery(w->f) == CUDA_ERROR_NOT_READY)
        usleep(50);
    consume(w, w->g);
    ORDERED(w, 1);
}
Test(simcuda_order, a_query_that_is_successful_is_a_wait) {
    everywhere(queries);
}

/** Whoever reads after a copy to the host that waits comes after what was copied. */
static void synchronous_copies(world *w) {
    unsigned word = 0;
    produce(w, w->a, 1);
    let_go(w);
    OK(cu.MemcpyDtoH(&word, w->word, 4)); /* on the legacy stream */
    cr_expect_eq(word, 1);
    consume(w, w->f);
    ORDERED(w, 1);
    produce(w, w->f, 1);
    *w->seen = 77;
    OK(cu.MemcpyDtoH(w->seen, w->word, 4));
    RACES(w, 1);
    produce(w, w->a, 1);
    *w->seen = 77;
    OK(cu.MemcpyDtoHLocal(w->seen, w->word, 4)); /* on the thread's stream */
    RACES(w, 1);
    produce(w, PER_THREAD, 1);
    let_go(w);
    OK(cu.MemcpyDtoHLocal(w->seen, w->word, 4));
    ORDERED(w, 1);
}
Test(simcuda_order, synchronous_copies_are_work_of_a_default_stream_for_which_the_host_waits) {
    everywhere(synchronous_copies);
}

/* ---- two devices ---- */

static void across(world *w, world *other) {
    CUstream elsewhere[] = {other->a, other->f};
    for (int i = 0; i < 2; i++) {
        produce(w, w->a, 1);
        OK(cu.CtxPushCurrent(other->context));
        consume(w, elsewhere[i]);
        OK(cu.StreamSynchronize(elsewhere[i]));
        OK(cu.CtxPopCurrent(&other->context));
        RACES(w, 1);
        produce(w, w->a, 1);
        OK(record(w->event, w->a));
        OK(cu.CtxPushCurrent(other->context));
        OK(wait_event(elsewhere[i], w->event));
        consume(w, elsewhere[i]);
        let_go(w);
        OK(cu.StreamSynchronize(elsewhere[i]));
        OK(cu.CtxPopCurrent(&other->context));
        ORDERED(w, 1);
    }
    produce(w, w->a, 1);
    OK(cu.CtxPushCurrent(other->context)); /* its legacy stream */
    consume(w, NULL);
    OK(cu.StreamSynchronize(NULL));
    OK(cu.CtxPopCurrent(&other->context));
    RACES(w, 1);
}

Test(simcuda_order, events_order_work_of_two_devices_and_legacy_streams_do_not) {
    bool simulated;
    int devices = start(&simulated);
    if (devices < 2)
        cr_skip_test("this takes two devices");
    for (timing t = WRITER_LAST; t <= WRITER_SLOW; t++)
        for (int i = 0; i < 2 && simulated == (t != WRITER_SLOW); i++) {
            world other = create(1 - i, t), w = create(i, t);
            across(&w, &other);
            destroy(&w, i);
            destroy(&other, 1 - i);
        }
}
