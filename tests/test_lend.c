/* test_lend.c: memory that was lent to a stream of somebody else, which still reads when the loan
 * ends: nobody writes it before that is over, whoever the stream is and whoever ends the loan. */
#include "device/consumer.h"
#include "lend_world.h"
#include "sync_scene.h"
#include <pthread.h>
#include <unistd.h>

TestSuite(lend, .init = scene_start, .fini = scene_finish);

/** Another array of the same size, with other data, by another thread if `elsewhere`. */
typedef struct user {
    jit_var v;
    jit_status status;
} user;

static void *overwrite(void *context) {
    user *u = context;
    static const uint32_t other[SIZE];
    u->v = jit_from_host(JIT_CUDA, JIT_u32, other, SIZE);
    u->status = u->v ? JIT_OK : jit_error_status();
    return NULL;
}

/** Where it lies. */
static void *overwritten(bool elsewhere, jit_var *out) {
    user u = {0};
    pthread_t thread;
    void *pointer;
    if (elsewhere) {
        cr_assert_eq(pthread_create(&thread, NULL, overwrite, &u), 0);
        pthread_join(thread, NULL);
    } else {
        overwrite(&u);
    }
    ASSERT_OK(u.status);
    ASSERT_OK(jit_data(u.v, &pointer));
    *out = u.v;
    return pointer;
}

/** An array that the consumer reads behind a closed gate, and the loan of it. */
static void *lend_and_read(scene *s, intptr_t token, loan_of *loan) {
    void *pointer;
    s->v = scene_plus(s->x, s->first);
    ASSERT_OK(lend_var(s->v, token, loan, &pointer));
    if (token == JIT_STREAM_NONE) /* the user orders things */
        ASSERT_OK(jit_cuda_sync_stream(consumer_stream(s->consumer)));
    consumer_close_gate(s->consumer, &s->gate);
    consumer_read(s->consumer, pointer, SIZE);
    return pointer;
}

static void expect_old_data(scene *s) {
    consumer_wait(s->consumer);
    cr_assert(scene_counts_up(consumer_data(s->consumer), s->first), "%s: overwritten",
              scene_name(s));
}

/** What cannot be waited for is not used again. */
static void run_pending(consumer_kind kind, intptr_t token) {
    loan_of loan;
    jit_var others[4];
    scene s = {.kind = kind, .sees = true};
    scene_begin(&s);
    void *pointer = lend_and_read(&s, token, &loan);
    uint64_t waits = scene_calls().cpu_waits;
    lend_end(&loan);
    jit_unref(s.v);
    s.v = 0;
    for (int i = 0; i < 4; ++i)
        cr_assert_neq(overwritten(i % 2, &others[i]), pointer, "it is used while it is read");
    cr_assert_eq(scene_calls().cpu_waits, waits, "the CPU waits");
    cr_assert_gt(lend_pending(), 0);
    consumer_gate_open(&s.gate);
    expect_old_data(&s);
    for (int i = 0; i < 4; ++i)
        jit_unref(others[i]);
    scene_end(&s);
}

Test(lend, memory_of_an_unknown_reader_is_not_used_again, .timeout = 60) {
    run_pending(CONSUMER_NON_BLOCKING, JIT_STREAM_NONE);
    run_pending(CONSUMER_NON_BLOCKING, 0);
    run_pending(CONSUMER_BLOCKING, JIT_STREAM_NONE);
}

/* ---- Streams that have a name ---- */

/** How the user names the stream again, once its loan has ended. */
typedef enum naming { BY_LOAN, BY_SYNC, BY_WAIT, NAMINGS } naming;

typedef struct seen {
    const scene *s;
    naming how;
    intptr_t token;
    jit_status status;
} seen;

/** Lends some other array to the stream, or asks for one of the orders. */
static void name_again(void *context) {
    seen *n = context;
    loan_of loan = {0};
    void *pointer;
    uintptr_t token = (uintptr_t) n->token;
    ASSERT_OK(jit_set_device(JIT_CUDA, n->s->device));
    switch (n->how) {
        case BY_LOAN: n->status = lend_var(n->s->x, n->token, &loan, &pointer); break;
        case BY_SYNC: n->status = jit_cuda_sync_stream(token); break;
        default: n->status = jit_cuda_wait_stream(token); break;
    }
    lend_end(&loan);
}

