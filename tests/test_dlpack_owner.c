/* Who has imported a tensor calls its deleter: once, whatever happens, when the memory is not used
 * any more, and where it may do what it likes. */
#include "dlpack_producer.h"
#include "gate.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void start(void) {
    ASSERT_OK(jit_set_option("num_threads", "4")); /* a gate occupies one */
    support_init();
}
TestSuite(dlpack_owner, .init = start, .fini = support_shutdown, .timeout = 120);

static const int64_t shape[] = {40, 30}, transposed[] = {1, 40}, compact[] = {30, 1};
static const int64_t nothing[] = {0, 30};

static const tensor_spec specs[] = {
    {JIT_f32, 2, shape, compact, .legacy = false},
    {JIT_f32, 2, shape, NULL, .legacy = true},
    {JIT_f32, 2, shape, transposed, .legacy = false},
    {JIT_f32, 2, shape, transposed, .legacy = true},
    {JIT_f32, 2, shape, compact, .off = 1},
    {JIT_f32, 2, shape, transposed, .off = 2},
    {JIT_f32, 2, nothing, NULL, .legacy = false},
    {JIT_f32, 2, nothing, compact, .legacy = true},
    {JIT_f32, 0, NULL, NULL, .legacy = false},
};
enum { SPECS = sizeof specs / sizeof *specs };

static jit_var plus_one(jit_var v) {
    jit_var one = jit_f32(support_backend(), 1), sum = jit_add(v, one);
    ASSERT_VAR(sum);
    jit_unref(one);
    return sum;
}

/* ---- Once ---- */

/* Public references: dlpack#39, mxnet#15016 (who frees the struct), pytorch#117273 (never, if there
 * is no data). */
Test(dlpack_owner, the_deleter_is_called_once_by_whichever_way) {
    enum { UNUSED, READ, USED, SCHEDULED, DATA, COPIED, WAYS };
    char bytes[4 * 1200];
    void *address;
    for (int i = 0; i < SPECS * WAYS; ++i) {
        producer *p = producer_create(&specs[i % SPECS]);
        jit_import_options o = JIT_IMPORT_OPTIONS;
        jit_var v, sum = 0;
        o.copy = i / SPECS == COPIED ? JIT_COPY_ALWAYS : JIT_COPY_IF_NEEDED;
        ASSERT_OK(producer_import(p, &o, &v));
        switch (i / SPECS) {
            case READ: ASSERT_OK(jit_read(v, bytes)); break;
            case DATA: ASSERT_OK(jit_data(v, &address)); break;
            case SCHEDULED: ASSERT_OK(jit_schedule(v)); break;
            case USED:
                sum = plus_one(v);
                ASSERT_OK(jit_var_eval(sum));
                break;
        }
        jit_unref(v);
        jit_unref(sum);
        ASSERT_OK(jit_eval());
        cr_assert_eq(producer_deleted(p), 1, "way %d of tensor %d", i / SPECS, i % SPECS);
        producer_destroy(p);
    }
    cr_assert_eq(jit_error_status(), JIT_OK, "%s", jit_error());
}

Test(dlpack_owner, memory_that_is_used_in_place_stays_as_long_as_the_variable) {
    producer *p = producer_create(&specs[0]);
    jit_var v = producer_take(p), sum = plus_one(v), again = jit_ref(v);
    void *address;
    ASSERT_OK(jit_data(v, &address));
    cr_assert_eq(address, p->memory, "it is no copy");
    ASSERT_OK(jit_var_eval(sum));
    jit_unref(v);
    cr_assert_eq(producer_deleted(p), 0);
    jit_unref(again);
    producer_destroy(p);
    jit_unref(sum);
}

Test(dlpack_owner, a_view_that_is_evaluated_needs_the_memory_no_more) {
    producer *p = producer_create(&specs[2]);
    jit_var v = producer_take(p);
    cr_assert_eq(producer_deleted(p), 0);
    ASSERT_OK(jit_var_eval(v));
    producer_destroy(p);
    jit_unref(v);
}

Test(dlpack_owner, jit_shutdown_gives_tensors_back) {
    producer *p[SPECS];
    for (int i = 0; i < SPECS; ++i) {
        p[i] = producer_create(&specs[i]);
        producer_take(p[i]);
    }
    jit_shutdown();
    for (int i = 0; i < SPECS; ++i)
        producer_destroy(p[i]);
    ASSERT_OK(jit_init(support_backend()));
}

