/* test_eval.c: from the graph to results: kernels, cuts, memory, failures, threads.
 * What single operations return is in test_ops.c. */
#include "support.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define B support_backend()

static void end(void) {
    cr_assert_str_empty(jit_error());
    support_shutdown();
}

TestSuite(eval, .init = support_init, .fini = end);

static jit_stats stats(void) {
    jit_stats s;
    cr_assert_eq(jit_get_stats(&s), JIT_OK);
    return s;
}

/* 0, 1, 2, ... in memory. */
static jit_var ramp(size_t n) {
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; ++i)
        x[i] = (float) i;
    jit_var v = jit_from_host(B, JIT_f32, x, n);
    free(x);
    return v;
}

static void expect_f32(jit_var v, size_t n, float (*f)(size_t i), const char *what) {
    float *x = malloc((n + 1) * sizeof *x);
    cr_assert_eq(jit_size(v), n);
    cr_assert_eq(jit_read(v, x), JIT_OK, "%s: %s", what, jit_error());
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(x[i], f(i), "%s: element %zu is %g, not %g", what, i, x[i], f(i));
    free(x);
}

static float twice_plus_one(size_t i) {
    return 2 * (float) i + 1;
}

Test(eval, nothing_is_computed_before_it_is_needed) {
    jit_scope_push();
    jit_var y = jit_add(jit_mul(ramp(100), jit_f32(B, 2)), jit_f32(B, 1));
    cr_assert_eq(stats().launches, 0);
    expect_f32(y, 100, twice_plus_one, "y");
    cr_assert_eq(stats().launches, 1);
    expect_f32(y, 100, twice_plus_one, "y again");
    cr_assert_eq(stats().launches, 1);
    jit_scope_pop(0, NULL);
}

Test(eval, roots_of_one_size_share_a_kernel) {
    jit_scope_push();
    jit_var x = ramp(1000), y = jit_add(x, x), z = jit_mul(y, x);
    jit_schedule(y);
    jit_schedule(z);
    jit_schedule(y);
    cr_assert_eq(jit_eval(), JIT_OK);
    cr_assert_eq(stats().launches, 1);
    jit_scope_pop(0, NULL);
}

Test(eval, roots_of_several_sizes_are_evaluated_together) {
    jit_scope_push();
    jit_var x = ramp(1000), y = jit_add(x, x), one = jit_sqrt(ramp(1)), none = jit_neg(ramp(0));
    jit_var both = jit_add(y, one);
    jit_schedule(y);
    jit_schedule(one);
    jit_schedule(none);
    jit_schedule(both);
    cr_assert_eq(jit_eval(), JIT_OK);
    cr_assert_eq(stats().launches, 2, "one kernel for each size that is not 0");
    float v[1000];
    cr_assert_eq(jit_read(both, v), JIT_OK);
    cr_assert_eq(v[999], 1998);
    cr_assert_eq(jit_read(none, v), JIT_OK);
    jit_scope_pop(0, NULL);
}

Test(eval, a_changed_scalar_compiles_nothing) {
    jit_scope_push();
    jit_var x = ramp(64);
    for (int i = 2; i < 50; ++i) {
        jit_var y = jit_add(jit_mul(x, jit_f32(B, (float) i)), jit_f32(B, (float) -i));
        float v[64];
        cr_assert_eq(jit_read(y, v), JIT_OK);
        for (int k = 0; k < 64; ++k)
            cr_assert_eq(v[k], (float) (k * i - i));
    }
    jit_stats s = stats();
    cr_assert_leq(s.kernels_compiled + s.disk_hits, 1);
    cr_assert_eq(s.memory_hits, 47);
    jit_scope_pop(0, NULL);
}

Test(eval, arrays_larger_than_caches) {
    size_t n = ((size_t) 1 << 24) + 3;
    uint32_t *x = malloc(n * sizeof *x);
    jit_var i = jit_counter(B, n), sum = jit_add(i, i);
    cr_assert_eq(jit_read(sum, x), JIT_OK, "%s", jit_error());
    size_t right = 0;
    while (right < n && x[right] == 2 * right)
        ++right;
    cr_assert_eq(right, n, "element %zu is %u", right, x[right < n ? right : 0]);
    jit_unref(i);
    jit_unref(sum);
    free(x);
}

