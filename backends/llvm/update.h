/* update.h: combining values into elements of arrays: functions that generated code calls, and
 * those that merge tables.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_UPDATE_H
#define JITC_LLVM_UPDATE_H
#include "ir/ir.h"

/** Combine `values` into the elements at the addresses `at`, in the order of the lanes, those whose
 * bit in `lanes` is set. `old`: NULL, or room for what was there before. `shared` not 0: others may
 * be doing the same. The type is that of the elements, by their bits. */
typedef void (*jitc_update)(const uint64_t *at, const void *values, void *old, uint64_t lanes,
                            uint64_t shared);
/** Combine `count` elements of a table into those of another. Elements that are still the identity
 * of jitc_update_identity() leave what is there untouched. */
typedef void (*jitc_merge)(void *to, const void *table, uint64_t count);

/** The function that generated code calls by the name "jitc_update_add_f32", or NULL. */
void *jitc_update_find(const char *name);
/** The name for an operation and a type; static text. */
const char *jitc_update_name(jit_reduce_op op, jit_dtype type);
jitc_merge jitc_merge_function(jit_reduce_op op, jit_dtype type);
/** What changes no element, not even the sign of a zero. */
uint64_t jitc_update_identity(jit_reduce_op op, jit_dtype type);
#endif
