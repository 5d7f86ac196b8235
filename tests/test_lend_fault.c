/* test_lend_fault.c: loans of memory that is itself somebody else's; drivers that are old, calls
 * that fail, and children of fork(). */
#include "fork_child.h"
#include "lend_reader.h"
#include <jit/cuda.h>
#include <stdatomic.h>
#include <unistd.h>

TestSuite(lend_fault, .init = reader_start, .fini = reader_finish);

/* ---- Memory of others ---- */

typedef struct import {
    CUdeviceptr memory;
    jitc_buffer *buffer;
    atomic_int released;
} import;

static void release(void *context) {
    jitc_add_release(&((import *) context)->released, 1); /* pairs with is_released */
}

static void make_import(import *m) {
    *m = (import) {0};
    CU_OK(f.MemAlloc(&m->memory, LENT_BYTES));
    CU_OK(f.MemsetD32(m->memory, 7, LENT));
    CU_OK(f.StreamSynchronize(CU_STREAM_LEGACY));
    void *pointer = (void *) (uintptr_t) m->memory;
    ASSERT_OK(jitc_buffer_map(lend_device(), pointer, LENT_BYTES, release, m, &m->buffer));
}

/** The reader gets it, and we have it no more. */
static void lend_import(import *m, reader *r, intptr_t token) {
    ASSERT_OK(lend_memory(m->buffer, token, &r->loan));
    jitc_buffer_unref(m->buffer);
    foreign_close(&g, r->stream);
    CU_OK(f.MemcpyDtoHAsync(r->copy, m->memory, LENT_BYTES, r->stream));
}

static bool is_released(import *m) {
    for (int i = 0; i < 200000 && !jitc_load_acquire(&m->released); ++i) /* pairs with release */
        usleep(50);                                                      /* by another thread */
    return jitc_load_acquire(&m->released) == 1;
}

static void end_import(import *m, reader *r) {
    cr_assert(is_released(m));
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(r->stream));
    for (int i = 0; i < LENT; ++i)
        cr_assert_eq(((uint32_t *) (void *) r->copy)[i], 7);
    CU_OK(f.MemFree(m->memory));
    CU_OK(f.StreamDestroy(r->stream));
    CU_OK(f.MemFreeHost(r->copy));
}

static void end_loan(void *loan) {
    lend_end(loan);
}

Test(lend_fault, memory_of_others_is_released_after_its_reader, .timeout = 60) {
    for (int way = 0; way < 4; ++way) {
import m;
        reader r = reader_make();
        reader_opener o;
        make_import(&m);
        lend_import(&m, &r, way == 3 ? JIT_STREAM_NONE : reader_handle(&r));
        lend_end(&r.loan);
        usleep(100);
        cr_assert_eq(m.released, 0);
        if (way == 0)
            ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r.stream));
        if (way == 1)
            ASSERT_OK(jit_cuda_wait_stream((uintptr_t) r.stream));
        foreign_settle();
        cr_assert_eq(m.released, 0, "way %d: it is released while it is read", way);
        reader_open_at_wait(&o);
        if (way < 2)
            foreign_open(&g);
        else
            reader_recall();
        reader_opener_end(&o);
        end_import(&m, &r);
    }
}

/* The end of the loan calls nobody, the driver least of all. */
Test(lend_fault, memory_of_others_that_the_legacy_stream_reads, .timeout = 60) {
    for (int way = 0; way < 4; ++way) {
import m;
        reader r = reader_make();
        make_import(&m);
        lend_import(&m, &r, JIT_STREAM_LEGACY);
        CU_OK(f.LaunchHostFunc(r.stream, end_loan, &r.loan));
        foreign_open(&g);
        CU_OK(f.StreamSynchronize(r.stream));
        cr_assert_eq(m.released, 0);
        switch (way) {
            case 0: ASSERT_OK(jit_cuda_sync_stream((uintptr_t) JIT_STREAM_LEGACY)); break;
            case 1: ASSERT_OK(jit_sync_device()); break;
            case 2: ASSERT_OK(jit_trim()); break;
            default: reader_recall(); break;
        }
        end_import(&m, &r);
    }
}

Test(lend_fault, memory_of_others_that_is_lent_when_the_runtime_ends, .timeout = 60) {
    for (int ended = 0; ended < 2; ++ended) {
import m;
        reader r = reader_make();
        reader_opener o;
        make_import(&m);
        lend_import(&m, &r, reader_handle(&r));
        if (ended)
            lend_end(&r.loan);
        reader_open_at_wait(&o);
        jit_shutdown();
        cr_assert_eq(m.released, ended);
        lend_end(&r.loan);
        reader_opener_end(&o);
        end_import(&m, &r);
        support_init();
    }
}

