/* test_memory_order.c: memory that was used before, on each backend: by the same thread at once, by
 * another one behind the work that used it, without a wait of the CPU; its alignment. */
#include "gate.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { N = 1 << 16 };

static void start(void) {
    ASSERT_OK(jit_set_option("num_threads", "4")); /* a gate occupies one */
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", "0")); /* what others use is used again */
}
TestSuite(memory_order, .init = start, .fini = support_shutdown);

static jit_var evaluated(size_t n, uint32_t x) {
    jit_var a = jit_u32(support_backend(), x), c = jit_counter(support_backend(), n);
    jit_var v = jit_add(c, a);
    ASSERT_VAR(v);
    ASSERT_OK(jit_var_eval(v));
    jit_unref(a), jit_unref(c);
    return v;
}
static void expect(jit_var v, size_t n, uint32_t x) {
    uint32_t *got = malloc(n * sizeof *got);
    ASSERT_OK(jit_read(v, got));
    for (size_t i = 0; i < n; ++i)
        if (got[i] != i + x)
            cr_assert(false, "element %zu: %u, not %zu", i, got[i], i + x);
    free(got);
}
static size_t cached(void) {
    jit_stats stats;
    ASSERT_OK(jit_get_stats(&stats));
    return stats.bytes_cached;
}

/* ---- A device that is busy ---- */

static gate g;

/* For gate_close(). */
static void use_kernels(void) {
    jit_var v = evaluated(N, 7), sum = jit_add(v, v);
    ASSERT_OK(jit_var_eval(sum));
    jit_unref(v), jit_unref(sum);
}

/* The calling thread's work waits until the gate is opened. */
static void be_busy(void) {
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
}
/* How often the CPU has waited for the device, where that can be told. */
static uint64_t waits(void) {
    uint64_t (*calls)(const char *) = NULL;
    void *found = support_driver("simcuda_calls");
    memcpy(&calls, &found, sizeof calls);
    return calls ? calls("cuEventSynchronize") + calls("cuStreamSynchronize") : 0;
}

Test(memory_order, the_same_thread_gets_a_block_at_once) {
    be_busy();
    jit_unref(evaluated(N, 7)); /* there is a block, whose use is not over */
    uint64_t before = waits();
    size_t kept = cached();
    for (uint32_t i = 0; i < 3; ++i) {
        jit_unref(evaluated(N, i));
        cr_assert_eq(cached(), kept, "one block serves all");
    }
    jit_var v = evaluated(N, 9);
    cr_assert_eq(waits(), before);
    gate_finish(&g);
    expect(v, N, 9);
    jit_unref(v);
}

typedef struct other {
    size_t kept; /* before */
    uint32_t x;
    jit_var result;
    uint64_t waits;
} other;

static void *evaluate_elsewhere(void *context) {
    other *o = context;
    uint64_t before = waits();
    o->result = evaluated(N, o->x);
    o->waits = waits() - before;
    cr_assert_lt(cached(), o->kept, "the block of the other thread is used again");
    return NULL;
}

/* The first thread's work on the block is not over: had the second one waited for it on the CPU, it
 * would never come back. */
Test(memory_order, another_thread_gets_it_behind_the_work_of_the_first, .timeout = 60) {
    pthread_t thread;
    be_busy();
    jit_var reader = evaluated(N, 1), sum = jit_add(reader, reader);
    ASSERT_OK(jit_var_eval(sum)); /* reads the block, late */
    jit_unref(reader);
    other o = {.kept = cached(), .x = 1000};
    cr_assert_eq(pthread_create(&thread, NULL, evaluate_elsewhere, &o), 0);
    pthread_join(thread, NULL);
    cr_assert_eq(o.waits, 0);
    gate_finish(&g);
    expect(o.result, N, 1000);
    uint32_t got[N];
    ASSERT_OK(jit_read(sum, got));
    for (uint32_t i = 0; i < N; ++i)
        cr_assert_eq(got[i], 2 * (i + 1), "the reader came before the next writer");
    jit_unref(sum), jit_unref(o.result);
}

Test(memory_order, arrays_of_all_sizes_are_aligned_and_used_again) {
    for (size_t bytes = 4; bytes <= 96 << 20; bytes += bytes / 3 / 4 * 4 + 4) {
        jit_var v = evaluated(bytes / 4, 0);
        void *p, *again;
        ASSERT_OK(jit_data(v, &p));
        cr_assert_eq((uintptr_t) p % 256, 0, "%zu bytes", bytes);
        jit_unref(v);
        v = evaluated(bytes / 4, 1);
        ASSERT_OK(jit_data(v, &again));
        cr_assert_eq(again, p, "%zu bytes", bytes);
        jit_unref(v);
    }
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim());
    cr_assert_eq(cached(), 0);
}
