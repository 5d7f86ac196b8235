/* test_nvrtc.c: what the real NVRTC makes of the texts. It needs no GPU. JITC_TEST_NVRTC names its
 * file; without, it is searched as the library does; where there is none, the tests are skipped. */
#include "cuda/text.h"
#include "nvrtc_world.h"
#include "programs.h"
#include <criterion/criterion.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 32764, THREADS = 4 };

static uint64_t params[1 << 12];

/* Programs with every operation. */

static bool is_elementwise(int op) {
    switch (jitc_ops[op].form) {
        case JITC_FORM_UNARY:
        case JITC_FORM_BINARY:
        case JITC_FORM_TERNARY:
        case JITC_FORM_SELECT:
        case JITC_FORM_CAST: return true;
        default: return false;
    }
}

/** Every operation on type t, stored; of two operands also with a baked second one, which may be 0
 *  or -1. How many are noted by operation. */
static void add_operations(jitc_program *p, jit_dtype t, const uint32_t v[3], uint32_t mask,
                           int *count) {
    static const uint64_t baked[] = {0, 1, 5, 33, UINT64_MAX};
    for (int op = 0; op < JITC_OP_COUNT; op++) {
        jit_dtype to = jitc_op_type((jitc_op) op, t);
        if (!is_elementwise(op) || jitc_ops[op].form == JITC_FORM_CAST ||
            !jitc_op_accepts((jitc_op) op, t))
            continue;
        count[op]++;
        bool select = jitc_ops[op].form == JITC_FORM_SELECT;
        uint32_t a = select ? mask : v[0], b = jitc_ops[op].arity > 1 ? v[1] : 0;
        uint32_t c = jitc_ops[op].arity > 2 ? v[2] : 0;
        add_store(p, to, add(p, (jitc_op) op, to, a, b, c), NULL, params);
        if (jitc_ops[op].arity != 2 || jitc_dtypes[t].cls == JITC_FLOAT)
            continue;
        for (size_t i = 0; i < sizeof baked / sizeof *baked; i++) {
            b = add_baked(p, t, baked[i] & (t == JIT_bool ? 1 : jitc_bits_mask(t)));
            add_store(p, to, add(p, (jitc_op) op, to, a, b, 0), NULL, params);
        }
    }
}

static void add_casts(jitc_program *p, jit_dtype t, uint32_t v, int *count) {
    for (int to = 0; to < JITC_DTYPE_COUNT; to++) {
        add_store(p, (jit_dtype) to, add(p, JITC_OP_cast, (jit_dtype) to, v, 0, 0), NULL, params);
        count[JITC_OP_cast]++;
        if (jitc_dtypes[to].bits != jitc_dtypes[t].bits)
            continue;
        add_store(p, (jit_dtype) to, add(p, JITC_OP_bitcast, (jit_dtype) to, v, 0, 0), NULL,
                  params);
        count[JITC_OP_bitcast]++;
    }
}

static void build_all(jitc_program *p, jit_dtype t, uint32_t flags, int *count) {
    uint32_t v[3];
    p->head.flags = flags;
    for (int i = 0; i < 3; i++)
        v[i] = add_data(p, t, NULL, params);
    uint32_t mask = add_data(p, JIT_bool, NULL, params);
    add_operations(p, t, v, mask, count);
    add_casts(p, t, v[0], count);
}

/** Gathers and scatters, masked and not, by indices of every type. */
static void build_indexed(jitc_program *p, jit_dtype t, uint32_t flags) {
    p->head.flags = flags;
    uint32_t buffer = add_buffer(p, t, NULL, 1, params);
    uint32_t mask = add_data(p, JIT_bool, NULL, params);
    for (int i = JIT_i8; i <= JIT_u64; i++) {
        jit_dtype type = (jit_dtype) i;
        uint32_t index = add_data(p, type, NULL, params);
        uint32_t v = add(p, JITC_OP_gather, t, buffer, index, 0);
        add_store(p, t, v, NULL, params);
        index = add(p, JITC_OP_masked, type, index, mask, 0);
        v = add(p, JITC_OP_gather, t, buffer, index, 0);
        add(p, JITC_OP_scatter, t, buffer, v, index);
    }
    if (flags & JITC_PROGRAM_BOUNDS)
        p->head.report = p->head.params++;
}

