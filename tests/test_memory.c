/* test_memory.c: the cache of blocks, over a device that says what it was asked: which block goes
 * to whom, what is waited for, what is given back when memory runs out. */
#include "device/memory.h"
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- A device that only counts ---- */

typedef struct world_stream {
    jitc_stream base;
    _Atomic uint64_t finished;
    bool broken; /* waiting for it fails */
} world_stream;

static struct {
    jitc_backend backend;
    jitc_options options;
    jitc_device *device;
    world_stream *stream[4];
    size_t room;               /* bytes that there are */
    _Atomic size_t used, held; /* held: of them by the backend itself, until trim() */
    bool hold, broken;
    atomic_int allocs, frees, trims, waits, stream_waits, early;
} w;

static world_stream *of(jitc_stream *s) {
    return (world_stream *) s;
}
static jit_status device_count(jitc_backend *b, int *out) {
    (void) b;
    *out = 1;
    return JIT_OK;
}
static jit_status alloc(jitc_backend *b, int device, size_t bytes, void **out) {
    (void) b, (void) device;
    jitc_add_relaxed(&w.allocs, 1);
    if (w.broken)
        return jitc_fail(JIT_DEVICE_FAILED, "the device is broken");
    if (jitc_add_relaxed(&w.used, bytes) + bytes > w.room) {
        jitc_add_relaxed(&w.used, 0 - bytes);
        return jitc_fail(JIT_OUT_OF_MEMORY, "no room for %zu", bytes);
    }
    *out = malloc(1);
    return JIT_OK;
}
static void release(jitc_backend *b, int device, void *pointer, size_t bytes) {
    (void) b, (void) device;
    free(pointer);
    jitc_add_relaxed(&w.frees, 1);
    if (w.hold)
        jitc_add_relaxed(&w.held, bytes);
    else
        jitc_add_relaxed(&w.used, 0 - bytes);
}
static void trim(jitc_backend *b, int device) {
    (void) b, (void) device;
    jitc_add_relaxed(&w.trims, 1);
    jitc_add_relaxed(&w.used, 0 - w.held);
    w.held = 0;
}
static jit_status stream_create(jitc_backend *b, int device, jitc_stream **out) {
    (void) b, (void) device;
    return jitc_calloc(1, sizeof(world_stream), (void **) out);
}
static void stream_destroy(jitc_stream *s) {
    free(s);
}
static jit_status stream_wait(jitc_stream *s, jitc_stream *other, uint64_t n) {
    (void) s, (void) other, (void) n;
    jitc_add_relaxed(&w.stream_waits, 1);
    return JIT_OK;
}
static bool done(jitc_stream *s, uint64_t n) {
    return n <= jitc_load_relaxed(&of(s)->finished);
}
static jit_status wait_for(jitc_stream *s, uint64_t n) {
    jitc_add_relaxed(&w.waits, 1);
    if (of(s)->broken)
        return jitc_fail(JIT_DEVICE_FAILED, "the stream is broken");
    if (!done(s, n))
        jitc_store_relaxed(&of(s)->finished, n);
    return JIT_OK;
}
/* No thread could be started that would make it. */
static jit_status call(jitc_stream *s, void (*function)(void *), void *context, uint64_t *number) {
    (void) s, (void) function, (void) context, (void) number;
    return jitc_fail(JIT_OUT_OF_MEMORY, "no calls");
}

static void start(void) {
    w.backend = (jitc_backend) {.id = JIT_LLVM,
                                .name = "world",
                                .device_count = device_count,
                                .alloc = alloc,
                                .free = release,
                                .trim = trim,
                                .stream_create = stream_create,
                                .stream_destroy = stream_destroy,
                                .call = call,
                                .stream_wait = stream_wait,
                                .done = done,
                                .wait = wait_for};
    w.room = SIZE_MAX;
    jitc_options_init(&w.options);
    w.options.memory_spare = 0; /* blocks that others use are taken */
    cr_assert_eq(jitc_device_create(&w.backend, 0, &w.options, &w.device), JIT_OK);
    for (int i = 0; i < 4; ++i)
        cr_assert_eq(jitc_device_take_stream(w.device, (jitc_stream **) &w.stream[i]), JIT_OK);
}
static void end(void) {
    jitc_device_destroy(w.device);
    cr_assert_eq(w.used - w.held, 0, "%zu bytes are left", w.used);
    cr_assert_str_empty(jit_error(), "an error is left");
}
TestSuite(memory, .init = start, .fini = end);

