/* test_event.c: places, waits and times, as jit.h has them under "Order": on every backend. */
#include "event_world.h"
#include <time.h>

TestSuite(event, .init = event_start, .fini = event_end, .timeout = 120);

/* ---- Places ---- */

Test(event, one_that_was_never_recorded_counts_as_done) {
    jit_event *e = new_event(false);
    cr_assert(is_done(e));
    ASSERT_OK(jit_event_wait(e));
    ASSERT_OK(jit_event_stream_wait(e));
    expect(evaluate(1), 1);
    jit_event_destroy(e);
    jit_event_destroy(NULL);
}

Test(event, is_behind_what_was_launched_and_not_behind_what_is_scheduled) {
    gate g;
    jit_event *e = new_event(false);
    jit_var scheduled = jit_add(jit_f32(B, 1), jit_f32(B, 2)), v = evaluate(0);
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_schedule(scheduled));
    ASSERT_OK(jit_event_record(e));
    ASSERT_OK(jit_event_wait(e));
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var w = evaluate(1);
    cr_assert(is_done(e), "the work came later");
    ASSERT_OK(jit_event_record(e));
    gate_pause();
    cr_assert(!is_done(e));
    gate_open(&g);
    ASSERT_OK(jit_event_wait(e));
    cr_assert(is_done(e));
    gate_finish(&g);
    expect(v, 0);
    expect(w, 1);
    jit_unref(scheduled);
    jit_event_destroy(e);
}

Test(event, is_not_behind_what_is_queued_later) {
    gate g;
    jit_event *e = new_event(false);
    jit_var v = evaluate(2);
    ASSERT_OK(jit_event_record(e));
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var w = evaluate(3);
    ASSERT_OK(jit_event_wait(e)); /* with the gate closed */
    cr_assert(is_done(e));
    gate_finish(&g);
    expect(v, 2);
    expect(w, 3);
    jit_event_destroy(e);
}

static void *record_in_thread(void *event) {
    ASSERT_OK(jit_event_record(event));
    return NULL;
}

Test(event, any_thread_may_record_it_anew) {
    gate g;
    jit_event *e = new_event(true);
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var v = evaluate(0);
    ASSERT_OK(jit_event_record(e));
    cr_assert(!is_done(e));
    in_thread(record_in_thread, e); /* on a stream of its own: nothing is queued there */
    ASSERT_OK(jit_event_wait(e));
    cr_assert(is_done(e));
    gate_finish(&g);
    expect(v, 0);
    jit_event_destroy(e);
}

/* ---- Waits on the device ---- */

typedef struct worker {
    jit_event *wait_for, *record;
    jit_var v;
} worker;

static void *evaluate_behind(void *context) {
    worker *w = context;
    ASSERT_OK(jit_event_stream_wait(w->wait_for));
    w->v = evaluate(7);
    ASSERT_OK(jit_event_record(w->record));
    return NULL;
}

Test(event, a_stream_waits_for_another_without_the_cpu) {
    gate g;
    worker w = {.wait_for = new_event(false), .record = new_event(false)};
    jit_event *other = new_event(false);
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var mine = evaluate(1);
    ASSERT_OK(jit_event_record(w.wait_for));
    in_thread(evaluate_behind, &w); /* comes back with the gate closed */
    gate_pause();
    cr_assert(!is_done(w.record), "it did not wait");
    in_thread(record_in_thread, other);
    ASSERT_OK(jit_event_wait(other)); /* other streams do not wait */
    gate_open(&g);
    ASSERT_OK(jit_event_wait(w.record));
    cr_assert(is_done(w.wait_for), "the wait ended before what it was for");
    gate_finish(&g);
    expect(w.v, 7);
    expect(mine, 1);
    jit_event_destroy(w.wait_for);
    jit_event_destroy(w.record);
    jit_event_destroy(other);
}

Test(event, waits_keep_the_place_of_the_record_before_them) {
    gate first, second;
    worker w = {.wait_for = new_event(false), .record = new_event(false)};
    gate_close(&first, use_kernels);
    gate_close(&second, NULL);
    gate_block_own_stream(&first);
    ASSERT_OK(jit_event_record(w.wait_for));
    in_thread(evaluate_behind, &w);
    gate_block_own_stream(&second);
    ASSERT_OK(jit_event_record(w.wait_for));
    gate_pause();
    cr_assert(!is_done(w.record), "it did not wait for the first place");
    gate_open(&first);
    ASSERT_OK(jit_event_wait(w.record)); /* with the second gate closed */
    cr_assert(!is_done(w.wait_for));
    gate_finish(&second);
    gate_finish(&first);
    expect(w.v, 7);
    jit_event_destroy(w.wait_for);
    jit_event_destroy(w.record);
}

