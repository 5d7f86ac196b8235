/* text_sum.h: how values are combined in a text.  Layer: cuda.  May include: core, ir.
 *
 * Of instruction 12 that combines lanes, the text calls
 *
 *   op12   the function of two values        s12   memory of the block for one value of each warp
 *   a12    what this thread has combined     x12   the value of the lane */
#ifndef JITC_CUDA_TEXT_SUM_H
#define JITC_CUDA_TEXT_SUM_H
#include "cuda/text_parts.h"

/** What combines elements. */
typedef struct jitc_cuda_sum {
    jit_reduce_op op;
    jit_dtype element, type; /* in memory; in which they are combined */
} jitc_cuda_sum;

jitc_cuda_sum jitc_cuda_sum_of(const jitc_inst *i);
/** Is the order without influence on the result? */
bool jitc_cuda_is_exact(const jitc_cuda_sum *s);
/** Define T op12(T, T) of instruction 12. */
void jitc_cuda_put_operator(jitc_cuda_body *k, uint32_t n);
/** The element that changes none, as an expression. */
void jitc_cuda_put_identity(jitc_cuda_body *k, uint32_t n);
/** Expression `value`, of the type of values, as what is combined, and back. */
void jitc_cuda_put_widened(jitc_cuda_body *k, uint32_t n, const char *value);
void jitc_cuda_put_narrowed(jitc_cuda_body *k, uint32_t n, const char *value);

static inline bool jitc_cuda_combines(const jitc_inst *i) {
    return i->op == JITC_OP_reduce || i->op == JITC_OP_block_reduce ||
           i->op == JITC_OP_prefix_reduce || i->op == JITC_OP_compress;
}
/** For each instruction n of the program k->p that combines lanes. */
#define JITC_CUDA_FOR_SUMS(k, n)                                                                   \
    for (uint32_t n = 0; n < (k)->p->head.count; ++n)                                              \
        if (jitc_cuda_combines(&(k)->p->inst[n]))

/** The type in which it is combined. */
const char *jitc_cuda_sum_type(jitc_cuda_body *k, uint32_t n);
/** For all: the operators, in front of the kernel; s12; a12, which is the identity. */
void jitc_cuda_put_operators(jitc_cuda_body *k);
void jitc_cuda_put_shared_sums(jitc_cuda_body *k, uint32_t warps);
void jitc_cuda_put_first_sums(jitc_cuda_body *k, uint32_t step_log);
/** x12, which is the identity. */
void jitc_cuda_put_lane_identities(jitc_cuda_body *k);
/** x12 is the value of instruction n = 12. */
void jitc_cuda_put_lane_value(jitc_cuda_body *k, uint32_t n);
/** Add x12 to a12. Sums of floats: as leaf number `step` of a balanced tree of 2^step_log, which is
 * added when it is whole. */
void jitc_cuda_put_lane_sums(jitc_cuda_body *k, uint32_t step_log);
/** Combine a12 of all threads of the block into that of thread 0, in a fixed order. */
void jitc_cuda_put_block_sums(jitc_cuda_body *k, uint32_t warps);

/** How several blocks combine what each has found; expressions of the text. */
typedef struct jitc_cuda_exchange {
    const char *count; /* of those who combine */
    const char *first; /* place of the first of them in memory, and the block's own */
    const char *own;
    const char *ticket; /* which one they draw */
    uint32_t threads;   /* of a block */
} jitc_cuda_exchange;
/** Thread 0 leaves a12 in memory; the block that is last goes on with what all have left there, in
 * their order, which its threads share; the others end. Scratch memory: (u64) a12 of all, tickets,
 * which are 0 before and after. */
void jitc_cuda_put_exchange(jitc_cuda_body *k, const jitc_cuda_exchange *x);
/** Where `condition` holds, store a12 as element `place` of its output. */
void jitc_cuda_put_results(jitc_cuda_body *k, const char *condition, const char *place);
#endif
