/* llvm_run.h: programs run on the CPU backend, for its tests. */
#ifndef JITC_TESTS_LLVM_RUN_H
#define JITC_TESTS_LLVM_RUN_H
#include "device/device.h"
#include "programs.h"
#include "llvm/llvm_backend.h"

enum { RUNNER_ISAS = 4 };
extern const char *const runner_isas[RUNNER_ISAS];

/** A backend with one stream. */
typedef struct runner {
    jitc_backend *b;
    jitc_stream *s;
} runner;

/** False, and nothing made, if the library or the instruction set is not there. NULL: the default.
 */
bool runner_init(runner *r, const char *library, const char *isa);
bool runner_init_threads(runner *r, const char *isa, int threads);
void runner_finish(runner *r);
/** Of each instruction set that is there. */
void runner_for_each_isa(void (*check)(runner *r));
/** Lower, compile, load. Fails the test if any of it fails, as the following do. */
jitc_kernel *runner_load(runner *r, const jitc_program *p, int level);
/** Run `lanes` lanes and wait. Scratch memory that the kernel wants is given, with a guard. */
void runner_launch(runner *r, jitc_kernel *k, const jitc_program *p, uint64_t lanes,
                   const uint64_t *params);
/** Both, and destroy the kernel. */
void runner_run(runner *r, const jitc_program *p, int level, uint64_t lanes,
                const uint64_t *params);

/** Memory of `bytes` bytes that ends right before a page that must not be touched. */
void *guarded_alloc(size_t bytes);
void guarded_free(void *p, size_t bytes);
#endif
