/* module.c: modules, their functions, and what a multiprocessor holds of them.  Layer: tests.
 *
 * As with a real driver (13.0) a module is loaded and unloaded, and a function is loaded, when all
 * is over that runs in the context. So is memory freed that did not come from a pool: pool.c. */
#include "state.h"
#include <string.h>

CUresult sim_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned options, int *option,
                                void **value) {
    if (!module || !image || (options > 0 && (!option || !value)))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = CUDA_ERROR_INVALID_IMAGE;
    sim_context *c = sim_current();
    sim_unlock(); /* compiling takes its time */
    sim_code *code = sim_code_from_image(image, sim_capability(), &result);
    sim_lock();
    if (!code)
        return result;
    sim_context_wait(c);
    if (c->object.life != SIM_ALIVE) {
        sim_code_free(code);
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    sim_module *m = sim_object_create(SIM_MODULE, sizeof *m, c);
    m->code = code;
    *module = sim_object_handle(m);
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleLoadData(CUmodule *module, const void *image) {
    return sim_cuModuleLoadDataEx(module, image, 0, NULL, NULL);
}

CUresult sim_cuModuleUnload(CUmodule module) {
    sim_module *m = sim_object_here(module, SIM_MODULE);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_object_end(m);
    for (sim_kernel *k = m->kernels; k; k = k->next)
        sim_object_end(k);
    sim_context_wait(m->object.context);
    sim_code_free(m->code);
    m->code = NULL;
    return CUDA_SUCCESS;
}

CUresult sim_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    if (!function || !name)
        return CUDA_ERROR_INVALID_VALUE;
    sim_module *m = sim_object_here(module, SIM_MODULE);
    if (!m)
        return CUDA_ERROR_INVALID_HANDLE;
    sim_function *f = sim_code_function(m->code, name);
    if (!f)
        return CUDA_ERROR_NOT_FOUND;
    sim_kernel *k = m->kernels;
    while (k && k->function != f)
        k = k->next;
    if (!k) {
        k = sim_object_create(SIM_FUNCTION, sizeof *k, m->object.context);
        k->object.implicit = true;
        k->module = m;
        k->function = f;
        k->dynamic = SIM_SHARED - (int) sim_function_shared(f);
        k->name = strdup(name);
        k->next = m->kernels;
        m->kernels = k;
    }
    *function = sim_object_handle(k);
    return CUDA_SUCCESS;
}

CUresult sim_cuFuncGetModule(CUmodule *module, CUfunction function) {
    const sim_kernel *k = sim_object_here(function, SIM_FUNCTION);
    if (!k || !module)
        return module ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_INVALID_VALUE;
    *module = sim_object_handle(k->module);
    return CUDA_SUCCESS;
}

CUresult sim_kernel_load(sim_kernel *k) {
    if (!k->loaded)
        sim_context_wait(k->object.context);
    k->loaded = true;
    return k->object.life == SIM_ALIVE ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sim_cuFuncLoad(CUfunction function) {
    sim_kernel *k = sim_object_here(function, SIM_FUNCTION);
    return k ? sim_kernel_load(k) : CUDA_ERROR_INVALID_HANDLE;
}

/** Registers that a warp takes: in units of 256. */
static int warp_registers(const sim_kernel *k) {
    int registers = (int) sim_function_registers(k->function);
    return (registers * 32 + 255) / 256 * 256;
}

int sim_kernel_threads(const sim_kernel *k) {
    int taken = warp_registers(k);
    int warps = taken ? SIM_REGISTERS / taken : 32;
    return (warps < 32 ? warps : 32) * 32;
}

CUresult sim_cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
    enum { CONSTANT_SIZE = 2, PTX_VERSION = 5, BINARY_VERSION = 6, CACHE_MODE = 7 };
    if (!value)
        return CUDA_ERROR_INVALID_VALUE;
    const sim_kernel *k = sim_object_here(function, SIM_FUNCTION);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    int shared = (int) sim_function_shared(k->function);
    switch (attribute) {
        case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *value = sim_kernel_threads(k); break;
        case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES: *value = shared; break;
        case CU_FUNC_ATTRIBUTE_NUM_REGS: *value = (int) sim_function_registers(k->function); break;
        case PTX_VERSION:
        case BINARY_VERSION: *value = sim_capability(); break;
        case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *value = k->dynamic; break;
        case CONSTANT_SIZE:
        case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        case CACHE_MODE: *value = 0; break;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/** Only the room for shared memory can be set: a kernel has to ask for more than the usual. */
CUresult sim_cuFuncSetAttribute(CUfunction function, int attribute, int value) {
    sim_kernel *k = sim_object_here(function, SIM_FUNCTION);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > SIM_SHARED_MOST - (int) sim_function_shared(k->function))
        return CUDA_ERROR_INVALID_VALUE;
    k->dynamic = value;
    return CUDA_SUCCESS;
}

static int least(int a, int b) {
    return a < b ? a : b;
}

CUresult sim_cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                         int threads, size_t shared) {
    if (!blocks || threads <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    const sim_kernel *k = sim_object_here(function, SIM_FUNCTION);
    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    int warps = (threads + 31) / 32, taken = warp_registers(k);
    size_t all_shared = shared + sim_function_shared(k->function);
    *blocks = least(SIM_BLOCKS, sim_device_threads() / 32 / warps);
    if (taken)
        *blocks = least(*blocks, SIM_REGISTERS / taken / warps);
    if (all_shared)
        *blocks = least(*blocks, (int) (SIM_SHARED_TOTAL / all_shared));
    if (threads > sim_kernel_threads(k) || shared > (size_t) k->dynamic)
        *blocks = 0;
    return CUDA_SUCCESS;
}