static void see_again(scene *s, intptr_t token, naming how) {
    seen n = {s, how, token, JIT_OK};
    if (token == JIT_STREAM_PER_THREAD) /* it is the consumer's thread whose stream is meant */
        consumer_call(s->consumer, name_again, &n);
    else
        name_again(&n);
    ASSERT_OK(n.status);
}

typedef struct lending {
    scene *s;
    intptr_t token;
    loan_of *loan;
    void *pointer;
} lending;

static void lend_and_read_there(void *context) {
    lending *l = context;
    ASSERT_OK(jit_set_device(JIT_CUDA, l->s->device));
    ASSERT_OK(lend_var(l->s->v, l->token, l->loan, &l->pointer));
}

/** The memory is used again at once, by the device behind the reader, without the CPU. */
static void run_named(consumer_kind kind, consumer_place place, naming how, bool elsewhere) {
    loan_of loan;
    jit_var other;
    scene s = {.kind = kind, .place = place, .sees = true, .how = SYNC_BY_CONSUMER};
    scene_begin(&s);
    intptr_t token = (intptr_t) consumer_stream(s.consumer);
    lending l = {&s, token, &loan, NULL};
    s.v = scene_plus(s.x, s.first);
    ASSERT_OK(jit_var_eval(s.v));
    consumer_call(s.consumer, lend_and_read_there, &l);
    consumer_close_gate(s.consumer, &s.gate);
    consumer_read(s.consumer, l.pointer, SIZE);
    uint64_t waits = scene_calls().cpu_waits;
    lend_end(&loan);
    jit_unref(s.v);
    s.v = 0;
    cr_assert_gt(lend_pending(), 0);
    see_again(&s, token, how);
    cr_assert_eq(overwritten(elsewhere, &other), l.pointer, "the memory is not used again");
    cr_assert_eq(scene_calls().cpu_waits, waits, "the CPU waits");
    consumer_gate_open(&s.gate);
    expect_old_data(&s);
    jit_unref(other);
    scene_end(&s);
}

Test(lend, memory_of_a_stream_that_is_seen_again_is_used_behind_it, .timeout = 60) {
    for (int how = 0; how < NAMINGS; ++how)
        for (int place = 0; place < CONSUMER_PLACES; ++place)
            for (int kind = CONSUMER_BLOCKING; kind < CONSUMER_KINDS; ++kind)
                run_named((consumer_kind) kind, (consumer_place) place, (naming) how, how % 2);
}

Test(lend, memory_of_a_threads_default_stream_too, .timeout = 60) {
    for (int how = 0; how < NAMINGS; ++how)
        run_named(CONSUMER_PER_THREAD, CONSUMER_HERE, (naming) how, how % 2);
}

/** The CPU cannot wait for streams of other contexts: their memory comes back when they are named.
 */
Test(lend, memory_of_another_contexts_stream_waits_for_its_name, .timeout = 60) {
    loan_of loan;
    jit_var other[2];
    scene s = {.kind = CONSUMER_NON_BLOCKING, .place = CONSUMER_OWN, .sees = true};
    ASSERT_OK(jit_set_option("memory_lent", "0"));
    scene_begin(&s);
    intptr_t token = (intptr_t) consumer_stream(s.consumer);
    void *pointer = lend_and_read(&s, token, &loan);
    lend_end(&loan);
    jit_unref(s.v);
    s.v = 0;
    cr_assert_neq(overwritten(false, &other[0]), pointer, "it is used while it is read");
    cr_assert_gt(lend_pending(), 0);
    see_again(&s, token, BY_SYNC);
    cr_assert_eq(overwritten(false, &other[1]), pointer, "the memory is not used again");
    consumer_gate_open(&s.gate);
    expect_old_data(&s);
    jit_unref(other[0]), jit_unref(other[1]);
    scene_end(&s);
}

