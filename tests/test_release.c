/* test_release.c: the release of foreign memory (the function of jit_map(), a tensor's deleter) is
 * user code that may do what it likes: trace, evaluate, read, open scopes, bring in memory of its
 * own. So it is called where the library is in the middle of nothing that it may do as well,
 * whatever ends the memory. */
#include "dlpack_producer.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define B support_backend()

enum { N = 64, FEW = 7, ODD = 33 };

typedef enum kind { MAPPED, VERSIONED, LEGACY, STRIDED, EMPTY, KINDS } kind;

/* Foreign memory that is not ended yet, or was. */
typedef struct foreign {
    kind kind;
    producer *p;   /* NULL: mapped */
    unsigned more; /* its release brings in one that has one less */
    atomic_int calls;
    struct foreign *next;
} foreign;

/* What releases use, and what they report. */
static struct {
    jit_var ramp;
    atomic_int calls, failures;
    atomic_uint deepest;
    bool ended; /* there is no runtime */
    void (*also)(void);
    pthread_mutex_t lock;
    foreign *all;
    int made;
    char why[200];
} w = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Nodes that died are freed some at a time, but by this all of them. */
static void settle(void) {
    jit_stats unused;
    ASSERT_OK(jit_get_stats(&unused));
    ASSERT_OK(jit_sync_all_devices());
}

/* The last may have been queued by the one before. */
static void wait_for(int calls) {
    while (atomic_load(&w.calls) < calls)
        settle();
    settle();
}

static int made(void) {
    pthread_mutex_lock(&w.lock);
    int n = w.made;
    pthread_mutex_unlock(&w.lock);
    return n;
}

/* Also those that releases bring in meanwhile: before they count as called. */
static void wait_for_all(void) {
    int n;
    do {
        n = made();
        wait_for(n);
    } while (n != made());
}

static void start(void) {
    uint32_t value[N];
    support_init();
    for (uint32_t i = 0; i < N; ++i)
        value[i] = i;
    w.ramp = jit_from_host(B, JIT_u32, value, N);
    ASSERT_VAR(w.ramp);
}

static void finish(void) {
    wait_for_all();
    jit_unref(w.ramp);
    for (foreign *f = w.all, *next; f; f = next) {
        next = f->next;
        cr_assert_eq(atomic_load(&f->calls), 1, "a release of kind %d was called %d times", f->kind,
                     atomic_load(&f->calls));
        if (f->p)
            producer_destroy(f->p);
        free(f);
    }
    cr_assert_eq(atomic_load(&w.failures), 0, "in %d releases something failed: %s",
                 atomic_load(&w.failures), w.why);
    support_shutdown();
}
TestSuite(release, .init = start, .fini = finish, .timeout = 240);

/* ---- Memory ---- */

static jit_var import(kind k, unsigned more, foreign **out);

/* Reads the ramp and a number, of which there are few, so that threads meet at the same nodes. */
static bool read_sum(uint32_t number) {
    uint32_t got[N];
    jit_var c = jit_u32(B, number), sum = jit_add(w.ramp, c), twice = jit_mul(sum, sum);
    bool good = jit_schedule(twice) == JIT_OK && jit_read(sum, got) == JIT_OK &&
                got[N - 1] == N - 1 + number && jit_eval() == JIT_OK;
    jit_unref(c), jit_unref(sum), jit_unref(twice);
    return good;
}

/* What reads v, in three kernels, of which two come when v has been used, and its memory ends. */
typedef struct work {
    jit_var sum, some, other;
} work;

static work make_work(jit_var v) {
    work r;
    jit_var one = jit_u32(B, 1), index = jit_counter(B, FEW), k = jit_counter(B, ODD);
    r.sum = jit_add(v, one);
    r.some = jit_size(v) ? jit_gather(r.sum, index, 0) : jit_add(index, index);
    r.other = jit_add(k, k);
    jit_unref(one), jit_unref(index), jit_unref(k);
    return r;
}