/* ---- Using it ---- */

static jitc_buffer *take(int stream, size_t bytes) {
    jitc_buffer *b;
    jit_status status = jitc_buffer_create(w.device, &w.stream[stream]->base, bytes, &b);
    cr_assert_eq(status, JIT_OK, "%zu bytes: %s", bytes, jit_error());
    return b;
}
/* Work of a stream that is not over: a write, or a read. */
static void use(jitc_buffer *b, int stream, bool write) {
    jitc_stream *s = &w.stream[stream]->base;
    uint64_t number = jitc_load_relaxed(&s->queued) + 1;
    jitc_store_relaxed(&s->queued, number);
    (write ? jitc_buffer_did_write : jitc_buffer_did_read)(b, s, number);
}
static void finish(int stream) {
    jitc_store_relaxed(&w.stream[stream]->finished,
                       jitc_load_relaxed(&w.stream[stream]->base.queued));
}
/* The address of a block that `stream` has written and given up. */
static void *give_up(int stream, size_t bytes) {
    jitc_buffer *b = take(stream, bytes);
    void *p = b->pointer;
    use(b, stream, true);
    jitc_buffer_unref(b);
    return p;
}
static jitc_memory_stats figures(void) {
    return jitc_device_memory(w.device);
}
static void expect_failure(int stream, size_t bytes, const char *what) {
    jitc_buffer *b;
    cr_assert_eq(jitc_buffer_create(w.device, &w.stream[stream]->base, bytes, &b),
                 JIT_OUT_OF_MEMORY);
    cr_assert(strstr(jit_error(), what), "%s", jit_error());
    jit_error_clear();
}

/* ---- Classes ---- */

Test(memory, a_block_of_any_size_wastes_little_and_serves_its_size_again) {
    for (int bit = 0; bit < 44; ++bit)
        for (size_t part = 0; part < 80; ++part) {
            size_t base = (size_t) 1 << bit, bytes = base + (base >> 6) * part + part % 3;
            if (bytes > (size_t) 1 << 44)
                continue;
            jitc_buffer *b = take(0, bytes);
            size_t wasted = b->bytes - bytes;
            cr_assert_geq(b->bytes, bytes);
            cr_assert_eq(b->bytes % 512, 0);
            if (bytes >= 32 << 20)
                cr_assert_leq(wasted * 32, bytes, "%zu bytes in a block of %zu", bytes, b->bytes);
            else if (bytes > 4096)
                cr_assert_leq(wasted * 8, bytes, "%zu bytes in a block of %zu", bytes, b->bytes);
            else
                cr_assert_lt(wasted, bytes ? 512 : 513);
            void *p = b->pointer;
            size_t rounded = b->bytes;
            jitc_buffer_unref(b);
            b = take(0, rounded); /* the greatest that the block is for */
            cr_assert(b->pointer == p && b->bytes == rounded);
            jitc_buffer_unref(b);
        }
}

Test(memory, sizes_that_nothing_has_are_refused) {
    jitc_buffer *b = take(0, 0);
    cr_assert_eq(b->bytes, 512);
    jitc_buffer_unref(b);
    expect_failure(0, ((size_t) 1 << 44) + 1, "more than any device has");
    expect_failure(0, SIZE_MAX - 511, "more than any device has");
    expect_failure(0, SIZE_MAX, "more than any device has");
    cr_assert_eq(figures().live, 0);
}

/* ---- Order ---- */

