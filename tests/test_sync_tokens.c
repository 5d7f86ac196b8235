/* test_sync_tokens.c: a stream of somebody else, and each token that may name it.
 *
 * What must be ordered is told by sync_table.c. Each case of it is run with a gate in front of who
 * comes first, so that nothing depends on time:
 *   - ordered: who comes second is not done while the gate is closed, and then has seen the data;
 *   - not ordered: who comes second ends while the gate is closed, and has seen something else;
 * and the simulated driver, which knows the order of all accesses whatever happened when, reports a
 * race or none, and counts the calls: no wait of the CPU, and no event more than is needed. A CPU
 * that waited nevertheless would wait for ever. */
#include "sync_scene.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

TestSuite(sync_tokens, .init = scene_start, .fini = scene_finish);

/** Give the token in the calling thread; into *s what came of it. */
static void give_token(scene *s, jit_status (*function)(uintptr_t)) {
    CUcontext before, after;
    w.CtxGetCurrent(&before);
    asked a = scene_calls();
    s->status = function(sync_token_value(s->token, s->consumer));
    asked b = scene_calls();
    w.CtxGetCurrent(&after);
    s->context_stays = before == after;
    s->asked = (asked) {b.records - a.records, b.waits - a.waits, b.cpu_waits - a.cpu_waits};
    snprintf(s->error, sizeof s->error, "%s", jit_error());
}

static void check_asked(const scene *s, int events) {
    cr_assert_eq(s->status, JIT_OK, "%s: %s", scene_name(s), s->error);
    cr_assert_eq(*s->error, 0, "%s: %s", scene_name(s), s->error);
    cr_assert(s->context_stays, "%s: another context is current", scene_name(s));
    if (events < 0)
        return;
    cr_assert_eq(s->asked.cpu_waits, 0, "%s: the CPU waits", scene_name(s));
    cr_assert_eq(s->asked.records, (uint64_t) events, "%s: %llu events are recorded", scene_name(s),
                 (unsigned long long) s->asked.records);
    cr_assert_eq(s->asked.waits, (uint64_t) events, "%s: %llu waits are queued", scene_name(s),
                 (unsigned long long) s->asked.waits);
}

/* ---- We write, the consumer reads ---- */

/** In the thread of the consumer, for the last two of sync_how. */
static void sync_in_consumer(void *context) {
    scene *s = context;
    s->status = jit_set_device(JIT_CUDA, s->device);
    if (s->how == SYNC_USED_BY_CONSUMER && s->status == JIT_OK) {
        jit_var used = scene_plus(s->v, 1);
        s->status = jit_var_eval(used);
        jit_unref(s->v);
        s->v = used;
        s->first++;
    }
    if (s->status == JIT_OK)
        give_token(s, jit_cuda_sync_stream);
    snprintf(s->error, sizeof s->error, "%s", jit_error());
}

/** Give token 0, which must not come back before the gate is opened. */
static void sync_and_wait(scene *s, void (*sync)(scene *)) {
    pthread_t thread;
    opener o = {.gate = &s->gate};
    cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
    sync(s);
    bool waited = o.opened;
    pthread_join(thread, NULL);
    cr_assert(waited, "%s: the CPU does not wait", scene_name(s));
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
        cr_assert(!consumer_done(s->consumer), "%s: the consumer does not wait", scene_name(s));
    } else {
        consumer_wait(s->consumer);
        bool fresh = scene_counts_up(consumer_data(s->consumer), s->first);
        cr_assert_eq(fresh, s->sees, "%s: the data is %s", scene_name(s), fresh ? "new" : "old");
    }
    if (!open)
        consumer_gate_open(&s->gate);
    consumer_wait(s->consumer);
    cr_assert(!s->sees || scene_counts_up(consumer_data(s->consumer), s->first),
              "%s: the data is old", scene_name(s));
}

