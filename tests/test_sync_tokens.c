/* test_sync_tokens.c: a stream of somebody else, and each token that may name it.
 *
 * What must be ordered is told by sync_table.c. Each case of it is run with a gate in front of who
 * comes first, so that nothing depends on time:
 *   - ordered: who comes second is not done while the gate is closed, and then has seen the data;
 *   - not ordered: who comes second ends while the gate is closed, and has seen something else;
 * and the simulated driver, which knows the order of all accesses whatever happened when, reports a
 * race or none, and counts the calls: no wait of the CPU, and no event more than is needed. A CPU
 * that waited nevertheless would wait for ever. */
#include "cuda_world.h"
#include "sync_table.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

enum { SIZE = 256 };

static cuda_world w;
static unsigned expected_races;

static void start(void) {
    w = cuda_world_simulated();
    if (!w.races)
        support_skip("this wants the ordering checker of the simulated driver");
    support_init();
}

/* Races that were predicted are faults as well. */
static void finish(void) {
    jit_shutdown();
    cr_assert_eq(w.faults(), expected_races,
                 "%u races were predicted; the simulated driver found: %s", expected_races,
                 w.fault_text());
}
TestSuite(sync_tokens, .init = start, .fini = finish);

/* ---- What the driver was asked ---- */

typedef struct asked {
    uint64_t records, waits, cpu_waits;
} asked;

static asked count_calls(void) {
    static const char *const waiting[] = {"cuStreamSynchronize", "cuStreamSynchronize_ptsz",
                                          "cuEventSynchronize",  "cuCtxSynchronize",
                                          "cuMemcpyDtoH_v2",     "cuMemcpyHtoD_v2",
                                          "cuMemcpyDtoD_v2",     "cuMemcpy",
                                          "cuMemFree_v2",        "cuMemFreeHost"};
    asked a = {.records = w.calls("cuEventRecord") + w.calls("cuEventRecord_ptsz"),
               .waits = w.calls("cuStreamWaitEvent") + w.calls("cuStreamWaitEvent_ptsz")};
    for (size_t i = 0; i < sizeof waiting / sizeof *waiting; ++i)
        a.cpu_waits += w.calls(waiting[i]);
    return a;
}

/* ---- One case ---- */

typedef struct scene {
    sync_token token;
    sync_how how;
    consumer_place place;
    consumer_kind kind;
    int device;     /* of the array */
    bool scheduled; /* the token launches it */
    consumer *consumer;
    consumer_gate gate;
    jit_var x;      /* 0, 1, 2, ... */
    jit_var v;      /* the array: x + first */
    uint32_t first; /* another one in each case */
    bool sees;      /* who comes second sees the data */
    unsigned races; /* before */
    jit_status status;
    char error[256];
    asked asked; /* by the token */
    bool context_stays;
} scene;

/** For messages: which case it is. */
static const char *name_of(const scene *s) {
    static char text[256];
    snprintf(text, sizeof text, "token %s, %s, %s stream, %s, device %d%s",
             sync_token_names[s->token], sync_how_names[s->how], sync_kind_names[s->kind],
             sync_place_names[s->place], s->device, s->scheduled ? ", scheduled" : "");
    return text;
}

static jit_var plus(jit_var x, uint32_t k) {
    jit_var constant = jit_u32(JIT_CUDA, k), sum = jit_add(x, constant);
    jit_unref(constant);
    ASSERT_VAR(sum);
    return sum;
}

static void begin(scene *s) {
    static uint32_t cases;
    uint32_t ramp[SIZE];
    s->first = ++cases * 1000000;
    w.seed(cases);
    ASSERT_OK(jit_set_device(JIT_CUDA, s->device));
    s->consumer = consumer_create(s->kind, s->place, s->device, SIZE, s->how != SYNC_ONE_THREAD);
    for (uint32_t i = 0; i < SIZE; ++i)
        ramp[i] = i;
    s->x = jit_from_host(JIT_CUDA, JIT_u32, ramp, SIZE);
    ASSERT_VAR(s->x);
    ASSERT_OK(jit_sync_thread());
    s->races = w.races();
}

