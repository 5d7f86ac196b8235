/* test_math.c: math functions of the CPU backend: errors, special values, with and without SLEEF.
 */
#include "math_kernel.h"
#include "reference.h"
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

typedef struct session {
    jitc_llvm_library library;
    const jitc_llvm *api;
    jitc_symbols *symbols;
} session;

/** The library that JITC_LIBLLVM names, else the usual one. */
static void begin(session *s) {
    const char *wanted = getenv("JITC_LIBLLVM");
    cr_assert_eq(jitc_llvm_library_init(&s->library, wanted ? wanted : ""), JIT_OK, "%s",
                 jit_error());
    cr_assert_eq(jitc_llvm_library_open(&s->library, &s->api), JIT_OK, "%s", jit_error());
    cr_assert_eq(jitc_symbols_create(&s->symbols), JIT_OK);
}

static void end(session *s) {
    jitc_symbols_destroy(s->symbols);
    jitc_llvm_library_finish(&s->library);
}

static unsigned usual_lanes(jitc_isa isa) {
    return isa <= JITC_ISA_V2 ? 4 : 16;
}

static math_kernel build(session *s, const math_spec *spec) {
    math_kernel k;
    cr_assert_eq(math_kernel_create(s->api, s->symbols, spec, &k), JIT_OK, "%s: %s",
                 jitc_ops[spec->op].name, jit_error());
    return k;
}

/** Calls f for every math function of both types; the rest of the spec as given. */
static void for_each_function(session *s, math_spec spec, void (*f)(session *, const math_spec *)) {
    for (int op = 0; op < JITC_OP_COUNT; op++)
        for (int t = 0; t < 2; t++) {
            spec.op = (jitc_op) op;
            spec.type = t ? JIT_f64 : JIT_f32;
            if (jitc_math_describe(spec.op, spec.type, spec.isa))
                f(s, &spec);
        }
}

static void check_error(session *s, const math_spec *spec, uint64_t stride, size_t random) {
    math_kernel k = build(s, spec);
    math_function f = math_kernel_function(&k);
    math_error e = math_measure(&f, &(math_effort) {stride, random, 4096, 1});
    cr_expect_leq(e.ulp, 1.0, "%s %s, v%d, level %d: %g ULP at %.17g, %.17g",
                  jitc_ops[spec->op].name, jitc_dtypes[spec->type].name, spec->isa + 1, spec->level,
                  e.ulp, math_to_double(spec->type, e.at[0]), math_to_double(spec->type, e.at[1]));
    math_kernel_finish(&k);
}

static void check_coarsely(session *s, const math_spec *spec) {
    check_error(s, spec, 400009, 1 << 14);
}

static void check_finely(session *s, const math_spec *spec) {
    check_error(s, spec, 4001, 1 << 20);
}

Test(math, results_are_within_1_ulp_on_every_instruction_set_at_every_level, .timeout = 300) {
    session s;
    begin(&s);
    for (jitc_isa isa = JITC_ISA_V1; isa <= math_host_isa(); isa++)
        for (int level = 0; level <= 2; level += 2)
            for_each_function(&s,
                              (math_spec) {.isa = isa, .level = level, .lanes = usual_lanes(isa)},
                              check_coarsely);
    end(&s);
}

Test(math, results_are_within_1_ulp_in_many_places, .timeout = 600) {
    session s;
    begin(&s);
    jitc_isa isa = math_host_isa();
    for_each_function(&s, (math_spec) {.isa = isa, .level = 2, .lanes = usual_lanes(isa)},
                      check_finely);
    end(&s);
}

Test(math, results_are_within_1_ulp_without_sleef, .timeout = 300) {
    session s;
    begin(&s);
    for (jitc_isa isa = JITC_ISA_V1; isa <= math_host_isa(); isa++)
        for_each_function(
            &s,
            (math_spec) {.isa = isa, .level = 2, .lanes = usual_lanes(isa), .substitutes = true},
            check_coarsely);
    end(&s);
}

Test(math, vectors_of_other_widths_work, .timeout = 300) {
    static const unsigned lanes[] = {8, 32, 64};
    session s;
    begin(&s);
    for (size_t i = 0; i < sizeof lanes / sizeof *lanes; i++)
        for_each_function(&s, (math_spec) {.isa = math_host_isa(), .level = 2, .lanes = lanes[i]},
                          check_coarsely);
    end(&s);
}

/* C, Annex F: results that are exact, in both types. */

