/* saxpy.c: the first program. z = 2 x + 1 over x = 0, 1, 2, ... on whatever device there is. */
#include <jit/jit.h>
#include <stdio.h>

int main(void) {
    float z[8];
    if (jit_init(JIT_LLVM | JIT_CUDA) != JIT_OK) {
        fprintf(stderr, "%s\n", jit_error());
        return 1;
    }
    jit_backend b = jit_has_backend(JIT_CUDA) ? JIT_CUDA : JIT_LLVM;

    jit_scope_push(); /* gives back every variable made from here on */
    jit_var x = jit_cast(jit_counter(b, 8), JIT_f32);
    jit_var y = jit_add(jit_mul(x, jit_f32(b, 2)), jit_f32(b, 1)); /* nothing is computed yet */

    if (jit_read(y, z) != JIT_OK) { /* one kernel: compiled, launched, waited for, copied */
        fprintf(stderr, "%s\n", jit_error()); /* one check for the whole chain */
        return 1;
    }
    jit_scope_pop(0, NULL);

    for (int i = 0; i < 8; ++i)
        printf("%g ", z[i]);
    printf("\n");
    jit_shutdown();
    return 0;
}