static void end(scene *s) {
    ASSERT_OK(jit_sync_all_devices());
    bool raced = w.races() != s->races;
    cr_assert_eq(raced, !s->sees, "%s: %s: %s", name_of(s), raced ? "a race" : "no race",
                 w.fault_text());
    expected_races += w.races() - s->races;
    jit_unref(s->v);
    jit_unref(s->x);
    consumer_destroy(s->consumer);
    sem_destroy(&s->gate.open);
}

static bool counts_up_from(const uint32_t *words, uint32_t first) {
    for (uint32_t i = 0; i < SIZE; ++i)
        if (words[i] != first + i)
            return false;
    return true;
}

/** Give the token in the calling thread; into *s what came of it. */
static void give_token(scene *s, jit_status (*function)(uintptr_t)) {
    CUcontext before, after;
    w.CtxGetCurrent(&before);
    asked a = count_calls();
    s->status = function(sync_token_value(s->token, s->consumer));
    asked b = count_calls();
    w.CtxGetCurrent(&after);
    s->context_stays = before == after;
    s->asked = (asked) {b.records - a.records, b.waits - a.waits, b.cpu_waits - a.cpu_waits};
    snprintf(s->error, sizeof s->error, "%s", jit_error());
}

static void check_asked(const scene *s, int events) {
    cr_assert_eq(s->status, JIT_OK, "%s: %s", name_of(s), s->error);
    cr_assert_eq(*s->error, 0, "%s: %s", name_of(s), s->error);
    cr_assert(s->context_stays, "%s: another context is current", name_of(s));
    if (events < 0)
        return;
    cr_assert_eq(s->asked.cpu_waits, 0, "%s: the CPU waits", name_of(s));
    cr_assert_eq(s->asked.records, events, "%s: %llu events are recorded", name_of(s),
                 (unsigned long long) s->asked.records);
    cr_assert_eq(s->asked.waits, events, "%s: %llu waits are queued", name_of(s),
                 (unsigned long long) s->asked.waits);
}

/* ---- We write, the consumer reads ---- */

/** In the thread of the consumer, for the last two of sync_how. */
static void sync_in_consumer(void *context) {
    scene *s = context;
    s->status = jit_set_device(JIT_CUDA, s->device);
    if (s->how == SYNC_USED_BY_CONSUMER && s->status == JIT_OK) {
        jit_var used = plus(s->v, 1);
        s->status = jit_var_eval(used);
        jit_unref(s->v);
        s->v = used;
        s->first++;
    }
    if (s->status == JIT_OK)
        give_token(s, jit_cuda_sync_stream);
    snprintf(s->error, sizeof s->error, "%s", jit_error());
}

typedef struct opener {
    consumer_gate *gate;
    atomic_bool opened;
} opener;

static void *open_later(void *context) {
    opener *o = context;
    usleep(1000);
    o->opened = true;
    consumer_gate_open(o->gate);
    return NULL;
}

/** Give token 0, which must not come back before the gate is opened. */
static void sync_and_wait(scene *s, void (*sync)(scene *)) {
    pthread_t thread;
    opener o = {.gate = &s->gate};
    cr_assert_eq(pthread_create(&thread, NULL, open_later, &o), 0);
    sync(s);
    bool waited = o.opened;
    pthread_join(thread, NULL);
    cr_assert(waited, "%s: the CPU does not wait", name_of(s));
}

static void sync_for_reader(scene *s) {
    if (s->how == SYNC_ONE_THREAD || s->how == SYNC_BY_PRODUCER)
        give_token(s, jit_cuda_sync_stream);
    else
        consumer_call(s->consumer, sync_in_consumer, s);
}

static void check_reader(scene *s, bool open) {
    if (s->sees && !open) {
        usleep(50); /* so that what could run would */
        cr_assert(!consumer_done(s->consumer), "%s: the consumer does not wait", name_of(s));
    } else {
        consumer_wait(s->consumer);
        bool fresh = counts_up_from(consumer_data(s->consumer), s->first);
        cr_assert_eq(fresh, s->sees, "%s: the data is %s", name_of(s), fresh ? "new" : "old");
    }
    if (!open)
        consumer_gate_open(&s->gate);
    consumer_wait(s->consumer);
    cr_assert(!s->sees || counts_up_from(consumer_data(s->consumer), s->first),
              "%s: the data is old", name_of(s));
}

