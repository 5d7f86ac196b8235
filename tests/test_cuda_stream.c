/* test_cuda_stream.c: jit_cuda_sync_stream() and jit_cuda_wait_stream(): each token makes just the
 * calls of the driver that it needs, and orders what it has to. More is in test_cuda_foreign.c.
 *
 * Whether work of one stream waits for that of another does not depend on luck: a gate holds the
 * one up, and the other has run as far as it can (foreign_settle) when it is looked at. */
#include "cuda_foreign.h"
#include <jit/cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1000 };

static cuda_world w;
static foreign f;
static float *copy; /* pinned: where a stream of another library copies an array to */

static void start(void) {
    w = cuda_world_simulated();
    f = foreign_find();
    support_init();
    foreign_enter(0);
    CU_OK(f.MemHostAlloc((void **) &copy, SIZE * sizeof *copy, 0));
}
static void end(void) {
    CU_OK(f.MemFreeHost(copy));
    foreign_leave(0);
    support_shutdown();
}
TestSuite(cuda_stream, .init = start, .fini = end);

/* ---- Which calls are made ---- */

enum { RECORD, WAIT, WAIT_PTSZ, SYNC_STREAM, SYNC_EVENT, SYNC_CONTEXT, COUNTED };
static const char *const counted[COUNTED] = {"cuEventRecord",          "cuStreamWaitEvent",
                                             "cuStreamWaitEvent_ptsz", "cuStreamSynchronize",
                                             "cuEventSynchronize",     "cuCtxSynchronize"};

typedef struct counts {
    uint64_t of[COUNTED];
} counts;

static counts count(void) {
    counts c;
    for (int i = 0; i < COUNTED; ++i)
        c.of[i] = w.calls(counted[i]);
    return c;
}

static void expect_calls(const counts *before, const counts *expected, const char *what) {
    counts now = count();
    for (int i = 0; i < COUNTED; ++i)
        cr_assert_eq(now.of[i] - before->of[i], expected->of[i], "%s: %s was called %d times", what,
                     counted[i], (int) (now.of[i] - before->of[i]));
}

enum { HANDLE = 1000, OWN };

typedef struct row {
    const char *name;
    uintptr_t token; /* HANDLE: of another library's stream, OWN: of ours */
    counts calls;
} row;

static uintptr_t token_of(const row *r, CUstream handle) {
    return r->token == HANDLE ? (uintptr_t) handle
           : r->token == OWN  ? (uintptr_t) jit_cuda_stream()
                              : r->token;
}

static const row sync_rows[] = {
    {"not given", (uintptr_t) JIT_STREAM_NOT_GIVEN, {{0}}},
    {"nobody", (uintptr_t) JIT_STREAM_NONE, {{0}}},
    {"0", 0, {{[RECORD] = 1, [SYNC_EVENT] = 1}}},
    {"legacy", (uintptr_t) JIT_STREAM_LEGACY, {{0}}},
    {"per thread", (uintptr_t) JIT_STREAM_PER_THREAD, {{[RECORD] = 1, [WAIT_PTSZ] = 1}}},
    {"handle", HANDLE, {{[RECORD] = 1, [WAIT] = 1}}},
    {"own handle", OWN, {{0}}},
};
enum { SYNC_ROWS = sizeof sync_rows / sizeof *sync_rows };

/* With a gate closed they could not be loaded. */
static void load_kernels(void) {
    jit_var x = cuda_world_ramp(SIZE), one = jit_f32(JIT_CUDA, 1);
    jit_var sums[] = {jit_add(x, one), jit_add(x, x), jit_mul(x, x)};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; ++i) {
        ASSERT_OK(jit_var_eval(sums[i]));
        jit_unref(sums[i]);
    }
    ASSERT_OK(jit_sync_thread());
    jit_unref(x);
    jit_unref(one);
}

/* What was scheduled is launched, and the calls are those of the table: the gate of the legacy
 * stream, for which ours waits, keeps the work from being over, and makes no calls of ours. */
