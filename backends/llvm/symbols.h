/* symbols.h: external math functions that generated code may call, found by name when code is
 * loaded. Layer: llvm.  May include: core.
 *
 * Code names SLEEF's functions (`Sleef_sinf16_u10avx512f`), whether or not SLEEF is installed, and
 * never holds an address: objects can be kept on disk and are the same everywhere. Where
 * libsleef.so.3 or a function of it is missing, a function of this library takes the name: as
 * precise, but a loop over the lanes. */
#ifndef JITC_LLVM_SYMBOLS_H
#define JITC_LLVM_SYMBOLS_H
#include "core/error.h"

typedef struct jitc_symbols jitc_symbols;

/** Opens nothing yet: the library costs a third of a millisecond, and most kernels call none of it.
 */
jit_status jitc_symbols_create(jitc_symbols **out);
/** Code that calls the functions may still exist: the library stays in the process. */
void jitc_symbols_destroy(jitc_symbols *s);
/** Address of a function by name, for the loader; NULL if there is none. The first name of SLEEF's
 *  opens the library. Any thread. */
void *jitc_symbols_find(jitc_symbols *s, const char *name);
/** Only this library's own function: what jitc_symbols_find gives without SLEEF. */
void *jitc_symbols_substitute(const char *name);
/** Short text for the kernel cache's key: the functions that code may name. */
const char *jitc_symbols_describe(jitc_symbols *s);
#endif