Test(memory, the_stream_that_used_a_block_gets_it_at_once) {
    void *p = give_up(0, 4096);
    jitc_buffer *b = take(0, 4096);
    cr_assert_eq(b->pointer, p);
    cr_assert_eq(jitc_buffer_before_write(b, &w.stream[0]->base), JIT_OK);
    cr_assert(w.stream_waits == 0 && w.waits == 0 && w.allocs == 1);
    jitc_buffer_unref(b);
}

Test(memory, another_stream_gets_it_behind_its_uses_on_the_device) {
    jitc_buffer *b = take(0, 4096);
    void *p = b->pointer;
    use(b, 0, true);
    use(b, 2, false);
    use(b, 3, false);
    finish(3);
    jitc_buffer_unref(b);
    b = take(1, 4096);
    cr_assert_eq(b->pointer, p);
    cr_assert_eq(jitc_buffer_before_write(b, &w.stream[1]->base), JIT_OK);
    cr_assert_eq(w.stream_waits, 3, "%d", w.stream_waits);
    cr_assert(w.waits == 0 && w.allocs == 1, "the CPU does not wait");
    jitc_buffer_unref(b);
}

Test(memory, another_stream_gets_memory_of_its_own_where_there_is_enough) {
    w.options.memory_spare = 16 << 10;
    for (int limit = 0; limit < 2; ++limit) {
        jitc_buffer *a = take(0, 4096), *b;
        void *p = a->pointer;
        use(a, 0, true);
        jitc_buffer_unref(a);
        w.options.memory_limit = limit ? 6 << 10 : 0;
        b = take(1, 4096);
        if (limit)
            cr_assert(b->pointer == p && w.waits == 0, "there is no room for another one");
        else
            cr_assert_neq(b->pointer, p, "and does not wait for what another thread does");
        finish(0);
        jitc_buffer_unref(b);
        jitc_device_trim(w.device);
    }
}

/* A thread that runs ahead of the one that gives its arrays back. */
Test(memory, what_others_use_is_waited_for_before_there_is_much_of_it) {
    w.options.memory_spare = 64 << 10;
    jitc_buffer *last = NULL;
    for (int i = 0; i < 1000; ++i) {
        jitc_buffer *b = take(0, 4096);
        use(b, 0, true);
        use(b, 1, false);
        jitc_buffer_unref(last);
        last = b;
    }
    jitc_buffer_unref(last);
    cr_assert_leq(w.used - w.held, (64 << 10) + 8 * 4096, "%zu bytes for two arrays",
                  w.used - w.held);
}

Test(memory, a_block_that_needs_no_waiting_is_preferred) {
    for (int other = 0; other < 3; ++other) {
        jitc_buffer *a = take(0, 8192), *b = take(1, 8192), *c = take(2, 8192);
        void *wanted = (other == 0 ? a : other == 1 ? b : c)->pointer;
        use(a, 0, true), use(b, 1, true), use(c, 2, true);
        jitc_buffer_unref(a), jitc_buffer_unref(b), jitc_buffer_unref(c);
        finish(other);
        a = take(3, 8192);
        cr_assert_eq(a->pointer, wanted, "that of stream %d is over", other);
        finish(0), finish(1), finish(2);
        jitc_buffer_unref(a);
    }
}

/* A block of its own that others still read is not the stream's at once. */
Test(memory, reads_by_others_count) {
    jitc_buffer *a = take(0, 8192), *b = take(0, 8192);
    void *free_one = a->pointer;
    use(a, 0, true), use(b, 0, true), use(b, 1, false);
    jitc_buffer_unref(a), jitc_buffer_unref(b);
    a = take(0, 8192);
    cr_assert_eq(a->pointer, free_one);
    b = take(0, 8192); /* the other one; a was taken from behind it */
    cr_assert(b->pointer != free_one && w.allocs == 2);
    finish(1);
    jitc_buffer_unref(a), jitc_buffer_unref(b);
}

/* ---- Giving back ---- */

