/* test_fork.c: the child of a fork() uses the library, whatever threads of the parent were doing.
 */
#include "fork_child.h"
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define B support_backend()

static int use_everything_in(void *context) {
    return fork_use_everything(*(jit_var *) context);
}

Test(fork, the_child_has_what_the_parent_evaluated, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    jit_var x = fork_ones(B, SIZE), y = fork_compute(x, 3);
    ASSERT_VAR(x);
    ASSERT_OK(jit_var_eval(y));
    for (int i = 0; i < 10; ++i)
        ASSERT_CHILD(use_everything_in, &x);
    cr_assert(fork_all_are(x, 1));
    jit_unref(x);
    jit_unref(y);
    support_shutdown();
}

/* ---- Queued work ---- */

enum { CHAIN = 20 };

static int read_chain(void *context) {
    const jit_var *v = context;
    for (int i = CHAIN - 1; i >= 0; --i)
        NEED(fork_all_are(v[i], (uint32_t) i + 1));
    return FINE;
}

static int poll_and_leave(void *context) {
    jit_event *e = context;
    bool done = false;
    while (!done)
        NEED(jit_event_query(e, &done) == JIT_OK);
    jit_event_destroy(e);
    jit_shutdown();
    return FINE;
}

static int only_leave(void *context) {
    (void) context;
    jit_shutdown();
    return FINE;
}

static int only_exit(void *context) {
    (void) context;
    exit(FINE);
}

Test(fork, what_is_queued_on_the_cpu_goes_on_in_both_processes, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    jit_event *e;
    ASSERT_OK(jit_event_create(B, true, &e));
    for (int round = 0; round < 8; ++round) {
        jit_var v[CHAIN] = {fork_ones(B, LONG)}, one = jit_u32(B, 1);
        for (int i = 1; i < CHAIN; ++i) {
            v[i] = jit_add(v[i - 1], one);
            ASSERT_OK(jit_var_eval(v[i]));
        }
        ASSERT_OK(jit_event_record(e));
        if (round % 2)
            ASSERT_CHILD(read_chain, v);
        else
            ASSERT_CHILD(poll_and_leave, e);
        ASSERT_CHILD(only_leave, NULL);
        cr_assert_eq(read_chain(v), FINE);
        for (int i = 0; i < CHAIN; ++i)
            jit_unref(v[i]);
        jit_unref(one);
    }
    jit_event_destroy(e);
    support_shutdown();
}

/* ---- Forks of forks ---- */

typedef struct generation {
    jit_var x;
    int left;
} generation;

static int fork_on(void *context) {
    generation g = *(generation *) context;
    jit_var y = jit_add(g.x, fork_twos(JIT_LLVM, SIZE));
    NEED(jit_var_eval(y) == JIT_OK);
    if (g.left-- > 0) {
        pid_t child = fork();
        if (child == 0)
            _exit(fork_on(&g));
        NEED(fork_status(child) == FINE);
    }
    NEED(fork_all_are(y, 3));
    return fork_use_everything(g.x);
}

Test(fork, a_child_can_fork, .timeout = 120) {
    fork_need_cpu();
    fork_begin();
    generation g = {.x = fork_ones(B, SIZE), .left = 4};
    ASSERT_CHILD(fork_on, &g);
    jit_unref(g.x);
    support_shutdown();
}

/* ---- The ways in which programs start others ---- */

extern char **environ;

Test(fork, programs_are_started_as_ever, .timeout = 120) {
    fork_begin();
    for (int i = 0; i < 5; ++i) {
        jit_var x = fork_ones(B, SIZE), y = fork_compute(x, 2);
        ASSERT_OK(jit_var_eval(y));
        cr_assert_eq(system("exit 3") >> 8, 3);
        FILE *f = popen("echo 5", "r");
        int number = 0;
        cr_assert(f && fscanf(f, "%d", &number) == 1 && number == 5);
        pclose(f);
        char *arguments[] = {"true", NULL};
        pid_t child;
        cr_assert_eq(posix_spawnp(&child, "true", NULL, NULL, arguments, environ), 0);
        cr_assert_eq(fork_status(child), 0);
        child = fork();
        if (child == 0) {
            execvp("true", arguments);
            _exit(9);
        }
        cr_assert_eq(fork_status(child), 0);
        cr_assert(fork_all_are(x, 1));
        jit_unref(x);
        jit_unref(y);
    }
    support_shutdown();
}

static int start_it(void *context) {
    (void) context;
    NEED(jit_init(JIT_LLVM) == JIT_OK);
    jit_var x = fork_ones(JIT_LLVM, SIZE);
    return fork_use_everything(x);
}

Test(fork, before_and_after_the_runtime_there_is_nothing_to_do, .timeout = 120) {
    fork_need_cpu();
    ASSERT_CHILD(start_it, NULL);
    fork_begin();
    jit_var x = fork_ones(B, SIZE);
    cr_assert(fork_all_are(x, 1));
    jit_unref(x);
    support_shutdown();
    ASSERT_CHILD(start_it, NULL);
}

/* ---- CUDA ---- */

