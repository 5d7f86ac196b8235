/* test_lend_real.c: on a real GPU as well: a slow reader of an exported array, whose tensor is
 * deleted at once, sees old data, although the memory is wanted for new ones. What happens without
 * an export, as time alone decides it, is told only. */
#include "consumer.h"
#include "export/dlpack_abi.h"
#include "support.h"
#include <jit/dlpack.h>
#include <stdio.h>

enum { DELAY_US = 20000, OTHERS = 4 };

static uint32_t words; /* of an array */

static void start(void) {
    if (support_backend() != JIT_CUDA)
        support_skip("this is about CUDA");
    words = support_simulated() ? 1 << 12 : 1 << 20;
    support_init();
    ASSERT_OK(jit_set_option("memory_spare", "0")); /* what others use is used again */
}
TestSuite(lend_real, .init = start, .fini = support_shutdown);

static jit_var count_from(uint32_t first) {
    jit_var k = jit_counter(JIT_CUDA, words), c = jit_u32(JIT_CUDA, first), v = jit_add(k, c);
    ASSERT_OK(jit_var_eval(v));
    jit_unref(k), jit_unref(c);
    return v;
}

static bool counts_from(const consumer *c, uint32_t first) {
    for (uint32_t i = 0; i < words; ++i)
        if (consumer_data(c)[i] != first + i)
            return false;
    return true;
}

/** New arrays, and that they are there: whatever memory they have, it is written. True if one lies
 * at `data`. */
static bool overwrite(const void *data) {
    jit_var v[OTHERS];
    bool there = false;
    for (uint32_t i = 0; i < OTHERS; ++i) {
        void *pointer;
        v[i] = count_from(0x80000000 + i);
        ASSERT_OK(jit_data(v[i], &pointer));
        there = there || pointer == data;
    }
    for (int i = 0; i < OTHERS; ++i)
        jit_unref(v[i]);
    return there;
}

/* ---- One reader ---- */

typedef enum ending { GIVEN_BACK, NAMED_AGAIN, NONE_PENDING, AFTER_THE_END, ENDINGS } ending;
static const char *const endings[] = {"given back", "named again", "memory_lent is 0",
                                      "after jit_shutdown()"};

typedef struct reading {
    consumer *c;
    intptr_t token;
    jit_var v;
    DLManagedTensorVersioned *tensor;
} reading;

/* In the consumer's thread, whose default stream may be meant. */
static void export_there(void *context) {
    reading *r = context;
    jit_export_options o = JIT_EXPORT_OPTIONS;
    o.stream = r->token;
    ASSERT_OK(jit_export_dlpack(r->v, &o, &r->tensor));
}

static void name_there(void *context) {
    reading *r = context;
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r->token));
}

static void begin(reading *r, uint32_t first) {
    r->v = count_from(first);
    consumer_call(r->c, export_there, r);
    if (r->token == JIT_STREAM_NONE) /* the user orders things */
        ASSERT_OK(jit_cuda_sync_stream(consumer_stream(r->c)));
    jit_unref(r->v);
}

static void expect_old_data(reading *r, uint32_t first, ending how) {
    begin(r, first);
    if (how == AFTER_THE_END)
        jit_shutdown();
    consumer_delay(r->c, DELAY_US);
    consumer_read(r->c, r->tensor->dl_tensor.data, words);
    const void *data = r->tensor->dl_tensor.data;
    r->tensor->deleter(r->tensor);
    if (how == AFTER_THE_END)
        start();
    if (how == NAMED_AGAIN)
        consumer_call(r->c, name_there, r);
    ASSERT_OK(jit_set_option("memory_lent", how == NONE_PENDING ? "0" : "1073741824"));
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim());
    bool again = overwrite(data);
    ASSERT_OK(jit_sync_thread());
    consumer_wait(r->c);
    printf("token %#llx, %s: the memory was%s used again\n", (unsigned long long) r->token,
           endings[how], again ? "" : " not");
    cr_assert(counts_from(r->c, first), "token %lld, %s: it sees new data", (long long) r->token,
              endings[how]);
}

static void run(consumer_kind kind, consumer_place place, intptr_t token) {
    static uint32_t first;
    if (!consumer_can(place, 0))
        return;
    reading r = {.c = consumer_create(kind, place, 0, words, kind == CONSUMER_PER_THREAD)};
    r.token = token ? token : (intptr_t) consumer_stream(r.c);
    for (int how = 0; how < ENDINGS; ++how)
        expect_old_data(&r, first += 3 << 20, (ending) how);
    consumer_destroy(r.c);
}

