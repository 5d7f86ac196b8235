/* block.h: blocks of memory of the process.  Layer: llvm.  May include: core. */
#ifndef JITC_LLVM_BLOCK_H
#define JITC_LLVM_BLOCK_H
#include <stddef.h>

/** A block of `bytes` bytes, aligned to 256; NULL if there is no memory. */
void *jitc_block_alloc(size_t bytes);
void jitc_block_free(void *pointer, size_t bytes);
#endif