Test(cuda_stream, others_wait_for_us_by_the_calls_that_the_token_needs) {
    CUstream handle = foreign_stream(CU_STREAM_NON_BLOCKING);
    load_kernels();
    jit_var x = cuda_world_ramp(SIZE);
    for (int i = 0; i < SYNC_ROWS; ++i) {
        static gate g;
        foreign_opener o;
        const row *r = &sync_rows[i];
        jit_var one = jit_f32(JIT_CUDA, (float) i), y = jit_add(x, one);
        uintptr_t token = token_of(r, handle);
        ASSERT_OK(jit_sync_thread());
        ASSERT_OK(jit_schedule(y));
        uint64_t launches = foreign_launches(&w);
        foreign_close(&g, CU_STREAM_LEGACY);
        counts before = count();
        foreign_open_at_wait(&o, &g, &w);
        ASSERT_OK(jit_cuda_sync_stream(token));
        foreign_opener_end(&o);
        expect_calls(&before, &r->calls, r->name);
        cr_assert_eq(foreign_launches(&w), launches + 1, "%s", r->name);
        cuda_world_expect(y, SIZE, 1, (float) i);
        jit_unref(y);
        jit_unref(one);
    }
    jit_unref(x);
    CU_OK(f.StreamDestroy(handle));
}

/* What is known to be over is not waited for, and the driver hears nothing. */
Test(cuda_stream, nobody_waits_for_what_is_over) {
    CUstream handle = foreign_stream(CU_STREAM_NON_BLOCKING);
    jit_var x = cuda_world_ramp(SIZE);
    cuda_world_expect(x, SIZE, 1, 0);
    for (int i = 0; i < SYNC_ROWS; ++i) {
        if (sync_rows[i].token == OWN)
            continue; /* to ask for the handle says that there may be work that is not ours */
        uint64_t calls = w.calls(NULL);
        ASSERT_OK(jit_cuda_sync_stream(token_of(&sync_rows[i], handle)));
        cr_assert_eq(w.calls(NULL), calls, "%s", sync_rows[i].name);
    }
    jit_unref(x);
    CU_OK(f.StreamDestroy(handle));
}

Test(cuda_stream, a_thread_that_has_queued_nothing_makes_no_stream) {
    uint64_t calls = w.calls(NULL);
    ASSERT_OK(jit_cuda_sync_stream(0));
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) JIT_STREAM_PER_THREAD));
    ASSERT_OK(jit_cuda_sync_stream(0x1000));
    cr_assert_eq(w.calls(NULL), calls);
}

Test(cuda_stream, a_token_that_stands_for_nothing_changes_nothing) {
    static const intptr_t wrong[] = {-2, -3, -1000, INTPTR_MIN + 1};
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    ASSERT_OK(jit_schedule(y));
    uint64_t calls = w.calls(NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
        cr_assert_eq(jit_cuda_sync_stream((uintptr_t) wrong[i]), JIT_INVALID_ARGUMENT);
        cr_assert(strstr(jit_error(), "jit_cuda_sync_stream: -"), "%s", jit_error());
        jit_error_clear();
        cr_assert_eq(jit_cuda_wait_stream((uintptr_t) wrong[i]), JIT_INVALID_ARGUMENT);
        cr_assert(strstr(jit_error(), "jit_cuda_wait_stream: -"), "%s", jit_error());
        jit_error_clear();
    }
    cr_assert_eq(w.calls(NULL), calls);
    uint64_t launches = foreign_launches(&w);
    ASSERT_OK(jit_eval());
    cr_assert_eq(foreign_launches(&w), launches + 1, "y is still scheduled");
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x);
    jit_unref(y);
}

static const row wait_rows[] = {
    {"not given", (uintptr_t) JIT_STREAM_NOT_GIVEN, {{0}}},
    {"nobody", (uintptr_t) JIT_STREAM_NONE, {{0}}},
    {"both default streams", 0, {{[RECORD] = 1, [WAIT] = 1}}},
    {"legacy", (uintptr_t) JIT_STREAM_LEGACY, {{0}}},
    {"per thread", (uintptr_t) JIT_STREAM_PER_THREAD, {{[RECORD] = 1, [WAIT] = 1}}},
    {"handle", HANDLE, {{[RECORD] = 1, [WAIT] = 1}}},
    {"own handle", OWN, {{0}}},
};
enum { WAIT_ROWS = sizeof wait_rows / sizeof *wait_rows };

Test(cuda_stream, we_wait_for_others_by_the_calls_that_the_token_needs) {
    CUstream handle = foreign_stream(CU_STREAM_NON_BLOCKING);
    for (int i = 0; i < WAIT_ROWS; ++i) {
        uintptr_t token = token_of(&wait_rows[i], handle);
        counts before = count();
        ASSERT_OK(jit_cuda_wait_stream(token));
        expect_calls(&before, &wait_rows[i].calls, wait_rows[i].name);
    }
    CU_OK(f.StreamDestroy(handle));
}

