/* workers.h: in-order streams of the CPU backend on one shared pool of worker threads.
 * Layer: llvm.  May include: core.  (Knows nothing of LLVM.)
 *
 * A task is a range of lanes cut into blocks; workers and waiting callers claim blocks, each first
 * those of its own share, so that the next task finds in a core's caches what this one has left
 * there. Tasks of one stream run one after the other, tasks of different streams side by side. See
 * workers_private.h for the life of a task and the sleeping protocol. */
#ifndef JITC_LLVM_WORKERS_H
#define JITC_LLVM_WORKERS_H
#include "core/error.h"
#include "core/sync.h"

/** A moment of a thread that looks again and again. */
static inline void jitc_cpu_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/** Runs lanes begin ... end-1, one block: `begin` is a multiple of the block size. Runs with the
 *  default floating point environment (round to nearest, denormals kept), whatever its caller has
 *  set. Must not call any function of this file. */
typedef void (*jitc_task_function)(uint64_t begin, uint64_t end, const uint64_t *params);

typedef struct jitc_pool jitc_pool;
typedef struct jitc_queue jitc_queue; /* one in-order stream */

/** A place in a queue, and the time at which it was reached. Made as {0}, which is reached. Only
 * the functions below read and write it. */
typedef struct jitc_place {
    jitc_queue *queue; /* NULL: none was set */
    uint64_t number;
    int64_t time_ns;                    /* CLOCK_MONOTONIC; 0: not known, or not yet */
    bool listed;                        /* it waits for its time ... */
    struct jitc_place *next, *previous; /* ... in its queue's list */
} jitc_place;

typedef struct jitc_task {
    jitc_task_function function;
    uint64_t lanes;         /* not 0 */
    uint64_t block;         /* lanes per block; not 0 */
    bool ascending;         /* blocks are claimed in order: later ones may wait for earlier ones */
    double cost_ns;         /* estimate of the whole on one thread: short tasks on an idle queue run
                               in the call, and never wake a sleeping worker */
    const uint64_t *params; /* copied */
    uint32_t count;
    atomic_uint *in_flight; /* NULL, or raised now and lowered when the task has ended (release),
                               before its number is done; not touched after that */
} jitc_task;

/** A pool of `threads` threads, the callers that wait counted as one: `threads` - 1 workers,
 * started one by one when a task wants them. threads >= 1. `spin_us`: how long an idle worker or a
 * waiting caller spins before it sleeps (not at all with more threads than cores). A pool of one
 * thread runs all launches in the call; it still starts one worker if functions are queued by
 * jitc_queue_call(), which must not run there, so that queued work never depends on somebody who
 * waits. Should the system refuse to make threads, waiting callers do all the work. */
jit_status jitc_pool_create(int threads, int spin_us, jitc_pool **out);
/** Ends the workers. All queues have been destroyed. */
void jitc_pool_destroy(jitc_pool *p);
int jitc_pool_threads(const jitc_pool *p);
/** Before fork(), when no queue is being given work: stops all threads between two blocks, and
 * keeps them out. It does not wait for functions of jitc_queue_call(): who forks may be in one, or
 * hold what one waits for. */
void jitc_pool_fork_hold(jitc_pool *p);
/** After it, in the parent. */
void jitc_pool_fork_release(jitc_pool *p);
/** After it, in the child, instead of releasing: forgets the workers, which do not exist there.
 * What is queued stays, and is run there too, by who waits for it or by workers that are started
 * when something is queued, or jitc_pool_resume() is called. A function that another thread was
 * calling counts as called. A worker that forked, in such a function, ends when the function
 * returns, and the child with it. */
void jitc_pool_forked(jitc_pool *p);
/** Let what the child of a fork() has inherited go on, if there is any left. Cheap. */
void jitc_pool_resume(jitc_pool *p);

jit_status jitc_queue_create(jitc_pool *p, jitc_queue **out);
/** The queue is idle. */
void jitc_queue_destroy(jitc_queue *q);

/* The following three: one caller at a time per queue (the stream's lock), any thread. They do not
 * wait for other work, and they return the number of the new work: 1, 2, 3, ... JIT_OUT_OF_MEMORY
 * queues nothing. */
/** On an idle queue, a task of one block, a short one, or any in a pool of one thread is run in the
 *  call. */
jit_status jitc_queue_launch(jitc_queue *q, const jitc_task *t, uint64_t *number);
/** A function called once everything before is done, by a worker or in jitc_queue_wait(), never in
 *  this call, and under no lock. */
jit_status jitc_queue_call(jitc_queue *q, void (*function)(void *), void *context,
                           uint64_t *number);
/** What is queued from now on comes after number n of `other`. No-op (and *number is the last one)
 *  if that is done or other == q. Waits in circles cannot be written: n exists already. */
jit_status jitc_queue_wait_for(jitc_queue *q, jitc_queue *other, uint64_t n, uint64_t *number);

/** *place: behind all that is queued on q so far; nothing is queued for it. With `timed` its time
 * is noted: at once on an idle queue, else by who ends the work before it, which takes no worker.
 * One caller at a time per queue, as above; any number per place. */
void jitc_place_set(jitc_place *place, jitc_queue *q, bool timed);
/** A copy: queue, number, and the time if the place is reached and the time is known. Any thread.
 */
jitc_place jitc_place_get(jitc_pool *p, const jitc_place *place);
/** It will not be written any more. Any thread. */
void jitc_place_finish(jitc_pool *p, jitc_place *place);

/** Any thread, any time. */
bool jitc_queue_done(const jitc_queue *q, uint64_t n);
/** Any thread, under no lock that a queued function may take. Runs ready tasks while it waits until
 *  number n is done: those that n depends on, and blocks of others' large tasks. */
void jitc_queue_wait(jitc_queue *q, uint64_t n);
#endif
