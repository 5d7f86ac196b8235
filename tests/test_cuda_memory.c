/* test_cuda_memory.c: device memory from the driver's pools and without them: what is given back
 * when, and that nobody waits for it. */
#include "cuda_foreign.h"
#include <jit/cuda.h>

enum { N = 1 << 16, BYTES = 4 * N };

static cuda_world w;

static void start(void) {
    w = cuda_world_simulated();
}
static void end(void) {
    jit_shutdown();
    cr_assert_eq(w.faults(), 0, "%s", w.fault_text());
    cr_assert_eq(w.alive(NULL), 0, "%u objects are left", w.alive(NULL));
}
TestSuite(cuda_memory, .init = start, .fini = end);

static void init(const char *pool) {
    ASSERT_OK(jit_set_option("cuda_pool", pool));
    ASSERT_OK(jit_init(JIT_CUDA));
}
/* Of the CPU, for the device. */
static uint64_t waits(void) {
    static const char *const names[] = {"cuEventSynchronize", "cuStreamSynchronize",
                                        "cuCtxSynchronize", "cuMemFree_v2", "cuMemFreeHost"};
    uint64_t sum = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i)
        sum += w.calls(names[i]);
    return sum;
}
static size_t cached(void) {
    jit_stats stats;
    ASSERT_OK(jit_get_stats(&stats));
    return stats.bytes_cached;
}
static jit_var evaluated(size_t n, float x) {
    jit_var a = jit_literal(JIT_CUDA, JIT_f32, &x, n);
    jit_var v = jit_add(jit_cast(jit_counter(JIT_CUDA, n), JIT_f32), a);
    ASSERT_VAR(v);
    ASSERT_OK(jit_var_eval(v));
    return v;
}

Test(cuda_memory, blocks_come_from_a_pool_and_go_back_to_it) {
    init("1");
    jit_unref(evaluated(N, 1));
    cr_assert_gt(w.calls("cuMemAllocFromPoolAsync"), 0);
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim());
    cr_assert_eq(cached(), 0);
    cr_assert_gt(w.calls("cuMemPoolTrimTo"), 0);
    cr_assert_eq(w.calls("cuMemAlloc_v2") + w.calls("cuMemFree_v2"), 0);
}

Test(cuda_memory, without_pools_there_is_cuMemAlloc) {
    init("0");
    jit_unref(evaluated(N, 1));
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim());
    cr_assert_eq(cached(), 0);
    cr_assert(w.calls("cuMemAlloc_v2") > 0 && w.calls("cuMemFree_v2") > 0);
    cr_assert_eq(w.calls("cuMemPoolCreate"), 0);
}

/* An older driver, or one that says no. */
Test(cuda_memory, where_no_pool_can_be_made_there_is_cuMemAlloc) {
    static const char *const names[] = {"cuMemPoolCreate", "cuMemPoolSetAttribute"};
    for (int i = 0; i < 2; ++i) {
        uint64_t before = w.calls("cuMemAlloc_v2");
        w.fail(names[i], 1, CUDA_ERROR_NOT_SUPPORTED);
        init("1");
        jit_var v = evaluated(N, 2);
        cuda_world_expect(v, N, 1, 2);
        jit_unref(v);
        cr_assert_gt(w.calls("cuMemAlloc_v2"), before, "%s", names[i]);
        jit_shutdown();
    }
}

static gate g;

/* One block is used by a kernel that does not end before the gate is opened; the other one is idle.
 */
static void fill_up(jit_var *busy) {
    jit_unref(evaluated(4 * N, 1));
    ASSERT_OK(jit_sync_thread());
    jit_unref(evaluated(2 * N, 1));
    ASSERT_OK(jit_sync_thread()); /* both kernels are compiled */
    ASSERT_OK(jit_trim());
    jit_unref(evaluated(4 * N, 1));
    ASSERT_OK(jit_sync_thread());
    foreign_enter(0);
    foreign_close(&g, jit_cuda_stream());
    foreign_leave(0);
    *busy = evaluated(2 * N, 1);
}

Test(cuda_memory, trimming_waits_for_nothing) {
    jit_var busy;
    init("1");
    fill_up(&busy);
    jit_unref(busy); /* cached, and in use */
    uint64_t frees = w.calls("cuMemFreeAsync"), synchronised = w.calls("cuEventSynchronize");
    ASSERT_OK(jit_trim());
    cr_assert_eq(w.calls("cuMemFreeAsync"), frees + 1, "the idle one");
    cr_assert_eq(cached(), 2 * BYTES, "the other one stays");
    cr_assert_eq(w.calls("cuEventSynchronize"), synchronised);
    cr_assert_eq(w.calls("cuMemFree_v2"), 0);
    foreign_open(&g);
}

Test(cuda_memory, when_memory_runs_out_idle_blocks_make_room_without_a_wait) {
    jit_var busy;
    init("1");
    fill_up(&busy);
    w.memory(7 * BYTES); /* 6 are taken */
    uint64_t synchronised = w.calls("cuEventSynchronize");
    jit_var v = evaluated(3 * N, 5);
    cr_assert_eq(w.calls("cuEventSynchronize"), synchronised);
    cr_assert_eq(w.calls("cuMemFree_v2"), 0);
    cr_assert_eq(cached(), 0);
    foreign_open(&g);
    cuda_world_expect(v, 3 * N, 1, 5);
    cuda_world_expect(busy, 2 * N, 1, 1);
    jit_unref(v), jit_unref(busy);
}

