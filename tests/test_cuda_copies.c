/* test_cuda_copies.c: copies between host and device through pinned memory: all sizes, by one
 * thread and by several, with plenty of pinned memory, little and none; who waits, and for what. */
#include "cuda/device.h"
#include "cuda_foreign.h"
#include "cuda_slots.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1 << 19, MIB = 1 << 20 };

static jitc_options *options(void) {
    return (jitc_options *) (uintptr_t) jitc_cuda_backend_of(b)->options;
}

static void copies_start(void) {
    slots_start();
    options()->copy_threads = 1;
}
TestSuite(cuda_copies, .init = copies_start, .fini = slots_end);

/* Words that differ, and a part of one. */
static uint8_t *make(size_t n, unsigned seed) {
    uint64_t *words = malloc(n + sizeof *words);
    cr_assert_not_null(words);
    for (size_t i = 0; i <= n / sizeof *words; ++i)
        words[i] = (i + 1) * 0x9E3779B97F4A7C15u + seed;
    return (uint8_t *) words;
}
static void check(const uint8_t *got, size_t n, unsigned seed) {
    uint8_t *wanted = make(n, seed);
    size_t at = 0;
    if (memcmp(got, wanted, n))
        while (got[at] == wanted[at])
            ++at;
    cr_assert(!memcmp(got, wanted, n), "byte %zu of %zu, seed %u", at, n, seed);
    free(wanted);
}
/* There and back. */
static void round_trip(jitc_stream *s, size_t n, unsigned seed) {
    uint8_t *data = make(n, seed), *got = calloc(1, n);
    void *x = alloc(n);
    upload(s, x, data, n);
    memset(data, 0, n); /* the source may change */
    ASSERT_OK(b->download(s, got, x, n));
    check(got, n, seed);
    release(x);
    free(data), free(got);
}

static gate g;

/* A kernel that does not run before the gate is opened, and so is not over before; it comes before
 * what is queued next. */
static jitc_kernel *be_busy(jitc_stream *s, void **x) {
    void *native, *context;
    jitc_kernel *k = make_kernel(0);
    *x = make_ramp(s);
    launch(s, k, *x, *x, 1, 0); /* with the gate closed it could not be loaded */
    expect(s, *x, 1, 0);
    b->stream_native(s, &native, &context);
    foreign_enter(0);
    foreign_close(&g, native);
    foreign_leave(0);
    launch(s, k, *x, *x, 1, 1);
    return k;
}
static void end_busy(jitc_stream *s, jitc_kernel *k, void *x) {
    foreign_open(&g);
    expect(s, x, 1, 1);
    b->kernel_destroy(b, k);
    release(x);
}

/* ---- Contents ---- */

Test(cuda_copies, any_size_by_any_number_of_threads) {
    static const size_t sizes[] = {CHUNK - 1, CHUNK + 1, 8 * MIB, 8 * MIB + 1, 20 * MIB + 3};
    for (int threads = 1; threads <= 16; threads *= 4)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
            options()->copy_threads = threads;
            round_trip(stream[k % STREAMS], sizes[k], (unsigned) k);
        }
}

Test(cuda_copies, any_limit_of_pinned_memory) {
    static const int64_t limits[] = {0, 1, CHUNK, 2 * CHUNK, 3 * CHUNK + 5, 8 * MIB};
    for (size_t k = 0; k < sizeof limits / sizeof *limits; ++k)
        for (int threads = 1; threads <= 3; threads += 2) {
            options()->pinned_limit = limits[k];
            options()->copy_threads = threads;
            round_trip(stream[0], 100, 1);
            round_trip(stream[1], 12 * MIB + 7, 2);
            round_trip(stream[0], 3 * CHUNK, 3);
            cr_assert_leq(jitc_load_relaxed(&b->pinned), (uint64_t) limits[k]);
        }
}

