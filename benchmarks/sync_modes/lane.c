/* lane.c: see lane.h.
 * Layer: benchmarks. May include: <jit/jit.h>, <jit/cuda.h>. */
#include "sync_modes/lane.h"
#include "bench.h"

#include <stdio.h>

static const double most_lanes = 16;

static bool check(const sync_lane *l, int result, const char *what) {
    return cuda_driver_check(l->gpu->driver, result, what);
}

static bool make_events(sync_lane *l) {
    const cuda_driver *d = l->gpu->driver;
    for (unsigned slot = 0; slot < SYNC_DEPTH; ++slot) {
        if (!check(l, d->event_create(&l->consumed[slot], CUDA_EVENT_DISABLE_TIMING),
                   "cuEventCreate"))
            return false;
        if (jit_cuda_event_wrap(l->consumed[slot], &l->wrapped[slot]) != JIT_OK)
            return sync_failed("jit_cuda_event_wrap");
    }
    return true;
}

bool sync_lane_init(sync_lane *l, const sync_gpu *g, unsigned number) {
    const cuda_driver *d = g->driver;
    *l = (sync_lane) {.gpu = g, .number = number};
    if (!check(l, d->push(g->context), "cuCtxPushCurrent"))
        return false;
    return by_hand_init(&l->hand, g) &&
           check(l, d->stream_create(&l->stream, CUDA_STREAM_NON_BLOCKING), "cuStreamCreate") &&
           check(l, d->alloc(&l->stale, SYNC_MOST_STEPS * sizeof(unsigned)), "cuMemAlloc") &&
           make_events(l) && (l->start = sync_work_start()) != 0;
}

void sync_lane_finish(sync_lane *l) {
    const cuda_driver *d = l->gpu->driver;
    void *context;
    for (unsigned slot = 0; slot < SYNC_DEPTH; ++slot) {
        jit_unref(l->arrays[slot]);
        jit_event_destroy(l->wrapped[slot]);
        if (l->consumed[slot])
            d->event_destroy(l->consumed[slot]);
    }
    jit_unref(l->start);
    d->free(l->stale);
    if (l->stream)
        d->stream_destroy(l->stream);
    by_hand_finish(&l->hand);
    d->pop(&context);
    *l = (sync_lane) {0};
}

static void *consumer_of(const sync_lane *l, const sync_mode *m) {
    return m->consumer ? m->consumer : l->stream;
}

bool sync_lane_order(sync_lane *l, const sync_mode *m) {
    switch (m->order) {
        case SYNC_TOKEN:
            return jit_cuda_sync_stream((uintptr_t) m->token) == JIT_OK ||
                   sync_failed("jit_cuda_sync_stream");
        case SYNC_HANDLE:
            return jit_cuda_sync_stream((uintptr_t) l->stream) == JIT_OK ||
                   sync_failed("jit_cuda_sync_stream");
        case SYNC_DEVICE: return jit_sync_device() == JIT_OK || sync_failed("jit_sync_device");
        case SYNC_CONTEXT: return check(l, l->gpu->driver->sync_context(), "cuCtxSynchronize");
        default: return by_hand_order(&l->hand, l->stream);
    }
}

/* Give the slot's former array back, its memory not to be written before its consumer is over. */
static bool reuse(sync_lane *l, const sync_mode *m, unsigned slot) {
    if (!l->arrays[slot])
        return true;
    if (!m->both_ways && jit_event_stream_wait(l->wrapped[slot]) != JIT_OK)
        return sync_failed("jit_event_stream_wait");
    jit_unref(l->arrays[slot]);
    l->arrays[slot] = 0;
    return true;
}

static bool produce(sync_lane *l, const sync_mode *m, const sync_work *w, unsigned step, double tag,
                    cuda_address *out) {
    unsigned slot = step % SYNC_DEPTH;
    void *pointer = NULL;
    if (m->order == SYNC_BY_HAND) {
        *out = l->hand.buffers[slot];
        return by_hand_produce(&l->hand, w, slot, step < SYNC_DEPTH ? NULL : l->consumed[slot],
                               tag);
    }
    if (!reuse(l, m, slot))
        return false;
    l->arrays[slot] = sync_work_trace(w, l->start, tag);
    if (!l->arrays[slot])
        return false;
    if (jit_data(l->arrays[slot], &pointer) != JIT_OK)
        return sync_failed("jit_data");
    *out = (cuda_address) (uintptr_t) pointer;
    return true;
}

static bool take_step(sync_lane *l, const sync_mode *m, const sync_work *w, unsigned step) {
    void *consumer = consumer_of(l, m);
    double tag = 4 * (l->steps * most_lanes + l->number + 1);
    cuda_address from = 0;
    l->steps += 1;
    if (!produce(l, m, w, step, tag, &from))
        return false;
    double start = bench_now();
    if (!sync_lane_order(l, m))
        return false;
    l->tally.held += bench_now() - start;
    return sync_launch_consume(l->gpu, consumer, from, l->stale + step * sizeof(unsigned),
                               w->consumed, tag) &&
           check(l, l->gpu->driver->record(l->consumed[step % SYNC_DEPTH], consumer),
                 "cuEventRecord");
}

/* All is over: what the library does not know to be free may be given back. */
static bool drain(sync_lane *l, const sync_mode *m) {
    bool good = check(l, l->gpu->driver->sync(consumer_of(l, m)), "cuStreamSynchronize") &&
                check(l, l->gpu->driver->sync(l->hand.stream), "cuStreamSynchronize");
    if (jit_sync_thread() != JIT_OK)
        good = sync_failed("jit_sync_thread");
    for (unsigned slot = 0; slot < SYNC_DEPTH; ++slot) {
        jit_unref(l->arrays[slot]);
        l->arrays[slot] = 0;
    }
    return good;
}

bool sync_lane_run(sync_lane *l, const sync_mode *m, const sync_work *w, unsigned steps) {
    double before = bench_thread_time();
    bool good = true;
    for (unsigned step = 0; step < steps && good; ++step)
        good = take_step(l, m, w, step);
    l->tally.cpu += bench_thread_time() - before;
    return drain(l, m) && good;
}

bool sync_lane_prepare(sync_lane *l, unsigned steps) {
    return check(l, l->gpu->driver->clear(l->stale, 0, steps, l->stream), "cuMemsetD32Async") &&
           check(l, l->gpu->driver->sync(l->stream), "cuStreamSynchronize");
}

bool sync_lane_count(sync_lane *l, unsigned steps) {
    unsigned words[SYNC_MOST_STEPS];
    if (!check(l, l->gpu->driver->download(words, l->stale, steps * sizeof *words, l->stream),
               "cuMemcpyDtoHAsync") ||
        !check(l, l->gpu->driver->sync(l->stream), "cuStreamSynchronize"))
        return false;
    for (unsigned step = 0; step < steps; ++step)
        l->tally.stale += words[step] != 0;
    l->tally.steps += steps;
    return true;
}
