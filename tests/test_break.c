/* test_break.c: what a clumsy program does: threads that end in the middle, callbacks that call the
 * library, options that change while others evaluate, memory that runs out. */
#include "support.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 1000 };
static float memory[N];
static int released;

#define B support_backend()
TestSuite(breaking, .init = support_init, .fini = support_shutdown);

static jit_var array(void) {
    jit_var v = jit_from_host(B, JIT_f32, memory, N);
    ASSERT_VAR(v);
    return v;
}

static void run_thread(void *(*function)(void *), void *context) {
    pthread_t t;
    cr_assert_eq(pthread_create(&t, NULL, function, context), 0);
    pthread_join(t, NULL);
}

/* Release of mapped memory: makes, evaluates and reads variables. */
static void compute(void *context) {
    float got[N];
    (void) context;
    jit_var v = array(), w = jit_mul(v, v);
    jit_unref(v);
    ASSERT_OK(jit_read(w, got));
    jit_unref(w);
    __atomic_add_fetch(&released, 1, __ATOMIC_SEQ_CST);
}

static void *end_in_scope_with_work(void *context) {
    (void) context;
    jit_var m =
        support_maps_host_memory() ? jit_map(B, JIT_f32, memory, N, compute, NULL) : array();
    jit_scope_push();
    jit_var v = jit_add(jit_ref(m), m);
    ASSERT_OK(jit_schedule(v));
    cr_assert_eq(jit_scope_pop(0, NULL), JIT_OK);
    jit_unref(m);
    jit_scope_push();
    return NULL;
}

/* The scope's end and the list's are two destructors of the thread, in either order. */
Test(breaking, a_thread_may_end_in_a_scope_with_work_whose_release_calls_the_library) {
    for (int i = 0; i < 10; ++i)
        run_thread(end_in_scope_with_work, NULL);
    jit_sync_all_devices();
    cr_assert_eq(released, support_maps_host_memory() ? 10 : 0);
}

static void use_at_end(void *context) {
    jit_var v = *(jit_var *) context, w = jit_neg(v);
    ASSERT_VAR(w);
    ASSERT_OK(jit_var_eval(w));
    jit_unref(w);
    jit_unref(v);
}

static void *set_destructor(void *key) {
    static jit_var v;
    v = array();
    jit_scope_push();
    pthread_setspecific(*(pthread_key_t *) key, &v);
    return NULL;
}

Test(breaking, destructors_of_a_thread_may_call_the_library) {
    pthread_key_t key;
    cr_assert_eq(pthread_key_create(&key, use_at_end), 0);
    for (int i = 0; i < 4; ++i)
        run_thread(set_destructor, &key);
    pthread_key_delete(key);
}

static pthread_barrier_t barrier;

static void *hold_scopes(void *ends_at_once) {
    jit_scope_push();
    jit_var v = array();
    jit_schedule(jit_neg(v));
    jit_scope_push();
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* the runtime is another one */
    if (ends_at_once)
        return NULL; /* both scopes are open: LeakSanitizer says whether anything of them is left */
    cr_assert_eq(jit_neg(v), 0);
    jit_error_clear();
    jit_var w = array();
    ASSERT_OK(jit_eval());
    ASSERT_OK(jit_scope_pop(1, &w));
    cr_assert_eq(jit_size(w), N);
    return NULL; /* one scope is open */
}

Test(breaking, scopes_of_other_threads_outlive_a_restart) {
    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 4; ++i) {
        pthread_t t;
        pthread_create(&t, NULL, hold_scopes, i % 2 ? &barrier : NULL);
        pthread_barrier_wait(&barrier);
        jit_shutdown();
        ASSERT_OK(jit_init(B));
        pthread_barrier_wait(&barrier);
        pthread_join(t, NULL);
    }
    pthread_barrier_destroy(&barrier);
}

static int messages;

static void log_with_calls(void *context, int level, const char *text) {
    char value[32];
    (void) context, (void) level, (void) text;
    jit_get_option("log_level", value, sizeof value);
    jit_set_option("spin_us", "150");
    jit_unref(jit_f32(B, 1));
    jit_error_clear();
    messages++;
}

/* A missing backend and an environment that does not parse are both logged by jit_init(). */
Test(breaking, the_log_may_call_the_library, .init = NULL, .timeout = 60) {
    setenv("JITC_SPIN_US", "many", 1);
    jit_set_log(log_with_calls, NULL, 3);
    ASSERT_OK(jit_init(JIT_LLVM | JIT_CUDA));
    jit_var v = array(), w = jit_sin(v);
    ASSERT_OK(jit_var_eval(w));
    cr_assert(messages > 0);
    jit_set_log(NULL, NULL, 1);
}

/* A counter of one element broadcasts: it is 0 in every lane, whatever it is combined with. */
Test(breaking, a_counter_of_one_element_is_zero_in_every_lane) {
    uint32_t got[N];
    jit_var one = jit_counter(B, 1), many = jit_counter(B, N);
    jit_var results[] = {jit_add(one, many), jit_add(jit_not(one), many), jit_gather(many, one, 0),
                         jit_sub(many, one)};
    for (size_t k = 0; k < sizeof results / sizeof *results; ++k) {
        ASSERT_OK(jit_read(results[k], got));
        for (uint32_t i = 0; i < jit_size(results[k]); ++i)
            cr_assert_eq(got[i], k == 1 ? i - 1 : i, "result %zu, lane %u: %u", k, i, got[i]);
    }
    cr_assert_eq(jit_size(results[2]), 1);
}

