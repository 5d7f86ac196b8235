/* test_cuda_order.c: work of several threads on shared arrays comes in the right order, though
 * nobody waits on the CPU; and host memory may change when a call returns. On the simulated driver
 * kernels are slow, and streams run in a random order. */
#include "consumer.h"
#include "cuda_world.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 1000 };

static cuda_world w;

static void start(void) {
    w = cuda_world_find();
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", "0")); /* what others use is used again */
    if (w.seed)
        w.seed(20);
    if (w.kernel_time_us)
        w.kernel_time_us(300);
}
TestSuite(cuda_order, .init = start, .fini = support_shutdown);

/** A chain of kernels, so that the last ends late: x + k. */
static jit_var slow_sum(jit_var x, int k) {
    jit_var index = jit_counter(JIT_CUDA, SIZE), one = jit_f32(JIT_CUDA, 1);
    jit_var v = jit_ref(x);
    for (int i = 0; i < k; ++i) {
        jit_var sum = jit_add(v, one), next = jit_gather(sum, index, 0);
        jit_unref(sum);
        jit_unref(v);
        v = next;
    }
    jit_unref(index);
    jit_unref(one);
    return v;
}

/* ---- Between threads ---- */

typedef struct reader {
    jit_var v;
    float offset;
    size_t wrong;
} reader;

/** Reads what another thread has queued, by a kernel of its own. */
static void *read_other(void *context) {
    reader *r = context;
    float got[SIZE];
    jit_var twice = jit_add(r->v, r->v);
    r->wrong = jit_read(twice, got) == JIT_OK ? 0 : SIZE;
    for (size_t i = 0; i < SIZE && !r->wrong; ++i)
        r->wrong += got[i] != 2 * ((float) i + r->offset);
    jit_unref(twice);
    return NULL;
}

Test(cuda_order, a_reader_comes_after_the_writer, .timeout = 60) {
    enum { READERS = 4 };
    for (int round = 0; round < 6; ++round) {
        pthread_t thread[READERS];
        reader r[READERS];
        jit_var x = cuda_world_ramp(SIZE), v = slow_sum(x, 5);
        ASSERT_OK(jit_var_eval(v)); /* queued, not done */
        for (int i = 0; i < READERS; ++i) {
            r[i] = (reader) {.v = v, .offset = 5};
            pthread_create(&thread[i], NULL, read_other, &r[i]);
        }
        for (int i = 0; i < READERS; ++i) {
            pthread_join(thread[i], NULL);
            cr_assert_eq(r[i].wrong, 0, "round %d, reader %d: %s", round, i, jit_error());
        }
        jit_unref(x);
        jit_unref(v);
    }
}

typedef struct exporter {
    jit_var v;
    consumer *consumer;
    void *pointer;
    jit_status status;
} exporter;

/** Hands an array on that another thread has computed. */
static void *hand_on(void *context) {
    exporter *e = context;
    e->status = jit_data(e->v, &e->pointer);
    if (e->status == JIT_OK)
        e->status = jit_cuda_sync_stream(consumer_stream(e->consumer));
    return NULL;
}

/* A thread that has queued nothing itself still names the stream for the array's writer. */
Test(cuda_order, another_threads_array_is_handed_to_a_foreign_stream_in_order, .timeout = 60) {
    uint32_t want[SIZE];
    for (int round = 0; round < 4; ++round) {
        pthread_t thread;
        jit_var x = cuda_world_ramp(SIZE), v = slow_sum(x, 5);
        exporter e = {.v = v,
                      .consumer =
                          consumer_create(CONSUMER_NON_BLOCKING, CONSUMER_HERE, 0, SIZE, false)};
        ASSERT_OK(jit_var_eval(v)); /* queued, not done */
        pthread_create(&thread, NULL, hand_on, &e);
        pthread_join(thread, NULL);
        cr_assert_eq(e.status, JIT_OK);
        consumer_read(e.consumer, e.pointer, SIZE);
        consumer_wait(e.consumer);
        ASSERT_OK(jit_read(v, want));
        cr_assert_arr_eq(consumer_data(e.consumer), want, sizeof want, "round %d", round);
        consumer_destroy(e.consumer);
        jit_unref(x);
        jit_unref(v);
    }
}

