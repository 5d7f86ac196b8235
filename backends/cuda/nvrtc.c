/* nvrtc.c: NVIDIA's run-time compiler, opened at run time.  Layer: cuda.  May include: core. */
#include "cuda/nvrtc.h"
#include "core/exit.h"
#include "core/log.h"
#include "cuda/nvrtc_find.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ARCHS = 64, SHOWN_LOG = 400 };

enum {
#define NVRTC(name, ...) NVRTC_##name,
#include "cuda/nvrtc.def"
    NVRTC_COUNT
};

struct jitc_nvrtc {
    void *library;
    char *name; /* of the file, as it was opened */
    int version, arch[MOST_ARCHS], archs;
    atomic_bool guarded;
#define NVRTC(name, symbol, arguments) int(*name) arguments;
#include "cuda/nvrtc.def"
    const char *(*GetErrorString)(int);
};

/** Options, and the version that was the first to know them. */
static const struct {
    const char *text;
    int since;
} options[] = {
    {"-default-device", 0},
    {"-w", 0}, /* warnings are about what a generator may well write */
    {"--minimal", 12040},
    {"--no-cache", 12090}, /* the kernel cache is ours */
    /* Not --Ofast-compile=min, which saves a fifth of the time: with version 13.0 kernels of many
     * comparisons of bool then returned wrong values. */
};
enum { OPTIONS = sizeof options / sizeof *options };

/* Opening. */

static jit_status find_functions(jitc_nvrtc *n) {
    static const char *const symbols[] = {
#define NVRTC(name, symbol, ...) symbol,
#include "cuda/nvrtc.def"
    };
    static const bool optional[] = {
#define NVRTC(...)    false,
#define OPTIONAL(...) true,
#include "cuda/nvrtc.def"
    };
    void *found[NVRTC_COUNT];
    for (int f = 0; f < NVRTC_COUNT; ++f) {
        found[f] = dlsym(n->library, symbols[f]);
        if (!found[f] && !optional[f])
            return jitc_fail(JIT_UNAVAILABLE, "nvrtc: %s has no function %s", n->name, symbols[f]);
    }
    /* A function pointer and an object pointer have the same bytes, as dlsym requires. */
#define NVRTC(name, ...) memcpy(&n->name, &found[NVRTC_##name], sizeof n->name);
#include "cuda/nvrtc.def"
    void *describe = dlsym(n->library, "nvrtcGetErrorString");
    memcpy(&n->GetErrorString, &describe, sizeof describe);
    return JIT_OK;
}

static const char *describe(const jitc_nvrtc *n, int result) {
    return n->GetErrorString ? n->GetErrorString(result) : "error";
}

static jit_status find_version(jitc_nvrtc *n) {
    int major, minor, result = n->Version(&major, &minor);
    if (result != 0)
        return jitc_fail(JIT_UNAVAILABLE, "nvrtc: %s: nvrtcVersion: %s", n->name,
                         describe(n, result));
    n->version = 1000 * major + 10 * minor;
    return JIT_OK;
}

/** In ascending order. Versions that do not tell know these. */
static jit_status find_archs(jitc_nvrtc *n) {
    static const int usual[] = {70, 75, 80};
    const char *call = "nvrtcGetNumSupportedArchs";
    int count, result;
    if (!n->GetNumSupportedArchs || !n->GetSupportedArchs) {
        memcpy(n->arch, usual, sizeof usual);
        n->archs = sizeof usual / sizeof *usual;
        return JIT_OK;
    }
    result = n->GetNumSupportedArchs(&count);
    if (result == 0 && (count < 1 || count > MOST_ARCHS))
        return jitc_fail(JIT_UNAVAILABLE, "nvrtc: %s knows %d architectures, which is not credible",
                         n->name, count);
    if (result == 0) {
        call = "nvrtcGetSupportedArchs";
        result = n->GetSupportedArchs(n->arch);
    }
    if (result != 0)
        return jitc_fail(JIT_UNAVAILABLE, "nvrtc: %s: %s: %s", n->name, call, describe(n, result));
    n->archs = count;
    return JIT_OK;
}

jit_status jitc_nvrtc_open(const char *path, jitc_nvrtc **out) {
    jitc_nvrtc *n;
    jit_status status;
    TRY(jitc_calloc(1, sizeof *n, (void **) &n));
    TRY_GOTO(jitc_nvrtc_find(path, &n->library, &n->name), fail);
    TRY_GOTO(find_functions(n), fail);
    TRY_GOTO(find_version(n), fail);
    TRY_GOTO(find_archs(n), fail);
    *out = n;
    return JIT_OK;
fail:
    jitc_nvrtc_close(n);
    return status;
}