/* The greatest part of it may be refused, or all. */
Test(cuda_copies, less_pinned_memory_than_wanted) {
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    w.fail("cuMemHostAlloc", 1, CUDA_ERROR_OUT_OF_MEMORY);
    round_trip(stream[0], 100, 1);
    cr_assert_eq(jitc_load_relaxed(&b->pinned) % MIB, CHUNK, "half of the first");
    for (int n = 1; n <= 4; ++n) {
        options()->copy_threads = n;
        w.fail("cuMemHostAlloc", n, CUDA_ERROR_OUT_OF_MEMORY);
        round_trip(stream[n % STREAMS], 20 * MIB, (unsigned) n);
    }
    w.fail(NULL, 0, 0);
}

/* ---- Waiting ---- */

Test(cuda_copies, an_upload_does_not_wait_for_a_kernel_before_it) {
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    for (int threads = 1; threads <= 4; threads += 3) {
        void *x, *y = alloc(16 * MIB);
        uint8_t *data = make(16 * MIB, 9), *got = calloc(1, 16 * MIB);
        options()->copy_threads = threads;
        jitc_kernel *k = be_busy(stream[0], &x);
        uint64_t before = foreign_waits(&w);
        upload(stream[0], y, data, 16 * MIB);
        cr_assert_eq(foreign_waits(&w), before, "by %d threads", threads);
        cr_assert_geq(jitc_load_relaxed(&b->pinned), 16u * MIB);
        end_busy(stream[0], k, x);
        ASSERT_OK(b->download(stream[0], got, y, 16 * MIB));
        check(got, 16 * MIB, 9);
        release(y);
        free(data), free(got);
    }
}

Test(cuda_copies, at_the_limit_an_upload_waits_for_the_oldest_piece) {
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    void *x, *y = alloc(4 * MIB);
    uint8_t *data = make(4 * MIB, 5), *got = calloc(1, 4 * MIB);
    options()->pinned_limit = 2 * MIB;
    foreign_opener o;
    jitc_kernel *k = be_busy(stream[0], &x);
    uint64_t before = foreign_waits(&w);
    foreign_open_at_wait(&o, &g, &w);
    upload(stream[0], y, data, 4 * MIB);
    foreign_opener_end(&o);
    cr_assert_gt(foreign_waits(&w), before);
    cr_assert_eq(jitc_load_relaxed(&b->pinned), 2u * MIB);
    end_busy(stream[0], k, x);
    ASSERT_OK(b->download(stream[0], got, y, 4 * MIB));
    check(got, 4 * MIB, 5);
    release(y);
    free(data), free(got);
}

Test(cuda_copies, what_another_stream_is_done_with_is_used_again) {
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    void *x, *y = alloc(4 * MIB);
    uint8_t *data = make(4 * MIB, 1);
    jitc_kernel *k = be_busy(stream[0], &x); /* so that none is used twice */
    upload(stream[0], y, data, 4 * MIB);
    end_busy(stream[0], k, x);
    release(y);
    free(data);
    uint64_t pinned = jitc_load_relaxed(&b->pinned), before = calls("cuMemHostAlloc");
    for (unsigned i = 0; i < 12; ++i)
        round_trip(stream[i % STREAMS], 300000, i);
    cr_assert_eq(calls("cuMemHostAlloc"), before);
    cr_assert_eq(jitc_load_relaxed(&b->pinned), pinned);
}

Test(cuda_copies, pinned_memory_outlives_the_stream_that_used_it) {
    jitc_stream *s = create_stream();
    round_trip(s, 3 * MIB, 1);
    destroy_stream(s);
    round_trip(stream[0], 3 * MIB, 2);
}

/* All that there is belongs to streams that hold on to it: the copy goes without. */
Test(cuda_copies, a_stream_that_finds_no_pinned_memory_does_not_hang) {
    options()->pinned_limit = CHUNK;
    round_trip(stream[0], 1000, 1);
    round_trip(stream[1], 1000, 2);
    round_trip(stream[1], 2 * CHUNK, 3);
    round_trip(stream[0], 1000, 4);
}

