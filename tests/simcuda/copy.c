/* copy.c: copies and fills.  Layer: tests.
 *
 * Pageable memory that is read is read in the call, as the real driver stages it; pinned memory,
 * and all memory that is written, when the copy runs. */
#include "order.h"
#include <stdlib.h>
#include <string.h>

typedef struct copy {
    sim_work work;
    uint64_t to, from; /* of devices or pinned, or pageable: */
    bool from_pageable, to_pageable;
    bool between; /* devices, both of which are named */
    void *staged; /* what is read, if not `from` */
    size_t bytes;
} copy;

typedef struct fill {
    sim_work work;
    uint64_t to;
    unsigned value;
    size_t width, count;
} fill;

/** Where `bytes` bytes at `address` can be reached; NULL and a fault that names `what`. */
static void *reach(const char *what, const char *side, uint64_t address, size_t bytes) {
    void *found = sim_reach(address, bytes);
    if (found)
        return found;
    char text[256];
    sim_describe(address, text, sizeof text);
    sim_fault("%s: %s of %zu bytes out of bounds: %s", what, side, bytes, text);
    return NULL;
}

static CUresult run_copy(sim_work *w) {
    const copy *c = (const copy *) w;
    const void *from = c->staged          ? c->staged
                       : c->from_pageable ? (const void *) (uintptr_t) c->from
                                          : reach(w->what, "source", c->from, c->bytes);
    void *to = c->to_pageable ? (void *) (uintptr_t) c->to
                              : reach(w->what, "destination", c->to, c->bytes);
    if (!from || !to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    if (!c->staged && !c->from_pageable)
        sim_order_range(c->from, c->bytes, SIM_READ);
    if (!c->to_pageable)
        sim_order_range(c->to, c->bytes, SIM_WRITE);
    memmove(to, from, c->bytes);
    return CUDA_SUCCESS;
}

static void end_copy(sim_work *w) {
    free(((copy *) w)->staged);
}

/** Is it memory that the driver knows nothing of? */
static bool is_pageable(uint64_t address) {
    return !sim_memory_is_device(address) && !sim_reach(address, 1);
}

static bool reaches(const char *what, const copy *c, bool from_pageable) {
    return (from_pageable || reach(what, "source", c->from, c->bytes)) &&
           (c->to_pageable || reach(what, "destination", c->to, c->bytes));
}

/** Is it memory that streams of that device may use? */
static bool is_open(const sim_stream *s, uint64_t address) {
    return sim_memory_is_open(address, s->object.context->device);
}

/** Queue a copy; *out: where. */
static CUresult submit(const char *what, copy c, bool from_pageable, CUstream stream,
                       sim_point *out) {
    sim_stream *s = sim_stream_find(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = sim_stream_end(s);
    if (c.bytes == 0)
        return CUDA_SUCCESS;
    if (!reaches(what, &c, from_pageable) ||
        !(c.between || (is_open(s, c.to) && is_open(s, c.from))))
        return CUDA_ERROR_INVALID_VALUE;
    copy *w = sim_work_create(sizeof *w, what, run_copy);
    c.work = w->work;
    *w = c;
    w->work.end = end_copy;
    w->from_pageable = from_pageable;
    if (from_pageable && !s->capture) { /* of a graph: at every launch */
        w->staged = sim_new(c.bytes);
        memcpy(w->staged, (const void *) (uintptr_t) c.from, c.bytes);
    }
    *out = sim_submit(&w->work, s);
    return CUDA_SUCCESS;
}

static CUresult to_device(const char *what, CUdeviceptr to, const void *from, size_t bytes,
                          CUstream stream, sim_point *out) {
    copy c = {.to = to, .from = (uintptr_t) from, .bytes = bytes};
    if (sim_memory_is_device(c.from)) {
        sim_fault("%s: the source is memory of a device", what);
        return CUDA_ERROR_INVALID_VALUE;
    }
    return submit(what, c, is_pageable(c.from), stream, out);
}

static CUresult to_host(const char *what, void *to, CUdeviceptr from, size_t bytes, CUstream stream,
                        sim_point *out) {
    copy c = {.to = (uintptr_t) to, .from = from, .bytes = bytes};
    if (sim_memory_is_device(c.to)) {
        sim_fault("%s: the destination is memory of a device", what);
        return CUDA_ERROR_INVALID_VALUE;
    }
    c.to_pageable = is_pageable(c.to);
    return submit(what, c, false, stream, out);
}

static CUresult anywhere(const char *what, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                         CUstream stream, sim_point *out) {
    copy c = {.to = to, .from = from, .to_pageable = is_pageable(to), .bytes = bytes};
    return submit(what, c, is_pageable(from), stream, out);
}

static CUresult within(const char *what, CUdeviceptr to, CUdeviceptr from, size_t bytes,
                       CUstream stream) {
    sim_point point;
    copy c = {.to = to, .from = from, .bytes = bytes};
    return submit(what, c, false, stream, &point);
}

CUresult sim_copy_between(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    sim_point point;
    copy c = {.to = to, .from = from, .between = true, .bytes = bytes};
    return submit("cuMemcpyPeerAsync", c, false, stream, &point);
}

/** Of a point where its stream stands. */
static sim_clock *clock_at(sim_point p) {
    return p.stream ? p.stream->clock : NULL;
}

static CUresult waited(CUresult result, sim_point point) {
    return result == CUDA_SUCCESS ? sim_order_wait(point, clock_at(point), sim_current()) : result;
}

CUresult sim_cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    sim_point point;
    return to_device("cuMemcpyHtoDAsync", to, from, bytes, stream, &point);
}

CUresult sim_cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    sim_point point;
    return to_host("cuMemcpyDtoHAsync", to, from, bytes, stream, &point);
}