/* ---- What comes after what ---- */

typedef enum consumer { LEGACY, PER_THREAD, BLOCKING, NON_BLOCKING, CONSUMERS } consumer;
static const char *const consumer_name[] = {"legacy", "per thread", "blocking", "non-blocking"};

static CUstream make_consumer(consumer c) {
    return c == LEGACY       ? CU_STREAM_LEGACY
           : c == PER_THREAD ? CU_STREAM_PER_THREAD
           : c == BLOCKING   ? foreign_stream(CU_STREAM_DEFAULT)
                             : foreign_stream(CU_STREAM_NON_BLOCKING);
}

static void drop_consumer(CUstream s) {
    if (s != CU_STREAM_LEGACY && s != CU_STREAM_PER_THREAD)
        CU_OK(f.StreamDestroy(s));
}

static CUdeviceptr address_of(jit_var v) {
    void *address;
    ASSERT_OK(jit_data(v, &address));
    return (CUdeviceptr) (uintptr_t) address;
}

/* Does what `other` copies of y = x + 1 come after our kernel, which is held up? */
static bool is_ordered(uintptr_t token, CUstream other, const char *name) {
    gate g;
    jit_var x = cuda_world_ramp(SIZE), one = jit_f32(JIT_CUDA, 1), y = jit_add(x, one);
    foreign_close(&g, jit_cuda_stream());
    CUdeviceptr address = address_of(y);
    ASSERT_OK(jit_cuda_sync_stream(token));
    CU_OK(f.MemcpyDtoHAsync(copy, address, SIZE * sizeof *copy, other));
    foreign_settle();
    bool ordered = f.StreamQuery(other) == CUDA_ERROR_NOT_READY;
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(other));
    for (int i = 0; i < SIZE && ordered; ++i)
        cr_assert_eq(copy[i], (float) (i + 1), "%s: element %d: %g", name, i, (double) copy[i]);
    cuda_world_expect(y, SIZE, 1, 1);
    jit_unref(x);
    jit_unref(y);
    jit_unref(one);
    return ordered;
}

/* Each token orders just what it says, whoever it is that reads. */
Test(cuda_stream, who_reads_after_which_token) {
    static const struct {
        uintptr_t token;
        bool ordered[CONSUMERS];
    } rows[] = {{(uintptr_t) JIT_STREAM_NOT_GIVEN, {true, false, false, false}},
                {(uintptr_t) JIT_STREAM_NONE, {true, false, false, false}},
                {(uintptr_t) JIT_STREAM_LEGACY, {true, false, false, false}},
                {(uintptr_t) JIT_STREAM_PER_THREAD, {true, true, false, false}},
                {HANDLE, {true, true, true, true}}};
    w.order(false); /* what a token does not order is no fault here */
    load_kernels();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        for (consumer c = LEGACY; c < CONSUMERS; ++c) {
            CUstream s = make_consumer(c);
            row r = {"", rows[i].token, {{0}}};
            bool ordered = is_ordered(token_of(&r, s), s, consumer_name[c]);
            cr_assert_eq(ordered, rows[i].ordered[c], "token %lld, %s stream: %d",
                         (long long) rows[i].token, consumer_name[c], ordered);
            drop_consumer(s);
        }
}

/* Token 0 is the one that waits, and then for all of the thread. */
Test(cuda_stream, after_token_0_nothing_runs_any_more) {
    static gate g;
    foreign_opener o;
    load_kernels();
    jit_var x = cuda_world_ramp(SIZE), y = jit_mul(x, x);
    CUstream s = jit_cuda_stream();
    ASSERT_OK(jit_sync_thread());
    foreign_close(&g, s);
    ASSERT_OK(jit_var_eval(y));
    cr_assert_eq(f.StreamQuery(s), CUDA_ERROR_NOT_READY);
    foreign_open_at_wait(&o, &g, &w);
    ASSERT_OK(jit_cuda_sync_stream(0));
    CUresult after = f.StreamQuery(s);
    foreign_opener_end(&o);
    cr_assert_eq(after, CUDA_SUCCESS);
    jit_unref(x);
    jit_unref(y);
}

