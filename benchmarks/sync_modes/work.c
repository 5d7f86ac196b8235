/* work.c: see work.h.
 * Layer: benchmarks. May include: <jit/jit.h>. */
#include "sync_modes/work.h"
#include "bench.h"

#include <math.h>
#include <stdio.h>

enum { MOST_BITS = 2000, BLOCK = 128, MOST_CALLS = 512 };
static const double unit = 0x1p-1000, fill_ns = 4e6;

/* For NVRTC; the simulated one brings KERNEL, DEV, LD and ST along. */
static const char text[] =
    "#ifdef __CUDACC_RTC__\n"
    "#define KERNEL extern \"C\" __global__\n"
    "#define DEV static __device__ __forceinline__\n"
    "#define LD(p) (*(p))\n"
    "#define ST(p, v) (*(p) = (v))\n"
    "#endif\n"
    "typedef unsigned int u32; typedef double f64;\n"
    "DEV f64 work(f64 v, u32 count, f64 low, f64 high, f64 three) {\n"
    "    for (u32 k = 0; k < count; ++k) v = fmod(v * low * high, three);\n"
    "    return v;\n"
    "}\n"
    "KERNEL void produce(const f64 *from, f64 *to, u32 n, u32 count, f64 low, f64 high, f64 "
    "three,\n"
    "                    f64 scale, f64 tag) {\n"
    "    u32 i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) ST(to + i, work(LD(from + i), count, low, high, three) * scale + tag);\n"
    "}\n"
    "KERNEL void consume(const f64 *from, u32 *stale, u32 n, u32 count, f64 low, f64 high,\n"
    "                    f64 three, f64 unit, f64 tag) {\n"
    "    u32 i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    "    if (i < n) {\n"
    "        f64 right = tag + 1.0 + (f64) (i & 1);\n"
    "        f64 v = LD(from + i);\n"
    "        if (v != right) atomicAdd(stale, 1u);\n"
    "        v = work(v == right ? unit : unit + unit, count, low, high, three);\n"
    "        if (v >= three) atomicAdd(stale, n);\n"
    "    }\n"
    "}\n";

bool sync_failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, jit_error());
    jit_error_clear();
    return false;
}

bool sync_gpu_open(sync_gpu *g) {
    *g = (sync_gpu) {.device = cuda_device_open()};
    if (!g->device)
        return false;
    const cuda_driver *d = g->driver = cuda_device_driver(g->device);
    g->context = cuda_device_context(g->device);
    if (cuda_driver_check(d, d->push(g->context), "cuCtxPushCurrent") &&
        cuda_driver_compile(d, cuda_device_number(g->device), text, &g->module) &&
        cuda_driver_check(d, d->function(&g->produce, g->module, "produce"), "produce") &&
        cuda_driver_check(d, d->function(&g->consume, g->module, "consume"), "consume"))
        return true;
    sync_gpu_close(g);
    return false;
}

void sync_gpu_close(sync_gpu *g) {
    void *context;
    if (!g->device)
        return;
    if (g->module)
        g->driver->module_unload(g->module);
    g->driver->pop(&context);
    cuda_device_close(g->device);
    *g = (sync_gpu) {0};
}

static bool launch(const sync_gpu *g, void *function, const char *name, void *stream,
                   void **parameters) {
    unsigned grid = (SYNC_ELEMENTS + BLOCK - 1) / BLOCK;
    return cuda_driver_check(
        g->driver,
        g->driver->launch(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, parameters, NULL), name);
}

/* 2^bits as a product, because 2^2000 is no double. */
static double low_half(unsigned bits) {
    return ldexp(1, (int) (bits / 2));
}

static double high_half(unsigned bits) {
    return ldexp(1, (int) (bits - bits / 2));
}