/* Compiling them. */

/** To a CUBIN for `arch`. */
static void expect_compiles(jitc_nvrtc *n, const jitc_program *p, int arch, const char *what) {
    char *text = nvrtc_world_text(p, MOST);
    jitc_blob code;
    if (jitc_nvrtc_compile(n, text, arch, false, false, &code) != JIT_OK) {
        cr_expect_fail("%s, sm_%d: %s\n%s", what, arch, jit_error(), text);
        jit_error_clear();
    } else {
        cr_expect(code.size > 64 && memcmp(code.data, "\177ELF", 4) == 0, "%s: no CUBIN", what);
        free(code.data);
    }
    free(text);
}

static void check_arch(int capability) {
    jitc_nvrtc *n = nvrtc_world_open();
    int arch, count[JITC_OP_COUNT] = {0};
    bool ptx;
    if (!n)
        return;
    if (jitc_nvrtc_arch(n, capability, &arch, &ptx) != JIT_OK || arch != capability) {
        cr_expect_lt(jitc_nvrtc_version(n), 12080, "it should know sm_%d", capability);
        jit_error_clear();
        jitc_nvrtc_close(n);
        cr_skip_test("this NVRTC does not know sm_%d", capability);
    }
    for (int t = 0; t < JITC_DTYPE_COUNT; t++) {
        jitc_program p = {0};
        build_all(&p, (jit_dtype) t, 0, count);
        expect_compiles(n, &p, arch, jitc_dtypes[t].name);
        jitc_program_finish(&p);
    }
    for (int op = 0; op < JITC_OP_COUNT; op++)
        cr_expect(!is_elementwise(op) || count[op], "%s is in no program", jitc_ops[op].name);
    jitc_nvrtc_close(n);
}
Test(nvrtc, every_operation_compiles_for_compute_capability_7_5) {
    check_arch(75);
}
Test(nvrtc, every_operation_compiles_for_compute_capability_8_0) {
    check_arch(80);
}
Test(nvrtc, every_operation_compiles_for_compute_capability_9_0) {
    check_arch(90);
}
Test(nvrtc, every_operation_compiles_for_compute_capability_10_0) {
    check_arch(100);
}
Test(nvrtc, every_operation_compiles_for_compute_capability_12_0) {
    check_arch(120);
}

Test(nvrtc, gathers_and_scatters_compile_in_every_shape) {
    static const uint32_t flags[] = {0, JITC_PROGRAM_TAIL, JITC_PROGRAM_WIDE, JITC_PROGRAM_BOUNDS,
                                     JITC_PROGRAM_TAIL | JITC_PROGRAM_WIDE | JITC_PROGRAM_BOUNDS};
    static const jit_dtype types[] = {JIT_bool, JIT_u8, JIT_f16, JIT_f32, JIT_f64};
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++) {
        jitc_program p = {0};
        build_indexed(&p, types[f], flags[f]);
        expect_compiles(n, &p, 80, "indexed");
        jitc_program_finish(&p);
    }
    jitc_nvrtc_close(n);
}

