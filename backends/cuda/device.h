/* device.h: the opened driver, its devices, their contexts and their failure.
 * Layer: cuda.  May include: core, ir, device.
 *
 * A device is opened when it is first used: its primary context is retained, never made or
 * configured. Work on it happens between enter and leave, which make the context current and bring
 * back the caller's. Between them the thread's capture mode is the relaxed one: somebody else may
 * capture a stream into a graph, and most of what we call would end that capture else, as nobody
 * can know that it has nothing to do with it. cuCtxSynchronize() would even so; it is not called.
 *
 * What a device could not run leaves results that are wrong, wherever they are used next. So a
 * failure of work that was queued is one of the device: from then on all that would read or launch
 * there fails. The first who hears of it is told all, others what it was in short. */
#ifndef JITC_CUDA_DEVICE_H
#define JITC_CUDA_DEVICE_H
#include "cuda/driver.h"
#include "cuda/nvrtc.h"
#include "cuda/staging.h"
#include "device/backend.h"

typedef struct jitc_cuda_backend jitc_cuda_backend;
typedef struct jitc_cuda_stream jitc_cuda_stream;
typedef struct jitc_cuda_code jitc_cuda_code;
typedef struct jitc_cuda_kernel jitc_cuda_kernel;
typedef struct jitc_cuda_calls jitc_cuda_calls;
typedef struct jitc_cuda_rest jitc_cuda_rest;

/** Where blocks come from: a pool of the driver, or, where that has none, cuMemAlloc(). */
typedef struct jitc_cuda_pool {
    jitc_mutex lock;           /* guards creation */
    atomic_bool decided;       /* the following are set once it is */
    CUmemoryPool handle;       /* NULL: none */
    CUstream stream;           /* for allocations; nothing that takes time is ever on it */
    CUstream frees;            /* a blocking one: others' work on the legacy stream comes before */
    CUevent event;             /* behind the last allocation that was not over at once */
    _Atomic uint64_t recorded; /* how often the event was; written under the lock */
    atomic_bool shared;        /* other devices have been given access; likewise */
} jitc_cuda_pool;

typedef struct jitc_cuda_device {
    jitc_cuda_backend *backend;
    int ordinal;
    atomic_bool opened; /* the following are set once it is */
    CUdevice device;
    CUcontext context;
    int multiprocessors, capability;       /* 90 for 9.0 */
    int block_bytes, multiprocessor_bytes; /* of the memory of a block: at most, of all together */
    int arch;                              /* that code is compiled for */
    bool ptx;                              /* and the driver has to finish it */
    uint32_t most_bytes;                   /* of a kernel's arguments */
    jitc_target target;
    jitc_cuda_pool pool;
    jitc_cuda_staging staging;
    jitc_cuda_rest *rest;      /* blocks stay, and with them pool and context: detach.h; or NULL */
    _Atomic uint64_t loaded;   /* how many codes were */
    _Atomic uint64_t unloads;  /* how often some were unloaded */
    jitc_mutex lock;           /* guards opening and the following */
    jitc_cuda_stream *streams; /* of the device */
    jitc_cuda_code *retired;   /* to be unloaded when the device is idle */
    atomic_uint stream_count;  /* written under the lock */
    atomic_bool has_retired;   /* likewise */
    jitc_error failure, later; /* these and `cause` are valid once `failed`: what is said first, */
    atomic_bool told;          /* once, and afterwards */
    CUresult cause;
    atomic_bool failed; /* its work has failed */
    atomic_bool lost;   /* and its context is gone with all that was made in it */
} jitc_cuda_device;

struct jitc_cuda_backend {
    jitc_backend base;
    jitc_cuda cuda;
    jitc_nvrtc *nvrtc;
    const jitc_options *options;
    bool has_graphs; /* the driver */
    bool forked;     /* this process was made by fork(): the driver is not there */
    jitc_cuda_calls *calls;
    int device_count;
    jitc_cuda_device device[];
};

