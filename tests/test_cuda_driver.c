/* test_cuda_driver.c: the slots of the CUDA backend that queue, wait and call, one by one: numbers,
 * kernels that are held back, order between streams, staging, calls, graphs, unloading, failure. */
#include "core/sync.h"
#include "cuda/cuda_backend.h"
#include "cuda_world.h"
#include "programs.h"
#include <stdlib.h>
#include <string.h>

enum { STREAMS = 3, N = 1000 };

static cuda_world w;
static jitc_backend *b;
static jitc_stream *stream[STREAMS];

static jitc_stream *create_stream(void) {
    jitc_stream *s;
    ASSERT_OK(b->stream_create(b, 0, &s));
    s->backend = b;
    s->device = 0;
    jitc_mutex_init(&s->lock);
    return s;
}

static void start(void) {
    jitc_options o;
    w = cuda_world_find();
    jitc_options_init(&o);
    if (jitc_cuda_backend_create(&o, &b) != JIT_OK)
        cr_skip_test("%s", jit_error());
    for (int i = 0; i < STREAMS; ++i)
        stream[i] = create_stream();
}

static void end_streams(void) {
    for (int i = 0; i < STREAMS; ++i) {
        jitc_mutex_finish(&stream[i]->lock);
        b->stream_destroy(stream[i]);
    }
}

static void end(void) {
    end_streams();
    b->destroy(b);
    cr_assert(!w.faults || !w.faults(), "the simulated driver found: %s", w.fault_text());
    cr_assert(!w.alive || !w.alive(NULL), "%u objects are left", w.alive(NULL));
}
TestSuite(cuda_driver, .init = start, .fini = end);

/* ---- Kernels and memory ---- */

