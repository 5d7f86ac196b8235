/* state.h: what the driver side keeps, and how its files call each other.  Layer: tests.
 *
 *   client's thread                               simcuda's threads
 *   cuXyz() ─ sim_begin(): lock ─► sim_cuXyz() ─► sim_submit() ─► queue of the stream
 *                                                   worker: takes what is ready, runs it unlocked
 *                                                   caller: runs host functions, unlocked
 *
 * One lock guards everything but what is marked. Objects are never freed: what a client uses too
 * late is recognised. Handles are numbers with which nothing can be read. */
#ifndef SIMCUDA_STATE_H
#define SIMCUDA_STATE_H
#include "cuda/driver.h"
#include "sim.h"

#define CU_STREAM_LEGACY     ((CUstream) 1)
#define CU_STREAM_PER_THREAD ((CUstream) 2)
typedef void (*CUhostFn)(void *);
typedef struct CUgraphEdgeData_st CUgraphEdgeData;

enum { SIM_DEVICES = 8 }; /* at most */

/* ---- objects ---- */

typedef enum sim_kind {
    SIM_CONTEXT = 1,
    SIM_STREAM,
    SIM_EVENT,
    SIM_MODULE,
    SIM_FUNCTION,
    SIM_GRAPH,
    SIM_NODE,
    SIM_EXEC,
    SIM_POOL
} sim_kind;

typedef enum sim_life {
    SIM_ALIVE,
    SIM_DESTROYED, /* by its own function */
    SIM_LOST       /* with its context */
} sim_life;

/** The first member of every object. */
typedef struct sim_object {
    sim_kind kind;
    sim_life life;
    bool implicit; /* not made by the client: a default stream, a function, a node */
    uint32_t number;
    struct sim_context *context;
} sim_object;

typedef struct sim_context {
    sim_object object;
    int device;
    bool primary;
    unsigned peers; /* bits of the devices whose memory its kernels may use, too */
    CUresult error; /* of work that failed: what every call returns from then on */
    struct sim_stream *legacy;
} sim_context;

/** Zeroed memory; the process ends if there is none. */
void *sim_new(size_t bytes);
/** A zeroed object of `bytes` bytes. `context` may be NULL for a context only. */
void *sim_object_create(sim_kind kind, size_t bytes, sim_context *context);
/** Its handle, of whatever type. */
void *sim_object_handle(const void *object);
/** A new object gets the handle of the last one of its kind that was destroyed, if there is one. */
void sim_object_take_handle(void *object);
/** The object of a handle. NULL, and a fault unless the object went with its context: the caller
 *  returns CUDA_ERROR_INVALID_HANDLE. Contexts that are dead are found, too. */
void *sim_object_find(const void *handle, sim_kind kind);
/** As above; and it must belong to the current context. */
void *sim_object_here(const void *handle, sim_kind kind);
/** The object is used no more. */
void sim_object_end(void *object);
/** What the client made and is alive: of all contexts, or of one. */
unsigned sim_object_count(sim_kind kind, const sim_context *context);
/** Everything of `context` goes with it. */
void sim_objects_lose(sim_context *context);
const char *sim_kind_name(sim_kind kind);

/* ---- streams and work ---- */

typedef enum sim_stream_kind {
    SIM_LEGACY,      /* waits for the blocking streams, and they for it */
    SIM_PER_THREAD,  /* a thread's default stream; blocking */
    SIM_BLOCKING,    /* created */
    SIM_NON_BLOCKING /* created; waits for nothing but events */
} sim_stream_kind;

typedef struct sim_capture sim_capture;
typedef struct sim_graph sim_graph;

/** Some nodes of a graph, by their numbers in it. */
typedef struct sim_nodes {
    size_t *items;
    size_t count;
} sim_nodes;

typedef struct sim_stream {
    sim_object object;
    sim_stream_kind kind;
    unsigned task;           /* its number among all streams: order.h */
    struct sim_clock *clock; /* what comes before its next work */
    int priority;
    uint64_t thread; /* whose default stream it is */
    struct sim_work *head, *tail;
    uint64_t queued, done; /* numbers of the last pieces of work */
    bool calling;          /* its head is a host function that runs */
    sim_capture *capture;  /* what is put on it becomes a node of its graph; NULL: is run */
    sim_nodes ends;        /* the nodes that the next one comes after */
    struct sim_stream *next;
} sim_stream;

/** A place in a stream: all work up to `number`. */
typedef struct sim_point {
    sim_stream *stream; /* NULL: nowhere, done */
    uint64_t number;
} sim_point;

/** A piece of work; the first member of what is run. */
typedef struct sim_work {
    const char *what;                    /* for messages */
    CUresult (*run)(struct sim_work *w); /* on the worker, unlocked; NULL: nothing to do */
    void (*end)(struct sim_work *w);     /* locked, whether it ran or not: free what it has */
    CUhostFn function;                   /* a host function: run by the caller */
    void *argument;
    /* the queue's */
    struct sim_work *next;
    sim_stream *stream;
    uint64_t number, order;
    sim_point *after; /* what has to be done before, besides the stream's order */
    unsigned after_count;
    struct sim_clock *clock; /* what comes before it: order.h */
} sim_work;

