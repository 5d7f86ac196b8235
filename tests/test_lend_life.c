/* test_lend_life.c: loans that end late, elsewhere, or never; streams that are gone before; and
 * what we do about it breaks nobody's capture. */
#include "lend_reader.h"
#include <jit/cuda.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

TestSuite(lend_life, .init = reader_start, .fini = reader_finish);

/* ---- Streams that are gone ---- */

/* What was queued on a stream goes on when it is destroyed; its handle is nobody's, or another's.
 * The event is behind it. */
static CUevent destroy_early(reader *r) {
    CUevent last;
    CU_OK(f.EventCreate(&last, CU_EVENT_DISABLE_TIMING));
    CU_OK(f.EventRecord(last, r->stream));
    CU_OK(f.StreamDestroy(r->stream));
    r->stream = NULL;
    return last;
}

static void wait_and_destroy(CUevent e) {
    foreign_open(&g);
    CU_OK(f.EventSynchronize(e));
    CU_OK(f.EventDestroy(e));
}

Test(lend_life, a_stream_that_was_destroyed_is_not_touched, .timeout = 60) {
    reader r = reader_make();
    reader_opener o;
    reader_lend(&r, reader_handle(&r));
    CUevent last = destroy_early(&r);
    lend_end(&r.loan);
    CUstream other = foreign_stream(CU_STREAM_NON_BLOCKING);
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) other));
    ASSERT_OK(jit_cuda_wait_stream((uintptr_t) other));
    cr_assert_neq(reader_overwrites(), r.data);
    ASSERT_OK(jit_set_option("memory_lent", "0"));
    ASSERT_OK(jit_sync_thread());
    ASSERT_OK(jit_trim()); /* what else there is of the size */
    reader_open_at_wait(&o);
    cr_assert_eq(reader_overwrites(), r.data, "the CPU has not waited for it");
    reader_opener_end(&o);
    wait_and_destroy(last);
    reader_expect_old_data(&r);
    CU_OK(f.StreamDestroy(other));
    CU_OK(f.MemFreeHost(r.copy));
    cr_assert_eq(w.faults(), 0, "%s", w.fault_text());
}

Test(lend_life, a_new_stream_with_the_same_handle_is_another, .timeout = 60) {
    reader r = reader_make();
    uintptr_t before = (uintptr_t) r.stream;
    w.reuse_handles(true);
    reader_lend(&r, reader_handle(&r));
    CUevent last = destroy_early(&r);
    lend_end(&r.loan);
    r.stream = foreign_stream(CU_STREAM_NON_BLOCKING);
    cr_assert_eq((uintptr_t) r.stream, before, "nothing is tested");
    ASSERT_OK(jit_cuda_sync_stream(before));
    ASSERT_OK(jit_cuda_wait_stream(before));
    cr_assert_gt(lend_pending(), 0);
    cr_assert_neq(reader_overwrites(), r.data);
    wait_and_destroy(last);
    reader_end(&r);
}

/* Streams that come and go are forgotten. */
Test(lend_life, many_streams_take_no_room, .timeout = 60) {
    enum { STREAMS = 1000 };
    jit_var v = lend_make(LENT, 3);
    unsigned before = 0;
    for (int i = 0; i < STREAMS; ++i) {
        loan_of loan;
        void *data;
        CUstream s = foreign_stream(CU_STREAM_NON_BLOCKING);
        ASSERT_OK(lend_var(v, (intptr_t) s, &loan, &data));
        lend_end(&loan);
        ASSERT_OK(jit_cuda_sync_stream((uintptr_t) s));
        CU_OK(f.StreamSynchronize(s));
        CU_OK(f.StreamDestroy(s));
        if (i == STREAMS / 2)
            before = w.alive(NULL);
    }
    cr_assert_eq(w.alive(NULL), before);
    jit_unref(v);
}

static uint64_t number_of(CUstream s) {
    return lend_stream()->backend->consumer_id(lend_stream(), (intptr_t) s);
}

