/* test_simcode_nvrtc.c: the simulated NVRTC: logs, options, versions, images, threads. */
#include "simcode_world.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program program;
typedef struct nvrtc {
    int (*create)(program **, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(program *, int, const char *const *);
    int (*destroy)(program **);
    int (*log_size)(program *, size_t *);
    int (*log)(program *, char *);
    int (*cubin_size)(program *, size_t *);
    int (*ptx_size)(program *, size_t *);
    int (*ptx)(program *, char *);
    int (*version)(int *, int *);
    int (*arch_count)(int *);
    int (*archs)(int *);
} nvrtc;

static nvrtc find_nvrtc(void) {
    static const char *const names[] = {
        "nvrtcCreateProgram",        "nvrtcCompileProgram",   "nvrtcDestroyProgram",
        "nvrtcGetProgramLogSize",    "nvrtcGetProgramLog",    "nvrtcGetCUBINSize",
        "nvrtcGetPTXSize",           "nvrtcGetPTX",           "nvrtcVersion",
        "nvrtcGetNumSupportedArchs", "nvrtcGetSupportedArchs"};
    nvrtc n;
    void *symbols[sizeof names / sizeof *names];
    simcode_open_simulated();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        symbols[i] = simcode_symbol(names[i]);
        cr_assert(symbols[i], "%s", names[i]);
    }
    memcpy(&n, symbols, sizeof n);
    return n;
}

static const char good[] = "KERNEL void k(int *p) { ST(p, 1); }";

/* With the log in *log, free(). */
static int compile_with(const nvrtc *n, const char *text, const char *option, char **log) {
    program *p;
    size_t bytes;
    cr_assert_eq(n->create(&p, text, "named.cu", 0, NULL, NULL), 0);
    int result = n->compile(p, option ? 1 : 0, &option);
    cr_assert_eq(n->log_size(p, &bytes), 0);
    *log = malloc(bytes);
    cr_assert_eq(n->log(p, *log), 0);
    cr_assert_eq(strlen(*log) + 1, bytes);
    cr_assert_eq(n->destroy(&p), 0);
    cr_assert_null(p);
    return result;
}

Test(simcode_nvrtc, a_text_that_is_wrong_gives_a_log_with_its_lines) {
    static const struct {
        const char *text, *part;
    } wrong[] = {
        {"KERNEL void k(int *p) {\n int x = y; x = 1;\n}", "named.cu(2): "},
        {"\n\nKERNEL void k(int *p) { ST(p, foo(1)); }", "named.cu(3): "},
        {"\nKERNEL void k(int *p, float *q) { p = q; }", "named.cu(2): "},
        {"\nKERNEL void k(const int *p) { ST(p, 1); }", "named.cu(2): "},
        {"KERNEL void k(int *p) { int y = 1;\n y.x = 2; }", "named.cu(2): "},
        {"KERNEL void k(int *p) { SHARED(double, s, 10000); s[0] = 1; }", "too much shared data"},
        {"KERNEL void k(int (*f)(int)) { }", "not understood"},
        {"int f(int x);\nKERNEL void k(int *p) { ST(p, f(1)); }", "error: "},
    };
    nvrtc n = find_nvrtc();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char *log;
        cr_assert_eq(compile_with(&n, wrong[i].text, NULL, &log), 6, "text %zu", i);
        cr_assert(strstr(log, wrong[i].part) && strstr(log, "detected in the compilation of"),
                  "text %zu: %s", i, log);
        free(log);
    }
}

Test(simcode_nvrtc, options_are_those_of_nvrtc) {
    static const char *const accepted[] = {"--gpu-architecture=sm_90",
                                           "-arch=compute_80",
                                           "--fmad=false",
                                           "-fmad=true",
                                           "--minimal",
                                           "--std=c++17",
                                           "-default-device",
                                           "--device-as-default-execution-space",
                                           "--no-cache",
                                           "-w",
                                           "-DX=1",
                                           "--define-macro=Y"};
    static const char *const refused[] = {"--gpu-architecture=sm_91",
                                          "--gpu-architecture=90",
                                          "--gpu-architecture=",
                                          "--gpu-architecture=sm_60",
                                          "--foo",
                                          "--fmad=maybe",
                                          "--fmad",
                                          "-O3",
                                          "",
                                          "fmad=true",
                                          "--minimal=1",
                                          "---minimal",
                                          "--std=c++99",
                                          "--std="};
    nvrtc n = find_nvrtc();
    char *log;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        cr_assert_eq(compile_with(&n, good, accepted[i], &log), 0, "%s", accepted[i]);
        cr_assert_str_empty(log);
        free(log);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        cr_assert_eq(compile_with(&n, good, refused[i], &log), 5, "%s", refused[i]);
        cr_assert(strncmp(log, "nvrtc: error: ", 14) == 0, "%s: %s", refused[i], log);
        free(log);
    }
    cr_assert_eq(compile_with(&n, "#if X != 5\n#error no\n#endif\n", "-DX=5", &log), 0, "%s", log);
    free(log);
}

