/* test_lend_limits.c: how much memory lies idle because others may still read it, what happens
 * where there is none left, and that none of it breaks a capture. */
#include "lend_reader.h"
#include <jit/cuda.h>
#include <stdlib.h>

TestSuite(lend_limits, .init = reader_start, .fini = reader_finish);

/* ---- How much ---- */

static unsigned blocks(void) {
    return (unsigned) (w.calls("cuMemAllocFromPoolAsync") + w.calls("cuMemAlloc_v2"));
}

/** What the CPU waits in. */
static uint64_t cpu_waits(void) {
    return foreign_waits(&w) + w.calls("cuMemFree_v2") + w.calls("cuMemFreeHost");
}

/** One step of a loop that exports on the same stream. */
static void step(reader *r, intptr_t token) {
    loan_of loan;
    void *data;
    jit_var v = lend_make(LENT, 1);
    ASSERT_OK(lend_var(v, token, &loan, &data));
    CU_OK(f.MemcpyDtoHAsync(r->copy, (uintptr_t) data, sizeof *r->copy, r->stream));
    lend_end(&loan);
    jit_unref(v);
}

/* Even if nothing of it has been read yet. */
Test(lend_limits, a_loop_on_one_stream_needs_few_blocks_and_no_wait, .timeout = 60) {
    reader r = reader_make();
    reader_lend(&r, reader_handle(&r));
    step(&r, reader_handle(&r));
    step(&r, reader_handle(&r));
    unsigned before = blocks();
    uint64_t waits = cpu_waits();
    for (int i = 0; i < 100; ++i)
        step(&r, reader_handle(&r));
    cr_assert_leq(blocks(), before + 1, "%u more", blocks() - before);
    cr_assert_eq(cpu_waits(), waits, "the CPU waits");
    lend_end(&r.loan);
    CUstream stream = r.stream;
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(stream));
    r.copy[0] = r.offset; /* the steps have read to there */
    reader_end(&r);
}

/* As long as it keeps up it is that few with the usual options, too. */
Test(lend_limits, a_loop_needs_few_blocks_with_the_default_options, .timeout = 60) {
    ASSERT_OK(jit_set_option("memory_spare", "268435456"));
    reader r = reader_make();
    unsigned before = blocks();
    for (int i = 0; i < 100; ++i) {
        step(&r, reader_handle(&r));
        CU_OK(f.StreamSynchronize(r.stream));
    }
    cr_assert_leq(blocks(), before + 3, "%u more", blocks() - before);
    CU_OK(f.StreamDestroy(r.stream));
    CU_OK(f.MemFreeHost(r.copy));
}

/* An array that stays is pending once, however often it is lent. */
Test(lend_limits, an_array_that_is_lent_again_and_again_is_pending_once, .timeout = 60) {
    jit_var v = lend_make(LENT, 1);
    size_t once = 0;
    uint64_t waits = cpu_waits();
    for (int i = 0; i < 1000; ++i) {
        loan_of loan;
        void *data;
        ASSERT_OK(lend_var(v, JIT_STREAM_NONE, &loan, &data));
        lend_end(&loan);
        if (!i)
            once = lend_pending();
        cr_assert_eq(lend_pending(), once);
    }
    cr_assert_eq(cpu_waits(), waits);
    jit_unref(v);
}

static void give_back_unknown(int count) {
    for (int i = 0; i < count; ++i) {
        loan_of loan;
        void *data;
        jit_var v = lend_make(LENT, 1);
        ASSERT_OK(lend_var(v, JIT_STREAM_NONE, &loan, &data));
        lend_end(&loan);
        jit_unref(v);
    }
}

/* Each counts for 16 KiB. */
Test(lend_limits, memory_lent_is_the_most_that_is_pending, .timeout = 60) {
    ASSERT_OK(jit_set_option("memory_lent", "100000"));
    uint64_t frees = w.calls("cuMemFree_v2");
    give_back_unknown(7);
    cr_assert_eq(w.calls("cuMemFree_v2"), frees);
    cr_assert_eq(lend_pending(), 7 << 14);
    give_back_unknown(1);
    cr_assert_gt(w.calls("cuMemFree_v2"), frees);
    cr_assert_eq(lend_pending(), 1 << 14);
    give_back_unknown(60);
    cr_assert_leq(lend_pending(), 7 << 14);
}

