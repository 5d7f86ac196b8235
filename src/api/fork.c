/* fork.c: what a fork() of the process does to the runtime.
 *
 *   hold      before: no other thread is in the middle of a change, in a kernel, or in a compiler
 *   go_on     after, in the parent
 *   be_child  after, in the child, in which the calling thread is the only one
 *
 * The child has the graph, the compiled kernels and the CPU backend as they were. What was queued
 * on the CPU goes on in both processes, so nobody waits for it here. What other threads had begun
 * is given up: their records are set aside, and the nodes that they were evaluating can be
 * evaluated by others. A release that another thread is calling counts as called; those that it
 * has held back are called by the child, too, for its copy of the memory: they are in the graph, or
 * in the plans of the records until the runtime ends. The CUDA backend cannot go on, and says so.
 *
 * ORDER of locks: each before those below it, by which no two threads wait for each other.
 *
 *   jitc_runtime.lock            starting, stopping, opening devices, the list of threads
 *   exit.c, "inside"             in a compiler, opening a library: no lock is taken above it
 *   jitc_runtime.events_lock     the list of public events
 *   jitc_device.lock             the streams of a device
 *   jitc_stream.lock             queueing. One at a time, but here, where all are taken
 *   jitc_memory                  kept blocks
 *   lend.c, `loans`              memory that others use; nothing is taken under it
 *   the graph's                  nodes, what threads have scheduled, their plans
 *   jitc_table.lock, jitc_hot    kernels in memory, and those to be compiled again
 *   those of a backend           llvm: kernels, then the pool. cuda: calls, devices, streams
 *   jitc_runtime.settle_lock, jitc_buffer.lock, the log's: under these nothing is taken
 *
 * Not taken here are: settle_lock, which guards nothing that a child needs; jitc_buffer.lock, which
 * opens by itself in a child (jitc_spin), and whose holders hold a stream's lock too when they
 * change anything; the CUDA backend's streams, which a child does not use.
 *
 * None of these is held while user code runs (log, release, jit_call()), so who forks in there
 * holds none; and who holds one waits for kernels and compilers, but for no user code: that may in
 * turn be waiting for the thread that forks, as for the lock of an interpreter. */
#include "api/fork.h"
#include "api/event.h"
#include "core/exit.h"
#include "core/log.h"
#include "device/lend.h"

typedef void device_function(jitc_device *d);

static void for_each_device(device_function *function) {
    for (int b = 0; b < JITC_BACKENDS; ++b)
        for (int d = 0; d < jitc_runtime.started[b].devices; ++d) {
            jitc_device *device = jitc_load_acquire(&jitc_runtime.started[b].device[d]);
            if (device)
                function(device);
        }
}

static jitc_graph *graph(void) {
    return jitc_load_acquire(&jitc_runtime.graph);
}

static void hold(void) UNCHECKED_LOCKING {
    jitc_mutex_lock(&jitc_runtime.lock);
    jitc_exit_fork_hold();
    jitc_mutex_lock(&jitc_runtime.events_lock);
    for_each_device(jitc_device_fork_hold);
    jitc_lend_fork_hold();
    if (graph())
        jitc_graph_fork_hold(graph());
    if (jitc_runtime.cache)
        jitc_cache_fork_hold(jitc_runtime.cache);
    for (int b = 0; b < JITC_BACKENDS; ++b)
        if (jitc_runtime.started[b].backend)
            jitc_runtime.started[b].backend->fork_hold(jitc_runtime.started[b].backend);
    jitc_log_fork_hold();
}

static void go_on(void) UNCHECKED_LOCKING {
    jitc_log_fork_release();
    for (int b = 0; b < JITC_BACKENDS; ++b)
        if (jitc_runtime.started[b].backend)
            jitc_runtime.started[b].backend->fork_release(jitc_runtime.started[b].backend);
    if (jitc_runtime.cache)
        jitc_cache_fork_release(jitc_runtime.cache);
    if (graph())
        jitc_graph_fork_release(graph());
    jitc_lend_fork_release();
    for_each_device(jitc_device_fork_release);
    jitc_mutex_unlock(&jitc_runtime.events_lock);
    jitc_exit_fork_release();
    jitc_mutex_unlock(&jitc_runtime.lock);
}

/* Conditions and counts of those who waited. */
static void forget_waiters(void) {
    jitc_mutex_init(&jitc_runtime.settle_lock);
    pthread_cond_init(&jitc_runtime.settle, NULL);
    jitc_store_seq(&jitc_runtime.settle_waiters, 0);
    pthread_cond_init(&jitc_runtime.left, NULL);
    pthread_cond_init(&jitc_runtime.events_left, NULL);
}

/* ORDER: locks opened before the records of other threads are taken apart, which takes them again,
 * by the lines below; without it the child waits for itself. */
static void be_child(void) UNCHECKED_LOCKING {
    jitc_add_relaxed(&jitc_fork_generation, 1u);
    jitc_log_fork_release();
    for (int b = 0; b < JITC_BACKENDS; ++b)
        if (jitc_runtime.started[b].backend)
            jitc_runtime.started[b].backend->forked(jitc_runtime.started[b].backend);
    if (jitc_runtime.cache)
        jitc_cache_forked(jitc_runtime.cache);
    if (graph())
        jitc_graph_forked(graph());
    jitc_lend_fork_release();
    for_each_device(jitc_device_forked);
    jitc_event_forked_locked();
    jitc_mutex_unlock(&jitc_runtime.events_lock);
    jitc_exit_forked();
    forget_waiters();
    jitc_thread_forked_locked(graph());
    jitc_mutex_unlock(&jitc_runtime.lock);
}

jit_status jitc_fork_install_locked(void) {
    if (jitc_runtime.forks)
        return JIT_OK;
    if (pthread_atfork(hold, go_on, be_child) != 0)
        return jitc_fail(JIT_OUT_OF_MEMORY, "host memory: no room for what is done at fork()");
    jitc_runtime.forks = true;
    return JIT_OK;
}