Test(event, waits_outlive_the_event) {
    gate g;
    worker w = {.wait_for = new_event(true), .record = new_event(false)};
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    ASSERT_OK(jit_event_record(w.wait_for));
    in_thread(evaluate_behind, &w);
    jit_event_destroy(w.wait_for);
    gate_pause();
    cr_assert(!is_done(w.record));
    gate_open(&g);
    ASSERT_OK(jit_event_wait(w.record));
    gate_finish(&g);
    expect(w.v, 7);
    jit_event_destroy(w.record);
}

Test(event, may_be_of_another_device) {
    gate g;
    if (jit_device_count(B) < 2)
        support_skip("this backend has one device");
    jit_event *here = new_event(false), *there;
    use_kernels();
    ASSERT_OK(jit_set_device(B, 1));
    ASSERT_OK(jit_event_create(B, false, &there));
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var v = evaluate(4);
    ASSERT_OK(jit_event_record(here)); /* of device 0, where nothing is queued */
    ASSERT_OK(jit_event_wait(here));
    ASSERT_OK(jit_set_device(B, 0));
    ASSERT_OK(jit_event_record(there));
    cr_assert(!is_done(there), "the event is of device 1");
    ASSERT_OK(jit_event_stream_wait(there));
    jit_var w = evaluate(5);
    ASSERT_OK(jit_event_record(here));
    gate_pause();
    cr_assert(!is_done(here), "device 0 did not wait for device 1");
    gate_open(&g);
    ASSERT_OK(jit_event_wait(here));
    cr_assert(is_done(there));
    ASSERT_OK(jit_set_device(B, 1));
    gate_finish(&g);
    expect(v, 4);
    expect(w, 5);
    jit_event_destroy(here);
    jit_event_destroy(there);
}

/* ---- Waits on the CPU ---- */

static void wait_ends_with_the_gate(bool destroy) {
    gate g;
    pthread_t t;
    waiter w = {.event = new_event(true)};
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var v = evaluate(6);
    ASSERT_OK(jit_event_record(w.event));
    cr_assert_eq(pthread_create(&t, NULL, wait_in_thread, &w), 0);
    wait_until(&w.inside);
    gate_pause();
    if (destroy)
        jit_event_destroy(w.event);
    gate_pause();
    cr_assert(!atomic_load(&w.over), "it did not wait");
    gate_open(&g);
    cr_assert_eq(pthread_join(t, NULL), 0);
    ASSERT_OK(w.status);
    if (!destroy)
        jit_event_destroy(w.event);
    gate_finish(&g);
    expect(v, 6);
}

Test(event, a_thread_waits_for_what_another_has_recorded) {
    wait_ends_with_the_gate(false);
}

Test(event, may_be_destroyed_while_a_thread_waits_for_it) {
    wait_ends_with_the_gate(true);
}

/* ---- Times ---- */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e3 + (double) t.tv_nsec / 1e6;
}

/* The clock of a GPU has steps, and is not ours. */
static const double step_ms = 0.01;

static double elapsed(jit_event *from, jit_event *to) {
    double ms = -1;
    ASSERT_OK(jit_event_elapsed(from, to, &ms));
    return ms;
}

Test(event, times_are_those_at_which_the_places_were_reached) {
    gate g;
    jit_event *from = new_event(true), *to = new_event(true), *later = new_event(true);
    double before = now_ms();
    ASSERT_OK(jit_event_record(from)); /* an idle stream: at once */
    ASSERT_OK(jit_event_wait(from));
    double inner = now_ms();
    gate_close(&g, NULL);
    gate_block_own_stream(&g);
    ASSERT_OK(jit_event_record(to));
    ASSERT_OK(jit_event_record(later));
    gate_pause();
    inner = now_ms() - inner;
    gate_open(&g);
    ASSERT_OK(jit_event_wait(to));
    double outer = now_ms() - before;
    gate_pause(); /* the time is not that at which it is asked for */
    gate_pause();
    double ms = elapsed(from, to);
    cr_assert_geq(ms, inner - step_ms, "%g ms for more than %g ms", ms, inner);
    cr_assert_leq(ms, outer + step_ms, "%g ms for less than %g ms", ms, outer);
    cr_assert_float_eq(elapsed(to, from), -ms, 1e-3);
    cr_assert_eq(elapsed(from, from), 0);
    cr_assert_geq(elapsed(to, later), 0);
    gate_finish(&g);
    jit_event_destroy(from);
    jit_event_destroy(to);
    jit_event_destroy(later);
}