/* Does a copy that we queue come after what `other`, which is held up, has queued? */
static bool do_we_wait(uintptr_t token, CUstream other) {
    gate g;
    jit_var x = cuda_world_ramp(SIZE), y = jit_add(x, x);
    CUstream ours = jit_cuda_stream();
    ASSERT_OK(jit_sync_thread());
    foreign_close(&g, other);
    ASSERT_OK(jit_cuda_wait_stream(token));
    ASSERT_OK(jit_var_eval(y));
    foreign_settle();
    bool ordered = f.StreamQuery(ours) == CUDA_ERROR_NOT_READY;
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(other));
    cuda_world_expect(y, SIZE, 2, 0);
    jit_unref(x);
    jit_unref(y);
    return ordered;
}

Test(cuda_stream, whom_we_wait_for_after_which_token) {
    static const struct {
        uintptr_t token;
        bool ordered[CONSUMERS];
    } rows[] = {{(uintptr_t) JIT_STREAM_NOT_GIVEN, {true, false, false, false}},
                {(uintptr_t) JIT_STREAM_NONE, {true, false, false, false}},
                {0, {true, true, false, false}},
                {(uintptr_t) JIT_STREAM_LEGACY, {true, false, false, false}},
                {(uintptr_t) JIT_STREAM_PER_THREAD, {true, true, false, false}},
                {HANDLE, {true, true, true, true}}};
    load_kernels();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i)
        for (consumer c = LEGACY; c < CONSUMERS; ++c) {
            CUstream s = make_consumer(c);
            row r = {"", rows[i].token, {{0}}};
            bool ordered = do_we_wait(token_of(&r, s), s);
            cr_assert_eq(ordered, rows[i].ordered[c], "token %lld, %s stream: %d",
                         (long long) rows[i].token, consumer_name[c], ordered);
            drop_consumer(s);
        }
}

/* Who has our stream's handle may queue work there, which is waited for like ours. */
Test(cuda_stream, work_that_users_queue_on_our_stream_is_waited_for) {
    static gate g;
    CUstream to = foreign_stream(CU_STREAM_NON_BLOCKING);
    foreign_close(&g, jit_cuda_stream());
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) to));
    foreign_settle();
    cr_assert_eq(f.StreamQuery(to), CUDA_ERROR_NOT_READY);
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(to));
    CU_OK(f.StreamDestroy(to));
}

static void pass_on(CUstream from, CUstream to) {
    static gate g;
    jit_var x = cuda_world_ramp(SIZE);
    ASSERT_OK(jit_sync_thread());
    foreign_close(&g, from);
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) from));
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) to));
    CU_OK(f.MemcpyDtoHAsync(copy, address_of(x), SIZE * sizeof *copy, to));
    foreign_settle();
    cr_assert_eq(f.StreamQuery(to), CUDA_ERROR_NOT_READY);
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(to));
    jit_unref(x);
}

/* What we wait for is passed on, although there is no work of ours in between: an array that goes
 * from one library to another. Also where our stream waits by itself. */
Test(cuda_stream, what_we_wait_for_is_waited_for_by_others) {
    CUstream from = foreign_stream(CU_STREAM_NON_BLOCKING);
    CUstream to = foreign_stream(CU_STREAM_NON_BLOCKING);
    for (int round = 0; round < 2; ++round) {
        pass_on(from, to);
        pass_on(CU_STREAM_LEGACY, to);
    }
    CU_OK(f.StreamDestroy(from));
    CU_OK(f.StreamDestroy(to));
}

/* So it is by the CPU. */
Test(cuda_stream, what_we_wait_for_is_waited_for_by_token_0) {
    CUstream from = foreign_stream(CU_STREAM_NON_BLOCKING);
    jit_var x = cuda_world_ramp(1 << 20), y = jit_add(x, x);
    CUdeviceptr address = address_of(y);
    CUstream ours = jit_cuda_stream();
    float *large;
    CU_OK(f.MemHostAlloc((void **) &large, sizeof *large << 20, 0));
    for (int round = 0; round < 5; ++round) {
        ASSERT_OK(jit_sync_thread());
        for (int i = 0; i < 20; ++i) /* takes a while */
            CU_OK(f.MemcpyDtoHAsync(large, address, sizeof *large << 20, from));
        ASSERT_OK(jit_cuda_wait_stream((uintptr_t) from));
        ASSERT_OK(jit_cuda_sync_stream(0));
        cr_assert_eq(f.StreamQuery(from), CUDA_SUCCESS);
        cr_assert_eq(f.StreamQuery(ours), CUDA_SUCCESS);
    }
    CU_OK(f.MemFreeHost(large));
    jit_unref(x), jit_unref(y);
    CU_OK(f.StreamDestroy(from));
}
