/* test_combine_life.c: what lives how long when lanes are combined: results, parts, memory to work
 * in; failures, threads and forks.  Layer: tests. */
#include "combine_total.h"
#include "dlpack_producer.h"
#include "fork_child.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void start_backend(void) {
    support_init();
}
TestSuite(combine_life, .init = start_backend, .fini = support_shutdown);

static jit_stats stats(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s;
}

static jit_var ramp(size_t n) {
    uint64_t *a = elements_of(ASCENDING, JIT_REDUCE_ADD, JIT_u32, 0, n);
    jit_var v = support_array(JIT_u32, a, n);
    ASSERT_VAR(v);
    free(a);
    return v;
}
static uint64_t ramp_sum(size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; ++i)
        sum += i % 97;
    return sum;
}
static uint64_t read_one(jit_var v) {
    uint64_t *bits = support_read(v, 1), value = *bits;
    free(bits);
    return value;
}

enum { N = 30000, FORMS = 6 };

/* One of each form, of x. */
static jit_var form(int i, jit_var x) {
    jit_backend b = support_backend();
    jit_var other = 0, result = 0, target, limit;
    switch (i) {
        case 0: return jit_reduce(JIT_REDUCE_ADD, x);
        case 1: return jit_block_reduce(JIT_REDUCE_ADD, x, 100);
        case 2: return jit_prefix_reduce(JIT_REDUCE_ADD, x, false, false);
        case 3:
            limit = jit_u32(b, 50);
            target = jit_gt(x, limit);
            ASSERT_OK(jit_compress_padded(target, &result, &other));
            jit_unref(limit);
            jit_unref(target);
            jit_unref(other);
            return result;
        case 4:
            target = jit_literal(b, JIT_u32, &(uint32_t) {0}, 97);
            result = jit_scatter_inc(&target, x, 0);
            jit_unref(target);
            return result;
        default:
            target = jit_literal(b, JIT_u32, &(uint32_t) {0}, 97);
            result = jit_scatter_reduce(JIT_REDUCE_MAX, target, x, x, 0);
            jit_unref(target);
            return result;
    }
}

/** Neither variables nor device memory stay, be they evaluated or not. */
Test(combine_life, nothing_is_left) {
    jit_var x = ramp(N);
    ASSERT_OK(jit_sync_thread());
    jit_stats before = stats();
    for (int i = 0; i < 2 * FORMS; ++i) {
        jit_var v = form(i / 2, x);
        ASSERT_VAR(v);
        if (i & 1)
            ASSERT_OK(jit_var_eval(v));
        jit_unref(v);
        jit_stats now = stats();
        cr_assert_eq(now.variables, before.variables, "form %d: %d variables", i / 2,
                     (int) (now.variables - before.variables));
        cr_assert_eq(now.bytes_live, before.bytes_live, "form %d", i / 2);
    }
    jit_scope_push();
    ASSERT_VAR(jit_compress(jit_gt(x, jit_u32(support_backend(), 3))));
    ASSERT_OK(jit_scope_pop(0, NULL));
    cr_assert_eq(stats().variables, before.variables);
    cr_assert_eq(stats().bytes_live, before.bytes_live);
    jit_unref(x);
}

/** Whatever there is no memory for, nothing is lost and nothing half done: with more memory the
 * same variables are evaluated. */
Test(combine_life, without_memory_nothing_is_half_done) {
    jit_var x = ramp(N);
    ASSERT_OK(jit_sync_thread());
    for (int i = 0; i < FORMS; ++i) {
        int failures = 0;
        jit_var v = form(i, x);
        ASSERT_OK(jit_sync_thread());
        ASSERT_OK(jit_trim());
        size_t live = stats().bytes_live;
        for (size_t limit = live + 1; failures < 100; limit += 3000) {
            char text[30];
            snprintf(text, sizeof text, "%zu", limit);
            ASSERT_OK(jit_set_option("memory_limit", text));
            jit_status status = jit_var_eval(v);
            if (status == JIT_OK)
                break;
            cr_assert_eq(status, JIT_OUT_OF_MEMORY, "%s", jit_error());
            cr_assert_eq(stats().bytes_live, live);
            jit_error_clear();
            ++failures;
        }
        ASSERT_OK(jit_set_option("memory_limit", "0"));
        cr_assert(failures > 0, "form %d", i);
        if (i == 0)
            cr_assert_eq(read_one(v), ramp_sum(N));
        else
            ASSERT_OK(jit_var_eval(v));
        jit_unref(v);
    }
    jit_unref(x);
}