static void run_reader(scene s) {
    void *pointer;
    bool waits = s.token == SYNC_0 && s.how != SYNC_BY_CONSUMER;
    s.sees = sync_orders_reader(s.token, s.how, s.place, s.kind);
    scene_begin(&s);
    consumer_gate_close(&s.gate, jit_cuda_stream(), s.device);
    s.v = scene_plus(s.x, s.first);
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
    scene_end(&s);
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
        cr_assert(!done, "%s: our kernel does not wait", scene_name(s));
    } else {
        ASSERT_OK(jit_event_wait(event));
        ASSERT_OK(jit_read(sum, got));
        cr_assert(scene_counts_up(got, s->first + 1), "%s: our kernel waits", scene_name(s));
    }
    consumer_gate_open(&s->gate);
    ASSERT_OK(jit_read(sum, got));
    for (int i = 0; i < SIZE; ++i)
        cr_assert_eq(got[i] == s->first + SIZE + 8, s->sees, "%s: element %d is %u", scene_name(s),
                     i, got[i]);
    consumer_wait(s->consumer);
    jit_event_destroy(event);
}

static void run_writer(scene s) {
    void *pointer;
    s.sees = sync_orders_writer(s.token, s.how, s.place, s.kind);
    scene_begin(&s);
    s.v = scene_plus(s.x, s.first);
    ASSERT_OK(jit_data(s.v, &pointer));
    ASSERT_OK(jit_sync_thread());
    consumer_close_gate(s.consumer, &s.gate);
    consumer_write(s.consumer, pointer, s.first + SIZE + 7, SIZE);
    give_token(&s, jit_cuda_wait_stream);
    check_asked(&s, sync_events_of_wait(s.token, s.kind));
    jit_var sum = scene_plus(s.v, 1);
    ASSERT_OK(jit_var_eval(sum));
    check_our_read(&s, sum);
    jit_unref(sum);
    scene_end(&s);
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
    scene_begin(&s);
    s.v = scene_plus(s.x, s.first);
    consumer_gate_close(&s.gate, jit_cuda_stream(), 0);
    ASSERT_OK(jit_var_eval(s.v));
    asked a = scene_calls();
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) jit_cuda_stream()));
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) jit_cuda_stream()));
    asked b = scene_calls();
    cr_assert(b.records == a.records && b.waits == a.waits && b.cpu_waits == a.cpu_waits);
    consumer_gate_open(&s.gate);
    s.sees = true;
    scene_end(&s);
}

/** What others have queued on our stream is ordered like our own work, also when all of that is
 * over. */
Test(sync_tokens, what_others_queue_on_our_stream_is_ordered_too, .timeout = 60) {
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    scene_begin(&s);
    s.v = scene_plus(s.x, s.first);
    ASSERT_OK(jit_var_eval(s.v));
    ASSERT_OK(jit_sync_thread());
    consumer_gate_close(&s.gate, jit_cuda_stream(), 0);
    ASSERT_OK(jit_cuda_sync_stream(consumer_stream(s.consumer)));
    void *pointer;
    ASSERT_OK(jit_data(s.v, &pointer));
    consumer_read(s.consumer, pointer, SIZE);
    check_reader(&s, false);
    scene_end(&s);
}

/** Nothing is ordered, and nothing queued, by a number that names no stream. */
Test(sync_tokens, other_negative_numbers_are_refused, .timeout = 60) {
    static const intptr_t wrong[] = {-2, -3, -1000, INTPTR_MIN + 1};
    scene s = {.sees = true};
    scene_begin(&s);
    s.v = scene_plus(s.x, 1);
    ASSERT_OK(jit_schedule(s.v));
    asked a = scene_calls();
    jit_stats before, after;
    ASSERT_OK(jit_get_stats(&before));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        cr_assert_eq(jit_cuda_sync_stream((uintptr_t) wrong[i]), JIT_INVALID_ARGUMENT);
        cr_assert_neq(*jit_error(), 0);
        jit_error_clear();
        cr_assert_eq(jit_cuda_wait_stream((uintptr_t) wrong[i]), JIT_INVALID_ARGUMENT);
        jit_error_clear();
    }
    asked b = scene_calls();
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_eq(after.launches, before.launches, "what is scheduled was launched");
    cr_assert(b.records == a.records && b.waits == a.waits && b.cpu_waits == a.cpu_waits);
    sem_init(&s.gate.open, 0, 0);
    scene_end(&s);
}