/** Lends it the array, which it reads at once, gives it up, and names the stream again. */
static void give_and_take_back(jit_var v, CUstream s) {
    loan_of loan;
    void *data;
    ASSERT_OK(lend_var(v, (intptr_t) s, &loan, &data));
    jit_unref(v);
    lend_end(&loan);
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) s));
    CU_OK(f.StreamSynchronize(s));
}

/* What stands for one that holds nothing may stand for another, but not while that one still reads.
 * Their numbers are such that they are looked for at the same place. */
Test(lend_life, marks_of_one_stream_say_nothing_of_another, .timeout = 60) {
    enum { BUCKETS = 64 };
    CUstream all[BUCKETS];
    reader r = reader_make();
    int count = 0;
    jit_var v = lend_make(LENT, 1); /* before there is the reader's memory to take */
    reader_lend(&r, reader_handle(&r));
    lend_end(&r.loan);
    ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r.stream));
    do {
        all[count] = foreign_stream(CU_STREAM_NON_BLOCKING);
    } while (number_of(all[count++]) % BUCKETS != number_of(r.stream) % BUCKETS);
    give_and_take_back(v, all[count - 1]);
    jit_var first = lend_make(LENT, 2), second = lend_make(LENT, 3); /* takes the reader's memory */
    cr_assert(lend_buffer(first)->pointer == r.data || lend_buffer(second)->pointer == r.data);
    jit_unref(first), jit_unref(second);
    reader_end(&r);
    while (count--)
        CU_OK(f.StreamDestroy(all[count]));
}

/* ---- Who ends it ---- */

static void end_loan(void *loan) {
    lend_end(loan);
}

static void *end_in_thread(void *loan) {
    lend_end(loan);
    return NULL;
}

static void end_here(reader *r) {
    lend_end(&r->loan);
}

static void end_there(reader *r) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, end_in_thread, &r->loan), 0);
    pthread_join(thread, NULL);
}

/** In a function that the driver calls, behind the reader. */
static void end_inside(reader *r) {
    CU_OK(f.LaunchHostFunc(r->stream, end_loan, &r->loan));
    foreign_open(&g);
    CU_OK(f.StreamSynchronize(r->stream));
}

typedef void ender(reader *r);
static ender *const enders[] = {end_here, end_there, end_inside};
enum { ENDERS = 3 };

Test(lend_life, any_thread_ends_it_and_calls_no_driver, .timeout = 60) {
    for (int i = 0; i < ENDERS; ++i)
        for (int named = 0; named < 3; ++named) {
            reader r = reader_make();
            reader_lend(&r, named == 2 ? JIT_STREAM_LEGACY
                            : named    ? reader_handle(&r)
                                       : JIT_STREAM_NONE);
            if (named == 2) { /* a promise that is kept */
                foreign_open(&g);
                CU_OK(f.StreamSynchronize(r.stream));
            }
            uint64_t calls = w.calls(NULL);
            enders[i](&r);
            cr_assert_eq(w.calls(NULL), calls + (enders[i] == end_inside ? 2 : 0));
            cr_assert_eq(lend_pending() > 0, named != 2);
            if (named == 1)
                ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r.stream));
            cr_assert_eq(lend_pending() > 0, named == 0, "way %d, %d: %zu", i, named,
                         lend_pending());
            foreign_open(&g);
            CU_OK(f.StreamSynchronize(r.stream));
            cr_assert_eq(reader_overwrites() == r.data, named != 0);
            reader_recall();
            reader_end(&r);
        }
}

/* ---- After the end ---- */

/* The context is the test's as well, until here. */
static void shut_down(bool again) {
    foreign_leave(0);
    jit_shutdown();
    if (again)
        support_init();
    foreign_enter(0);
}

/** Nothing is left but what the test has: `allocations` of them. */
static void expect_allocations(unsigned allocations) {
    for (int i = 0; i < 100000 && w.alive("allocations") != allocations; ++i)
        usleep(50); /* a thread may be at it */
    cr_assert_eq(w.alive("allocations"), allocations, "%u", w.alive("allocations"));
}