/* Public reference: pytorch#43166 (a crash). */
Test(dlpack_owner, a_tensor_without_a_deleter_is_nobodys) {
    for (int i = 0; i < 2 * SPECS; ++i) {
        producer *p = producer_create(&specs[i % SPECS]);
        jit_var v = 0;
        void (*versioned)(DLManagedTensorVersioned *) = NULL;
        void (*legacy)(DLManagedTensor *) = NULL;
        bool fails = i >= SPECS;
        if (p->spec.legacy) {
            legacy = p->legacy->deleter;
            p->legacy->deleter = NULL;
        } else {
            versioned = p->versioned->deleter;
            p->versioned->deleter = NULL;
        }
        p->tensor->dtype.lanes = fails ? 7 : 1;
        cr_assert_eq(producer_import(p, NULL, &v), fails ? JIT_UNSUPPORTED : JIT_OK);
        jit_unref(v);
        cr_assert_eq(producer_deleted(p), 0);
        if (legacy)
            legacy(p->legacy);
        else
            versioned(p->versioned);
        producer_destroy(p);
    }
}

/* ---- Other versions ---- */

typedef struct poisoned {
    DLPackVersion version;
    void *manager_ctx;
    void (*deleter)(DLManagedTensorVersioned *);
} poisoned; /* what has this place in all versions */

static atomic_int poisoned_deleted;
static void delete_poisoned(DLManagedTensorVersioned *t) {
    cr_assert_eq(t->manager_ctx, &poisoned_deleted);
    atomic_fetch_add(&poisoned_deleted, 1);
}

/* Public reference: cutlass#3359 (what is behind the version is read although it means something
 * else). Here it cannot be read at all. */
Test(dlpack_owner, of_another_major_version_only_the_deleter_is_used) {
    static const uint32_t majors[] = {0, 2, 3, UINT32_MAX};
    size_t page = (size_t) sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(pages != MAP_FAILED && !mprotect(pages + page, page, PROT_NONE));
    poisoned *t = (poisoned *) (void *) (pages + page - sizeof *t);
    for (int i = 0; i < 4; ++i) {
        jit_var v = 77;
        *t = (poisoned) {{majors[i], 0}, &poisoned_deleted, i % 2 ? NULL : delete_poisoned};
        jit_error_clear();
        jit_status status = jit_import_dlpack((DLManagedTensorVersioned *) (void *) t, NULL, &v);
        cr_assert_eq(status, JIT_UNSUPPORTED);
        cr_assert_eq(v, 0);
        cr_assert(strstr(jit_error(), "version"), "%s", jit_error());
        cr_assert_eq(atomic_load(&poisoned_deleted), i / 2 + 1);
    }
    munmap(pages, 2 * page);
    jit_error_clear();
}

Test(dlpack_owner, all_minor_versions_are_taken) {
    static const uint32_t minors[] = {0, 1, 2, 3, 9, UINT32_MAX};
    for (int i = 0; i < 6; ++i) {
        producer *p = producer_create(&specs[i % 2 ? 2 : 0]);
        p->versioned->version.minor = minors[i];
        jit_unref(producer_take(p));
        producer_destroy(p);
    }
}

/* ---- When ---- */

static jit_var two_numbers(float first) {
    float value[] = {first, 3};
    jit_var v = jit_from_host(support_backend(), JIT_f32, value, 2);
    ASSERT_VAR(v);
    return v;
}

static void use_kernels(void) {
    jit_var x = two_numbers(1), twice = jit_add(x, x), square = jit_mul(x, x);
    ASSERT_OK(jit_var_eval(twice));
    ASSERT_OK(jit_var_eval(square));
    jit_unref(x), jit_unref(twice), jit_unref(square);
    producer *p = producer_create(&specs[0]);
    jit_var v = producer_take(p), sum = plus_one(v);
    ASSERT_OK(jit_var_eval(sum));
    jit_unref(v), jit_unref(sum);
    producer_destroy(p);
}

/* Public reference: NVIDIA/cutile-python#88 (called before the kernel that reads). */
Test(dlpack_owner, it_is_called_when_the_last_kernel_has_ended) {
    static gate g;
    producer *p = producer_create(&specs[0]);
    jit_var v = producer_take(p), sum = plus_one(v);
    gate_close(&g, use_kernels);
    gate_block_own_stream(&g);
    ASSERT_OK(jit_var_eval(sum));
    jit_unref(v);
    gate_pause();
    cr_assert_eq(atomic_load(&p->deleted), 0, "it is called while the kernel waits");
    gate_finish(&g);
    uint64_t *got = support_read(sum, 1200);
    free(got);
    producer_destroy(p);
    jit_unref(sum);
}

/* ---- What the deleter does ---- */

typedef struct busy {
    jit_var x, late;
    pthread_mutex_t mutex;
    atomic_bool called;
    atomic_int calls;
} busy;

/* Computes, waits, and wants a lock that others have while they compute. */
static void use_library(void *context) {
    busy *b = context;
    float value[2];
    atomic_store(&b->called, true);
    pthread_mutex_lock(&b->mutex);
    jit_var sum = jit_add(b->x, b->x);
    jit_status status = jit_read(sum, value);
    pthread_mutex_unlock(&b->mutex);
    jit_unref(sum);
    if (status == JIT_OK && value[1] == 6 && b->late)
        status = jit_read(b->late, value);
    atomic_fetch_add(&b->calls, status == JIT_OK && value[0] != 0);
}