Test(lend_real, a_stream_that_is_named, .timeout = 100) {
    for (int place = 0; place < CONSUMER_PLACES; ++place) {
        run(CONSUMER_NON_BLOCKING, (consumer_place) place, 0);
        run(CONSUMER_BLOCKING, (consumer_place) place, 0);
    }
}

Test(lend_real, the_default_stream_of_a_thread, .timeout = 100) {
    run(CONSUMER_PER_THREAD, CONSUMER_HERE, JIT_STREAM_PER_THREAD);
}

Test(lend_real, the_legacy_default_stream, .timeout = 100) {
    run(CONSUMER_LEGACY, CONSUMER_HERE, JIT_STREAM_LEGACY);
}

/* Of a primary context: nobody can wait for others that have no name. */
Test(lend_real, a_stream_that_has_no_name, .timeout = 100) {
    run(CONSUMER_NON_BLOCKING, CONSUMER_HERE, JIT_STREAM_NONE);
    run(CONSUMER_NON_BLOCKING, CONSUMER_ELSEWHERE, JIT_STREAM_NONE);
}

/* ---- In a function that the driver calls ---- */

typedef struct driver {
    CUresult (*PrimaryCtxRetain)(CUcontext *context, CUdevice device);
    CUresult (*PrimaryCtxRelease)(CUdevice device);
    CUresult (*CtxPushCurrent)(CUcontext context);
    CUresult (*CtxPopCurrent)(CUcontext *context);
    CUresult (*LaunchHostFunc)(CUstream stream, void (*function)(void *), void *context);
} driver;

static driver find_driver(void) {
    driver d;
    consumer_driver(&d.PrimaryCtxRetain, "cuDevicePrimaryCtxRetain");
    consumer_driver(&d.PrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2");
    consumer_driver(&d.CtxPushCurrent, "cuCtxPushCurrent_v2");
    consumer_driver(&d.CtxPopCurrent, "cuCtxPopCurrent_v2");
    consumer_driver(&d.LaunchHostFunc, "cuLaunchHostFunc");
    return d;
}

static void delete_tensor(void *tensor) {
    ((DLManagedTensorVersioned *) tensor)->deleter(tensor);
}

/** Behind all that the consumer has queued. */
static void delete_on_stream(const reading *r) {
    driver d = find_driver();
    CUcontext context;
    CUstream stream = (CUstream) consumer_stream(r->c);
    consumer_must(d.PrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
    consumer_must(d.CtxPushCurrent(context), "cuCtxPushCurrent");
    consumer_must(d.LaunchHostFunc(stream, delete_tensor, r->tensor), "cuLaunchHostFunc");
    consumer_must(d.CtxPopCurrent(&context), "cuCtxPopCurrent");
    consumer_must(d.PrimaryCtxRelease(0), "cuDevicePrimaryCtxRelease");
}

/* It may call no driver, let alone wait for the stream that it runs on: also after the end, when
 * somebody has to free the memory. */
Test(lend_real, the_driver_may_delete_a_tensor, .timeout = 40) {
    for (int ended = 0; ended < 2; ++ended) {
        uint32_t first = 5u << 24;
        reading r = {.c = consumer_create(CONSUMER_NON_BLOCKING, CONSUMER_HERE, 0, words, false)};
        r.token = (intptr_t) consumer_stream(r.c);
        begin(&r, first);
        if (ended)
            jit_shutdown();
        consumer_delay(r.c, DELAY_US);
        consumer_read(r.c, r.tensor->dl_tensor.data, words);
        delete_on_stream(&r);
        consumer_wait(r.c); /* else the test hangs */
        cr_assert(counts_from(r.c, first));
        consumer_destroy(r.c);
        if (ended)
            start();
    }
}

/* ---- Without an export ---- */

Test(lend_real, the_danger, .timeout = 100) {
    enum { ROUNDS = 5 };
    int fresh = 0;
    if (support_simulated())
        support_skip("it is a race, which the simulated driver reports");
    consumer *c = consumer_create(CONSUMER_NON_BLOCKING, CONSUMER_HERE, 0, words, false);
    for (uint32_t i = 1; i <= ROUNDS; ++i) {
        void *data;
        jit_var v = count_from(i << 24);
        ASSERT_OK(jit_data(v, &data));
        ASSERT_OK(jit_cuda_sync_stream(consumer_stream(c)));
        consumer_delay(c, DELAY_US);
        consumer_read(c, data, words);
        jit_unref(v);
        overwrite(data);
        ASSERT_OK(jit_sync_thread());
        consumer_wait(c);
        fresh += !counts_from(c, i << 24);
    }
    printf("by jit_data() and jit_unref(): %d of %d slow readers see new data\n", fresh, ROUNDS);
    consumer_destroy(c);
}
