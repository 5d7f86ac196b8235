/* fork_child.c: see fork_child.h. */
#include "fork_child.h"
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define B support_backend()

#if JITC_HAS_ASAN
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
static pid_t first_process;
__attribute__((constructor)) static void note_process(void) {
    first_process = getpid();
}
/* What only threads of the parent knew of looks like a leak in a child. */
int __lsan_is_turned_off(void) {
    return getpid() != first_process;
}
#endif

int fork_status(pid_t child) {
    int status = 0;
    for (int i = 0; i < 600000; ++i) { /* no test waits so long for a child that goes on */
        if (waitpid(child, &status, WNOHANG) == child)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
        usleep(100);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return HANGS;
}

int fork_run(int (*function)(void *), void *context) {
    pid_t child = fork();
    if (child == 0)
        _exit(function(context));
    cr_assert_gt(child, 0);
    return fork_status(child);
}

/* ---- Work ---- */

void fork_begin(void) {
#if JITC_HAS_TSAN
    support_skip("ThreadSanitizer does not support threads in the child of a process with threads");
#endif
    support_init();
    jit_set_option("cache_disk", "0");
}

/* The value of v is the same everywhere. */
bool fork_all_are(jit_var v, uint32_t expected) {
    size_t n = jit_size(v);
    uint32_t *values = malloc(n * sizeof *values);
    bool good = n && values && jit_read(v, values) == JIT_OK;
    for (size_t i = 0; good && i < n; ++i)
        good = values[i] == expected;
    free(values);
    return good;
}

/* 7 x + k, k of which each one is another kernel, for x in memory. */
jit_var fork_compute(jit_var x, unsigned k) {
    jit_scope_push();
    jit_var v = jit_mul(x, jit_u32(jit_backend_of(x), 7));
    for (unsigned i = 0; i < k; ++i)
        v = jit_add(jit_xor(v, jit_counter(jit_backend_of(x), 1)), jit_u32(jit_backend_of(x), 1));
    jit_scope_pop(1, &v);
    return v;
}

jit_var fork_ones(jit_backend b, size_t n) {
    uint32_t *values = malloc(n * sizeof *values);
    cr_assert_not_null(values);
    for (size_t i = 0; i < n; ++i)
        values[i] = 1;
    jit_var v = jit_from_host(b, JIT_u32, values, n);
    free(values);
    return v;
}

jit_var fork_twos(jit_backend b, size_t n) {
    uint32_t value = 2;
    return jit_literal(b, JIT_u32, &value, n);
}

typedef struct worker {
    pthread_t thread;
    jit_var x;
    int result;
} worker;

static void *compute_in_thread(void *context) {
    worker *w = context;
    jit_var v = jit_add(w->x, fork_twos(JIT_LLVM, SIZE));
    w->result = !fork_all_are(v, 3);
    jit_unref(v);
    return NULL;
}

static int use_threads(jit_var x) {
    worker w[4];
    for (int i = 0; i < 4; ++i) {
        w[i] = (worker) {.x = x, .result = 1};
        NEED(pthread_create(&w[i].thread, NULL, compute_in_thread, &w[i]) == 0);
    }
    for (int i = 0; i < 4; ++i)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < 4; ++i)
        NEED(w[i].result == 0);
    return FINE;
}

/* Everything that can be done on the CPU. `x`: ones, on the CPU. */
int fork_use_everything(jit_var x) {
    jit_var v = jit_add(x, fork_twos(JIT_LLVM, SIZE)), w = jit_mul(v, v);
    NEED(fork_all_are(x, 1));
    NEED(fork_all_are(w, 9));
    NEED(fork_all_are(jit_sub(w, jit_add(v, x)), 5)); /* another kernel */
    int threads = use_threads(x);
    if (threads)
        return threads;
    NEED(jit_sync_all_devices() == JIT_OK);
    jit_shutdown();
    NEED(jit_init(JIT_LLVM) == JIT_OK);
    jit_var y = fork_ones(JIT_LLVM, SIZE);
    NEED(fork_all_are(jit_add(y, y), 2));
    jit_shutdown();
    return FINE;
}

void fork_need_cpu(void) {
    if (B != JIT_LLVM)
        support_skip("this is about the CPU backend");
}
