/* common.h: what the examples share: a clock, and the backends one after the other. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H
#include <jit/jit.h>
#include <stdio.h>
#include <time.h>

static inline double milliseconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double) t.tv_sec + 1e-6 * (double) t.tv_nsec;
}

/* Start the runtime and call run(backend, name, context), which says whether the result was right,
 * for every backend that is there. The exit status of the program. */
static inline int on_each_backend(bool (*run)(jit_backend b, const char *name, void *context),
                                  void *context) {
    bool good = true;
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK) /* succeeds if one of them is there */
        return fprintf(stderr, "%s\n", jit_error()), 1;
    if (jit_has_backend(JIT_LLVM))
        good = run(JIT_LLVM, "CPU", context);
    if (jit_has_backend(JIT_CUDA))
        good = run(JIT_CUDA, "GPU", context) && good;
    if (jit_error_status() != JIT_OK)
        fprintf(stderr, "%s\n", jit_error());
    jit_shutdown();
    return !good;
}
#endif
