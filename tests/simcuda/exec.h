/* exec.h: a launch while it runs: blocks, threads as fibers, and what their code calls.
 *
 *   exec.c      picks which thread of which block goes on; reports what went wrong
 *   fiber.c     stacks, switching between them, signals that a thread's code raises
 *   access.c    loads, stores, atomics, shared memory
 *   barrier.c   __syncthreads()
 *   warp.c      operations among the lanes of a warp
 *
 * A launch runs on one thread of the host. The scheduler and every fiber have a stack each:
 *
 *   scheduler ──sim_resume──► fiber ──sim_suspend──► scheduler ──► the next fiber
 *
 * A text without barriers, warp operations and waits runs on one fiber that goes over all threads.
 */
#ifndef SIMCUDA_EXEC_H
#define SIMCUDA_EXEC_H
#include "code.h"

typedef struct sim_index {
    unsigned x, y, z;
} sim_index;
/** What threadIdx and its like read; struct sim_place of host_prelude.h. */
typedef struct sim_place {
    sim_index thread, block, block_size, grid_size;
} sim_place;

typedef enum sim_wait { SIM_RUNS, SIM_AT_BARRIER, SIM_IN_WARP, SIM_ENDED } sim_wait;

typedef struct sim_fiber {
    void *stack_pointer;
    char *memory; /* a guard page, and `stack` bytes of stack */
    size_t stack;
    struct sim_fiber *next;
    void (*entry)(void);
    sim_place place;
    struct sim_block *block;
    unsigned thread; /* number in its block */
    sim_wait wait;
    int line;                   /* of the barrier or operation it waits in */
    int kind;                   /* of the barrier or operation */
    unsigned mask, from, width; /* operands of a warp operation */
    uint64_t value, result;
    uint64_t last; /* address it accessed last */
    unsigned again;
} sim_fiber;

typedef struct sim_shared_array {
    const void *id;
    size_t offset, bytes;
} sim_shared_array;

typedef struct sim_block {
    sim_index index;
    bool used;
    unsigned started, live, at_barrier;
    sim_fiber **fibers; /* by thread; NULL: not started, or ended */
    char *arena;        /* shared memory */
    size_t arena_used;
    sim_shared_array arrays[64];
    unsigned array_count;
} sim_block;

typedef struct sim_executor {
    const sim_launch *launch;
    void *arguments[SIM_MOST_ARGUMENTS];
    unsigned threads; /* of a block */
    uint64_t random;  /* state; 0: nothing is random */
    sim_fiber *self;  /* that runs; NULL: the scheduler */
    void *scheduler;  /* its stack pointer */
    sim_fiber *idle;  /* fibers with a stack for use again */
    sim_block *blocks;
    unsigned resident;       /* blocks at once */
    sim_fiber **queue;       /* a ring of those that can run */
    size_t head, tail, size; /* size: a power of two */
    uint64_t progress;       /* counts what a wait can be waiting for */
    bool spins;              /* the fiber that was suspended last did so in a loop that waits */
    sim_result result;
    char *report;
    size_t report_size;
    void *signal_stack;
    int signal; /* that bad code raised */
    uint64_t signal_address;
} sim_executor;

/** The launch that this thread of the host runs. */
extern __thread sim_executor *sim_running __attribute__((tls_model("initial-exec")));

/** The calling fiber's thread did wrong: ends the launch. A sentence's end, printf-like. */
_Noreturn void sim_stop(sim_result result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** The same without leaving: for the scheduler, and with a fiber to blame (may be NULL). */
void sim_blame(sim_executor *x, const sim_fiber *f, sim_result result, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/** A fiber can go on. */
void sim_ready(sim_executor *x, sim_fiber *f);
/** Random number below `bound`; 0 if nothing is random. */
unsigned sim_below(sim_executor *x, unsigned bound);

/* ---- fiber.c ---- */

/** A fiber that will call `entry`, which must not return; NULL: no memory. */
sim_fiber *sim_fiber_start(sim_executor *x, size_t stack, void (*entry)(void));
void sim_fiber_end(sim_executor *x, sim_fiber *f);
void sim_fiber_free(sim_fiber *f);
/** The scheduler: run a fiber until it suspends itself. */
void sim_resume(sim_executor *x, sim_fiber *f);
/** A fiber: back to the scheduler. */
void sim_suspend(sim_executor *x);
/** Catch what bad code raises on this thread, while sim_running is set. */
void sim_catch_signals(sim_executor *x);
void sim_signal_stack_free(sim_executor *x);

/* ---- barrier.c, warp.c ---- */

/** A thread of the block ended: it may have been the last that others waited for. */
void sim_barrier_left(sim_executor *x, sim_block *b);
void sim_warp_left(sim_executor *x, sim_block *b, unsigned thread);

/* ---- access.c ---- */

void sim_arena_reset(sim_executor *x, sim_block *b);
/** At the end of a block: has it written behind an array? */
void sim_arena_check(sim_executor *x, sim_block *b);
size_t sim_arena_bytes(const sim_launch *l);
#endif
