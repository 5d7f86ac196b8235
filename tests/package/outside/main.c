/* main.c: a program outside of the project. Its argument is the backend that jitc was built with.
 */
#include <jit/jit.h>
#include <stdio.h>
#include <string.h>

static int fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, jit_error());
    return 1;
}

static int compute(void) {
    float out[3] = {0};
    jit_scope_push();
    jit_var x = jit_cast(jit_counter(JIT_LLVM, 3), JIT_f32);
    jit_status status =
        jit_read(jit_add(jit_mul(x, jit_f32(JIT_LLVM, 2)), jit_f32(JIT_LLVM, 1)), out);
    jit_scope_pop(0, NULL);
    if (status != JIT_OK)
        return fail("jit_read");
    if (out[0] != 1 || out[1] != 3 || out[2] != 5)
        return fail("2 x + 1 is wrong");
    jit_shutdown();
    return 0;
}

int main(int argc, char **argv) {
    int expected = argc == 2 && strcmp(argv[1], "llvm") == 0;
    jit_status status = jit_init(JIT_LLVM);
    if (expected)
        return status == JIT_OK ? compute() : fail("jit_init");
    return status == JIT_UNAVAILABLE && jit_error()[0] ? 0 : fail("jit_init without a backend");
}
