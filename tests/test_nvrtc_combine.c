/* test_nvrtc_combine.c: what the real NVRTC makes of texts that combine lanes. It needs no GPU.
 * JITC_TEST_NVRTC names its file; without, it is searched as the library does; where there is none,
 * the tests are skipped. */
#include "nvrtc_world.h"
#include "programs.h"
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static uint64_t params[64];

static uint32_t combine(jitc_program *p, jitc_op op, jit_dtype t, uint32_t aux, uint32_t value) {
    return add_flagged(p, (jitc_inst) {.op = (uint8_t) op,
                                       .type = (uint8_t) t,
                                       .aux = (uint8_t) aux,
                                       .a = value,
                                       .b = p->head.params++});
}

/** One of each shape, of elements of type t, that do something first. */
static jitc_program build(jitc_shape shape, jit_dtype t, uint32_t flags) {
    jitc_program p = {.head = {.params = JITC_SCRATCH_PARAMS,
                               .flags = flags | JITC_PROGRAM_SCRATCH,
                               .shape = shape}};
    uint32_t op = t == JIT_bool ? JIT_REDUCE_OR : (uint32_t) t % (JIT_REDUCE_MAX + 1);
    uint32_t aux = op | ((uint32_t) t % 2 ? JITC_AUX_REVERSE : JITC_AUX_EXCLUSIVE), n;
    uint32_t x = add_data(&p, t, NULL, params), y = add_data(&p, t, NULL, params);
    uint32_t less = add(&p, JITC_OP_lt, JIT_bool, x, y, 0);
    x = add(&p, JITC_OP_select, t, less, x, y);
    switch (shape) {
        case JITC_SHAPE_REDUCE:
            add_store(&p, JIT_bool, less, NULL, params);
            combine(&p, JITC_OP_reduce, t, op, x);
            combine(&p, JITC_OP_reduce, JIT_bool, JIT_REDUCE_AND, less);
            break;
        case JITC_SHAPE_BLOCK_REDUCE:
            n = combine(&p, JITC_OP_block_reduce, t, op, x);
            p.inst[n].c = p.head.params++;
            break;
        case JITC_SHAPE_SCAN: combine(&p, JITC_OP_prefix_reduce, t, aux, x); break;
        default:
            n = combine(&p, JITC_OP_compress, flags & JITC_PROGRAM_WIDE ? JIT_u64 : JIT_u32,
                        JITC_AUX_PART, less);
            p.inst[n].c = p.head.params++;
            break;
    }
    return p;
}

/** Kernels of all shapes, the types in turn. Machine code is checked by the assembler; in PTX one
 * can see that the arrays of a thread are in registers. */
static void check_arch(int capability, unsigned first, unsigned shapes, bool to_ptx) {
    static const uint32_t flags[] = {0, JITC_PROGRAM_TAIL, JITC_PROGRAM_WIDE};
    jitc_nvrtc *n = nvrtc_world_open();
    int arch;
    bool ptx;
    if (!n)
        return;
    if (jitc_nvrtc_arch(n, capability, &arch, &ptx) != JIT_OK || arch != capability) {
        jit_error_clear();
        jitc_nvrtc_close(n);
        cr_skip_test("this NVRTC does not know sm_%d", capability);
    }
    for (unsigned k = 0; k < shapes; ++k) {
        unsigned i = (first + k) % 4;
        jit_dtype t = (jit_dtype) ((first + i * 3) % JITC_DTYPE_COUNT);
        jitc_program p = build((jitc_shape) (JITC_SHAPE_REDUCE + i), t, flags[(first + i) % 3]);
        char *text = nvrtc_world_text(&p, 4096);
        jitc_blob code;
        if (jitc_nvrtc_compile(n, text, arch, to_ptx, false, &code) != JIT_OK) {
            cr_expect_fail("shape %u of %s, sm_%d: %s\n%s", p.head.shape, jit_dtype_name(t), arch,
                           jit_error(), text);
            jit_error_clear();
        } else {
            cr_expect(!to_ptx || !strstr(code.data, ".local"),
                      "local memory: shape %u of %s, sm_%d", p.head.shape, jit_dtype_name(t), arch);
            free(code.data);
        }
        free(text);
        jitc_program_finish(&p);
    }
    jitc_nvrtc_close(n);
}

Test(nvrtc_combine, shapes_compile_for_compute_capability_7_5) {
    check_arch(75, 0, 4, false);
}
Test(nvrtc_combine, shapes_compile_for_compute_capability_8_0) {
    check_arch(80, 2, 2, false);
}
Test(nvrtc_combine, shapes_compile_for_compute_capability_9_0) {
    check_arch(90, 8, 2, false);
    check_arch(90, 3, 4, true);
}
Test(nvrtc_combine, shapes_compile_for_compute_capability_10_0) {
    check_arch(100, 10, 2, false);
}
Test(nvrtc_combine, shapes_compile_for_compute_capability_12_0) {
    check_arch(120, 12, 2, false);
}