Test(eval, a_dropped_variable_is_not_computed) {
    jit_var x = ramp(10), y = jit_add(x, x);
    jit_schedule(y);
    jit_unref(y);
    cr_assert_eq(jit_eval(), JIT_OK);
    cr_assert_eq(stats().launches, 0);
    jit_unref(x);
    cr_assert_eq(stats().variables, 0);
}

Test(eval, a_chain_of_a_million_operations) {
    jit_var a = ramp(3), one = jit_f32(B, 1), minus = jit_f32(B, -1);
    for (int i = 0; i < 1000000; ++i) {
        jit_var next = jit_add(a, i % 3 ? one : minus);
        jit_unref(a);
        a = next;
    }
    float v[3];
    cr_assert_eq(jit_read(a, v), JIT_OK, "%s", jit_error());
    cr_assert_eq(v[2], 2 + 333332);
    cr_assert_geq(stats().launches, 100, "cut into kernels");
    cr_assert_leq(stats().bytes_peak, 64 * 1024, "what lies between two kernels is reused");
    jit_unref(a);
    jit_unref(one);
    jit_unref(minus);
    cr_assert_eq(stats().variables, 0);
}

Test(eval, literals_and_counters_are_read_without_a_kernel) {
    jit_scope_push();
    int16_t value = -7, v[5];
    cr_assert_eq(jit_read(jit_literal(B, JIT_i16, &value, 5), v), JIT_OK);
    for (int i = 0; i < 5; ++i)
        cr_assert_eq(v[i], -7);
    uint32_t c[3];
    cr_assert_eq(jit_read_range(jit_counter(B, (size_t) 1 << 32), 4294967293u, 3, c), JIT_OK);
    cr_assert_eq(c[2], UINT32_MAX);
    uint64_t w[2];
    cr_assert_eq(jit_read_range(jit_counter(B, (size_t) 1 << 40), 4294967296u, 2, w), JIT_OK);
    cr_assert_eq(w[1], 4294967297u);
    cr_assert_eq(stats().launches, 0);
    jit_scope_pop(0, NULL);
}

Test(eval, literals_and_counters_have_an_address) {
    jit_scope_push();
    jit_var lit = jit_f64(B, 2.5), count = jit_counter(B, 100);
    void *p = NULL;
    cr_assert_eq(jit_data(lit, &p), JIT_OK, "%s", jit_error());
    double value;
    support_copy_to_host(&value, p, sizeof value);
    cr_assert_eq(value, 2.5);
    cr_assert_eq(jit_data(count, &p), JIT_OK, "%s", jit_error());
    uint32_t counted[100];
    support_copy_to_host(counted, p, sizeof counted);
    cr_assert_eq(counted[99], 99);
    jit_scope_pop(0, NULL);
}

/* Gathers and scatters. */

static float reversed_twice(size_t i) {
    return 2 * (99 - (float) i);
}

Test(eval, a_gather_from_what_is_not_in_memory_makes_two_kernels) {
    jit_scope_push();
    jit_var x = ramp(100), y = jit_add(x, x);
    jit_var index = jit_sub(jit_u32(B, 99), jit_counter(B, 100));
    expect_f32(jit_gather(y, index, 0), 100, reversed_twice, "gather");
    cr_assert_eq(stats().launches, 2);
    jit_scope_pop(0, NULL);
}

Test(eval, a_gather_from_a_literal_or_a_counter) {
    jit_scope_push();
    float half = 0.5f, v[4];
    uint32_t c[4];
    jit_var index = jit_mul(jit_counter(B, 4), jit_u32(B, 3));
    cr_assert_eq(jit_read(jit_gather(jit_literal(B, JIT_f32, &half, 8), index, 0), v), JIT_OK);
    cr_assert_eq(v[2], 0.5f);
    cr_assert_eq(v[3], 0, "9 is out of range");
    jit_var counter = jit_counter(B, 8);
    cr_assert_eq(jit_read(jit_gather(counter, index, 0), c), JIT_OK);
    cr_assert_eq(c[2], 6);
    cr_assert_eq(stats().bytes_live, 2 * 512, "the results; what was read is a counter still");
    jit_scope_pop(0, NULL);
}