/** Start the threads. */
CUresult sim_queue_start(void);
/** Zeroed work of `bytes` bytes. */
void *sim_work_create(size_t bytes, const char *what, CUresult (*run)(sim_work *w));
/** Not before `p`. */
void sim_work_after(sim_work *w, sim_point p);
/** End work that is in no queue. */
void sim_work_free(sim_work *w);
/** Queue it, by the rules of default streams; its place. The queue owns it from here on. On a
 * stream that captures it becomes a node, and is done for all who ask. */
sim_point sim_submit(sim_work *w, sim_stream *s);
/** Everything queued on it so far. */
sim_point sim_stream_end(sim_stream *s);
bool sim_point_done(sim_point p);
/** Wait; the lock is open meanwhile. The context's error. */
CUresult sim_point_wait(sim_point p, const sim_context *c);
/** Wait for all that is queued in a context so far; the lock is open meanwhile. Its error. */
CUresult sim_context_wait(sim_context *c);
/** Is anything queued in it? */
bool sim_context_busy(const sim_context *c);
void sim_lock(void);
void sim_unlock(void);

/** The stream of a handle, which may be a default stream of the current context, for work or a
 * wait; NULL as above, and if a capture forbids its use: sim_refuse() was told why. */
sim_stream *sim_stream_anywhere(CUstream handle);
/** As above; and it must belong to the current context. */
sim_stream *sim_stream_find(CUstream handle);
/** As above, of any context, whatever is captured: to ask what it is. */
sim_stream *sim_stream_any(CUstream handle);
/** Number of the calling thread, not 0. */
uint64_t sim_thread(void);
sim_stream *sim_stream_create(sim_context *c, sim_stream_kind kind);
/** The first of all streams; `next` leads on. */
sim_stream *sim_streams(void);

/* ---- captures ---- */

/** What an event knows of the capture in which it was last recorded. */
typedef struct sim_captured {
    uint64_t capture; /* its number; 0: in none */
    sim_nodes ends;
} sim_captured;

/** CU_STREAM_CAPTURE_STATUS_... */
int sim_capture_status(const sim_stream *s);
/** May the calling thread do what captures do not see? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, and
 *  those that forbid it are invalid. */
CUresult sim_capture_forbids(void);
/** May work be put on `s`, or a wait for it? If not, what conflicts is invalid. */
CUresult sim_capture_use(sim_stream *s);
/** May the host wait for `s`, for everything in a context, for an event? Likewise. */
CUresult sim_capture_wait_for_stream(sim_stream *s);
CUresult sim_capture_wait_for_context(const sim_context *context);
CUresult sim_capture_wait_for_event(const sim_captured *e);
/** May memory be allocated or freed in the order of `s`? In a capture it is not simulated. */
CUresult sim_capture_memory(const sim_stream *s);
/** Work put on a stream that captures; owned from here on. */
void sim_capture_add(sim_work *w, sim_stream *s);
/** An event is recorded on `s`. True: `s` captures, that was all. */
bool sim_capture_record(const sim_stream *s, sim_captured *e);
/** `s` waits for an event. True: it is a matter of captures, *result says how it went. */
bool sim_capture_wait(sim_stream *s, const sim_captured *e, CUresult *result);
/** Captures that were begun in a context end with it. */
void sim_captures_lose(const sim_context *context);

sim_graph *sim_graph_create(sim_context *c);
void sim_graph_destroy(sim_graph *g);
/** A node of work and of the nodes before it, both owned from here on; its number. */
size_t sim_graph_add(sim_graph *g, sim_work *w, sim_nodes before);
CUgraphNode sim_graph_node(const sim_graph *g, size_t i);
/** Is `node` one of `ends`, or before one? */
bool sim_graph_precedes(const sim_graph *g, size_t node, const sim_nodes *ends);

/* ---- contexts and devices ---- */

/** The calling thread's, or NULL. */
sim_context *sim_current(void);
/** Is it the number of a device? CUDA_ERROR_INVALID_DEVICE. */
CUresult sim_device_check(CUdevice device);
int sim_device_count(void);
uint64_t sim_device_memory(void);
/** Per multiprocessor. */
int sim_device_threads(void);
bool sim_initialised(void);
unsigned sim_contexts_retained(void);
enum {
    SIM_REGISTERS = 65536,
    SIM_BLOCKS = 32,
    SIM_SHARED = 49152,
    SIM_SHARED_MOST = 232448,
    SIM_SHARED_TOTAL = 233472
};

/* ---- memory ---- */