bool sync_launch_produce(const sync_gpu *g, void *stream, cuda_address from, cuda_address to,
                         sync_loop loop, double tag) {
    unsigned n = SYNC_ELEMENTS;
    double low = low_half(loop.bits), high = high_half(loop.bits), three = 3 * unit;
    double scale = tag < 0 ? 1 : 1 / unit, offset = tag < 0 ? 0 : tag;
    void *parameters[] = {&from, &to, &n, &loop.count, &low, &high, &three, &scale, &offset};
    return launch(g, g->produce, "cuLaunchKernel: produce", stream, parameters);
}

bool sync_launch_consume(const sync_gpu *g, void *stream, cuda_address from, cuda_address stale,
                         sync_loop loop, double tag) {
    unsigned n = SYNC_ELEMENTS;
    double low = low_half(loop.bits), high = high_half(loop.bits), three = 3 * unit;
    double one = unit;
    void *parameters[] = {&from, &stale, &n, &loop.count, &low, &high, &three, &one, &tag};
    return launch(g, g->consume, "cuLaunchKernel: consume", stream, parameters);
}

void sync_fill_start(double *values) {
    for (unsigned i = 0; i < SYNC_ELEMENTS; ++i)
        values[i] = (i & 1 ? 2 : 1) * unit;
}

jit_var sync_work_start(void) {
    double values[SYNC_ELEMENTS];
    sync_fill_start(values);
    jit_var start = jit_from_host(JIT_CUDA, JIT_f64, values, SYNC_ELEMENTS);
    if (!start)
        sync_failed("the array that work starts from");
    return start;
}

/* Evaluates a chain. A new reference in the scope that is open. */
static jit_var trace_chain(jit_var v, sync_loop loop, double tag) {
    jit_var low = jit_f64(JIT_CUDA, low_half(loop.bits));
    jit_var high = jit_f64(JIT_CUDA, high_half(loop.bits));
    jit_var three = jit_f64(JIT_CUDA, 3 * unit);
    for (unsigned k = 0; k < loop.count; ++k)
        v = jit_mod(jit_mul(jit_mul(v, low), high), three);
    if (tag >= 0)
        v = jit_add(jit_mul(v, jit_f64(JIT_CUDA, 1 / unit)), jit_f64(JIT_CUDA, tag));
    return jit_var_eval(v) == JIT_OK ? v : 0;
}

jit_var sync_work_trace(const sync_work *w, jit_var start, double tag) {
    jit_var v = start;
    jit_scope_push();
    for (unsigned piece = 1; piece <= w->pieces && v; ++piece)
        v = trace_chain(v, w->traced, piece < w->pieces ? -1 : tag);
    if (jit_scope_pop(v != 0, &v) != JIT_OK || !v)
        sync_failed("producing");
    return v;
}

/* ---- calibration ---- */

/* One way to run a loop many times. */
typedef struct trial {
    const sync_gpu *gpu;
    jit_var start; /* 0: the kernel written by hand */
    cuda_address from, to;
} trial;

static bool run_once(const trial *t, sync_loop loop) {
    if (!t->start)
        return sync_launch_produce(t->gpu, NULL, t->from, t->to, loop, 0);
    jit_var v = sync_work_trace(&(sync_work) {.pieces = 1, .traced = loop}, t->start, 0);
    jit_unref(v);
    return v != 0;
}

static bool wait_for(const trial *t) {
    return cuda_driver_check(t->gpu->driver, t->gpu->driver->sync(NULL), "cuStreamSynchronize") &&
           (!t->start || jit_sync_thread() == JIT_OK || sync_failed("waiting"));
}

/* Nanoseconds of a kernel, many back to back: the least of some trials. Negative on failure. */
static double time_loop(const trial *t, sync_loop loop) {
    double least = -1;
    unsigned calls = 1;
    for (int enough = 0; enough < 4;) {
        double start = bench_now();
        for (unsigned i = 0; i < calls; ++i)
            if (!run_once(t, loop))
                return -1;
        if (!wait_for(t))
            return -1;
        double elapsed = bench_now() - start, each = elapsed / calls;
        if (elapsed < fill_ns && calls < MOST_CALLS)
            calls *= 2;
        else
            ++enough, least = least < 0 || each < least ? each : least;
    }
    return least;
}

