/* symbols.h: external functions that generated code may call, found by name when code is loaded.
 * Layer: llvm.  May include: core.
 *
 * Vector math comes from SLEEF (libsleef.so.3), else from libmvec where its error is within the documented
 * bound, else from a scalar loop in this library. Kernel objects name the function, never its address, so
 * that they can be kept on disk; which library provides a function is part of the target's text. */
#ifndef JITC_LLVM_SYMBOLS_H
#define JITC_LLVM_SYMBOLS_H
#include "core/error.h"

typedef struct jitc_symbols jitc_symbols;

/** Opens the vector math libraries that are there (lazily: on the first use of a symbol). */
jit_status jitc_symbols_create(jitc_symbols **out);
void jitc_symbols_destroy(jitc_symbols *s);
/** Address of a function by name, for the loader; NULL if there is none. Any thread. */
void *jitc_symbols_find(jitc_symbols *s, const char *name);
/** Short text for the kernel cache's key: which vector library is there ("sleef3", "scalar"). Must be cheap
 *  to find out (no loading of large libraries). */
const char *jitc_symbols_describe(jitc_symbols *s);
#endif