/** out[i] = scale * in[i] + offset, for u32. `salt` makes the program another one. */
static jitc_kernel *make_kernel(uint32_t salt) {
    jitc_program p = {0};
    uint64_t params[8];
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    uint32_t x = add_data(&p, JIT_u32, NULL, params);
    uint32_t scale = add_literal(&p, JIT_u32, 0, params);
    uint32_t offset = add_literal(&p, JIT_u32, 0, params);
    uint32_t y =
        add(&p, JITC_OP_add, JIT_u32, add(&p, JITC_OP_mul, JIT_u32, scale, x, 0), offset, 0);
    y = add(&p, JITC_OP_xor, JIT_u32, y, add_baked(&p, JIT_u32, salt), 0);
    add_store(&p, JIT_u32, y, NULL, params);
    ASSERT_OK(b->lower(b, 0, &p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    ASSERT_OK(b->load(b, 0, &p, &code, &k));
    free(code.data);
    b->source_destroy(b, source);
    jitc_program_finish(&p);
    return k;
}

/* The holder of s->lock in all of the following is the test. */
static void note(jitc_stream *s, uint64_t number) {
    jitc_store_release(&s->queued, number);
}

static jit_status try_launch(jitc_stream *s, jitc_kernel *k, void *out, const void *in,
                             uint32_t scale, uint32_t offset, uint64_t *number) {
    const uint64_t params[] = {(uintptr_t) in, scale, offset, (uintptr_t) out};
    jitc_launch_args a = {.lanes = N, .params = params, .count = 4};
    return b->launch(s, k, &a, number);
}

static uint64_t launch(jitc_stream *s, jitc_kernel *k, void *out, const void *in, uint32_t scale,
                       uint32_t offset) {
    uint64_t number;
    ASSERT_OK(try_launch(s, k, out, in, scale, offset, &number));
    note(s, number);
    return number;
}

static void *alloc(size_t bytes) {
    void *p;
    ASSERT_OK(b->alloc(b, 0, (bytes + 511) / 512 * 512, &p));
    return p;
}

static void release(void *p) {
    b->free(b, 0, p, 0);
}

static uint64_t upload(jitc_stream *s, void *to, const void *from, size_t bytes) {
    uint64_t number;
    ASSERT_OK(b->upload(s, to, from, bytes, &number));
    note(s, number);
    return number;
}

/** 0, 1, 2, ... */
static void *make_ramp(jitc_stream *s) {
    uint32_t ramp[N];
    for (uint32_t i = 0; i < N; ++i)
        ramp[i] = i;
    void *p = alloc(sizeof ramp);
    upload(s, p, ramp, sizeof ramp);
    return p;
}

static void expect(jitc_stream *s, const void *p, uint32_t scale, uint32_t offset) {
    uint32_t got[N];
    ASSERT_OK(b->download(s, got, p, sizeof got));
    for (uint32_t i = 0; i < N; ++i)
        cr_assert_eq(got[i], scale * i + offset, "element %u: %u, not %u", i, got[i],
                     scale * i + offset);
}

/** Kernels take so long that what ought to wait for them is caught. */
static void be_slow(unsigned us) {
    if (w.kernel_time_us)
        w.kernel_time_us(us);
}

static uint64_t calls(const char *name) {
    return w.calls ? w.calls(name) : 0;
}

/* ---- Numbers ---- */

Test(cuda_driver, numbers_go_up_by_one_and_are_done_in_order) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(4 * N);
    uint64_t first = jitc_load_relaxed(&s->queued);
    be_slow(20000);
    for (uint64_t i = 1; i <= 3; ++i)
        cr_assert_eq(launch(s, k, y, x, 1, 0), first + i);
    cr_assert_not(b->done(s, first + 1), "it is held back");
    ASSERT_OK(b->flush(s));
    cr_assert(!w.kernel_time_us || !b->done(s, first + 3));
    ASSERT_OK(b->wait(s, first + 2));
    cr_assert(b->done(s, first) && b->done(s, first + 1) && b->done(s, first + 2));
    ASSERT_OK(b->wait(s, first + 3));
    cr_assert(b->done(s, first + 3));
    b->kernel_destroy(b, k);
    release(x), release(y);
}

Test(cuda_driver, an_idle_stream_asks_the_driver_nothing) {
    jitc_stream *s = stream[0];
    uint64_t n;
    void *x = make_ramp(s);
    n = jitc_load_relaxed(&s->queued);
    ASSERT_OK(b->wait(s, n));
    uint64_t before = calls(NULL);
    for (int i = 0; i < 100; ++i)
        cr_assert(b->done(s, n) && b->done(s, 0));
    ASSERT_OK(b->wait(s, n));
    cr_assert_eq(calls(NULL), before);
    release(x);
}

Test(cuda_driver, done_comes_true_without_a_wait) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s);
    be_slow(2000);
    uint64_t n = launch(s, k, x, x, 1, 0);
    ASSERT_OK(b->flush(s));
    while (!b->done(s, n))
        sched_yield();
    expect(s, x, 1, 0);
    b->kernel_destroy(b, k);
    release(x);
}

/* ---- Kernels that are held back ---- */

Test(cuda_driver, what_depends_on_kernels_hands_them_over) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    uint32_t fives[N];
    uint64_t number;
    void *x = make_ramp(s), *y = alloc(4 * N), *z = alloc(4 * N);
    launch(s, k, y, x, 2, 1);
    expect(s, y, 2, 1); /* a download */
    launch(s, k, y, x, 3, 1);
    ASSERT_OK(b->copy(s, z, y, 4 * N, &number));
    note(s, number);
    launch(s, k, y, x, 4, 1); /* the copy was before */
    expect(s, z, 3, 1);
    for (int i = 0; i < N; ++i)
        fives[i] = 5;
    launch(s, k, y, x, 5, 0);
    upload(s, x, fives, sizeof fives); /* the kernel was before */
    expect(s, y, 5, 0);
    ASSERT_OK(b->wait(s, launch(s, k, y, x, 6, 0)));
    expect(s, y, 0, 30);
    b->kernel_destroy(b, k);
    release(x), release(y), release(z);
}

Test(cuda_driver, very_many_kernels_are_handed_over_in_between) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s);
    for (int i = 0; i < 3000; ++i)
        launch(s, k, x, x, 1, 1);
    expect(s, x, 1, 3000);
    b->kernel_destroy(b, k);
    release(x);
}

/* ---- Order between streams ---- */

