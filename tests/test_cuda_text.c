/* test_cuda_text.c: programs as CUDA C: how they are laid out, and what they look like. */
#include "cuda/text.h"
#include "programs.h"
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 32764 };

/** Every program here has at most so many parameters with values that matter to nobody. */
static uint64_t params[1 << 16];

static char *text_of(const jitc_program *p, uint32_t most_bytes) {
    char *text = NULL;
    const char *wrong = jitc_program_invalid(p);
    cr_assert_null(wrong, "%s", wrong);
    cr_assert_eq(jitc_cuda_text(p, jitc_cuda_layout_of(p, most_bytes), &text), JIT_OK);
    return text;
}

static uint32_t data(jitc_program *p, jit_dtype t) {
    return add_data(p, t, NULL, params);
}
static void store(jitc_program *p, jit_dtype t, uint32_t value) {
    add_store(p, t, value, NULL, params);
}

/** A chain of `length` additions. */
static void chain(jitc_program *p, jit_dtype t, int length) {
    uint32_t x = data(p, t), v = x;
    for (int i = 0; i < length; i++)
        v = add(p, JITC_OP_add, t, v, x, 0);
    store(p, t, v);
}

/* Layout. */

static uint32_t elements(jitc_program *p) {
    uint32_t n = jitc_cuda_layout_of(p, MOST).elements;
    jitc_program_finish(p);
    return n;
}

Test(cuda_text, threads_move_16_bytes_of_the_widest_operand) {
    static const uint8_t expected[JITC_DTYPE_COUNT] = {
        [JIT_bool] = 16, [JIT_i8] = 16, [JIT_u8] = 16, [JIT_i16] = 8, [JIT_u16] = 8,
        [JIT_i32] = 4,   [JIT_u32] = 4, [JIT_i64] = 2, [JIT_u64] = 2, [JIT_f16] = 8,
        [JIT_bf16] = 8,  [JIT_f32] = 4, [JIT_f64] = 2};
    for (int t = 0; t < JITC_DTYPE_COUNT; t++) {
        jitc_program p = {0};
        store(&p, (jit_dtype) t, data(&p, (jit_dtype) t));
        cr_expect_eq(elements(&p), expected[t], "%s", jitc_dtypes[t].name);
    }
    jitc_program widening = {0}, comparison = {0}, of_scalar = {0}, counter = {0};
    store(&widening, JIT_f32, add(&widening, JITC_OP_cast, JIT_f32, data(&widening, JIT_u8), 0, 0));
    cr_expect_eq(elements(&widening), 4);
    uint32_t x = data(&comparison, JIT_f32);
    store(&comparison, JIT_bool, add(&comparison, JITC_OP_lt, JIT_bool, x, x, 0));
    cr_expect_eq(elements(&comparison), 4);
    of_scalar.head.params = 1;
    x = add_flagged(&of_scalar,
                    (jitc_inst) {.op = JITC_OP_data, .type = JIT_f64, .flags = JITC_INST_SCALAR});
    store(&of_scalar, JIT_f16, add(&of_scalar, JITC_OP_cast, JIT_f16, x, 0, 0));
    cr_expect_eq(elements(&of_scalar), 8);
    store(&counter, JIT_u32, add(&counter, JITC_OP_counter, JIT_u32, 0, 0, 0));
    cr_expect_eq(elements(&counter), 4);
}

