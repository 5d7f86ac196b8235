/* math_errors.c: measures the math functions of the CPU backend; prints the table of
 * docs/math-errors.md.
 *
 * math_errors: the table: the error of each function, its time beside SLEEF's and libmvec's.
 * math_errors check [STRIDE]: every instruction set and level of code generation, as text; f32 in
 * steps of STRIDE bit patterns (default 20011; 1: all of them, hours).
 *
 * Arguments before that: -l FILE the LLVM library, -f NAME only that function, -s without SLEEF,
 * -b only the best instruction set of the machine, at level 0. */
#include "math_kernel.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 4096, RANDOM = 1 << 20, ROUNDS = 25 };

typedef struct options {
    const char *library, *only;
    bool substitutes, best;
    uint64_t stride;
    int threads;
} options;

typedef struct session {
    options o;
    const jitc_llvm *api;
    jitc_symbols *symbols;
    _Alignas(64) double a[CHUNK], b[CHUNK], r[CHUNK];
} session;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double) t.tv_sec * 1e9 + (double) t.tv_nsec;
}

/** Arguments of ordinary size, in the function's domain. */
static void fill_ordinary(session *s, const math_spec *spec) {
    uint64_t seed = 88172645463325252;
    const char *name = jitc_ops[spec->op].name;
    bool inverse = !strcmp(name, "asin") || !strcmp(name, "acos");
    bool positive = !strncmp(name, "log", 3) || !strcmp(name, "pow");
    for (size_t i = 0; i < CHUNK; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        double u = (double) (seed >> 11) * 0x1p-53, x = inverse ? 2 * u - 1 : 8 * u - 4;
        x = positive ? 8 * u + 0.01 : x;
        double y = (double) (seed >> 40) * 0x1p-22 - 2;
        if (spec->type == JIT_f64) {
            s->a[i] = x;
            s->b[i] = y;
        } else {
            ((float *) (void *) s->a)[i] = (float) x;
            ((float *) (void *) s->b)[i] = (float) y;
        }
    }
}

/** ns per element, arguments and results in the first cache; the best of some rounds. */
static double measure_time(session *s, const math_kernel *k) {
    double best = 1e30;
    fill_ordinary(s, &k->spec);
    for (int round = 0; round < ROUNDS; round++) {
        double start = now();
        for (int i = 0; i < 8; i++)
            math_kernel_run(k, s->a, s->b, s->r, CHUNK / 2);
        double t = (now() - start) / (8 * CHUNK / 2);
        best = t < best ? t : best;
    }
    return best;
}

static jit_status build(session *s, const math_spec *spec, math_kernel *k) {
    jit_status status = math_kernel_create(s->api, s->symbols, spec, k);
    if (status != JIT_OK) {
        fprintf(stderr, "%s: %s\n", jitc_ops[spec->op].name, jit_error());
        jit_error_clear();
    }
    return status;
}

static math_error measure(const session *s, const math_kernel *k) {
    math_function f = math_kernel_function(k);
    return math_measure(&f, &(math_effort) {s->o.stride, RANDOM, CHUNK, s->o.threads});
}

static void print_where(const math_kernel *k, const math_error *e) {
    math_function f = math_kernel_function(k);
    math_print_where(&f, e);
}

/** The time of another library's function; a dash if there is none. */
static void print_other(session *s, const math_spec *ours, const char *format, char type) {
    char symbol[64];
    const char *name = jitc_ops[ours->op].name, *suffix = ours->type == JIT_f32 ? "f" : "";
    bool two = jitc_ops[ours->op].arity == 2;
    math_spec spec = *ours;
    math_kernel k;
    spec.lanes = ours->type == JIT_f64 ? 8 : 16;
    if (type)
        snprintf(symbol, sizeof symbol, format, name, type, spec.lanes,
                 ours->op == JITC_OP_hypot ? "05" : "10");
    else
        snprintf(symbol, sizeof symbol, format, spec.lanes, two ? "vv" : "v", name, suffix);
    spec.symbol = symbol;
    if (build(s, &spec, &k) != JIT_OK) {
        printf(" – |");
        return;
    }
    math_error e = measure(s, &k);
    printf(e.ulp < 100 ? " %.2f / %.2f |" : " %.2f / wrong |", measure_time(s, &k), e.ulp);
    math_kernel_finish(&k);
}

