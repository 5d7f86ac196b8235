/* stream.h: streams: numbers, events, kernels held back, staging.
 * Layer: cuda.  May include: core, ir, device.
 *
 *   1 ... finished ... submitted ... last     numbers given out; those behind `submitted` are
 * kernels in the batch, not yet handed to the driver mark   mark         mark             events
 * recorded behind some numbers
 *
 * Everything here runs with the device's context current (device.h). */
#ifndef JITC_CUDA_STREAM_H
#define JITC_CUDA_STREAM_H
#include "cuda/device.h"
#include "cuda/recent.h"
#include "cuda/shape.h"

/** An event behind work number `number`. */
typedef struct jitc_cuda_mark {
    CUevent event;
    uint64_t number;
    unsigned users; /* the list and who waits for it */
    struct jitc_cuda_mark *next;
} jitc_cuda_mark;

/** A launch that is held back. */
typedef struct jitc_cuda_pending {
    CUfunction function;
    uint64_t serial;              /* of its code */
    unsigned grid, block, shared; /* blocks, threads and bytes of one */
    size_t words, first;          /* its arguments, in the batch's */
    uint64_t kernel, lanes;       /* its name, see text.h; these and the next are for messages */
    uint32_t instructions;
} jitc_cuda_pending;

enum {
    JITC_CUDA_CHAIN = 64, /* kernels in one graph, at most */
    JITC_CUDA_CHAINS = 8, /* graphs kept by a stream */
    JITC_CUDA_MARKS = 32,
    JITC_CUDA_TABLES = 6,
    JITC_CUDA_WAITED = 4
};

/** A chain of kernels that can be launched, again and again with other kernels in it. */
typedef struct jitc_cuda_chain {
    unsigned length; /* 0: none */
    uint64_t used;   /* when: for replacing the one not used for longest */
    unsigned misses; /* times that it had to be set */
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node[JITC_CUDA_CHAIN];
    jitc_cuda_pending kernel[JITC_CUDA_CHAIN]; /* what the nodes are set to, ... */
    uint64_t *words; /* ... and their arguments: NULL if that is unknown */
    size_t word_capacity;
} jitc_cuda_chain;

typedef struct jitc_cuda_batch {
    jitc_cuda_pending *kernels;
    size_t count, capacity;
    uint64_t *words; /* arguments */
    size_t word_count, word_capacity;
    jitc_cuda_chain *chains[JITC_CUDA_CHAINS];
    uint64_t seen; /* bit i: a chain of i + 1 kernels was wanted before */
    uint64_t launches;
    uint64_t unloads;     /* of the device, that the chains have seen */
    bool no_graphs;       /* they did not work */
    _Atomic CUresult why; /* and that has not been told yet */
} jitc_cuda_batch;

/** The stream's work comes after number `number` of another one. */
typedef struct jitc_cuda_waited {
    const jitc_cuda_stream *other;
    uint64_t number;
} jitc_cuda_waited;

/** Device memory for the arguments of a kernel; written anew behind the launch that used it last.
 */
typedef struct jitc_cuda_table {
    void *pointer;
    size_t size;
    uint64_t number; /* of that launch */
} jitc_cuda_table;

/** Device memory in which kernels count, see state.c. */
typedef struct jitc_cuda_state {
    void *pointer;
    size_t bytes;
    uint64_t launches; /* that have got it; of sums */
    struct jitc_cuda_state *older;
} jitc_cuda_state;

struct jitc_cuda_stream {
    jitc_stream base;
    jitc_cuda_device *device;
    CUstream stream;
    bool is_consumer;      /* it stands for a stream of somebody else, on which its marks may be */
    _Atomic uint64_t last; /* number given out last; written by the holder of base.lock */
    _Atomic uint64_t finished;   /* known to be done */
    _Atomic uint64_t first_call; /* number of the first call not made yet; UINT64_MAX: none */
    _Atomic uint64_t handed;     /* as `submitted`, to be read without the mutex */
    atomic_bool shown;           /* its handle, to a user: there may be work that is not ours */
    jitc_cuda_recent recent;     /* launches; under a lock of its own */
    jitc_cuda_stream *next;      /* in the device's list, under its lock */

    jitc_mutex mutex; /* guards the following; one at a time, never held while the CPU waits */
    uint64_t submitted;
    uint64_t pool_recorded; /* of the pool's event, what the stream comes after */
    jitc_cuda_batch batch;
    jitc_cuda_mark *mark[JITC_CUDA_MARKS]; /* ascending */
    unsigned marks;
    jitc_cuda_mark *free_marks;

    /* Guarded by base.lock, as all that queues is called under it. */
    CUevent sync_stream_event; /* for the order with others' streams; without times */
    CUstream probe;            /* runs nothing: to try waits for others' events; or NULL */
    jitc_cuda_waited waited[JITC_CUDA_WAITED]; /* of the streams waited for last */
    unsigned next_waited;
    jitc_cuda_chunk *chunk;                  /* for small uploads; or NULL */
    jitc_cuda_table table[JITC_CUDA_TABLES]; /* for arguments that do not fit */
    jitc_cuda_state *tickets, *sums;         /* the newest first */
    uint64_t *params;                        /* of a launch, with those that it hides */
    size_t param_capacity;
};

static inline jitc_cuda_stream *jitc_cuda_stream_of(jitc_stream *s) {
    return (jitc_cuda_stream *) s; /* its first member */
}