CUresult sim_cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return within("cuMemcpyDtoDAsync", to, from, bytes, stream);
}

CUresult sim_cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    sim_point point;
    return anywhere("cuMemcpyAsync", to, from, bytes, stream, &point);
}

/* Copies that are said to wait: only what the host reads has arrived when they return. */

CUresult sim_cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    sim_point point;
    bool staged = is_pageable((uintptr_t) from);
    CUresult result = to_device("cuMemcpyHtoD", to, from, bytes, stream, &point);
    return staged ? result : waited(result, point);
}

CUresult sim_cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    sim_point point;
    return waited(to_host("cuMemcpyDtoH", to, from, bytes, stream, &point), point);
}

CUresult sim_cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    return within("cuMemcpyDtoD", to, from, bytes, stream);
}

CUresult sim_cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    sim_point point;
    return waited(anywhere("cuMemcpy", to, from, bytes, stream, &point), point);
}

/* ---- fills ---- */

static CUresult run_fill(sim_work *w) {
    const fill *f = (const fill *) w;
    char *to = reach(w->what, "destination", f->to, f->width * f->count);
    if (!to)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
    sim_order_range(f->to, f->width * f->count, SIM_WRITE);
    for (size_t i = 0; i < f->count; i++)
        memcpy(to + i * f->width, &f->value, f->width); /* the low bytes */
    return CUDA_SUCCESS;
}

static CUresult set(fill f, CUstream stream) {
    sim_stream *s = sim_stream_find(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    if (f.to % f.width != 0 || f.count > SIZE_MAX / f.width)
        return CUDA_ERROR_INVALID_VALUE;
    if (f.count == 0)
        return CUDA_SUCCESS;
    if (!reach("cuMemset", "destination", f.to, f.width * f.count) || !is_open(s, f.to))
        return CUDA_ERROR_INVALID_VALUE;
    fill *w = sim_work_create(sizeof *w, "cuMemset", run_fill);
    f.work = w->work;
    *w = f;
    sim_submit(&w->work, s);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return set((fill) {.to = to, .value = value, .width = 1, .count = count}, stream);
}

CUresult sim_cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
    return set((fill) {.to = to, .value = value, .width = 2, .count = count}, stream);
}

CUresult sim_cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    return set((fill) {.to = to, .value = value, .width = 4, .count = count}, stream);
}

CUresult sim_cuMemsetD8_v2(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
    return sim_cuMemsetD8Async(to, value, count, stream);
}

CUresult sim_cuMemsetD16_v2(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
    return sim_cuMemsetD16Async(to, value, count, stream);
}

CUresult sim_cuMemsetD32_v2(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
    return sim_cuMemsetD32Async(to, value, count, stream);
}