Test(cuda_memory, an_allocation_while_the_device_is_busy_waits_for_nothing) {
    jit_var busy, more[8];
    init("1");
    fill_up(&busy);
    ASSERT_OK(jit_trim());
    uint64_t before = waits(), taken = w.calls("cuMemAllocFromPoolAsync");
    for (int i = 0; i < 8; ++i)
        more[i] = evaluated(2 * N, (float) i);
    cr_assert_eq(waits(), before);
    cr_assert_eq(w.calls("cuMemAllocFromPoolAsync"), taken + 8);
    foreign_open(&g);
    for (int i = 0; i < 8; ++i) {
        cuda_world_expect(more[i], 2 * N, 1, (float) i);
        jit_unref(more[i]);
    }
    jit_unref(busy);
}

/* Who is the first to use it is behind the allocation, which need not be over. */
Test(cuda_memory, new_memory_is_used_after_its_allocation) {
    static const float zeros[N];
    init("1");
    w.fail("cuStreamQuery", 1, CUDA_ERROR_NOT_READY);
    jit_var v = evaluated(N, 3); /* by a kernel */
    cuda_world_expect(v, N, 1, 3);
    w.fail("cuStreamQuery", 1, CUDA_ERROR_NOT_READY);
    jit_var x = jit_from_host(JIT_CUDA, JIT_f32, zeros, N); /* by an upload */
    cuda_world_expect(x, N, 0, 0);
    cr_assert_eq(w.calls("cuStreamQuery"), 2, "each had memory of its own");
    jit_unref(v), jit_unref(x);
}

/* ---- Other devices ---- */

static void *address_of(jit_var v) {
    void *address = NULL;
    ASSERT_OK(jit_data(v, &address));
    return address;
}

Test(cuda_memory, other_devices_get_access_to_a_pool_when_an_address_is_asked_for) {
    init("1");
    jit_var v = evaluated(N, 1), far;
    cuda_world_expect(v, N, 1, 1);
    cr_assert_eq(w.calls("cuMemPoolSetAccess"), 0, "who shares nothing does not pay for it");
    address_of(v);
    cr_assert_eq(w.calls("cuMemPoolSetAccess"), 1);
    cr_assert_eq(w.alive("contexts"), 1, "none is made of a device that nobody uses");
    address_of(v);
    jit_unref(v);
    address_of(v = evaluated(2 * N, 1));
    cr_assert_eq(w.calls("cuMemPoolSetAccess"), 1, "once");
    ASSERT_OK(jit_set_device(JIT_CUDA, 1));
    far = evaluated(N, 1);
    cr_assert_eq(w.calls("cuMemPoolSetAccess"), 1);
    address_of(far);
    cr_assert_eq(w.calls("cuMemPoolSetAccess"), 2);
    jit_unref(v), jit_unref(far);
}

Test(cuda_memory, without_pools_other_devices_need_no_access) {
    init("0");
    jit_var v = evaluated(N, 1);
    address_of(v);
    cr_assert_eq(w.calls("cuMemPoolSetAccess"), 0);
    jit_unref(v);
}

/* Also on a device that knows of no pool. */
Test(cuda_memory, the_address_is_there_if_access_cannot_be_given) {
    static const char *const names[] = {"cuMemPoolSetAccess", "cuDeviceCanAccessPeer",
                                        "cuMemPoolCreate"};
    for (int i = 0; i < 3; ++i) {
        w.fail(names[i], 1, CUDA_ERROR_NOT_SUPPORTED);
        init("1");
        jit_var v = evaluated(N, 1);
        cr_assert_not_null(address_of(v), "%s", names[i]);
        ASSERT_OK(jit_sync_thread());
        cuda_world_expect(v, N, 1, 1);
        jit_unref(v);
        jit_shutdown();
    }
}

static pthread_barrier_t met;

static void *ask_for_an_address(void *context) {
    jit_var v = evaluated(N, 1);
    pthread_barrier_wait(&met);
    address_of(v);
    *(uint64_t *) context = w.calls("cuMemPoolSetAccess");
    jit_unref(v);
    return NULL;
}

Test(cuda_memory, of_several_threads_one_gives_access_and_the_others_wait_for_it) {
    enum { THREADS = 6, ROUNDS = 20 };
    pthread_t thread[THREADS];
    uint64_t calls[THREADS];
    pthread_barrier_init(&met, NULL, THREADS);
    for (uint64_t round = 1; round <= ROUNDS; ++round) {
        init("1");
        for (int i = 0; i < THREADS; ++i)
            cr_assert_eq(pthread_create(&thread[i], NULL, ask_for_an_address, &calls[i]), 0);
        for (int i = 0; i < THREADS; ++i) {
            pthread_join(thread[i], NULL);
            cr_assert_eq(calls[i], round);
        }
        jit_shutdown();
    }
    pthread_barrier_destroy(&met);
}