/** Every operation that combines values of type t into an array, some in a loop, too. */
static void build_targets(jitc_program *p, jit_dtype t, uint32_t flags) {
    p->head.flags = flags | JITC_PROGRAM_SCRATCH;
    uint32_t v = add_data(p, t, NULL, params), index = add_data(p, JIT_u32, NULL, params), part = 0;
    uint32_t buffer[JITC_REDUCE_COUNT + 1];
    for (int i = 0; i <= JITC_REDUCE_COUNT; i++)
        buffer[i] = add_buffer(p, t, NULL, 1, params);
    for (int inside = 0; inside < 2; inside++) {
        uint32_t loop = 0;
        if (inside) {
            p->head.flags |= JITC_PROGRAM_LOOPS;
            loop = add_flagged(p, (jitc_inst) {.op = JITC_OP_loop});
            uint32_t phi = add(p, JITC_OP_phi, JIT_u32, index, loop, 0);
            uint32_t odd = add(p, JITC_OP_lt, JIT_bool, phi, index, 0);
            add(p, JITC_OP_test, JIT_bool, odd, loop, 0);
        }
        for (int op = 0; op < JITC_REDUCE_COUNT; op++)
            if (jitc_reduce_accepts((jit_reduce_op) op, t) && (!inside || op == JIT_REDUCE_ADD))
                add_flagged(p, (jitc_inst) {.op = JITC_OP_scatter_reduce,
                                            .type = (uint8_t) t,
                                            .aux = (uint8_t) op,
                                            .a = buffer[op],
                                            .b = v,
                                            .c = index});
        if (jitc_dtypes[t].cls & JITC_DOMAIN_INTEGER)
            part = add_flagged(p, (jitc_inst) {.op = JITC_OP_scatter_reduce,
                                               .type = (uint8_t) t,
                                               .aux = JIT_REDUCE_ADD | JITC_AUX_PART,
                                               .a = buffer[JITC_REDUCE_COUNT],
                                               .b = v,
                                               .c = index});
        if (inside)
            add(p, JITC_OP_end, JIT_bool, loop, 0, 0);
        else if (part)
            add_store(p, t, part, NULL, params);
    }
    if (flags & JITC_PROGRAM_BOUNDS)
        p->head.report = p->head.params++;
    p->head.scratch = p->head.params;
    p->head.params += JITC_SCRATCH_PARAMS;
}

Test(nvrtc, combining_into_arrays_compiles_for_every_type_and_architecture) {
    static const int archs[] = {75, 80, 90, 100, 120};
    static const uint32_t flags[] = {0, JITC_PROGRAM_WIDE, JITC_PROGRAM_BOUNDS};
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    for (int t = 0; t < JITC_DTYPE_COUNT; t++) {
        jitc_program p = {0};
        int arch;
        bool ptx;
        if (t == JIT_u8 || t == JIT_i16 || t == JIT_u32 || t == JIT_i64)
            continue; /* much as the other of that size */
        build_targets(&p, (jit_dtype) t, flags[t % 3]);
        if (jitc_nvrtc_arch(n, archs[t % 5], &arch, &ptx) == JIT_OK && arch == archs[t % 5])
            expect_compiles(n, &p, arch, jitc_dtypes[t].name);
        if (t == JIT_f16 || t == JIT_bf16) /* which have instructions of their own on some */
            for (size_t i = 0; i < 3; i += 2)
                if (jitc_nvrtc_arch(n, archs[i], &arch, &ptx) == JIT_OK && arch == archs[i])
                    expect_compiles(n, &p, arch, jitc_dtypes[t].name);
        jit_error_clear();
        jitc_program_finish(&p);
    }
    jitc_nvrtc_close(n);
}

/* What the code looks like: as PTX. */

static char *ptx_of(jitc_nvrtc *n, const jitc_program *p, uint32_t most_bytes, bool fuse) {
    char *text = nvrtc_world_text(p, most_bytes);
    jitc_blob code = {0};
    cr_assert_eq(jitc_nvrtc_compile(n, text, 80, true, fuse, &code), JIT_OK, "%s\n%s", jit_error(),
                 text);
    free(text);
    cr_assert_eq(((char *) code.data)[code.size - 1], 0);
    return code.data;
}