Test(cuda_driver, a_stream_waits_for_another_on_the_device) {
    jitc_stream *s = stream[0], *t = stream[1];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(4 * N), *z = alloc(4 * N);
    ASSERT_OK(b->wait(s, jitc_load_relaxed(&s->queued)));
    be_slow(5000);
    for (uint32_t round = 1; round < 8; ++round) {
        uint64_t n = launch(s, k, y, x, round, 1); /* held back */
        ASSERT_OK(b->stream_wait(t, s, n));
        n = launch(t, k, z, y, 1, 1);
        ASSERT_OK(b->stream_wait(s, t, n)); /* before y is written anew */
        ASSERT_OK(b->stream_wait(s, s, n)); /* itself: nothing */
        expect(t, z, round, 2);
    }
    b->kernel_destroy(b, k);
    release(x), release(y), release(z);
}

/* A stream that waits may hold kernels back, which the other one waits for in its turn. */
Test(cuda_driver, streams_that_wait_for_each_other_in_turn_do_not_hang) {
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(stream[0]);
    be_slow(200);
    for (int i = 1; i <= 300; ++i) {
        jitc_stream *s = stream[i % STREAMS], *before = stream[(i - 1) % STREAMS];
        ASSERT_OK(b->stream_wait(s, before, jitc_load_relaxed(&before->queued)));
        launch(s, k, x, x, 1, 1);
    }
    expect(stream[300 % STREAMS], x, 1, 300);
    b->kernel_destroy(b, k);
    release(x);
}

/* What was queued behind number n is not waited for, as it may take long: there is an event behind
 * each flush, and none has to be recorded later. */
Test(cuda_driver, a_wait_for_a_number_is_not_one_for_what_follows) {
    jitc_stream *s = stream[0], *t = stream[1];
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y = alloc(4 * N), *z = alloc(4 * N);
    be_slow(5000);
    uint64_t n = launch(s, k, y, x, 2, 0);
    ASSERT_OK(b->flush(s));
    launch(s, k, z, x, 3, 0);
    ASSERT_OK(b->flush(s));
    uint64_t recorded = calls("cuEventRecord"), waits = calls("cuStreamWaitEvent");
    ASSERT_OK(b->stream_wait(t, s, n));
    cr_assert_eq(calls("cuEventRecord"), recorded);
    cr_assert_eq(calls("cuStreamWaitEvent"), waits + 1);
    expect(t, y, 2, 0);
    ASSERT_OK(b->wait(s, n));
    ASSERT_OK(b->stream_wait(t, s, n)); /* over: nothing to wait for */
    cr_assert_eq(calls("cuStreamWaitEvent"), waits + 1);
    expect(s, z, 3, 0);
    b->kernel_destroy(b, k);
    release(x), release(y), release(z);
}

/* ---- Copies ---- */

static uint8_t pattern(size_t i, unsigned seed) {
    return (uint8_t) ((i * 2654435761u >> 13) + seed);
}

Test(cuda_driver, copies_of_all_sizes) {
    static const size_t sizes[] = {1,     2,      255,    256,    257,     65535,      65536,
                                   65537, 524287, 524288, 524289, 1048577, 4194304 + 3};
    jitc_stream *s = stream[0];
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
        size_t n = sizes[k];
        uint8_t *data = malloc(n), *got = calloc(1, n);
        void *x = alloc(n);
        for (size_t i = 0; i < n; ++i)
            data[i] = pattern(i, (unsigned) k);
        upload(s, x, data, n);
        memset(data, 0, n); /* the source may change */
        ASSERT_OK(b->download(s, got, x, n));
        for (size_t i = 0; i < n; ++i)
            cr_assert_eq(got[i], pattern(i, (unsigned) k), "byte %zu of %zu", i, n);
        release(x);
        free(data), free(got);
    }
}

/* The staging memory is used up and used again while kernels run. */
Test(cuda_driver, many_uploads_behind_a_slow_kernel) {
    enum { COUNT = 40, BYTES = 100000 };
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s), *y[COUNT];
    uint8_t *data = malloc(BYTES), *got = malloc(BYTES);
    be_slow(1000);
    for (unsigned j = 0; j < COUNT; ++j) {
        y[j] = alloc(BYTES);
        launch(s, k, x, x, 1, 1);
        for (size_t i = 0; i < BYTES; ++i)
            data[i] = pattern(i, j);
        upload(s, y[j], data, BYTES);
    }
    for (unsigned j = 0; j < COUNT; ++j) {
        ASSERT_OK(b->download(s, got, y[j], BYTES));
        for (size_t i = 0; i < BYTES; ++i)
            cr_assert_eq(got[i], pattern(i, j), "byte %zu of upload %u", i, j);
        release(y[j]);
    }
    expect(s, x, 1, COUNT);
    b->kernel_destroy(b, k);
    release(x);
    free(data), free(got);
}