Test(eval, a_scatter_leaves_its_target_as_it_is) {
    jit_scope_push();
    jit_var x = ramp(10), y = jit_scatter(x, jit_f32(B, -1), jit_u32(B, 3), 0);
    float v[10];
    cr_assert_eq(jit_read(y, v), JIT_OK, "%s", jit_error());
    cr_assert_eq(v[3], -1);
    cr_assert_eq(v[4], 4);
    cr_assert_eq(jit_read(x, v), JIT_OK);
    cr_assert_eq(v[3], 3);
    jit_scope_pop(0, NULL);
}

Test(eval, a_scatter_into_the_last_reference_works_in_place) {
    jit_var x = ramp(10), value = jit_f32(B, -1), index = jit_u32(B, 3);
    void *before, *after;
    cr_assert_eq(jit_data(x, &before), JIT_OK);
    jit_var y = jit_scatter(x, value, index, 0);
    jit_unref(x);
    cr_assert_eq(jit_data(y, &after), JIT_OK, "%s", jit_error());
    cr_assert_eq(before, after);
    float v[10];
    support_copy_to_host(v, after, sizeof v);
    cr_assert_eq(v[3], -1);
    cr_assert_eq(v[9], 9);
    jit_unref(y);
    jit_unref(value);
    jit_unref(index);
    cr_assert_eq(stats().variables, 0);
}

Test(eval, a_scatter_sees_the_old_values_of_its_target) {
    jit_var x = ramp(10), i = jit_counter(B, 10);
    jit_var back = jit_gather(x, jit_sub(jit_u32(B, 9), i), 0);
    jit_var y = jit_scatter(x, back, i, 0);
    jit_unref(x);
    float v[10];
    cr_assert_eq(jit_read(y, v), JIT_OK);
    for (int k = 0; k < 10; ++k)
        cr_assert_eq(v[k], (float) (9 - k));
    jit_unref(back);
    jit_unref(y);
    jit_unref(i);
}

Test(eval, scatters_follow_each_other) {
    jit_scope_push();
    jit_var x = ramp(50);
    for (uint32_t k = 0; k < 50; ++k) {
        jit_var old = jit_gather(x, jit_u32(B, k), 0);
        x = jit_scatter(x, jit_add(old, jit_f32(B, 100)), jit_u32(B, (k + 1) % 50), 0);
    }
    float v[50];
    cr_assert_eq(jit_read(x, v), JIT_OK, "%s", jit_error());
    cr_assert_eq(v[1], 100);
    cr_assert_eq(v[2], 200);
    cr_assert_eq(v[0], 5000);
    jit_scope_pop(0, NULL);
}

Test(eval, a_scatter_of_nothing_is_a_copy) {
    jit_scope_push();
    jit_var x = ramp(10), none = jit_from_host(B, JIT_f32, "", 0);
    jit_var y = jit_scatter(x, none, jit_from_host(B, JIT_u32, "", 0), 0);
    float v[10];
    cr_assert_eq(jit_read(y, v), JIT_OK, "%s", jit_error());
    cr_assert_eq(v[9], 9);
    jit_scope_pop(0, NULL);
}

Test(eval, indices_out_of_range_are_reported_on_request) {
    jit_scope_push();
    jit_var x = ramp(10), index = jit_add(jit_counter(B, 4), jit_u32(B, 8));
    jit_var y = jit_gather(x, index, 0);
    jit_set_option("bounds_check", "1");
    cr_assert_eq(jit_var_eval(y), JIT_OUT_OF_BOUNDS);
    cr_assert(strstr(jit_error(), "jit_gather: index 1"), "%s", jit_error());
    cr_assert(strstr(jit_error(), "array of 10 f32"), "%s", jit_error());
    jit_error_clear();
    cr_assert_eq(jit_var_eval(y), JIT_OUT_OF_BOUNDS, "it can be repeated");
    jit_error_clear();
    jit_var masked = jit_gather(x, index, jit_lt(index, jit_u32(B, 10)));
    cr_assert_eq(jit_var_eval(masked), JIT_OK, "masked lanes are not reported: %s", jit_error());
    jit_var z = jit_scatter(x, jit_f32(B, 0), index, 0);
    cr_assert_eq(jit_var_eval(z), JIT_OUT_OF_BOUNDS);
    cr_assert(strstr(jit_error(), "jit_scatter"), "%s", jit_error());
    jit_error_clear();
    jit_set_option("bounds_check", "0");
    float v[4];
    cr_assert_eq(jit_read(y, v), JIT_OK);
    cr_assert_eq(v[1], 9);
    cr_assert_eq(v[2], 0);
    jit_scope_pop(0, NULL);
}