static bool read_work(work r, size_t n, uint32_t first) {
    uint32_t sum[N] = {0}, some[FEW], other[ODD];
    return jit_read(r.sum, sum) == JIT_OK && jit_read(r.some, some) == JIT_OK &&
           jit_read(r.other, other) == JIT_OK &&
           (!n || (sum[0] == first + 1 && some[0] == sum[0])) && other[ODD - 1] == 2 * (ODD - 1);
}

static void drop_work(work r) {
    jit_unref(r.sum), jit_unref(r.some), jit_unref(r.other);
}

static bool schedule(work r) {
    return jit_schedule(r.some) == JIT_OK && jit_schedule(r.sum) == JIT_OK &&
           jit_schedule(r.other) == JIT_OK;
}

/* One more, which ends in an evaluation here, or behind it. */
static bool bring_more(const foreign *f) {
    jit_var v = import(f->kind, f->more - 1, NULL);
    work r = make_work(v);
    jit_unref(v);
    bool good = schedule(r) && jit_eval() == JIT_OK;
    drop_work(r);
    return good;
}

static bool use_library(const foreign *f) {
    jit_scope_push();
    bool good = read_sum((uint32_t) atomic_load(&w.calls) % 4);
    if (w.also)
        w.also();
    good = (!f->more || bring_more(f)) && good;
    return jit_scope_pop(0, NULL) == JIT_OK && good;
}

static void release(void *context) {
    static _Thread_local unsigned depth;
    foreign *f = context;
    unsigned deepest = atomic_load(&w.deepest);
    ++depth;
    while (deepest < depth && !atomic_compare_exchange_weak(&w.deepest, &deepest, depth))
        ;
    bool good = use_library(f);
    if (good == w.ended && !atomic_fetch_add(&w.failures, 1))
        snprintf(w.why, sizeof w.why, "%s", jit_error());
    --depth;
    atomic_fetch_add(&f->calls, 1);
    atomic_fetch_add(&w.calls, 1);
}

typedef struct mapping {
    foreign *f;
    uint32_t value[N];
} mapping;

static void release_mapping(void *context) {
    mapping *m = context;
    release(m->f);
    free(m);
}

static jit_var map(foreign *f) {
    mapping *m = malloc(sizeof *m);
    cr_assert_not_null(m);
    m->f = f;
    for (uint32_t i = 0; i < N; ++i)
        m->value[i] = (uint32_t) producer_bits(JIT_u32, i);
    return jit_map(B, JIT_u32, m->value, N, release_mapping, m);
}

static jit_var import(kind k, unsigned more, foreign **out) {
    static const int64_t shape[] = {N}, square[] = {8, 8}, transposed[] = {1, 8}, empty[] = {0};
    const tensor_spec spec = {.type = JIT_u32,
                              .ndim = k == STRIDED ? 2 : 1,
                              .shape = k == STRIDED ? square
                                       : k == EMPTY ? empty
                                                    : shape,
                              .strides = k == STRIDED ? transposed : NULL,
                              .legacy = k == LEGACY};
    foreign *f = calloc(1, sizeof *f);
    cr_assert_not_null(f);
    f->kind = k;
    f->more = more;
    pthread_mutex_lock(&w.lock);
    ++w.made;
    f->next = w.all;
    w.all = f;
    pthread_mutex_unlock(&w.lock);
    if (out)
        *out = f;
    if (k == MAPPED)
        return map(f);
    f->p = producer_create(&spec);
    f->p->hook = release;
    f->p->context = f;
    return producer_take(f->p);
}

static bool there_is(kind k) {
    return k != MAPPED || support_maps_host_memory();
}

/* ---- What ends it ---- */

static void end_in_eval(jit_var v) {
    work r = make_work(v);
    size_t n = jit_size(v);
    jit_unref(v);
    cr_assert(schedule(r));
    ASSERT_OK(jit_eval());
    cr_assert(read_work(r, n, (uint32_t) producer_bits(JIT_u32, 0)), "%s", jit_error());
    drop_work(r);
}