static void outlive(ender *way, intptr_t token, bool again) {
    reader r = reader_make();
    reader_opener o;
    jit_var v = lend_make(LENT, r.offset);
    ASSERT_OK(lend_var(v, token < 0 ? token : reader_handle(&r), &r.loan, &r.data));
    CU_OK(f.StreamSynchronize(r.stream));
    shut_down(again);
    if (again)
        cr_assert_neq(reader_overwrites(), r.data);
    foreign_close(&g, r.stream);
    CU_OK(f.MemcpyDtoHAsync(r.copy, (uintptr_t) r.data, LENT_BYTES, r.stream));
    reader_open_at_wait(&o);
    way(&r);
    reader_opener_end(&o);
    if (!again)
        expect_allocations(1);
    reader_end(&r);
    if (!again)
        support_init();
}

Test(lend_life, what_is_lent_stays_when_the_runtime_ends, .timeout = 60) {
    for (int i = 0; i < ENDERS; ++i)
        for (int again = 0; again < 2; ++again) {
            outlive(enders[i], 1, again);
            outlive(enders[i], JIT_STREAM_NONE, again);
        }
}

/* Memory that is ours again, behind a stream that is not done yet, and memory that was not named.
 */
Test(lend_life, the_end_of_the_runtime_waits_for_readers, .timeout = 60) {
    for (int named = 0; named < 2; ++named) {
        reader r = reader_make();
        reader_opener o;
        reader_lend(&r, reader_handle(&r));
        lend_end(&r.loan);
        ASSERT_OK(jit_sync_thread());
        if (named)
            ASSERT_OK(jit_cuda_sync_stream((uintptr_t) r.stream));
        cr_assert_eq(lend_pending() > 0, !named);
        reader_open_at_wait(&o);
        jit_shutdown();
        reader_opener_end(&o);
        cr_assert_eq(w.alive("allocations"), 1);
        reader_end(&r);
        support_init();
    }
}

/* ---- At the same time ---- */

static void start_cpu(void) {
    if (!support_is_built(JIT_LLVM) || jit_init(JIT_LLVM) != JIT_OK)
        support_skip("this wants the CPU backend: %s", jit_error());
}

/* Whose release takes until the runtime has ended, or for a while. */
typedef struct slow {
    atomic_bool called, ended;
    loan_of loan;
} slow;

static void release_slowly(void *context) {
    slow *s = context;
    jitc_store_release(&s->called, true); /* pairs with the test */
    for (int i = 0; i < 1000 && !jitc_load_acquire(&s->ended); ++i)
        usleep(20);
}

static void *end_slowly(void *context) {
    lend_end(&((slow *) context)->loan);
    return NULL;
}

Test(lend_host, the_runtime_ends_after_loans_that_are_ending, .timeout = 60) {
    static float memory[64];
    pthread_t thread;
    slow s = {0};
    void *data;
    start_cpu();
    jit_var v = jit_map(JIT_LLVM, JIT_f32, memory, 64, release_slowly, &s);
    ASSERT_OK(lend_var(v, JIT_STREAM_NONE, &s.loan, &data));
    cr_assert_eq(data, memory);
    jit_unref(v);
    cr_assert_eq(pthread_create(&thread, NULL, end_slowly, &s), 0);
    while (!jitc_load_acquire(&s.called)) /* pairs with release_slowly */
        usleep(20);
    jit_shutdown();
    jitc_store_release(&s.ended, true); /* pairs with release_slowly */
    pthread_join(thread, NULL);
}

Test(lend_host, the_cpu_has_no_streams, .timeout = 60) {
    static const intptr_t tokens[] = {JIT_STREAM_NOT_GIVEN, 0, 1, 2, -2};
    float zero[64] = {0};
    loan_of loan;
    start_cpu();
    jit_var v = jit_from_host(JIT_LLVM, JIT_f32, zero, 64);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; ++i) {
        cr_assert_eq(lend_memory(lend_buffer(v), tokens[i], &loan), JIT_INVALID_ARGUMENT);
        cr_assert_null(loan.lent);
        jit_error_clear();
    }
    jit_unref(v);
    jit_shutdown();
}