/** The count may be asked of one thread while another evaluates the indices, or records the same.
 */
typedef struct worker {
    jit_var x;
    uint64_t sum;
    bool ok;
} worker;

static void *work(void *p) {
    worker *w = p;
    jit_backend b = support_backend();
    w->ok = true;
    for (uint32_t k = 0; k < 8 && w->ok; ++k) {
        uint32_t got = 0;
        jit_scope_push();
        jit_var m = jit_gt(w->x, jit_u32(b, k)), indices, count, at;
        jit_var sorted_by = jit_compress(m); /* equal calls are one variable in all threads */
        w->ok = sorted_by && jit_compress_padded(m, &indices, &count) == JIT_OK &&
                jit_read(k & 1 ? count : jit_reduce(JIT_REDUCE_ADD, jit_cast(m, JIT_u32)), &got) ==
                    JIT_OK &&
                got == jit_size(sorted_by);
        at = jit_gather(w->x, sorted_by, 0);
        w->ok = w->ok && jit_read(jit_reduce(JIT_REDUCE_MIN, at), &got) == JIT_OK && got == k + 1;
        jit_scope_pop(0, NULL);
    }
    return NULL;
}

Test(combine_life, threads_share_results) {
    enum { THREADS = 4 };
    worker w[THREADS];
    pthread_t t[THREADS];
    jit_var x = ramp(3000);
    for (int i = 0; i < THREADS; ++i) {
        w[i].x = x;
        cr_assert_eq(pthread_create(&t[i], NULL, work, &w[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i)
        pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; ++i)
        cr_assert(w[i].ok, "thread %d: %s", i, jit_error());
    cr_assert_eq(stats().variables, 1);
    jit_unref(x);
}

static void *sort_too(void *p) {
    jit_var v = jit_sort(*(jit_var *) p, false, NULL);
    jit_status status = v ? jit_var_eval(v) : JIT_INVALID_HANDLE;
    jit_unref(v);
    return status == JIT_OK ? NULL : p;
}

/** The memory that a kernel works in is not another thread's before the kernel is over: the
 * simulated driver tells. */
Test(combine_life, no_two_kernels_work_in_one_place) {
    jit_var x = ramp(N), y = ramp(N);
    ASSERT_OK(jit_sync_thread());
    for (int i = 0; i < 5; ++i) {
        pthread_t t;
        void *failed;
        jit_var v = jit_sort(x, true, NULL);
        ASSERT_OK(jit_var_eval(v));
        cr_assert_eq(pthread_create(&t, NULL, sort_too, &y), 0);
        cr_assert_eq(pthread_join(t, &failed), 0);
        cr_assert_null(failed);
        jit_unref(v);
    }
    jit_unref(x);
    jit_unref(y);
}

/** The result of jit_compress() is in the memory of the numbers of all, and is an array like
 * others: updated in place when nobody else has it. */
Test(combine_life, compressed_numbers_can_be_updated) {
    jit_backend b = support_backend();
    jit_var x = ramp(1000), m = jit_eq(x, jit_u32(b, 5)), v = jit_compress(m);
    cr_assert_eq(jit_size(v), 11);
    jit_var u = jit_scatter(v, jit_u32(b, 7), jit_u32(b, 10), 0);
    jit_unref(v);
    uint64_t *got = support_read(u, 11);
    cr_assert(got[0] == 5 && got[9] == 5 + 9 * 97 && got[10] == 7);
    free(got);
    jit_unref(u);
    jit_unref(m);
    jit_unref(x);
}

/* ---- memory of others ---- */

/* Each form of a tensor of others; bools are bytes of which not only 1 is true. */
static void combine_tensor(const tensor_spec *spec) {
    producer *p = producer_create(spec);
    jit_var x = producer_take(p), v[4];
    uint64_t *in = producer_expected(p), *got;
    size_t n = p->size, sums = (n + 4) / 5;
    jit_reduce_op op = spec->type == JIT_bool ? JIT_REDUCE_OR : JIT_REDUCE_MAX;
    v[0] = jit_reduce(op, x);
    v[1] = jit_block_reduce(op, x, 5);
    v[2] = jit_prefix_reduce(op, x, false, true);
    v[3] = jit_sort(x, false, NULL);
    for (int i = 0; i < 4; ++i)
        ASSERT_OK(jit_schedule(v[i]));
    ASSERT_OK(jit_eval());
    total all = total_start(op, spec->type), back = all;
    for (size_t i = 0; i < n; ++i)
        total_add(&all, in[i]);
    total_check(&all, read_one(v[0]), "reduce", 0);
    got = support_read(v[1], sums);
    for (size_t b = 0; b < sums; ++b) {
        total s = total_start(op, spec->type);
        for (size_t i = 5 * b; i < n && i < 5 * b + 5; ++i)
            total_add(&s, in[i]);
        total_check(&s, got[b], "block_reduce", b);
    }
    free(got);
    got = support_read(v[2], n);
    for (size_t i = n; i-- > 0;) {
        total_add(&back, in[i]);
        total_check(&back, got[i], "prefix_reduce", i);
    }
    free(got);
    got = support_read(v[3], n);
    total_check(&all, got[n - 1], "sort", n - 1);
    free(got);
    if (spec->type == JIT_bool) {
        jit_var numbers = jit_compress(x);
        size_t trues = 0;
        for (size_t i = 0; i < n; ++i)
            trues += in[i];
        cr_assert_eq(jit_size(numbers), trues);
        jit_unref(numbers);
    }
    for (int i = 0; i < 4; ++i)
        jit_unref(v[i]);
    jit_unref(x);
    cr_assert_eq(producer_deleted(p), 1);
    producer_destroy(p);
    free(in);
}

Test(combine_life, tensors_of_others_are_read_where_they_are) {
    static const int64_t shape[] = {7, 11}, apart[] = {22, 2}, turned[] = {1, 7},
                         back[] = {-11, -1};
    static const int64_t *const strides[] = {NULL, apart, turned, back};
    static const jit_dtype types[] = {JIT_bool, JIT_u16, JIT_f64};
    for (size_t i = 0; i < 4; ++i)
        for (size_t t = 0; t < sizeof types / sizeof *types; ++t) {
            tensor_spec spec = {.type = types[t], .ndim = 2, .shape = shape, .strides = strides[i]};
            combine_tensor(&spec);
            spec.at_start = true;
            spec.off = jit_dtype_size(types[t]);
            combine_tensor(&spec);
        }
}

/* ---- after fork() ---- */

static int child(void *p) {
    jit_var *v = p;
    uint32_t sum = 0, again = 0;
    NEED(jit_read(v[0], &sum) == JIT_OK && sum == (uint32_t) ramp_sum(LONG));
    jit_var y = jit_reduce(JIT_REDUCE_ADD, v[1]);
    NEED(jit_read(y, &again) == JIT_OK && again == sum);
    jit_var none = jit_compress(jit_gt(v[1], jit_u32(support_backend(), 1000)));
    NEED(none && jit_size(none) == 0);
    NEED(jit_read_range(v[2], LONG - 1, 1, &again) == JIT_OK && again == sum);
    jit_shutdown();
    return FINE;
}

/** What was queued goes on in the child, and more can be queued there. */
Test(combine_fork, children_combine_lanes, .timeout = 60) {
    fork_need_cpu();
    fork_begin();
    jit_var x = ramp(LONG), v[3] = {jit_reduce(JIT_REDUCE_ADD, x), x, 0};
    v[2] = jit_prefix_reduce(JIT_REDUCE_ADD, x, false, false);
    ASSERT_OK(jit_var_eval(v[0]));
    ASSERT_OK(jit_var_eval(v[2]));
    for (int i = 0; i < 4; ++i)
        ASSERT_CHILD(child, v);
    cr_assert_eq(read_one(v[0]), ramp_sum(LONG));
    for (int i = 0; i < 3; ++i)
        jit_unref(v[i]);
    support_shutdown();
}
