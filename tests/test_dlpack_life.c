/* test_dlpack_life.c: who holds a tensor holds its memory, until its deleter is called: once, from
 * any thread, whatever becomes of the variable, the thread and the runtime. Names in comments are
 * those of public reports of what went wrong elsewhere. */
#include "api/runtime.h"
#include "dlpack_world.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(dlpack_life, .init = support_init, .fini = support_shutdown, .timeout = 120);

enum { SIZE = 1000 };

static void expect_elements(const tensor *t, size_t n, uint32_t first) {
    uint64_t *bits = dlpack_read(t, n);
    for (size_t i = 0; i < n; ++i)
        cr_assert_eq(bits[i], first + i, "element %zu is %llu", i, (unsigned long long) bits[i]);
    free(bits);
}

static size_t live(void) {
    ASSERT_OK(jit_sync_all_devices());
    return dlpack_stats().bytes_live;
}

static jit_var plus(jit_var v, uint32_t k) {
    jit_var literal = jit_u32(B, k), sum = jit_add(v, literal);
    jit_unref(literal);
    ASSERT_VAR(sum);
    return sum;
}

static void in_thread(void *(*function)(void *), void *context) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, function, context), 0);
    pthread_join(thread, NULL);
}

/* ---- Memory ---- */

Test(dlpack_life, two_tensors_of_a_variable_have_two_deleters) {
    size_t before = live();
    jit_var v = dlpack_ramp(SIZE, 0);
    size_t one_block = live() - before;
    tensor a = dlpack_export(v, false, NULL), b = dlpack_export(v, true, NULL);
    cr_assert_eq(dlpack_tensor(&a)->data, dlpack_tensor(&b)->data);
    cr_assert_neq((void *) a.versioned, (void *) b.legacy);
    jit_unref(v);
    cr_assert_eq(live(), before + one_block);
    dlpack_delete(&a);
    cr_assert_eq(live(), before + one_block);
    expect_elements(&b, SIZE, 0);
    dlpack_delete(&b);
    cr_assert_eq(live(), before);
}

Test(dlpack_life, memory_that_a_tensor_holds_is_not_used_again) {
    jit_var v = dlpack_ramp(SIZE, 0);
    tensor t = dlpack_export(v, false, NULL);
    void *held = dlpack_tensor(&t)->data, *other;
    jit_unref(v);
    for (uint32_t i = 1; i < 20; ++i) {
        jit_var w = dlpack_ramp(SIZE, i);
        ASSERT_OK(jit_data(w, &other));
        cr_assert_neq(other, held);
        jit_unref(w);
    }
    expect_elements(&t, SIZE, 0);
    dlpack_delete(&t);
}

/* dlpack#39, mxnet#15016: the deleter frees the struct as well, and all that hangs on it; the
 * address and leak sanitizers look on. */
Test(dlpack_life, ten_thousand_tensors_leave_nothing) {
    jit_var v = dlpack_ramp(SIZE, 0), literal = jit_u32(B, 3);
    for (int i = 0; i < 100; ++i) { /* what is kept for reuse */
        tensor t = dlpack_export(literal, false, NULL);
        dlpack_delete(&t);
    }
    jit_stats before = dlpack_stats();
    for (int i = 0; i < 10000; ++i) {
        static const int64_t shape[] = {10, 100};
        tensor t = dlpack_export(i % 8 ? v : literal, i & 1,
                                 i % 8 ? EXPORT_WITH(.ndim = 2, .shape = shape) : NULL);
        dlpack_delete(&t);
    }
    jit_stats after = dlpack_stats();
    cr_assert_eq(after.variables, before.variables);
    cr_assert_eq(after.bytes_live, before.bytes_live);
    cr_assert_leq(after.bytes_live + after.bytes_cached,
                  before.bytes_live + before.bytes_cached + 65536);
    jit_unref(v), jit_unref(literal);
}

/* In a thread of its own, as the leak checker is told to overlook what is called by Criterion. */
static void *export_every_kind(void *context) {
    static const int64_t shape[] = {10, 100};
    jit_var x = dlpack_ramp(SIZE, 0), v[] = {jit_ref(x), plus(x, 1), jit_counter(B, SIZE)};
    const jit_export_options *o[] = {
        NULL,
        EXPORT_WITH(.copy = JIT_COPY_ALWAYS),
        EXPORT_WITH(.device_type = kDLCPU),
        EXPORT_WITH(.ndim = 2, .shape = shape, .read_only = true),
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; ++i) {
        for (size_t k = 0; k < sizeof o / sizeof *o; ++k)
            for (int legacy = 0; legacy < 2; ++legacy) {
                tensor t = dlpack_export(v[i], legacy, o[k]);
                dlpack_delete(&t);
            }
        jit_unref(v[i]);
    }
    jit_unref(x);
    return context;
}

