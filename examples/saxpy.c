/* saxpy.c: the first program. z = 2 x + 1 over x = 0, 1, 2, ... on the CPU and on the GPU,
 * whichever are there. Multiplications and additions are rounded alike everywhere: the results are
 * equal. */
#include <jit/jit.h>
#include <stdio.h>
#include <string.h>

enum { N = 8 };

static jit_status compute(jit_backend b, float *z) {
    jit_scope_push(); /* gives back every variable made from here on */
    jit_var x = jit_cast(jit_counter(b, N), JIT_f32);
    jit_var y = jit_add(jit_mul(x, jit_f32(b, 2)), jit_f32(b, 1)); /* nothing is computed yet */
    jit_status status = jit_read(y, z); /* one kernel: compiled, launched, waited for, copied */
    jit_scope_pop(0, NULL);
    return status; /* one check for the whole chain */
}

int main(void) {
    static const jit_backend backends[] = {JIT_LLVM, JIT_CUDA};
    float z[2][N];
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK) /* succeeds if one of them is there */
        return fprintf(stderr, "%s\n", jit_error()), 1;
    for (int k = 0; k < 2; ++k) {
        if (!jit_has_backend(backends[k]))
            continue;
        if (compute(backends[k], z[k]) != JIT_OK)
            return fprintf(stderr, "%s\n", jit_error()), 1;
        printf(k ? "GPU:" : "CPU:");
        for (int i = 0; i < N; ++i)
            printf(" %g", z[k][i]);
        printf("\n");
    }
    bool both = jit_has_backend(JIT_LLVM) && jit_has_backend(JIT_CUDA);
    bool same = !both || memcmp(z[0], z[1], sizeof z[0]) == 0;
    if (both)
        printf("the two results are %s\n", same ? "equal: ok" : "not equal: WRONG");
    jit_shutdown();
    return !same;
}