Test(memory, trimming_gives_back_what_is_idle_and_never_waits) {
    jitc_buffer *live = take(0, 1000);
    give_up(0, 1000), give_up(1, 100000), give_up(2, (size_t) 100 << 20);
    finish(1);
    cr_assert_eq(figures().cached, 1024 + 106496 + ((size_t) 100 << 20), "%zu", figures().cached);
    jitc_device_trim(w.device);
    cr_assert(w.frees == 1 && w.trims == 1 && w.waits == 0);
    finish(0), finish(2);
    jitc_device_trim(w.device);
    cr_assert(w.frees == 3 && w.waits == 0);
    cr_assert(figures().cached == 0 && figures().live == 1024);
    jitc_buffer_unref(live);
}

Test(memory, figures_are_those_of_the_blocks) {
    jitc_buffer *a = take(0, 512), *b = take(1, 1024);
    cr_assert(figures().live == 1536 && figures().peak == 1536 && figures().cached == 0);
    jitc_buffer_unref(a);
    cr_assert(figures().live == 1024 && figures().peak == 1536 && figures().cached == 512);
    a = take(3, 512);
    cr_assert(figures().live == 1536 && figures().cached == 0 && w.allocs == 2);
    jitc_buffer_unref(a), jitc_buffer_unref(b);
    cr_assert(figures().live == 0 && figures().peak == 1536 && figures().cached == 1536);
}

Test(memory, when_memory_runs_out_idle_blocks_are_given_back_without_a_wait) {
    w.room = 64 << 10;
    give_up(0, 32 << 10), give_up(1, 16 << 10);
    finish(0);
    jitc_buffer *b = take(2, 40 << 10);
    cr_assert(w.frees == 1 && w.waits == 0, "the other one is in use");
    cr_assert_eq(w.allocs, 4, "one retry");
    jitc_buffer_unref(b);
}

Test(memory, what_the_backend_keeps_is_given_back_too) {
    w.hold = true;
    w.room = 64 << 10;
    give_up(0, 48 << 10);
    finish(0);
    jitc_buffer *b = take(2, 64 << 10);
    cr_assert_eq(w.trims, 1);
    jitc_buffer_unref(b);
}

Test(memory, blocks_in_use_are_waited_for_before_it_fails) {
    w.room = 64 << 10;
    give_up(0, 32 << 10), give_up(1, 16 << 10);
    jitc_buffer *b = take(2, 64 << 10);
    cr_assert(w.frees == 2 && w.waits == 2);
    expect_failure(1, 512, "no room for 512");
    cr_assert(figures().live == 64 << 10 && figures().peak == 64 << 10, "what failed is no figure");
    jitc_buffer_unref(b);
}

Test(memory, a_block_that_cannot_be_waited_for_stays) {
    w.room = 64 << 10;
    give_up(0, 32 << 10);
    w.stream[0]->broken = true;
    expect_failure(1, 64 << 10, "no room for 65536");
    cr_assert_eq(w.frees, 0);
    cr_assert_eq(figures().cached, 32 << 10);
    w.stream[0]->broken = false;
}

Test(memory, a_failure_that_is_mended_leaves_the_error_from_before) {
    give_up(0, 4096);
    finish(0);
    w.room = 4608;
    jitc_fail(JIT_INVALID_ARGUMENT, "an error from before");
    jitc_buffer *b = take(1, 4608);
    cr_assert(w.frees == 1 && !strcmp(jit_error(), "an error from before"), "%s", jit_error());
    jitc_buffer_unref(b);
    jit_error_clear();
}

Test(memory, only_a_lack_of_memory_is_answered_by_giving_back) {
    jitc_buffer *b;
    give_up(0, 4096);
    finish(0);
    w.broken = true;
    cr_assert_eq(jitc_buffer_create(w.device, &w.stream[1]->base, 512, &b), JIT_DEVICE_FAILED);
    cr_assert_str_eq(jit_error(), "the device is broken");
    cr_assert(w.frees == 0 && w.allocs == 2 && figures().live == 0);
    jit_error_clear();
}

/* ---- Memory of others ---- */

static void note_waits(void *waits) {
    *(int *) waits = w.waits;
}