Test(dlpack_life, the_leak_checker_finds_nothing) {
    size_t before = live();
    in_thread(export_every_kind, NULL);
    cr_assert_eq(live(), before);
}

/* MLX and nanobind put strides of their own there, and NULL before the deleter. */
Test(dlpack_life, what_a_consumer_writes_into_the_struct_does_not_matter) {
    static int64_t others[] = {1, 2, 3};
    size_t before = live();
    jit_var v = dlpack_ramp(SIZE, 0);
    for (int legacy = 0; legacy < 2; ++legacy)
        for (int null = 0; null < 2; ++null) {
            tensor t = dlpack_export(v, legacy, NULL);
            DLTensor *d = dlpack_tensor(&t);
            memset(d->shape, 0xff, sizeof *d->shape);
            memset(d->strides, 0xff, sizeof *d->strides);
            *d = (DLTensor) {.data = null ? NULL : others,
                             .ndim = 100000,
                             .shape = null ? NULL : others,
                             .strides = null ? NULL : others,
                             .byte_offset = 1};
            if (t.versioned) {
                t.versioned->flags = ~(uint64_t) 0;
                t.versioned->version = (DLPackVersion) {9, 9};
            }
            dlpack_delete(&t);
        }
    jit_unref(v);
    cr_assert_eq(live(), before);
}

/* ---- Threads ---- */

static void *delete_it(void *t) {
    dlpack_delete(t);
    return NULL;
}

/* dlpack#103, #129, numpy#22507, pytorch#88082: any thread may be the one. */
Test(dlpack_life, the_deleter_may_be_called_by_a_thread_that_knows_nothing_of_us) {
    size_t before = live();
    for (int legacy = 0; legacy < 2; ++legacy) {
        jit_var v = dlpack_ramp(SIZE, 0), w = plus(v, 1);
        tensor t = dlpack_export(v, legacy, NULL), u = dlpack_export(w, legacy, NULL);
        jit_unref(v), jit_unref(w);
        in_thread(delete_it, &t);
        in_thread(delete_it, &u);
    }
    cr_assert_eq(live(), before);
}

static void *export_it(void *out) {
    jit_var v = dlpack_ramp(SIZE, 4);
    *(tensor *) out = dlpack_export(v, false, NULL);
    jit_unref(v);
    return NULL;
}

Test(dlpack_life, a_tensor_outlives_the_thread_that_made_it) {
    size_t before = live();
    tensor t;
    in_thread(export_it, &t);
    expect_elements(&t, SIZE, 4);
    dlpack_delete(&t);
    cr_assert_eq(live(), before);
}

static void delete_in_callback(void *t) {
    dlpack_delete(t);
}

/* In a function that the library calls, on a GPU behind one of the driver's. */
Test(dlpack_life, the_deleter_may_be_called_in_a_callback) {
    size_t before = live();
    jit_var v = dlpack_ramp(SIZE, 0);
    tensor t = dlpack_export(v, false, NULL);
    jit_unref(v);
    ASSERT_OK(jit_call(B, delete_in_callback, &t));
    ASSERT_OK(jit_sync_thread());
    cr_assert_eq(live(), before);
}

typedef struct meeting {
    pthread_barrier_t barrier;
    jit_var v; /* not evaluated */
} meeting;

static void *evaluate_it(void *context) {
    meeting *m = context;
    pthread_barrier_wait(&m->barrier);
    ASSERT_OK(jit_var_eval(m->v));
    return NULL;
}

static void *export_and_delete(void *context) {
    meeting *m = context;
    pthread_barrier_wait(&m->barrier);
    tensor t = dlpack_export(m->v, false, NULL);
    expect_elements(&t, SIZE, 2);
    dlpack_delete(&t);
    return NULL;
}

Test(dlpack_life, one_thread_exports_what_others_evaluate) {
    enum { THREADS = 4, ROUNDS = 30 };
    pthread_t thread[THREADS];
    meeting m;
    size_t before = live();
    jit_var v = dlpack_ramp(SIZE, 0);
    for (int round = 0; round < ROUNDS; ++round) {
        jit_var w = plus(v, 1);
        m.v = plus(w, 1);
        jit_unref(w);
        pthread_barrier_init(&m.barrier, NULL, THREADS);
        for (int i = 0; i < THREADS; ++i)
            cr_assert_eq(
                pthread_create(&thread[i], NULL, i % 2 ? evaluate_it : export_and_delete, &m), 0);
        for (int i = 0; i < THREADS; ++i)
            pthread_join(thread[i], NULL);
        pthread_barrier_destroy(&m.barrier);
        jit_unref(m.v);
    }
    jit_unref(v);
    cr_assert_eq(live(), before);
}