static int meet_cuda(void *context) {
    jit_var *v = context;
    uint32_t values[SIZE];
    NEED(jit_read(v[0], values) == JIT_UNAVAILABLE);
    NEED(strstr(jit_error(), "fork"));
    jit_error_clear();
    NEED(jit_var_eval(v[1]) == JIT_UNAVAILABLE && strstr(jit_error(), "fork"));
    jit_error_clear();
    NEED(!jit_from_host(JIT_CUDA, JIT_u32, values, 10) && strstr(jit_error(), "fork"));
    jit_error_clear();
    for (int i = 0; i < 3; ++i)
        jit_unref(v[i]);
    NEED(jit_error_status() == JIT_OK);
    if (support_is_built(JIT_LLVM)) {
        NEED(jit_init(JIT_LLVM) == JIT_OK);
        jit_var x = fork_ones(JIT_LLVM, SIZE);
        NEED(fork_all_are(jit_add(x, x), 2));
        jit_shutdown();
    }
    jit_shutdown();
    return FINE;
}

Test(fork, a_child_is_told_that_it_has_no_gpu, .timeout = 120) {
    fork_begin();
    if (B != JIT_CUDA)
        support_skip("this is about CUDA");
    for (int i = 0; i < 3; ++i) {
        jit_var v[3] = {fork_ones(B, SIZE)};
        v[1] = jit_add(v[0], v[0]);
        v[2] = fork_compute(v[0], 3);
        ASSERT_OK(jit_var_eval(v[2]));
        ASSERT_CHILD(meet_cuda, v);
        ASSERT_CHILD(only_leave, NULL);
        ASSERT_CHILD(only_exit, NULL);
        cr_assert(fork_all_are(v[1], 2));
        for (int k = 0; k < 3; ++k)
            jit_unref(v[k]);
    }
    support_shutdown();
}

/* ---- At any moment ---- */

#if !JITC_HAS_ASAN && !JITC_HAS_TSAN

typedef struct churn {
    pthread_t thread;
    jit_var shared;
    unsigned number;
    atomic_bool *stop;
} churn;

static void *churn_on(void *context) {
    churn *c = context;
    for (unsigned i = 0; !atomic_load(c->stop); ++i) {
        jit_var x = fork_ones(B, i % 3 ? SIZE : LONG);
        jit_var y = fork_compute(x, 1 + (i * 7 + c->number) % 40), z = jit_add(c->shared, y);
        jit_var_eval(i % 2 ? z : y);
        jit_unref(x);
        jit_unref(z);
        jit_unref(y);
        if (i % 16 == 0)
            jit_cache_clear_memory();
        jit_error_clear(); /* sizes that do not go together */
    }
    return NULL;
}

static int only_read(void *context) {
    jit_var *x = context;
    NEED(B == JIT_CUDA || fork_all_are(*x, 1));
    exit(FINE);
}

static int meet_any_moment(void *context) {
    if (B == JIT_LLVM)
        return fork_use_everything(*(jit_var *) context);
    jit_shutdown();
    return FINE;
}

Test(fork, at_any_moment, .timeout = 300) {
    fork_begin();
    enum { THREADS = 3 };
    atomic_bool stop = false;
    churn c[THREADS];
    jit_var x = fork_ones(B, SIZE);
    for (unsigned i = 0; i < THREADS; ++i) {
        c[i] = (churn) {.shared = x, .number = i, .stop = &stop};
        pthread_create(&c[i].thread, NULL, churn_on, &c[i]);
    }
    for (int i = 0; i < 60; ++i) {
        ASSERT_CHILD(i % 3 ? meet_any_moment : only_read, &x);
        usleep((useconds_t) (i * 37 % 1000));
    }
    atomic_store(&stop, true);
    for (int i = 0; i < THREADS; ++i)
        pthread_join(c[i].thread, NULL);
    cr_assert(fork_all_are(x, 1));
    jit_unref(x);
    support_shutdown();
}

static void *start_and_stop(void *context) {
    while (!atomic_load((atomic_bool *) context)) {
        if (jit_init(B) != JIT_OK)
            break;
        jit_var x = fork_ones(B, SIZE), y = fork_compute(x, 2);
        jit_var_eval(y);
        jit_shutdown();
    }
    return NULL;
}

static int start_again(void *context) {
    (void) context;
    if (jit_init(JIT_LLVM) != JIT_OK)
        return 1;
    jit_var x = fork_ones(JIT_LLVM, SIZE);
    NEED(fork_all_are(jit_add(x, x), 2));
    jit_shutdown();
    jit_shutdown();
    return FINE;
}

Test(fork, while_another_thread_starts_and_stops_the_runtime, .timeout = 300) {
    fork_begin();
    support_shutdown();
    if (!support_is_built(JIT_LLVM))
        support_skip("the child wants the CPU backend");
    atomic_bool stop = false;
    pthread_t thread;
    pthread_create(&thread, NULL, start_and_stop, &stop);
    for (int i = 0; i < 60; ++i)
        ASSERT_CHILD(start_again, NULL);
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
}
#endif
