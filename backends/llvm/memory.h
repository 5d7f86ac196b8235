/* memory.h: vectors from and to arrays.  Layer: llvm.  May include: core, ir. */
#ifndef JITC_LLVM_MEMORY_H
#define JITC_LLVM_MEMORY_H
#include "llvm/emit.h"

/** The last vector of a range: the lanes that exist. */
typedef struct jitc_tail {
    LLVMValueRef count; /* i64, at most `lanes` */
    LLVMValueRef mask;  /* <n x i1> */
} jitc_tail;

/** Load a vector of elements; `tail`: only those lanes touch memory. NULL: all. */
LLVMValueRef jitc_emit_load(jitc_emit *e, jit_dtype type, LLVMValueRef pointer,
                            const jitc_tail *tail);
void jitc_emit_store(jitc_emit *e, jit_dtype type, LLVMValueRef pointer, LLVMValueRef value,
                     const jitc_tail *tail);
/** Ask for the line of the caches at an address, which need not be one. */
void jitc_emit_prefetch(jitc_emit *e, LLVMValueRef pointer);
/** One element in all lanes. */
LLVMValueRef jitc_emit_load_splat(jitc_emit *e, jit_dtype type, LLVMValueRef pointer);

/** An access by index. */
typedef struct jitc_lane_access {
    jit_dtype type; /* of the elements */
    bool far;       /* a gather loads one element after the other */
    jit_dtype index_type;
    bool wide;               /* the array may have more than 2^31 elements */
    LLVMValueRef base, size; /* ptr, i64 */
    LLVMValueRef index;      /* vector */
    LLVMValueRef active;     /* <n x i1>; NULL: all lanes */
    LLVMValueRef report;     /* ptr to a jitc_bounds_report; NULL: out of range is silent */
    uint32_t claim;          /* what to write into it */
} jitc_lane_access;

/** Lanes that are inactive or out of range read 0 and write nothing. */
LLVMValueRef jitc_emit_gather(jitc_emit *e, const jitc_lane_access *a);
void jitc_emit_scatter(jitc_emit *e, const jitc_lane_access *a, LLVMValueRef value);
/** An index that was checked: as 32 or 64 bits, and the lanes in which it is good. */
typedef struct jitc_checked {
    LLVMValueRef index, valid;
} jitc_checked;
jitc_checked jitc_emit_check(jitc_emit *e, const jitc_lane_access *a);
/** The addresses of the lanes' elements as <n x i64>, plus `spread`; those of lanes that are not
 * valid are on the stack, where they may write. */
LLVMValueRef jitc_emit_addresses(jitc_emit *e, const jitc_lane_access *a, const jitc_checked *c,
                                 LLVMValueRef spread);
#endif