/** The driver's functions. */
static inline const jitc_cuda *jitc_cuda_of(const jitc_cuda_stream *s) {
    return &s->device->backend->cuda;
}

static inline CUdeviceptr jitc_cuda_address(const void *pointer) {
    return (uintptr_t) pointer;
}

/* stream.c */

jit_status jitc_cuda_stream_create(jitc_cuda_device *d, jitc_cuda_stream **out);
/** One that stands for somebody else's: not blocking, and not one of the device's streams. */
jit_status jitc_cuda_consumer_create(jitc_cuda_device *d, jitc_cuda_stream **out);
/** A new number, behind what is queued on `other`, a stream of the same context. */
jit_status jitc_cuda_mark_other(jitc_cuda_stream *s, CUstream other, uint64_t *number);
/** Also on a device that has failed. */
void jitc_cuda_stream_destroy(jitc_cuda_stream *s);
/** The number of work that has just been handed to the driver. */
uint64_t jitc_cuda_submitted_locked(jitc_cuda_stream *s) REQUIRES(&s->mutex);
/** Record an event behind what has been submitted, so that a wait for it is not one for more. If
 *  that fails it is recorded when it is needed. */
void jitc_cuda_mark_locked(jitc_cuda_stream *s) REQUIRES(&s->mutex);
/** Hand what is held back to the driver. */
jit_status jitc_cuda_flush(jitc_cuda_stream *s);
/** Log, once, that graphs do not work. Under no lock. */
void jitc_cuda_tell_graphs(jitc_cuda_stream *s);
/** Has the device done number n? Never waits. */
bool jitc_cuda_reached(jitc_cuda_stream *s, uint64_t n);
/** Wait until it has. The device may be a failed one: then for what still runs. */
jit_status jitc_cuda_reach(jitc_cuda_stream *s, uint64_t n);
/** Work queued on s from now on comes after number n of `other`. */
jit_status jitc_cuda_stream_wait(jitc_cuda_stream *s, jitc_cuda_stream *other, uint64_t n);
/** The stream waits for something from now on: who waits for the stream, or for what the thread has
 *  queued, waits for that as well, also if no work is behind it. Holder of base.lock. */
void jitc_cuda_note_wait(jitc_cuda_stream *s);
/** After fork(): nothing of it runs, no call is pending. */
void jitc_cuda_stream_forked(jitc_cuda_stream *s);

/* batch.c */

/** Append a launch. */
jit_status jitc_cuda_launch(jitc_cuda_stream *s, jitc_cuda_kernel *k, const jitc_launch_args *a,
                            uint64_t *number);
/** A failure is one of the device: the numbers of what could not be launched are given out. */
jit_status jitc_cuda_flush_locked(jitc_cuda_stream *s) REQUIRES(&s->mutex);
void jitc_cuda_batch_finish(const jitc_cuda *c, jitc_cuda_batch *b);

/* memory.c */

jit_status jitc_cuda_copy(jitc_cuda_stream *s, void *to, const void *from, size_t bytes,
                          uint64_t *number);
jit_status jitc_cuda_upload(jitc_cuda_stream *s, void *to, const void *from, size_t bytes,
                            uint64_t *number);
jit_status jitc_cuda_download(jitc_cuda_stream *s, void *to, const void *from, size_t bytes);
/** As an upload, behind all that has been submitted, but without a number of its own: the pinned
 *  memory is in use until work `number` is done. */
jit_status jitc_cuda_upload_part(jitc_cuda_stream *s, char *to, const char *from, size_t bytes,
                                 uint64_t number);
/** Arguments of a kernel into device memory, behind all that has been submitted. The memory is the
 *  next launch's, whose number is to be written to *out. */
jit_status jitc_cuda_upload_table(jitc_cuda_stream *s, const uint64_t *words, uint32_t count,
                                  jitc_cuda_table **out);
/** Memory from the pool may be used by what is queued from now on. If it may not, the device has
 *  failed. */
jit_status jitc_cuda_after_pool_locked(jitc_cuda_stream *s) REQUIRES(&s->mutex);
/** The stream, which is idle, ends. */
void jitc_cuda_tables_finish(jitc_cuda_stream *s);

/* state.c */

/** The memory in which a kernel that is launched next counts; 0 if it does not. */
jit_status jitc_cuda_state_of(jitc_cuda_stream *s, const jitc_cuda_plan *plan, uint64_t *address);
/** The stream, which is idle, ends; `there`: its context is. */
void jitc_cuda_states_finish(jitc_cuda_stream *s, bool there);

/* calls.c */

jit_status jitc_cuda_calls_create(jitc_cuda_calls **out);
/** All streams have been destroyed. */
void jitc_cuda_calls_destroy(jitc_cuda_calls *c);
jit_status jitc_cuda_call(jitc_cuda_stream *s, void (*function)(void *), void *context,
                          uint64_t *number);
/** Before fork(): nobody is changing anything; after it, in the parent. */
void jitc_cuda_calls_fork_hold(jitc_cuda_calls *c);
void jitc_cuda_calls_fork_release(jitc_cuda_calls *c);
/** After it, in the child: the thread is not there, and what it had to call is forgotten. */
void jitc_cuda_calls_forked(jitc_cuda_calls *c);
/** Wait until the calls up to number n have been made; the device has done what is before them. */
void jitc_cuda_calls_wait(jitc_cuda_stream *s, uint64_t n);
#endif
