/* test_trace_threads.c: threads and forks that share a graph; the lock.  Layer: tests. */
#include "trace_graph.h"
#include <sys/wait.h>
#include <unistd.h>

TestSuite(trace, .init = start, .fini = stop);

static void *end_in_scope(void *context) {
    (void) context;
    jitc_trace_scope_push(g);
    data(JIT_f32, 8);
    return NULL;
}

Test(trace, a_thread_may_end_in_a_scope) {
    pthread_t t;
    pthread_create(&t, NULL, end_in_scope, NULL);
    pthread_join(t, NULL);
    cr_assert_eq(alive(), 1); /* nobody gave it back */
}

enum { THREADS = 3, SHARED = 64, STEPS = 64 * 2000 };
static jit_var shared[SHARED];

static void *trace_in_thread(void *context) {
    enum { N = 200 };
    jit_var v[N] = {0};
    uint64_t s = (uintptr_t) context * 7919 + 1;
    for (int i = 0; i < STEPS; ++i) {
        s = s * 6364136223846793005 + 1442695040888963407;
        uint32_t r = (uint32_t) (s >> 33);
        if (i % 64 == 0)
            jitc_trace_scope_push(g);
        jit_var a = r % 5 && v[r / 5 % N] ? v[r / 5 % N] : shared[r % SHARED];
        jit_var y = r & 1 ? binary(JITC_OP_add, a, shared[r / 7 % SHARED])
                          : jitc_trace_ternary(g, JITC_OP_fma, a, a, shared[r / 7 % SHARED]);
        if (i % 64 < 32) { /* y belongs to the scope */
            unary(JITC_OP_sin, y);
            if (i % 64 == 31)
                jitc_trace_scope_pop(g, 0, NULL);
            continue;
        }
        if (v[i % N])
            unref(v[i % N]);
        v[i % N] = y;
    }
    for (int i = 0; i < N; ++i)
        if (v[i])
            unref(v[i]);
    return jit_error_status() == JIT_OK ? NULL : "error";
}

Test(trace, threads_share_a_graph) {
    pthread_t t[THREADS];
    for (int i = 0; i < SHARED; ++i)
        shared[i] = data(JIT_f32, 8);
    for (uintptr_t i = 0; i < THREADS; ++i)
        pthread_create(&t[i], NULL, trace_in_thread, (void *) i);
    cr_assert_null(trace_in_thread((void *) 77)); /* the owner of the lock too */
    for (int i = 0; i < THREADS; ++i) {
        void *failed;
        pthread_join(t[i], &failed);
        cr_assert_null(failed);
    }
    for (int i = 0; i < SHARED; ++i)
        unref(shared[i]);
    cr_assert_eq(alive(), 0);
}

Test(trace, the_child_of_a_fork_can_go_on) {
    jit_var x = data(JIT_f32, 8);
    jitc_graph_lock(g); /* as if another thread were tracing */
    pid_t child = fork();
    if (!child) {
        jitc_graph_forked(g);
        jit_var y = unary(JITC_OP_sin, x);
        _exit(y && alive() == 2 ? 0 : 1);
    }
    jitc_graph_unlock(g);
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- the lock ---- */

static struct {
    jitc_lock lock;
    long count;
} counted;

static void *count_in_thread(void *context) {
    long n = (long) (intptr_t) context;
    for (long i = 0; i < n; ++i) {
        jitc_lock_acquire(&counted.lock);
        counted.count++;
        jitc_lock_release(&counted.lock);
    }
    return NULL;
}

/* Short bursts of others revoke the owner's bias a few times, long ones end it. */
Test(lock, excludes_threads_before_and_after_its_bias_is_dropped) {
    for (int round = 0; round < 200; ++round) {
        jitc_lock_init(&counted.lock);
        counted.count = 0;
        long others = round % 2 ? 3 : 2000;
        pthread_t t[2];
        for (int i = 0; i < 2; ++i)
            pthread_create(&t[i], NULL, count_in_thread, (void *) (intptr_t) others);
        count_in_thread((void *) (intptr_t) 20000);
        for (int i = 0; i < 2; ++i)
            pthread_join(t[i], NULL);
        cr_assert_eq(counted.count, 20000 + 2 * others);
        jitc_lock_finish(&counted.lock);
    }
}
