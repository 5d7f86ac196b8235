/* nvrtc_world.c: the real NVRTC. */
#include "nvrtc_world.h"
#include "cuda/text.h"
#include <criterion/criterion.h>
#include <stdlib.h>

jitc_nvrtc *nvrtc_world_open(void) {
    const char *path = getenv("JITC_TEST_NVRTC");
    jitc_nvrtc *n = NULL;
    if (jitc_nvrtc_open(path ? path : "", &n) == JIT_OK)
        return n;
    cr_assert_not(path && *path, "%s", jit_error());
    cr_skip_test("no real NVRTC: %s", jit_error());
    return NULL;
}

char *nvrtc_world_text(const jitc_program *p, uint32_t most_bytes) {
    char *text = NULL;
    const char *wrong = jitc_program_invalid(p);
    cr_assert_null(wrong, "%s", wrong);
    cr_assert_eq(jitc_cuda_text(p, jitc_cuda_layout_of(p, most_bytes), &text), JIT_OK);
    return text;
}