/* ---- Failures ---- */

Test(cuda_copies, a_copy_that_fails_half_way_gives_everything_back) {
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    size_t n = 12 * MIB;
    uint8_t *data = make(n, 1);
    void *x = alloc(n), *y;
    uint64_t number;
    options()->pinned_limit = 8 * MIB;
    for (int at = 1; at < 24; at += 4)
        for (int threads = 1; threads <= 4; threads += 3) {
            options()->copy_threads = threads;
            w.fail("cuMemcpyHtoDAsync_v2", at, CUDA_ERROR_UNKNOWN);
            cr_assert_neq(b->upload(stream[0], x, data, n, &number), JIT_OK);
            cr_assert(strstr(jit_error(), "cuMemcpyHtoDAsync"), "%s", jit_error());
            jit_error_clear();
            note(stream[0], number);
            w.fail("cuMemcpyDtoHAsync_v2", threads > 1 ? at : 1, CUDA_ERROR_UNKNOWN);
            cr_assert_neq(b->download(stream[0], data, x, n), JIT_OK);
            cr_assert(strstr(jit_error(), "cuMemcpyDtoHAsync"), "%s", jit_error());
            jit_error_clear();
            w.fail(NULL, 0, 0);
            free(data);
            data = make(n, 1);
        }
    jitc_kernel *k = be_busy(stream[0], &y); /* all pieces but that of the kernel's upload */
    uint64_t before = foreign_waits(&w);
    options()->copy_threads = 1;
    upload(stream[0], x, data, 7 * MIB);
    cr_assert_eq(foreign_waits(&w), before, "pieces of pinned memory are lost");
    end_busy(stream[0], k, y);
    round_trip(stream[0], n, 7);
    release(x);
    free(data);
}

/* Who gets an error may free the memory: the pieces before are waited for. */
Test(cuda_copies, a_copy_that_fails_half_way_leaves_nothing_queued) {
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    void *x, *y = alloc(4 * MIB), *native, *context;
    uint8_t *data = make(4 * MIB, 3);
    uint64_t number;
    foreign_opener o;
    jitc_kernel *k = be_busy(stream[0], &x);
    b->stream_native(stream[0], &native, &context);
    foreign_open_at_wait(&o, &g, &w);
    w.fail("cuMemcpyHtoDAsync_v2", 3, CUDA_ERROR_UNKNOWN);
    cr_assert_neq(b->upload(stream[0], y, data, 4 * MIB, &number), JIT_OK);
    jit_error_clear();
    foreign_enter(0);
    cr_assert_eq(foreign_find().StreamQuery(native), CUDA_SUCCESS);
    foreign_leave(0);
    foreign_opener_end(&o);
    note(stream[0], number);
    end_busy(stream[0], k, x);
    release(y);
    free(data);
}

/* ---- Threads ---- */

typedef struct user {
    pthread_t thread;
    int index;
} user;

static void *copy_there_and_back(void *context) {
    const user *u = context;
    for (unsigned i = 0; i < 6; ++i)
        round_trip(stream[u->index], i % 3 == 2 ? 9 * MIB : (i + 1) * 200000u,
                   i + 10 * (unsigned) u->index);
    return NULL;
}

Test(cuda_copies, threads_share_the_pinned_memory, .timeout = 120) {
    user users[STREAMS];
    options()->copy_threads = 3;
    options()->pinned_limit = 4 * MIB; /* less than they want */
    be_slow(100);
    for (int i = 0; i < STREAMS; ++i) {
        users[i].index = i;
        cr_assert_eq(pthread_create(&users[i].thread, NULL, copy_there_and_back, &users[i]), 0);
    }
    for (int i = 0; i < STREAMS; ++i)
        pthread_join(users[i].thread, NULL);
    cr_assert_leq(jitc_load_relaxed(&b->pinned), 4u * MIB);
}
