/* test_thread.c: what threads have of their own, and that none waits for another unless it asks to.
 * Where it matters the other's work cannot go on, so that waiting for it is a hang. */
#include "api/runtime.h"
#include "device/buffer.h"
#include "event_world.h"
#include <stdlib.h>

TestSuite(thread, .init = event_start, .fini = event_end, .timeout = 120);

static void more_devices(void) {
    setenv("SIMCUDA_DEVICES", "8", 1); /* read when the simulated driver is first called */
    event_start();
}

static jitc_device *device(int id) {
    return jitc_load_acquire(&jitc_runtime.started[jitc_backend_index(B)].device[id]);
}

static jit_stats stats(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s;
}

/* Everything a thread can do of its own: it comes back while others are stuck. */
static void *live(void *context) {
    static const float data[3] = {1, 2, 3};
    float got[3];
    void *address;
    (void) context;
    jit_scope_push();
    jit_var x = jit_from_host(B, JIT_f32, data, 3), y = jit_add(x, jit_f32(B, 1));
    ASSERT_OK(jit_schedule(y));
    ASSERT_OK(jit_eval());
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_data(y, &address));
    ASSERT_OK(jit_read(jit_scatter(y, x, jit_u32(B, 2), 0), got));
    cr_assert(got[0] == 2 && got[1] == 3);
    ASSERT_OK(jit_scope_pop(0, NULL));
    for (int i = 0; i < 3; ++i)
        expect(evaluate((float) i), (float) i);
    ASSERT_OK(jit_sync_thread());
    return NULL;
}

/* For gate_close(). */
static void use_all_kernels(void) {
    live(NULL);
    use_kernels();
}

/* ---- States ---- */

static void *use_all_devices(void *context) {
    (void) context;
    jit_var v[8] = {0};
    int devices = jit_device_count(B);
    cr_assert_eq(jit_device(B), 0, "a thread starts at device 0");
    for (int i = 0; i < devices && i < 8; ++i) {
        int d = devices - 1 - i; /* not in the order of their numbers */
        ASSERT_OK(jit_set_device(B, d));
        cr_assert_eq(jit_device(B), d);
        v[i] = evaluate((float) d);
        cr_assert_eq(jit_device_of(v[i]), d);
    }
    ASSERT_OK(jit_sync_thread());
    for (int i = 0; i < devices && i < 8; ++i)
        expect(v[i], (float) (devices - 1 - i)); /* whatever the thread's device is now */
    return NULL;
}

Test(thread, any_thread_uses_any_device_at_any_time) {
    use_all_devices(NULL);
    ASSERT_OK(jit_set_device(B, 0));
    in_thread(use_all_devices, NULL);
    cr_assert_eq(jit_device(B), 0);
}

Test(thread, switching_devices_does_not_wait) {
    gate g;
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var v = evaluate(1);
    int last = jit_device_count(B) - 1;
    ASSERT_OK(jit_set_device(B, last));
    if (last > 0) {
        expect(evaluate(2), 2);
        ASSERT_OK(jit_set_device(B, 0));
    }
    gate_finish(&g);
    expect(v, 1);
}

static void *do_little(void *context) {
    jit_var *v = context;
    *v = evaluate(5);
    ASSERT_OK(jit_sync_thread());
    return NULL;
}

Test(thread, streams_are_used_again) {
    jit_var v;
    in_thread(do_little, &v);
    expect(v, 5); /* here, on a stream of our own */
    in_thread(do_little, &v);
    jit_unref(v);
    size_t streams = device(0)->stream_count;
    for (int i = 0; i < 50; ++i) {
        in_thread(do_little, &v);
        jit_unref(v);
    }
    cr_assert_eq(device(0)->stream_count, streams);
}

/* ---- The end of a thread ---- */

typedef struct leaver {
    gate *gate;
    bool works;
    jit_var v;
} leaver;

static void *leave_with_work_queued(void *context) {
    leaver *l = context;
    gate_block_own_stream(l->gate);
    if (l->works)
        l->v = evaluate(3);
    return NULL;
}

static void thread_ends(bool works) {
    gate g;
    leaver l = {.gate = &g, .works = works};
    gate_close(&g, use_all_kernels);
    in_thread(leave_with_work_queued, &l); /* it does not wait at its end */
    for (int i = 0; i < 3; ++i)
        in_thread(live, NULL); /* nor does another that comes after it */
    live(NULL);
    gate_finish(&g);
    if (works)
        expect(l.v, 3); /* and nothing is lost */
}

Test(thread, a_thread_that_ends_with_work_queued_neither_waits_nor_loses_it) {
    thread_ends(true);
}

/* Guards: a wait alone counted as nothing, so that the next thread got the stream that waited. */
Test(thread, a_stream_that_waits_is_not_given_to_another_thread) {
    thread_ends(false);
}