/* Evaluates z, and stops between planning it and launching it. */
typedef struct planner {
    jitc_thread_state *state;
    jit_var z;
    atomic_bool begun, go;
} planner;

static void *evaluate_slowly(void *context) {
    planner *p = context;
    jitc_thread *t;
    ASSERT_OK(jitc_api_thread(&t));
    ASSERT_OK(jitc_api_state(t, B, 0, &p->state));
    atomic_store(&p->begun, true);
    while (!atomic_load(&p->go))
        usleep(20);
    ASSERT_OK(jit_var_eval(p->z));
    return NULL;
}

static bool is_planned(jit_var v) {
    jitc_graph *g = jitc_api_graph("is_planned");
    jitc_graph_lock(g);
    bool claimed = jitc_node_at(g, v & JITC_INDEX_MASK)->flags & JITC_NODE_CLAIMED;
    jitc_graph_unlock(g);
    return claimed;
}

/* z = (v + 1) * (v + 1) is planned as one kernel that reads v; then v + 1 is evaluated, so that no
 * expression uses v any more. */
Test(dlpack_life, an_array_that_a_planned_kernel_will_read_is_read_only) {
    pthread_t thread;
    planner p = {0};
    jit_var v = dlpack_ramp(SIZE, 0), y = plus(v, 1);
    p.z = jit_mul(y, y);
    cr_assert_eq(pthread_create(&thread, NULL, evaluate_slowly, &p), 0);
    while (!atomic_load(&p.begun))
        usleep(20);
    jitc_mutex_lock(&p.state->stream->lock);
    atomic_store(&p.go, true);
    while (!is_planned(p.z))
        usleep(20);
    ASSERT_OK(jit_var_eval(y));
    tensor t = dlpack_export(v, false, NULL);
    uint64_t flags = dlpack_flags(&t);
    jitc_mutex_unlock(&p.state->stream->lock);
    pthread_join(thread, NULL);
    cr_assert_eq(flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    tensor u = dlpack_export(v, false, NULL); /* with the other one still there */
    cr_assert_eq(dlpack_flags(&u), 0);
    dlpack_delete(&t);
    dlpack_delete(&u);
    jit_unref(v), jit_unref(y), jit_unref(p.z);
}

static void *export_often(void *context) {
    jit_var *v = context;
    for (int i = 0; i < 200; ++i) {
        tensor t = dlpack_export(v[i % 3], i & 1, EXPORT_WITH(.copy = i % 2)), u;
        u = dlpack_export(v[i % 3], false, NULL);
        dlpack_delete(&t);
        dlpack_delete(&u);
    }
    return NULL;
}

Test(dlpack_life, several_threads_export_and_delete_at_once) {
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    jit_var v[] = {dlpack_ramp(SIZE, 0), jit_counter(B, SIZE), jit_u32(B, 1)};
    size_t before = live();
    for (int i = 0; i < THREADS; ++i)
        cr_assert_eq(pthread_create(&thread[i], NULL, export_often, v), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(thread[i], NULL);
    cr_assert_eq(live(), before);
    for (int i = 0; i < 3; ++i)
        jit_unref(v[i]);
}

/* ---- Arrays that are shared with ourselves ---- */

static jit_var to_and_fro(jit_var v) {
    tensor t = dlpack_export(v, false, NULL);
    jit_var w;
    jit_unref(v);
    ASSERT_OK(jit_import_dlpack(t.versioned, NULL, &w));
    return w;
}

static void *give_up(void *v) {
    jit_unref(*(jit_var *) v);
    return NULL;
}

/* As in a loop of `x = from_dlpack(f(from_dlpack(x)))`, where f works in place. */
Test(dlpack_life, an_array_that_went_to_and_fro_often_ends_on_a_small_stack) {
    enum { TIMES = 5000, STACK = 256 << 10 };
    size_t before = live();
    jit_var v = dlpack_ramp(SIZE, 3);
    pthread_attr_t small;
    pthread_t thread;
    for (int i = 0; i < TIMES; ++i)
        v = to_and_fro(v);
    dlpack_expect(v, SIZE, 3, NULL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK);
    cr_assert_eq(pthread_create(&thread, &small, give_up, &v), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&small);
    cr_assert_eq(live(), before);
}

typedef struct ending {
    pthread_barrier_t both;
    tensor t;
} ending;

static void *end_tensor(void *context) {
    ending *m = context;
    pthread_barrier_wait(&m->both);
    dlpack_delete(&m->t);
    return NULL;
}

/* Memory that was imported ends with its last reference, which may be that of either. */
Test(dlpack_life, a_tensor_and_the_variable_of_imported_memory_end_at_once) {
    static uint32_t memory[SIZE];
    bool map = support_maps_host_memory(); /* no deleter, whose locks would bring order into it */
    for (int i = 0; i < 200; ++i) {
        ending m;
        pthread_t thread;
        jit_var v =
            map ? jit_map(B, JIT_u32, memory, SIZE, NULL, NULL) : to_and_fro(dlpack_ramp(SIZE, 0));
        m.t = dlpack_export(v, false, NULL);
        cr_assert_eq(pthread_barrier_init(&m.both, NULL, 2), 0);
        cr_assert_eq(pthread_create(&thread, NULL, end_tensor, &m), 0);
        pthread_barrier_wait(&m.both);
        jit_unref(v);
        pthread_join(thread, NULL);
        pthread_barrier_destroy(&m.both);
    }
}

/* ---- The runtime's end ---- */

static void check_shutdown(bool by_other_thread) {
    jit_var v = dlpack_ramp(SIZE, 0), w = plus(v, 1);
    tensor t[] = {dlpack_export(v, false, NULL), dlpack_export(v, true, NULL),
                  dlpack_export(w, false, NULL),
                  dlpack_export(v, false, EXPORT_WITH(.copy = JIT_COPY_ALWAYS)),
                  dlpack_export(v, false, EXPORT_WITH(.device_type = kDLCPU))};
    jit_unref(v);
    jit_shutdown();
    for (size_t i = 0; i < sizeof t / sizeof *t; ++i) {
        if (dlpack_tensor(&t[i])->device.device_type == kDLCPU)
            expect_elements(&t[i], SIZE, i == 2);
        if (by_other_thread)
            in_thread(delete_it, &t[i]);
        else
            dlpack_delete(&t[i]);
    }
}

/* pytorch#88082, CV-CUDA#298: tensors are given back after all else has ended. */
Test(dlpack_life, memory_stays_when_the_runtime_ends) {
    check_shutdown(false);
    support_init();
    check_shutdown(true);
    support_init();
}

Test(dlpack_life, a_tensor_of_one_life_ends_in_the_next) {
    jit_var v = dlpack_ramp(SIZE, 0);
    tensor t = dlpack_export(v, false, NULL);
    jit_unref(v);
    support_shutdown();
    support_init();
    size_t before = live();
    v = dlpack_ramp(SIZE, 1);
    tensor u = dlpack_export(v, false, NULL);
    if (B == JIT_LLVM)
        expect_elements(&t, SIZE, 0);
    dlpack_delete(&t);
    expect_elements(&u, SIZE, 1);
    dlpack_delete(&u);
    jit_unref(v);
    cr_assert_eq(live(), before);
}

/* ---- Chains ---- */

enum { CHAIN = 40, LARGE = 1 << 18 };

/* An array that went to and fro, and is given up. */
static void make_chain(uint32_t k) {
    jit_var counter = jit_counter(B, LARGE), v = plus(counter, k);
    for (int i = 0; i < CHAIN; ++i) {
        tensor t = dlpack_export(v, false, NULL);
        jit_unref(v);
        ASSERT_OK(jit_import_dlpack(t.versioned, NULL, &v));
    }
    jit_unref(v), jit_unref(counter);
}

static void want_for_kernel(uint32_t k) {
    jit_var counter = jit_counter(B, LARGE), v = plus(counter, 100 + k);
    ASSERT_OK(jit_var_eval(v));
    jit_unref(v), jit_unref(counter);
}

static void want_for_upload(uint32_t k) {
    static uint32_t value[LARGE];
    (void) k;
    jit_var v = jit_from_host(B, JIT_u32, value, LARGE);
    ASSERT_VAR(v);
    jit_unref(v);
}

static void want_for_export(uint32_t k) {
    jit_var v = jit_literal(B, JIT_u32, &k, LARGE);
    tensor t = dlpack_export(v, false, EXPORT_WITH(.copy = JIT_COPY_ALWAYS));
    dlpack_delete(&t);
    jit_unref(v);
}

/* Each link holds the next one, and on a GPU one is given up only where its release, which is the
 * user's function, can be called. */
Test(dlpack_life, all_of_a_chain_is_free_when_memory_is_wanted) {
    static void (*const want[])(uint32_t) = {want_for_kernel, want_for_upload, want_for_export};
    char limit[32];
    snprintf(limit, sizeof limit, "%zu", live() + LARGE * sizeof(uint32_t) * 3 / 2);
    ASSERT_OK(jit_set_option("memory_limit", limit));
    for (uint32_t k = 0; k < 12; ++k) {
        make_chain(k);
        want[k % 3](k);
        ASSERT_OK(jit_sync_all_devices());
    }
    ASSERT_OK(jit_set_option("memory_limit", "0"));
}
