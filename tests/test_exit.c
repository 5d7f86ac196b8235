/* test_exit.c: a process that ends without jit_shutdown(), with work queued and kernels being
 * compiled in the background, ends well. Criterion's processes end in another way, so the children
 * are this program itself. */
#include "support.h"
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define B support_backend()

enum { SIZE = 200000, OPERATIONS = 1200 };

/* A long kernel with much work, so that it is compiled again; then end at once. */
static void work_and_exit(const char *wait_us) {
    static float zeros[SIZE];
    if (jit_init(B) != JIT_OK)
        exit(2);
    jit_set_option("cache_disk", "0");
    jit_var v = jit_from_host(B, JIT_f32, zeros, SIZE);
    for (int i = 0; i < OPERATIONS; ++i) {
        jit_var literal = jit_f32(B, 1 + 1e-5f * (float) i);
        v = i & 1 ? jit_add(v, literal) : jit_mul(v, literal);
    }
    for (int i = 0; i < 20; ++i)
        if (jit_var_eval(jit_add(v, jit_f32(B, (float) i))) != JIT_OK)
            exit(3);
    usleep((useconds_t) atoi(wait_us));
    exit(0);
}

__attribute__((constructor)) static void be_a_child(void) {
    const char *wait_us = getenv("JITC_TEST_EXIT");
    if (wait_us)
        work_and_exit(wait_us);
}

extern char **environ;

static int status_of_child(const char *wait_us) {
    char *arguments[] = {"test_exit", NULL};
    pid_t child;
    int status = -1;
    setenv("JITC_TEST_EXIT", wait_us, 1);
    cr_assert_eq(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(exit, with_work_queued_and_kernels_being_compiled, .timeout = 200) {
    support_init(); /* skips the test where the backend is not there */
    support_shutdown();
    static const char *const waits[] = {"0", "1000", "5000", "20000", "60000", "150000"};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; ++i) {
        int status = status_of_child(waits[i]);
        cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "after %s us: status %x", waits[i],
                  (unsigned) status);
    }
}