typedef struct sim_allocation {
    uint64_t base, end; /* what may be used */
    _Atomic bool live;  /* read without the lock */
    bool ending;        /* a cuMemFreeAsync is queued */
    bool late;          /* freed while work was queued: what may have used it */
    bool pinned;        /* host memory */
    bool managed;       /* likewise, and memory of the device */
    uint32_t number;
    sim_context *context;
    uint64_t *marks;               /* what a kernel that runs accesses: order.h */
    struct sim_segments *segments; /* who accessed it last */
    sim_point birth;               /* its cuMemAllocAsync */
    const _Atomic unsigned
        *access;                   /* of its pool: bits of other devices that may use it; or NULL */
    struct sim_allocation *next;   /* that is alive */
    struct sim_allocation *before; /* dead or alive: they are never freed */
} sim_allocation;

CUresult sim_memory_start(int devices);
CUresult sim_memory_create(sim_context *c, size_t bytes, bool pinned, sim_allocation **out);
void sim_memory_destroy(sim_allocation *a);
/** The live allocation that starts at `base`; a fault and CUDA_ERROR_INVALID_VALUE if none does. */
CUresult sim_memory_starting(uint64_t base, bool pinned, sim_allocation **out);
/** The allocation, dead or alive, that has `address`; or NULL. Any thread, no lock. */
sim_allocation *sim_memory_at(uint64_t address);
/** Is it an address of a device, allocated or not? No lock. */
bool sim_memory_is_device(uint64_t address);
/** A kernel of `device` runs next. It may use the memory of these devices, given as bits, and that
 * of pools which its device may access. On the worker. */
void sim_memory_show(unsigned devices, int device);
/** It has ended. */
void sim_memory_show_all(void);
/** May work of `device` use what lies at `address`? Not if it is of another one's pool, to which it
 * was given no access. */
bool sim_memory_is_open(uint64_t address, int device);
uint64_t sim_memory_used(int device);
unsigned sim_memory_count(const sim_context *c);
void sim_memory_lose(const sim_context *c);

/** Who may access the default pool of a device, as bits. */
const _Atomic unsigned *sim_pool_access(int device);
/** Queue a copy that needs no access to pools. */
CUresult sim_copy_between(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);

/* ---- modules and launches ---- */

typedef struct sim_kernel {
    sim_object object;
    struct sim_module *module;
    sim_function *function;
    const char *name;
    int dynamic; /* shared memory that a launch may ask for, in bytes */
    bool loaded; /* onto the device: by cuFuncLoad(), or when it is first launched */
    struct sim_kernel *next;
} sim_kernel;

typedef struct sim_module {
    sim_object object;
    sim_code *code;
    sim_kernel *kernels;
} sim_module;

/** Registers of a thread limit a block. */
int sim_kernel_threads(const sim_kernel *k);
/** Load it unless it is; that waits for all that is queued in its context. */
CUresult sim_kernel_load(sim_kernel *k);

/** What a launch is asked to do, as in cuLaunchKernel(). */
typedef struct sim_call {
    sim_kernel *kernel;
    sim_launch launch;
    unsigned devices; /* bits: whose memory it may use */
} sim_call;

/** Check a launch and copy its arguments. */
CUresult sim_call_init(const CUDA_KERNEL_NODE_PARAMS *p, sim_call *out);
/** The same launch once more, with its own arguments. */
void sim_call_copy(const sim_call *from, sim_call *to);
void sim_call_finish(sim_call *c);
/** Run it, on the worker. */
CUresult sim_call_run(const sim_call *c);
/** If `w`, which is in no queue, launches a kernel: what it would run; `w` is no more. */
bool sim_launch_take(sim_work *w, sim_call *out);

/* ---- entry points ---- */

enum { SIM_NOTHING, SIM_INIT, SIM_NEEDS_CONTEXT, SIM_UNSAFE };
/** An entry point starts. 0: the lock is held. */
CUresult sim_begin(sim_entry *e, int needs);
/** It ends with `result`: the lock is released. */
CUresult sim_end(const sim_entry *e, CUresult result);
/** The entry point that runs begins to wait for the device, or has waited. */
void sim_wait_inside(bool waits);
/** The process exits: end it at once if any entry point runs that does not wait. */
void sim_check_exit(void);
/** Why the entry point that runs did not find what it needs: it gives this instead of
 *  CUDA_ERROR_INVALID_HANDLE. */
void sim_refuse(CUresult why);
/** The calling thread runs a host function: it may not call the driver. */
void sim_set_calling(bool calling);
void sim_trace_end(const sim_entry *e, int result);
unsigned sim_kernel_time(void);

#define SIM_WITH_STREAM(...)                                 (__VA_ARGS__, CUstream stream)
#define ENTRY(symbol, name, since, needs, parameters, call)  CUresult sim_##symbol parameters;
#define STREAM(symbol, name, since, needs, parameters, call) CUresult sim_##symbol parameters;
#define COPY(symbol, name, since, needs, parameters, call)                                         \
    CUresult sim_##symbol SIM_WITH_STREAM parameters;
#include "driver_api.def"
#undef SIM_WITH_STREAM
#endif