/* ---- Calls ---- */

typedef struct called {
    atomic_int *count;
    int before; /* of the calls of this stream, that have been made */
    pthread_t caller;
    jitc_stream *stream;
    bool done_before; /* what b->done() said when it was called */
    uint64_t after;   /* number of the work before */
} called;

static void be_called(void *context) {
    called *c = context;
    c->caller = pthread_self();
    c->done_before = b->done(c->stream, c->after);
    c->before = jitc_add_acq_rel(c->count, 1);
}

Test(cuda_driver, calls_come_after_the_work_before_and_in_order) {
    enum { COUNT = 20 };
    static called c[STREAMS][COUNT];
    static atomic_int count[STREAMS];
    uint64_t number = 0;
    jitc_kernel *k = make_kernel(0);
    void *x[STREAMS];
    for (int t = 0; t < STREAMS; ++t)
        x[t] = make_ramp(stream[t]);
    be_slow(300);
    for (int i = 0; i < COUNT; ++i)
        for (int t = 0; t < STREAMS; ++t) {
            jitc_stream *s = stream[t];
            uint64_t n = launch(s, k, x[t], x[t], 1, 1);
            c[t][i] = (called) {.count = &count[t], .stream = s, .after = n};
            ASSERT_OK(b->call(s, be_called, &c[t][i], &number));
            cr_assert_eq(number, n + 1);
            note(s, number);
        }
    for (int t = 0; t < STREAMS; ++t) {
        ASSERT_OK(b->wait(stream[t], jitc_load_relaxed(&stream[t]->queued)));
        cr_assert_eq(count[t], COUNT, "a wait for a call is over when it has been made");
        for (int i = 0; i < COUNT; ++i) {
            cr_assert(c[t][i].done_before && c[t][i].before == i);
            cr_assert_not(pthread_equal(c[t][i].caller, pthread_self()));
        }
        expect(stream[t], x[t], 1, COUNT);
        release(x[t]);
    }
    b->kernel_destroy(b, k);
}

static void wait_for_gate(void *context) {
    atomic_bool *gate = context;
    while (!jitc_load_acquire(gate)) /* pairs with the test */
        sched_yield();
}

Test(cuda_driver, a_call_is_not_done_before_its_function_returns) {
    atomic_bool gate = false;
    uint64_t number;
    jitc_stream *s = stream[0];
    void *x = make_ramp(s);
    uint64_t before = jitc_load_relaxed(&s->queued);
    ASSERT_OK(b->call(s, wait_for_gate, &gate, &number));
    note(s, number);
    expect(s, x, 1, 0); /* the device goes on */
    cr_assert(b->done(s, before));
    cr_assert_not(b->done(s, number));
    jitc_store_release(&gate, true); /* pairs with wait_for_gate */
    ASSERT_OK(b->wait(s, number));
    cr_assert(b->done(s, number));
    release(x);
}

/* ---- Graphs ---- */

static void run_chain(jitc_stream *s, jitc_kernel *const k[2], void *x, unsigned length,
                      uint32_t step) {
    for (unsigned i = 0; i < length; ++i)
        launch(s, k[i % 2], x, x, 1, step);
    ASSERT_OK(b->flush(s));
}

Test(cuda_driver, chains_of_kernels_of_all_lengths) {
    jitc_stream *s = stream[0];
    jitc_kernel *const k[] = {make_kernel(0), make_kernel(0)};
    void *x = make_ramp(s);
    uint32_t sum = 0;
    for (unsigned round = 0; round < 3; ++round)
        for (unsigned length = 1; length < 140; length += 1 + length / 8) {
            run_chain(s, k, x, length, round + length);
            sum += length * (round + length);
        }
    expect(s, x, 1, sum);
    cr_assert(!w.calls || calls("cuGraphLaunch") > 0);
    b->kernel_destroy(b, k[0]), b->kernel_destroy(b, k[1]);
    release(x);
}