static inline jitc_cuda_backend *jitc_cuda_backend_of(jitc_backend *b) {
    return (jitc_cuda_backend *) b; /* its first member */
}

void jitc_cuda_device_init(jitc_cuda_device *d, jitc_cuda_backend *b, int ordinal);
/** Gives the context back; all that was made in it has been destroyed. */
void jitc_cuda_device_finish(jitc_cuda_device *d);
/** The device, opened on the first call. JIT_UNAVAILABLE, JIT_DEVICE_FAILED. */
jit_status jitc_cuda_device_get(jitc_backend *b, int ordinal, jitc_cuda_device **out);

/** What a thread had before it entered. */
typedef struct jitc_cuda_scope {
    bool entered; /* the exit of the process waits */
    bool pushed;  /* the context, on the thread's stack */
    bool relaxed; /* `mode` is what the thread's capture mode was */
    int mode;
} jitc_cuda_scope;

/** Take `context`, which is current, off the thread's stack. */
void jitc_cuda_pop(const jitc_cuda *c, CUcontext context);
/** Make the context current; the scope goes to leave. Fails if the device has failed. */
jit_status jitc_cuda_enter(jitc_cuda_device *d, jitc_cuda_scope *scope);
/** The same to end things and to look at them: also on a device that has failed. False if the
 *  context is gone, and nothing can be ended in it. */
bool jitc_cuda_enter_failed(jitc_cuda_device *d, jitc_cuda_scope *scope);
void jitc_cuda_leave(jitc_cuda_device *d, const jitc_cuda_scope *scope);

/** Return the value of `expression`, with the context of device `d` current in it. */
#define INSIDE(d, expression)                                                                      \
    do {                                                                                           \
        jitc_cuda_device *device_ = (d);                                                           \
        jitc_cuda_scope scope_;                                                                    \
        TRY(jitc_cuda_enter(device_, &scope_));                                                    \
        jit_status status_ = (expression);                                                         \
        jitc_cuda_leave(device_, &scope_);                                                         \
        return status_;                                                                            \
    } while (0)

/** After such an error a context runs nothing any more. */
bool jitc_cuda_is_final(CUresult result);
/** Note that work of the device has failed, unless that is known already. `what` it was, which may
 *  be "", goes into the text behind the driver's words. */
void jitc_cuda_device_fail(jitc_cuda_device *d, CUresult result, jitc_cuda_function f,
                           const char *what);
/** Raise the failure of a device that has failed. */
jit_status jitc_cuda_device_raise(jitc_cuda_device *d);
/** As jitc_cuda_check(), and a final error, which earlier work may have caused, fails the device.
 */
jit_status jitc_cuda_device_check(jitc_cuda_device *d, CUresult result, jitc_cuda_function f);

/** The process is the child of one that used the devices: they fail, and the driver is not called
 *  any more. The only thread calls it. */
void jitc_cuda_device_forked(jitc_cuda_device *d);
/** What calls get there. JIT_UNAVAILABLE. */
jit_status jitc_cuda_fail_forked(void);

/** Memory, valid on all streams; the context is current. */
jit_status jitc_cuda_alloc(jitc_cuda_device *d, size_t bytes, void **out);
/** Its last use is over. Waits for nothing, where the driver has pools. */
void jitc_cuda_free(jitc_cuda_device *d, void *pointer);
/** Give what jitc_cuda_free() has kept back to the system. */
void jitc_cuda_trim(jitc_cuda_device *d);
/** Let other devices reach all blocks, also those to come; to be called once. Some exist already.
 */
void jitc_cuda_share(jitc_cuda_device *d);
/** What memory of others is at an address. */
jit_status jitc_cuda_look_up(jitc_cuda_device *d, const void *pointer, jitc_address *out);
/** All blocks have been freed, or belong to d->rest, which then has the pool. */
void jitc_cuda_pool_finish(jitc_cuda_device *d);
#endif