static void end_in_read(jit_var v) {
    work r = make_work(v);
    size_t n = jit_size(v);
    jit_unref(v);
    cr_assert(read_work((work) {r.some, r.some, r.other}, 0, 0), "%s", jit_error());
    cr_assert(read_work(r, n, (uint32_t) producer_bits(JIT_u32, 0)), "%s", jit_error());
    drop_work(r);
}

static void end_in_data(jit_var v) {
    work r = make_work(v);
    void *address = NULL;
    jit_unref(v);
    ASSERT_OK(jit_schedule(r.other));
    ASSERT_OK(jit_data(r.some, &address));
    cr_assert_not_null(address);
    drop_work(r);
}

static void end_in_export(jit_var v) {
    work r = make_work(v);
    DLManagedTensorVersioned *t;
    jit_unref(v);
    ASSERT_OK(jit_schedule(r.other));
    ASSERT_OK(jit_export_dlpack(r.some, NULL, &t));
    drop_work(r);
    t->deleter(t);
}

static void end_in_import(jit_var v) {
    work r = make_work(v);
    DLManagedTensorVersioned *t;
    jit_import_options o = JIT_IMPORT_OPTIONS;
    jit_var copy;
    jit_unref(v);
    cr_assert(schedule(r));
    ASSERT_OK(jit_export_dlpack(w.ramp, NULL, &t));
    o.copy = JIT_COPY_ALWAYS;
    ASSERT_OK(jit_import_dlpack(t, &o, &copy));
    drop_work(r);
    ASSERT_OK(jit_eval());
    jit_unref(copy);
}

static void end_in_unref(jit_var v) {
    work r = make_work(v);
    cr_assert(schedule(r));
    ASSERT_OK(jit_eval());
    drop_work(r);
    ASSERT_OK(jit_sync_thread());
    jit_unref(v);
}

/* Which v belongs to. */
static void end_in_scope_pop(jit_var v) {
    for (int i = 0; i < 5; ++i)
        make_work(v);
    ASSERT_OK(jit_scope_pop(0, NULL));
}

static void end_in_sync(jit_var v) {
    work r = make_work(v);
    cr_assert(schedule(r));
    ASSERT_OK(jit_eval());
    jit_unref(v);
    drop_work(r);
    ASSERT_OK(jit_sync_thread());
}

/* Nodes that died are freed some at a time, so the memory may end in any call: here in those of
 * which the last wants a literal in memory. */
static void end_in_any_call(jit_var v) {
    static atomic_uint round;
    void *address;
    jit_var one = jit_u32(B, 1), literal = jit_u32(B, 1000 + atomic_fetch_add(&round, 1));
    for (unsigned i = atomic_load(&round) % 14; i > 0; --i) {
        jit_var next = i % 2 ? jit_add(v, one) : jit_xor(v, one);
        jit_unref(v);
        v = next;
    }
    jit_unref(v);
    ASSERT_OK(jit_data(literal, &address));
    cr_assert_not_null(address);
    jit_unref(one), jit_unref(literal);
    read_sum(9);
}

static void *schedule_and_end(void *context) {
    jit_var v = *(jit_var *) context, sum = jit_add(v, v);
    jit_unref(v);
    ASSERT_OK(jit_schedule(sum));
    jit_unref(sum);
    return NULL;
}

static void end_in_thread_exit(jit_var v) {
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, schedule_and_end, &v), 0);
    pthread_join(thread, NULL);
}

static const struct {
    const char *name;
    void (*end)(jit_var v);
    int repeat;
} ways[] = {
    {"jit_eval()", end_in_eval, 6},
    {"jit_read()", end_in_read, 2},
    {"jit_data()", end_in_data, 2},
    {"jit_export_dlpack()", end_in_export, 2},
    {"jit_import_dlpack()", end_in_import, 2},
    {"jit_unref()", end_in_unref, 1},
    {"jit_scope_pop()", end_in_scope_pop, 2},
    {"jit_sync_thread()", end_in_sync, 2},
    {"any call", end_in_any_call, 30},
    {"the end of a thread", end_in_thread_exit, 2},
};
enum { WAYS = sizeof ways / sizeof *ways };

