/* dlpack_world.h: tensors of ours, looked into as a consumer does.  Layer: tests. */
#ifndef JITC_TESTS_DLPACK_WORLD_H
#define JITC_TESTS_DLPACK_WORLD_H
#include "export/dlpack_abi.h"
#include "support.h"
#include <jit/dlpack.h>

#define B support_backend()

/** Defaults, but for the stream and what else is set: EXPORT_ON(0, .copy = 1). */
#define EXPORT_ON(...)                                                                             \
    (&(jit_export_options) {.struct_size = sizeof(jit_export_options), .stream = __VA_ARGS__})
/** Defaults, but for what is set. */
#define EXPORT_WITH(...) EXPORT_ON(JIT_STREAM_NOT_GIVEN, __VA_ARGS__)

/** Either struct. */
typedef struct tensor {
    DLManagedTensorVersioned *versioned; /* NULL: the other one */
    DLManagedTensor *legacy;
} tensor;

/** Export that must succeed; options NULL: the defaults. */
tensor dlpack_export(jit_var v, bool legacy, const jit_export_options *options);
/** Export that must fail with this status, a text that has `words` in it, and no tensor. */
void dlpack_refuse(jit_var v, bool legacy, const jit_export_options *options, jit_status status,
                   const char *words);
DLTensor *dlpack_tensor(const tensor *t);
/** The flags READ_ONLY and IS_COPIED; 0 for the struct without. */
uint64_t dlpack_flags(const tensor *t);
/** Call the deleter. */
void dlpack_delete(tensor *t);

/** The first elements, as bits, wherever the memory is; free(). */
uint64_t *dlpack_read(const tensor *t, size_t n);
/** What consumers write into the first element. */
void dlpack_write(const tensor *t, uint64_t bits);

/** An evaluated u32 array: first, first + 1, ... */
jit_var dlpack_ramp(size_t n, uint32_t first);
/** The elements of a u32 variable are first, first + 1, ..., but for *other if it is not NULL,
 * which is element 0. */
void dlpack_expect(jit_var v, size_t n, uint32_t first, const uint32_t *other);
jit_stats dlpack_stats(void);
#endif
