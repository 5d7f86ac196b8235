/* peer.c: what devices do with each other's memory, and memory pools.  Layer: tests. */
#include "state.h"

/* ---- peers ---- */

CUresult sim_cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer) {
    if (!can)
        return CUDA_ERROR_INVALID_VALUE;
    if (sim_device_check(device) != CUDA_SUCCESS || sim_device_check(peer) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    *can = device != peer;
    return CUDA_SUCCESS;
}

/** The context of a handle, alive; or NULL. */
static sim_context *find_context(CUcontext handle) {
    sim_context *c = sim_object_find(handle, SIM_CONTEXT);
    return c && c->object.life == SIM_ALIVE ? c : NULL;
}

CUresult sim_cuCtxEnablePeerAccess(CUcontext peer, unsigned flags) {
    const sim_context *p = find_context(peer);
    sim_context *c = sim_current();
    if (!p || p == c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->device == c->device)
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (c->peers & 1u << p->device)
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    c->peers |= 1u << p->device;
    return CUDA_SUCCESS;
}

CUresult sim_cuCtxDisablePeerAccess(CUcontext peer) {
    const sim_context *p = find_context(peer);
    sim_context *c = sim_current();
    if (!p)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!(c->peers & 1u << p->device))
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    c->peers &= ~(1u << p->device);
    return CUDA_SUCCESS;
}

/** Is `address` memory of the device of that context? Other memory is a fault. */
static bool is_of(CUcontext context, CUdeviceptr address, const char *side) {
    const sim_context *c = find_context(context);
    const sim_allocation *block = sim_memory_at(address);
    if (c && block && block->live && block->context->device == c->device)
        return true;
    sim_fault("cuMemcpyPeerAsync: the %s is no memory of the given context", side);
    return false;
}

/* Peer access makes it faster, no more, and access to pools is not needed. */
CUresult sim_cuMemcpyPeerAsync(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                               CUcontext from_context, size_t bytes, CUstream stream) {
    return is_of(to_context, to, "destination") && is_of(from_context, from, "source")
               ? sim_copy_between(to, from, bytes, stream)
               : CUDA_ERROR_INVALID_VALUE;
}

/* ---- memory pools ---- */

/* Pools keep nothing. That of a device has a number as its handle; others were made. `access`: bits
 * of the other devices whose work may use what comes from it, whenever it came. */
enum { DEFAULT_POOL = 0x900 };

typedef struct sim_pool {
    sim_object object;
    int device;
    _Atomic unsigned access;
} sim_pool;

static _Atomic unsigned default_access[SIM_DEVICES];

const _Atomic unsigned *sim_pool_access(int device) {
    return &default_access[device];
}

static bool is_default(CUmemoryPool pool) {
    uintptr_t number = (uintptr_t) pool - DEFAULT_POOL;
    return number < SIM_DEVICES && sim_device_check((int) number) == CUDA_SUCCESS;
}

/** Who may access a pool; NULL and a fault if it is none. */
static _Atomic unsigned *access_of(CUmemoryPool pool) {
    if (is_default(pool))
        return &default_access[(uintptr_t) pool - DEFAULT_POOL];
    sim_pool *p = sim_object_find(pool, SIM_POOL);
    return p ? &p->access : NULL;
}

/** The device of a pool, or -1 and a fault. */
static int device_of(CUmemoryPool pool) {
    if (is_default(pool))
        return (int) ((uintptr_t) pool - DEFAULT_POOL);
    const sim_pool *p = sim_object_find(pool, SIM_POOL);
    return p ? p->device : -1;
}

CUresult sim_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    *pool = (CUmemoryPool) (uintptr_t) (DEFAULT_POOL + device);
    return sim_device_check(device);
}

CUresult sim_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    enum { PINNED = 1, ON_DEVICE = 1 };
    if (!pool || !props || props->allocType != PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (props->handleTypes != 0 || props->location.type != ON_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (sim_device_check(props->location.id) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_DEVICE;
    /* It goes with the context: resetting that ends all that the process has on the device. */
    sim_pool *p = sim_object_create(SIM_POOL, sizeof *p, sim_current());
    p->device = props->location.id;
    *pool = sim_object_handle(p);
    return CUDA_SUCCESS;
}

/* What was allocated from it stays. */
CUresult sim_cuMemPoolDestroy(CUmemoryPool pool) {
    sim_pool *p = is_default(pool) ? NULL : sim_object_find(pool, SIM_POOL);
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    sim_object_end(p);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemAllocFromPoolAsync(CUdeviceptr *pointer, size_t bytes, CUmemoryPool pool,
                                     CUstream stream) {
    int device = device_of(pool);
    if (device < 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (device != sim_current()->device)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = sim_cuMemAllocAsync(pointer, bytes, stream);
    if (result == CUDA_SUCCESS)
        sim_memory_at(*pointer)->access = access_of(pool);
    return result;
}

/** All or nothing; and the pool's own device cannot be locked out. */
static bool is_access(const CUmemAccessDesc *map, int device) {
    return map->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE ||
           (map->flags == 0 && map->location.id != device);
}

CUresult sim_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
    int device = device_of(pool);
    if (device < 0 || !map || count == 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++)
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            sim_device_check(map[i].location.id) != CUDA_SUCCESS)
            return CUDA_ERROR_INVALID_DEVICE;
        else if (!is_access(&map[i], device))
            return CUDA_ERROR_INVALID_VALUE;
    _Atomic unsigned *access = access_of(pool);
    for (size_t i = 0; i < count; i++)
        if (map[i].flags)
            *access |= 1u << map[i].location.id;
        else
            *access &= ~(1u << map[i].location.id);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
    enum { RELEASE_THRESHOLD = 4 };
    bool good = device_of(pool) >= 0 && value;
    return good && attribute <= RELEASE_THRESHOLD ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_cuMemPoolGetAttribute(CUmemoryPool pool, int attribute, void *value) {
    enum { RESERVED = 5, USED = 7 };
    int device = device_of(pool);
    if (device < 0 || !value || (attribute != RESERVED && attribute != USED))
        return CUDA_ERROR_INVALID_VALUE;
    *(uint64_t *) value = sim_memory_used(device);
    return CUDA_SUCCESS;
}

CUresult sim_cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
    (void) keep;
    return device_of(pool) >= 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