static const struct special {
    jitc_op op;
    double a, b, want;
} specials[] = {
    {JITC_OP_exp, -INFINITY, 0, 0},
    {JITC_OP_exp, INFINITY, 0, INFINITY},
    {JITC_OP_exp, -0.0, 0, 1},
    {JITC_OP_exp2, 10, 0, 1024},
    {JITC_OP_exp2, -INFINITY, 0, 0},
    {JITC_OP_exp10, 0, 0, 1},
    {JITC_OP_exp10, -INFINITY, 0, 0},
    {JITC_OP_expm1, -0.0, 0, -0.0},
    {JITC_OP_expm1, -INFINITY, 0, -1},
    {JITC_OP_expm1, INFINITY, 0, INFINITY},
    {JITC_OP_log, 0, 0, -INFINITY},
    {JITC_OP_log, -0.0, 0, -INFINITY},
    {JITC_OP_log, 1, 0, 0},
    {JITC_OP_log, -1, 0, NAN},
    {JITC_OP_log, -INFINITY, 0, NAN},
    {JITC_OP_log, INFINITY, 0, INFINITY},
    {JITC_OP_log2, 1, 0, 0},
    {JITC_OP_log2, 1024, 0, 10},
    {JITC_OP_log2, -0.0, 0, -INFINITY},
    {JITC_OP_log2, -2, 0, NAN},
    {JITC_OP_log10, 1, 0, 0},
    {JITC_OP_log10, 0, 0, -INFINITY},
    {JITC_OP_log10, -2, 0, NAN},
    {JITC_OP_log1p, -0.0, 0, -0.0},
    {JITC_OP_log1p, -1, 0, -INFINITY},
    {JITC_OP_log1p, -2, 0, NAN},
    {JITC_OP_log1p, INFINITY, 0, INFINITY},
    {JITC_OP_sin, -0.0, 0, -0.0},
    {JITC_OP_sin, INFINITY, 0, NAN},
    {JITC_OP_cos, -0.0, 0, 1},
    {JITC_OP_cos, -INFINITY, 0, NAN},
    {JITC_OP_tan, -0.0, 0, -0.0},
    {JITC_OP_tan, INFINITY, 0, NAN},
    {JITC_OP_asin, -0.0, 0, -0.0},
    {JITC_OP_asin, 1.5, 0, NAN},
    {JITC_OP_acos, 1, 0, 0},
    {JITC_OP_acos, -1.5, 0, NAN},
    {JITC_OP_atan, -0.0, 0, -0.0},
    {JITC_OP_sinh, -0.0, 0, -0.0},
    {JITC_OP_sinh, -INFINITY, 0, -INFINITY},
    {JITC_OP_cosh, -0.0, 0, 1},
    {JITC_OP_cosh, -INFINITY, 0, INFINITY},
    {JITC_OP_tanh, -0.0, 0, -0.0},
    {JITC_OP_tanh, -INFINITY, 0, -1},
    {JITC_OP_tanh, INFINITY, 0, 1},
    {JITC_OP_cbrt, -0.0, 0, -0.0},
    {JITC_OP_cbrt, -27, 0, -3},
    {JITC_OP_cbrt, -INFINITY, 0, -INFINITY},
    {JITC_OP_erf, -0.0, 0, -0.0},
    {JITC_OP_erf, -INFINITY, 0, -1},
    {JITC_OP_pow, 0, -3, INFINITY},
    {JITC_OP_pow, -0.0, -3, -INFINITY},
    {JITC_OP_pow, -0.0, -2, INFINITY},
    {JITC_OP_pow, -0.0, -2.5, INFINITY},
    {JITC_OP_pow, -0.0, -INFINITY, INFINITY},
    {JITC_OP_pow, -0.0, 3, -0.0},
    {JITC_OP_pow, -0.0, 2, 0},
    {JITC_OP_pow, -1, INFINITY, 1},
    {JITC_OP_pow, -1, -INFINITY, 1},
    {JITC_OP_pow, 1, NAN, 1},
    {JITC_OP_pow, NAN, 0, 1},
    {JITC_OP_pow, NAN, -0.0, 1},
    {JITC_OP_pow, -1, NAN, NAN},
    {JITC_OP_pow, -8, 0.5, NAN},
    {JITC_OP_pow, 0.5, -INFINITY, INFINITY},
    {JITC_OP_pow, -2, -INFINITY, 0},
    {JITC_OP_pow, 0.5, INFINITY, 0},
    {JITC_OP_pow, 2, INFINITY, INFINITY},
    {JITC_OP_pow, -INFINITY, -3, -0.0},
    {JITC_OP_pow, -INFINITY, -2.5, 0},
    {JITC_OP_pow, -INFINITY, 3, -INFINITY},
    {JITC_OP_pow, -INFINITY, 2.5, INFINITY},
    {JITC_OP_pow, INFINITY, -1e-30, 0},
    {JITC_OP_pow, INFINITY, 1e-30, INFINITY},
    {JITC_OP_pow, -2, 3, -8},
    {JITC_OP_atan2, 0, 1, 0},
    {JITC_OP_atan2, -0.0, 1, -0.0},
    {JITC_OP_atan2, 0, 0, 0},
    {JITC_OP_atan2, -0.0, 0, -0.0},
    {JITC_OP_atan2, 1, INFINITY, 0},
    {JITC_OP_atan2, -1, INFINITY, -0.0},
    {JITC_OP_atan2, NAN, 1, NAN},
    {JITC_OP_hypot, INFINITY, NAN, INFINITY},
    {JITC_OP_hypot, NAN, -INFINITY, INFINITY},
    {JITC_OP_hypot, NAN, 1, NAN},
    {JITC_OP_hypot, -3, 4, 5},
    {JITC_OP_hypot, -0.0, 0, 0},
};