static int occurrences(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

/** Accesses (ld, st) of 16 bytes. */
static int whole_accesses(const char *ptx, const char *kind) {
    static const char *const types[] = {"v4.u32", "v4.f32", "v2.u64", "v2.f64"};
    char part[32];
    int n = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        snprintf(part, sizeof part, "%s.global.%s", kind, types[i]);
        n += occurrences(ptx, part);
    }
    return n;
}

/** z = x + y (bool: or) of a type. */
static void build_sum(jitc_program *p, jit_dtype t) {
    uint32_t x = add_data(p, t, NULL, params), y = add_data(p, t, NULL, params);
    add_store(p, t, add(p, t == JIT_bool ? JITC_OP_or : JITC_OP_add, t, x, y, 0), NULL, params);
}

Test(nvrtc, vectors_are_accessed_by_16_bytes_and_stay_in_registers) {
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int tail = 0; tail < 2; tail++) {
            jitc_program p = {.head.flags = tail ? JITC_PROGRAM_TAIL : 0};
            build_sum(&p, (jit_dtype) t);
            char *ptx = ptx_of(n, &p, MOST, false);
            cr_expect_eq(whole_accesses(ptx, "ld"), 2, "%s\n%s", jitc_dtypes[t].name, ptx);
            cr_expect_eq(whole_accesses(ptx, "st"), 1, "%s\n%s", jitc_dtypes[t].name, ptx);
            cr_expect_eq(occurrences(ptx, ".local"), 0, "%s\n%s", jitc_dtypes[t].name, ptx);
            free(ptx);
            jitc_program_finish(&p);
        }
    jitc_nvrtc_close(n);
}

/** Conditions that are tested before the first load of a kernel: branches and predicates. */
static int conditions_before_load(const char *ptx) {
    const char *load = strstr(ptx, "ld.global");
    cr_assert(load);
    char *before = strndup(ptx, (size_t) (load - ptx));
    int n = occurrences(before, "@%p") + occurrences(before, "@!%p");
    free(before);
    return n;
}

/** x[i], loaded whole where all of it is there, or by index: both under a second condition. */
static void build_conditional_load(jitc_program *p, jit_dtype t, bool indexed) {
    uint32_t x;
    if (indexed) {
        uint32_t source = add_buffer(p, t, NULL, 1, params);
        x = add(p, JITC_OP_gather, t, source, add(p, JITC_OP_counter, JIT_u32, 0, 0, 0), 0);
    } else {
        p->head.flags = JITC_PROGRAM_TAIL;
        x = add_data(p, t, NULL, params);
    }
    add_store(p, t, x, NULL, params);
}

/* Loads are asm(), which a compiler may move about; but not in front of what makes the address
 * good. */
Test(nvrtc, loads_stay_behind_their_conditions) {
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    for (int t = 0; t < JITC_DTYPE_COUNT; t++)
        for (int indexed = 0; indexed < 2; indexed++) {
            jitc_program p = {0};
            build_conditional_load(&p, (jit_dtype) t, indexed);
            char *ptx = ptx_of(n, &p, MOST, false);
            cr_expect_geq(conditions_before_load(ptx), 2, "%s\n%s", jitc_dtypes[t].name, ptx);
            free(ptx);
            jitc_program_finish(&p);
        }
    jitc_nvrtc_close(n);
}