static void run_reader(scene s) {
    void *pointer;
    bool waits = s.token == SYNC_0 && s.how != SYNC_BY_CONSUMER;
    s.sees = sync_orders_reader(s.token, s.how, s.place, s.kind);
    begin(&s);
    consumer_gate_close(&s.gate, jit_cuda_stream(), s.device);
    s.v = plus(s.x, s.first);
    ASSERT_OK(s.scheduled ? jit_schedule(s.v) : jit_var_eval(s.v));
    if (waits)
        sync_and_wait(&s, sync_for_reader);
    else
        sync_for_reader(&s);
    bool counted = !waits && !s.scheduled && s.how != SYNC_BY_CONSUMER;
    check_asked(&s, counted ? sync_events_of_sync(s.token, s.kind) : -1);
    ASSERT_OK(jit_data(s.v, &pointer));
    consumer_read(s.consumer, pointer, SIZE);
    check_reader(&s, waits);
    end(&s);
}

static void run_readers(sync_how how, bool scheduled) {
    for (int device = 0; device < 2; ++device)
        for (int token = 0; token < SYNC_TOKENS; ++token)
            for (int place = 0; place < CONSUMER_PLACES; ++place)
                for (int kind = 0; kind < CONSUMER_KINDS; ++kind)
                    run_reader((scene) {.token = (sync_token) token,
                                        .how = how,
                                        .place = (consumer_place) place,
                                        .kind = (consumer_kind) kind,
                                        .device = device,
                                        .scheduled = scheduled});
}

Test(sync_tokens, the_reader_is_in_the_same_thread, .timeout = 60) {
    run_readers(SYNC_ONE_THREAD, false);
}
Test(sync_tokens, what_is_scheduled_is_launched_first, .timeout = 60) {
    run_readers(SYNC_ONE_THREAD, true);
}
Test(sync_tokens, the_reader_is_in_another_thread, .timeout = 60) {
    run_readers(SYNC_BY_PRODUCER, false);
}
Test(sync_tokens, the_reader_names_itself_in_a_thread_that_queued_nothing, .timeout = 60) {
    run_readers(SYNC_BY_CONSUMER, false);
}
Test(sync_tokens, the_reader_names_itself_in_a_thread_that_used_the_array, .timeout = 60) {
    run_readers(SYNC_USED_BY_CONSUMER, false);
}

/* ---- The consumer writes, we read ---- */

static void check_our_read(scene *s, jit_var sum) {
    uint32_t got[SIZE];
    bool done;
    jit_event *event;
    ASSERT_OK(jit_event_create(JIT_CUDA, false, &event));
    ASSERT_OK(jit_event_record(event));
    if (s->sees) {
        usleep(50);
        ASSERT_OK(jit_event_query(event, &done));
        cr_assert(!done, "%s: our kernel does not wait", name_of(s));
    } else {
        ASSERT_OK(jit_event_wait(event));
        ASSERT_OK(jit_read(sum, got));
        cr_assert(counts_up_from(got, s->first + 1), "%s: our kernel waits", name_of(s));
    }
    consumer_gate_open(&s->gate);
    ASSERT_OK(jit_read(sum, got));
    for (int i = 0; i < SIZE; ++i)
        cr_assert_eq(got[i] == s->first + SIZE + 8, s->sees, "%s: element %d is %u", name_of(s), i,
                     got[i]);
    consumer_wait(s->consumer);
    jit_event_destroy(event);
}

