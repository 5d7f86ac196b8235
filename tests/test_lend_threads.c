/* test_lend_threads.c: threads lend arrays that all have, end each other's loans, name streams,
 * evaluate and trim; and the runtime ends while loans do. */
#include "cuda_foreign.h"
#include "lend_world.h"
#include <jit/cuda.h>
#include <unistd.h>

enum { THREADS = 8, ARRAYS = 3, ROUNDS = 6, STEPS = 60, SLOTS = 32, LENGTH = 700 };

static cuda_world w;
static foreign f;

/** Loans on their way from who makes them to who ends them. */
typedef struct slot {
    jitc_mutex lock;
    loan_of loan;
} slot;

static struct {
    jit_var array[ARRAYS];
    slot slot[SLOTS];
    atomic_int wrong;
    pthread_barrier_t lent; /* everybody leaves loans behind */
} common;

typedef struct worker {
    pthread_t thread;
    unsigned random;
    CUstream stream;
    float *copy;
} worker;

static unsigned draw(worker *me, unsigned n) {
    me->random = me->random * 1664525 + 1013904223;
    return (me->random >> 8) % n;
}

static void expect(bool right) {
    if (!right)
        jitc_add_relaxed(&common.wrong, 1);
}

/** The loan into a slot; that which was there ends. */
static void put(worker *me, loan_of loan) {
    slot *s = &common.slot[draw(me, SLOTS)];
    jitc_mutex_lock(&s->lock);
    loan_of before = s->loan;
    s->loan = loan;
    jitc_mutex_unlock(&s->lock);
    lend_end(&before);
}

static intptr_t draw_token(worker *me) {
    const intptr_t tokens[] = {
        (intptr_t) me->stream,       (intptr_t) me->stream, JIT_STREAM_LEGACY,
        JIT_STREAM_PER_THREAD,       JIT_STREAM_NONE,       0,
        (intptr_t) jit_cuda_stream()};
    return tokens[draw(me, sizeof tokens / sizeof *tokens)];
}

static void lend_some(worker *me) {
    loan_of loan;
    void *data;
    expect(lend_var(common.array[draw(me, ARRAYS)], draw_token(me), &loan, &data) == JIT_OK);
    put(me, loan);
}

/** An array of its own, which is read by its stream and given up at once. */
static void lend_own(worker *me) {
    loan_of loan;
    void *data;
    jit_var v = lend_make(LENGTH, (float) draw(me, 1000));
    float expected[2] = {0};
    expect(jit_read_range(v, 0, 2, expected) == JIT_OK);
    expect(lend_var(v, (intptr_t) me->stream, &loan, &data) == JIT_OK);
    jit_unref(v);
    CU_OK(f.MemcpyDtoHAsync(me->copy, (uintptr_t) data, sizeof expected, me->stream));
    put(me, loan);
    CU_OK(f.StreamSynchronize(me->stream));
    expect(me->copy[0] == expected[0] && me->copy[1] == expected[1]);
}

static void step(worker *me) {
    switch (draw(me, 8)) {
        case 0: expect(jit_trim() == JIT_OK); break;
        case 1: expect(jit_cuda_sync_stream((uintptr_t) draw_token(me)) == JIT_OK); break;
        case 2: expect(jit_cuda_wait_stream((uintptr_t) me->stream) == JIT_OK); break;
        case 3: jit_unref(lend_make(LENGTH, 1)); break;
        case 4: put(me, (loan_of) {0}); break;
        case 5: lend_own(me); break;
        default: lend_some(me); break;
    }
}

static void *work(void *context) {
    worker *me = context;
    foreign_enter(0);
    me->stream = foreign_stream(CU_STREAM_NON_BLOCKING);
    CU_OK(f.MemHostAlloc((void **) &me->copy, 2 * sizeof *me->copy, 0));
    for (int i = 0; i < STEPS; ++i)
        step(me);
    pthread_barrier_wait(&common.lent);
    for (int i = 0; i < SLOTS; ++i) /* beside jit_shutdown() */
        put(me, (loan_of) {0});
    CU_OK(f.StreamSynchronize(me->stream));
    CU_OK(f.StreamDestroy(me->stream));
    CU_OK(f.MemFreeHost(me->copy));
    foreign_leave(0);
    return NULL;
}

static void run_round(unsigned round) {
    worker all[THREADS];
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", round % 2 ? "0" : "268435456"));
    ASSERT_OK(jit_set_option("memory_lent", round % 3 ? "100000" : "1073741824"));
    for (int i = 0; i < ARRAYS; ++i)
        common.array[i] = lend_make(LENGTH, (float) i);
    for (unsigned i = 0; i < THREADS; ++i) {
        all[i] = (worker) {.random = 100 * round + i};
        cr_assert_eq(pthread_create(&all[i].thread, NULL, work, &all[i]), 0);
    }
    pthread_barrier_wait(&common.lent);
    jit_shutdown();
    for (int i = 0; i < THREADS; ++i)
        pthread_join(all[i].thread, NULL);
    for (int i = 0; i < SLOTS; ++i) {
        lend_end(&common.slot[i].loan);
        common.slot[i].loan = (loan_of) {0};
    }
}

Test(lend_threads, they_lend_and_end_while_others_evaluate_trim_and_shut_down, .timeout = 120) {
    w = cuda_world_simulated();
    f = foreign_find();
    for (int i = 0; i < SLOTS; ++i)
        jitc_mutex_init(&common.slot[i].lock);
    pthread_barrier_init(&common.lent, NULL, THREADS + 1);
    for (unsigned round = 1; round <= ROUNDS; ++round) {
        w.seed(round);
        run_round(round);
    }
    cr_assert_eq(common.wrong, 0, "%d", common.wrong);
    cr_assert_eq(w.faults(), 0, "%s", w.fault_text());
    cr_assert_eq(w.alive(NULL), 0, "%u things are left", w.alive(NULL));
}
