/* launch.c: one launch of a kernel.  Layer: tests. */
#include "order.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SMALL_ARGUMENTS = 4096, LARGE_ARGUMENTS = 32764, SINCE_LARGE = 12010 };

typedef struct running {
    sim_work work;
    sim_call call;
} running;

/** Are grid and block within the limits of the device and of the kernel? */
static CUresult check_size(const sim_launch *l, const sim_kernel *k) {
    for (int i = 0; i < 3; i++)
        if (l->grid[i] == 0 || l->block[i] == 0 || l->block[i] > 1024 ||
            l->grid[i] > (i == 0 ? 2147483647u : 65535u))
            return CUDA_ERROR_INVALID_VALUE;
    unsigned threads = l->block[0] * l->block[1] * l->block[2];
    if (threads > 1024 || l->block[2] > 64 || l->shared > (size_t) k->dynamic)
        return CUDA_ERROR_INVALID_VALUE;
    return threads > (unsigned) sim_kernel_threads(k) ? CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES
                                                      : CUDA_SUCCESS;
}

/** What `extra` says: the buffer with the arguments, of the size that the kernel has. */
static CUresult read_extra(const sim_kernel *k, void **extra, sim_launch *l) {
    const void *buffer = NULL;
    size_t size = SIZE_MAX;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(const size_t *) extra[1];
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (size != l->argument_bytes || (size > 0 && !buffer)) {
        sim_fault("kernel %s is launched with %zu bytes of arguments; it takes %zu", k->name, size,
                  l->argument_bytes);
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (size > 0)
        memcpy(l->arguments, buffer, size);
    return CUDA_SUCCESS;
}

/** The values that `params` points to, now. */
static void read_params(void **params, const sim_function *f, char *out) {
    const size_t *sizes, *offsets = sim_function_offsets(f);
    size_t count = sim_function_arguments(f, &sizes);
    for (size_t i = 0; i < count; i++)
        memcpy(out + offsets[i], params[i], sizes[i]);
}

static CUresult read_arguments(const CUDA_KERNEL_NODE_PARAMS *p, sim_call *c) {
    const size_t *sizes;
    sim_launch *l = &c->launch;
    size_t count = sim_function_arguments(l->function, &sizes);
    size_t most = sim_version() >= SINCE_LARGE ? LARGE_ARGUMENTS : SMALL_ARGUMENTS;
    l->argument_bytes =
        count > 0 ? sim_function_offsets(l->function)[count - 1] + sizes[count - 1] : 0;
    if (l->argument_bytes > most || (p->kernelParams && p->extra) ||
        (count > 0 && !p->kernelParams && !p->extra))
        return CUDA_ERROR_INVALID_VALUE;
    l->arguments = sim_new(l->argument_bytes + 16); /* never NULL */
    CUresult result = CUDA_SUCCESS;
    if (p->extra)
        result = read_extra(c->kernel, p->extra, l);
    else if (count > 0)
        read_params(p->kernelParams, l->function, l->arguments);
    if (result != CUDA_SUCCESS)
        sim_call_finish(c);
    return result;
}

CUresult sim_call_init(const CUDA_KERNEL_NODE_PARAMS *p, sim_call *out) {
    if (p->kern)
        return CUDA_ERROR_NOT_SUPPORTED;
    sim_kernel *k = sim_object_here(p->func, SIM_FUNCTION);
    if (!k || (p->ctx && p->ctx != sim_object_handle(k->object.context)))
        return CUDA_ERROR_INVALID_HANDLE;
    if (sim_kernel_load(k) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_HANDLE;
    *out = (sim_call) {.kernel = k,
                       .launch = {.function = k->function,
                                  .grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                                  .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                                  .shared = p->sharedMemBytes,
                                  .device = k->object.context->device},
                       .devices = 1u << k->object.context->device | k->object.context->peers};
    CUresult result = check_size(&out->launch, k);
    return result == CUDA_SUCCESS ? read_arguments(p, out) : result;
}

void sim_call_copy(const sim_call *from, sim_call *to) {
    *to = *from;
    to->launch.arguments = sim_new(from->launch.argument_bytes + 16);
    memcpy(to->launch.arguments, from->launch.arguments, from->launch.argument_bytes);
}

void sim_call_finish(sim_call *c) {
    free(c->launch.arguments);
    c->launch.arguments = NULL;
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t) t.tv_sec * 1000000u + (uint64_t) t.tv_nsec / 1000u;
}

static CUresult error_of(sim_result result) {
    switch (result) {
        case SIM_OK: return CUDA_SUCCESS;
        case SIM_ILLEGAL_ADDRESS: return CUDA_ERROR_ILLEGAL_ADDRESS;
        case SIM_MISALIGNED: return CUDA_ERROR_MISALIGNED_ADDRESS;
        case SIM_DEADLOCK: return CUDA_ERROR_LAUNCH_TIMEOUT;
        default: return CUDA_ERROR_LAUNCH_FAILED;
    }
}

CUresult sim_call_run(const sim_call *c) {
    char report[1024] = "";
    uint64_t start = now_us(), least = sim_kernel_time();
    sim_order_kernel(c->kernel->name);
    sim_memory_show(c->devices, c->launch.device);
    sim_result result = sim_run(&c->launch, report, sizeof report);
    sim_order_kernel_end();
    sim_memory_show_all();
    if (result != SIM_OK)
        sim_fault("%s", report);
    for (uint64_t spent; (spent = now_us() - start) < least;)
        usleep((useconds_t) (least - spent));
    return error_of(result);
}

static CUresult run(sim_work *w) {
    return sim_call_run(&((const running *) w)->call);
}

static void end(sim_work *w) {
    sim_call_finish(&((running *) w)->call);
}

bool sim_launch_take(sim_work *w, sim_call *out) {
    if (w->run != run)
        return false;
    *out = ((running *) w)->call;
    w->end = NULL;
    sim_work_free(w);
    return true;
}

CUresult sim_cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                            unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                            CUstream stream, void **params, void **extra) {
    CUDA_KERNEL_NODE_PARAMS p = {.func = function,
                                 .gridDimX = grid_x,
                                 .gridDimY = grid_y,
                                 .gridDimZ = grid_z,
                                 .blockDimX = block_x,
                                 .blockDimY = block_y,
                                 .blockDimZ = block_z,
                                 .sharedMemBytes = shared,
                                 .kernelParams = params,
                                 .extra = extra};
    sim_call call;
    sim_stream *s = sim_stream_find(stream);
    if (!s)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = sim_call_init(&p, &call);
    if (result != CUDA_SUCCESS)
        return result;
    running *w = sim_work_create(sizeof *w, "cuLaunchKernel", run);
    w->work.end = end;
    w->call = call;
    sim_submit(&w->work, s);
    return CUDA_SUCCESS;
}
