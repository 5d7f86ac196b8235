/* test_cuda.c: what only the CUDA backend has: several devices, contexts that belong to others,
 * graphs, many parameters, sizes beyond 32 bits. Runs on the simulated driver and on GPUs. */
#include "cuda_world.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cuda_world w;

static void start(void) {
    w = cuda_world_find();
    support_init();
}
TestSuite(cuda, .init = start, .fini = support_shutdown);

static uint64_t launches(void) {
    jit_stats s;
    ASSERT_OK(jit_get_stats(&s));
    return s.launches;
}

/* ---- Many parameters ---- */

/** A chain over `count` arrays of one kernel, each with another value in each lane; all numbers are
 *  exact in f32. (NVRTC takes minutes to reorder such a chain of integers.) */
static void check_inputs(uint32_t count) {
    enum { LANES = 70 };
    float values[LANES], got[LANES];
    ASSERT_OK(jit_set_option("kernel_ops", "100000"));
    jit_scope_push();
    jit_var sum = 0;
    for (uint32_t k = 0; k < count; ++k) {
        for (uint32_t i = 0; i < LANES; ++i)
            values[i] = (float) ((k + 1) * (i + 3));
        jit_var v = jit_from_host(JIT_CUDA, JIT_f32, values, LANES);
        ASSERT_VAR(v);
        sum = sum ? jit_add(jit_sub(v, sum), jit_f32(JIT_CUDA, (float) k)) : v;
    }
    uint64_t before = launches();
    ASSERT_OK(jit_read(sum, got));
    cr_assert_eq(launches(), before + 1, "one kernel");
    for (uint32_t i = 0; i < LANES; ++i) {
        float want = (float) (i + 3);
        for (uint32_t k = 1; k < count; ++k)
            want = (float) ((k + 1) * (i + 3)) - want + (float) k;
        cr_assert_eq(got[i], want, "%u inputs, lane %u: %g, not %g", count, i, (double) got[i],
                     (double) want);
    }
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* 2 parameters of 8 bytes for each input: around 4096 and 32764 bytes. */
Test(cuda, kernels_with_thousands_of_parameters, .timeout = 120) {
    static const uint32_t counts[] = {2, 200, 254, 255, 256, 257, 600, 2047, 2048};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; ++i)
        check_inputs(counts[i]);
}

/* The table in memory is written anew while earlier launches may still read theirs. */
Test(cuda, launches_with_many_parameters_follow_each_other) {
    enum { INPUTS = 2100, ROUNDS = 6, LANES = 4 };
    static jit_var input[INPUTS];
    jit_var result[ROUNDS];
    ASSERT_OK(jit_set_option("kernel_ops", "100000"));
    jit_scope_push();
    for (uint32_t k = 0; k < INPUTS; ++k) {
        float f = (float) k, values[LANES] = {f, f + 1, f + 2, f + 3};
        input[k] = jit_from_host(JIT_CUDA, JIT_f32, values, LANES);
    }
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        jit_var sum = input[0];
        for (uint32_t k = 1; k < INPUTS; ++k)
            sum = jit_sub(input[k], jit_add(sum, jit_f32(JIT_CUDA, (float) (round + k))));
        ASSERT_OK(jit_var_eval(result[round] = sum));
    }
    for (uint32_t round = 0; round < ROUNDS; ++round) {
        float got[LANES];
        ASSERT_OK(jit_read(result[round], got));
        for (uint32_t i = 0; i < LANES; ++i) {
            float want = (float) i;
            for (uint32_t k = 1; k < INPUTS; ++k)
                want = (float) (k + i) - (want + (float) (round + k));
            cr_assert_eq(got[i], want, "round %u, lane %u: %g, not %g", round, i, (double) got[i],
                         (double) want);
        }
    }
    ASSERT_OK(jit_scope_pop(0, NULL));
}

/* ---- Devices ---- */

