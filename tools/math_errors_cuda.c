/* math_errors_cuda.c: measures the math functions of the CUDA backend through the public interface;
 * prints the table of docs/math-errors.md.
 *
 * math_errors_cuda [-s STRIDE] [-r RANDOM] [-f NAME] [-t THREADS] [llvm]: f32 in steps of STRIDE
 * bit patterns (default 61; 1: all of them), RANDOM arguments (2^24); only the function NAME;
 * threads of the CPU that judge (all); llvm: the CPU backend, to compare. */
#include "math_measure.h"
#include "support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 1 << 16 };

typedef struct call {
    jit_backend backend;
    jitc_op op;
    jit_dtype type;
} call;

static bool run(const void *context, const void *a, const void *b, void *r, size_t n) {
    const call *c = context;
    jit_scope_push();
    jit_var v[3] = {jit_from_host(c->backend, c->type, a, n), 0, 0};
    if (jitc_ops[c->op].arity == 2)
        v[1] = jit_from_host(c->backend, c->type, b, n);
    bool good = jit_read(support_apply(c->op, v), r) == JIT_OK;
    jit_scope_pop(0, NULL);
    if (!good)
        fprintf(stderr, "%s: %s\n", jitc_ops[c->op].name, jit_error());
    return good;
}

/** False if a kernel failed. */
static bool print_row(jit_backend backend, jitc_op op, jit_dtype type, const math_effort *effort) {
    call c = {backend, op, type};
    math_function f = {op, type, run, &c};
    math_error e = math_measure(&f, effort);
    if (e.failed)
        return false;
    printf("| %s | %s | %.3f | ", jitc_ops[op].name, jitc_dtypes[type].name, e.ulp);
    if (e.ulp > 0)
        math_print_where(&f, &e);
    printf(" | %zu |\n", e.above);
    fflush(stdout);
    return true;
}

int main(int argc, char **argv) {
    math_effort effort = {61, 1 << 24, CHUNK, (int) sysconf(_SC_NPROCESSORS_ONLN)};
    const char *only = NULL;
    for (int c; (c = getopt(argc, argv, "s:r:f:t:")) != -1;) {
        if (c == 's')
            effort.stride = strtoull(optarg, NULL, 10);
        else if (c == 'r')
            effort.random = strtoull(optarg, NULL, 10);
        else if (c == 'f')
            only = optarg;
        else if (c == 't')
            effort.threads = atoi(optarg);
        else
            return 2;
    }
    jit_backend backend = optind < argc && !strcmp(argv[optind], "llvm") ? JIT_LLVM : JIT_CUDA;
    if (jit_init(backend) != JIT_OK || effort.stride == 0 || effort.threads < 1) {
        fprintf(stderr, "%s\n", jit_error());
        return 1;
    }
    printf(
        "| function | type | ULP | at | results off by more than 1 ULP |\n|---|---|---|---|---|\n");
    bool good = true;
    for (int t = 0; t < 2; t++)
        for (int op = 0; op < JITC_OP_COUNT; op++)
            if (jitc_ops[op].props & JITC_INEXACT && (!only || !strcmp(only, jitc_ops[op].name)))
                good &= print_row(backend, (jitc_op) op, t ? JIT_f64 : JIT_f32, &effort);
    jit_shutdown();
    return !good;
}
