/* simcuda_client.h: the simulated driver as its tests use it: opened by dlopen(), as by the
 * backend. Layer: tests. */
#ifndef JITC_TESTS_SIMCUDA_CLIENT_H
#define JITC_TESTS_SIMCUDA_CLIENT_H
#include "cuda/driver.h"
#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdbool.h>

#define LEGACY     ((CUstream) 1)
#define PER_THREAD ((CUstream) 2)

typedef struct CUmemPoolHandle_st *CUmemoryPool;

typedef struct client {
    void *library;
#define FUNCTION(name, symbol, parameters) CUresult(*name) parameters;
#include "simcuda_client.def"
    void (*seed)(uint64_t);
    void (*fail)(const char *, int, int);
    uint64_t (*calls)(const char *);
    unsigned (*faults)(void);
    const char *(*fault_text)(void);
    unsigned (*alive)(const char *);
    void (*memory)(uint64_t);
    void (*kernel_time_us)(unsigned);
    void (*order)(bool);
    void (*order_strict)(bool);
    unsigned (*races)(void);
    void (*reuse)(bool);
} client;
extern client cu;

/** A call is successful, or has another result that is named. */
#define OK(call) GIVES(call, CUDA_SUCCESS)
#define GIVES(call, expected)                                                                      \
    do {                                                                                           \
        CUresult result_ = (call);                                                                 \
        cr_assert_eq(result_, expected, "%s is %d, not %d; faults: %s", #call, result_, expected,  \
                     cu.fault_text());                                                             \
    } while (0)
/** The faults so far: how many, and what the last ones say. */
#define FAULTS(count, words)                                                                       \
    do {                                                                                           \
        cr_assert_eq(cu.faults(), count, "%u faults, not %u: %s", cu.faults(), (unsigned) (count), \
                     cu.fault_text());                                                             \
        cr_assert(strstr(cu.fault_text(), words), "'%s' is not in: %s", words, cu.fault_text());   \
    } while (0)

/** Open the library, without cuInit(). */
void client_open(void);
/** As above, but a real driver will do, which has no faults; false: it is one. */
bool client_open_any(void);
/** cuInit(), and the primary context of device 0 made current. */
CUcontext client_start(void);
/** The opposite; nothing may be left. */
void client_end(void);
CUdeviceptr client_alloc(size_t bytes);
CUstream client_stream(unsigned flags);
/** The word at `from`, after all that is queued anywhere. */
unsigned client_word(CUdeviceptr from);
/** Compile for sm_<arch>; the code of the compiler; free(). */
char *client_compile(const char *text, int arch);
CUmodule client_load(const char *text);
CUfunction client_function(CUmodule module, const char *name);

/** Work that keeps a stream busy until the gate is opened. */
typedef struct gate {
    sem_t open;
} gate;
void gate_close(gate *g, CUstream stream);
void gate_open(gate *g);
#endif
