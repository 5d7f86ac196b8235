/* helpers.h: scalar functions that generated code calls where there is no instruction.
 * Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_HELPERS_H
#define JITC_LLVM_HELPERS_H

/** Address of a helper by name, for the loader; NULL if there is none. Any thread. */
void *jitc_helper_find(const char *name);
#endif
