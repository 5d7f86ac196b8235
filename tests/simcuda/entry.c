/* entry.c: the exported entry points, made from their table, and the lookup of one by its name.
 * Layer: tests. */
#include "state.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
enum { PROC_LEGACY = 1, PROC_PER_THREAD = 2 }; /* CU_GET_PROC_ADDRESS_... */
enum { PROC_FOUND, PROC_NOT_FOUND, PROC_VERSION };

typedef void (*any_function)(void);

static __thread bool calling;
static __thread CUresult refusal; /* of the entry point that runs; 0: none */
static pid_t owner; /* the process that called cuInit(); written once, under the lock */

void sim_set_calling(bool value) {
    calling = value;
}

void sim_refuse(CUresult why) {
    refusal = why;
}

static CUresult check(int needs) {
    if (needs == SIM_NOTHING)
        return CUDA_SUCCESS;
    if (calling)
        return CUDA_ERROR_NOT_PERMITTED;
    if (!sim_initialised())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (needs == SIM_INIT)
        return CUDA_SUCCESS;
    const sim_context *c = sim_current();
    if (!c)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (c->object.life != SIM_ALIVE)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return c->error != CUDA_SUCCESS || needs != SIM_UNSAFE ? c->error : sim_capture_forbids();
}

/* The real driver takes itself apart when the process exits: whoever is inside then crashes. */
static int inside;

void sim_wait_inside(bool waits) {
    __atomic_add_fetch(&inside, waits ? -1 : 1, __ATOMIC_SEQ_CST);
}

void sim_check_exit(void) {
    if (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) == 0)
        return;
    fprintf(stderr, "simcuda: the process exits while a thread is inside of the driver\n");
    abort();
}

CUresult sim_begin(sim_entry *e, int needs) {
    CUresult result = sim_enter(e);
    if (result == CUDA_SUCCESS && __atomic_load_n(&owner, __ATOMIC_RELAXED) != 0 &&
        owner != getpid())
        return CUDA_ERROR_NOT_INITIALIZED; /* a child, where no worker runs: not even the lock */
    if (result != CUDA_SUCCESS)
        return result;
    sim_wait_inside(false);
    sim_lock();
    refusal = CUDA_SUCCESS;
    result = check(needs);
    return result == CUDA_SUCCESS ? result : sim_end(e, result);
}

CUresult sim_end(const sim_entry *e, CUresult result) {
    if (sim_initialised())
        __atomic_store_n(&owner, getpid(), __ATOMIC_RELAXED);
    sim_unlock();
    sim_wait_inside(true);
    if (result == CUDA_ERROR_INVALID_HANDLE && refusal != CUDA_SUCCESS)
        result = refusal;
    sim_trace_end(e, result);
    return result;
}

/* The functions themselves. */
#define NOTHING SIM_NOTHING
#define INIT    SIM_INIT
#define CONTEXT SIM_NEEDS_CONTEXT
#define UNSAFE  SIM_UNSAFE
#define DEFINE(symbol, function, needs, parameters, call)                                          \
    EXPORT CUresult symbol parameters;                                                             \
    EXPORT CUresult symbol parameters {                                                            \
        static sim_entry entry = {.name = #symbol};                                                \
        CUresult result = sim_begin(&entry, needs);                                                \
        return result == CUDA_SUCCESS ? sim_end(&entry, sim_##function call) : result;             \
    }

#define S(stream) ((stream) ? (stream) : CU_STREAM_LEGACY)
#define HERE      CU_STREAM_LEGACY
#define ENTRY(symbol, name, since, needs, parameters, call)                                        \
    DEFINE(symbol, symbol, needs, parameters, call)
#define STREAM ENTRY
#define COPY   ENTRY
#include "driver_api.def"
#undef S
#undef HERE

/* Their variants in which the default stream is that of the calling thread. */
#define S(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)
#define HERE      CU_STREAM_PER_THREAD
#define ENTRY(symbol, name, since, needs, parameters, call)
#define STREAM(symbol, name, since, needs, parameters, call)                                       \
    DEFINE(symbol##_ptsz, symbol, needs, parameters, call)
#define COPY(symbol, name, since, needs, parameters, call)                                         \
    DEFINE(symbol##_ptds, symbol, needs, parameters, call)
#include "driver_api.def"
#undef S
#undef HERE
#undef NOTHING
#undef INIT
#undef CONTEXT
#undef UNSAFE
#undef DEFINE

static const struct row {
    const char *name;
    int since;
    any_function plain, per_thread;
} rows[] = {
#define ENTRY(symbol, name, since, needs, parameters, call)                                        \
    {#name, since, (any_function) symbol, (any_function) symbol},
#define STREAM(symbol, name, since, needs, parameters, call)                                       \
    {#name, since, (any_function) symbol, (any_function) symbol##_ptsz},
#define COPY(symbol, name, since, needs, parameters, call)                                         \
    {#name, since, (any_function) symbol, (any_function) symbol##_ptds},
#include "driver_api.def"
};

CUresult sim_cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                 int *status) {
    if (!name || !function || flags > (PROC_LEGACY | PROC_PER_THREAD))
        return CUDA_ERROR_INVALID_VALUE;
    const struct row *best = NULL;
    bool known = false;
    for (const struct row *r = rows; r < rows + sizeof rows / sizeof *rows; r++) {
        if (strcmp(r->name, name) != 0)
            continue;
        known = true;
        if (r->since <= version && (!best || r->since > best->since))
            best = r;
    }
    *function = NULL;
    if (status)
        *status = best ? PROC_FOUND : known ? PROC_VERSION : PROC_NOT_FOUND;
    if (!best) {
        fprintf(stderr, "simcuda: cuGetProcAddress: there is no %s of version %d\n", name, version);
        return CUDA_ERROR_NOT_FOUND;
    }
    any_function found = flags & PROC_PER_THREAD ? best->per_thread : best->plain;
    memcpy(function, &found, sizeof found); /* ISO C has no conversion of function pointers */
    return CUDA_SUCCESS;
}

CUresult sim_cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return sim_cuGetProcAddress_v2(name, function, version, flags, NULL);
}