Test(event, no_time_is_told_of_what_has_none) {
    gate g;
    double ms = -1;
    jit_event *timed = new_event(true), *plain = new_event(false), *never = new_event(true);
    ASSERT_OK(jit_event_record(timed));
    ASSERT_OK(jit_event_record(plain));
    ASSERT_OK(jit_event_wait(timed));
    FAILS(JIT_INVALID_ARGUMENT, "timed", jit_event_elapsed(timed, plain, &ms));
    FAILS(JIT_INVALID_ARGUMENT, "timed", jit_event_elapsed(plain, timed, &ms));
    FAILS(JIT_INVALID_ARGUMENT, "recorded", jit_event_elapsed(timed, never, &ms));
    FAILS(JIT_INVALID_ARGUMENT, "recorded", jit_event_elapsed(never, timed, &ms));
    gate_close(&g, NULL);
    gate_block_own_stream(&g);
    ASSERT_OK(jit_event_record(never));
    FAILS(JIT_INVALID_ARGUMENT, "wait for", jit_event_elapsed(timed, never, &ms));
    cr_assert_eq(ms, -1);
    gate_finish(&g);
    ASSERT_OK(jit_event_wait(never));
    cr_assert_geq(elapsed(timed, never), 0);
    jit_event_destroy(timed);
    jit_event_destroy(plain);
    jit_event_destroy(never);
}

Test(event, devices_have_clocks_of_their_own) {
    double ms;
    bool both = support_is_built(JIT_LLVM) && B == JIT_CUDA;
    jit_event *here = new_event(true), *there;
    if (jit_device_count(B) < 2 && !both)
        support_skip("there is one device");
    ASSERT_OK(jit_event_record(here));
    if (jit_device_count(B) > 1) {
        ASSERT_OK(jit_set_device(B, 1));
        there = new_event(true);
        ASSERT_OK(jit_event_record(there));
        FAILS(JIT_INVALID_ARGUMENT, "two devices", jit_event_elapsed(here, there, &ms));
        jit_event_destroy(there);
    }
    if (both) {
        ASSERT_OK(jit_init(JIT_LLVM));
        ASSERT_OK(jit_event_create(JIT_LLVM, true, &there));
        ASSERT_OK(jit_event_record(there));
        FAILS(JIT_INVALID_ARGUMENT, "two devices", jit_event_elapsed(here, there, &ms));
        jit_event_destroy(there);
        jit_shutdown();
    }
    jit_event_destroy(here);
}

/* Many that are recorded, recorded anew and destroyed while they wait for their times. */
Test(event, times_of_many_places_are_noted_in_any_order) {
    enum { MANY = 60 };
    gate g;
    jit_event *e[MANY], *first = new_event(true);
    ASSERT_OK(jit_event_record(first));
    ASSERT_OK(jit_event_wait(first));
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    for (int i = 0; i < MANY; ++i) {
        e[i] = new_event(true);
        ASSERT_OK(jit_event_record(e[i]));
        if (i % 4 == 0)
            jit_unref(evaluate((float) i));
    }
    for (int i = 0; i < MANY; i += 3) /* the first, the last, and some in between */
        ASSERT_OK(jit_event_record(e[i]));
    for (int i = 1; i < MANY; i += 3) {
        jit_event_destroy(e[i]);
        e[i] = NULL;
    }
    jit_event_destroy(e[MANY - 1]);
    e[MANY - 1] = NULL;
    gate_open(&g);
    ASSERT_OK(jit_sync_thread());
    double previous = elapsed(first, e[2]);
    for (int i = 5; i < MANY - 1; i += 3) { /* recorded once, in this order */
        double ms = elapsed(first, e[i]);
        cr_assert_geq(ms, previous - step_ms);
        previous = ms;
    }
    for (int i = 0; i < MANY; i += 3)
        cr_assert_geq(elapsed(first, e[i]), previous - step_ms);
    gate_finish(&g);
    for (int i = 0; i < MANY; ++i)
        jit_event_destroy(e[i]);
    jit_event_destroy(first);
}