/* Functions of the driver that are called for one loan. */
static uint64_t calls_of(jit_var v, intptr_t token) {
    loan_of loan;
    uint64_t before = w.calls(NULL);
    ASSERT_OK(lend_memory(lend_buffer(v), token, &loan));
    uint64_t calls = w.calls(NULL) - before;
    lend_end(&loan);
    return calls;
}

/* Foreign memory that was lent to the legacy stream waits for nobody, but its end may call the
 * driver: it is given up where memory is wanted. */
Test(lend_limits, what_the_thread_did_wrong_before_is_not_forgotten, .timeout = 60) {
    jit_var mine = lend_make(LENT, 1), v;
    jitc_buffer *b;
    loan_of loan;
    static const uint8_t bytes[1 << 20];
    ASSERT_OK(
        jitc_buffer_map(lend_device(), lend_buffer(mine)->pointer, LENT_BYTES, NULL, NULL, &b));
    ASSERT_OK(lend_memory(b, JIT_STREAM_LEGACY, &loan));
    jitc_buffer_unref(b);
    lend_end(&loan);
    cr_assert_gt(lend_pending(), 0);
    ASSERT_OK(jit_set_option("memory_lent", "0"));
    cr_assert_eq(jit_size(0xFFFFFFFF), 0); /* no such variable */
    cr_assert_eq(jit_error_status(), JIT_INVALID_HANDLE);
    v = jit_from_host(JIT_CUDA, JIT_u8, bytes, sizeof bytes);
    cr_assert_neq(v, 0);
    cr_assert_eq(lend_pending(), 0);
    cr_assert_eq(jit_error_status(), JIT_INVALID_HANDLE, "%s", jit_error());
    jit_error_clear();
    jit_unref(v), jit_unref(mine);
}

Test(lend_limits, a_loan_takes_few_calls_of_the_driver, .timeout = 60) {
    jit_var v = lend_make(LENT, 1), x = lend_make(LENT, 2);
    CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
    calls_of(x, (intptr_t) s);
    calls_of(v, (intptr_t) s);
    calls_of(x, (intptr_t) s);
    cr_assert_eq(calls_of(v, JIT_STREAM_LEGACY), 0);
    cr_assert_eq(calls_of(v, JIT_STREAM_NONE), 0);
    uint64_t calls = calls_of(v, (intptr_t) s); /* of which three record and wait */
    cr_assert_leq(calls, 15, "%llu", (unsigned long long) calls);
    calls = calls_of(v, (intptr_t) s); /* which is pending already */
    cr_assert_leq(calls, 9, "%llu", (unsigned long long) calls);
    CU_OK(f.StreamDestroy(s));
    jit_unref(v), jit_unref(x);
}

/* ---- None left ---- */

static void use_up(size_t bytes) {
    jit_var v = lend_make(bytes / sizeof(float), 1), x;
    loan_of loan;
    void *data;
    ASSERT_OK(lend_var(v, JIT_STREAM_NONE, &loan, &data));
    jit_unref(v);
    lend_end(&loan);
    jit_var k = jit_counter(JIT_CUDA, bytes / sizeof(float));
    x = jit_cast(k, JIT_f32);
    ASSERT_OK(jit_var_eval(x));
    cr_assert_str_empty(jit_error());
    cr_assert_eq(lend_pending(), 0);
    jit_unref(k), jit_unref(x);
}

Test(lend_limits, where_no_memory_is_left_what_was_lent_comes_back, .timeout = 60) {
    w.memory((3 << 20) + (3 << 19)); /* no cuMemAlloc of its own may be needed */
    use_up(3 << 20);
}

Test(lend_limits, the_option_memory_limit_makes_it_come_back, .timeout = 60) {
    ASSERT_OK(jit_set_option("memory_limit", "4000000"));
    use_up(3 << 20);
}

/* ---- Captures ---- */

static const int modes[] = {CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL,
                            CU_STREAM_CAPTURE_MODE_RELAXED};