/* Also where there is an error from before. */
Test(memory, foreign_memory_is_waited_for_where_its_end_cannot_be_queued) {
    for (int before = 0; before < 2; ++before) {
        char memory[64];
        int waits = 0;
        jitc_buffer *b;
        cr_assert_eq(jitc_buffer_map(w.device, memory, sizeof memory, note_waits, &waits, &b),
                     JIT_OK);
        use(b, before, false);
        if (before)
            jitc_fail(JIT_INVALID_ARGUMENT, "an error from before");
        jitc_buffer_unref(b);
        cr_assert_eq(waits, before + 1, "its end was called before the use was over");
        cr_assert_str_eq(jit_error(), before ? "an error from before" : "");
    }
    jit_error_clear();
}

/* ---- The limit ---- */

Test(memory, the_limit_is_kept_with_as_few_blocks_given_back_as_will_do) {
    w.options.memory_limit = 64 << 10;
    jitc_buffer *kept = take(1, 8 << 10);
    give_up(0, 16 << 10), give_up(2, 8 << 10);
    use(kept, 1, true);
    jitc_buffer_unref(kept);
    finish(1), finish(2);
    jitc_buffer *a = take(3, 32 << 10);
    cr_assert(w.frees == 0, "it fits beside them");
    jitc_buffer *b = take(3, 6 << 10);
    cr_assert(w.frees == 1 && w.waits == 0, "one idle block is enough");
    jitc_buffer *c = take(3, 24 << 10);
    cr_assert(w.frees == 3 && w.waits == 1, "all are needed");
    cr_assert_leq(figures().live + figures().cached, 64 << 10);
    expect_failure(0, 4096, "memory_limit = 65536");
    jitc_buffer_unref(a), jitc_buffer_unref(b), jitc_buffer_unref(c);
}

Test(memory, of_equal_blocks_no_more_than_needed_are_given_back) {
    w.options.memory_limit = 64 << 10;
    for (int busy = 0; busy < 2; ++busy) {
        jitc_buffer *b[4];
        int frees = w.frees;
        for (int i = 0; i < 4; ++i)
            b[i] = take(0, 8 << 10);
        for (int i = 0; i < 4; ++i)
            use(b[i], 0, true), jitc_buffer_unref(b[i]);
        if (!busy)
            finish(0);
        jitc_buffer *a = take(1, 40 << 10);
        cr_assert_eq(w.frees, frees + 1, "%d", w.frees);
        jitc_buffer_unref(a);
        finish(0);
        jitc_device_trim(w.device);
    }
    cr_assert_eq(w.waits, 1);
}

/* ---- Threads ---- */

enum { THREADS = 4, ROUNDS = 3000, HELD = 8 };

static void *churn(void *context) {
    int stream = (int) (intptr_t) context;
    jitc_buffer *held[HELD] = {0};
    uint64_t seed = (uint64_t) stream + 1;
    for (int i = 0; i < ROUNDS; ++i) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int at = (int) (seed >> 33) % HELD;
        if (held[at]) {
            cr_assert_eq(*(char *) held[at]->pointer, (char) stream, "it is another's, too");
            jitc_buffer_unref(held[at]);
        }
        held[at] = take(stream, (size_t) 512 << (seed >> 40) % 4);
        *(char *) held[at]->pointer = (char) stream;
        use(held[at], stream, true);
        if (i % 64 == 0)
            finish(stream);
        if (i % 500 == 0)
            jitc_device_trim(w.device);
    }
    for (int i = 0; i < HELD; ++i)
        jitc_buffer_unref(held[i]);
    return NULL;
}

Test(memory, threads_that_take_and_give_at_once_never_share_a_block) {
    pthread_t thread[THREADS];
    for (intptr_t i = 0; i < THREADS; ++i)
        cr_assert_eq(pthread_create(&thread[i], NULL, churn, (void *) i), 0);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(thread[i], NULL);
    cr_assert_eq(figures().live, 0);
    cr_assert_eq(figures().cached, w.used);
    cr_assert_leq(figures().peak, (size_t) THREADS * (HELD + 1) * 4096);
}
