/* sim.h: a CUDA driver and NVRTC that run on the host, for tests.
 *
 *   libsimcuda.so exports the driver's and NVRTC's entry points. Device memory lies in a range of
 *   addresses that the host cannot touch; kernels and copies reach it through a second mapping.
 *
 *   state.h, entry.c ...   the driver: contexts, streams, events, memory, graphs      (driver side)
 *   code.h, exec.h ...     NVRTC, compiling the CUDA C for the host, running blocks     (code side)
 *
 * This file is what the two sides know of each other. */
#ifndef SIMCUDA_SIM_H
#define SIMCUDA_SIM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Memory (driver side) ---- */

typedef enum sim_access { SIM_READ = 1, SIM_WRITE = 2, SIM_ATOMIC = 4 } sim_access;

/** Where `bytes` bytes at device address `address` can be reached by the host; NULL if they do not
 *  lie in one live allocation of any device. Fast (a page table look-up), no lock. */
void *sim_reach(uint64_t address, size_t bytes);
/** The same, for a kernel that accesses it: its order with other work will be checked. */
void *sim_reach_to_access(uint64_t address, size_t bytes, sim_access kind);
/** What lies there, in words: "0x7f… is 4 bytes past allocation 3 of 64 bytes". For reports. */
void sim_describe(uint64_t address, char *text, size_t size);

/* ---- What both sides' entry points use (driver side) ---- */

/** One entry point; `static sim_entry`, of which only the name is filled in. */
typedef struct sim_entry {
    const char *name;
    _Atomic uint64_t calls;
    struct sim_entry *next; /* of those called so far */
    _Atomic bool listed;
} sim_entry;
/** An entry point starts: it is counted and traced. The result of simcuda_fail() that it has to
 *  return at once, having done nothing; 0: go on. */
int sim_enter(sim_entry *e);
/** Report a fault: misuse of the API, a bad access. A sentence; printf-like. */
void sim_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));
/** The seed, and the next number of the sequence that it starts; both 0 as long as it is 0. */
uint64_t sim_seed(void);
uint64_t sim_random(void);
/** Compute capability of every device, such as 90. */
int sim_capability(void);
/** Version of driver and NVRTC, such as 13000. */
int sim_version(void);

/* ---- Code (code side) ---- */

typedef struct sim_code sim_code; /* a compiled text */
typedef struct sim_function sim_function;

/** Compile CUDA C for the host. NULL, and *log (free()), on errors. Any thread. Equal texts are
 *  compiled once while one is alive. */
sim_code *sim_code_build(const char *text, char **log);
void sim_code_free(sim_code *c);
/** The code in what the simulated NVRTC returned (CUBIN or PTX), for a device of compute capability
 *  `capability`. NULL, and a CUresult in *result: INVALID_IMAGE for what is no such image or a
 *  damaged one, INVALID_PTX, NO_BINARY_FOR_GPU for another architecture. */
sim_code *sim_code_from_image(const void *image, int capability, int *result);
/** A function declared KERNEL, or NULL. Lives as long as its code. */
sim_function *sim_code_function(sim_code *c, const char *name);
/** Sizes in bytes of its arguments; how many (the driver copies so much of kernelParams). */
size_t sim_function_arguments(const sim_function *f, const size_t **sizes);
/** Where each of them lies in the parameter buffer, by C's rules. */
const size_t *sim_function_offsets(const sim_function *f);
/** Registers and static shared memory that it is said to use. */
unsigned sim_function_registers(const sim_function *f);
size_t sim_function_shared(const sim_function *f);

typedef struct sim_launch {
    sim_function *function;
    unsigned grid[3], block[3];
    size_t shared;   /* dynamic shared memory */
    void *arguments; /* the kernel's parameter buffer; owned by the launch */
    size_t argument_bytes;
    int device;
} sim_launch;

typedef enum sim_result {
    SIM_OK,
    SIM_ILLEGAL_ADDRESS,
    SIM_MISALIGNED,
    SIM_DEADLOCK,
    SIM_DIVERGENT_BARRIER,
    SIM_TRAP
} sim_result;

/** Run a launch to its end on the calling thread, which is the device's. `report` gets a sentence
 *  on what went wrong: kernel, block, thread, address. */
sim_result sim_run(const sim_launch *l, char *report, size_t size);

/* ---- Settings, exported by the library for tests: find them by dlsym() ----
 *
 * From the environment, read at the first call: SIMCUDA_DEVICES (2; 0: no device),
 * SIMCUDA_CAPABILITY (90), SIMCUDA_VERSION (13000), SIMCUDA_MEMORY (bytes), SIMCUDA_SEED,
 * SIMCUDA_KERNEL_TIME_US, SIMCUDA_TRACE=1 (every call and fault to stderr), SIMCUDA_ORDER (0: no
 * checks of order; strict: see below).
 * At every compilation: SIMCUDA_CC=gcc (instead of TinyCC), SIMCUDA_KEEP (a folder for copies of
 * the texts), SIMCUDA_NVRTC_VERSION (such as 12.4; else the driver's). */

/** Seed of everything that is random: order of blocks, blocks resident at once, which stream's work
 *  runs next. Also the environment variable SIMCUDA_SEED. 0: ascending, one block, as queued. */
void simcuda_seed(uint64_t seed);
/** Let the n-th call from now (1: the next) of the driver or NVRTC fail with `result`; of those
 *  whose name is `name`, if it is not NULL. All threads count together. */
void simcuda_fail(const char *name, int n, int result);
/** Calls of the entry point `name` so far (NULL: of all). */
uint64_t simcuda_calls(const char *name);
/** Faults found so far: bad accesses, misuse of the API, leaks at the last release; their text. */
unsigned simcuda_faults(void);
const char *simcuda_fault_text(void);
/** What is alive: allocations, streams, events, modules, graphs, contexts retained. For tests of
 *  leaks. */
unsigned simcuda_alive(const char *kind);
/** Bytes of memory that each device has; 0: the default. */
void simcuda_memory(uint64_t bytes);
/** Check that what accesses the same memory, and does not only read, is ordered by streams, events
 * or the host, whatever ran when; the rules are in clock.h. On unless SIMCUDA_ORDER is 0. */
void simcuda_order(bool on);
/** Report also what is ordered only because the legacy stream and the blocking ones wait for each
 *  other. */
void simcuda_order_strict(bool strict);
/** Pairs of operations that were unordered, so far; each is a fault, too. */
unsigned simcuda_races(void);
/** Give addresses that were freed to the next allocation of that size, as the real driver does. */
void simcuda_reuse(bool on);
/** Give handles of streams that were destroyed to new ones, as the real driver does. */
void simcuda_reuse_handles(bool on);
/** Let every kernel take at least so long, so that what should wait for it can be caught. */
void simcuda_kernel_time_us(unsigned us);
#endif
