/* accumulate.h: words for code that combines lanes.  Layer: llvm.  May include: core, ir.
 *
 * Elements are combined in another type than they have in memory: f16 and bf16 as f32, bool as u8,
 * of 0 and 1. Sums of floats start at -0, which, unlike 0, changes no element. */
#ifndef JITC_LLVM_ACCUMULATE_H
#define JITC_LLVM_ACCUMULATE_H
#include "llvm/builder.h"

/** Lanes that are combined in one order, whoever does it; they start at multiples of it. */
enum { JITC_CHUNK = 16384 };
/** Vectors that are combined side by side. Part of the order: number of the vector modulo it. */
enum { JITC_ACCUMULATORS = 4 };

/** What one instruction combines. */
typedef struct jitc_combining {
    uint32_t value; /* the instruction of what is combined */
    uint32_t out;   /* the parameter of the result */
    jit_reduce_op op;
    jit_dtype type; /* of the elements */
    jit_dtype sum;  /* in which they are combined */
} jitc_combining;

jitc_combining jitc_combining_of(const jitc_inst *i);
jit_dtype jitc_accumulator_type(jit_dtype t);
/** Bits that change no element, in the type in which elements of type t are combined. */
uint64_t jitc_accumulator_neutral(jit_reduce_op op, jit_dtype t);

/** A constant of the accumulator's type in all lanes. */
LLVMValueRef jitc_emit_bits(jitc_emit *e, jit_dtype type, uint64_t bits);
LLVMValueRef jitc_emit_neutral(jitc_emit *e, const jitc_combining *c);
/** Elements to what is combined, and back, rounded. The elements of a bool are bytes then. */
LLVMValueRef jitc_emit_to_sum(jitc_emit *e, const jitc_combining *c, LLVMValueRef v);
LLVMValueRef jitc_emit_from_sum(jitc_emit *e, const jitc_combining *c, LLVMValueRef v);
/** The element type as which from_sum()'s results are stored. */
jit_dtype jitc_stored_type(const jitc_combining *c);
LLVMValueRef jitc_emit_combine(jitc_emit *e, const jitc_combining *c, LLVMValueRef a,
                               LLVMValueRef b);
/** Lane i is lane from[i] of a, or, from `lanes` on, of b; -1: any. */
LLVMValueRef jitc_emit_shuffle(jitc_emit *e, LLVMValueRef a, LLVMValueRef b, const int *from);
/** One lane in all. */
LLVMValueRef jitc_emit_spread(jitc_emit *e, LLVMValueRef v, unsigned lane);
/** The lanes below `end` of the vector that starts at lane `first`, which may be behind it. */
jitc_tail jitc_build_tail_at(jitc_builder *k, LLVMValueRef first, LLVMValueRef end);
/** All lanes of four vectors combined, as a scalar. */
LLVMValueRef jitc_emit_total(jitc_emit *e, const jitc_combining *c, const LLVMValueRef *v);
#endif
