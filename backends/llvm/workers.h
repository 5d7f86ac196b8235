/* workers.h: in-order streams of the CPU backend on one shared pool of worker threads.
 * Layer: llvm.  May include: core.  (Knows nothing of LLVM.)
 *
 * A task is a range of lanes cut into blocks; workers and waiting callers claim blocks. Tasks of one
 * stream run one after the other, tasks of different streams side by side. See workers.c for the
 * life of a task and the sleeping protocol. */
#ifndef JITC_LLVM_WORKERS_H
#define JITC_LLVM_WORKERS_H
#include "core/error.h"
#include "core/sync.h"

/** Runs lanes begin ... end-1. `begin` is a multiple of the block size. */
typedef void (*jitc_task_function)(uint64_t begin, uint64_t end, const uint64_t *params);

typedef struct jitc_pool jitc_pool;
typedef struct jitc_queue jitc_queue; /* one in-order stream */

typedef struct jitc_task {
    jitc_task_function function;
    uint64_t lanes;          /* not 0 */
    uint64_t block;          /* lanes per block; not 0 */
    double cost_ns;          /* estimate of the whole on one thread: short tasks on an idle queue run
                                in the call, and never wake a sleeping worker */
    const uint64_t *params;  /* copied */
    uint32_t count;
    atomic_uint *in_flight;  /* NULL, or raised now and lowered when the task has ended (release) */
} jitc_task;

/** A pool of `threads` threads, the callers that wait counted as one: `threads` - 1 workers, started
 *  on the first task that wants them. threads >= 1. `spin_us`: how long an idle worker spins. */
jit_status jitc_pool_create(int threads, int spin_us, jitc_pool **out);
/** Ends the workers. All queues have been destroyed. */
void jitc_pool_destroy(jitc_pool *p);
int jitc_pool_threads(const jitc_pool *p);
/** In the child after fork(): forget the workers, which do not exist there; they are started anew. */
void jitc_pool_forked(jitc_pool *p);

jit_status jitc_queue_create(jitc_pool *p, jitc_queue **out);
/** The queue is idle. */
void jitc_queue_destroy(jitc_queue *q);

/* The following three: one caller at a time per queue (the stream's lock), any thread. They do not
 * wait, and they return the number of the new work: 1, 2, 3, ... JIT_OUT_OF_MEMORY queues nothing. */
jit_status jitc_queue_launch(jitc_queue *q, const jitc_task *t, uint64_t *number);
/** A function called once everything before is done, from an ordinary thread under no lock. */
jit_status jitc_queue_call(jitc_queue *q, void (*function)(void *), void *context,
                           uint64_t *number);
/** What is queued from now on comes after number n of `other`. No-op (and *number is the last one)
 *  if that is done. Waits in circles cannot be written: n exists already. */
jit_status jitc_queue_wait_for(jitc_queue *q, jitc_queue *other, uint64_t n, uint64_t *number);

/** Any thread, any time. */
bool jitc_queue_done(const jitc_queue *q, uint64_t n);
/** Any thread. Runs blocks of ready tasks while it waits until number n is done. */
void jitc_queue_wait(jitc_queue *q, uint64_t n);
#endif
