/* blocks.c: the cache of blocks alone.  Layer: benchmarks. May include: core, device. */
#include "device/memory.h"
#include "parts.h"

#include <stdlib.h>

enum { THREADS = 16, PAIRS = 20000, BYTES = 4096 };

/* ---- A device whose work is over at once ---- */

static jit_status alloc(jitc_backend *b, int device, size_t bytes, void **out) {
    (void) b, (void) device;
    *out = malloc(bytes);
    return *out ? JIT_OK : jitc_fail(JIT_OUT_OF_MEMORY, "no memory");
}
static void release(jitc_backend *b, int device, void *pointer, size_t bytes) {
    (void) b, (void) device, (void) bytes;
    free(pointer);
}
static void trim(jitc_backend *b, int device) {
    (void) b, (void) device;
}
static jit_status stream_create(jitc_backend *b, int device, jitc_stream **out) {
    (void) b, (void) device;
    return jitc_calloc(1, sizeof(jitc_stream), (void **) out);
}
static void stream_destroy(jitc_stream *s) {
    free(s);
}
static bool done(jitc_stream *s, uint64_t n) {
    (void) s, (void) n;
    return true;
}
static jit_status wait_for(jitc_stream *s, uint64_t n) {
    (void) s, (void) n;
    return JIT_OK;
}

/* ---- Taking and giving ---- */

typedef struct user {
    pthread_t thread;
    jitc_device *device;
    jitc_stream *stream;
    pthread_barrier_t *start;
    double ns; /* per pair; negative: it failed */
} user;

typedef struct crowd {
    jitc_device *device;
    user user[THREADS];
    unsigned count;
} crowd;

static void *take_and_give(void *context) {
    user *u = context;
    jitc_buffer *b;
    pthread_barrier_wait(u->start);
    double start = bench_thread_time(); /* there may be fewer cores than threads */
    for (uint64_t i = 1; i <= PAIRS; ++i) {
        if (jitc_buffer_create(u->device, u->stream, BYTES, &b) != JIT_OK) {
            u->ns = -1;
            return NULL;
        }
        jitc_buffer_did_write(b, u->stream, i);
        jitc_buffer_unref(b);
    }
    u->ns = (bench_thread_time() - start) / (double) PAIRS;
    return NULL;
}

/* The mean over the threads. */
static double sample(void *context) {
    crowd *c = context;
    pthread_barrier_t start;
    double sum = 0;
    pthread_barrier_init(&start, NULL, c->count);
    for (unsigned i = 0; i < c->count; ++i) {
        c->user[i].start = &start;
        if (pthread_create(&c->user[i].thread, NULL, take_and_give, &c->user[i]) != 0)
            abort(); /* the others wait at the barrier */
    }
    for (unsigned i = 0; i < c->count; ++i) {
        pthread_join(c->user[i].thread, NULL);
        sum += c->user[i].ns;
    }
    pthread_barrier_destroy(&start);
    return sum / c->count;
}

void measure_blocks(bench *b) {
    static jitc_backend backend = {.id = JIT_LLVM,
                                   .name = "nothing",
                                   .alloc = alloc,
                                   .free = release,
                                   .trim = trim,
                                   .stream_create = stream_create,
                                   .stream_destroy = stream_destroy,
                                   .done = done,
                                   .wait = wait_for};
    jitc_options options;
    crowd c = {0};
    jitc_options_init(&options);
    if (jitc_device_create(&backend, 0, &options, &c.device) != JIT_OK)
        return;
    for (int i = 0; i < THREADS; ++i) {
        c.user[i].device = c.device;
        if (jitc_device_take_stream(c.device, &c.user[i].stream) != JIT_OK)
            abort();
    }
    for (c.count = 1; c.count <= THREADS; c.count *= 4) {
        bench_row row = bench_row_make(BENCH_NS, (bench_goal) {300, NULL},
                                       "take and give a block, threads: %u", c.count);
        bench_row_add(&row, "jitc", sample, &c);
        bench_measure(b, &row);
    }
    jitc_device_destroy(c.device);
}