Test(thread, shutdown_waits_for_work_of_threads_that_have_ended) {
    for (int i = 0; i < 10; ++i) {
        jit_var v[4];
        for (int k = 0; k < 4; ++k) {
            pthread_t t;
            cr_assert_eq(pthread_create(&t, NULL, k & 1 ? do_little : live, &v[k]), 0);
            cr_assert_eq(pthread_join(t, NULL), 0);
        }
        support_shutdown();
        support_init();
    }
}

/* ---- Nobody waits for another's work ---- */

Test(thread, another_thread_does_not_wait_for_ours) {
    gate g;
    gate_close(&g, use_all_kernels);
    gate_block_own_stream(&g);
    jit_var v = evaluate(1);
    in_thread(live, NULL); /* with the gate closed */
    gate_finish(&g);
    expect(v, 1);
}

static void *drop(void *context) {
    jit_unref(*(jit_var *) context);
    live(NULL);
    return NULL;
}

Test(thread, freeing_what_anothers_work_uses_does_not_wait) {
    enum { LARGE = 7 * SIZE }; /* of a class of memory that live() does not use */
    gate g;
    static float got[LARGE];
    jit_var i = jit_counter(B, LARGE), x = jit_cast(i, JIT_f32), y;
    ASSERT_OK(jit_var_eval(x));
    y = jit_add(x, x);
    ASSERT_OK(jit_var_eval(y)); /* loads the kernel */
    jit_unref(y);
    ASSERT_OK(jit_sync_thread());
    gate_close(&g, use_all_kernels);
    gate_block_own_stream(&g);
    y = jit_add(x, x);
    ASSERT_OK(jit_var_eval(y));
    in_thread(drop, &x); /* gives the memory back that the kernel is going to read */
    gate_finish(&g);
    ASSERT_OK(jit_read(y, got));
    for (int k = 0; k < LARGE; ++k)
        cr_assert_eq(got[k], 2 * (float) k);
    jit_unref(y);
    jit_unref(i);
}

typedef struct syncer {
    jit_var v;
    gate *gate;
    atomic_bool inside, over;
    jit_status (*sync)(void);
} syncer;

static void *sync_in_thread(void *context) {
    syncer *s = context;
    if (s->gate) {
        gate_block_own_stream(s->gate);
        s->v = evaluate(4);
    }
    atomic_store(&s->inside, true);
    ASSERT_OK(s->sync());
    atomic_store(&s->over, true);
    return NULL;
}

/* `own`: the thread that waits has queued the work itself. */
static void sync_waits(jit_status (*sync)(void), bool own) {
    gate g;
    pthread_t t;
    syncer s = {.sync = sync};
    gate_close(&g, use_kernels);
    if (own) {
        s.gate = &g;
    } else {
        gate_block_own_stream(&g);
        s.v = evaluate(4);
    }
    cr_assert_eq(pthread_create(&t, NULL, sync_in_thread, &s), 0);
    wait_until(&s.inside);
    gate_pause();
    cr_assert(!atomic_load(&s.over), "it did not wait");
    gate_open(&g);
    cr_assert_eq(pthread_join(t, NULL), 0);
    gate_finish(&g);
    expect(s.v, 4);
}

Test(thread, syncs_wait_for_those_they_name) {
    sync_waits(jit_sync_thread, true);
    sync_waits(jit_sync_device, true);
    sync_waits(jit_sync_device, false);
    sync_waits(jit_sync_all_devices, false);
}

Test(thread, a_sync_of_the_device_leaves_other_devices_alone) {
    gate g;
    if (jit_device_count(B) < 2)
        support_skip("this backend has one device");
    ASSERT_OK(jit_set_device(B, 1));
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_var v = evaluate(1);
    ASSERT_OK(jit_set_device(B, 0));
    jit_var w = evaluate(2);
    ASSERT_OK(jit_sync_device());
    ASSERT_OK(jit_set_device(B, 1));
    gate_finish(&g);
    expect(v, 1);
    expect(w, 2);
}

/* The lock of a stream is held while its owner waits for a copy to the host. */
static void be_released(void *count) {
    atomic_fetch_add((atomic_int *) count, 1);
}

static void give_back_under(jitc_mutex *lock, jitc_buffer *b) {
    jitc_mutex_lock(lock);
    jitc_buffer_unref(b);
    jitc_mutex_unlock(lock);
}

