/* compile.h: one entry's kernel, from disk or by the compiler.  Layer: cache.
 * May include: core, ir, device, codegen. */
#ifndef JITC_CACHE_COMPILE_H
#define JITC_CACHE_COMPILE_H
#include "cache/disk.h"
#include "cache/table.h"

typedef struct jitc_compiler {
    const jitc_options *options;
    _Atomic(jitc_disk *) disk; /* NULL: not opened yet */
    _Atomic uint64_t compiled, recompiled, disk_hits;
} jitc_compiler;

/** Hash seed of what code depends on besides the program. */
uint64_t jitc_compiler_seed(const jitc_compiler *m, const jitc_target *t);
/** Open the disk cache, the first time. JIT_OUT_OF_MEMORY. */
jit_status jitc_compiler_open(jitc_compiler *m);
void jitc_compiler_close(jitc_compiler *m);
void jitc_compiler_forked(jitc_compiler *m);

/* The following: any thread, under no lock; `e` belongs to the caller (recompile: is held by it).
 */

/** Give the entry the kernel that is on disk; false if there is none that can be loaded. Leaves the
 *  thread's error, if any, as it was. */
bool jitc_compiler_load(jitc_compiler *m, jitc_entry *e);
/** Give the entry a new kernel, and store it on disk. */
jit_status jitc_compiler_compile(jitc_compiler *m, jitc_entry *e);
/** Replace the code of a kernel in use, and on disk, by better code. */
jit_status jitc_compiler_recompile(jitc_compiler *m, jitc_entry *e);
#endif
