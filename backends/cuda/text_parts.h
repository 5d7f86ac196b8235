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
    bool repeats;  /* lanes that are not `live` repeat another one, without effects */
    /* Writes an instruction that combines lanes, or a scatter_reduce. */
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
/** Bytes that so many lanes load, one element each. */
uint32_t jitc_cuda_bytes_read(const jitc_program *p, uint32_t lanes);

/** An access of instruction `inst` to `buffer`, at the value `index`, under the value `mask`. */
typedef struct jitc_cuda_access {
    uint32_t inst, buffer, index, mask;
    bool masked, wide, early;
} jitc_cuda_access;

/** `index` may be a `masked`. */
jitc_cuda_access jitc_cuda_access_of(const jitc_cuda_body *k, uint32_t inst, uint32_t buffer,
                                     uint32_t index);
/** The type in which its index is compared and added: u32 or u64. */
const char *jitc_cuda_index_type(const jitc_cuda_access *a);
/** Define k<inst>: is it to be made? With BOUNDS, report what is out of range. */
void jitc_cuda_put_check(jitc_cuda_body *k, const jitc_cuda_access *a);
/** Its element as a pointer. */
void jitc_cuda_put_element(jitc_cuda_body *k, const jitc_cuda_access *a, const char *qualifier);

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