static void store(jit_dtype t, void *array, size_t i, double d) {
    uint64_t bits = reference_from_double(t, d);
    memcpy((char *) array + i * jitc_dtypes[t].bytes, &bits, jitc_dtypes[t].bytes);
}

static double load(jit_dtype t, const void *array, size_t i) {
    uint64_t bits = 0;
    memcpy(&bits, (const char *) array + i * jitc_dtypes[t].bytes, jitc_dtypes[t].bytes);
    return math_to_double(t, bits);
}

static bool same(double a, double b) {
    return isnan(a) ? isnan(b) : a == b && !signbit(a) == !signbit(b);
}

static void check_specials(session *s, const math_spec *spec) {
    _Alignas(64) double a[64], b[64], r[64];
    math_kernel k = build(s, spec);
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        const struct special *c = &specials[i];
        if (c->op != spec->op)
            continue;
        for (size_t j = 0; j < 64; j++) {
            store(spec->type, a, j, j % 2 ? c->a : 0.5);
            store(spec->type, b, j, j % 2 ? c->b : 0.5);
        }
        math_kernel_run(&k, a, b, r, 64);
        for (size_t j = 1; j < 64; j += 2)
            cr_expect(same(load(spec->type, r, j), c->want), "%s %s(%g, %g), v%d: %g, not %g",
                      jitc_ops[spec->op].name, jitc_dtypes[spec->type].name, c->a, c->b,
                      spec->isa + 1, load(spec->type, r, j), c->want);
        if (jitc_ops[spec->op].arity == 1) {
            store(spec->type, a, 0, NAN);
            math_kernel_run(&k, a, b, r, 64);
            cr_expect(isnan(load(spec->type, r, 0)), "%s(NaN)", jitc_ops[spec->op].name);
        }
    }
    math_kernel_finish(&k);
}

Test(math, special_values_are_those_of_annex_f, .timeout = 120) {
    session s;
    begin(&s);
    for (jitc_isa isa = JITC_ISA_V1; isa <= math_host_isa(); isa++)
        for (int without = 0; without < 2; without++)
            for_each_function(
                &s,
                (math_spec) {
                    .isa = isa, .level = 2, .lanes = usual_lanes(isa), .substitutes = without == 1},
                check_specials);
    end(&s);
}

/** One lane far away, where the form branches, must not change the others. */
Test(math, a_result_does_not_depend_on_the_other_lanes) {
    static const jitc_op ops[] = {JITC_OP_sin, JITC_OP_cos};
    _Alignas(64) float a[64], alone[64], mixed[64];
    session s;
    begin(&s);
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        math_spec spec = {.op = ops[i],
                          .type = JIT_f32,
                          .isa = math_host_isa(),
                          .level = 2,
                          .lanes = usual_lanes(math_host_isa())};
        math_kernel k = build(&s, &spec);
        for (int j = 0; j < 64; j++)
            a[j] = (float) j * 0.731F;
        math_kernel_run(&k, a, a, alone, 64);
        for (int j = 0; j < 64; j += 4)
            a[j] = 1e30F;
        math_kernel_run(&k, a, a, mixed, 64);
        for (int j = 0; j < 64; j++)
            cr_expect(j % 4 == 0 || memcmp(&alone[j], &mixed[j], sizeof(float)) == 0, "lane %d", j);
        math_kernel_finish(&k);
    }
    end(&s);
}

Test(math, only_names_of_math_functions_are_found) {
    jitc_symbols *s;
    cr_assert_eq(jitc_symbols_create(&s), JIT_OK);
    cr_expect_not_null(jitc_symbols_find(s, "Sleef_powd8_u10avx512f"));
    cr_expect_not_null(jitc_symbols_find(s, "jitc_atan2f4_u10sse2"));
    cr_expect_not_null(jitc_symbols_substitute("Sleef_hypotf16_u05avx512f"));
    cr_expect_null(jitc_symbols_find(s, "Sleef_nothing"));
    cr_expect_null(jitc_symbols_find(s, "exp"));
    cr_expect_null(jitc_symbols_find(s, ""));
    jitc_symbols_destroy(s);
    jitc_symbols_destroy(NULL);
}