enum { MODES = 3 };

/* Every way to lend, to end and to wait; `s` is being captured. */
static void lend_all_ways(CUstream s) {
    loan_of loan;
    void *data;
    CUstream other = foreign_stream(CU_STREAM_NON_BLOCKING);
    intptr_t tokens[] = {(intptr_t) other,  JIT_STREAM_NONE,       0,
                         JIT_STREAM_LEGACY, JIT_STREAM_PER_THREAD, (intptr_t) jit_cuda_stream()};
    jit_var v = lend_make(LENT, 1);
    ASSERT_OK(jit_sync_thread()); /* else those that are captured cannot wait for us */
    ASSERT_OK(lend_var(v, (intptr_t) s, &loan, &data));
    lend_end(&loan);
    jit_unref(v);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; ++i) {
        v = lend_make(LENT, 1);
        ASSERT_OK(lend_var(v, tokens[i], &loan, &data));
        lend_end(&loan);
        jit_unref(v);
        ASSERT_OK(jit_cuda_sync_stream((uintptr_t) tokens[i]));
    }
    cr_assert_gt(lend_pending(), 0);
    ASSERT_OK(jit_sync_thread());
    jit_cuda_wait_stream((uintptr_t) s); /* is refused */
    jit_error_clear();
    reader_recall();
    CU_OK(f.StreamDestroy(other));
}

static void *lend_there(void *s) {
    foreign_enter(0);
    lend_all_ways(s);
    foreign_leave(0);
    return NULL;
}

static void expect_capture(CUstream s, bool elsewhere, int mode) {
    pthread_t thread;
    CUgraph graph;
    CU_OK(f.StreamBeginCapture(s, mode));
    CU_OK(f.LaunchHostFunc(s, free, NULL));
    if (elsewhere) {
        cr_assert_eq(pthread_create(&thread, NULL, lend_there, s), 0);
        pthread_join(thread, NULL);
    } else {
        lend_all_ways(s);
    }
    cr_assert_eq(f.StreamEndCapture(s, &graph), CUDA_SUCCESS, "mode %d", mode);
    CU_OK(f.GraphDestroy(graph));
}

Test(lend_limits, no_capture_is_broken, .timeout = 60) {
    for (int m = 0; m < MODES; ++m)
        for (int elsewhere = 0; elsewhere < 2; ++elsewhere) {
            CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
            expect_capture(s, elsewhere, modes[m]);
            CU_OK(f.StreamDestroy(s));
        }
}

/* What was lent to a stream stays pending while that is captured. */
Test(lend_limits, a_captured_stream_is_not_marked, .timeout = 60) {
    reader r = reader_make();
    CUgraph graph;
    reader_lend(&r, reader_handle(&r));
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(r.stream));
    lend_end(&r.loan);
    ASSERT_OK(jit_sync_thread());
    CU_OK(f.StreamBeginCapture(r.stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r.stream)); /* there is nothing to wait for */
    cr_assert_gt(lend_pending(), 0);
    CU_OK(f.StreamEndCapture(r.stream, &graph));
    CU_OK(f.GraphDestroy(graph));
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r.stream));
    cr_assert_eq(lend_pending(), 0);
    reader_end(&r);
}

/* The last loan ends after the runtime, beside a capture. */
Test(lend_limits, a_capture_survives_the_end, .timeout = 60) {
    for (int m = 0; m < MODES; ++m) {
        CUgraph graph;
        loan_of loan;
        void *data;
        CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
        jit_var v = lend_make(LENT, 1);
        ASSERT_OK(lend_var(v, JIT_STREAM_NONE, &loan, &data));
        jit_unref(v);
        CU_OK(f.StreamBeginCapture(s, modes[m]));
        CU_OK(f.LaunchHostFunc(s, free, NULL));
        jit_shutdown();
        lend_end(&loan);
        cr_assert_eq(f.StreamEndCapture(s, &graph), CUDA_SUCCESS, "mode %d", modes[m]);
        cr_assert_eq(w.alive("allocations"), 0);
        CU_OK(f.GraphDestroy(graph));
        CU_OK(f.StreamDestroy(s));
        support_init();
    }
}
