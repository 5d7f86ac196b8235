/* calls.c: see calls.h.
 * Layer: benchmarks. May include: <jit/jit.h>, <jit/cuda.h>. */
#include "sync_modes/calls.h"
#include "bench.h"

#include <stdlib.h>
#include <string.h>

enum { BUSY_CALLS = 64, MOST_CALLS = 1 << 16 };
static const double idle_ns = 2e6;

static double now(const sync_call *c) {
    return c->processor ? bench_thread_time() : bench_now();
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *) a, y = *(const double *) b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, compare_doubles);
    return values[n / 2];
}

/* What two looks at the clock take by themselves. */
static double clock_cost(const sync_call *c) {
    double values[BUSY_CALLS];
    for (int i = 0; i < BUSY_CALLS; ++i) {
        double start = now(c);
        values[i] = now(c) - start;
    }
    return median(values, BUSY_CALLS);
}

static bool queue(const sync_call *c, const sync_work *w) {
    if (c->mode->order == SYNC_BY_HAND)
        return by_hand_produce(&c->lane->hand, w, 0, NULL, 0);
    jit_var v = sync_work_trace(w, c->lane->start, 0);
    jit_unref(v);
    return v != 0;
}

static bool rest(const sync_call *c) {
    const cuda_driver *d = c->lane->gpu->driver;
    void *const streams[] = {c->lane->hand.stream, c->lane->stream, SYNC_LEGACY_STREAM,
                             SYNC_PER_THREAD_STREAM};
    bool good = jit_sync_thread() == JIT_OK || sync_failed("jit_sync_thread");
    for (size_t i = 0; i < sizeof streams / sizeof *streams; ++i)
        good = cuda_driver_check(d, d->sync(streams[i]), "cuStreamSynchronize") && good;
    return good;
}

static double sample_idle(sync_call *c) {
    c->calls = c->calls ? c->calls : 1;
    if (!rest(c))
        return -1;
    for (;; c->calls *= 2) {
        double start = now(c);
        for (unsigned i = 0; i < c->calls; ++i)
            if (!sync_lane_order(c->lane, c->mode))
                return -1;
        double elapsed = now(c) - start;
        if (elapsed >= idle_ns || c->calls >= MOST_CALLS)
            return elapsed / c->calls;
    }
}

static bool time_call(const sync_call *c, double *out) {
    double start = now(c);
    bool good = sync_lane_order(c->lane, c->mode);
    *out = now(c) - start;
    return good;
}

/* The median of some calls while the GPU works, or one that waits for it. */
static double sample_busy(const sync_call *c) {
    double values[BUSY_CALLS];
    size_t n = c->mode->waits ? 1 : BUSY_CALLS;
    double clock = clock_cost(c);
    bool good = queue(c, c->busy);
    for (size_t i = 0; i < n && good; ++i)
        good = (c->mode->waits || queue(c, c->small)) && time_call(c, &values[i]);
    if (!rest(c) || !good)
        return -1;
    double ns = median(values, n) - clock;
    return ns < 0 ? 0 : ns;
}

double sync_call_sample(void *call) {
    sync_call *c = call;
    return c->busy ? sample_busy(c) : sample_idle(c);
}
