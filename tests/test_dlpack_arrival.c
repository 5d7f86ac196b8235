/* test_dlpack_arrival.c: what is computed with an imported tensor comes after the work of its
 * producer, for every token and every kind of stream, on the simulated driver, which knows the
 * order of all accesses whatever happened when: see test_sync_tokens.c. The producer may free the
 * memory as soon as the deleter is called. */
#include "dlpack_producer.h"
#include "lend_world.h"
#include "sync_scene.h"
#include <pthread.h>
#include <stdlib.h>

enum { WORD = 77777 }; /* that the producer writes, everywhere */

/* Who reads the tensor. */
typedef enum reader {
    THIS_THREAD,
    ANOTHER_THREAD,
    ANOTHER_STREAM, /* of somebody, to whom the array is exported with no kernel of ours between */
    READERS
} reader;

typedef struct trial {
    scene s;
    reader reader;
    bool legacy;
    producer *p;
    jit_var v, sum;
    uint32_t got[SIZE];
    asked asked; /* by the import */
} trial;

static producer *make_tensor(int device, bool legacy) {
    static const int64_t shape[] = {SIZE};
    tensor_spec spec = {JIT_u32, 1, shape, .device_id = device, .legacy = legacy};
    return producer_create(&spec);
}

/* With a gate closed the kernel could not be loaded. */
static void start(void) {
    scene_start();
    for (int device = 0; device < 2; ++device) {
        ASSERT_OK(jit_set_device(JIT_CUDA, device));
        producer *p = make_tensor(device, false);
        jit_var v = producer_take(p), sum = scene_plus(v, 1);
        ASSERT_OK(jit_var_eval(sum));
        jit_unref(v), jit_unref(sum);
        producer_destroy(p);
    }
}
TestSuite(dlpack_arrival, .init = start, .fini = scene_finish, .timeout = 120);

static void import_tensor(trial *t) {
    jit_import_options o = JIT_IMPORT_OPTIONS;
    o.producer_stream = (intptr_t) sync_token_value(t->s.token, t->s.consumer);
    asked a = scene_calls();
    ASSERT_OK(producer_import(t->p, &o, &t->v));
    asked b = scene_calls();
    t->asked = (asked) {b.records - a.records, b.waits - a.waits, b.cpu_waits - a.cpu_waits};
}

static void *compute(void *context) {
    trial *t = context;
    jit_set_device(JIT_CUDA, t->s.device);
    t->sum = scene_plus(t->v, 1);
    ASSERT_OK(jit_var_eval(t->sum));
    return NULL;
}

static void read_by_thread(trial *t) {
    pthread_t thread;
    if (t->reader == THIS_THREAD) {
        compute(t);
    } else {
        cr_assert_eq(pthread_create(&thread, NULL, compute, t), 0);
        pthread_join(thread, NULL);
    }
    consumer_gate_open(&t->s.gate);
    ASSERT_OK(jit_read(t->sum, t->got));
    for (int i = 0; t->s.sees && i < SIZE; ++i)
        cr_assert_eq(t->got[i], WORD + 1, "%s: old data", scene_name(&t->s));
    jit_unref(t->sum);
}

static void read_by_stream(trial *t) {
    DLManagedTensorVersioned *out;
    consumer *c = consumer_create(CONSUMER_NON_BLOCKING, CONSUMER_HERE, t->s.device, SIZE, false);
    jit_export_options o = JIT_EXPORT_OPTIONS;
    o.stream = (intptr_t) consumer_stream(c);
    ASSERT_OK(jit_export_dlpack(t->v, &o, &out));
    cr_assert_eq(out->dl_tensor.data, t->p->memory);
    consumer_read(c, out->dl_tensor.data, SIZE);
    consumer_gate_open(&t->s.gate);
    consumer_wait(c);
    for (int i = 0; t->s.sees && i < SIZE; ++i)
        cr_assert_eq(consumer_data(c)[i], WORD, "%s: old data", scene_name(&t->s));
    out->deleter(out);
    ASSERT_OK(jit_cuda_sync_stream(consumer_stream(c))); /* what it read may be released now */
    consumer_destroy(c);
}

/* Our streams come after the legacy one, which nobody has to name; others do not. */
static bool sees(const trial *t) {
    const scene *s = &t->s;
    return sync_orders_writer(s->token, s->how, s->place, s->kind) &&
           (s->token != SYNC_NONE || t->reader != ANOTHER_STREAM);
}

