/* runtime.h: the one runtime of the process, and what each thread keeps of it.
 * Layer: api.  May include: all layers. */
#ifndef JITC_API_RUNTIME_H
#define JITC_API_RUNTIME_H
#include "cache/cache.h"
#include "device/device.h"
#include "schedule/schedule.h"
#include "trace/graph.h"
#include <jit/jit.h>

enum { JITC_BACKENDS = 2 }; /* index: JIT_CUDA → 0, JIT_LLVM → 1 */

/** One backend that was started. */
typedef struct jitc_started {
    jitc_backend *backend; /* NULL: not there */
    int devices;
    _Atomic(jitc_device *) device[JITC_MAX_DEVICES]; /* opened on first use */
} jitc_started;

typedef struct jitc_counters {
    _Atomic uint64_t evaluations, launches;
} jitc_counters;

typedef struct jit_runtime {
    _Atomic(jitc_graph *) graph; /* NULL unless started */
    jitc_mutex lock;             /* starting and stopping, opening devices, the list of threads */
    unsigned starts;             /* jit_init() calls that jit_shutdown() has not undone */
    bool options_read;
    bool forks; /* fork() calls fork.c */
    jitc_options options;
    jitc_cache *cache;
    jitc_started started[JITC_BACKENDS];
    struct jitc_thread *threads;
    struct jitc_thread *orphans; /* records of threads that a fork() did not bring along */
    int leaving;                 /* threads that are ending and still use the graph ... */
    pthread_cond_t left;         /* ... and none does any more */
    jitc_counters counters;
    jitc_mutex events_lock; /* guards the list of events; held briefly */
    jit_event *events;
    pthread_cond_t events_left; /* a call let go of an event that has ended */
    /* Evaluations that met a claimed node sleep until `settled` has moved. */
    jitc_mutex settle_lock;
    pthread_cond_t settle;
    _Atomic uint64_t settled;
    atomic_int settle_waiters;
} jit_runtime;

/** The only mutable object of static storage in the library, but for the error of each thread. */
extern jit_runtime jitc_runtime;

/** What a thread uses of a device. */
typedef struct jitc_thread_state {
    jitc_device *device; /* NULL: not used yet */
    jitc_stream *stream;
} jitc_thread_state;

/** What a thread keeps: made on its first call, given up when it ends. */
typedef struct jitc_thread {
    struct jitc_thread *next, *previous; /* in the runtime's list */
    int current[JITC_BACKENDS];          /* device of new variables */
    int used[JITC_BACKENDS];             /* 1 + the last device of which it has a state */
    jitc_thread_state state[JITC_BACKENDS][JITC_MAX_DEVICES];
    uint32_t *scheduled; /* nodes, each held */
    size_t scheduled_count, scheduled_capacity;
    struct jitc_loop *loops; /* that are being recorded, the innermost first; see loop.h */
    bool evaluating;         /* the list and what follows are in use */
    bool collecting;         /* it calls releases of memory that was given back */
    jitc_plan plan;          /* scratch */
    uint64_t *params;        /* scratch */
    size_t param_capacity;
    struct jitc_access *access; /* scratch */
    size_t access_capacity;
    const jitc_program **programs; /* scratch */
    size_t program_capacity;
    jitc_cached **kernels; /* scratch */
    size_t kernel_capacity;
} jitc_thread;

static inline int jitc_backend_index(jit_backend b) {
    return b == JIT_CUDA ? 0 : b == JIT_LLVM ? 1 : -1;
}

jit_status jitc_api_not_started(const char *function);
/** The graph, or NULL after jitc_fail(JIT_NOT_INITIALIZED). */
static inline jitc_graph *jitc_api_graph(const char *function) {
    jitc_graph *g = jitc_load_acquire(&jitc_runtime.graph); /* pairs with jit_init */
    if (__builtin_expect(!g, 0))
        jitc_api_not_started(function);
    return g;
}
/** Status for a handle that names nothing: that of the call that made it 0, if it is 0. */
static inline jit_status jitc_api_bad_handle(jit_var v) {
    jit_status first = jit_error_status();
    return v == 0 && first != JIT_OK ? first : JIT_INVALID_HANDLE;
}
/** The backend, started. JIT_NOT_INITIALIZED, JIT_INVALID_ARGUMENT, JIT_UNAVAILABLE. */
jit_status jitc_api_backend(const char *function, jit_backend b, jitc_started **out);
/** The calling thread's record. JIT_OUT_OF_MEMORY. */
jit_status jitc_api_thread(jitc_thread **out);
/** The calling thread's state for a device, which is opened if need be. */
jit_status jitc_api_state(jitc_thread *t, jit_backend b, int device, jitc_thread_state **out);
/** Wait for what the thread has queued on all its devices. */
jit_status jitc_api_sync_thread(jitc_thread *t);
/** Forget the devices of all threads: they are about to be destroyed. Holder of the runtime's lock.
 */
void jitc_api_forget_devices_locked(void) REQUIRES(&jitc_runtime.lock);
/** Before memory is wanted: give up foreign memory that its consumers gave back. It may hold memory
 * of ours, or be the last link of a chain. Its release is user code, so it is not called where
 * memory is found to be missing; what such a release gives back goes with the rest. Under no lock.
 */
void jitc_api_collect(jitc_thread *t);
/** In the child after fork(): set the records of all other threads aside; what they had begun in
 * the graph (NULL: there is none) is given up. Calls no user code. */
void jitc_thread_forked_locked(jitc_graph *g) REQUIRES(&jitc_runtime.lock);
/** Drop the buffers that such records hold; foreign memory goes with the graph. Not under a lock.
 */
void jitc_thread_end_orphans(struct jitc_thread *orphans, jitc_graph *g);
#endif