/** Queues kernels of which the last reads v, and goes. */
static void *queue_reads(void *context) {
    reader *r = context;
    jit_var sum = slow_sum(r->v, 4), v = jit_add(sum, r->v);
    jit_unref(sum);
    r->wrong = jit_var_eval(v) != JIT_OK;
    r->v = v;
    return NULL;
}

static void *address_of(jit_var v) {
    void *address;
    ASSERT_OK(jit_data(v, &address));
    return address;
}

static void expect_same_memory(jit_var v, const void *former) {
    cr_assert_eq(address_of(v), former, "the memory is not used again: nothing is tested");
}

/* Memory is given back while another stream still reads it, and used again behind that. */
Test(cuda_order, memory_is_reused_after_its_last_reader, .timeout = 60) {
    for (int round = 0; round < 8; ++round) {
        pthread_t thread;
        jit_var x = cuda_world_ramp(SIZE);
        void *memory = address_of(x);
        reader r = {.v = x};
        pthread_create(&thread, NULL, queue_reads, &r);
        pthread_join(thread, NULL);
        cr_assert_eq(r.wrong, 0);
        jit_unref(x); /* the last reference; the reads are queued */
        float other[SIZE];
        memset(other, 0x55, sizeof other);
        jit_var y = jit_from_host(JIT_CUDA, JIT_f32, other, SIZE);
        expect_same_memory(y, memory);
        cuda_world_expect(r.v, SIZE, 2, 4);
        jit_unref(r.v);
        jit_unref(y);
    }
}

/* The same, when a kernel is the first to write. */
Test(cuda_order, memory_is_reused_by_a_kernel_after_its_last_reader, .timeout = 60) {
    for (int round = 0; round < 8; ++round) {
        pthread_t thread;
        jit_var x = cuda_world_ramp(SIZE), minus = jit_f32(JIT_CUDA, -1);
        void *memory = address_of(x);
        reader r = {.v = x};
        pthread_create(&thread, NULL, queue_reads, &r);
        pthread_join(thread, NULL);
        cr_assert_eq(r.wrong, 0);
        jit_unref(x); /* the last reference; the reads are queued */
        jit_var y = jit_sub(jit_cast(jit_counter(JIT_CUDA, SIZE), JIT_f32), minus);
        ASSERT_OK(jit_var_eval(y));
        expect_same_memory(y, memory);
        cuda_world_expect(r.v, SIZE, 2, 4);
        cuda_world_expect(y, SIZE, 1, 1);
        jit_unref(r.v), jit_unref(y), jit_unref(minus);
    }
}

/** Queues kernels of which the last reads the one element of v, gives that up, and has its memory
 * once more without using it. */
static void *queue_read_and_give_up(void *context) {
    reader *r = context;
    jit_var ramp = cuda_world_ramp(SIZE), sum = slow_sum(ramp, 4), v = jit_add(sum, r->v);
    r->wrong = jit_var_eval(v) != JIT_OK;
    jit_unref(r->v);
    jit_unref(jit_from_host(JIT_CUDA, JIT_f32, NULL, 0));
    jit_unref(ramp);
    jit_unref(sum);
    r->v = v;
    return NULL;
}

/* An owner that never used the memory does not hide who did before. */
Test(cuda_order, memory_that_was_not_used_is_still_read, .timeout = 60) {
    for (int round = 0; round < 8; ++round) {
        pthread_t thread;
        float one = 1, other = 1000;
        reader r = {.v = jit_from_host(JIT_CUDA, JIT_f32, &one, 1)};
        void *memory = address_of(r.v);
        pthread_create(&thread, NULL, queue_read_and_give_up, &r);
        pthread_join(thread, NULL);
        cr_assert_eq(r.wrong, 0);
        jit_var y = jit_from_host(JIT_CUDA, JIT_f32, &other, 1);
        expect_same_memory(y, memory);
        cuda_world_expect(r.v, SIZE, 1, 5);
        jit_unref(r.v);
        jit_unref(y);
    }
}