static void print_row(session *s, jitc_op op, jit_dtype type) {
    math_spec spec = {op, type, JITC_ISA_V4, 2, 16, s->o.substitutes, NULL};
    math_kernel k;
    if (build(s, &spec, &k) != JIT_OK)
        return;
    math_error e = measure(s, &k);
    printf("| %s | %s | %s | %.3f | ", jitc_ops[op].name, jitc_dtypes[type].name,
           jitc_math_describe(op, type, JITC_ISA_V4), e.ulp);
    print_where(&k, &e);
    printf(" | %.2f |", measure_time(s, &k));
    math_kernel_finish(&k);
    print_other(s, &spec, "Sleef_%s%c%u_u%savx512f", type == JIT_f64 ? 'd' : 'f');
    print_other(s, &spec, "_ZGVeN%u%s_%s%s", 0);
    printf("\n");
    fflush(stdout);
}

static void check(session *s, jitc_op op, jit_dtype type) {
    jitc_isa first = s->o.best ? math_host_isa() : JITC_ISA_V1;
    for (jitc_isa isa = first; isa <= math_host_isa(); isa++)
        for (int level = 0; level <= (s->o.best ? 0 : 2); level += 2) {
            math_spec spec = {op,  type, isa, level, isa <= JITC_ISA_V2 ? 4 : 16, s->o.substitutes,
                              NULL};
            math_kernel k;
            if (build(s, &spec, &k) != JIT_OK)
                continue;
            math_error e = measure(s, &k);
            printf("%-6s %s v%d O%d  %-24s %7.2f ns  %.4g ULP at ", jitc_ops[op].name,
                   jitc_dtypes[type].name, isa + 1, level, jitc_math_describe(op, type, isa),
                   measure_time(s, &k), e.ulp);
            print_where(&k, &e);
            printf("%s\n", e.ulp > 1 ? "  ABOVE 1" : "");
            fflush(stdout);
            math_kernel_finish(&k);
        }
}

static void for_each(session *s, void (*f)(session *, jitc_op, jit_dtype)) {
    for (int t = 0; t < 2; t++)
        for (int op = 0; op < JITC_OP_COUNT; op++)
            if (jitc_math_describe((jitc_op) op, JIT_f32, JITC_ISA_V4) &&
                (!s->o.only || !strcmp(s->o.only, jitc_ops[op].name)))
                f(s, (jitc_op) op, t ? JIT_f64 : JIT_f32);
}

int main(int argc, char **argv) {
    static session s;
    static jitc_llvm_library library;
    s.o.stride = 20011;
    s.o.threads = (int) sysconf(_SC_NPROCESSORS_ONLN);
    for (int c; (c = getopt(argc, argv, "l:f:sb")) != -1;) {
        if (c == 'l')
            s.o.library = optarg;
        else if (c == 'f')
            s.o.only = optarg;
        else if (c == 's')
            s.o.substitutes = true;
        else if (c == 'b')
            s.o.best = true;
        else
            return 2;
    }
    bool checking = optind < argc && !strcmp(argv[optind], "check");
    if (checking && optind + 1 < argc)
        s.o.stride = strtoull(argv[optind + 1], NULL, 10);
    if (jitc_llvm_library_init(&library, s.o.library ? s.o.library : "") != JIT_OK ||
        jitc_llvm_library_open(&library, &s.api) != JIT_OK ||
        jitc_symbols_create(&s.symbols) != JIT_OK || s.o.stride == 0) {
        fprintf(stderr, "%s\n", jit_error());
        return 1;
    }
    if (!checking)
        printf(
            "| function | type | how | ULP | at | ns | SLEEF u10: ns / ULP | libmvec: ns / ULP |\n"
            "|---|---|---|---|---|---|---|---|\n");
    for_each(&s, checking ? check : print_row);
    jitc_symbols_destroy(s.symbols);
    jitc_llvm_library_finish(&library);
    return 0;
}
