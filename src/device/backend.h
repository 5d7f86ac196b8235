/* backend.h: what a backend must do.  Layer: device.  May include: core, ir.
 *
 * For all slots: arguments are non-null unless the slot says otherwise, and were checked by the
 * caller; no lock of the runtime is held, so a slot may wait where it says so; on failure nothing
 * was queued, nothing is owned by the backend, and jitc_fail() has been called.
 *
 * A stream is an in-order queue. Work on it has numbers 1, 2, 3, ...: "number n is done" implies
 * that all before are. A backend may run work at once, in the call, where that is faster. Streams
 * are made when a thread state needs one, given back to the device's list of idle streams when the
 * thread ends, and destroyed with the device only, so that a (stream, number) pair stays good. */
#ifndef JITC_DEVICE_BACKEND_H
#define JITC_DEVICE_BACKEND_H
#include "core/options.h"
#include "core/sync.h"
#include "ir/program.h"

typedef struct jitc_backend jitc_backend;
typedef struct jitc_kernel jitc_kernel; /* each backend defines its own, with jitc_kernel first */
typedef struct jitc_source jitc_source; /* likewise */

/** The part of a stream that all layers see. A backend embeds it as its first member. */
typedef struct jitc_stream {
    jitc_backend *backend;
    int device;
    unsigned index;             /* 1, 2, 3, ... on its device */
    _Atomic uint64_t queued;    /* number of the last piece of work queued */
    _Atomic uint64_t user_wait; /* number of the last wait that the user has put on it */
    jitc_mutex lock; /* held by the layers above while they queue: one queuer at a time */
    struct jitc_stream *next_idle;
} jitc_stream;

/** Holder of s->lock. The user has put a wait on the stream: memory that it used is written again,
 * on whichever stream, after what is waited for. */
static inline void jitc_stream_note_user_wait(jitc_stream *s) {
    jitc_store_release(&s->user_wait, jitc_load_relaxed(&s->queued)); /* pairs with buffer.c */
}

/** What frees a block that outlives its device and the backend: `free` once for each block, from
 * any thread, which it may keep waiting until all work of others on the device is over. `pointer`
 * NULL: that only. */
typedef struct jitc_detached {
    void (*free)(void *context, void *pointer, size_t bytes);
    void *context;
} jitc_detached;

/** The part of an event that all layers see. A backend embeds it as its first member. */
typedef struct jitc_event {
    jitc_backend *backend;
    int device;
    bool timed; /* elapsed() can be asked */
} jitc_event;

/** Streams of others, by the numbers that DLPack and the array API give them. Greater ones are
 * handles of the backend's own kind. */
enum {
    JITC_STREAM_NONE = -1,      /* nobody: nothing is to be ordered */
    JITC_STREAM_LEGACY = 1,     /* the default stream that synchronises with all blocking ones */
    JITC_STREAM_PER_THREAD = 2, /* the default stream of the calling thread */
};

/** What the machine code of a device depends on. `text` is part of the key of every kernel:
 * compiler and version, instruction set, and whatever else changes the code. */
typedef struct jitc_target {
    char text[192];
    uint32_t lanes; /* vector width in lanes; 1 on a GPU */
} jitc_target;

/** One launch. The backend copies what it needs before it returns. */
typedef struct jitc_launch_args {
    uint64_t lanes;         /* n: lanes 0 ... n-1 run. Not 0 */
    const uint64_t *params; /* the program's parameters, in order */
    uint32_t count;
} jitc_launch_args;

/** What memory is at an address that somebody else has named. */
typedef struct jitc_address {
    enum {
        JITC_ADDRESS_UNKNOWN, /* the driver cannot tell */
        JITC_ADDRESS_HOST,    /* of the host, and unknown to the driver */
        JITC_ADDRESS_PINNED,  /* of the host, and used by devices as well */
        JITC_ADDRESS_DEVICE,
        JITC_ADDRESS_MANAGED /* of both */
    } kind;
    int device;      /* of DEVICE and MANAGED */
    void *on_device; /* what the device that asks calls it; NULL if it cannot use it */
} jitc_address;