/* In the calls that end with no work to wait for, and with some; also for a tensor that cannot be
 * imported: the error is that of the import. */
Test(dlpack_owner, the_deleter_may_use_the_library) {
    busy b = {.x = two_numbers(2), .mutex = PTHREAD_MUTEX_INITIALIZER};
    for (int i = 0; i < 3 * SPECS; ++i) {
        producer *p = producer_create(&specs[i % SPECS]);
        jit_var v = 0, sum = 0;
        p->hook = use_library;
        p->context = &b;
        if (i / SPECS == 2)
            p->tensor->ndim = -5;
        jit_error_clear();
        jit_status status = producer_import(p, NULL, &v);
        cr_assert_eq(status, i / SPECS == 2 ? JIT_INVALID_ARGUMENT : JIT_OK);
        cr_assert_eq(jit_error_status(), status, "%s", jit_error());
        if (i / SPECS == 1) {
            sum = plus_one(v);
            ASSERT_OK(jit_var_eval(sum));
        }
        jit_unref(v);
        jit_unref(sum);
        producer_destroy(p);
        cr_assert_eq(atomic_load(&b.calls), i + 1);
    }
    jit_error_clear();
    jit_unref(b.x);
}

static void clear_error(void *unused) {
    (void) unused;
    jit_error_clear();
}

/* There is no room for the copy when the memory has been taken over already. */
Test(dlpack_owner, the_deleter_does_not_hide_why_an_import_failed) {
    for (int i = 0; i < 4; ++i) {
        producer *p = producer_create(&specs[i]);
        jit_import_options o = JIT_IMPORT_OPTIONS;
        jit_var v;
        o.copy = JIT_COPY_ALWAYS;
        p->hook = clear_error;
        ASSERT_OK(jit_set_option("memory_limit", "1"));
        cr_assert_eq(producer_import(p, &o, &v), JIT_OUT_OF_MEMORY);
        cr_assert_eq(jit_error_status(), JIT_OUT_OF_MEMORY, "tensor %d: %s", i, jit_error());
        jit_error_clear();
        ASSERT_OK(jit_set_option("memory_limit", "0"));
        producer_destroy(p);
    }
}

/* The deleter is called in another thread, behind a kernel. Meanwhile the first one traces and
 * evaluates with the lock that it wants; and what it waits for was queued after the kernel. */
Test(dlpack_owner, a_deleter_that_waits_for_a_lock_and_for_later_work_keeps_nobody_waiting) {
    static gate g;
    busy b = {.x = two_numbers(2), .mutex = PTHREAD_MUTEX_INITIALIZER};
    jit_var more = two_numbers(5);
    gate_close(&g, use_kernels);
    producer *p = producer_create(&specs[0]);
    p->hook = use_library;
    p->context = &b;
    jit_var v = producer_take(p), sum = plus_one(v);
    gate_block_own_stream(&g);
    ASSERT_OK(jit_var_eval(sum));
    jit_unref(v); /* its end is queued behind the kernel */
    pthread_mutex_lock(&b.mutex);
    b.late = jit_mul(more, more);
    ASSERT_OK(jit_var_eval(b.late));
    gate_open(&g);
    while (!atomic_load(&b.called))
        gate_pause();
    for (int i = 0; i < 1000; ++i) {
        jit_var again = jit_add(b.late, more);
        jit_unref(again);
    }
    pthread_mutex_unlock(&b.mutex);
    while (!atomic_load(&b.calls))
        gate_pause();
    gate_finish(&g);
    producer_destroy(p);
    jit_unref(sum), jit_unref(more), jit_unref(b.late), jit_unref(b.x);
}

/* ---- Threads ---- */

enum { ROUNDS = 60, THREADS = 3 };

static void *import_often(void *context) {
    jit_var shared = *(jit_var *) context;
    for (int i = 0; i < ROUNDS; ++i) {
        producer *p = producer_create(&specs[i % 6]);
        uint64_t *expected = producer_expected(p);
        jit_var v = producer_take(p), sum = jit_add(v, shared);
        uint64_t *got = support_read(i % 2 ? v : sum, 1200);
        for (int k = 0; k < 1200; ++k)
            cr_assert(i % 2 ? got[k] == expected[k] : got[k] != 0);
        jit_unref(v), jit_unref(sum);
        while (!producer_deleted(p)) /* another thread has taken what there is to delete */
            sched_yield();
        producer_destroy(p);
        free(got), free(expected);
    }
    return NULL;
}

Test(dlpack_owner, several_threads_import_and_share) {
    pthread_t thread[THREADS];
    producer *p = producer_create(&specs[2]);
    jit_var v = producer_take(p);
    for (int i = 0; i < THREADS; ++i)
        cr_assert_eq(pthread_create(&thread[i], NULL, import_often, &v), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(thread[i], NULL);
    jit_unref(v);
    producer_destroy(p);
}
