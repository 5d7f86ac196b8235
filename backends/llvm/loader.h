/* loader.h: relocatable x86-64 ELF objects to code that runs.  Layer: llvm.  May include: core.
 *
 * Takes what code generation makes of a kernel: text, read-only data and calls of external
 * functions. Anything else, and anything damaged, is refused: the object may come from a file. */
#ifndef JITC_LLVM_LOADER_H
#define JITC_LLVM_LOADER_H
#include "core/mem.h"

/** Code in memory: executable, not writable. */
typedef struct jitc_code {
    void *base;
    size_t size;
    void *entry;
} jitc_code;

/** How external symbols are found: the address, or NULL. */
typedef struct jitc_resolver {
    void *(*find)(void *context, const char *name);
    void *context;
} jitc_resolver;

/** Load an object and find the function `entry` in it. JIT_COMPILE_FAILED, and why, if the object
 * is not one that can be loaded; JIT_OUT_OF_MEMORY. */
jit_status jitc_code_load(const jitc_blob *object, const char *entry, const jitc_resolver *resolver,
                          jitc_code *out);
void jitc_code_finish(jitc_code *c);
#endif