static foreign *end(int way, kind k, unsigned more) {
    foreign *f;
    if (ways[way].end == end_in_scope_pop)
        jit_scope_push();
    ways[way].end(import(k, more, &f));
    return f;
}

static void end_by(int way, kind k, unsigned more) {
    foreign *f = end(way, k, more);
    do { /* while others are brought in, what one's release, in another thread, has just taken */
        settle();
    } while (more && !atomic_load(&f->calls));
    cr_assert_eq(atomic_load(&f->calls), 1, "kind %d ended by %s: %d calls", k, ways[way].name,
                 atomic_load(&f->calls));
    cr_assert_eq(atomic_load(&w.failures), 0, "kind %d ended by %s", k, ways[way].name);
    cr_assert_eq(jit_error_status(), JIT_OK, "%s", jit_error());
}

Test(release, may_evaluate_whatever_ends_the_memory) {
    for (int way = 0; way < WAYS; ++way)
        for (kind k = 0; k < KINDS; ++k)
            for (int i = 0; there_is(k) && i < ways[way].repeat; ++i)
                end_by(way, k, 0);
}

/* Several at once: each ends what the one before has brought in. */
Test(release, may_bring_in_memory_that_ends_as_well) {
    for (int way = 0; way < WAYS; ++way)
        for (kind k = 0; k < KINDS; ++k)
            if (there_is(k))
                end_by(way, k, 3);
}

static void *end_all_ways(void *context) {
    int first = *(int *) context;
    for (int i = 0; i < 2 * WAYS * KINDS; ++i) {
        kind k = (kind) ((i + first) % KINDS);
        if (there_is(k))
            end((i / KINDS + first) % WAYS, k, (unsigned) i % 3);
    }
    return NULL;
}

Test(release, may_evaluate_in_several_threads) {
    pthread_t thread[3];
    int first[3] = {0, 2, 5};
    for (int i = 0; i < 3; ++i)
        cr_assert_eq(pthread_create(&thread[i], NULL, end_all_ways, &first[i]), 0);
    for (int i = 0; i < 3; ++i)
        pthread_join(thread[i], NULL);
}

/* A line, however long, is no recursion. */
Test(release, a_long_line_takes_no_stack) {
    enum { LONG = 200 };
    for (kind k = 0; k < KINDS; ++k) {
        foreign *f;
        if (!there_is(k))
            continue;
        int before = atomic_load(&w.calls);
        end_in_eval(import(k, LONG, &f));
        wait_for(before + LONG + 1);
    }
    cr_assert_leq(atomic_load(&w.deepest), 2, "%u deep", atomic_load(&w.deepest));
}

static void schedule_more(void) {
    jit_var c = jit_u32(B, 50), sum = jit_add(w.ramp, c);
    jit_schedule(sum);
    jit_unref(c), jit_unref(sum);
}

/* What the thread has scheduled goes with it, also what it schedules while it ends. */
Test(release, may_schedule_while_its_thread_ends) {
    jit_stats before, after;
    w.also = schedule_more;
    ASSERT_OK(jit_get_stats(&before));
    for (kind k = 0; k < KINDS; ++k)
        if (there_is(k))
            end_in_thread_exit(import(k, 0, NULL));
    wait_for(w.made);
    ASSERT_OK(jit_eval()); /* what releases have scheduled in this thread */
    ASSERT_OK(jit_get_stats(&after));
    cr_assert_eq(after.variables, before.variables, "%llu are left",
                 (unsigned long long) (after.variables - before.variables));
}

/* ---- Errors ---- */

static void clear_error(void) {
    jit_error_clear();
}