/** Nobody waits for a reader but who uses its memory. */
Test(lend, our_streams_do_not_wait_for_the_reader, .timeout = 60) {
    for (int place = 0; place < CONSUMER_PLACES; ++place) {
        loan_of loan;
        jit_var sum;
        void *other;
        scene s = {.kind = CONSUMER_NON_BLOCKING, .place = (consumer_place) place, .sees = true};
        scene_begin(&s);
        consumer *legacy = consumer_create(CONSUMER_LEGACY, CONSUMER_HERE, 0, SIZE, false);
        intptr_t token = (intptr_t) consumer_stream(s.consumer);
        lend_and_read(&s, token, &loan);
        lend_end(&loan);
        see_again(&s, token, BY_SYNC);
        cr_assert_eq(lend_pending(), 0);
        sum = scene_plus(s.x, 3);
        ASSERT_OK(jit_data(sum, &other));
        consumer_read(legacy, other, SIZE);
        consumer_wait(legacy); /* else the test hangs */
        jit_unref(sum);
        consumer_gate_open(&s.gate);
        expect_old_data(&s);
        consumer_destroy(legacy);
        scene_end(&s);
    }
}

/** If too much is pending, the CPU waits for the reader. */
Test(lend, the_limit_makes_the_cpu_wait, .timeout = 60) {
    loan_of loan;
    jit_var other;
    pthread_t thread;
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    opener o = {.gate = &s.gate};
    ASSERT_OK(jit_set_option("memory_lent", "0"));
    scene_begin(&s);
    void *pointer = lend_and_read(&s, JIT_STREAM_NONE, &loan);
    lend_end(&loan);
    jit_unref(s.v);
    s.v = 0;
    uint64_t waits = scene_calls().cpu_waits;
    cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
    cr_assert_eq(overwritten(false, &other), pointer, "the memory is not used again");
    cr_assert_gt(scene_calls().cpu_waits, waits);
    cr_assert_eq(lend_pending(), 0);
    pthread_join(thread, NULL);
    expect_old_data(&s);
    jit_unref(other);
    scene_end(&s);
}

/** Also for one that works on another device. */
Test(lend, the_cpu_waits_for_all_devices, .timeout = 60) {
    loan_of loan;
    jit_var other;
    pthread_t thread;
    scene s = {.kind = CONSUMER_NON_BLOCKING, .place = CONSUMER_ELSEWHERE, .sees = true};
    opener o = {.gate = &s.gate};
    ASSERT_OK(jit_set_option("memory_lent", "0"));
    scene_begin(&s);
    void *pointer = lend_and_read(&s, JIT_STREAM_NONE, &loan);
    lend_end(&loan);
    jit_unref(s.v);
    s.v = 0;
    cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
    cr_assert_eq(overwritten(false, &other), pointer, "the memory is not used again");
    pthread_join(thread, NULL);
    expect_old_data(&s);
    jit_unref(other);
    scene_end(&s);
}

/** The legacy stream comes before ours by itself, and the memory is used at once. */
Test(lend, memory_of_the_legacy_stream_is_used_at_once, .timeout = 60) {
    static const intptr_t tokens[] = {JIT_STREAM_LEGACY, JIT_STREAM_NOT_GIVEN};
    for (int i = 0; i < 4; ++i) {
        loan_of loan;
        jit_var other;
        scene s = {.kind = CONSUMER_LEGACY, .sees = true};
        scene_begin(&s);
        void *pointer = lend_and_read(&s, tokens[i % 2], &loan);
        uint64_t waits = scene_calls().cpu_waits;
        lend_end(&loan);
        jit_unref(s.v);
        s.v = 0;
        cr_assert_eq(lend_pending(), 0);
        consumer_gate_open(&s.gate);
        cr_assert_eq(overwritten(i / 2, &other), pointer, "the memory is not used again");
        cr_assert_eq(scene_calls().cpu_waits, waits, "the CPU waits");
        expect_old_data(&s);
        jit_unref(other);
        scene_end(&s);
    }
}

/* ---- Streams that are told apart ---- */

static struct {
    CUresult (*create)(CUstream *, unsigned), (*destroy)(CUstream), (*synchronize)(CUstream);
    CUresult (*id)(CUstream, unsigned long long *);
} driver;

static void enter_context(void) {
    consumer_driver(&driver.create, "cuStreamCreate");
    consumer_driver(&driver.destroy, "cuStreamDestroy_v2");
    consumer_driver(&driver.synchronize, "cuStreamSynchronize");
    consumer_driver(&driver.id, "cuStreamGetId");
    w.CtxPushCurrent(jit_cuda_context());
}

