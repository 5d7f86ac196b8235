/* text_parts.h: what the texts of all shapes are put together from.
 * Layer: cuda.  May include: core, ir. */
#ifndef JITC_CUDA_TEXT_PARTS_H
#define JITC_CUDA_TEXT_PARTS_H
#include "cuda/expression.h"
#include "cuda/text.h"

/** A text as it is written. */
typedef struct jitc_cuda_body {
    jitc_cuda_writer w;
    const jitc_program *p;
    jitc_cuda_layout layout;
    const char *index; /* type of lane numbers: u32 or u64 */
    bool tail, wide;
    bool numbered; /* lanes need their number */
    /* Writes an instruction that combines lanes; not for programs of shape MAP. */
    void (*combine)(struct jitc_cuda_body *k, uint32_t inst);
} jitc_cuda_body;

static inline jit_dtype jitc_cuda_type_of(const jitc_inst *i) {
    return (jit_dtype) i->type;
}
/** A load or store of one element per lane? */
static inline bool jitc_cuda_is_vector(const jitc_inst *i) {
    return i->op == JITC_OP_store || (i->op == JITC_OP_data && !(i->flags & JITC_INST_SCALAR));
}
/** The parameter that points to the elements of such. */
static inline uint32_t jitc_cuda_pointer_of(const jitc_inst *i) {
    return i->op == JITC_OP_store ? i->b : i->a;
}
/** Computed once, before the lanes? */
bool jitc_cuda_is_early(const jitc_inst *i);
/** Work of one lane, in additions. */
uint64_t jitc_cuda_work_of(const jitc_program *p);

/** The parameters, the kernel's name and {, and n; `bounds` stands in front of the name. */
void jitc_cuda_put_head(jitc_cuda_body *k, const char *bounds);
/** Instructions, those that are early or the others. An element is read from r12.e[j] and written
 * there, or, with one element a thread, from memory at i. The number of the lane is i. */
void jitc_cuda_put_instructions(jitc_cuda_body *k, bool early);
/** All in their order, with one element a thread: as programs with loops want it. */
void jitc_cuda_put_all_instructions(jitc_cuda_body *k);
static inline bool jitc_cuda_has_loops(const jitc_cuda_body *k) {
    return k->p->head.flags & JITC_PROGRAM_LOOPS;
}
#endif