/* Nanoseconds of a bit. What a kernel takes beyond its operations cancels out. Anew where the
 * machine was disturbed so much that more work took less time. */
static bool time_bit(const trial *t, unsigned count, double *out) {
    for (int i = 0; i < 5; ++i) {
        double many = time_loop(t, (sync_loop) {count, MOST_BITS});
        double few = many < 0 ? -1 : time_loop(t, (sync_loop) {count, MOST_BITS / 2});
        if (few < 0)
            return false;
        *out = (many - few) / (double) (MOST_BITS / 2) / count;
        if (*out > 0)
            return true;
    }
    fprintf(stderr, "calibration: twice the work of %u operations takes no longer\n", count);
    return false;
}

/* A GPU that has rested is slow for a while. */
static bool wake(const trial *t) {
    double end = bench_now() + 300e6, ns = 0;
    while (ns >= 0 && bench_now() < end)
        ns = time_loop(t, (sync_loop) {SYNC_LONGEST_CHAIN, MOST_BITS});
    return ns >= 0;
}

static bool calibrate(sync_gpu *g, trial *t) {
    double values[SYNC_ELEMENTS];
    sync_fill_start(values);
    bool good =
        cuda_driver_check(g->driver, g->driver->upload(t->from, values, sizeof values, NULL),
                          "cuMemcpyHtoDAsync") &&
        wake(t) && time_bit(t, SYNC_LONGEST_CHAIN, &g->written_ns);
    t->start = good ? sync_work_start() : 0;
    good = t->start != 0;
    for (unsigned count = 1; count <= SYNC_LONGEST_CHAIN && good; count *= 2)
        good = time_bit(t, count, &g->traced_ns[count]);
    jit_unref(t->start);
    return good;
}

bool sync_gpu_calibrate(sync_gpu *g) {
    const cuda_driver *d = g->driver;
    size_t bytes = SYNC_ELEMENTS * sizeof(double);
    trial t = {.gpu = g};
    bool good = cuda_driver_check(d, d->alloc(&t.from, bytes), "cuMemAlloc") &&
                cuda_driver_check(d, d->alloc(&t.to, bytes), "cuMemAlloc") && calibrate(g, &t);
    if (!good)
        g->written_ns = 0;
    d->free(t.from);
    d->free(t.to);
    return good;
}

/* The shortest loop of `ns` nanoseconds. Even bits: see work.h. */
static sync_loop loop_of(double ns, double bit_ns, unsigned count) {
    double bits = ns / bit_ns;
    if (count == 0)
        count = (unsigned) (bits / (double) MOST_BITS) + 1;
    unsigned each = 2 * (unsigned) (bits / count / 2 + 0.5);
    return (sync_loop) {count, each < 2 ? 2 : each};
}

sync_work sync_work_of(const sync_gpu *g, double microseconds) {
    double ns = microseconds * 1e3;
    const double most = MOST_BITS;
    unsigned count = 1;
    if (g->written_ns <= 0)
        return (sync_work) {microseconds, 1, {1, 2}, {1, 2}, {1, 2}};
    while (count < SYNC_LONGEST_CHAIN && ns > count * most * g->traced_ns[count])
        count *= 2;
    unsigned pieces = 1 + (unsigned) (ns / (count * most * g->traced_ns[count]));
    sync_work w = {.microseconds = microseconds, .pieces = pieces};
    w.traced = loop_of(ns / pieces, g->traced_ns[count], count);
    /* Of the others, what this library's kernels take in the end. */
    ns = pieces * count * w.traced.bits * g->traced_ns[count];
    w.produced = loop_of(ns / pieces, g->written_ns, 0);
    w.consumed = loop_of(ns, g->written_ns, 0);
    return w;
}