static void need_devices(int count) {
    if (jit_device_count(JIT_CUDA) < count)
        support_skip("there is one device only");
}

Test(cuda, variables_live_on_the_device_of_their_thread) {
    need_devices(2);
    jit_var a = cuda_world_ramp(100);
    cr_assert_eq(jit_device_of(a), 0);
    ASSERT_OK(jit_set_device(JIT_CUDA, 1));
    cr_assert_eq(jit_device(JIT_CUDA), 1);
    jit_var b = cuda_world_ramp(100), c = jit_add(b, b), d = jit_add(a, a);
    cr_assert_eq(jit_device_of(b), 1);
    cr_assert_eq(jit_device_of(c), 1);
    cr_assert_eq(jit_device_of(d), 0);
    cuda_world_expect(c, 100, 2, 0);
    cuda_world_expect(d, 100, 2, 0);
    cr_assert_eq(jit_add(a, b), 0, "of two devices");
    cr_assert_neq(jit_error_status(), JIT_OK);
    jit_error_clear();
    ASSERT_OK(jit_sync_all_devices());
    jit_unref(a), jit_unref(b), jit_unref(c), jit_unref(d);
}

Test(cuda, devices_are_scheduled_together) {
    need_devices(2);
    jit_var v[2];
    for (int d = 0; d < 2; ++d) {
        ASSERT_OK(jit_set_device(JIT_CUDA, d));
        jit_var a = cuda_world_ramp(1000);
        v[d] = jit_mul(a, a);
        ASSERT_OK(jit_schedule(v[d]));
        jit_unref(a);
    }
    ASSERT_OK(jit_eval());
    for (int d = 0; d < 2; ++d) {
        float got[1000];
        ASSERT_OK(jit_read(v[d], got));
        cr_assert_eq(got[30], 900);
        jit_unref(v[d]);
    }
}

/* ---- Threads ---- */

enum { THREADS = 64, ROUNDS = 5, SIZE = 3000 };

typedef struct job {
    jit_var shared; /* evaluated by somebody */
    int number;
    bool good;
} job;

static bool compute(const job *j, int round) {
    static const float none[SIZE];
    float *got = malloc(sizeof none);
    jit_scope_push();
    jit_var x = cuda_world_ramp(SIZE);
    jit_var c = jit_f32(JIT_CUDA, (float) (j->number + round));
    jit_var y = jit_add(jit_mul(x, jit_f32(JIT_CUDA, 2)), c);
    jit_var z = jit_add(y, j->shared);
    bool good = got && jit_schedule(y) == JIT_OK && jit_read(z, got) == JIT_OK;
    for (int i = 0; good && i < SIZE; ++i)
        good = got[i] == (float) (5 * i + j->number + round);
    jit_scope_pop(0, NULL);
    free(got);
    return good;
}

static void *run_job(void *context) {
    job *j = context;
    j->good = true;
    for (int round = 0; round < ROUNDS && j->good; ++round)
        j->good = compute(j, round);
    if (!j->good)
        fprintf(stderr, "thread %d: %s\n", j->number, jit_error());
    return NULL;
}

