/* api.h: the LLVM library, found cheaply and opened at run time.
 * Layer: llvm.  May include: core.
 *
 * Opening the library takes 11 to 25 ms, so only a compilation opens it; whether it is there is
 * found out by looking at files. Any version from 14 on may be opened, whichever version's headers
 * the library was built with: the functions used have the same signature in all of them. */
#ifndef JITC_LLVM_API_H
#define JITC_LLVM_API_H
#include "core/error.h"
#include "core/sync.h"
#include <llvm-c/Core.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>

/** The functions, each under its own name: `api->LLVMBuildCast(...)`. */
typedef struct jitc_llvm {
    unsigned version; /* major; 14 stands for 14 and 15 */
#define LLVM_FN(name) __typeof__(name) *name;
#include "llvm/api.def"
} jitc_llvm;

/** Where the library is, and the library itself once it has been opened. */
typedef struct jitc_llvm_library {
    char path[512];        /* a file, or a name for the dynamic linker */
    char fingerprint[160]; /* changes when the library does: for the kernel cache's key */
    jitc_mutex lock;       /* guards opening */
    atomic_bool opened;
    jitc_llvm api; /* valid once opened */
} jitc_llvm_library;

/** Find the library: `wanted` (a path or name; empty: the one known at build time, then the usual
 *  places and names). Does not open it if a file of that name is seen. JIT_UNAVAILABLE, with what
 *  was tried. */
jit_status jitc_llvm_library_init(jitc_llvm_library *l, const char *wanted);
/** The library stays in the process: it has no way to leave it. */
void jitc_llvm_library_finish(jitc_llvm_library *l);
/** The functions; opens the library on the first call. Any thread. JIT_UNAVAILABLE, with the file
 *  or the symbol that is missing. */
jit_status jitc_llvm_library_open(jitc_llvm_library *l, const jitc_llvm **out);
#endif