/* ---- An old driver ---- */

Test(lend_old, without_numbers_of_streams_all_are_unknown, .timeout = 60) {
    foreign_hide_function("cuStreamGetId");
    reader_start();
    reader r = reader_make();
    reader_opener o;
    reader_lend(&r, reader_handle(&r));
    lend_end(&r.loan);
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r.stream));
    cr_assert_gt(lend_pending(), 0);
    cr_assert_neq(reader_overwrites(), r.data);
    reader_open_at_wait(&o);
    reader_recall();
    reader_opener_end(&o);
    reader_end(&r);
    reader_finish();
}

/* ---- Calls that fail ---- */

static const char *const failing[] = {"cuStreamGetId",
                                      "cuStreamIsCapturing",
                                      "cuStreamGetCtx",
                                      "cuStreamCreate",
                                      "cuStreamWaitEvent",
                                      "cuEventCreate",
                                      "cuEventRecord",
                                      "cuMemAlloc_v2",
                                      "cuMemFree_v2",
                                      "cuCtxGetCurrent",
                                      "cuDevicePrimaryCtxGetState",
                                      "cuDevicePrimaryCtxRetain",
                                      "cuDeviceGetCount",
                                      "cuDeviceGet",
                                      "cuDevicePrimaryCtxRelease_v2",

                                      "cuThreadExchangeStreamCaptureMode"};

/** Somebody wants memory, if there is any. */
static void try_to_overwrite(void) {
    jit_var k = jit_counter(JIT_CUDA, LENT), x = jit_cast(k, JIT_f32), c = jit_f32(JIT_CUDA, -1);
    jit_var v = jit_add(x, c);
    jit_var_eval(v);
    jit_unref(k), jit_unref(x), jit_unref(c), jit_unref(v);
}

static void try_to_lend(jit_var v, intptr_t token) {
    loan_of loan = {0};
    lend_memory(lend_buffer(v), token, &loan);
    lend_end(&loan);
}

/** Everything that the library does about loans, of which the n-th call of a function fails.
 * Whatever that is, the reader sees its data, and in the end nothing is left. False if it was not
 * called so often. */
static bool fail_one(const char *name, int n, bool named) {
    reader r = reader_make();
    reader_opener o;
    reader_lend(&r, named ? reader_handle(&r) : JIT_STREAM_NONE);
    lend_end(&r.loan);
    jit_var v = lend_make(LENT, 1);
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim());
    ASSERT_OK(jit_set_option("memory_lent", "0"));
    uint64_t calls = w.calls(name);
    reader_open_at_wait(&o);
    w.fail(name, n, CUDA_ERROR_UNKNOWN);
    try_to_lend(v, reader_handle(&r));
    jit_cuda_sync_stream((uintptr_t) r.stream);
    try_to_overwrite();
    try_to_overwrite();
    jit_cuda_wait_stream((uintptr_t) r.stream);
    bool failed = w.calls(name) - calls >= (uint64_t) n;
    w.fail(NULL, 0, 0);
    jit_error_clear();
    jit_unref(v);
    reader_opener_end(&o);
    reader_recall();
    reader_end(&r);
    return failed;
}

Test(lend_fault, whatever_fails_the_reader_sees_its_data, .timeout = 120) {
    for (size_t i = 0; i < sizeof failing / sizeof *failing; ++i) {
        int n = 1;
        while (fail_one(failing[i], n, true) + fail_one(failing[i], n, false) > 0)
            n += n < 6 ? 1 : 7;
        cr_assert_gt(n, 1, "%s is never called", failing[i]);
    }
}

/* ---- fork() ---- */

static int end_in_child(void *loan) {
    lend_end(loan);
    return FINE;
}

static int end_all_in_child(void *loan) {
    lend_end(loan);
    jit_shutdown();
    return FINE;
}

Test(lend_fault, a_loan_ends_in_a_child, .timeout = 60) {
    reader r = reader_make();
    reader_lend(&r, reader_handle(&r));
    ASSERT_CHILD(end_in_child, &r.loan);
    ASSERT_CHILD(end_all_in_child, &r.loan);
    lend_end(&r.loan);
    reader_end(&r);
    ASSERT_OK(lend_var(lend_make(LENT, 1), JIT_STREAM_NONE, &r.loan, &r.data));
    jit_shutdown();
    ASSERT_CHILD(end_in_child, &r.loan);
    lend_end(&r.loan);
    support_init();
}