Test(thread, giving_foreign_memory_back_does_not_wait_for_its_users) {
    gate g;
    char memory[64];
    atomic_int released = 0;
    jitc_thread *t;
    jitc_thread_state *s;
    jitc_buffer *b;
    jit_unref(evaluate(0));
    ASSERT_OK(jitc_api_thread(&t));
    ASSERT_OK(jitc_api_state(t, B, 0, &s));
    gate_close(&g, use_kernels);
    for (int held = 0; held < 2; ++held) {
        gate_block_own_stream(&g);
        jit_unref(evaluate(1));
        ASSERT_OK(jitc_buffer_map(s->device, memory, sizeof memory, be_released, &released, &b));
        jitc_buffer_did_read(b, s->stream, jitc_load_relaxed(&s->stream->queued));
        if (held)
            give_back_under(&s->stream->lock, b);
        else
            jitc_buffer_unref(b);
    }
    gate_pause();
    cr_assert_eq(atomic_load(&released), 0, "the work on it has not ended");
    gate_finish(&g);
    ASSERT_OK(jit_sync_device());
    cr_assert_eq(atomic_load(&released), 2);
}

typedef struct release {
    gate *gate;
    atomic_bool may_end, ended;
} release;

static void end_late(void *context) {
    release *r = context;
    wait_until(&r->may_end);
    atomic_store(&r->ended, true);
}

static void *open_for_release(void *context) {
    release *r = context;
    gate_open(r->gate);
    gate_pause();
    atomic_store(&r->may_end, true);
    return NULL;
}

static void queue_call(release *r) {
    ASSERT_OK(jit_call(B, end_late, r));
}

static void give_foreign_memory_back(release *r) {
    static char memory[64];
    jitc_thread *t;
    jitc_thread_state *s;
    jitc_buffer *b;
    ASSERT_OK(jitc_api_thread(&t));
    ASSERT_OK(jitc_api_state(t, B, 0, &s));
    ASSERT_OK(jitc_buffer_map(s->device, memory, sizeof memory, end_late, r, &b));
    jitc_buffer_did_read(b, s->stream, jitc_load_relaxed(&s->stream->queued));
    jitc_buffer_unref(b);
}

/* A function that is queued behind work counts as such. */
static void sync_waits_for_function(void (*queue)(release *)) {
    gate g;
    pthread_t thread;
    release r = {.gate = &g};
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    jit_unref(evaluate(1));
    queue(&r);
    cr_assert_eq(pthread_create(&thread, NULL, open_for_release, &r), 0);
    ASSERT_OK(jit_sync_thread());
    cr_assert(atomic_load(&r.ended), "the function has not returned");
    cr_assert_eq(pthread_join(thread, NULL), 0);
    gate_finish(&g);
}

Test(thread, syncs_wait_for_functions_that_are_to_be_called) {
    sync_waits_for_function(queue_call);
}

/* On the CPU it ends on a stream of its own: its release may wait for what comes later. */
Test(thread, syncs_wait_for_the_end_of_foreign_memory) {
    if (B == JIT_LLVM)
        support_skip("on the CPU nobody waits for it");
    sync_waits_for_function(give_foreign_memory_back);
}

/* ---- Variables of several threads ---- */

typedef struct chain {
    gate *gate;
    jit_var v;
    pthread_barrier_t traced, evaluated;
    atomic_bool reading, read;
} chain;

static void *trace(void *context) {
    chain *c = context;
    jit_scope_push();
    jit_var i = jit_cast(jit_counter(B, SIZE), JIT_f32);
    c->v = jit_add(jit_mul(i, jit_f32(B, 3)), jit_f32(B, 6));
    ASSERT_OK(jit_scope_pop(1, &c->v));
    pthread_barrier_wait(&c->traced);
    return NULL;
}

static void *evaluate_other(void *context) {
    chain *c = context;
    pthread_barrier_wait(&c->traced);
    gate_block_own_stream(c->gate);
    ASSERT_OK(jit_var_eval(c->v));
    pthread_barrier_wait(&c->evaluated);
    return NULL;
}

static void *read_other(void *context) {
    chain *c = context;
    pthread_barrier_wait(&c->evaluated);
    atomic_store(&c->reading, true);
    expect(c->v, 6);
    atomic_store(&c->read, true);
    return NULL;
}

Test(thread, one_traces_another_evaluates_and_a_third_reads) {
    void *(*const part[3])(void *) = {trace, evaluate_other, read_other};
    gate g;
    pthread_t t[3];
    chain c = {.gate = &g};
    pthread_barrier_init(&c.traced, NULL, 2);
    pthread_barrier_init(&c.evaluated, NULL, 2);
    gate_close(&g, use_kernels);
    for (int i = 0; i < 3; ++i)
        cr_assert_eq(pthread_create(&t[i], NULL, part[i], &c), 0);
    wait_until(&c.reading);
    gate_pause();
    cr_assert(!atomic_load(&c.read), "what it reads is not computed yet");
    gate_open(&g);
    for (int i = 0; i < 3; ++i)
        cr_assert_eq(pthread_join(t[i], NULL), 0);
    gate_finish(&g);
    pthread_barrier_destroy(&c.traced);
    pthread_barrier_destroy(&c.evaluated);
}