Test(nvrtc, operands_of_several_widths_stay_in_registers) {
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    jitc_program p = {0};
    uint32_t mask = add_data(&p, JIT_bool, NULL, params), h = add_data(&p, JIT_f16, NULL, params);
    uint32_t x = add_data(&p, JIT_f32, NULL, params);
    uint32_t f = add(&p, JITC_OP_cast, JIT_f32, h, 0, 0);
    uint32_t s = add(&p, JITC_OP_select, JIT_f32, mask, f, x);
    uint32_t source = add_buffer(&p, JIT_f32, NULL, 1, params);
    uint32_t index = add(&p, JITC_OP_cast, JIT_i32, s, 0, 0);
    add_store(&p, JIT_f32, add(&p, JITC_OP_gather, JIT_f32, source, index, 0), NULL, params);
    add_store(&p, JIT_i8, add(&p, JITC_OP_cast, JIT_i8, s, 0, 0), NULL, params);
    char *ptx = ptx_of(n, &p, MOST, false);
    cr_expect_eq(occurrences(ptx, "ld.global.v4."), 1, "%s", ptx);
    cr_expect_eq(occurrences(ptx, "ld.global.v2."), 1, "%s", ptx);
    cr_expect_eq(occurrences(ptx, "ld.global."), 3 + 4, "three vectors, four gathers\n%s", ptx);
    cr_expect_eq(occurrences(ptx, "st.global."), 2, "%s", ptx);
    cr_expect_eq(occurrences(ptx, ".local"), 0, "%s", ptx);
    free(ptx);
    ptx = ptx_of(n, &p, 8, false);
    cr_expect_eq(occurrences(ptx, ".local"), 0, "parameters in memory\n%s", ptx);
    free(ptx);
    jitc_program_finish(&p);
    jitc_nvrtc_close(n);
}

Test(nvrtc, multiplications_and_additions_fuse_only_where_that_is_wanted) {
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    jitc_program p = {0};
    uint32_t x = add_data(&p, JIT_f32, NULL, params), y = add_data(&p, JIT_f32, NULL, params);
    uint32_t product = add(&p, JITC_OP_mul, JIT_f32, x, y, 0);
    add_store(&p, JIT_f32, add(&p, JITC_OP_add, JIT_f32, product, y, 0), NULL, params);
    char *exact = ptx_of(n, &p, MOST, false), *fused = ptx_of(n, &p, MOST, true);
    /* With .rn an instruction is not fused; without, the next compiler may. */
    cr_expect_eq(occurrences(exact, "mul.rn.f32"), 4, "%s", exact);
    cr_expect_eq(occurrences(exact, "add.rn.f32"), 4, "%s", exact);
    cr_expect_eq(occurrences(fused, "add.rn.f32"), 0, "%s", fused);
    free(exact);
    free(fused);
    jitc_program_finish(&p);
    jitc_nvrtc_close(n);
}

/** Points of Mandelbrot's set: iterations until z leaves a circle, 1024 at most. */
static void build_mandelbrot(jitc_program *p) {
    p->head.flags = JITC_PROGRAM_LOOPS;
    uint32_t x = add_data(p, JIT_f32, NULL, params), y = add_data(p, JIT_f32, NULL, params);
    uint32_t zero = add_baked(p, JIT_f32, 0), none = add_baked(p, JIT_u32, 0);
    uint32_t loop = add_flagged(p, (jitc_inst) {.op = JITC_OP_loop});
    uint32_t a = add(p, JITC_OP_phi, JIT_f32, zero, loop, 0);
    uint32_t b = add(p, JITC_OP_phi, JIT_f32, zero, loop, 1);
    uint32_t i = add(p, JITC_OP_phi, JIT_u32, none, loop, 2);
    uint32_t aa = add(p, JITC_OP_mul, JIT_f32, a, a, 0), bb = add(p, JITC_OP_mul, JIT_f32, b, b, 0);
    uint32_t four = add_baked(p, JIT_f32, 0x40800000), most = add_baked(p, JIT_u32, 1024);
    uint32_t norm = add(p, JITC_OP_add, JIT_f32, aa, bb, 0);
    uint32_t near = add(p, JITC_OP_lt, JIT_bool, norm, four, 0);
    uint32_t few = add(p, JITC_OP_lt, JIT_bool, i, most, 0);
    add(p, JITC_OP_test, JIT_bool, add(p, JITC_OP_and, JIT_bool, near, few, 0), loop, 0);
    uint32_t re = add(p, JITC_OP_sub, JIT_f32, aa, bb, 0),
             ab = add(p, JITC_OP_mul, JIT_f32, a, b, 0);
    uint32_t im = add(p, JITC_OP_add, JIT_f32, ab, ab, 0);
    re = add(p, JITC_OP_add, JIT_f32, re, x, 0);
    im = add(p, JITC_OP_add, JIT_f32, im, y, 0);
    uint32_t after = add(p, JITC_OP_add, JIT_u32, i, add_baked(p, JIT_u32, 1), 0);
    add(p, JITC_OP_next, JIT_f32, a, re, 0);
    add(p, JITC_OP_next, JIT_f32, b, im, 0);
    add(p, JITC_OP_next, JIT_u32, i, after, 0);
    add(p, JITC_OP_end, JIT_bool, loop, 0, 0);
    add_store(p, JIT_u32, i, NULL, params);
}