static void run(trial t) {
    scene *s = &t.s;
    s->sees = sees(&t);
    scene_begin(s);
    t.p = make_tensor(s->device, t.legacy);
    consumer_close_gate(s->consumer, &s->gate);
    consumer_write(s->consumer, t.p->memory, WORD, SIZE);
    import_tensor(&t);
    cr_assert_eq(t.asked.cpu_waits, 0, "%s: the CPU waits", scene_name(s));
    uint64_t events = (uint64_t) sync_events_of_wait(s->token, s->kind);
    cr_assert(t.asked.records == events && t.asked.waits == events, "%s", scene_name(s));
    if (t.reader == ANOTHER_STREAM)
        read_by_stream(&t);
    else
        read_by_thread(&t);
    if (!s->sees) /* else whoever frees comes after the producer's work as well */
        consumer_wait(s->consumer);
    jit_unref(t.v);
    producer_destroy(t.p);
    scene_end(s);
}

static void run_all(reader who, sync_how how) {
    enum { TOKENS = SYNC_TOKENS, PLACES = CONSUMER_PLACES, KINDS = CONSUMER_KINDS };
    for (int i = 0; i < 2 * TOKENS * PLACES * KINDS; ++i)
        run((trial) {.s = {.token = (sync_token) (i / 2 % TOKENS),
                           .place = (consumer_place) (i / 2 / TOKENS % PLACES),
                           .kind = (consumer_kind) (i / 2 / TOKENS / PLACES),
                           .how = how,
                           .device = i % 2},
                     .reader = who,
                     .legacy = i / 2 % 2});
}

/* Who imports what a stream has written names it: what that one has been lent before can be used
 * again, behind its work. */
Test(dlpack_arrival, a_producer_that_was_a_consumer_gives_back_what_it_was_lent) {
    for (int legacy = 0; legacy < 2; ++legacy) {
        scene s = {.kind = CONSUMER_NON_BLOCKING, .sees = true};
        DLManagedTensorVersioned *out;
        jit_export_options o = JIT_EXPORT_OPTIONS;
        jit_import_options i = JIT_IMPORT_OPTIONS;
        scene_begin(&s);
        o.stream = i.producer_stream = (intptr_t) consumer_stream(s.consumer);
        s.v = scene_plus(s.x, 1);
        ASSERT_OK(jit_export_dlpack(s.v, &o, &out));
        consumer_read(s.consumer, out->dl_tensor.data, SIZE);
        jit_unref(s.v);
        out->deleter(out);
        cr_assert_gt(lend_pending(), 0);
        producer *p = make_tensor(0, legacy);
        consumer_write(s.consumer, p->memory, WORD, SIZE);
        ASSERT_OK(producer_import(p, &i, &s.v));
        cr_assert_eq(lend_pending(), 0);
        consumer_wait(s.consumer); /* the memory is freed at once, as it was not used */
        jit_unref(s.v);
        s.v = 0;
        producer_destroy(p);
        scene_end(&s);
    }
}

/* Nothing is waited for, or asked, at the end of what was not used. */
Test(dlpack_arrival, what_was_not_used_is_given_back_at_once) {
    for (int token = 0; token < SYNC_TOKENS; ++token) {
        scene s = {.token = (sync_token) token, .kind = CONSUMER_NON_BLOCKING, .sees = true};
        scene_begin(&s);
        trial t = {.s = s, .p = make_tensor(0, token % 2)};
        t.p->spec.keeps = true;
        consumer_close_gate(s.consumer, &s.gate);
        import_tensor(&t);
        asked a = scene_calls();
        jit_unref(t.v);
        asked b = scene_calls();
        cr_assert_eq(atomic_load(&t.p->deleted), 1, "%s", scene_name(&s));
        cr_assert(a.records == b.records && a.waits == b.waits && a.cpu_waits == b.cpu_waits, "%s",
                  scene_name(&s));
        consumer_gate_open(&s.gate);
        consumer_wait(s.consumer);
        producer_destroy(t.p);
        scene_end(&s);
    }
}

Test(dlpack_arrival, a_kernel_of_this_thread) {
    run_all(THIS_THREAD, SYNC_ONE_THREAD);
}
Test(dlpack_arrival, a_kernel_of_this_thread_and_a_producer_in_its_own) {
    run_all(THIS_THREAD, SYNC_BY_PRODUCER);
}
Test(dlpack_arrival, a_kernel_of_another_thread) {
    run_all(ANOTHER_THREAD, SYNC_ONE_THREAD);
}
Test(dlpack_arrival, a_stream_to_which_the_array_is_handed_on) {
    run_all(ANOTHER_STREAM, SYNC_ONE_THREAD);
}