/* What JIT_DUMP prints. */

static void dumped(const char *letters, float value, char *text, size_t size) {
    int saved = dup(2);
    FILE *file = tmpfile();
    jit_set_option("dump", letters);
    fflush(stderr);
    dup2(fileno(file), 2);
    jit_var x = ramp(100), c = jit_f32(B, value), y = jit_mul(x, c), z = jit_sqrt(y);
    jit_set_label(y, "the product");
    jit_status status = jit_var_eval(z);
    fflush(stderr);
    dup2(saved, 2);
    close(saved);
    cr_assert_eq(status, JIT_OK, "%s", jit_error());
    rewind(file);
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    jit_unref(x);
    jit_unref(c);
    jit_unref(y);
    jit_unref(z);
}

Test(eval, every_stage_can_be_printed) {
    static char text[65536];
    jit_set_option("cache_disk", "0");
    dumped("t", 2.5f, text, sizeof text);
    cr_assert(strstr(text, "literal 2.5 : f32[1]"), "%s", text);
    cr_assert(strstr(text, ": f32[100]  ; the product"), "%s", text);
    dumped("s", 2.5f, text, sizeof text);
    cr_assert(strstr(text, "kernel 1 of 1, 100 lanes"), "%s", text);
    cr_assert(strstr(text, "store"), "%s", text);
    cr_assert_eq(jit_cache_clear_memory(), JIT_OK);
    dumped("gk", 2.5f, text, sizeof text);
    bool llvm = B == JIT_LLVM;
    cr_assert(strstr(text, llvm ? "define void @kernel(" : "void jitc_"), "%s", text);
    cr_assert(strstr(text, llvm ? "sqrtps" : "sqrt"), "%s", text);
    dumped("", 2.5f, text, sizeof text);
    cr_assert_str_empty(text);
}

/* Failures. */

Test(eval, out_of_memory_leaves_everything_as_it_was) {
    jit_scope_push();
    jit_var x = ramp(100000), y = jit_add(x, x),
            z = jit_mul(jit_gather(y, jit_counter(B, 100000), 0), x);
    jit_set_option("memory_limit", "1000K");
    jit_stats before = stats();
    cr_assert_eq(jit_var_eval(z), JIT_OUT_OF_MEMORY);
    cr_assert(strstr(jit_error(), "memory_limit"), "%s", jit_error());
    jit_error_clear();
    cr_assert_eq(stats().variables, before.variables);
    jit_set_option("memory_limit", "0");
    float *v = malloc(100000 * sizeof *v);
    cr_assert_eq(jit_read(z, v), JIT_OK, "%s", jit_error());
    cr_assert_eq(v[300], 180000);
    free(v);
    jit_scope_pop(0, NULL);
}

/* Foreign memory. */

typedef struct owner {
    atomic_int released;
    jit_var seen;
} owner;

static void release_owner(void *context) {
    owner *o = context;
    jit_var v = jit_f32(B, 1); /* user code may call the library: no lock is held */
    jit_unref(v);
    atomic_fetch_add(&o->released, 1);
}

Test(eval, mapped_memory_is_released_once_after_its_last_use) {
    support_need_host_memory();
    static float x[5000];
    owner o = {0};
    for (int i = 0; i < 5000; ++i)
        x[i] = (float) i;
    jit_var v = jit_map(B, JIT_f32, x, 5000, release_owner, &o);
    jit_var one = jit_f32(B, 1), two = jit_f32(B, 2);
    jit_var twice = jit_mul(v, two), y = jit_add(twice, one);
    jit_unref(twice);
    jit_unref(v);
    cr_assert_eq(atomic_load(&o.released), 0, "y still needs it");
    expect_f32(y, 5000, twice_plus_one, "y");
    jit_sync_thread();
    stats(); /* gives up what has died */
    cr_assert_eq(atomic_load(&o.released), 1);
    jit_unref(y);
    jit_unref(one);
    jit_unref(two);
}