void jitc_nvrtc_close(jitc_nvrtc *n) {
    if (!n)
        return;
    if (n->library)
        dlclose(n->library);
    free(n->name);
    free(n);
}

int jitc_nvrtc_version(const jitc_nvrtc *n) {
    return n->version;
}

jit_status jitc_nvrtc_arch(const jitc_nvrtc *n, int capability, int *arch, bool *ptx) {
    int best = 0;
    for (int i = 0; i < n->archs; ++i)
        if (n->arch[i] <= capability && n->arch[i] > best)
            best = n->arch[i];
    if (!best)
        return jitc_fail(JIT_UNAVAILABLE,
                         "nvrtc: %s, version %d.%d, knows nothing as old as a device of compute "
                         "capability %d.%d",
                         n->name, n->version / 1000, n->version % 1000 / 10, capability / 10,
                         capability % 10);
    *arch = best;
    *ptx = best != capability || !n->GetCUBIN || !n->GetCUBINSize;
    return JIT_OK;
}

/* Compiling. */

typedef struct job {
    const char *text;
    int arch;
    bool ptx, fuse;
    jitc_blob *out;
    char *messages; /* what the compiler said, if it refused the text */
} job;

static jit_status failed(const jitc_nvrtc *n, const char *function, int result) {
    return jitc_fail(JIT_COMPILE_FAILED, "nvrtc: %s: %s", function, describe(n, result));
}

/** With the first lines of the compiler's log; the whole is *messages. */
static jit_status refused(const jitc_nvrtc *n, void *program, int result, char **messages) {
    size_t size;
    char *log;
    if (n->GetProgramLogSize(program, &size) != 0 || size <= 1)
        return failed(n, "nvrtcCompileProgram", result);
    TRY(jitc_calloc(size + 1, 1, (void **) &log));
    jit_status status;
    if (n->GetProgramLog(program, log) == 0) {
        *messages = log;
        status =
            jitc_fail(JIT_COMPILE_FAILED, "nvrtc: %s: %.*s", describe(n, result), SHOWN_LOG, log);
    } else {
        free(log);
        status = failed(n, "nvrtcCompileProgram", result);
    }
    return status;
}

static jit_status take_code(const jitc_nvrtc *n, void *program, bool ptx, jitc_blob *out) {
    size_t size = 0;
    int result = (ptx ? n->GetPTXSize : n->GetCUBINSize)(program, &size);
    if (result != 0 || size == 0)
        return failed(n, ptx ? "nvrtcGetPTXSize" : "nvrtcGetCUBINSize", result);
    void *code;
    TRY(jitc_calloc(size, 1, &code));
    result = (ptx ? n->GetPTX : n->GetCUBIN)(program, code);
    if (result != 0) {
        free(code);
        return failed(n, ptx ? "nvrtcGetPTX" : "nvrtcGetCUBIN", result);
    }
    *out = (jitc_blob) {code, size};
    return JIT_OK;
}

static jit_status compile(const jitc_nvrtc *n, job *j) {
    char target[64];
    const char *option[OPTIONS + 2] = {target, j->fuse ? "--fmad=true" : "--fmad=false"};
    int count = 2;
    snprintf(target, sizeof target, "--gpu-architecture=%s_%d", j->ptx ? "compute" : "sm", j->arch);
    for (int i = 0; i < OPTIONS; ++i)
        if (n->version >= options[i].since)
            option[count++] = options[i].text;
    void *program;
    int result = n->CreateProgram(&program, j->text, "jitc_kernel.cu", 0, NULL, NULL);
    if (result != 0)
        return failed(n, "nvrtcCreateProgram", result);
    result = n->CompileProgram(program, count, option);
    jit_status status = result == 0 ? take_code(n, program, j->ptx, j->out)
                                    : refused(n, program, result, &j->messages);
    n->DestroyProgram(&program);
    return status;
}

jit_status jitc_nvrtc_compile(jitc_nvrtc *n, const char *text, int arch, bool ptx, bool fuse,
                              jitc_blob *out) {
    job j = {.text = text, .arch = arch, .ptx = ptx, .fuse = fuse, .out = out};
    if (!jitc_exit_enter("nvrtc"))
        return JIT_UNAVAILABLE;
    jit_status status = compile(n, &j);
    /* The first compilation registers destructors: only from here on is the exit sure to wait. */
    bool first = !jitc_exchange_acquire(&n->guarded, true);
    if (first)
        jitc_exit_guard();
    jitc_exit_leave();
    if (first) /* not when it is opened: that is done under locks */
        jitc_log(JITC_LOG_INFO, "nvrtc: %s, version %d.%d", n->name, n->version / 1000,
                 n->version % 1000 / 10);
    if (j.messages)
        jitc_log(JITC_LOG_DEBUG, "nvrtc: %s", j.messages);
    free(j.messages);
    return status;
}
