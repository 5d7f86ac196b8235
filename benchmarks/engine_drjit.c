/* engine_drjit.c: Dr.Jit, its two libraries opened at run time from a Python wheel.
 * Layer: benchmarks. May include: nothing of the library.
 *
 * Dr.Jit declares its C-like interface in C++, so its functions have mangled names. The prototypes
 * below are those of drjit-core/jit.h and drjit/extra.h of version 1.5. */
#include "engine.h"

#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRJIT_LLVM = 2, DRJIT_U32 = 8, DRJIT_F32 = 14, DRJIT_LOG_ERRORS = 1 };

/* One row per function of Dr.Jit that is not called through a slot of its own:
 * CALL(field, symbol, library, result, arguments). */
#define DRJIT_CALLS(CALL)                                                                          \
    CALL(init, "_Z8jit_initj", core, void, (uint32_t) )                                            \
    CALL(has_backend, "_Z15jit_has_backend10JitBackend", core, int, (uint32_t) )                   \
    CALL(log_level, "_Z24jit_set_log_level_stderr8LogLevel", core, void, (uint32_t) )              \
    CALL(threads, "_Z25jit_llvm_set_thread_countj", core, void, (uint32_t) )                       \
    CALL(retain, "_Z20jit_var_inc_ref_implj", core, uint32_t, (uint32_t) )                         \
    CALL(f32, "_Z11jit_var_f3210JitBackendf", core, uint32_t, (uint32_t, float) )                  \
    CALL(mem_copy, "_Z16jit_var_mem_copy10JitBackend7VarTypePKvmi", core, uint32_t,                \
         (uint32_t, uint32_t, const void *, size_t, int) )                                         \
    CALL(boolean, "_Z12jit_var_bool10JitBackendb", core, uint32_t, (uint32_t, bool) )              \
    CALL(gather, "_Z14jit_var_gatherjjj", core, uint32_t, (uint32_t, uint32_t, uint32_t) )         \
    CALL(sqrt, "_Z12jit_var_sqrtj", core, uint32_t, (uint32_t) )                                   \
    CALL(schedule, "_Z16jit_var_schedulej", core, int, (uint32_t) )                                \
    CALL(eval, "_Z8jit_evalv", core, void, (void) )                                                \
    CALL(sync, "_Z15jit_sync_threadv", core, void, (void) )                                        \
    CALL(read, "_Z12jit_var_readjmPv", core, void, (uint32_t, size_t, void *) )                    \
    CALL(flush, "_Z22jit_flush_malloc_cachev", core, void, (void) )                                \
    CALL(exp, "_Z10ad_var_expm", extra, uint64_t, (uint64_t) )                                     \
    CALL(log, "_Z10ad_var_logm", extra, uint64_t, (uint64_t) )                                     \
    CALL(sin, "_Z10ad_var_sinm", extra, uint64_t, (uint64_t) )                                     \
    CALL(cos, "_Z10ad_var_cosm", extra, uint64_t, (uint64_t) )                                     \
    CALL(erf, "_Z10ad_var_erfm", extra, uint64_t, (uint64_t) )                                     \
    CALL(exp2, "_Z11ad_var_exp2m", extra, uint64_t, (uint64_t) )                                   \
    CALL(log2, "_Z11ad_var_log2m", extra, uint64_t, (uint64_t) )

struct engine_drjit_calls {
#define CALL(field, symbol, library, result, arguments) result(*field) arguments;
    DRJIT_CALLS(CALL)
#undef CALL
};

static bool start(const engine *e, int threads) {
    e->drjit->log_level(DRJIT_LOG_ERRORS);
    e->drjit->init(1u << DRJIT_LLVM);
    if (!e->drjit->has_backend(DRJIT_LLVM)) {
        fprintf(stderr, "drjit: does not find LLVM; set DRJIT_LIBLLVM_PATH\n");
        return false;
    }
    /* As here, the count contains the caller. */
    e->drjit->threads((uint32_t) threads);
    return true;
}

static void stop(const engine *e) {
    (void) e;
}

static engine_var retain(const engine *e, engine_var v) {
    return e->drjit->retain(v);
}

static engine_var literal(const engine *e, float value) {
    return e->drjit->f32(DRJIT_LLVM, value);
}

static engine_var floats(const engine *e, const float *data, size_t size) {
    return e->drjit->mem_copy(DRJIT_LLVM, DRJIT_F32, data, size, 1);
}