static void run_writer(scene s) {
    void *pointer;
    s.sees = sync_orders_writer(s.token, s.how, s.place, s.kind);
    begin(&s);
    s.v = plus(s.x, s.first);
    ASSERT_OK(jit_data(s.v, &pointer));
    ASSERT_OK(jit_sync_thread());
    consumer_close_gate(s.consumer, &s.gate);
    consumer_write(s.consumer, pointer, s.first + SIZE + 7, SIZE);
    give_token(&s, jit_cuda_wait_stream);
    check_asked(&s, sync_events_of_wait(s.token, s.kind));
    jit_var sum = plus(s.v, 1);
    ASSERT_OK(jit_var_eval(sum));
    check_our_read(&s, sum);
    jit_unref(sum);
    end(&s);
}

static void run_writers(sync_how how) {
    for (int device = 0; device < 2; ++device)
        for (int token = 0; token < SYNC_TOKENS; ++token)
            for (int place = 0; place < CONSUMER_PLACES; ++place)
                for (int kind = 0; kind < CONSUMER_KINDS; ++kind)
                    run_writer((scene) {.token = (sync_token) token,
                                        .how = how,
                                        .place = (consumer_place) place,
                                        .kind = (consumer_kind) kind,
                                        .device = device});
}

Test(sync_tokens, the_writer_is_in_the_same_thread, .timeout = 60) {
    run_writers(SYNC_ONE_THREAD);
}
Test(sync_tokens, the_writer_is_in_another_thread, .timeout = 60) {
    run_writers(SYNC_BY_PRODUCER);
}

/* ---- Our own streams ---- */

/** Tokens that mean the thread's own stream, or nothing at all, ask nothing of the driver. */
Test(sync_tokens, the_own_stream_needs_no_event, .timeout = 60) {
    scene s = {.first = 0};
    begin(&s);
    s.v = plus(s.x, s.first);
    consumer_gate_close(&s.gate, jit_cuda_stream(), 0);
    ASSERT_OK(jit_var_eval(s.v));
    asked a = count_calls();
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) jit_cuda_stream()));
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) jit_cuda_stream()));
    asked b = count_calls();
    cr_assert(b.records == a.records && b.waits == a.waits && b.cpu_waits == a.cpu_waits);
    consumer_gate_open(&s.gate);
    s.sees = true;
    end(&s);
}

/** What others have queued on our stream is ordered like our own work, also when all of that is
 * over. */
Test(sync_tokens, what_others_queue_on_our_stream_is_ordered_too, .timeout = 60) {
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    begin(&s);
    s.v = plus(s.x, s.first);
    ASSERT_OK(jit_var_eval(s.v));
    ASSERT_OK(jit_sync_thread());
    consumer_gate_close(&s.gate, jit_cuda_stream(), 0);
    ASSERT_OK(jit_cuda_sync_stream(consumer_stream(s.consumer)));
    void *pointer;
    ASSERT_OK(jit_data(s.v, &pointer));
    consumer_read(s.consumer, pointer, SIZE);
    check_reader(&s, false);
    end(&s);
}

/** Nothing is ordered, and nothing queued, by a number that names no stream. */
Test(sync_tokens, other_negative_numbers_are_refused, .timeout = 60) {
    static const intptr_t wrong[] = {-2, -3, -1000, INTPTR_MIN + 1};
    scene s = {.sees = true};
    begin(&s);
    s.v = plus(s.x, 1);
    ASSERT_OK(jit_schedule(s.v));
    asked a = count_calls();
    jit_stats before, after;
    ASSERT_OK(jit_get_stats(&before));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        cr_assert_eq(jit_cuda_sync_stream((uintptr_t) wrong[i]), JIT_INVALID_ARGUMENT);
        cr_assert_neq(*jit_error(), 0);
        jit_error_clear();
        cr_assert_eq(jit_cuda_wait_stream((uintptr_t) wrong[i]), JIT_INVALID_ARGUMENT);
        jit_error_clear();
    }
    asked b = count_calls();
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_eq(after.launches, before.launches, "what is scheduled was launched");
    cr_assert(b.records == a.records && b.waits == a.waits && b.cpu_waits == a.cpu_waits);
    sem_init(&s.gate.open, 0, 0);
    end(&s);
}

/* ---- Memory that is given back ---- */