/* A scatter in place comes after the reads of other streams. */
Test(cuda_order, a_scatter_in_place_comes_after_readers, .timeout = 60) {
    for (int round = 0; round < 8; ++round) {
        pthread_t thread;
        jit_var x = cuda_world_ramp(SIZE), index = jit_counter(JIT_CUDA, SIZE);
        jit_var minus = jit_f32(JIT_CUDA, -1);
        void *memory = address_of(x);
        reader r = {.v = x};
        pthread_create(&thread, NULL, queue_reads, &r);
        pthread_join(thread, NULL);
        jit_var y = jit_scatter(x, minus, index, 0);
        jit_unref(x);
        expect_same_memory(y, memory);
        cuda_world_expect(y, SIZE, 0, -1);
        cuda_world_expect(r.v, SIZE, 2, 4);
        jit_unref(y), jit_unref(r.v), jit_unref(index), jit_unref(minus);
    }
}

/* Tokens that need no event cost next to nothing: what is launched already needs no driver. */
Test(cuda_order, tokens_without_an_event_ask_the_driver_nothing, .timeout = 60) {
    static const intptr_t tokens[] = {JIT_STREAM_NONE, JIT_STREAM_LEGACY, JIT_STREAM_NOT_GIVEN};
    static const char *const names[] = {"cuCtxGetCurrent", "cuCtxPushCurrent_v2",
                                        "cuThreadExchangeStreamCaptureMode", "cuEventRecord"};
    enum { TOKENS = sizeof tokens / sizeof *tokens, NAMES = sizeof names / sizeof *names };
    if (!w.calls)
        support_skip("this wants the simulated driver");
    jit_var x = cuda_world_ramp(SIZE), v = slow_sum(x, 5);
    ASSERT_OK(jit_var_eval(v)); /* queued, not done */
    for (int t = 0; t < TOKENS; ++t)
        for (int n = 0; n < NAMES; ++n) {
            uint64_t before = w.calls(names[n]);
            ASSERT_OK(jit_cuda_sync_stream((uintptr_t) tokens[t]));
            cr_assert_eq(w.calls(names[n]), before, "token %d calls %s", (int) tokens[t], names[n]);
        }
    jit_unref(v);
    jit_unref(x);
}

/* ---- Host memory ---- */

Test(cuda_order, host_memory_may_change_after_the_call, .timeout = 60) {
    float x[SIZE];
    jit_var v[20];
    for (int k = 0; k < 20; ++k) {
        for (int i = 0; i < SIZE; ++i)
            x[i] = (float) (i + k);
        v[k] = jit_from_host(JIT_CUDA, JIT_f32, x, SIZE);
        jit_var y = slow_sum(v[k], 2);
        jit_unref(v[k]);
        ASSERT_OK(jit_var_eval(v[k] = y));
    }
    for (int k = 0; k < 20; ++k) {
        cuda_world_expect(v[k], SIZE, 1, (float) (k + 2));
        jit_unref(v[k]);
    }
}

/** There and back, whole and in part. */
static void check_copy(size_t n) {
    uint32_t *x = malloc((n + 1) * sizeof *x), *got = calloc(n + 1, sizeof *got);
    cr_assert(x && got);
    for (size_t i = 0; i < n; ++i)
        x[i] = (uint32_t) (i * 2654435761u);
    jit_var v = jit_from_host(JIT_CUDA, JIT_u32, x, n);
    ASSERT_VAR(v);
    ASSERT_OK(jit_read(v, got));
    cr_assert(memcmp(x, got, n * sizeof *x) == 0, "%zu elements", n);
    size_t from = n / 3, count = n / 2;
    memset(got, 0, n * sizeof *got);
    ASSERT_OK(jit_read_range(v, from, count, got));
    cr_assert(memcmp(x + from, got, count * sizeof *x) == 0, "from %zu, %zu of %zu", from, count,
              n);
    cr_assert_eq(got[count], 0, "%zu elements: written behind", n);
    jit_unref(v);
    free(x), free(got);
}

Test(cuda_order, copies_of_all_sizes, .timeout = 60) {
    static const size_t sizes[] = {1, 127, 128, 129, 1023, 1024, 1025, 16383, 16385};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
        check_copy(sizes[i]);
    for (size_t mib = 1; mib <= 64; mib *= 2)
        for (size_t k = 0; k < 3; ++k)
            check_copy(mib * 262144 + k - 1);
}