Test(simcode_nvrtc, versions_know_their_architectures) {
    nvrtc n = find_nvrtc();
    int major, minor, count, archs[64];
    setenv("SIMCUDA_NVRTC_VERSION", "12.4", 1);
    cr_assert_eq(n.version(&major, &minor), 0);
    cr_assert(major == 12 && minor == 4);
    cr_assert_eq(n.arch_count(&count), 0);
    cr_assert_eq(n.archs(archs), 0);
    cr_assert(archs[0] == 50 && archs[count - 1] == 90, "%d to %d", archs[0], archs[count - 1]);
    char *log;
    cr_assert_eq(compile_with(&n, good, "--gpu-architecture=sm_120", &log), 5);
    free(log);
    setenv("SIMCUDA_NVRTC_VERSION", "13.0", 1);
    cr_assert_eq(n.arch_count(&count), 0);
    cr_assert_eq(n.archs(archs), 0);
    cr_assert(archs[0] == 75 && archs[count - 1] == 121, "%d to %d", archs[0], archs[count - 1]);
    cr_assert_eq(compile_with(&n, good, "--gpu-architecture=sm_120", &log), 0);
    free(log);
}

Test(simcode_nvrtc, calls_can_be_misused_and_made_to_fail) {
    nvrtc n = find_nvrtc();
    program *p = NULL;
    size_t bytes;
    cr_assert_eq(n.create(&p, NULL, NULL, 0, NULL, NULL), 3);
    cr_assert_eq(n.create(NULL, "", NULL, 0, NULL, NULL), 4);
    cr_assert_eq(n.compile(NULL, 0, NULL), 4);
    cr_assert_eq(n.destroy(&p), 4);
    void *symbol = simcode_symbol("simcuda_fail");
    void (*fail)(const char *, int, int);
    memcpy(&fail, &symbol, sizeof fail);
    fail("nvrtcCompileProgram", 2, 11);
    cr_assert_eq(n.create(&p, good, NULL, 0, NULL, NULL), 0);
    cr_assert_eq(n.compile(p, 0, NULL), 0);
    cr_assert_eq(n.compile(p, 0, NULL), 11);
    cr_assert_eq(n.compile(p, 0, NULL), 0);
    cr_assert_eq(n.cubin_size(p, &bytes), 0);
    cr_assert_eq(bytes, 0, "there is no CUBIN of a virtual architecture");
    cr_assert_eq(n.ptx_size(p, &bytes), 0);
    cr_assert_gt(bytes, 1);
    cr_assert_eq(n.destroy(&p), 0);
}

/* The image of a program that is gone. */
static char *image_for(const nvrtc *n, const char *arch, bool ptx) {
    program *p;
    size_t bytes;
    char *image;
    cr_assert_eq(n->create(&p, good, "named.cu", 0, NULL, NULL), 0);
    cr_assert_eq(n->compile(p, 1, &arch), 0);
    int (*size)(program *, size_t *) = ptx ? n->ptx_size : n->cubin_size;
    cr_assert_eq(size(p, &bytes), 0);
    image = malloc(bytes);
    void *symbol = simcode_symbol(ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN");
    int (*get)(program *, char *);
    memcpy(&get, &symbol, sizeof get);
    cr_assert_eq(get(p, image), 0);
    cr_assert_eq(n->destroy(&p), 0);
    return image;
}

Test(simcode_nvrtc, images_are_for_one_architecture_and_notice_damage) {
    nvrtc n = find_nvrtc();
    void *symbol = simcode_symbol("cuModuleLoadData");
    int (*load)(CUmodule *, const void *);
    memcpy(&load, &symbol, sizeof load);
    static const struct {
        const char *arch;
        bool ptx;
        int result;
    } cases[] = {
        {"--gpu-architecture=sm_90", false, 0},     {"--gpu-architecture=sm_80", false, 209},
        {"--gpu-architecture=sm_120", false, 209},  {"--gpu-architecture=compute_75", true, 0},
        {"--gpu-architecture=compute_90", true, 0}, {"--gpu-architecture=compute_100", true, 218},
    };
    CUmodule module;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *image = image_for(&n, cases[i].arch, cases[i].ptx);
        cr_assert_eq(load(&module, image), cases[i].result, "%s", cases[i].arch);
        free(image);
    }
    char *image = image_for(&n, "--gpu-architecture=sm_90", false);
    image[strlen(image) - 3] ^= 1;
    cr_assert_eq(load(&module, image), 200, "a changed byte");
    image[strlen(image) - 5] = 0;
    cr_assert_eq(load(&module, image), 200, "an end too early");
    cr_assert_eq(load(&module, "SIMCUBIN1 sm_90 7"), 200);
    cr_assert_eq(load(&module, ""), 200);
    free(image);
}

enum { COMPILERS = 4, TEXTS = 30 };

/* Every thread compiles texts of its own, and texts that all of them compile. */
static void *compile_many(void *argument) {
    unsigned self = *(unsigned *) argument;
    for (unsigned i = 0; i < TEXTS; i++) {
        char text[200], *log;
        snprintf(text, sizeof text, "KERNEL void k(u32 *p) { ST(p, %uu); } %s",
                 i % 2 ? i : 1000 * self + i, i % 5 ? "" : "int wrong = ;");
        char *cubin = simcode_compile(text, &log);
        cr_assert_eq(cubin != NULL, i % 5 != 0, "%s", text);
        free(cubin);
        free(log);
    }
    return NULL;
}

Test(simcode_nvrtc, threads_compile_at_once) {
    simcode_open_simulated();
    pthread_t threads[COMPILERS];
    unsigned numbers[COMPILERS];
    for (unsigned i = 0; i < COMPILERS; i++) {
        numbers[i] = i;
        cr_assert_eq(pthread_create(&threads[i], NULL, compile_many, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < COMPILERS; i++) {
        pthread_join(threads[i], NULL);
    }
}