/* There is memory for the first kernel, and not for the last. */
Test(release, does_not_hide_why_an_evaluation_failed) {
    w.also = clear_error;
    for (kind k = 0; k < KINDS; ++k) {
        if (!there_is(k) || k == EMPTY) /* kernels without lanes come last */
            continue;
        foreign *f;
        char limit[32];
        jit_stats stats;
        jit_var v = import(k, 0, &f), large = jit_counter(B, 1 << 22);
        jit_var c = jit_u32(B, 3), last = jit_mul(large, c);
        work r = make_work(v);
        jit_unref(v);
        ASSERT_OK(jit_sync_all_devices());
        ASSERT_OK(jit_get_stats(&stats));
        snprintf(limit, sizeof limit, "%zu", (size_t) stats.bytes_live + (1 << 20));
        ASSERT_OK(jit_set_option("memory_limit", limit));
        ASSERT_OK(jit_schedule(r.some));
        ASSERT_OK(jit_schedule(r.sum));
        ASSERT_OK(jit_schedule(last));
        cr_assert_eq(jit_eval(), JIT_OUT_OF_MEMORY);
        ASSERT_OK(jit_set_option("memory_limit", "0"));
        cr_assert_eq(jit_error_status(), JIT_OUT_OF_MEMORY, "kind %d: %s", k, jit_error());
        jit_error_clear();
        ASSERT_OK(jit_sync_all_devices());
        cr_assert_eq(atomic_load(&f->calls), 1, "kind %d was not given up", k);
        drop_work(r);
        jit_unref(large), jit_unref(c), jit_unref(last);
    }
}

/* ---- The end ---- */

Test(release, is_called_by_jit_shutdown_when_nothing_is_there_to_use) {
    foreign *f[KINDS] = {0};
    for (kind k = 0; k < KINDS; ++k)
        if (there_is(k))
            import(k, 0, &f[k]);
    jit_unref(w.ramp);
    w.ended = true;
    jit_shutdown();
    for (kind k = 0; k < KINDS; ++k)
        cr_assert(!f[k] || atomic_load(&f[k]->calls) == 1, "kind %d", k);
    w.ended = false;
    jit_error_clear();
    start();
}

/* ---- The log ---- */

static struct {
    jit_var traced, there;
    atomic_int calls, refused, read;
} in_log;

static void evaluate_in_log(void *context, int level, const char *text) {
    uint32_t got[N];
    (void) context, (void) level;
    if (!strstr(text, "compiled") || atomic_fetch_add(&in_log.calls, 1))
        return;
    in_log.refused += jit_eval() == JIT_UNSUPPORTED;
    in_log.refused += jit_schedule(in_log.traced) == JIT_UNSUPPORTED;
    in_log.refused += jit_read(in_log.traced, got) == JIT_UNSUPPORTED;
    in_log.read += jit_read(in_log.there, got) == JIT_OK;
    jit_error_clear();
}

/* It is called in the middle of an evaluation, and cannot be called later. */
Test(release, a_function_of_the_log_is_told_that_it_cannot_evaluate) {
    uint32_t got[N];
    jit_var c = jit_u32(B, 77), x = jit_mul(w.ramp, c);
    ASSERT_OK(jit_set_option("cache_disk", "0"));
    in_log.traced = jit_sub(w.ramp, c);
    in_log.there = w.ramp;
    jit_set_log(evaluate_in_log, NULL, 3);
    ASSERT_OK(jit_read(x, got));
    jit_set_log(NULL, NULL, 1);
    cr_assert_eq(got[2], 154);
    cr_assert_eq(in_log.calls, 1);
    cr_assert_eq(in_log.refused, 3);
    cr_assert_eq(in_log.read, 1);
    ASSERT_OK(jit_read(in_log.traced, got));
    cr_assert_eq(got[78 % N], 78 % N - 77u);
    jit_unref(c), jit_unref(x), jit_unref(in_log.traced);
}