Test(nvrtc, loops_compile_and_short_ones_are_unrolled) {
    static const int archs[] = {75, 80, 90, 100, 120};
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    jitc_program p = {0};
    build_mandelbrot(&p);
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        int arch;
        bool ptx;
        if (jitc_nvrtc_arch(n, archs[i], &arch, &ptx) == JIT_OK && arch == archs[i])
            expect_compiles(n, &p, arch, "loop");
        jit_error_clear();
    }
    char *ptx = ptx_of(n, &p, MOST, false);
    cr_expect_eq(occurrences(ptx, "mul.rn.f32"), 8 * 3, "eight iterations\n%s", ptx);
    cr_expect_eq(occurrences(ptx, ".local"), 0, "%s", ptx);
    free(ptx);
    jitc_program_finish(&p);
    jitc_nvrtc_close(n);
}

/* Failures, threads. */

Test(nvrtc, a_text_that_is_refused_fails_with_the_compilers_log) {
    jitc_nvrtc *n = nvrtc_world_open();
    jitc_blob code = {0};
    if (!n)
        return;
    cr_expect_eq(jitc_nvrtc_compile(n, "int f() { return nothing; }", 80, false, false, &code),
                 JIT_COMPILE_FAILED);
    cr_expect_not_null(strstr(jit_error(), "\"nothing\" is undefined"), "%s", jit_error());
    cr_expect_null(code.data);
    jit_error_clear();
    cr_expect_eq(jitc_nvrtc_compile(n, "", 1, false, false, &code), JIT_COMPILE_FAILED);
    cr_expect_not_null(strstr(jit_error(), "nvrtc"), "%s", jit_error());
    jitc_nvrtc_close(n);
}

Test(nvrtc, newer_devices_get_ptx_and_older_ones_a_message) {
    jitc_nvrtc *n = nvrtc_world_open();
    int arch = 0, known;
    bool ptx = false;
    jitc_blob code;
    if (!n)
        return;
    cr_assert_eq(jitc_nvrtc_arch(n, 9999, &arch, &ptx), JIT_OK);
    cr_expect(ptx);
    cr_expect_geq(arch, 80);
    cr_assert_eq(jitc_nvrtc_compile(n, "", arch, ptx, false, &code), JIT_OK, "%s", jit_error());
    cr_expect_not_null(strstr(code.data, ".target sm_"));
    free(code.data);
    cr_assert_eq(jitc_nvrtc_arch(n, arch, &known, &ptx), JIT_OK);
    cr_expect_eq(known, arch);
    cr_expect_not(ptx);
    cr_expect_eq(jitc_nvrtc_arch(n, 10, &arch, &ptx), JIT_UNAVAILABLE);
    cr_expect_not_null(strstr(jit_error(), "1.0"), "%s", jit_error());
    jitc_nvrtc_close(n);
}