Test(cuda, many_threads_share_a_device, .timeout = 120) {
    pthread_t thread[THREADS];
    job jobs[THREADS];
    jit_var x = cuda_world_ramp(SIZE), three = jit_f32(JIT_CUDA, 3), shared = jit_mul(x, three);
    for (int i = 0; i < THREADS; ++i) {
        jobs[i] = (job) {.shared = shared, .number = i};
        cr_assert_eq(pthread_create(&thread[i], NULL, run_job, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(thread[i], NULL);
        cr_assert(jobs[i].good, "thread %d", i);
    }
    jit_unref(x), jit_unref(three), jit_unref(shared);
}

/* ---- Contexts of others ---- */

static void expect_current(CUcontext want, const char *after) {
    CUcontext got = NULL;
    cr_assert_eq(w.CtxGetCurrent(&got), CUDA_SUCCESS);
    cr_assert_eq(got, want, "the current context is another one after %s", after);
}
#define KEEPS(call)                                                                                \
    do {                                                                                           \
        call;                                                                                      \
        expect_current(current, #call);                                                            \
    } while (0)

/** Every kind of public function that may call the driver. */
static void call_everything(CUcontext current) {
    float got[500];
    void *address;
    jit_stats stats;
    jit_var x, y, z;
    KEEPS(x = cuda_world_ramp(500));
    KEEPS(y = jit_sqrt(x));
    KEEPS(z = jit_scatter(y, jit_f32(JIT_CUDA, 1), jit_u32(JIT_CUDA, 3), 0));
    KEEPS(ASSERT_OK(jit_schedule(y)));
    KEEPS(ASSERT_OK(jit_eval()));
    KEEPS(ASSERT_OK(jit_var_eval(z)));
    KEEPS(ASSERT_OK(jit_data(z, &address)));
    KEEPS(ASSERT_OK(jit_read(z, got)));
    KEEPS(ASSERT_OK(jit_read_range(y, 5, 7, got)));
    KEEPS(ASSERT_OK(jit_sync_thread()));
    KEEPS(ASSERT_OK(jit_sync_device()));
    KEEPS(ASSERT_OK(jit_sync_all_devices()));
    KEEPS(ASSERT_OK(jit_get_stats(&stats)));
    KEEPS(ASSERT_OK(jit_cache_clear_memory()));
    KEEPS(ASSERT_OK(jit_set_device(JIT_CUDA, jit_device_count(JIT_CUDA) - 1)));
    KEEPS(jit_unref(x));
    KEEPS(jit_unref(cuda_world_ramp(3)));
    KEEPS(ASSERT_OK(jit_set_device(JIT_CUDA, 0)));
    KEEPS(jit_unref(y));
    KEEPS(jit_unref(z));
    KEEPS(jit_shutdown());
    KEEPS(ASSERT_OK(jit_init(JIT_CUDA)));
}

Test(cuda, the_current_context_stays_none) {
    expect_current(NULL, "jit_init()");
    call_everything(NULL);
}

/* Of another device where there is one; else the one that the library uses, too. */
Test(cuda, the_current_context_stays_that_of_the_caller) {
    CUdevice device = jit_device_count(JIT_CUDA) - 1;
    CUcontext context, popped;
    cr_assert(!w.CtxRetain(&context, device) && !w.CtxPushCurrent(context));
    call_everything(context);
    cr_assert(!w.CtxPopCurrent(&popped) && popped == context);
    cr_assert_eq(w.CtxRelease(device), CUDA_SUCCESS);
}

/* ---- Graphs of kernels ---- */

/** 12 kernels in one evaluation: gathers from what the kernel before has computed. */
static void run_chain(float factor, float got[100]) {
    jit_scope_push();
    jit_var x = cuda_world_ramp(100), reversed;
    reversed = jit_sub(jit_u32(JIT_CUDA, 99), jit_counter(JIT_CUDA, 100));
    for (int k = 0; k < 12; ++k)
        x = jit_gather(jit_add(x, jit_f32(JIT_CUDA, factor * (float) k)), reversed, 0);
    ASSERT_OK(jit_read(x, got));
    ASSERT_OK(jit_scope_pop(0, NULL));
}

static void check_chain(float factor) {
    float got[100];
    run_chain(factor, got);
    for (int i = 0; i < 100; ++i)
        cr_assert_eq(got[i], (float) i + 66 * factor, "element %d: %g", i, (double) got[i]);
}

static uint64_t calls(const char *name) {
    return w.calls ? w.calls(name) : 0;
}

Test(cuda, several_kernels_of_one_evaluation_go_out_as_a_graph) {
    uint64_t before = launches();
    for (int i = 0; i < 4; ++i)
        check_chain((float) i);
    cr_assert_eq(launches(), before + 4 * 12 + 4, "kernels count one by one");
    if (!w.calls)
        return;
    uint64_t graphs = calls("cuGraphLaunch"), kernels = calls("cuLaunchKernel");
    check_chain(0.5f); /* other literals, other memory */
    cr_assert_eq(calls("cuGraphLaunch"), graphs + 1);
    cr_assert_leq(calls("cuLaunchKernel"), kernels + 1);
}

Test(cuda, graphs_can_be_switched_off) {
    jit_shutdown();
    ASSERT_OK(jit_set_option("cuda_graphs", "0"));
    support_init();
    for (int i = 0; i < 4; ++i)
        check_chain((float) i);
    cr_assert_eq(calls("cuGraphLaunch"), 0);
    cr_assert(!w.calls || calls("cuLaunchKernel") >= 48);
}

/** Evaluations whose kernels and sizes change from one to the next. */
Test(cuda, graphs_follow_evaluations_that_change, .timeout = 120) {
    for (size_t round = 0; round < 40; ++round) {
        size_t n = round % 3 ? 1000 : 1000 + 64 * round, kernels = 2 + round % 5;
        jit_var x[8], y[8];
        for (size_t k = 0; k < kernels; ++k) {
            x[k] = cuda_world_ramp(n + k);
            jit_var c = jit_f32(JIT_CUDA, (float) round);
            y[k] = round % 2 ? jit_add(x[k], c) : jit_add(jit_add(x[k], x[k]), c);
            ASSERT_OK(jit_schedule(y[k]));
            jit_unref(c);
        }
        ASSERT_OK(jit_eval());
        for (size_t k = 0; k < kernels; ++k) {
            cuda_world_expect(y[k], n + k, round % 2 ? 1 : 2, (float) round);
            jit_unref(x[k]);
            jit_unref(y[k]);
        }
    }
}

/* ---- Sizes ---- */

Test(cuda, around_the_sizes_of_blocks_and_waves) {
    static const size_t sizes[] = {0,     1,     2,     31,     32,    33,   127,  128,
                                   129,   255,   256,   257,    511,   513,  1023, 1024,
                                   1025,  2047,  2049,  4095,   4097,  8191, 8193, 16383,
                                   16385, 65535, 65537, 262143, 262145};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
        jit_var x = cuda_world_ramp(sizes[i]), one = jit_f32(JIT_CUDA, 1), y = jit_add(x, one);
        cuda_world_expect(y, sizes[i], 1, 1);
        jit_unref(x), jit_unref(one), jit_unref(y);
    }
}

/* Takes 6 GiB of the device's memory: JITC_TEST_LARGE=1, on a GPU. */
Test(cuda, more_than_two_to_the_31_lanes, .timeout = 300) {
    const size_t n = ((size_t) 1 << 31) + 70, tail = 100;
    uint8_t got[100];
    if (!getenv("JITC_TEST_LARGE"))
        support_skip("JITC_TEST_LARGE is not set");
    jit_scope_push();
    jit_var i = jit_counter(JIT_CUDA, n);
    jit_var x = jit_cast(jit_mod(i, jit_u32(JIT_CUDA, 251)), JIT_u8);
    ASSERT_OK(jit_var_eval(x));
    jit_var back = jit_sub(jit_u32(JIT_CUDA, (uint32_t) (n - 1)), i);
    jit_var y = jit_gather(x, back, 0);
    ASSERT_OK(jit_read_range(x, n - tail, tail, got));
    for (size_t k = 0; k < tail; ++k)
        cr_assert_eq(got[k], (n - tail + k) % 251, "element %zu", n - tail + k);
    ASSERT_OK(jit_read_range(y, n - tail, tail, got));
    for (size_t k = 0; k < tail; ++k)
        cr_assert_eq(got[k], (tail - 1 - k) % 251, "reversed, element %zu", n - tail + k);
    ASSERT_OK(jit_scope_pop(0, NULL));
}