Test(cuda_text, long_programs_compute_fewer_elements_a_thread) {
    static const struct {
        jit_dtype type;
        int length;
        uint32_t elements;
    } cases[] = {{JIT_f32, 10, 4},  {JIT_f32, 290, 4}, {JIT_f32, 400, 2}, {JIT_f32, 1000, 1},
                 {JIT_f64, 400, 2}, {JIT_u8, 50, 16},  {JIT_u8, 1000, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jitc_program p = {0};
        chain(&p, cases[i].type, cases[i].length);
        cr_expect_eq(elements(&p), cases[i].elements, "%s, %d", jitc_dtypes[cases[i].type].name,
                     cases[i].length);
    }
    jitc_program p = {0};
    uint32_t v = data(&p, JIT_f32);
    for (int i = 0; i < 20; i++)
        v = add(&p, JITC_OP_sin, JIT_f32, v, 0, 0);
    store(&p, JIT_f32, v);
    cr_expect_eq(elements(&p), 2, "twenty sines are much work");
}

Test(cuda_text, a_thread_gathers_at_most_4_elements_and_scatters_1) {
    jitc_program gather = {0}, scatter = {0};
    uint32_t source = add_buffer(&gather, JIT_u8, NULL, 10, params);
    store(&gather, JIT_u8, add(&gather, JITC_OP_gather, JIT_u8, source, data(&gather, JIT_u8), 0));
    cr_expect_eq(elements(&gather), 4);
    uint32_t target = add_buffer(&scatter, JIT_f32, NULL, 10, params);
    uint32_t index = data(&scatter, JIT_u32), value = data(&scatter, JIT_f32);
    add(&scatter, JITC_OP_scatter, JIT_f32, target, value, index);
    cr_expect_eq(elements(&scatter), 1);
}

/** x, squared until it is 5, inside of `nested` more loops. */
static void loop(jitc_program *p, unsigned nested, uint8_t aux) {
    p->head.flags |= JITC_PROGRAM_LOOPS;
    uint32_t x = data(p, JIT_u32), five = add_literal(p, JIT_u32, 5, params), loops[3], phi[3];
    for (unsigned i = 0; i <= nested; i++) {
        loops[i] = add_flagged(p, (jitc_inst) {.op = JITC_OP_loop, .aux = aux});
        phi[i] = add(p, JITC_OP_phi, JIT_u32, i ? phi[i - 1] : x, loops[i], 0);
        uint32_t is = add(p, JITC_OP_ne, JIT_bool, phi[i], five, 0);
        add(p, JITC_OP_test, JIT_bool, is, loops[i], 0);
    }
    uint32_t value = add(p, JITC_OP_mul, JIT_u32, phi[nested], phi[nested], 0);
    for (unsigned i = nested + 1; i-- > 0; value = phi[i]) {
        add(p, JITC_OP_next, JIT_u32, phi[i], value, 0);
        add(p, JITC_OP_end, JIT_bool, loops[i], 0, 0);
    }
    store(p, JIT_u32, phi[0]);
}

Test(cuda_text, a_thread_computes_one_element_where_there_are_loops) {
    jitc_program p = {0};
    loop(&p, 0, 0);
    cr_expect_eq(elements(&p), 1);
}

Test(cuda_text, parameters_that_do_not_fit_are_read_through_a_pointer) {
    jitc_program p = {0};
    chain(&p, JIT_f32, 3);
    p.head.params = 511;
    cr_expect_not(jitc_cuda_layout_of(&p, 4096).in_memory);
    char *by_value = text_of(&p, 4096);
    p.head.params = 512;
    cr_expect(jitc_cuda_layout_of(&p, 4096).in_memory);
    char *in_memory = text_of(&p, 4096);
    cr_expect_not_null(strstr(by_value, "(const struct parameters P)"));
    cr_expect_not_null(strstr(by_value, "u64 word[511];"));
    cr_expect_not_null(strstr(in_memory, "(u64 lanes, const u64 *word)"));
    cr_expect_null(strstr(in_memory, "struct"));
    free(by_value);
    free(in_memory);
    jitc_program_finish(&p);
}

/* Texts. */

Test(cuda_text, equal_programs_give_equal_texts_whatever_their_literals) {
    char *text[2];
    for (int i = 0; i < 2; i++) {
        jitc_program p = {0};
        uint32_t literal = add_literal(&p, JIT_f32, (uint64_t) i * 12345, params);
        store(&p, JIT_f32, add(&p, JITC_OP_mul, JIT_f32, data(&p, JIT_f32), literal, 0));
        text[i] = text_of(&p, MOST);
        jitc_program_finish(&p);
    }
    cr_expect_str_eq(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

Test(cuda_text, texts_grow_by_some_40_bytes_an_operation) {
    jitc_program small = {0}, large = {0};
    chain(&small, JIT_f32, 10000);
    chain(&large, JIT_f32, 20000);
    char *a = text_of(&small, MOST), *b = text_of(&large, MOST);
    cr_expect_lt(strlen(b) - strlen(a), 10000 * 44);
    cr_expect_lt(strlen(a), 10000 * 42);
    free(a);
    free(b);
    jitc_program_finish(&small);
    jitc_program_finish(&large);
}

static int occurrences(const char *text, const char *part) {
    int n = 0;
    for (; (text = strstr(text, part)); text++)
        n++;
    return n;
}

Test(cuda_text, helpers_are_written_once_and_only_if_they_are_used) {
    jitc_program none = {0}, division = {0}, nested = {0};
    chain(&none, JIT_f32, 3);
    uint32_t x = data(&division, JIT_i32), y = add(&division, JITC_OP_div, JIT_i32, x, x, 0);
    store(&division, JIT_i32, add(&division, JITC_OP_div, JIT_i32, x, y, 0));
    x = data(&nested, JIT_i64);
    store(&nested, JIT_bf16, add(&nested, JITC_OP_cast, JIT_bf16, x, 0, 0));
    char *text[] = {text_of(&none, MOST), text_of(&division, MOST), text_of(&nested, MOST)};
    int always = occurrences(text[0], "DEV ");
    cr_expect_eq(occurrences(text[1], "DEV "), always + 1);
    cr_expect_null(strstr(text[0], "div_i32"));
    cr_expect_eq(occurrences(text[1], "DEV i32 div_i32("), 1);
    static const char *const needed[] = {"DEV u16 bf16_from_f32(", "DEV f32 odd_f32(",
                                         "DEV f64 odd_u64(", "DEV u16 bf16_from_f64(",
                                         "DEV u16 bf16_from_i64("};
    const char *before = text[2];
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const char *found = strstr(text[2], needed[i]);
        cr_assert_not_null(found, "%s", needed[i]);
        cr_expect_geq(found, before, "%s stands after what it uses", needed[i]);
        before = found;
    }
    for (int i = 0; i < 3; i++)
        free(text[i]);
    jitc_program_finish(&none);
    jitc_program_finish(&division);
    jitc_program_finish(&nested);
}

/** Puts `jitc_kernel` in the place of the kernel's name, which is there once. */
static void rename_kernel(const jitc_program *p, char *text) {
    char name[32];
    snprintf(name, sizeof name, JITC_CUDA_NAME, (unsigned long long) jitc_cuda_name_of(p));
    cr_assert_eq(occurrences(text, name), 1, "%s", text);
    char *found = strstr(text, name), *behind = found + strlen(name);
    memmove(found + strlen("jitc_kernel"), behind, strlen(behind) + 1);
    memcpy(found, "jitc_kernel", strlen("jitc_kernel"));
}

/** The text from its first union or its parameters on. */
static void expect_kernel(jitc_program *p, const char *expected) {
    char *text = text_of(p, MOST);
    rename_kernel(p, text);
    const char *kernel = strstr(text, expected[0] == 'u' ? "union" : "struct parameters");
    cr_assert_not_null(kernel, "%s", text);
    cr_expect_str_eq(kernel, expected, "%s", text);
    free(text);
    jitc_program_finish(p);
}

Test(cuda_text, a_x_plus_y) {
    jitc_program p = {0};
    uint32_t a = add_literal(&p, JIT_f32, 0, params), x = data(&p, JIT_f32);
    uint32_t ax = add(&p, JITC_OP_mul, JIT_f32, a, x, 0);
    store(&p, JIT_f32, add(&p, JITC_OP_add, JIT_f32, ax, data(&p, JIT_f32), 0));
    expect_kernel(&p, "union f32x4 { uint4 all; f32 e[4]; };\n"
                      "struct parameters { u64 n; u64 word[4]; };\n"
                      "#define W(number) P.word[number]\n"
                      "KERNEL void jitc_kernel(const struct parameters P) {\n"
                      "    const u32 n = (u32) P.n;\n"
                      "    const u32 t = (u32) blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "    const u32 first = t * 4;\n"
                      "    if (first >= n) return;\n"
                      "    const f32 v0 = __uint_as_float((u32) W(0));\n"
                      "    union f32x4 r1;\n"
                      "    r1.all = LD_uint4((const uint4 *) W(1) + t);\n"
                      "    union f32x4 r3;\n"
                      "    r3.all = LD_uint4((const uint4 *) W(2) + t);\n"
                      "    union f32x4 r5;\n"
                      "    #pragma unroll\n"
                      "    for (u32 j = 0; j < 4; ++j) {\n"
                      "    const f32 v1 = r1.e[j];\n"
                      "    const f32 v2 = v0 * v1;\n"
                      "    const f32 v3 = r3.e[j];\n"
                      "    const f32 v4 = v2 + v3;\n"
                      "    r5.e[j] = v4;\n"
                      "    }\n"
                      "    ST((uint4 *) W(3) + t, r5.all);\n"
                      "}\n");
}

/* The name is a pure function of the program, and another one's is another. */
Test(cuda_text, a_kernel_is_named_after_its_program) {
    jitc_program p[3] = {0};
    for (int i = 0; i < 3; i++)
        store(&p[i], JIT_f32, add_baked(&p[i], JIT_f32, i == 2 ? 1 : 0));
    cr_expect_eq(jitc_cuda_name_of(&p[0]), jitc_cuda_name_of(&p[1]));
    cr_expect_neq(jitc_cuda_name_of(&p[0]), jitc_cuda_name_of(&p[2]));
    for (int i = 0; i < 3; i++)
        jitc_program_finish(&p[i]);
}

Test(cuda_text, with_a_tail_vectors_are_whole_only_where_they_lie_well) {
    jitc_program p = {.head.flags = JITC_PROGRAM_TAIL | JITC_PROGRAM_WIDE};
    store(&p, JIT_bool, add(&p, JITC_OP_not, JIT_bool, data(&p, JIT_bool), 0, 0));
    for (int i = 0; i < 2; i++) /* 4 elements a thread */
        store(&p, JIT_f32, add_baked(&p, JIT_f32, 0x3f800000));
    p.head.count -= 2;
    p.head.params -= 1;
    expect_kernel(
        &p, "union u8x4 { u32 all; u8 e[4]; };\n"
            "union f32x4 { uint4 all; f32 e[4]; };\n"
            "struct parameters { u64 n; u64 word[3]; };\n"
            "#define W(number) P.word[number]\n"
            "KERNEL void jitc_kernel(const struct parameters P) {\n"
            "    const u64 n = (u64) P.n;\n"
            "    const u64 t = (u64) blockIdx.x * blockDim.x + threadIdx.x;\n"
            "    const u64 first = t * 4;\n"
            "    if (first >= n) return;\n"
            "    const f32 v3 = __uint_as_float(1065353216);\n"
            "    const bool whole = n - first >= 4;\n"
            "    union u8x4 r0;\n"
            "    if (whole && (W(0) & 3) == 0) r0.all = LD_u32((const u32 *) W(0) + t);\n"
            "    else {\n"
            "    #pragma unroll\n"
            "    for (u32 j = 0; j < 4; ++j) r0.e[j] = first + j < n ? LD_u8((const u8 *) W(0) + "
            "first + j) : 0;\n"
            "    }\n"
            "    union u8x4 r2;\n"
            "    union f32x4 r4;\n"
            "    #pragma unroll\n"
            "    for (u32 j = 0; j < 4; ++j) {\n"
            "    const bool v0 = r0.e[j] != 0;\n"
            "    const bool v1 = (~(u32) v0) & 1;\n"
            "    r2.e[j] = v1;\n"
            "    r4.e[j] = v3;\n"
            "    }\n"
            "    if (whole && (W(1) & 3) == 0) ST((u32 *) W(1) + t, r2.all);\n"
            "    else {\n"
            "    #pragma unroll\n"
            "    for (u32 j = 0; j < 4; ++j) if (first + j < n) ST((u8 *) W(1) + first + j, "
            "r2.e[j]);\n"
            "    }\n"
            "    if (whole && (W(2) & 15) == 0) ST((uint4 *) W(2) + t, r4.all);\n"
            "    else {\n"
            "    #pragma unroll\n"
            "    for (u32 j = 0; j < 4; ++j) if (first + j < n) ST((f32 *) W(2) + first + j, "
            "r4.e[j]);\n"
            "    }\n"
            "}\n");
}

Test(cuda_text, accesses_by_index_are_checked_and_reported) {
    jitc_program p = {.head.flags = JITC_PROGRAM_BOUNDS};
    uint32_t source = add_buffer(&p, JIT_f16, NULL, 10, params);
    uint32_t target = add_buffer(&p, JIT_f16, NULL, 10, params);
    uint32_t index = data(&p, JIT_i32), mask = data(&p, JIT_bool);
    uint32_t masked = add(&p, JITC_OP_masked, JIT_i32, index, mask, 0);
    uint32_t value = add(&p, JITC_OP_gather, JIT_f16, source, masked, 0);
    uint32_t other = add(&p, JITC_OP_counter, JIT_u64, 0, 0, 0);
    add(&p, JITC_OP_scatter, JIT_f16, target, value, other);
    p.head.report = p.head.params++;
    expect_kernel(&p, "struct parameters { u64 n; u64 word[7]; };\n"
                      "#define W(number) P.word[number]\n"
                      "KERNEL void jitc_kernel(const struct parameters P) {\n"
                      "    const u32 n = (u32) P.n;\n"
                      "    const u32 i = (u32) blockIdx.x * blockDim.x + threadIdx.x;\n"
                      "    if (i >= n) return;\n"
                      "    const i32 v2 = LD_i32((const i32 *) W(4) + i);\n"
                      "    const bool v3 = LD_u8((const u8 *) W(5) + i) != 0;\n"
                      "    const bool b5 = true && v3;\n"
                      "    const bool k5 = b5 && (u32) v2 < (u32) W(1);\n"
                      "    if (b5 && !k5) report_bounds(W(6), 6, (u64) v2, W(1));\n"
                      "    const u16 v5 = k5 ? LD_u16((const u16 *) W(0) + (u32) v2) : 0;\n"
                      "    const u64 v6 = i;\n"
                      "    const bool b7 = true;\n"
                      "    const bool k7 = b7 && (u64) v6 < (u64) W(3);\n"
                      "    if (b7 && !k7) report_bounds(W(6), 8, (u64) v6, W(3));\n"
                      "    if (k7) ST((u16 *) W(2) + (u64) v6, v5);\n"
                      "}\n");
}

Test(cuda_text, short_innermost_loops_are_unrolled) {
    static const struct {
        unsigned nested;
        int length, unrolled, loops;
        uint8_t aux;
    } cases[] = {{0, 0, 1, 1, 0}, {2, 0, 1, 3, 0}, {0, 40, 0, 1, 0}, {0, 0, 0, 0, JITC_AUX_ONCE}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        jitc_program p = {0};
        loop(&p, cases[i].nested, cases[i].aux);
        if (cases[i].length) { /* a longer body: the multiplication becomes many */
            jitc_program longer = {.head.flags = JITC_PROGRAM_LOOPS, .head.params = p.head.params};
            uint32_t n = 0;
            for (; p.inst[n].op != JITC_OP_mul; n++)
                add_flagged(&longer, p.inst[n]);
            for (int k = 0; k < cases[i].length; k++)
                add_flagged(&longer, p.inst[n]);
            for (n++; n < p.head.count; n++) {
                jitc_inst inst = p.inst[n];
                uint32_t by = (uint32_t) cases[i].length - 1;
                if (inst.op == JITC_OP_next)
                    inst.b += by;
                add_flagged(&longer, inst);
            }
            jitc_program_finish(&p);
            p = longer;
        }
        char *text = text_of(&p, MOST);
        cr_expect_eq(occurrences(text, "#pragma unroll 8"), cases[i].unrolled, "%zu\n%s", i, text);
        cr_expect_eq(occurrences(text, "for (;;)"), cases[i].loops, "%zu\n%s", i, text);
        free(text);
        jitc_program_finish(&p);
    }
}

/** In a loop, where its address may be the same each time, a compiler loads it before, also from an
 * index that is out of range: unless it is told to leave the load where it is. */
Test(cuda_text, loads_from_an_index_in_a_loop_stay_under_their_condition) {
    jitc_program p = {.head.flags = JITC_PROGRAM_LOOPS};
    uint32_t buffer = add_buffer(&p, JIT_f32, NULL, 7, params), at = data(&p, JIT_u64);
    uint32_t x = data(&p, JIT_f32), loops = add_flagged(&p, (jitc_inst) {.op = JITC_OP_loop});
    uint32_t phi = add(&p, JITC_OP_phi, JIT_f32, x, loops, 0);
    uint32_t y = add(&p, JITC_OP_gather, JIT_f32, buffer, at, 0);
    add(&p, JITC_OP_test, JIT_bool, add(&p, JITC_OP_lt, JIT_bool, phi, y, 0), loops, 0);
    add(&p, JITC_OP_next, JIT_f32, phi, add(&p, JITC_OP_add, JIT_f32, phi, y, 0), 0);
    add(&p, JITC_OP_end, JIT_bool, loops, 0, 0);
    store(&p, JIT_f32, phi);
    char *text = text_of(&p, MOST);
    cr_expect_eq(occurrences(text, " ? GUARDED_f32("), 1, "%s", text);
    cr_expect_eq(occurrences(text, "asm volatile(\"ld.global.f32"), 1, "%s", text);
    free(text);
    jitc_program_finish(&p);
}

/** So does it before all elements of a thread. */
Test(cuda_text, loads_from_the_same_index_in_all_lanes_stay_under_their_condition) {
    for (int same = 0; same < 2; same++) {
        jitc_program p = {0};
        uint32_t buffer = add_buffer(&p, JIT_f32, NULL, 7, params), x = data(&p, JIT_u32);
        uint32_t far = add_literal(&p, JIT_u32, 1u << 31, params);
        uint32_t at = add(&p, JITC_OP_add, JIT_u32, same ? far : x, far, 0);
        store(&p, JIT_f32, add(&p, JITC_OP_gather, JIT_f32, buffer, at, 0));
        store(&p, JIT_u32, x);
        char *text = text_of(&p, MOST);
        cr_expect_eq(occurrences(text, " ? GUARDED_f32("), same, "%s", text);
        cr_expect_eq(occurrences(text, " ? LD_f32("), !same, "%s", text);
        free(text);
        jitc_program_finish(&p);
    }
}