Test(nvrtc, a_library_that_is_not_there_or_is_another_one_is_named) {
    jitc_nvrtc *n;
    cr_expect_eq(jitc_nvrtc_open("/nowhere/libnvrtc.so", &n), JIT_UNAVAILABLE);
    cr_expect_not_null(strstr(jit_error(), "/nowhere/libnvrtc.so"), "%s", jit_error());
    jit_error_clear();
    cr_expect_eq(jitc_nvrtc_open("libm.so.6", &n), JIT_UNAVAILABLE);
    cr_expect_not_null(strstr(jit_error(), "libm.so.6 has no function nvrtcVersion"), "%s",
                       jit_error());
}

typedef struct job {
    jitc_nvrtc *nvrtc;
    int number, bad;
} job;

static void *compile_several(void *argument) {
    job *j = argument;
    for (int i = 0; i < 5; i++) {
        jitc_program p = {0};
        jitc_blob code;
        build_sum(&p, (jit_dtype) (JIT_i32 + (i + j->number) % 4));
        char *text = nvrtc_world_text(&p, MOST);
        if (jitc_nvrtc_compile(j->nvrtc, text, 80, i % 2, false, &code) == JIT_OK)
            free(code.data);
        else
            j->bad++;
        if (jitc_nvrtc_compile(j->nvrtc, "nonsense", 80, false, false, &code) == JIT_OK)
            j->bad++;
        jit_error_clear();
        free(text);
        jitc_program_finish(&p);
    }
    return NULL;
}

Test(nvrtc, threads_compile_at_the_same_time) {
    jitc_nvrtc *n = nvrtc_world_open();
    pthread_t thread[THREADS];
    job jobs[THREADS];
    if (!n)
        return;
    for (int i = 0; i < THREADS; i++) {
        jobs[i] = (job) {n, i, 0};
        cr_assert_eq(pthread_create(&thread[i], NULL, compile_several, &jobs[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
        cr_expect_eq(jobs[i].bad, 0);
    }
    jitc_nvrtc_close(n);
}

/* A process that ends while a thread compiles. Criterion's processes end in another way, so the
 * children are this program itself. */

static void *compile_long(void *argument) {
    jitc_program p = {0};
    int count[JITC_OP_COUNT] = {0};
    jitc_blob code;
    build_all(&p, JIT_f64, 0, count);
    char *text = nvrtc_world_text(&p, MOST);
    if (jitc_nvrtc_compile(argument, text, 80, false, false, &code) == JIT_OK)
        free(code.data);
    free(text);
    jitc_program_finish(&p);
    return NULL;
}

__attribute__((constructor)) static void be_a_child(void) {
    const char *wait_us = getenv("JITC_TEST_EXIT"), *path = getenv("JITC_TEST_NVRTC");
    jitc_nvrtc *n;
    jitc_blob code;
    pthread_t thread;
    if (!wait_us)
        return;
    if (jitc_nvrtc_open(path ? path : "", &n) != JIT_OK ||
        jitc_nvrtc_compile(n, "", 80, true, false, &code) != JIT_OK ||
        pthread_create(&thread, NULL, compile_long, n) != 0)
        _exit(2);
    free(code.data);
    usleep((useconds_t) atoi(wait_us));
    exit(0);
}

extern char **environ;

Test(nvrtc, a_process_may_end_while_a_kernel_is_compiled) {
    static const char *const waits_us[] = {"0", "20000", "60000", "150000"};
    jitc_nvrtc *n = nvrtc_world_open();
    if (!n)
        return;
    jitc_nvrtc_close(n);
    /* To a search for leaks a thread that ends at the same moment looks like one. */
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    for (size_t i = 0; i < sizeof waits_us / sizeof *waits_us; i++) {
        char *arguments[] = {"test_nvrtc", NULL};
        pid_t child;
        int status = -1;
        setenv("JITC_TEST_EXIT", waits_us[i], 1);
        cr_assert_eq(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_expect_eq(status, 0, "after %s us: %#x", waits_us[i], (unsigned) status);
    }
}