/* Graphs that overlap: each thread evaluates values of its own over shared ones, not evaluated. */
enum { PARTS = 4, LAYERS = 5, ROUNDS = 20 };

typedef struct overlap {
    pthread_barrier_t *start;
    jit_var shared[LAYERS];
    int number;
} overlap;

static void *evaluate_overlapping(void *context) {
    const overlap *o = context;
    float got[SIZE];
    jit_scope_push();
    jit_var own[LAYERS];
    for (int k = 0; k < LAYERS; ++k)
        own[k] = jit_mul(o->shared[k], jit_f32(B, (float) (o->number + 1)));
    pthread_barrier_wait(o->start);
    for (int k = 0; k < LAYERS; ++k)
        ASSERT_OK(jit_schedule(own[(k + o->number) % LAYERS]));
    ASSERT_OK(jit_eval());
    for (int k = 0; k < LAYERS; ++k) {
        ASSERT_OK(jit_read(own[k], got));
        for (int i = 0; i < SIZE; ++i)
            cr_assert_eq(got[i], (float) ((o->number + 1) * (i + k + 1)));
    }
    ASSERT_OK(jit_scope_pop(0, NULL));
    return NULL;
}

Test(thread, overlapping_graphs_are_evaluated_at_the_same_time) {
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, PARTS);
    for (int round = 0; round < ROUNDS; ++round) {
        pthread_t t[PARTS];
        overlap o[PARTS] = {{.start = &start}};
        jit_scope_push();
        jit_var v = jit_cast(jit_counter(B, SIZE), JIT_f32);
        for (int k = 0; k < LAYERS; ++k)
            o[0].shared[k] = v = jit_add(v, jit_f32(B, 1));
        for (int i = 0; i < PARTS; ++i) {
            o[i] = o[0];
            o[i].number = i;
        }
        for (int i = 0; i < PARTS; ++i)
            cr_assert_eq(pthread_create(&t[i], NULL, evaluate_overlapping, &o[i]), 0);
        for (int i = 0; i < PARTS; ++i)
            cr_assert_eq(pthread_join(t[i], NULL), 0);
        ASSERT_OK(jit_scope_pop(0, NULL));
    }
    cr_assert_eq(stats().variables, 0);
    pthread_barrier_destroy(&start);
}

/* ---- Many at once ---- */

enum { MANY = 64, SLOTS = 16, STEPS = 12 };

/* Where threads leave values for others, on every device. */
typedef struct market {
    pthread_mutex_t lock;
    jit_var slot[SLOTS]; /* 3 i + the slot's number; 0: empty */
    pthread_barrier_t start;
} market;

typedef struct trader {
    market *market;
    int number, device;
} trader;

static jit_var swap(market *m, int slot, jit_var v) {
    pthread_mutex_lock(&m->lock);
    jit_var former = m->slot[slot];
    m->slot[slot] = v;
    pthread_mutex_unlock(&m->lock);
    return former;
}

static void *trade(void *context) {
    const trader *t = context;
    uint32_t r = (uint32_t) t->number * 2654435761u + 1;
    pthread_barrier_wait(&t->market->start);
    ASSERT_OK(jit_set_device(B, t->device));
    for (int i = 0; i < STEPS; ++i) {
        r = r * 1664525 + 1013904223;
        int slot = (int) (r >> 20) % SLOTS;
        jit_var v = evaluate((float) slot), former = swap(t->market, slot, v);
        if (former && r >> 31) /* of another thread, maybe of another device */
            expect(former, (float) slot);
        else
            jit_unref(former);
        if (i % 5 == 4)
            ASSERT_OK(jit_sync_thread());
    }
    return NULL; /* with work queued */
}

static void crowd(int devices) {
    static market m = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t t[MANY];
    trader all[MANY];
    pthread_barrier_init(&m.start, NULL, MANY);
    for (int i = 0; i < MANY; ++i) {
        all[i] = (trader) {&m, i, i % devices};
        cr_assert_eq(pthread_create(&t[i], NULL, trade, &all[i]), 0);
    }
    for (int i = 0; i < MANY; ++i)
        cr_assert_eq(pthread_join(t[i], NULL), 0);
    for (int i = 0; i < SLOTS; ++i) {
        jit_var v = swap(&m, i, 0);
        if (v)
            expect(v, (float) i);
    }
    pthread_barrier_destroy(&m.start);
    ASSERT_OK(jit_sync_all_devices());
    cr_assert_eq(stats().variables, 0);
    cr_assert_eq(stats().bytes_live, 0);
}

Test(thread, sixty_four_at_once_on_one_device) {
    crowd(1);
    crowd(1);
}

Test(thread, sixty_four_at_once_on_all_devices, .init = more_devices) {
    crowd(jit_device_count(B));
}
