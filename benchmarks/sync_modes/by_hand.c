/* by_hand.c: see by_hand.h.
 * Layer: benchmarks. May include: nothing of the library. */
#include "sync_modes/by_hand.h"

static bool check(const by_hand *h, int result, const char *what) {
    return cuda_driver_check(h->gpu->driver, result, what);
}

static bool make_buffer(by_hand *h, cuda_address *out) {
    return check(h, h->gpu->driver->alloc(out, SYNC_ELEMENTS * sizeof(double)), "cuMemAlloc");
}

bool by_hand_init(by_hand *h, const sync_gpu *g) {
    const cuda_driver *d = g->driver;
    *h = (by_hand) {.gpu = g};
    bool good =
        check(h, d->stream_create(&h->stream, 0), "cuStreamCreate") &&
        check(h, d->event_create(&h->produced, CUDA_EVENT_DISABLE_TIMING), "cuEventCreate") &&
        make_buffer(h, &h->start) && make_buffer(h, &h->between);
    for (unsigned slot = 0; slot < SYNC_DEPTH && good; ++slot)
        good = make_buffer(h, &h->buffers[slot]);
    double values[SYNC_ELEMENTS];
    sync_fill_start(values);
    return good &&
           check(h, d->upload(h->start, values, sizeof values, h->stream), "cuMemcpyHtoDAsync") &&
           check(h, d->sync(h->stream), "cuStreamSynchronize");
}

void by_hand_finish(by_hand *h) {
    if (!h->gpu)
        return;
    const cuda_driver *d = h->gpu->driver;
    for (unsigned slot = 0; slot < SYNC_DEPTH; ++slot)
        d->free(h->buffers[slot]);
    d->free(h->between);
    d->free(h->start);
    if (h->produced)
        d->event_destroy(h->produced);
    if (h->stream)
        d->stream_destroy(h->stream);
    *h = (by_hand) {0};
}

bool by_hand_produce(by_hand *h, const sync_work *w, unsigned slot, void *consumed, double tag) {
    cuda_address from = h->start;
    bool good = !consumed || check(h, h->gpu->driver->stream_wait(h->stream, consumed, 0),
                                   "cuStreamWaitEvent: the buffer is free");
    for (unsigned piece = 1; piece <= w->pieces && good; ++piece) {
        bool last = piece == w->pieces;
        good = sync_launch_produce(h->gpu, h->stream, from, last ? h->buffers[slot] : h->between,
                                   w->produced, last ? tag : -1);
        from = h->between;
    }
    return good;
}

bool by_hand_order(by_hand *h, void *consumer) {
    const cuda_driver *d = h->gpu->driver;
    return check(h, d->record(h->produced, h->stream), "cuEventRecord") &&
           check(h, d->stream_wait(consumer, h->produced, 0), "cuStreamWaitEvent");
}
