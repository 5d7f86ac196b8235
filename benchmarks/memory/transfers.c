/* transfers.c: copies between host and device.  Layer: benchmarks. May include: <jit/jit.h>. */
#include "parts.h"

#include <jit/jit.h>
#include <stdlib.h>
#include <string.h>

/* One way to move `bytes` bytes. */
typedef struct transfer {
    const cuda_driver *driver;
    void *context, *host, *pinned;
    cuda_address device;
    size_t bytes;
    const char *threads; /* value of the option copy_threads */
} transfer;

static double upload_by_jitc(void *context) {
    const transfer *t = context;
    if (jit_set_option("copy_threads", t->threads) != JIT_OK)
        return -1;
    double start = bench_now();
    jit_var v = jit_from_host(JIT_CUDA, JIT_u8, t->host, t->bytes);
    bool good = v && jit_sync_thread() == JIT_OK;
    double end = bench_now();
    jit_unref(v);
    return good ? end - start : -1;
}

static double download_by_jitc(void *context) {
    const transfer *t = context;
    if (jit_set_option("copy_threads", t->threads) != JIT_OK)
        return -1;
    jit_var v = jit_from_host(JIT_CUDA, JIT_u8, t->host, t->bytes);
    bool good = v && jit_sync_thread() == JIT_OK;
    double start = bench_now();
    good = good && jit_read(v, t->host) == JIT_OK;
    double end = bench_now();
    jit_unref(v);
    return good ? end - start : -1;
}

static double by_driver(const transfer *t, void *host, bool up) {
    void *popped;
    if (t->driver->push(t->context) != 0)
        return -1;
    double start = bench_now();
    int result = up ? t->driver->upload(t->device, host, t->bytes, NULL)
                    : t->driver->download(host, t->device, t->bytes, NULL);
    if (result == 0)
        result = t->driver->sync(NULL);
    double end = bench_now();
    t->driver->pop(&popped);
    return result == 0 ? end - start : -1;
}
static double upload_pageable(void *context) {
    transfer *t = context;
    return by_driver(t, t->host, true);
}
static double upload_pinned(void *context) {
    transfer *t = context;
    return by_driver(t, t->pinned, true);
}
static double download_pageable(void *context) {
    transfer *t = context;
    return by_driver(t, t->host, false);
}
static double download_pinned(void *context) {
    transfer *t = context;
    return by_driver(t, t->pinned, false);
}

static bool begin(transfer *t) {
    void *popped;
    t->host = malloc(t->bytes);
    if (!t->host || t->driver->push(t->context) != 0)
        return false;
    memset(t->host, 1, t->bytes);
    bool good = t->driver->alloc(&t->device, t->bytes) == 0 &&
                t->driver->host_alloc(&t->pinned, t->bytes, 0) == 0;
    if (good)
        memset(t->pinned, 1, t->bytes);
    t->driver->pop(&popped);
    return good;
}

static void end(transfer *t) {
    void *popped;
    if (t->driver->push(t->context) == 0) {
        if (t->pinned)
            t->driver->host_free(t->pinned);
        if (t->device)
            t->driver->free(t->device);
        t->driver->pop(&popped);
    }
    free(t->host);
}

void measure_transfers(bench *b, cuda_device *d, size_t bytes) {
    transfer t = {.driver = cuda_device_driver(d),
                  .context = cuda_device_context(d),
                  .bytes = bytes,
                  .threads = "0"};
    if (begin(&t)) {
        transfer one = t;
        one.threads = "1";
        bench_row up = bench_row_rate((double) bytes, 0, "upload, %zu KiB", bytes >> 10);
        bench_row_add(&up, "jitc", upload_by_jitc, &t);
        bench_row_add(&up, "one thread", upload_by_jitc, &one);
        bench_row_add(&up, "pageable", upload_pageable, &t);
        bench_row_add(&up, "pinned", upload_pinned, &t);
        bench_measure(b, &up);
        bench_row down = bench_row_rate((double) bytes, 0, "download, %zu KiB", bytes >> 10);
        bench_row_add(&down, "jitc", download_by_jitc, &t);
        bench_row_add(&down, "one thread", download_by_jitc, &one);
        bench_row_add(&down, "pageable", download_pageable, &t);
        bench_row_add(&down, "pinned", download_pinned, &t);
        bench_measure(b, &down);
        jit_trim();
    }
    end(&t);
}
