/* llvm_run.h: programs run on the CPU backend, for its tests. */
#ifndef JITC_TESTS_LLVM_RUN_H
#define JITC_TESTS_LLVM_RUN_H
#include "device/device.h"
#include "programs.h"
#include "llvm/llvm_backend.h"

/** A backend with one stream. */
typedef struct runner {
    jitc_backend *b;
    jitc_stream *s;
} runner;

/** False, and nothing made, if the library or the instruction set is not there. NULL: the default.
 */
bool runner_init(runner *r, const char *library, const char *isa);
void runner_finish(runner *r);
/** Lower, compile, load, run `lanes` lanes, wait, destroy. Fails the test if any of it fails. */
void runner_run(runner *r, const jitc_program *p, int level, uint64_t lanes,
                const uint64_t *params);

/** Memory of `bytes` bytes that ends right before a page that must not be touched. */
void *guarded_alloc(size_t bytes);
void guarded_free(void *p, size_t bytes);
#endif