static engine_var indices(const engine *e, const uint32_t *data, size_t size) {
    return e->drjit->mem_copy(DRJIT_LLVM, DRJIT_U32, data, size, 1);
}

static engine_var gather(const engine *e, engine_var source, engine_var index) {
    engine_var mask = e->drjit->boolean(DRJIT_LLVM, true);
    engine_var result = e->drjit->gather(source, index, mask);
    e->release(mask);
    return result;
}

static engine_var unary(const engine *e, engine_function f, engine_var a) {
    const struct engine_drjit_calls *d = e->drjit;
    uint64_t (*const functions[ENGINE_FUNCTIONS])(uint64_t) = {[ENGINE_EXP] = d->exp,
                                                               [ENGINE_LOG] = d->log,
                                                               [ENGINE_SIN] = d->sin,
                                                               [ENGINE_COS] = d->cos,
                                                               [ENGINE_ERF] = d->erf};
    /* Indices of differentiable variables: the lower half is the variable, the upper half is 0. */
    return f == ENGINE_SQRT ? d->sqrt(a) : (engine_var) functions[f](a);
}

/* What drjit.power() records. */
static engine_var power(const engine *e, engine_var a, engine_var b) {
    engine_var logarithm = (engine_var) e->drjit->log2(a);
    engine_var product = e->mul(logarithm, b);
    engine_var result = (engine_var) e->drjit->exp2(product);
    e->release(logarithm);
    e->release(product);
    return result;
}

static bool evaluate(const engine *e, engine_var v) {
    e->drjit->schedule(v);
    e->drjit->eval();
    return true;
}

static void synchronise(const engine *e) {
    e->drjit->sync();
}

static bool read_floats(const engine *e, engine_var v, float *destination, size_t size) {
    for (size_t i = 0; i < size; ++i)
        e->drjit->read(v, i, destination + i);
    return true;
}

static void forget_memory(const engine *e) {
    e->drjit->flush();
}

static void *open_in(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The folder of the wheel: in the virtual environment that BENCH_PEERS names. */
static bool open_libraries(void **core, void **extra) {
    char pattern[4096];
    glob_t found;
    const char *peers = getenv("BENCH_PEERS");
    snprintf(pattern, sizeof pattern, "%s/lib/python3*/site-packages/drjit", peers ? peers : ".");
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    *core = open_in(found.gl_pathv[0], "libdrjit-core.so");
    *extra = open_in(found.gl_pathv[0], "libdrjit-extra.so");
    globfree(&found);
    return *core && *extra;
}

static bool resolve(void *library, const char *symbol, void *slot) {
    void *address = dlsym(library, symbol);
    memcpy(slot, &address, sizeof address);
    if (!address)
        fprintf(stderr, "drjit: no symbol %s\n", symbol);
    return address != NULL;
}

static bool resolve_all(engine *e, struct engine_drjit_calls *d, void *core, void *extra) {
    bool complete = resolve(core, "_Z11jit_var_addjj", &e->add) &&
                    resolve(core, "_Z11jit_var_subjj", &e->sub) &&
                    resolve(core, "_Z11jit_var_muljj", &e->mul) &&
                    resolve(core, "_Z11jit_var_divjj", &e->div) &&
                    resolve(core, "_Z11jit_var_fmajjj", &e->fma) &&
                    resolve(core, "_Z20jit_var_dec_ref_implj", &e->release);
#define CALL(field, symbol, library, result, arguments)                                            \
    complete = complete && resolve(library, symbol, &d->field);
    DRJIT_CALLS(CALL)
#undef CALL
    return complete;
}

bool engine_drjit_open(engine *e) {
    void *core, *extra;
    if (!open_libraries(&core, &extra))
        return false;
    struct engine_drjit_calls *calls = calloc(1, sizeof *calls);
    if (!calls)
        return false;
    *e = (engine) {.name = "drjit",
                   .start = start,
                   .stop = stop,
                   .retain = retain,
                   .literal = literal,
                   .floats = floats,
                   .indices = indices,
                   .gather = gather,
                   .unary = unary,
                   .pow = power,
                   .evaluate = evaluate,
                   .sync = synchronise,
                   .read = read_floats,
                   .forget_memory = forget_memory,
                   .drjit = calls};
    if (resolve_all(e, calls, core, extra))
        return true;
    free(calls);
    return false;
}