Test(cuda_driver, a_graph_is_made_for_a_length_that_comes_again) {
    jitc_stream *s = stream[0];
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *const k[] = {make_kernel(0), make_kernel(0)};
    void *x = make_ramp(s);
    run_chain(s, k, x, 5, 1);
    cr_assert_eq(calls("cuGraphInstantiateWithFlags"), 0);
    for (int i = 0; i < 10; ++i)
        run_chain(s, k, x, 5, 1);
    cr_assert_eq(calls("cuGraphInstantiateWithFlags"), 1);
    cr_assert_eq(calls("cuGraphLaunch"), 10);
    cr_assert_eq(calls("cuLaunchKernel"), 5);
    expect(s, x, 1, 55);
    b->kernel_destroy(b, k[0]), b->kernel_destroy(b, k[1]);
    release(x);
}

static atomic_int warnings;

static void count_warnings(void *context, int level, const char *text) {
    (void) context, (void) level;
    cr_assert(strstr(text, "graphs do not work"), "%s", text);
    jitc_add_acq_rel(&warnings, 1);
}

/* Each function of graphs fails once, some of them in the middle of a chain. */
Test(cuda_driver, without_graphs_kernels_go_one_by_one) {
    static const struct {
        const char *function;
        int call;
    } failures[] = {{"cuGraphCreate", 1},
                    {"cuGraphAddKernelNode_v2", 3},
                    {"cuGraphInstantiateWithFlags", 1},
                    {"cuGraphExecKernelNodeSetParams_v2", 3},
                    {"cuGraphLaunch", 1}};
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    jit_set_log(count_warnings, NULL, 1);
    jitc_kernel *const k[] = {make_kernel(0), make_kernel(0)};
    for (int f = 0; f < (int) (sizeof failures / sizeof *failures); ++f) {
        jitc_stream *s = create_stream();
        void *x = make_ramp(s);
        for (int i = 0; i < 6; ++i) {
            if (i == 2)
                w.fail(failures[f].function, failures[f].call, CUDA_ERROR_NOT_SUPPORTED);
            run_chain(s, k, x, i < 4 ? 7 : 4, 1);
        }
        w.fail(NULL, 0, 0);
        expect(s, x, 1, 4 * 7 + 2 * 4);
        cr_assert_eq(warnings, f + 1, "%s", failures[f].function);
        jitc_mutex_finish(&s->lock);
        b->stream_destroy(s);
        release(x);
    }
    jit_set_log(NULL, NULL, 1);
    b->kernel_destroy(b, k[0]), b->kernel_destroy(b, k[1]);
}

/* ---- Modules ---- */

Test(cuda_driver, code_is_unloaded_when_the_device_is_idle) {
    jitc_stream *s = stream[0], *t = stream[1];
    if (!w.calls)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0), *other = make_kernel(1);
    void *x = make_ramp(s), *y = make_ramp(t);
    cr_assert_eq(calls("cuModuleLoadDataEx"), 2);
    ASSERT_OK(b->wait(s, launch(s, k, x, x, 2, 0)));
    b->kernel_destroy(b, k);
    uint64_t n = launch(t, other, y, y, 1, 1); /* held back */
    ASSERT_OK(b->wait(s, launch(s, other, x, x, 1, 1)));
    cr_assert_eq(calls("cuModuleUnload"), 0, "the other stream has work");
    ASSERT_OK(b->flush(t));
    while (!b->done(t, n))
        sched_yield();
    cr_assert_eq(calls("cuModuleUnload"), 0, "done() never waits");
    ASSERT_OK(b->wait(t, n));
    cr_assert_eq(calls("cuModuleUnload"), 1);
    b->kernel_destroy(b, other);
    release(x), release(y);
}