#define JITC_BACKEND_SLOTS(X)                                                                      \
    /* Any thread. Number of devices. JIT_UNAVAILABLE, and what is missing, if there is none. */   \
    X(device_count, jit_status, (jitc_backend * b, int *out))                                      \
    /* Any thread. The code generation target of a device; valid until the backend is destroyed.   \
     * Must be cheap: called for every evaluation. */                                              \
    X(target, jit_status, (jitc_backend * b, int device, const jitc_target **out))                 \
    /* Any thread. Memory of at least `bytes` bytes, rounded up by the caller to a multiple of     \
     * 512, aligned to 256. May be slow: a cache of blocks sits above. JIT_OUT_OF_MEMORY. */       \
    X(alloc, jit_status, (jitc_backend * b, int device, size_t bytes, void **out))                 \
    /* Any thread; all work on the block is done. */                                               \
    X(free, void, (jitc_backend * b, int device, void *pointer, size_t bytes))                     \
    /* Any thread. Give back to the system what free() keeps. Never waits for work. */             \
    X(trim, void, (jitc_backend * b, int device))                                                  \
    /* Any thread; a block of the device is about to be shown to the user. Work of others may use  \
     * it on any device that can reach it. Cheap, but for the first time. */                       \
    X(share, void, (jitc_backend * b, int device))                                                 \
    /* Any thread. What is at an address, seen from a device. */                                   \
    X(look_up, jit_status, (jitc_backend * b, int device, const void *pointer, jitc_address *out)) \
    /* Any thread. The caller fills in what all streams have (jitc_stream). */                     \
    X(stream_create, jit_status, (jitc_backend * b, int device, jitc_stream **out))                \
    /* Any thread; the stream is idle. */                                                          \
    X(stream_destroy, void, (jitc_stream * s))                                                     \
    /* Holder of s->lock. Queues a kernel; never waits for work. *number: its number. A backend    \
     * may hold kernels back until flush(), so that it can hand several to the device at once. */  \
    X(launch, jit_status,                                                                          \
      (jitc_stream * s, jitc_kernel * k, const jitc_launch_args *a, uint64_t *number))             \
    /* Any thread. Bytes of memory of the device that a launch over so many lanes works in; they   \
     * are given to it by the first parameter of SCRATCH. 0: none. */                              \
    X(scratch, size_t, (jitc_kernel * k, uint64_t lanes))                                          \
    /* Holder of s->lock. Queues a copy within the device. Source and destination do not           \
     * overlap. */                                                                                 \
    X(copy, jit_status,                                                                            \
      (jitc_stream * s, void *to, const void *from, size_t bytes, uint64_t *number))               \
    /* Holder of s->lock. Queues a copy from pageable host memory; the source may change when      \
     * the call returns. */                                                                        \
    X(upload, jit_status,                                                                          \
      (jitc_stream * s, void *to, const void *from, size_t bytes, uint64_t *number))               \
    /* Holder of s->lock. Copies to host memory after all that is queued on s; waits for it. */    \
    X(download, jit_status, (jitc_stream * s, void *to, const void *from, size_t bytes))           \
    /* Holder of s->lock. Queues a call of `function`, made from an ordinary thread under no lock  \
     * once everything queued before is done. It must not queue work nor wait for any. */          \
    X(call, jit_status,                                                                            \
      (jitc_stream * s, void (*function)(void *), void *context, uint64_t *number))                \
    /* Holder of s->lock. Work queued on s from now on comes after number n of `other`, on the     \
     * device: the caller does not wait. A no-op where that is done or s == other. */              \
    X(stream_wait, jit_status, (jitc_stream * s, jitc_stream * other, uint64_t n))                 \
    /* Any thread. Hand what launch() holds back to the device: called at the end of an            \
     * evaluation. Slots that depend on it (copies, waits, also of other streams) do so            \
     * themselves. */                                                                              \
    X(flush, jit_status, (jitc_stream * s))                                                        \
    /* Any thread. Is number n done? Cheap; never waits. */                                        \
    X(done, bool, (jitc_stream * s, uint64_t n))                                                   \
    /* Any thread, s->lock not held. Waits until number n is done. JIT_DEVICE_FAILED. */           \
    X(wait, jit_status, (jitc_stream * s, uint64_t n))                                             \
    /* Events. Any thread, several at once. An event that was never recorded counts as done. */    \
    /* `native`: an event of the driver that somebody else owns and that is borrowed, or NULL for  \
     * a new one. JIT_UNSUPPORTED where there are none. The caller fills in what all have. */      \
    X(event_create, jit_status,                                                                    \
      (jitc_backend * b, int device, bool timed, void *native, jitc_event **out))                  \
    /* Never waits: what waits for the event goes on doing so. */                                  \
    X(event_destroy, void, (jitc_event * e))                                                       \
    /* Holder of s->lock. The event is behind all that is queued on s; waits that were made before \
     * keep the former place. */                                                                   \
    X(event_record, jit_status, (jitc_event * e, jitc_stream * s))                                 \
    /* Never waits. */                                                                             \
    X(event_done, jit_status, (jitc_event * e, bool *done))                                        \
    /* Waits, under no lock. */                                                                    \
    X(event_wait, jit_status, (jitc_event * e))                                                    \
    /* Holder of s->lock. Work queued on s from now on comes after the event, on the device. The   \
     * event may be another device's. */                                                           \
    X(event_stream_wait, jit_status, (jitc_stream * s, jitc_event * e))                            \
    /* Milliseconds from one event to the other, both of which are timed. JIT_INVALID_ARGUMENT if  \
     * one was not recorded or is not done. */                                                     \
    X(event_elapsed, jit_status, (jitc_event * from, jitc_event * to, double *milliseconds))       \
    /* The driver's own event; NULL where there is none. */                                        \
    X(event_native, void *, (jitc_event * e))                                                      \
    /* Others' streams. Holder of s->lock; never waits. `other` is JITC_STREAM_... or a handle; a  \
     * capturing stream is not touched: JIT_UNSUPPORTED, unless there is nothing to wait for.      \
     * JIT_INVALID_ARGUMENT where the backend has no such streams. */                              \
    /* What is queued on s so far comes before what is queued on `other` from now on. */           \
    X(stream_release, jit_status, (jitc_stream * s, intptr_t other))                               \
    /* What was queued on `other` so far comes before what is queued on s from now on. */          \
    X(stream_acquire, jit_status, (jitc_stream * s, intptr_t other))                               \
    /* Those who work with what they were lent (lend.h). Holder of s->lock; never waits. */        \
    /* A number that stands for the stream `other`, of the calling thread for its default one, and \
     * never for another; 0: nobody can say which it is. */                                        \
    X(consumer_id, uint64_t, (jitc_stream * s, intptr_t other))                                    \
    /* Is the stream one for which barrier() does not wait? */                                     \
    X(consumer_is_apart, bool, (jitc_stream * s, intptr_t other))                                  \
    /* A stream of ours that stands for one of others: its numbers are places there. Destroyed by  \
     * stream_destroy(). The caller fills in what all streams have. */                             \
    X(consumer_create, jit_status, (jitc_backend * b, int device, jitc_stream **out))              \
    /* *number: of `marks`, what is queued on `other` so far; all former ones must be of the same  \
     * stream, or done. Nothing is touched that is being captured: JIT_UNSUPPORTED. Any thread. */ \
    X(consumer_mark, jit_status, (jitc_stream * marks, intptr_t other, uint64_t *number))          \
    /* Any thread, under no lock but that of a stream that queues. Waits for all work of all       \
     * streams on the device, also that of others. JIT_DEVICE_FAILED. */                           \
    X(barrier, jit_status, (jitc_backend * b, int device))                                         \
    /* The device is about to end, but so many blocks, or pieces of foreign memory, stay. Never    \
     * waits, calls no driver. Should there be no memory, they are never freed. */                 \
    X(detach, void, (jitc_backend * b, int device, size_t blocks, jitc_detached *out))             \
    /* Any thread. The driver's own stream and its context; NULL where there are none. `stream` is \
     * NULL if it is not wanted; who has got it may queue work there. */                           \
    X(stream_native, void, (jitc_stream * s, void **stream, void **context))                       \
    /* Around fork(). The thread that forks, under the locks of the layers above, also those of    \
     * all streams of a device of host memory. None may wait for a function that is being called.  \
     */                                                                                            \
    /* Before it: no thread is in the middle of anything that the child will use. */               \
    X(fork_hold, void, (jitc_backend * b))                                                         \
    /* In the parent: go on. */                                                                    \
    X(fork_release, void, (jitc_backend * b))                                                      \
    /* In the child, whose only thread this is: what was queued on a device of host memory goes on \
     * there too; everything that cannot must fail with a clear error. */                          \
    X(forked, void, (jitc_backend * b))                                                            \
    /* Any thread. Program to the compiler's input. Pure: equal programs give equal results,       \
     * because the cache key is the program's hash. */                                             \
    X(lower, jit_status, (jitc_backend * b, int device, const jitc_program *p, jitc_source **out)) \
    /* Any thread; several at once. Machine code that can be kept on disk; level 0 quick, 2 good.  \
     * May take seconds. Consumes nothing. */                                                      \
    X(compile, jit_status, (jitc_backend * b, jitc_source * s, int level, jitc_blob *out))         \
    /* Any thread. For JIT_DUMP: the compiler's input as text (level -1), or the machine code of a \
     * level as assembly. Free with free(). */                                                     \
    X(source_print, char *, (jitc_source * s, int level))                                          \
    X(source_destroy, void, (jitc_backend * b, jitc_source * s))                                   \
    /* Any thread. Machine code to a kernel that can be launched. The blob is not kept.            \
     * JIT_COMPILE_FAILED if it does not fit: a damaged file. */                                   \
    X(load, jit_status,                                                                            \
      (jitc_backend * b, int device, const jitc_program *p, const jitc_blob *code,                 \
       jitc_kernel **out))                                                                         \
    /* Any thread. Give k the code of a better compilation; launches in flight finish with the     \
     * old one. */                                                                                 \
    X(reload, jit_status, (jitc_backend * b, jitc_kernel * k, const jitc_blob *code))              \
    /* Any thread; no launch of k is in flight. */                                                 \
    X(kernel_destroy, void, (jitc_backend * b, jitc_kernel * k))                                   \
    /* Any thread; everything else of the backend has been destroyed. */                           \
    X(destroy, void, (jitc_backend * b))

struct jitc_backend {
    jit_backend id;
    const char *name; /* "llvm" */
    bool host_memory; /* device pointers can be used by the host, once the work on them is done */
    int levels;       /* compile() knows a quick level 0 and a better one: recompile hot kernels */
    _Atomic uint64_t pinned; /* bytes of host memory that are pinned for copies */
#define X(slot, result, arguments) result(*slot) arguments;
    JITC_BACKEND_SLOTS(X)
#undef X
};

/** What the layers above see of a kernel. A backend embeds it as its first member. */
struct jitc_kernel {
    _Atomic int level;     /* of code generation; the cache writes it, also after reload() */
    uint32_t operations;   /* work of one lane, in additions of f32 */
    _Atomic uint64_t work; /* lanes x operations launched so far, for recompiling what is hot */
};

/** For asserts: the name of a slot that is missing, or NULL. */
static inline const char *jitc_backend_missing_slot(const jitc_backend *b) {
#define X(slot, result, arguments)                                                                 \
    if (!b->slot)                                                                                  \
        return #slot;
    JITC_BACKEND_SLOTS(X)
#undef X
    return NULL;
}
#endif