Test(eval, mapped_memory_is_never_written) {
    support_need_host_memory();
    float x[4] = {0, 1, 2, 3};
    jit_var v = jit_map(B, JIT_f32, x, 4, NULL, NULL), a = jit_f32(B, 9), i = jit_u32(B, 0);
    jit_var y = jit_scatter(v, a, i, 0);
    jit_unref(v);
    float out[4];
    cr_assert_eq(jit_read(y, out), JIT_OK);
    cr_assert_eq(out[0], 9);
    cr_assert_eq(x[0], 0);
    jit_unref(y);
    jit_unref(a);
    jit_unref(i);
}

Test(eval, shutdown_gives_mapped_memory_back) {
    support_need_host_memory();
    float x[4] = {0};
    owner o = {0};
    jit_map(B, JIT_f32, x, 4, release_owner, &o);
    jit_shutdown();
    cr_assert_eq(atomic_load(&o.released), 1);
    jit_error_clear(); /* the callback met a library that was shutting down */
    cr_assert_eq(jit_init(B), JIT_OK);
}

Test(eval, shutdown_makes_handles_invalid) {
    jit_var v = ramp(10);
    jit_shutdown();
    cr_assert_eq(jit_size(v), 0);
    cr_assert_eq(jit_error_status(), JIT_NOT_INITIALIZED);
    jit_error_clear();
    cr_assert_eq(jit_init(B), JIT_OK);
    float x[10];
    cr_assert_eq(jit_read(v, x), JIT_INVALID_HANDLE);
    jit_error_clear();
}

/* Threads. */

enum { THREADS = 4 };

typedef struct shared {
    jit_var a, b, c;
    pthread_barrier_t start;
} shared;

static void *evaluate_shared(void *p) {
    shared *s = p;
    float v[1000];
    pthread_barrier_wait(&s->start);
    cr_assert_eq(jit_schedule(s->b), JIT_OK);
    cr_assert_eq(jit_eval(), JIT_OK, "%s", jit_error());
    cr_assert_eq(jit_read(s->c, v), JIT_OK, "%s", jit_error());
    for (int i = 0; i < 1000; ++i)
        cr_assert_eq(v[i], i == 7 ? -1 : (float) (4 * i));
    return NULL;
}

Test(eval, threads_evaluate_one_graph_at_the_same_time, .timeout = 250) {
    for (int round = 0; round < 50; ++round) {
        shared s;
        pthread_t thread[THREADS];
        jit_scope_push();
        s.a = ramp(1000);
        s.b = jit_add(s.a, s.a);
        s.c = jit_scatter(jit_add(s.b, s.b), jit_f32(B, -1), jit_u32(B, 7), 0);
        pthread_barrier_init(&s.start, NULL, THREADS);
        for (int i = 0; i < THREADS; ++i)
            pthread_create(&thread[i], NULL, evaluate_shared, &s);
        for (int i = 0; i < THREADS; ++i)
            pthread_join(thread[i], NULL);
        pthread_barrier_destroy(&s.start);
        jit_scope_pop(0, NULL);
    }
    cr_assert_eq(stats().variables, 0);
}

static void *make_and_schedule(void *p) {
    jit_var *v = p;
    jit_var x = ramp(100), one = jit_f32(B, 1), twice = jit_add(x, x);
    *v = jit_add(twice, one);
    jit_schedule(*v);
    jit_unref(x);
    jit_unref(one);
    jit_unref(twice);
    return NULL; /* the thread ends with work on its list */
}

Test(eval, variables_outlive_their_thread) {
    pthread_t thread;
    jit_var v;
    pthread_create(&thread, NULL, make_and_schedule, &v);
    pthread_join(thread, NULL);
    expect_f32(v, 100, twice_plus_one, "v");
    jit_unref(v);
    cr_assert_eq(stats().variables, 0);
}
