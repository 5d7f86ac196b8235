/* test_exit.c: a process that ends without jit_shutdown() ends well, however it ends, whatever its
 * threads are doing, and leaks nothing; and a process may start and stop the runtime often. */
#include "exit_work.h"
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
#define X(function, text) function,
    ENDINGS(X)
#undef X
        COUNT
};

extern char **environ;

static int wait_for(pid_t child) {
    int status = -1;
    for (int i = 0; i < 400000; ++i) {
        if (waitpid(child, &status, WNOHANG) == child)
            return status;
        usleep(500);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return -1;
}

static void check_child(int what, int how, int wait_us) {
    static const char *const texts[] = {
#define X(function, text) text,
        ENDINGS(X)
#undef X
    };
    char words[3][16], program[4096];
    char *arguments[] = {"exit_child", words[0], words[1], words[2], NULL};
    pid_t child;
    snprintf(words[0], sizeof *words, "%d", what);
    snprintf(words[1], sizeof *words, "%d", how);
    snprintf(words[2], sizeof *words, "%d", wait_us);
    support_beside("exit_child", JITC_EXIT_CHILD, program, sizeof program);
    cr_assert_eq(posix_spawn(&child, program, NULL, NULL, arguments, environ), 0, "%s", program);
    int status = wait_for(child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "%s after %d us: status %x",
              texts[how], wait_us, (unsigned) status);
}

static void begin(void) {
    support_init(); /* skips the test where the backend is not there */
    support_shutdown();
}

Test(exit, with_work_queued_and_kernels_being_compiled, .timeout = 200) {
    static const int waits[] = {0, 1000, 5000, 20000, 60000, 150000};
    begin();
    for (size_t i = 0; i < sizeof waits / sizeof *waits; ++i)
        check_child(ALONE, 0, waits[i]);
}

Test(exit, however_it_comes_while_threads_evaluate_compile_and_wait, .timeout = 300) {
    static const int waits[] = {0, 3000, 40000};
    begin();
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* threads that are at work look like leaks */
    for (int how = 0; how < COUNT; ++how)
        for (size_t i = 0; i < sizeof waits / sizeof *waits; ++i)
            check_child(BUSY, how, waits[i]);
}

/* AddressSanitizer looks for them, and ends the child with another status. */
Test(exit, leaves_nothing_that_a_leak_checker_reports, .timeout = 200) {
    begin();
    setenv("ASAN_OPTIONS", "detect_leaks=1", 1);
    for (int i = 0; i < 5; ++i)
        check_child(QUIET, 0, 0);
}

/* What frees their memory then is in nobody's way at the exit. */
Test(exit, after_the_runtime_while_others_hold_tensors, .timeout = 200) {
    begin();
    setenv("ASAN_OPTIONS", "detect_leaks=1", 1);
    for (int i = 0; i < 5; ++i)
        check_child(ENDED, 0, 0);
}

/* ---- Many lives in one process ---- */

typedef struct guest {
    pthread_t thread;
    atomic_int round, done;
} guest;

/* Lives longer than any runtime. */
static void *use_each_round(void *context) {
    guest *g = context;
    for (int seen = 0, round; (round = atomic_load(&g->round)) >= 0;) {
        if (round == seen) {
            usleep(20);
            continue;
        }
        jit_event_destroy(work_leave_things());
        seen = round;
        atomic_store(&g->done, round);
    }
    return NULL;
}

Test(exit, the_runtime_can_start_and_stop_any_number_of_times, .timeout = 300) {
    enum { GUESTS = 3, ROUNDS = 100 };
    guest g[GUESTS] = {0};
    begin();
    for (int i = 0; i < GUESTS; ++i)
        g[i].thread = work_start(use_each_round, &g[i]);
    for (int round = 1; round <= ROUNDS; ++round) {
        float value = 1;
        jit_event *e;
        bool done;
        support_init();
        for (int i = 0; i < GUESTS; ++i)
            atomic_store(&g[i].round, round);
        jit_var v = work_compute(work_zeros(64), SHORT);
        ASSERT_OK(jit_event_create(support_backend(), false, &e));
        ASSERT_OK(jit_read_range(v, 0, 1, &value));
        for (int i = 0; i < GUESTS; ++i)
            while (atomic_load(&g[i].done) != round)
                usleep(20);
        if (round % 2)
            pthread_join(work_start(work_leave_and_end, g), NULL);
        support_shutdown();
        cr_assert_eq(jit_size(v), 0); /* handles are dead, and say so */
        jit_unref(v);
        jit_error_clear();
        support_init();
        cr_assert_eq(jit_size(v), 0);
        jit_unref(v);
        cr_assert_eq(jit_event_query(e, &done), JIT_INVALID_HANDLE);
        jit_event_destroy(e);
        jit_error_clear();
        support_shutdown();
    }
    for (int i = 0; i < GUESTS; ++i)
        atomic_store(&g[i].round, -1);
    for (int i = 0; i < GUESTS; ++i)
        pthread_join(g[i].thread, NULL);
}