/* Arrays without elements are made from it in the same evaluation, by kernels that do not run. */
Test(breaking, one_element_is_computed_beside_users_that_have_none) {
    for (int order = 0; order < 4; ++order) {
        float x = 1.5F, got = 0;
        jit_var one = jit_from_host(B, JIT_f32, &x, 1), sum = jit_add(one, one);
        jit_var none = jit_from_host(B, JIT_f32, &x, 0), user = jit_mul(sum, none);
        jit_var index = jit_counter(B, 0);
        if (order & 2)
            user = jit_scatter(none, sum, index, 0);
        ASSERT_OK(jit_schedule(order & 1 ? sum : user));
        ASSERT_OK(jit_schedule(order & 1 ? user : sum));
        ASSERT_OK(jit_eval());
        ASSERT_OK(jit_read(sum, &got));
        cr_assert_eq(got, 3, "order %d: %g", order, (double) got);
        cr_assert_eq(jit_size(user), 0);
    }
}

static int changing;

static void *change_options(void *context) {
    static const char *const change[][2] = {
        {"kernel_ops", "3"},    {"llvm_level", "0"},     {"bounds_check", "on"},
        {"spin_us", "0"},       {"cache_disk", "off"},   {"cache_entries", "2"},
        {"memory_limit", "1G"}, {"kernel_ops", "1000"},  {"bounds_check", "off"},
        {"cache_disk", "on"},   {"cache_entries", "100"}};
    (void) context;
    for (size_t i = 0; __atomic_load_n(&changing, __ATOMIC_ACQUIRE); ++i) {
        const char *const *c = change[i % (sizeof change / sizeof *change)];
        ASSERT_OK(jit_set_option(c[0], c[1]));
        usleep(20);
    }
    return NULL;
}

/* For ThreadSanitizer. */
Test(breaking, numbers_may_change_while_others_evaluate, .timeout = 120) {
    float got[N];
    pthread_t t;
    changing = 1;
    pthread_create(&t, NULL, change_options, NULL);
    for (int i = 0; i < 40; ++i) {
        jit_var a = array(), b = jit_f32(B, (float) i), v = jit_add(a, b);
        for (int k = 0; k < i % 8; ++k) {
            jit_var next = jit_mul(v, b);
            jit_unref(v);
            v = next;
        }
        ASSERT_OK(jit_read(v, got));
        float want = (float) i;
        for (int k = 0; k < i % 8; ++k)
            want *= (float) i;
        cr_assert_eq(got[N - 1], want);
        jit_unref(a), jit_unref(b), jit_unref(v);
    }
    __atomic_store_n(&changing, 0, __ATOMIC_RELEASE);
    pthread_join(t, NULL);
}

/* ---- A scatter while another thread evaluates what its kernel also computes ---- */

typedef struct shared {
    jit_var sum;
    pthread_barrier_t start;
} shared;

/** Evaluates a value that the other thread's plan computes along the way. */
static void *evaluate_sum(void *context) {
    shared *s = context;
    pthread_barrier_wait(&s->start);
    usleep(200); /* so that the other one has its plan, and its kernels are being compiled */
    jit_var_eval(s->sum);
    return NULL;
}

/** scatter(x) xor (x + x), of which only the result has a handle, by kernels not compiled before.
 */
static jit_var unique_use(jit_var x, jit_var sum, unsigned round) {
    jit_scope_push();
    jit_var index = jit_counter(B, N / 2), seven = jit_u32(B, 7);
    jit_var v = jit_xor(jit_scatter(x, seven, index, 0), sum);
    for (unsigned i = 0; i < 8; ++i)
        v = jit_xor(v, round >> i & 1 ? jit_add(v, seven) : jit_mul(v, v));
    jit_scope_pop(1, &v);
    return v;
}

static uint32_t expected(uint32_t x, uint32_t i, unsigned round) {
    uint32_t v = (i < N / 2 ? 7 : x) ^ (x + x);
    for (unsigned k = 0; k < 8; ++k)
        v ^= round >> k & 1 ? v + 7 : v * v;
    return v;
}

/* The array that a scatter updates was overwritten although the kernel behind it read it: no node
 * told of that any more, since the other thread had evaluated the sum. */
Test(breaking, a_scatter_leaves_alone_what_its_own_plan_still_reads, .timeout = 120) {
    enum { ROUNDS = 200 };
    uint32_t first[N], got[N];
    for (unsigned round = 0; round < ROUNDS; ++round) {
        pthread_t t;
        shared s;
        for (uint32_t i = 0; i < N; ++i)
            first[i] = i * 3 + round;
        jit_var x = jit_from_host(B, JIT_u32, first, N);
        s.sum = jit_add(x, x);
        jit_var v = unique_use(x, s.sum, round);
        jit_unref(x);
        pthread_barrier_init(&s.start, NULL, 2);
        cr_assert_eq(pthread_create(&t, NULL, evaluate_sum, &s), 0);
        pthread_barrier_wait(&s.start);
        ASSERT_OK(jit_read(v, got));
        pthread_join(t, NULL);
        for (uint32_t i = 0; i < N; ++i)
            cr_assert_eq(got[i], expected(first[i], i, round), "round %u, element %u", round, i);
        pthread_barrier_destroy(&s.start);
        jit_unref(v);
        jit_unref(s.sum);
    }
}