static void leave_context(void) {
    CUcontext ignored;
    w.CtxPopCurrent(&ignored);
}

static unsigned long long id_of(CUstream s) {
    unsigned long long id;
    consumer_must(driver.id(s, &id), "cuStreamGetId");
    return id;
}

/** A stream for which the same record may stand, once that stands for nobody. */
static CUstream make_like(CUstream other) {
    for (int i = 0; i < 10 * JITC_CONSUMER_BUCKETS; ++i) {
        CUstream s;
        consumer_must(driver.create(&s, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
        if (id_of(s) % JITC_CONSUMER_BUCKETS == id_of(other) % JITC_CONSUMER_BUCKETS)
            return s;
        driver.destroy(s);
    }
    cr_assert(false, "no stream has such a number");
    return NULL;
}

/** A stream that was seen again, and has not got so far, is still waited for when another one was
 * seen after it, which has. */
Test(lend, what_a_slow_stream_reads_is_not_taken_for_what_a_fast_one_reads, .timeout = 60) {
    loan_of loan, other_loan;
    jit_var others[2];
    void *ignored;
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    scene_begin(&s);
    enter_context();
    jit_var v = scene_plus(s.x, s.first + 1);
    ASSERT_OK(jit_var_eval(v));
    CUstream slow = (CUstream) consumer_stream(s.consumer), fast = make_like(slow);
    void *pointer = lend_and_read(&s, (intptr_t) slow, &loan);
    lend_end(&loan);
    jit_unref(s.v);
    s.v = 0;
    see_again(&s, (intptr_t) slow, BY_SYNC);
    ASSERT_OK(lend_var(v, (intptr_t) fast, &other_loan, &ignored)); /* nothing is done with it */
    lend_end(&other_loan);
    jit_unref(v);
    see_again(&s, (intptr_t) fast, BY_SYNC);
    driver.synchronize(fast);
    bool again = false;
    for (int i = 0; i < 2; ++i)
        again = overwritten(false, &others[i]) == pointer || again;
    cr_assert(again, "the memory is not used again: nothing is tested");
    consumer_gate_open(&s.gate);
    expect_old_data(&s);
    jit_unref(others[0]), jit_unref(others[1]);
    driver.destroy(fast);
    leave_context();
    scene_end(&s);
}

/* ---- The end ---- */

static void end_after_shutdown(scene *s) {
    expect_old_data(s);
    consumer_destroy(s->consumer);
    sem_destroy(&s->gate.open);
}

/** Memory that is used no more goes back to the driver behind those that were seen reading it. */
Test(lend, memory_is_freed_after_a_stream_that_was_seen_again, .timeout = 60) {
    loan_of loan;
    pthread_t thread;
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    opener o = {.gate = &s.gate};
    scene_begin(&s);
    intptr_t token = (intptr_t) consumer_stream(s.consumer);
    lend_and_read(&s, token, &loan);
    lend_end(&loan);
    jit_unref(s.v);
    see_again(&s, token, BY_SYNC);
    cr_assert_eq(lend_pending(), 0);
    cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
    jit_shutdown();
    cr_assert(o.opened, "the memory was freed while it was read");
    pthread_join(thread, NULL);
    end_after_shutdown(&s);
}

/** A loan that ends after the device frees the memory itself. */
Test(lend, memory_that_outlives_the_device_is_freed_after_its_reader, .timeout = 60) {
    loan_of loan;
    pthread_t thread;
    scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
    opener o = {.gate = &s.gate};
    void *pointer;
    scene_begin(&s);
    s.v = scene_plus(s.x, s.first);
    ASSERT_OK(lend_var(s.v, (intptr_t) consumer_stream(s.consumer), &loan, &pointer));
    jit_shutdown();
    consumer_close_gate(s.consumer, &s.gate);
    consumer_read(s.consumer, pointer, SIZE);
    cr_assert_eq(pthread_create(&thread, NULL, scene_open_later, &o), 0);
    lend_end(&loan);
    cr_assert(o.opened, "the memory was freed while it was read");
    pthread_join(thread, NULL);
    end_after_shutdown(&s);
}