typedef enum giving { BY_UNREF, BY_SCOPE, BY_EVENT, MADE_ELSEWHERE } giving;

static void *make_in_thread(void *context) {
    scene *s = context;
    s->v = plus(s->x, s->first);
    s->status = jit_var_eval(s->v);
    if (s->status == JIT_OK)
        s->status = jit_sync_thread();
    return NULL;
}

/** The array: of this thread, or one that another thread made and that is over. */
static void make_array(scene *s, giving way) {
    pthread_t thread;
    if (way == MADE_ELSEWHERE) {
        cr_assert_eq(pthread_create(&thread, NULL, make_in_thread, s), 0);
        pthread_join(thread, NULL);
        ASSERT_OK(s->status);
    } else {
        s->v = plus(s->x, s->first);
        ASSERT_OK(jit_var_eval(s->v));
    }
}

/** Let our stream wait for the consumer, and give the array back. */
static void wait_and_give(scene *s, giving way) {
    if (way == BY_EVENT) {
        jit_event *event;
        void *native = consumer_record(s->consumer);
        ASSERT_OK(jit_cuda_event_wrap(native, &event));
        ASSERT_OK(jit_event_stream_wait(event));
        jit_event_destroy(event);
    } else {
        ASSERT_OK(jit_cuda_wait_stream(consumer_stream(s->consumer)));
    }
    if (way == BY_SCOPE) {
        jit_scope_push();
        jit_ref(s->v);
        jit_unref(s->v);
        jit_unref(s->v); /* the one of before: the scope has the other */
        ASSERT_OK(jit_scope_pop(0, NULL));
    } else {
        jit_unref(s->v);
    }
    s->v = 0;
}

typedef struct user {
    jit_var v;
    bool done;
    jit_status status;
} user;

/** Somebody else who wants such memory. */
static void *use_memory(void *context) {
    user *u = context;
    jit_event *event = NULL;
    uint32_t other[SIZE] = {0};
    u->v = jit_from_host(JIT_CUDA, JIT_u32, other, SIZE);
    u->status = jit_event_create(JIT_CUDA, false, &event);
    if (u->status == JIT_OK)
        u->status = jit_event_record(event);
    usleep(50);
    if (u->status == JIT_OK)
        u->status = jit_event_query(event, &u->done);
    jit_event_destroy(event);
    return NULL;
}

static void run_giving(giving way) {
    pthread_t thread;
    void *pointer;
    user u = {.status = JIT_OK};
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    begin(&s);
    make_array(&s, way);
    ASSERT_OK(jit_data(s.v, &pointer));
    ASSERT_OK(jit_cuda_sync_stream(consumer_stream(s.consumer)));
    consumer_close_gate(s.consumer, &s.gate);
    consumer_read(s.consumer, pointer, SIZE);
    wait_and_give(&s, way);
    cr_assert_eq(pthread_create(&thread, NULL, use_memory, &u), 0);
    pthread_join(thread, NULL);
    ASSERT_OK(u.status);
    void *again;
    ASSERT_OK(jit_data(u.v, &again));
    cr_assert_eq(again, pointer, "the memory is not used again: nothing is tested");
    cr_assert(!u.done, "way %d: the memory is used again while it is read", way);
    consumer_gate_open(&s.gate);
    consumer_wait(s.consumer);
    cr_assert(counts_up_from(consumer_data(s.consumer), s.first), "way %d: overwritten", way);
    jit_unref(u.v);
    end(&s);
}

/** An array that a stream of somebody else still reads is given back, once ours waits for it. */
Test(sync_tokens, memory_is_used_again_after_its_foreign_reader, .timeout = 60) {
    run_giving(BY_UNREF);
}
Test(sync_tokens, memory_given_back_by_a_scope_too, .timeout = 60) {
    run_giving(BY_SCOPE);
}
Test(sync_tokens, memory_behind_an_event_too, .timeout = 60) {
    run_giving(BY_EVENT);
}
Test(sync_tokens, memory_of_other_threads_arrays_too, .timeout = 60) {
    run_giving(MADE_ELSEWHERE);
}