Test(cuda_driver, a_kernel_can_be_given_other_code) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    jitc_program p = {0};
    uint64_t params[8];
    jitc_source *source;
    jitc_blob code;
    void *x = make_ramp(s), *y = alloc(4 * N);
    add_store(&p, JIT_u32, add_data(&p, JIT_u32, NULL, params), NULL, params);
    p.head.params = 4; /* as many as the kernel's */
    p.inst[1].b = 3;
    ASSERT_OK(b->lower(b, 0, &p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    launch(s, k, y, x, 7, 7);
    ASSERT_OK(b->reload(b, k, &code));
    expect(s, y, 7, 7); /* the launch was before */
    launch(s, k, y, x, 7, 7);
    expect(s, y, 1, 0);
    b->kernel_destroy(b, k);
    b->source_destroy(b, source);
    free(code.data);
    jitc_program_finish(&p);
    release(x), release(y);
}

/* An evaluation may come down to nothing. */
Test(cuda_driver, a_kernel_without_parameters_runs) {
    jitc_program p = {0};
    jitc_source *source;
    jitc_blob code;
    jitc_kernel *k;
    uint64_t number;
    jitc_launch_args a = {.lanes = N};
    ASSERT_OK(b->lower(b, 0, &p, &source));
    ASSERT_OK(b->compile(b, source, 2, &code));
    ASSERT_OK(b->load(b, 0, &p, &code, &k));
    ASSERT_OK(b->launch(stream[0], k, &a, &number));
    ASSERT_OK(b->wait(stream[0], number));
    free(code.data);
    b->source_destroy(b, source);
    b->kernel_destroy(b, k);
}

Test(cuda_driver, code_that_is_none_is_refused) {
    static char zeros[100], text[] = "this is no code";
    const jitc_blob blobs[] = {{NULL, 0}, {zeros, sizeof zeros}, {text, sizeof text - 1}};
    jitc_program p = {0};
    jitc_kernel *k;
    for (size_t i = 0; i < sizeof blobs / sizeof *blobs; ++i) {
        cr_assert_eq(b->load(b, 0, &p, &blobs[i], &k), JIT_COMPILE_FAILED, "%s", jit_error());
        cr_assert(strstr(jit_error(), "cuModuleLoadData"), "%s", jit_error());
        jit_error_clear();
    }
}

/* ---- Failure ---- */

static void expect_error(jit_status status, const char *named) {
    cr_assert_eq(status, JIT_DEVICE_FAILED, "%s", jit_status_name(status));
    cr_assert(strstr(jit_error(), named), "\"%s\" is not in \"%s\"", named, jit_error());
    jit_error_clear();
}

static void be_counted(void *context) {
    jitc_add_acq_rel((atomic_int *) context, 1);
}

Test(cuda_driver, a_launch_that_fails_fails_the_device) {
    jitc_stream *s = stream[0], *t = stream[1];
    uint32_t got[N];
    uint64_t number;
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    atomic_int count = 0;
    void *x = make_ramp(s), *y;
    be_slow(20000);
    launch(s, k, x, x, 1, 1);
    ASSERT_OK(b->call(s, be_counted, &count, &number));
    note(s, number);
    uint64_t n = launch(s, k, x, x, 1, 1);
    w.fail("cuLaunchKernel", 1, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    expect_error(b->flush(s), "over 1000 lanes");
    expect_error(b->wait(s, n), "cuLaunchKernel: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    cr_assert_eq(count, 1, "what was called for before is called");
    expect_error(b->download(s, got, x, sizeof got), "cuLaunchKernel");
    expect_error(b->stream_wait(t, s, n), "cuLaunchKernel");
    expect_error(try_launch(t, k, x, x, 1, 1, &number), "cuLaunchKernel");
    expect_error(b->upload(t, x, got, sizeof got, &number), "cuLaunchKernel");
    expect_error(b->alloc(b, 0, 512, &y), "cuLaunchKernel");
    cr_assert(b->done(s, n));
    b->kernel_destroy(b, k);
    release(x);
}

/* Failures that are not of work: only the call fails. */
Test(cuda_driver, calls_that_fail_leave_the_device_alone) {
    static const char *const functions[] = {
        "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuEventRecord",       "cuEventCreate",
        "cuEventSynchronize",   "cuEventQuery",         "cuCtxPushCurrent_v2", "cuMemHostAlloc"};
    if (!w.fail)
        cr_skip_test("this wants the simulated driver");
    jitc_kernel *k = make_kernel(0);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; ++f) {
        jitc_stream *s = create_stream();
        void *x = make_ramp(s), *y = alloc(4 * N);
        uint32_t got[N];
        be_slow(1000);
        uint64_t n = launch(s, k, y, x, 2, 3);
        w.fail(functions[f], 1, CUDA_ERROR_UNKNOWN);
        bool done = b->done(s, n);
        jit_status status = b->download(s, got, y, sizeof got);
        cr_assert(status == JIT_OK || strncmp(functions[f], "cuMemcpy", 8) == 0 ||
                      strncmp(functions[f], "cuCtx", 5) == 0,
                  "%s: %s", functions[f], jit_error());
        jit_error_clear();
        cr_assert_not(done);
        w.fail(NULL, 0, 0);
        expect(s, y, 2, 3);
        jitc_mutex_finish(&s->lock);
        b->stream_destroy(s);
        release(x), release(y);
    }
    b->kernel_destroy(b, k);
}

Test(cuda_driver, a_context_that_is_reset_is_said_to_be_gone) {
    jitc_stream *s = stream[0];
    jitc_kernel *k = make_kernel(0);
    atomic_int count = 0;
    uint64_t number, n;
    void *x = make_ramp(s), *y;
    n = launch(s, k, x, x, 1, 1);
    ASSERT_OK(b->call(s, be_counted, &count, &number));
    note(s, number);
    cr_assert_eq(w.CtxReset(0), CUDA_SUCCESS);
    uint64_t later;
    if (try_launch(s, k, x, x, 1, 1, &later) == JIT_OK) /* it may only be held back */
        note(s, later);
    jit_error_clear();
    expect_error(b->flush(s), "context");
    expect_error(b->wait(s, number), "context");
    cr_assert_eq(count, 1);
    cr_assert(b->done(s, n));
    expect_error(b->alloc(b, 0, 512, &y), "context");
    b->kernel_destroy(b, k);
    release(x);
}

/* ---- Threads ---- */

typedef struct watcher {
    pthread_t thread;
    atomic_bool *stop;
    jitc_stream *stream;
    unsigned looks;
} watcher;

/* Anybody may ask, wait and flush while the owner queues. */
static void *watch(void *context) {
    watcher *t = context;
    while (!jitc_load_acquire(t->stop)) {                   /* pairs with the test */
        uint64_t n = jitc_load_acquire(&t->stream->queued); /* pairs with note */
        if (t->looks % 3 == 0)
            ASSERT_OK(b->wait(t->stream, n));
        else if (t->looks % 3 == 1)
            ASSERT_OK(b->flush(t->stream));
        if (b->done(t->stream, n))
            cr_assert(b->done(t->stream, n / 2));
        ++t->looks;
    }
    return NULL;
}

Test(cuda_driver, others_look_while_a_stream_is_used, .timeout = 120) {
    enum { WATCHERS = 2, ROUNDS = 300 };
    jitc_stream *s = stream[0], *t = stream[1];
    watcher watchers[WATCHERS];
    atomic_bool stop = false;
    atomic_int count = 0;
    uint64_t number;
    jitc_kernel *k = make_kernel(0);
    void *x = make_ramp(s);
    for (int i = 0; i < WATCHERS; ++i) {
        watchers[i] = (watcher) {.stop = &stop, .stream = i % 2 ? t : s};
        cr_assert_eq(pthread_create(&watchers[i].thread, NULL, watch, &watchers[i]), 0);
    }
    for (int i = 0; i < ROUNDS; ++i) {
        for (int j = 0; j < i % 5; ++j)
            launch(s, k, x, x, 1, 1);
        ASSERT_OK(b->stream_wait(t, s, jitc_load_relaxed(&s->queued)));
        launch(t, k, x, x, 1, 1);
        ASSERT_OK(b->call(t, be_counted, &count, &number));
        note(t, number);
        ASSERT_OK(b->stream_wait(s, t, number));
    }
    expect(s, x, 1, ROUNDS + ROUNDS / 5 * 10);
    jitc_store_release(&stop, true); /* pairs with watch */
    for (int i = 0; i < WATCHERS; ++i)
        pthread_join(watchers[i].thread, NULL);
    ASSERT_OK(b->wait(t, number));
    cr_assert_eq(count, ROUNDS);
    b->kernel_destroy(b, k);
    release(x);
}
