/* test_waits.c: what the CPU waits for before it shows a result, or tells of one. The work cannot
 * go on before its gate is opened; see also test_thread.c, of jit_read() and the syncs. */
#include "api/runtime.h"
#include "device/lend.h"
#include "event_world.h"

TestSuite(waits, .init = event_start, .fini = event_end, .timeout = 120);

typedef struct asker {
    jit_var v;
    void *address;
    atomic_bool inside, over;
} asker;

static void *ask_for_address(void *context) {
    asker *a = context;
    atomic_store(&a->inside, true);
    ASSERT_OK(jit_data(a->v, &a->address));
    atomic_store(&a->over, true);
    return NULL;
}

/* On the CPU memory is used at once; on a GPU by what is queued. */
Test(waits, an_address_waits_for_the_array_on_the_cpu_only) {
    gate g;
    pthread_t t;
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    asker a = {.v = evaluate(4)};
    cr_assert_eq(pthread_create(&t, NULL, ask_for_address, &a), 0);
    wait_until(&a.inside);
    if (B == JIT_CUDA)
        wait_until(&a.over);
    else
        gate_pause();
    cr_assert_eq(atomic_load(&a.over), B == JIT_CUDA);
    gate_open(&g);
    cr_assert_eq(pthread_join(t, NULL), 0);
    cr_assert(B == JIT_CUDA || ((float *) a.address)[SIZE - 1] == 3 * (SIZE - 1) + 4);
    gate_finish(&g);
    expect(a.v, 4);
}

/* Four of ten elements. */
static jit_status gather_from(uint32_t first) {
    static const float data[10];
    jit_scope_push();
    jit_var x = jit_from_host(B, JIT_f32, data, 10);
    jit_var index = jit_add(jit_counter(B, 4), jit_u32(B, first));
    jit_status status = jit_var_eval(jit_gather(x, index, 0));
    ASSERT_OK(jit_scope_pop(0, NULL));
    return status;
}

/* For gate_close(). The last one was right: so says the memory of its report. */
static void use_gather(void) {
    ASSERT_OK(gather_from(2));
    ASSERT_OK(gather_from(3));
}

static uint64_t launches(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s.launches;
}

typedef struct opener {
    gate *gate;
    uint64_t launches; /* before */
} opener;

static void *open_after_launch(void *context) {
    const opener *o = context;
    while (launches() == o->launches)
        gate_pause();
    gate_pause();
    gate_open(o->gate);
    return NULL;
}

Test(waits, indices_are_reported_when_the_kernel_is_over) {
    gate g;
    pthread_t t;
    ASSERT_OK(jit_set_option("bounds_check", "1"));
    use_gather();
    gate_close(&g, use_gather);
    gate_block_own_stream(&g);
    opener o = {&g, launches()};
    cr_assert_eq(pthread_create(&t, NULL, open_after_launch, &o), 0);
    FAILS(JIT_OUT_OF_BOUNDS, "jit_gather: index 1", gather_from(8));
    cr_assert_eq(pthread_join(t, NULL), 0);
    gate_finish(&g);
}

/* ---- The end ---- */

typedef struct borrower {
    jitc_lent *loan;
    atomic_bool inside, over;
    bool early;
} borrower;

/* Whoever does not wait for it has the time to come back. */
static void release_slowly(void *context) {
    borrower *l = context;
    atomic_store(&l->inside, true);
    for (int i = 0; i < 50 && !atomic_load(&l->over); ++i)
        gate_pause();
    l->early = atomic_load(&l->over);
}

static void *end_loan(void *context) {
    borrower *l = context;
    jitc_loan_end(l->loan);
    return NULL;
}

/* The device is there until the thread has given the memory back. */
Test(waits, shutdown_waits_for_a_thread_that_ends_a_loan) {
    char memory[64];
    borrower l = {.loan = malloc(sizeof *l.loan)};
    pthread_t thread;
    jitc_thread *t;
    jitc_thread_state *s;
    jitc_buffer *b;
    if (B == JIT_CUDA)
        support_skip("there the memory is given back later");
    ASSERT_OK(jitc_api_thread(&t));
    ASSERT_OK(jitc_api_state(t, B, 0, &s));
    ASSERT_OK(jitc_buffer_map(s->device, memory, sizeof memory, release_slowly, &l, &b));
    ASSERT_OK(jitc_lend(b, NULL, &(jitc_borrower) {.token = JITC_STREAM_NONE}, l.loan));
    jitc_buffer_unref(b);
    cr_assert_eq(pthread_create(&thread, NULL, end_loan, &l), 0);
    wait_until(&l.inside);
    jit_shutdown();
    atomic_store(&l.over, true);
    cr_assert_eq(pthread_join(thread, NULL), 0);
    cr_assert_not(l.early);
}
